"""README, docs and results pages have the numbers of the records, and everything that is not run has a reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import check
from benchmarks.papers.missing import Cell, Reason, missing, reasons, stored
from benchmarks.quotes import numbers
from benchmarks.quotes.passages import Page, Quote, checked, filled, pages

ROOT = Path(__file__).parents[2]

RATE = {"mean": 0.9449, "low": 0.0, "high": 1.0}


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that stand nowhere else."""
    records = {"a": {"row": "a", "exact": RATE, "few": [3, 0]}, "b/1": {"row": "b/1", "exact": RATE}}
    monkeypatch.setattr(numbers, "_stored", lambda file: records)


def test_the_pages_have_the_numbers_of_the_records() -> None:
    found = CliRunner().invoke(check.app, ["--quick"])
    assert found.exit_code == 0, found.output
    assert "not recorded" not in found.output, "every record has its command, digest and date"
    assert "neither" not in found.output


@pytest.mark.slow
def test_pages_with_intervals_are_what_the_records_make_and_the_file_runs_by_its_path() -> None:
    run = subprocess.run([sys.executable, "benchmarks/check.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_one_changed_number_is_found_and_put_right(tmp_path: Path) -> None:
    for name in {page.page for page in pages()} | {one.page for one in check.GENERATED}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    readme, batches = tmp_path / "README.md", tmp_path / "benchmarks/results/batches.md"
    right, made = readme.read_text(), batches.read_text()
    readme.write_text(right.replace("97 % [91, 99]", "98 % [91, 99]", 1))
    batches.write_text(made.replace("19 of 20", "20 of 20", 1))
    problems = check.compared(quick=True, root=tmp_path)
    assert len(problems) == 2, problems
    first, second = problems
    assert "batches.md" in first and "20 of 20" in first
    assert "README.md" in second and "98 % [91, 99]" in second and "97 % [91, 99]" in second
    check.compared(write=True, quick=True, root=tmp_path)
    assert (readme.read_text(), batches.read_text()) == (right, made)


def test_numbers_are_written_as_asked(two: None) -> None:
    text = "{x/a:exact:share}, {x/a:exact:interval}, {x/a:exact:percent1}, {x/a:exact:dot3}, {x/a:exact:.2f}."
    with pytest.raises(KeyError, match="no record 'a'"):
        filled(text)
    assert filled(text.replace("x/", "batches/")) == "94 %, 94 % [0, 100], 94.5, .945, 0.94."
    assert filled("{batches/a:few.0:d} {batches/a:few.1:short2} {batches/b/1:exact:from1}") == "3 0 .0 to 1.0"
    assert numbers.shown(-0.0714, "dot3") == "-.071" and numbers.shown(10.5, "dot1") == "10.5"
    assert numbers.shown(4.1e-7, "exp1") == "4.1e-7" and numbers.shown(2.5e10, "exp1") == "2.5e10"
    assert filled("{batches/*:exact:from2}") == ".94 to .94"
    with pytest.raises(KeyError, match="no record like"):
        filled("{batches/c*:exact:from2}")
    with pytest.raises(KeyError, match="no field 'exact.none'"):
        filled("{batches/a:exact.none:d}")


def test_two_attacks_are_compared_client_by_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def clients(*values: float | None) -> dict[str, object]:
        graphs = [{"graph": graph, "AUC": value, "accuracy": value} for graph, value in enumerate(values)]
        return {"clients": graphs, "specification": {"batch_size": 1}}

    stored = {"r/one": clients(0.9, 0.7, None), "r/two": clients(0.5, 0.5, 0.1)}
    monkeypatch.setattr(numbers, "_stored", lambda file: stored)
    numbers._differences.cache_clear()
    pair = "fedgig/r/one less r/two"
    assert filled(f"{{{pair}:clients:d}}: {{{pair}:one.AUC:.2f}}, {{{pair}:less.AUC:.2f}}.") == "2: 0.80, 0.30."
    numbers._differences.cache_clear()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("| a | 95 % |", "has '| a | 95 % |', the records '| a | 94 % |'"),
        ("| a | 94 % |\n\n| a | 94 % |", "stands there 2 times"),
        ("| b | 94 % |", "stands there 0 times"),
        ("| a | 94 % |\n\n| what | number |\n|---|---|\n| else | 3 |", "neither record nor reason: | else | 3 |"),
    ],
)
def test_what_is_wrong_on_a_page_is_said(two: None, text: str, hint: str) -> None:
    page = Page("page.md", (Quote("page.md", "| a | {batches/a:exact:share} |"),), {"| known |": "why"})
    _, problems = checked(page, text)
    assert any(hint in problem for problem in problems), problems
    between = Page("page.md", (Quote("page.md", "of them; {batches/a:exact:share} of"),), {})
    assert (
        checked(between, "of them; then of others, of them; 95 % of")[0] == "of them; then of others, of them; 94 % of"
    )
    known = "| a | 94 % |\n\n| known |\n|---|\n| else | 3 |"
    assert checked(page, known) == (known, [])
    assert checked(page, "| a | 94 % |")[1] == ["page.md: no table begins with '| known |'"]


def test_a_page_of_results_needs_a_file_of_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(check.unlisted()) == []
    monkeypatch.setattr(check, "pages", lambda: [])
    assert [line.partition(":")[0] for line in check.unlisted()][:2] == ["README.md", "docs/results/defenses.md"]


def test_a_cell_has_a_record_or_a_reason_and_a_reason_has_a_cell() -> None:
    records, named = stored(), reasons()
    cells, problems = missing(records, named)
    assert not problems and all(cells.values())
    fewer = {paper: [one for one in lines if one["row"] != "mutag"] for paper, lines in records.items()}
    _, problems = missing(fewer, named)
    assert any("fedgig: mutag, census: neither a record nor a reason" in problem for problem in problems)
    stale = Reason("fedgig", ("nci1",), ("*",), "no time")
    _, problems = missing(records, [*named, stale])
    assert len(problems) == 1 and "nothing is missing of fedgig, nci1" in problems[0]
    assert stale.covers(Cell("fedgig", "nci1", "dlg")) and not stale.covers(Cell("glg", "nci1", "dlg"))
