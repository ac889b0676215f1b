"""The guide's loader is real: it runs, keeps to the contract, and goes by its name once it is registered."""

from __future__ import annotations

import hashlib
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jgleak.datasets import load, names
from jgleak.datasets.registry import SETS, GraphSet
from tests.datasets.test_contract import keeps_to_the_contract

GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-dataset.md"
TEXT = "beads,strong\nred green blue,1\nred red,0\ngreen,\nblue blue green red,1\n"


def run() -> dict[str, Any]:
    """What the guide's blocks, one after the other, leave behind."""
    made: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, str(GUIDE), "exec"), made)
    return made


@pytest.fixture
def guide() -> dict[str, Any]:
    return run()


def test_the_loader_does_what_the_guide_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert run()["CHECKSUM"] == hashlib.sha256(TEXT.encode()).hexdigest()
    wanted = re.findall(r"^print\(.*\)  # (.*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == wanted and len(wanted) == 2


def test_it_keeps_to_the_contract_under_its_name(
    guide: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETS, "chains", GraphSet(guide["chains"]))
    (tmp_path / "chains.csv").write_text(TEXT)
    keeps_to_the_contract(partial(load, "chains", path=tmp_path), rows=4, kept=3)
    assert "chains" in names() and [g.n for g in load("chains", path=tmp_path, max_nodes=3).graphs] == [3, 2]


def test_a_faulty_row_is_named(guide: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "chains.csv").write_text("beads,strong\nred,1\npink,0\n")
    with pytest.raises(ValueError, match=r"chains\.csv, row 3: not a chain"):
        guide["chains"](path=tmp_path)
