"""Experiments: what the attacker is given, what a node task is, and that one failure costs one client."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from jgleak.attacks.attack import Attack, Reconstruction
from jgleak.attacks.registry import ATTACKS
from jgleak.audit import experiment
from jgleak.audit import round as rounds
from jgleak.audit.clients import makes_labels_up, on_cycle
from jgleak.audit.compilations import Compiled
from jgleak.audit.experiment import Result, run
from jgleak.audit.record import plain, result_record, summary_record
from jgleak.audit.setup import prepare
from jgleak.audit.specification import PROTOCOLS, Specification
from jgleak.audit.store import Store
from jgleak.audit.table import graph_table, summary_table
from jgleak.audit.units import attempt
from jgleak.cli import app
from jgleak.datasets import load
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, LocalTraining, Observation
from jgleak.federated.observation import PROTOCOLS as KNOWN_PROTOCOLS
from jgleak.graph import Graph
from jgleak.metrics import rate

SMALL = Specification(attack="empty", graphs=3, hidden=8, max_nodes=8)


class Spy:
    """An attack that keeps what it was given and finds nothing."""

    def __init__(self) -> None:
        self.seen: list[tuple[Observation, Knowledge]] = []

    def __call__(self, observation, knowledge, *, key, budget) -> Reconstruction:
        self.seen.append((observation, knowledge))
        return Reconstruction((), None, "no candidates", info={"seconds": budget.time_limit})


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    spy = Spy()
    monkeypatch.setitem(ATTACKS, "spy", Attack("spy", spy, protocols=PROTOCOLS))
    return spy


@pytest.mark.parametrize(("batch_size", "who"), [(1, "4 clients"), (2, "4 graphs of 2 clients")])
def test_graphs_attacked_together_share_the_time_and_that_of_compilation(
    batch_size: int, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six seconds in the attack on all of them, four compiled something."""
    compiled, clock = iter([Compiled(1, 5.0), Compiled(4, 9.0)]), iter([10.0, 16.0])
    monkeypatch.setattr(experiment, "compilations", lambda: next(compiled))
    monkeypatch.setattr(experiment, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setitem(ATTACKS, "spy", Attack("spy", Spy(), several=True, many=_nothing))
    specification = dataclasses.replace(SMALL, attack="spy", graphs=4, batch_size=batch_size, together=4)
    results = list(run(specification))
    assert [one.seconds for one in results] == [1.5] * 4
    assert [(one.compiled.number, one.compiled.seconds) for one in results] == [(3, 1.0), *[(0, 1.0)] * 3]
    summary = summary_record([result_record(one, specification) for one in results], specification)
    assert summary["seconds_most"] == 0.5 and str(summary_table(summary).title).startswith(f"spy: {who} in 6.0 s")


def _nothing(observations: Sequence[Observation], knowledges: Sequence[Knowledge], **_: Any) -> list[Reconstruction]:
    return [Reconstruction((), None, "no candidates") for _ in observations]


@pytest.mark.parametrize(
    ("dataset", "task", "made_up"), [("embedded", None, True), ("citeseer", None, False), ("citeseer", "graph", True)]
)
def test_labels_of_nodes_are_the_data_set_s_or_made_up(dataset: str, task: str | None, made_up: bool) -> None:
    assert makes_labels_up(Specification(dataset=dataset, task=task, node_task=True)) is made_up
    assert not makes_labels_up(Specification(dataset=dataset, task=task))


def test_that_labels_are_made_up_is_said() -> None:
    said = CliRunner().invoke(app, ["attack", "random", "--know", "n", "--node-task", "--graphs", "1", "--hidden", "8"])
    assert said.exit_code == 0 and "they say whether a node lies on a cycle" in said.stderr


def test_specification_survives_json() -> None:
    specification = Specification(
        dataset="tox21", task="SR-p53", know=("n", "labels"), time_limit=1.5, options=(("steps", "30"),)
    )
    assert Specification.from_json(json.loads(json.dumps(specification.to_json()))) == specification
    with pytest.raises(ValueError, match="bogus"):
        Specification.from_json({"bogus": 1})


@pytest.mark.parametrize(
    "field",
    [
        *({"know": ("truth",)}, {"time_limit": 0.0}, {"max_n": 0}, {"seed": -1}, {"together": 0}),
        *({"layers": 10**9}, {"layers": 2, "hidden": 20_000}, {"layers": 1, "model": "gat", "heads": 100}),
    ],
)
def test_specification_refuses_nonsense(field: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        Specification(**field)


def test_nothing_is_known_unless_given(spy: Spy) -> None:
    results = list(run(dataclasses.replace(SMALL, attack="spy", time_limit=7.0)))
    assert len(results) == len(spy.seen) == 3
    for result, (observation, knowledge) in zip(results, spy.seen, strict=True):
        assert result.observation is not None
        jax.tree.map(np.testing.assert_array_equal, observation.update, result.observation.update)
        assert (observation.model, observation.batch_size) == (result.observation.model, 1)
        assert observation.params is result.observation.params
        assert knowledge.n is knowledge.adjacency is knowledge.features is knowledge.labels is None
        assert knowledge.auxiliary == ()
        assert (knowledge.max_n, knowledge.distinct_nodes) == (None, False)
        assert result.reconstruction.info == {"seconds": 7.0}
        assert not result.score.exact


def test_what_is_given_is_the_truth(spy: Spy) -> None:
    know = ("adjacency", "features", "labels", "auxiliary")
    specification = dataclasses.replace(SMALL, attack="spy", know=know)
    clients = prepare(specification).dataset.graphs
    for result in run(specification):
        knowledge, truth = spy.seen[-1][1], result.truth
        assert knowledge.n == truth.n
        assert knowledge.adjacency is not None and knowledge.features is not None and knowledge.labels is not None
        np.testing.assert_array_equal(knowledge.adjacency, truth.adjacency)
        np.testing.assert_array_equal(knowledge.features, truth.x)
        assert knowledge.labels.tolist() == [truth.y]
        assert len(knowledge.auxiliary) > 2
        assert not any(g.isomorphic(client) for g in knowledge.auxiliary for client in clients), "public, not private"


def test_public_graphs_need_graphs_that_are_no_clients() -> None:
    with pytest.raises(ValueError, match="every graph of embedded is a client, so none is public; take fewer"):
        prepare(dataclasses.replace(SMALL, graphs=None, max_nodes=None, know=("auxiliary",)))


def test_one_client_that_breaks_an_attack_side_by_side_costs_that_client(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def many(observations, knowledges, *, keys, budget) -> list[Reconstruction]:
        calls.append(len(observations))
        if any(k.n == spoilt for k in knowledges):
            raise RuntimeError("spoilt")
        return [Reconstruction((), None, "no candidates", info={"n": k.n}) for k in knowledges]

    def one(observation, knowledge, *, key, budget) -> Reconstruction:
        return many([observation], [knowledge], keys=[key], budget=budget)[0]

    monkeypatch.setitem(ATTACKS, "side", Attack("side", one, many=many))
    specification = dataclasses.replace(SMALL, attack="side", graphs=5, know=("n",), together=3)
    spoilt = prepare(specification).dataset.graphs[1].n
    results = list(run(specification))
    assert [r.index for r in results] == list(range(5))
    assert [r.failure is not None for r in results] == [r.truth.n == spoilt for r in results]
    assert any(r.failure for r in results) and not all(r.failure for r in results)
    assert calls[0] == 3


UNSORTED = dataclasses.replace(SMALL, attack="spy", min_nodes=20, max_nodes=24, node_task=True)
"""Clients whose nodes' labels rise and fall along the file."""


def test_known_node_labels_tell_no_order(spy: Spy) -> None:
    """However the file numbers the nodes, the attacker is told one and the same: how many there are of each class."""
    for result in run(dataclasses.replace(UNSORTED, know=("labels",))):
        labels, truth = spy.seen[-1][1].labels, np.asarray(result.truth.y)
        assert labels is not None and (np.diff(truth) < 0).any()
        np.testing.assert_array_equal(labels, np.repeat([0, 1], np.bincount(truth, minlength=2)))


@pytest.mark.parametrize(
    "told",
    [
        {"know": ("adjacency", "labels")},
        {"know": ("features", "labels")},
        {"protocol": "node_losses"},
        {"protocol": "target_node"},
    ],
)
def test_known_node_labels_keep_an_order_that_is_told_anyway(told: dict, spy: Spy) -> None:
    """Where the nodes' order is told by edges, features or one gradient a node, a sorted label would be another's."""
    for result in run(dataclasses.replace(UNSORTED, **({"know": ("labels",)} | told))):
        labels, truth = spy.seen[-1][1].labels, np.asarray(result.truth.y)
        assert (np.diff(truth) < 0).any()
        np.testing.assert_array_equal(labels, truth)


def test_same_seed_same_experiment_other_seed_another() -> None:
    def trace(seed: int) -> list[tuple[str, list]]:
        specification = dataclasses.replace(SMALL, attack="random", seed=seed)
        return [(r.truth.name, r.reconstruction.graphs[0].x.tolist()) for r in run(specification)]

    assert trace(1) == trace(1) != trace(2)


def test_on_cycle_marks_rings_not_the_bond_between_them() -> None:
    triangle, other = [[0, 1], [1, 2], [0, 2]], [[4, 5], [5, 6], [4, 6]]
    graph = Graph(np.zeros((8, 1), np.int64), np.array([*triangle, [2, 3], [3, 4], *other, [6, 7]]))
    assert on_cycle(graph).tolist() == [1, 1, 1, 0, 1, 1, 1, 0]


def test_node_task_labels_every_node() -> None:
    setup = prepare(dataclasses.replace(SMALL, node_task=True))
    assert setup.model.node_level
    assert (setup.dataset.task, setup.dataset.classes, setup.loss) == ("node", 2, "bce")
    assert all(np.asarray(g.y).shape == (g.n,) for g in setup.dataset.graphs)


def test_without_degree_no_column_states_it() -> None:
    full, bare = prepare(SMALL), prepare(dataclasses.replace(SMALL, degree=False))
    space = full.dataset.space
    assert space.degree is not None and bare.dataset.space.degree is None
    column = space.index(space.degree)
    assert bare.model.in_features == full.model.in_features - space.features[column].columns
    for whole, cut in zip(full.dataset.graphs, bare.dataset.graphs, strict=True):
        np.testing.assert_array_equal(np.delete(whole.x, column, axis=1), cut.x)


def test_without_attributes_node_labels_remain(tmp_path: Path) -> None:
    folder = tmp_path / "ENZYMES"
    folder.mkdir()
    for part, lines in {
        "A": ["1, 2", "2, 1", "3, 4", "4, 3", "5, 6", "6, 5"],
        "graph_indicator": [1, 1, 2, 2, 3, 3],
        "graph_labels": [1, 2, 1],
        "node_labels": [1, 2, 3, 1, 2, 1],
        "node_attributes": [f"{i}.5, -{i}.25" for i in range(6)],
    }.items():
        (folder / f"ENZYMES_{part}.txt").write_text("\n".join(map(str, lines)) + "\n")
    both = Specification(dataset="enzymes", path=str(folder), attack="random", graphs=3, know=("n",))
    full, bare = (prepare(dataclasses.replace(both, attributes=keep)).dataset for keep in (True, False))
    assert full.space.width == 5 and bare.space.width == 3 and bare.space.discrete
    for whole, cut in zip(full.graphs, bare.graphs, strict=True):
        np.testing.assert_array_equal(whole.x[:, :1], cut.x)
    assert len(list(run(dataclasses.replace(both, attributes=False)))) == 3
    with pytest.raises(ValueError, match="no real-valued features; leave --no-attributes out"):
        prepare(dataclasses.replace(SMALL, attributes=False))


def test_nodes_that_have_attributes_alone_get_their_degree_without_them() -> None:
    dataset = prepare(Specification(dataset="synthetic-glg", graphs=2, attributes=False)).dataset
    assert dataset.space.degree == "degree" and [feature.name for feature in dataset.space.features] == ["degree"]
    for graph in dataset.graphs:
        np.testing.assert_array_equal(dataset.space.degrees(graph.x), graph.degree)


@pytest.mark.parametrize("readout", ["node_mlp", "pooled", "flattened"])
def test_every_graph_readout_runs(readout: str, spy: Spy) -> None:
    results = list(run(dataclasses.replace(SMALL, attack="spy", readout=readout)))
    assert [r.failure for r in results] == [None] * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"readout": "pooled", "node_task": True}, "labels graphs"),
        ({"readout": "node_scores"}, "--node-task"),
        ({"readout": "dot"}, "readout"),
        ({"model": "gcnn"}, "gcnn"),
        ({"dataset": "tox22"}, "tox21"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare(dataclasses.replace(SMALL, **change))


def test_an_attack_that_cannot_work_says_so() -> None:
    with pytest.raises(ValueError, match="mean-adjacency.*auxiliary"):
        next(run(dataclasses.replace(SMALL, attack="mean-adjacency")))


def test_one_breakdown_costs_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fragile(observation, knowledge, *, key, budget) -> Reconstruction:
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("no memory left")
        return Reconstruction((), None, "done")

    monkeypatch.setitem(ATTACKS, "fragile", Attack("fragile", fragile))
    specification = dataclasses.replace(SMALL, attack="fragile")
    results = list(run(specification))
    assert [r.reconstruction.stop for r in results] == ["done", "error", "done"]
    assert "no memory left" in str(results[1].failure)
    summary = summary_record([result_record(r, specification) for r in results], specification)
    assert (summary["graphs"], summary["failures"]) == (3, 1)


def _runaway(monkeypatch: pytest.MonkeyPatch, victims: Collection[str]) -> None:
    """Real local training that runs away on some clients."""
    update = rounds.fedavg

    def wild(model, params, graphs, space, **options):
        local = LocalTraining(1e30, options["local"].steps) if graphs[0].name in victims else options["local"]
        return update(model, params, graphs, space, **{**options, "local": local})

    monkeypatch.setattr(rounds, "fedavg", wild)


LOCAL = dataclasses.replace(SMALL, attack="side", know=("n",), protocol="fedavg", local_steps=4)


def test_a_client_without_an_update_costs_that_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guess = ATTACKS["random"].run

    def many(observations, knowledges, *, keys, budget) -> list[Reconstruction]:
        clients = zip(observations, knowledges, keys, strict=True)
        return [guess(seen, known, key=key, budget=budget) for seen, known, key in clients]

    monkeypatch.setitem(ATTACKS, "side", Attack("side", guess, many=many, protocols=PROTOCOLS))
    setup = prepare(LOCAL)
    _runaway(monkeypatch, [setup.dataset.graphs[1].name])
    found = list(run(LOCAL, setup))
    assert [result.index for result in found] == [0, 1, 2], "in order, though attacked side by side"
    assert [result.observation is None for result in found] == [False, True, False]
    assert [result.failure is None for result in found] == [True, False, True]
    assert "local_rate: the client's weights are not finite after 4 steps" in str(found[1].failure)
    records, store = [result_record(result, LOCAL) for result in found], Store(tmp_path / "out")
    for result, record in zip(found, records, strict=True):
        store.add(result, record, setup.dataset.space)
    store.close()
    assert len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 3
    assert sorted(file.stem for file in (tmp_path / "out" / "observations").iterdir()) == ["000", "002"]
    assert (records[1]["stop"], records[1]["protocol"], records[1]["attacked"]) == ("error", None, False)
    summary, without = summary_record(records, LOCAL), summary_record(records[::2], LOCAL)
    assert (summary["graphs"], summary["attacked"], summary["failures"]) == (3, 2, 1)
    assert all(summary[name] == without[name] for name in ("exact", "gsm1", "edges", "sizes", "counts"))
    assert "not attacked, without an update: 1" in summary_table(summary).columns[0].cells
    assert set(summary_table(summary).columns[-1].cells) <= {"", "2"}, "the others are what means are taken over"
    outcomes = attempt(LOCAL, range(3), 3, None)
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "done"]
    assert (outcomes[1].reason, outcomes[1].record, outcomes[1].files) == (found[1].failure, {}, {})


def _same(found: Sequence[Result], shared: Sequence[Result]) -> None:
    for one, other in zip(found, sorted(shared, key=lambda result: result.index), strict=True):
        assert one.index == other.index and one.truth.isomorphic(other.truth)
        assert one.score == other.score and other.failure is None
        assert [graph.canonical_form() for graph in one.reconstruction.graphs] == [
            graph.canonical_form() for graph in other.reconstruction.graphs
        ]
        assert one.observation is not None and other.observation is not None
        jax.tree.map(np.testing.assert_array_equal, one.observation.update, other.observation.update)


def test_workers_read_the_setup_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here one process does what several would, the last client first."""
    calls = []

    def share(task, given, workers, here, started):
        calls.extend(given)
        assert workers == 2 and here and started is None
        return (task(*call) for call in reversed(given))

    monkeypatch.setattr(experiment, "share", share)
    specification = dataclasses.replace(SMALL, attack="random", know=("n",), seed=4)
    setup = prepare(specification)
    found = list(run(specification, setup))
    monkeypatch.setattr(experiment, "prepare", None)  # once is enough
    _same(found, list(run(specification, setup, workers=2)))
    assert len(calls) == 3


@pytest.mark.slow
def test_processes_find_what_one_process_finds() -> None:
    specification = dataclasses.replace(SMALL, attack="census", know=("n",), graphs=4, max_nodes=9)
    setup = prepare(specification)
    _same(list(run(specification, setup)), list(run(specification, setup, workers=2)))


def test_without_any_update_the_command_says_so(tmp_path: Path) -> None:
    words = ["attack", "random", "--know", "n", "--graphs", "2", "--max-nodes", "7", "--hidden", "8"]
    away = ["--protocol", "fedavg", "--local-steps", "4", "--local-rate", "1e30"]
    result = CliRunner().invoke(app, [*words, *away, "--json"])
    assert result.exit_code == 1 and "broke down" not in result.stderr and "Traceback" not in result.stderr
    assert result.stderr.count("local_rate: the client's weights are not finite") == 1
    assert "graph 1: the same" in result.stderr
    *records, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["attacked"] for record in records] == [False, False]
    assert (last["summary"]["graphs"], last["summary"]["attacked"], last["summary"]["exact"]) == (2, 0, None)


def test_summary_counts_by_size() -> None:
    row = {
        "gsm0": 0.5,
        "gsm1": 0.5,
        "gsm2": 0.5,
        "seconds": 2.0,
        "seconds_compiling": 0.5,
        "compilations": 2,
        "failure": None,
        "stop": "done",
        "truth_in_set": True,
        "guess_rate": 0.5,
        "attacked": True,
        "certificate": {"status": "unique"},
        "edges": {"aligned": {"auc": 0.5}},
        "features": None,
        "target_error": None,
    }
    records = [{**row, "n_nodes": n, "exact": exact} for n, exact in ((5, True), (15, False), (16, True), (25, True))]
    summary = summary_record(records, SMALL)
    assert summary["exact_rate"] == 0.75
    assert summary["exact_rate_by_size"] == {"<=15": 0.5, "16-25": 1.0}
    assert summary["sizes"] == {"<=15": 2, "16-25": 2}
    assert summary["edges"] == {"aligned": {"auc": 0.5}} and summary["features"] == {}
    assert summary["gsm1"] == {"mean": 0.5, "low": 0.5, "high": 0.5}
    assert summary["seconds_total"] == 8.0
    assert (summary["compilations"], summary["seconds_compiling"], summary["seconds_most"]) == (8, 2.0, 1.5)
    assert (summary["truth_in_set_rate"], summary["unique"], summary["unique_wrong"]) == (1.0, 4, 1)
    assert summary["guess_rate"] == 0.5
    assert Specification.from_json(summary["specification"]) == SMALL
    assert summary_record([], SMALL)["exact_rate"] is None


def test_plain_is_json() -> None:
    messy = {1: np.float32(0.5), "a": np.arange(2), "b": (np.nan, np.inf, np.bool_(True)), "c": Specification}
    assert json.loads(json.dumps(plain(messy), allow_nan=False)) == {
        "1": 0.5,
        "a": [0, 1],
        "b": [None, None, True],
        "c": str(Specification),
    }


def test_twins_match_the_gradient_and_are_not_the_truth() -> None:
    base = {
        "gsm0": 1.0,
        "gsm1": 1.0,
        "gsm2": 1.0,
        "n_nodes": 5,
        "failure": None,
        "seconds": 1.0,
        "compilations": 0,
        "truth_in_set": True,
        "guess_rate": 0.5,
        "attacked": True,
        "certificate": None,
        "edges": None,
        "features": None,
        "target_error": None,
    }
    ends = [(True, "match"), (False, "match"), (False, "time")]
    summary = summary_record([{**base, "exact": exact, "stop": stop} for exact, stop in ends], SMALL)
    assert summary["twins"] == 1
    assert "1 reconstruction differs" in str(summary_table(summary).caption)


def test_a_graph_as_a_table_says_shared_features_once() -> None:
    space = FeatureSpace((onehot("kind", ("a", "b")), onehot("colour", ("red", "blue"))))
    table = graph_table(Graph(np.array([[0, 1], [1, 1], [0, 1]]), np.array([[0, 1], [1, 2]])), space)
    assert [str(cell) for cell in table.columns[1].cells] == ["kind a", "kind b", "kind a"]
    assert [str(cell) for cell in table.columns[2].cells] == ["1", "0, 2", "1"]
    assert str(table.caption) == "all nodes: colour blue"


def test_what_clients_send_and_how_they_are_measured(spy: Spy) -> None:
    """Protocol, loss, bias and raw features reach the client; node gradients come one a node."""
    node = Specification(
        attack="spy", graphs=1, hidden=8, max_nodes=8, node_task=True, readout="node_scores", protocol="node_losses"
    )
    list(run(dataclasses.replace(node, bias=True, loss="ce", normalise=False)))
    seen, known = spy.seen[0]
    assert seen.protocol == "node_losses" and seen.loss == "ce" and "bias" in seen.params["layers_0"]["conv"]
    assert known.space.mean is None and known.space.std is None
    list(run(dataclasses.replace(node, protocol="target_node")))
    assert spy.seen[1][0].protocol == "target_node" and spy.seen[1][0].gradients is None
    assert set(PROTOCOLS) == set(KNOWN_PROTOCOLS)
    with pytest.raises(ValueError, match="loss: 'mse' does not fit embedded"):
        prepare(dataclasses.replace(SMALL, loss="mse"))
    with pytest.raises(ValueError, match="protocol: unknown 'fedprox'"):
        Specification(protocol="fedprox")


def test_the_graphs_of_a_client_are_one_observation_of_an_interval() -> None:
    base = result_record(next(run(SMALL)), SMALL)
    records = [{**base, "graph": place, "exact": place < 4, "gsm1": place / 8} for place in range(8)]
    summary = summary_record(records, dataclasses.replace(SMALL, batch_size=2))
    for name in ("exact", "gsm1"):
        wanted = rate([float(record[name]) for record in records], clusters="aabbccdd")
        assert summary[name] == dataclasses.asdict(wanted)
    assert summary["batches"] == 4 and "the graphs of a client as one observation" in str(
        summary_table(summary).caption
    )
    alone = summary_record(records, SMALL)
    assert alone["exact"]["low"] > summary["exact"]["low"] and "observation" not in str(summary_table(alone).caption)


def test_records_have_edges_and_features_in_both_orders() -> None:
    """The empty graph: no edge is right, every non-edge is; its features are the public mean."""
    records = [result_record(result, SMALL) for result in run(dataclasses.replace(SMALL, know=("n",)))]
    for record in records:
        for order in ("file_order", "aligned"):
            edges = record["edges"][order]
            assert edges["auc"] == 0.5 and edges["jaccard"] == 0.0 and 0 < edges["accuracy"] < 1
            assert 0 < record["features"][order]["rnmse"]
        assert record["target_error"] is None
    summary = summary_record(records, SMALL)
    names = list(summary_table(summary).columns[0].cells)
    assert {"edge AUC, aligned", "edge AP, aligned", "feature RNMSE, aligned"} < set(names)
    accuracy = [record["edges"]["aligned"]["accuracy"] for record in records]
    assert summary["edges"]["aligned"]["accuracy"] == pytest.approx(np.mean(accuracy))
    nothing = {**records[0], "edges": None, "features": None}
    edges = records[0]["edges"]
    alone = {**records[0], "edges": {**edges, "aligned": {**edges["aligned"], "auc": None}}}
    table = summary_table(summary_record([*records, nothing, alone], SMALL))
    shown = dict(zip(table.columns[0].cells, table.columns[-1].cells, strict=True))
    assert shown["edge AUC, aligned"] == str(len(records)) and shown["edge AP, aligned"] == str(len(records) + 1)
    assert shown["gsm0"] == str(len(records) + 2)
    assert summary["target_error"] is None
    json.dumps(summary)


def test_targets_of_a_batch_are_matched_by_their_features(unchecked) -> None:
    """GLG, section 5.4: the dummy trees' own edges and neighbours do not say which target is whose."""
    graphs = load("synthetic-glg", graphs=3, max_nodes=8)
    rows = np.stack([graphs.space.encode(graph.x)[[0, 1]] for graph in graphs.graphs[::-1]]).astype(np.float32)
    rows[:, 1] = rows[::-1, 0]  # neighbours like the targets of others
    pairs = tuple(Graph(graphs.space.decode(each), np.array([[0, 1]]), 0) for each in rows)
    seen = SimpleNamespace(protocol="target_node", batch_size=3)
    client: Any = SimpleNamespace(graphs=3, truths=graphs.graphs, observation=seen, knowledge=Knowledge(graphs.space))
    assert experiment._order(client, Reconstruction(pairs, 0.0, "steps", features=rows)) == [2, 1, 0]
