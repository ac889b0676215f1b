"""Experiments with defended, batched and FedAvg clients."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Attack, Reconstruction
from jgleak.attacks.registry import ATTACKS
from jgleak.audit import clients
from jgleak.audit.experiment import run
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.federated import Knowledge, LocalTraining, Observation
from jgleak.graph import Graph

SMALL = Specification(attack="oracle", graphs=5, hidden=8, max_nodes=9)
SMALL_EMPTY = dataclasses.replace(SMALL, attack="empty")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Observation, Knowledge]]:
    """An attack that is told the answer by this test: the batch's graphs, permuted, in another order."""
    seen: list[tuple[Observation, Knowledge]] = []
    graphs = prepare(dataclasses.replace(SMALL, attack="empty")).dataset.graphs

    def oracle(observation: Observation, knowledge: Knowledge, *, key: Any, budget: Any) -> Reconstruction:
        first = sum(o.batch_size for o, _ in seen)
        seen.append((observation, knowledge))
        own = graphs[first : first + observation.batch_size][::-1]
        moved = tuple(g.permute(np.arange(g.n)[::-1]) for g in own)
        return Reconstruction(moved, 0.0, "done")

    monkeypatch.setitem(ATTACKS, "oracle", Attack("oracle", oracle, several=True))
    return seen


def test_every_graph_of_a_batch_meets_its_own_reconstruction(seen: list[Any]) -> None:
    results = list(run(dataclasses.replace(SMALL, batch_size=2, know=("n", "labels"))))
    assert [o.batch_size for o, _ in seen] == [2, 2, 1]
    assert [r.index for r in results] == list(range(5)) and all(r.score.exact for r in results)
    first, second = (results[i].truth for i in (0, 1))
    order = sorted((first, second), key=lambda g: (-g.n, g.y))
    assert seen[0][1].sizes == tuple(g.n for g in order) and seen[0][1].n == order[0].n
    np.testing.assert_array_equal(np.asarray(seen[0][1].labels), [g.y for g in order])
    assert seen[2][1].sizes == () and seen[2][1].n == results[4].truth.n
    list(run(dataclasses.replace(SMALL, batch_size=2, know=("labels",))))
    assert seen[3][1].sizes == () and seen[3][1].n is None
    np.testing.assert_array_equal(np.asarray(seen[3][1].labels), np.sort(np.array([first.y, second.y])))


def test_known_edges_and_features_of_a_batch_show_its_order(seen: list[Any]) -> None:
    """They come padded, with the labels in the same order. An answer in another order is matched, as ever."""
    told = dataclasses.replace(SMALL, batch_size=2, know=("adjacency", "features", "labels"))
    results = list(run(told))
    for client in (0, 1):
        truths, known = [results[2 * client + i].truth for i in (0, 1)], seen[client][1]
        assert known.sizes == tuple(g.n for g in truths) and known.n == max(known.sizes)
        assert known.adjacency is not None and known.features is not None
        for g, truth in enumerate(truths):
            np.testing.assert_array_equal(known.adjacency[g, : truth.n, : truth.n], truth.adjacency)
            np.testing.assert_array_equal(known.features[g, : truth.n], truth.x)
            assert not known.adjacency[g, truth.n :].any() and not known.features[g, truth.n :].any()
        np.testing.assert_array_equal(np.asarray(known.labels), [g.y for g in truths])
    assert len({seen[0][1].sizes, tuple(sorted(seen[0][1].sizes, reverse=True))}) == 2, "not sorted by size"
    assert all(r.score.exact for r in results)
    alone = seen[2][1]
    assert alone.sizes == () and alone.adjacency is not None and alone.adjacency.ndim == 2
    np.testing.assert_array_equal(np.asarray(alone.features), results[4].truth.x)


