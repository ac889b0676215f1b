"""GLG's and FedGIG's tables: every row can be run as it is written, and claims are checked against the truth."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.lib.records import RESULTS, read
from benchmarks.papers import registry, tables
from benchmarks.papers.defenses import plots as defense_plots
from benchmarks.papers.defenses import utility as defense_utility
from benchmarks.papers.defenses.rows import DEFENSES
from benchmarks.papers.edges import records as edge_records
from benchmarks.papers.edges.page import differences, shortfalls
from benchmarks.papers.edges.records import claim
from benchmarks.papers.edges.table import Attacker, Column, Line, Table
from benchmarks.papers.fedgig.rows import FEDGIG
from benchmarks.papers.glg import molecules as glg_molecules
from benchmarks.papers.glg import sweeps as glg_sweeps
from benchmarks.papers.glg.rows import COLUMNS, GLG
from benchmarks.papers.graphdlg.rows import GRAPHDLG
from jgleak.attacks.attack import Reconstruction
from jgleak.attacks.matching.glg import Penalty
from jgleak.attacks.registry import get_attack
from jgleak.audit.specification import Specification
from jgleak.datasets import tasks
from jgleak.federated.rounds import TrainingPlan
from jgleak.graph import Graph
from jgleak.metrics import clustered, rate

SMALL = Specification(
    dataset="synthetic-glg", graphs=2, max_nodes=8, model="sage", hidden=12, activation="sigmoid", last_activation=True,
    bias=True, loss="ce", normalise=False, node_task=True, readout="node_scores", protocol="node_losses", know=("n",),
)  # fmt: skip
TINY = Table(
    "GLG, tiny",
    "About.",
    (
        Line(
            "c",
            "attacker c",
            "Table 4",
            {"closed-form": {"RNMSE": 0.002}},
            SMALL,
            ("closed-form", "node-2"),
            ("RNMSE", "AUC"),
        ),
        Line("absent", "no data", "Table 5", {}, dataclasses.replace(SMALL, path="nowhere"), ("node-2",), ("AUC",)),
    ),
    (
        Attacker("closed-form", "closed form", "closed-form"),
        Attacker("node-2", "iterative", "glg-node-2", options=(("steps", "50"),)),
    ),
    [column for column in COLUMNS if column.title in ("RNMSE", "AUC")],
)


def test_graphdlg_counts_all_entries_as_the_paper_does() -> None:
    """Stored accuracies of edges are those of pairs with a right diagonal, of every graph's own size."""
    lines = (tables.RESULTS / "graphdlg.jsonl").read_text().splitlines()
    compared = 0
    for record in (record for record in map(json.loads, lines) if "absent" not in record):
        for client in (client for client in record["clients"] if client["ACC"] is not None):
            share = 1 - 1 / client["n_nodes"]
            assert client["ACC"] == pytest.approx(1 - (1 - client["ACC of pairs"]) * share, abs=1e-9)
            compared += 1
    assert compared > 1000


def test_glgs_error_of_edges_stretches_the_whole_matrix_and_counts_the_diagonal() -> None:
    """Equation 45 and appendix F on a path of three nodes: 6 is N (N + 1) / 2, and .2 of .4 is .5."""
    path = Graph(np.zeros((3, 1), np.int32), np.array([[0, 1], [1, 2]]), 0)
    soft = np.array([[0.0, 0.4, 0.1], [0.4, 0.0, 0.2], [0.1, 0.2, 0.0]], np.float32)
    result: Any = SimpleNamespace(truth=path, reconstruction=Reconstruction((path,), 0.0, "done", adjacency=soft))
    found = glg_molecules.errors(result)["mae"]
    assert found["soft"] == pytest.approx((0.6 + 0.8 + 0.1) / 6)
    assert [found[cut] for cut in ("0.2", "0.4", "0.5", "0.6", "0.8")] == pytest.approx([1 / 6, 0, 0, 1 / 6, 1 / 6])
    result.reconstruction = Reconstruction((), None, "time")
    assert glg_molecules.errors(result) == {"mae": None}


def test_rows_without_penalties_are_the_others_but_for_the_weights() -> None:
    options = {method.name: dict(method.options) for method in GLG.methods}
    off = {"smoothness_weight": "0", "frobenius_weight": "0"}
    assert options["node-2-free"] == options["node-2"] | off
    assert options["graph-cosine-lr-free"] == options["graph-cosine-lr"] | off
    assert options["graph-from-0.5"].items() >= (off | {"objective": "cosine", "init": "0.5"}).items()
    for which, power in glg_sweeps.USUAL.items():
        assert getattr(Penalty(), which) == float(f"1e{power}"), "the figure varies one of the paper's weights"


def test_fedgigs_sweeps_change_one_of_three_from_the_papers_best() -> None:
    (row,) = [row for row in FEDGIG.rows if row.name == "tox21-swept"]
    options = {method.name: dict(method.options) for method in FEDGIG.methods}
    best, *others = [options[name] for name in row.attackers if name.startswith("fedgig-")]
    assert best == {"usual_degree": "5", "degree_decay": "0.13", "edge_threshold": "0.5"} and len(others) == 12
    assert all(sum(other[option] != best[option] for option in best) == 1 for other in others)
    assert "auxiliary" not in row.experiment.know, "public graphs would say n_max"


