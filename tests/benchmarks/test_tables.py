"""The paper's numbers beside ours: rows and attacks that exist, records that merge, and finished runs read in."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from benchmarks.lib.page import interval
from benchmarks.papers import tables
from benchmarks.papers.grain import page as grain_page
from benchmarks.papers.grain import rows as grain_rows
from benchmarks.papers.grain.methods import METHODS, identify
from benchmarks.papers.grain.records import printed, rates
from benchmarks.papers.grain.rivals import BY_LBFGS, LBFGS, NAMES, RIVALS, TOX21
from benchmarks.papers.grain.rows import Printed, Row
from jgleak.audit.experiment import run
from jgleak.audit.record import result_record, summary_record
from jgleak.audit.specification import Specification

TINY = Specification(hidden=8, max_nodes=8)
ROWS = (
    Row("a", "First", "Table 1", Printed(50.0, 40.0, 30.0, 20.0, 1.0, graphs=2), TINY),
    Row("b", "Second", "Table 1", Printed(), dataclasses.replace(TINY, dataset="bbbp", path="nowhere")),
    Row("c", "Third", "Table 2", Printed(), dataclasses.replace(TINY, readout="pooled", pooling="max")),
)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    monkeypatch.setitem(tables.PAPERS, "grain", tables.PAPERS["grain"]._replace(rows=ROWS))
    monkeypatch.setattr(tables, "RESULTS", folder)
    return folder


def run_tables(*arguments: str) -> Result:
    return CliRunner().invoke(tables.app, ["grain", *arguments])


def finished_run(path: Path, specification: Specification, **changes: object) -> Path:
    """What ``jgleak attack --json`` prints, by an attack that needs no time; ``changes`` go into every client."""
    quick = dataclasses.replace(specification, attack="empty", know=("n",))
    clients = [result_record(result, quick) | changes for result in run(quick)]
    lines = [*clients, {"summary": summary_record(clients, specification)}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_rows_and_attacks_are_named_once_and_told_apart() -> None:
    names = [row.name for row in grain_rows.ROWS]
    assert len(set(names)) == len(names)
    assert {"clintox-gcn", "freesolv-gcn"} < set(names)
    assert all(name in names for group in grain_rows.SIZES for name in group.rows)
    for row in grain_rows.ROWS:
        for method in METHODS:
            specification = method.specification(row)
            assert specification is None or identify(specification, grain_rows.ROWS) == (row, method)
    seventh = METHODS[0].specification(grain_rows.ROWS[0])
    assert seventh is not None
    assert identify(dataclasses.replace(seventh, seed=7), grain_rows.ROWS)[0] is grain_rows.ROWS[0]


def test_every_ranking_is_run_where_it_differs() -> None:
    rows = {row.name: row for row in grain_rows.ROWS}
    census = [method for method in METHODS if method.attack == "census"]
    told = {name: [m.specification(rows[name]) for m in census] for name in ("freesolv-gcn", "citeseer-gcn")}
    assert [s and (s.prior, s.know) for s in told["freesolv-gcn"]] == [
        (prior, know) for know in ((), ("n",)) for prior in ("auto", "plain", "none")
    ]
    assert [s and s.prior for s in told["citeseer-gcn"]] == ["auto", None, "none"] * 2
    node = census[0].specification(rows["tox21-node"])
    assert node is not None and node.know == ("labels",)


def test_the_paper_s_search_stands_where_nodes_differ() -> None:
    rows = {row.name: row for row in grain_rows.ROWS}
    (glued,) = (method for method in METHODS if method.name == "grain-glued")
    asked = {name: glued.specification(rows[name]) for name in ("tox21-gcn", "pokec-gat", "citeseer-gat-no-heuristic")}
    assert [name for name, one in asked.items() if one is not None] == ["pokec-gat"]


def test_rivals_stand_where_the_paper_has_them_beside_their_own_numbers() -> None:
    rows = {row.name: row for row in grain_rows.ROWS}
    assert set(RIVALS) <= set(rows) and all(tuple(lines) == NAMES for lines in RIVALS.values())
    assert set(BY_LBFGS) | set(TOX21) <= set(RIVALS) and all(tuple(lines) == LBFGS for lines in BY_LBFGS.values())
    dlg, told, slow = (method for method in METHODS if method.name in ("dlg", "dlg-a", "tableak-a-lbfgs"))
    assert slow.specification(rows["clintox-gcn"]) is None
    asked = slow.specification(rows["pokec-gat"])
    assert asked is not None and (asked.attack, asked.options) == ("tableak", (("optimiser", "lbfgs"),))
    assert printed(rows["pokec-gat"], slow.name)["gsm2"] == 0.827
    assert printed(rows["pokec-gat"], slow.name)["hours_per_100"] == pytest.approx(254.5 * 100 / 60)
    assert printed(rows["tox21-gcn"], slow.name) == printed(rows["tox21-gcn"], "tableak-a")
    assert dlg.specification(rows["freesolv-gcn"]) is None
    asked = told.specification(rows["tox21-gcn"])
    assert asked is not None and (asked.attack, asked.know) == ("dlg", ("n", "adjacency"))
    assert (
        printed(rows["tox21-gcn"], "dlg-a")["gsm1"] == 0.601 and printed(rows["tox21-gcn"], "census")["exact"] == 0.68
    )
    assert printed(rows["tox21-l4"], "tableak")["hours_per_100"] is None


def test_one_object_a_row_and_attack(results: Path) -> None:
    result = run_tables("--rows", "a,b", "--attacks", "random,empty", "--json")
    assert result.exit_code == 0, result.output
    first, second, third = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(r["row"], r["attack"]) for r in (first, second, third)] == [("a", "random"), ("a", "empty"), ("b", None)]
    assert second["paper"] == {"exact": 0.2, "gsm0": 0.5, "gsm1": 0.4, "gsm2": 0.3, "hours_per_100": 50.0}
    assert second["graphs"] == len(second["clients"]) == second["by_size"]["<=15"]["graphs"] == 2
    assert second["rates"]["exact"] == {"mean": 0.0, "low": 0.0, "high": pytest.approx(1 - 0.025**0.5)}
    assert second["specification"]["know"] == ["n"]
    assert "bbbp" in third["absent"].lower()
    assert not results.exists()


def test_an_attack_that_cannot_work_here_costs_no_other(results: Path) -> None:
    result = run_tables("--rows", "c", "--attacks", "census,empty", "--graphs", "2", "--json")
    census, empty = [json.loads(line) for line in result.stdout.splitlines()]
    assert "adds up over nodes" in census["absent"] and empty["graphs"] == 2


def test_written_records_are_merged_and_rendered(results: Path) -> None:
    for attacks in ("random", "mean-adjacency,empty", "random"):
        assert run_tables("--rows", "a,b", "--attacks", attacks, "--write").exit_code == 0
    stored = [json.loads(line) for line in (results / "grain.jsonl").read_text().splitlines()]
    assert [(r["row"], r["attack"]) for r in stored] == [("a", "random"), ("a", "empty"), ("a", "mean-adjacency")]
    text = (results / "grain.md").read_text()
    order = [
        text.index(part) for part in ("**First**", "| paper |  | 50.0 | 40.0 | 30.0 | 20.0 |", "baseline: empty (2")
    ]
    assert order == sorted(order)
    assert "Not run: `b`, `c`." in text


def test_both_definitions_of_gsm0_stand_in_the_table(results: Path) -> None:
    assert run_tables("--rows", "a", "--attacks", "empty", "--write").exit_code == 0
    (stored,) = [json.loads(line) for line in (results / "grain.jsonl").read_text().splitlines()]
    f1, recall = (interval(stored["rates"][name]) for name in ("gsm0", "gsm0_recall"))
    assert f1 != recall
    assert f"| baseline: empty (2 graphs) | {f1} | {recall} | " in (results / "grain.md").read_text()
    early = {name: rate for name, rate in stored["rates"].items() if name != "gsm0_recall"}
    *_, line = grain_page.results(ROWS, [stored | {"rates": early}], grain_page.mean)
    assert line[1] == grain_page.mean(stored["rates"]["gsm0"]) and line[2] == ""


def test_a_printed_table_has_the_columns_with_entries_below_each_title() -> None:
    lines = [("**First** (Table 1)", "", ""), ("empty", "0.5", ""), ("**Second**", "", ""), ("dlg", "", "0.25")]
    paper = SimpleNamespace(head=("", "AUC", "MSE"), lines=lambda rows, records: lines)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(tables._table(paper, (), ()))  # pyright: ignore[reportArgumentType, reportPrivateUsage]
    text = [line.split() for line in console.export_text().splitlines() if line.strip(" ─")]
    assert text == [["First", "(Table", "1)"], ["AUC"], ["empty", "0.5"], ["Second"], ["MSE"], ["dlg", "0.25"]]


def test_finished_runs_are_read_and_not_repeated(results: Path, tmp_path: Path) -> None:
    unique = {"certificate": {"status": "unique", "size": 1}, "exact": True, "seconds": 72.0}
    specification = dataclasses.replace(TINY, graphs=2, seed=3, time_limit=99.0)
    file = finished_run(tmp_path / "run.jsonl", specification, **unique)
    assert run_tables("--from", str(file), "--write").exit_code == 0
    (stored,) = [json.loads(line) for line in (results / "grain.jsonl").read_text().splitlines()]
    assert (stored["row"], stored["attack"], stored["seed"], stored["graphs"]) == ("a", "census", 3, 2)
    assert stored["rates"]["exact"] == {"mean": 1.0, "low": pytest.approx(0.025**0.5), "high": 1.0}
    assert stored["hours_per_100"] == pytest.approx(2.0)
    text = (results / "grain.md").read_text()
    assert "| 0.0 [0.0, 84.2] | 100.0 [15.8, 100.0] | 0 of 2 | 2.0 |" in text, "a guess, unique, wrong, hours"
    assert "| `a` | census | 2 | first | 99 | 3 |" in text
    assert "| `a` | <=15 |  | - | 100.0 [15.8, 100.0] of 2 | - | - | - | - | - |" in text


def test_unique_and_wrong_are_counted() -> None:
    base = {"gsm0": 0.5, "gsm1": 0.5, "gsm2": 0.5}
    kinds = [("unique", True), ("unique", False), ("k_graphs", False), (None, False)]
    clients = [base | {"certificate": s, "exact": e, "truth_in_set": e or s == "k_graphs"} for s, e in kinds]
    found = rates(clients)
    assert (found["unique_count"], found["unique_wrong"], found["graphs"]) == (2, 1, 4)
    assert (found["unique"]["mean"], found["truth_in_set"]["mean"], found["exact"]["mean"]) == (0.5, 0.5, 0.25)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda lines: lines[:-1], "wait until the run has ended"),
        (lambda lines: lines[1:], "1 of 2 clients"),
        (lambda lines: [line.replace("truth_in_set", "elsewhere") for line in lines], "truth_in_set"),
        (lambda lines: [line.replace('"hidden": 8', '"hidden": 9') for line in lines], "hidden is 9, there 8"),
        (lambda lines: ["not JSON"], "line 1"),
    ],
)
def test_files_that_measure_nothing(results: Path, tmp_path: Path, change, hint: str) -> None:
    file = finished_run(tmp_path / "run.jsonl", dataclasses.replace(TINY, attack="empty", know=("n",), graphs=2))
    assert run_tables("--from", str(file)).exit_code == 0
    file.write_text("\n".join(change(file.read_text().splitlines())))
    result = run_tables("--from", str(file))
    assert result.exit_code == 2
    assert hint in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "hint"), [(("--rows", "d"), "a, b, c"), (("--attacks", "glg"), "grain, census"), (("x",), "x")]
)
def test_unknown_names(results: Path, arguments: tuple[str, ...], hint: str) -> None:
    result = run_tables(*arguments)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_an_unknown_paper() -> None:
    result = CliRunner().invoke(tables.app, ["nothing"])
    assert result.exit_code == 2 and "grain" in result.stderr
