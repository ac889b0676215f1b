"""``jgleak report`` on a store that ``jgleak audit`` wrote, and on what is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from jgleak.cli import app

GRID = """
name = "a small one"
[[data]]
dataset = "embedded"
graphs = 2
max_nodes = 6
[[model]]
layers = 1
hidden = 4
readout = "pooled"
[[attack]]
attack = "random"
know = ["n"]
"""


def jgleak(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def one_error(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert result.stdout == "" and result.stderr.count("\n") == 1 and result.stderr.startswith("error: ")
    return result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of two clients by guessing."""
    place = tmp_path_factory.mktemp("report")
    (place / "grid.toml").write_text(GRID)
    assert jgleak("audit", place / "grid.toml", "--out", place / "store").exit_code == 0
    return place / "store"


def test_both_formats_by_default(folder: Path) -> None:
    result = jgleak("report", folder)
    assert result.exit_code == 0, result.output
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    assert "a small one" in page and text.startswith("# a small one")
    assert page.count('class="pair"') == 2 and "no picture" not in page
    assert "2 of 2 planned attacks on single graphs ended" in page and "2 of 2 planned" in text


def test_one_file_without_pictures(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "new" / "shared.html"
    result = jgleak("report", folder, "--out", file, "--no-pictures")
    assert result.exit_code == 0 and result.stdout == f"wrote {file}\n"
    assert 'class="pair"' not in file.read_text() and [one.name for one in file.parent.iterdir()] == ["shared.html"]


def test_mistakes(folder: Path, tmp_path: Path) -> None:
    """No store, a folder that is none, a store cut short, another suffix, a place that takes no file."""
    assert "holds no audit.sqlite" in one_error(jgleak("report", tmp_path))
    assert "missing does not exist; give a folder" in one_error(jgleak("report", tmp_path / "missing"))
    assert f"{Path(__file__)} is no folder; give a folder" in one_error(jgleak("report", Path(__file__)))
    assert not (tmp_path / "missing").exists()
    assert "suffix" in one_error(jgleak("report", folder, "--out", tmp_path / "report.pdf"))
    (tmp_path / "file").write_text("")
    assert "cannot write" in one_error(jgleak("report", folder, "--out", tmp_path / "file" / "report.html"))
    (tmp_path / "folder.html").mkdir()
    assert "cannot write" in one_error(jgleak("report", folder, "--out", tmp_path / "folder.html"))


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", b"no database at all, but long enough" * 40])
def test_a_store_cut_short(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "audit.sqlite").write_bytes(content)
    assert "audit.sqlite" in one_error(jgleak("report", tmp_path))
    assert not (tmp_path / "report.html").exists()