@pytest.mark.parametrize("table", [GLG, FEDGIG, GRAPHDLG, DEFENSES], ids=["glg", "fedgig", "graphdlg", "defenses"])
def test_rows_name_what_exists(table: Table) -> None:
    known = {method.name: method for method in table.methods}
    columns = {column.title for column in table.columns}
    assert len({row.name for row in table.rows}) == len(table.rows)
    for row in table.rows:
        tasks(row.experiment.dataset)  # refuses a name that it does not know
        assert set(row.columns) <= columns and set(row.printed) <= set(row.attackers) <= set(known)
        assert all(set(numbers) <= set(row.columns) for numbers in row.printed.values())
        for name in row.attackers:
            attack = get_attack(known[name].attack)
            options = {str(option): str(value) for option, value in row.specification(known[name]).options}
            assert not options or attack.with_options(options).name == attack.name


@pytest.mark.long
def test_a_row_is_measured_shown_and_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tables.PAPERS, "glg", registry.of_edges(TINY))
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    result = CliRunner().invoke(tables.app, ["glg", "--json", "--write"])
    assert result.exit_code == 0, result.output
    found, other, absent = [json.loads(line) for line in result.stdout.splitlines()]
    assert found["holds"] == found["exact"] == found["graphs"] == 2 and other["holds"] is None
    assert found["means"]["RNMSE"]["mean"] < 1e-4 and found["means"]["AUC"]["mean"] == 1.0
    assert other["means"]["AUC"]["clients"] == 2 and other["means"]["AUC"]["mean"] > 0.5
    assert "path" in absent["absent"]
    page = (tmp_path / "glg.md").read_text()
    for text in ("| paper: closed form | 0.002 |", "2 of 2 | 2 of 2", "Not run, or refused: `absent`"):
        assert text in page
    ran: list[Any] = []
    own = edge_records.attacked
    monkeypatch.setattr(edge_records, "attacked", lambda *given: ran.append(given[2]) or own(*given))
    again = CliRunner().invoke(tables.app, ["glg", "--resume", "--json"])
    assert [json.loads(line) for line in again.stdout.splitlines()] == [found, other, absent] and not ran
    CliRunner().invoke(tables.app, ["glg", "--resume", "--time-limit", "50", "--attacks", "closed-form"])
    assert ran == ["closed-form"], "another time limit is another run"
    other = CliRunner().invoke(tables.app, ["glg", "--rows", "absent", "--attacks", "closed-form", "--json"])
    assert other.exit_code == 0 and "its attacks are node-2" in other.stdout
    refused = CliRunner().invoke(tables.app, ["fedgig", "--from", __file__])
    assert refused.exit_code == 2 and "only grain's runs" in refused.output