@pytest.mark.parametrize(("know", "places"), [(("adjacency",), [1, 0]), (("features",), [1, 0]), (("n",), [0, 1])])
def test_an_answer_with_the_known_part_in_its_place_stays_in_order(
    know: tuple[str, ...], places: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where another order is nearer in all else; where nothing is known, it is matched."""
    ring = np.array([(0, 1), (1, 2), (2, 3), (0, 3)])
    path = ring[:3]
    codes = [np.repeat(graph.x[:1], 4, axis=0) for graph in prepare(SMALL_EMPTY).dataset.graphs[:2]]
    assert not np.array_equal(codes[0], codes[1])
    truths = [Graph(codes[0], ring, y=0), Graph(codes[1], path, y=1)]
    given = {"adjacency": [(codes[1], ring), (codes[0], path)], "features": [(codes[0], path), (codes[1], ring)]}
    answers = [Graph(*parts, y=0) for parts in given.get(know[0], [(codes[0], ring), (codes[1], path)])]
    whole = dataclasses.replace(SMALL_EMPTY, attack="oracle", graphs=2, batch_size=2, know=know)
    setup = prepare(dataclasses.replace(whole, attack="empty"))
    setup = setup._replace(dataset=dataclasses.replace(setup.dataset, graphs=truths))
    found = lambda *_, **__: Reconstruction(tuple(answers), 0.0, "done")  # noqa: E731
    monkeypatch.setitem(ATTACKS, "oracle", Attack("oracle", found, several=True))
    for place, result in enumerate(run(whole, setup)):
        best = result.reconstruction.best
        assert best is not None
        np.testing.assert_array_equal(best.x, codes[place if know[0] == "features" else places[place]])
        assert len(best.edges) == (4, 3)[place if know[0] != "features" else places[place]]


def test_target_nodes_of_a_batch_are_told_their_own_labels(seen: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of graphs of any size."""
    monkeypatch.setitem(ATTACKS, "oracle", dataclasses.replace(ATTACKS["oracle"], protocols=("target_node",)))
    nodes = dataclasses.replace(SMALL, readout="node_scores", node_task=True, bias=True, know=("labels",))
    results = list(run(dataclasses.replace(nodes, protocol="target_node", batch_size=5)))
    assert len({r.truth.n for r in results}) > 1
    np.testing.assert_array_equal(np.asarray(seen[0][1].labels), [np.asarray(r.truth.y)[0] for r in results])
    alone = list(run(dataclasses.replace(nodes, protocol="target_node", graphs=1)))
    np.testing.assert_array_equal(np.asarray(seen[1][1].labels), alone[0].truth.y)


def test_a_batch_with_known_edges_is_matched_by_them() -> None:
    told = dataclasses.replace(SMALL, attack="dlg", graphs=2, batch_size=2, know=("adjacency",))
    for result in run(dataclasses.replace(told, options=(("steps", "5"),))):
        assert result.reconstruction.best is not None and result.soft is not None
        np.testing.assert_array_equal(result.reconstruction.best.adjacency, result.truth.adjacency)
        assert result.soft.edges.file_order.accuracy == 1.0


def test_what_was_not_found_in_a_batch_counts_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def poor(observation: Observation, knowledge: Knowledge, *, key: Any, budget: Any) -> Reconstruction:
        return Reconstruction(
            (Graph(np.zeros((2, len(knowledge.space.features)), int), np.zeros((0, 2), int)),), 1.0, "x"
        )

    monkeypatch.setitem(ATTACKS, "oracle", Attack("oracle", poor, several=True))
    results = list(run(dataclasses.replace(SMALL, graphs=2, batch_size=2)))
    assert sorted(len(r.reconstruction.graphs) for r in results) == [0, 1]
    assert sum(r.soft is None for r in results) == 1


def test_clients_are_defended_each_with_its_own_noise(seen: list[Any]) -> None:
    plain = dataclasses.replace(SMALL, graphs=2)
    list(run(plain))
    noisy = dataclasses.replace(plain, defense="gaussian:0.01")
    list(run(noisy))
    list(run(noisy))
    updates = [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(o.update)]) for o, _ in seen]
    gaps = [updates[i + 2] - updates[i] for i in (0, 1)]
    assert all(gap.std() == pytest.approx(0.01, rel=0.1) for gap in gaps)
    assert abs(np.corrcoef(gaps[0], gaps[1])[0, 1]) < 0.1
    np.testing.assert_array_equal(updates[2], updates[4])  # the same seed, the same noise


def test_local_steps_reach_the_client(seen: list[Any]) -> None:
    list(run(dataclasses.replace(SMALL, graphs=1, protocol="fedavg", local_steps=3, local_rate=0.5)))
    observation = seen[0][0]
    assert (observation.protocol, observation.local) == ("fedavg", LocalTraining(0.5, steps=3))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"defense": "noise:1"}, "unknown 'noise'"),
        ({"batch_size": 0}, "batch_size"),
        ({"local_steps": 0}, "local_steps"),
        ({"local_rate": 0.0}, "local_rate"),
        ({"norm": "foo"}, "norm: unknown 'foo'; choose one of none, batch, layer, graph"),
    ],
)
def test_mistakes_are_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(run(dataclasses.replace(SMALL, attack="empty", **fields)))


def test_attacks_on_one_graph_refuse_a_batch() -> None:
    with pytest.raises(ValueError, match="mixes 2 graphs"):
        list(run(dataclasses.replace(SMALL, attack="grain", graphs=2, batch_size=2)))


def test_auxiliaries_of_every_kind_hold_no_client() -> None:
    """The rest of the set, a split by label, random graphs, and another data set in the clients' features."""
    for auxiliary in ("same", "split:1", "random:0.1:normal", "synthetic-tree", "synthetic-er:6"):
        specification = dataclasses.replace(SMALL, attack="empty", know=("n", "auxiliary"), auxiliary=auxiliary)
        setup = prepare(specification)
        private = {graph.canonical_form() for graph in setup.dataset.graphs}
        assert len(setup.dataset.graphs) == 5 and len(setup.public) >= 4
        if not auxiliary.startswith("random"):
            assert not private & {graph.canonical_form() for graph in setup.public}
            assert all(g.x.shape[1] == len(setup.dataset.space.features) for g in setup.public)


@pytest.mark.parametrize("auxiliary", ["split", "random:0.1", "random:2:normal", "random", "split:-1", "no such set"])
def test_unknown_auxiliaries_are_refused(auxiliary: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        prepare(dataclasses.replace(SMALL, attack="empty", know=("auxiliary",), auxiliary=auxiliary))


def test_another_set_that_holds_the_clients_gives_them_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same molecules under another name: what is public is cleared of the clients."""
    specification = dataclasses.replace(SMALL, attack="empty", know=("auxiliary",), auxiliary="synthetic-tree")
    dataset, load = prepare(specification).dataset, clients._load
    monkeypatch.setattr(clients, "_load", lambda s: load(dataclasses.replace(s, dataset="embedded")))
    public = clients.public_graphs(specification, dataset)
    assert public and not {g.canonical_form() for g in public} & {g.canonical_form() for g in dataset.graphs}
    with pytest.raises(ValueError, match="clients' own data set"):
        dataclasses.replace(specification, auxiliary="embedded")
