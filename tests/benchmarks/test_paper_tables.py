"""The paper's numbers beside ours: rows that exist, one JSON object a row, and pages that grow row by row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import grain_rows
import paper_tables
from grain_rows import Printed, Row
from jgleak.audit.specification import Specification

TINY = Specification(attack="empty", hidden=8, max_nodes=8)
ROWS = (
    Row("a", "First", "Table 1", Printed(50.0, 40.0, 30.0, 20.0, 1.0, graphs=2), TINY),
    Row("b", "Second", "Table 1", Printed(), Specification(dataset="bbbp", path="nowhere")),
    Row("c", "Third", "Table 2", Printed(), missing="nobody wrote it"),
)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(paper_tables.PAPERS, "grain", ROWS)
    monkeypatch.setattr(paper_tables, "RESULTS", tmp_path)
    return tmp_path


def tables(*arguments: str) -> Result:
    return CliRunner().invoke(paper_tables.app, list(arguments))


def test_every_row_is_named_once_and_sized_rows_exist() -> None:
    names = [row.name for row in grain_rows.ROWS]
    assert len(set(names)) == len(names)
    assert all(name in names for group in grain_rows.SIZES for name in group.rows)
    assert all((row.experiment is None) == bool(row.missing) for row in grain_rows.ROWS)


def test_one_object_a_row(results: Path) -> None:
    result = tables("grain", "--json")
    assert result.exit_code == 0, result.output
    first, second, third = [json.loads(line) for line in result.stdout.splitlines()]
    assert first["paper"] == {"exact": 0.2, "gsm0": 0.5, "gsm1": 0.4, "gsm2": 0.3, "hours_per_100": 50.0}
    assert first["graphs"] == len(first["clients"]) == 2
    assert set(first["baselines"]) == {"random", "empty", "mean-adjacency"}
    assert first["ours"]["exact"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert first["by_size"]["<=15"]["graphs"] == 2
    assert "bbbp" in second["absent"].lower() and third["absent"] == "nobody wrote it"
    assert not list(results.iterdir())


def test_written_rows_are_merged_and_rendered(results: Path) -> None:
    for rows in ("c", "a", "a"):
        assert tables("grain", "--rows", rows, "--write").exit_code == 0
    stored = [json.loads(line)["row"] for line in (results / "grain.jsonl").read_text().splitlines()]
    assert stored == ["a", "c"]
    page = (results / "grain.md").read_text()
    assert "| paper | 50.0 | 40.0 | 30.0 | 20.0 | 50.0 |" in page
    assert "nobody wrote it" in page and "baseline: mean-adjacency" in page


@pytest.mark.parametrize(("arguments", "hint"), [(("nothing",), "grain"), (("grain", "--rows", "d"), "a, b, c")])
def test_unknown_names(results: Path, arguments: tuple[str, ...], hint: str) -> None:
    result = tables(*arguments)
    assert result.exit_code == 2
    assert hint in result.stderr