def test_cells_are_shared_among_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same records, here without processes; a row without data says so once; what cannot be shared is refused."""
    monkeypatch.setitem(tables.PAPERS, "glg", registry.of_edges(TINY))
    monkeypatch.setattr(tables, "share", lambda task, calls, workers: (task(*call) for call in calls))
    options = ["glg", "--json", "--attacks", "closed-form"]
    alone, shared = (CliRunner().invoke(tables.app, [*options, *more]) for more in ([], ["--workers", "2"]))
    assert shared.exit_code == 0, shared.output
    found = [[json.loads(line) for line in result.stdout.splitlines()] for result in (alone, shared)]
    assert sorted(r["row"] for r in found[1]) == sorted(r["row"] for r in found[0]) == ["absent", "c"]
    means = [next(r["means"] for r in records if r["row"] == "c") for records in found]
    assert means[0] == means[1]
    for name, more, message in (("fedgnn", [], "trains once"), ("grain", ["--from", __file__], "files are read")):
        refused = CliRunner().invoke(tables.app, [name, "--workers", "2", *more])
        assert refused.exit_code == 2 and message in refused.output

    def dies(*_: Any) -> Any:
        raise ChildProcessError("a process died; take fewer")
        yield

    monkeypatch.setattr(tables, "share", dies)
    died = CliRunner().invoke(tables.app, [*options, "--rows", "c", "--workers", "2"])
    assert died.exit_code == 1 and "take fewer; what was finished follows" in died.output


def test_the_graphs_of_an_update_are_one_observation_of_a_stored_interval() -> None:
    """Of stored rows, and where two attacks are compared on the same clients."""
    values = [0.0, 0.2, 0.1, 0.3, 0.9, 1.0, 0.8, None, float("nan"), 0.5]
    clients = [{"graph": i, "AUC": value} for i, value in enumerate(values)]
    found = edge_records.mean(clients, Column("AUC", ("auc",)), 4)
    defined = [v for v in values if v is not None and np.isfinite(v)]
    assert found == dataclasses.asdict(rate(defined, clusters="aaaabbbc")) | {"clients": 8}
    assert edge_records.mean(clients[7:9], Column("AUC", ("auc",)), 4) is None
    stored = list(read(RESULTS / "graphdlg.jsonl"))
    record = next(one for one in stored if one["row"] == "mutag-batch-16" and one["attack"] == "graphdlg")
    for column in GRAPHDLG.columns:
        assert record["means"][column.title] == edge_records.mean(record["clients"], column, 16)
    beside = next(one for one in stored if one["row"] == "mutag-batch-16" and one["attack"] == "file-habit")
    _, pairs = differences(GRAPHDLG, record, beside)
    gaps = [one["AUC"] - other["AUC"] for one, other in zip(record["clients"], beside["clients"], strict=True)]
    wanted = clustered(gaps, [client["graph"] // 16 for client in record["clients"]])
    assert pairs["AUC"] is not None and pairs["AUC"].less == wanted


def test_a_claim_is_compared_with_the_truth() -> None:
    def client(accuracy: float, rnmse: float, adjacency: str = "exact") -> dict[str, Any]:
        return {
            "info": {"adjacency": adjacency, "features": "known"},
            "edges": {"file_order": {"accuracy": accuracy}},
            "features": {"file_order": {"rnmse": rnmse}},
        }

    assert claim(client(1.0, 1e-6)) == "exact"
    assert claim(client(0.9, 1e-6)) == claim(client(1.0, 1e-3)) == "wrong"
    assert claim(client(1.0, 1e-6, "failed: rank")) == "fails"


def test_shortfalls_are_the_papers_numbers_that_are_better() -> None:
    """Errors above it and scores below it, of attacks; beyond where the paper's number is outside of the interval."""
    line = dataclasses.replace(
        TINY.rows[0],
        printed={"closed-form": {"RNMSE": 0.3, "AUC": 0.9}, "node-2": {"AUC": 0.7}, "guess": {"AUC": 0.9}, "none": {}},
    )
    table = dataclasses.replace(TINY, rows=(line,), methods=(*TINY.methods, Attacker("guess", "guess", "random")))

    def record(attack: str, **means: tuple[float, float, float]) -> dict[str, Any]:
        found = {title: dict(zip(("low", "mean", "high"), values, strict=True)) for title, values in means.items()}
        return {"row": "c", "attack": attack, "means": found}

    half = (0.4, 0.5, 0.6)
    records = [record("closed-form", RNMSE=half, AUC=(0.8, 0.85, 0.9)), record("guess", AUC=half)]
    beyond = ("attacker c", "closed form", "RNMSE", "0.300", "0.500 [0.400, 0.600]", "beyond")
    within = ("attacker c", "closed form", "AUC", "0.900", "0.850 [0.800, 0.900]", "")
    assert shortfalls(table, records) == ([beyond, within], 2)
    assert shortfalls(table, [*records, record("node-2", RNMSE=half, AUC=(0.6, 0.7, 0.8))]) == ([beyond, within], 3)
    assert shortfalls(table, [record("closed-form", RNMSE=(0.1, 0.2, 0.3), AUC=(0.8, 0.95, 1.0))]) == ([], 2)


def test_the_grid_is_drawn_from_what_was_stored(tmp_path: Path) -> None:
    """One line for an attack, one for the model; rows that were not measured leave gaps."""
    stored = [
        {"row": "tox21-none", "attack": "census", "means": {"exact": {"mean": 1.0}, "GSM-1": {"mean": 1.0}}},
        {"row": "tox21-noise-2", "attack": "census", "means": {"exact": {"mean": 0.2}, "GSM-1": None}},
        {"row": "tox21-none", "attack": "utility", "means": {"ROC-AUC": {"mean": 0.7}}},
    ]
    source = tmp_path / "defenses.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in stored), encoding="utf-8")
    found = CliRunner().invoke(defense_plots.app, ["--source", str(source), "--out", str(tmp_path)])
    assert found.exit_code == 0, found.output
    drawn = (tmp_path / "defenses_tox21.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<?xml") and not (tmp_path / "defenses_mutag.svg").exists()
    missing = CliRunner().invoke(defense_plots.app, ["--source", str(tmp_path / "none.jsonl")])
    said = " ".join(missing.output.replace("│", " ").split())
    assert missing.exit_code == 2 and "has no records" in said


@pytest.mark.slow
def test_the_model_is_trained_under_the_rows_defence() -> None:
    """Utility on the embedded molecules: a share of graphs, and chance level under overwhelming noise."""
    row = Line("tiny", "tiny", "ours", {}, Specification(hidden=8), ("utility",), ("accuracy",))
    plan = TrainingPlan(rounds=20, clients=4)
    record = defense_utility.utility(row, plan)
    assert record["attack"] == "utility" and 0 <= record["means"]["accuracy"]["mean"] <= 1
    assert record["graphs"] == record["means"]["ROC-AUC"]["clients"] == round(0.2 * 72)
    absent = dataclasses.replace(row, experiment=dataclasses.replace(row.experiment, path="nowhere", dataset="mutag"))
    assert "absent" in defense_utility.utility(absent, plan)
