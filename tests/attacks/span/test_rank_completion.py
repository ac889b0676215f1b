"""Spans that lack a dimension: a molecule whose adjacency is singular, completed from its blocks alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span import rank_completion
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.filter import BlockFilter
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.rank_completion import _Embedding, _listed, _shared, _unit, completed
from jgleak.attacks.span.settings import SpanLimits
from jgleak.attacks.span.subspace import Subspace
from jgleak.federated import Observation
from jgleak.gnn import GCNConv, GINConv, Layer, LayerNorm
from jgleak.graph import Graph

from .molecules import FOREVER, seen, true_blocks


def completions(observation: Observation, nodes: Nodes, span: Subspace) -> tuple[BlockFilter, list[Subspace]]:
    search = BlockFilter(*observation.model.layer_at(observation.params, 0), nodes.rows, nodes.degrees)
    options = np.flatnonzero(nodes.degrees > 0)
    requests = [(c, [Slot(options, int(degree))]) for c, degree in enumerate(nodes.degrees)]
    return search, completed(search, requests, span, FOREVER)


def true_rows(graph: Graph, nodes: Nodes, search: BlockFilter) -> np.ndarray:
    """The states of the graph's different 1-hop blocks."""
    blocks = sorted(true_blocks(graph, nodes))
    return search.confirm([centre for centre, _ in blocks], [list(around) for _, around in blocks])[2]


@pytest.mark.slow
def test_the_shared_direction_is_the_missing_one() -> None:
    graph, observation, nodes, check = seen("CNC(=O)ON=CC(C)(C)S(C)=O")
    span = check.subspace
    looped = graph.adjacency + np.eye(graph.n)
    assert np.linalg.matrix_rank(looped) < graph.n
    search, found = completions(observation, nodes, span)
    rows = true_rows(graph, nodes, search)
    assert np.linalg.matrix_rank(rows, tol=1e-8 * np.abs(rows).max()) == span.rank + 1 == found[0].rank
    assert np.sum(span.distances(rows) > 1e-2) >= 3, "several true rows lie far outside"
    assert np.all(found[0].distances(rows) < 1e-4) and found[0].tolerance >= 1e-4
    np.testing.assert_allclose(found[0].basis.T @ found[0].basis, np.eye(found[0].rank), atol=1e-9)
    inside = span.basis @ np.random.default_rng(0).normal(size=(span.rank, 5))
    assert np.all(found[0].distances(inside.T * span.scale) < 1e-9), "nothing of the span is lost"


def test_without_time_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are candidates listed any more."""
    _, observation, nodes, check = seen("CNC(=O)ON=CC(C)(C)S(C)=O")
    span = check.subspace
    search = BlockFilter(*observation.model.layer_at(observation.params, 0), nodes.rows, nodes.degrees)
    listed, late = list[int](), Budget(time_limit=1e-9).start()

    def candidates(*_: object) -> Iterator[tuple[int, np.ndarray]]:
        for centre in range(3):
            listed.append(centre)
            yield centre, np.zeros((1, 1), np.int64)

    monkeypatch.setattr(rank_completion, "_listed", candidates)
    assert completed(search, [(0, [Slot(np.arange(3), 1)])], span, late) == [] and listed in ([], [0])
    monkeypatch.undo()
    assert completed(search, [], span, FOREVER) == []


class Path(NamedTuple):
    """A path of five different nodes, whose states' span is ``span`` as a gradient shows it.

    Attributes:
      search: embeds neighbourhoods.
      around: each node's neighbours.
      true: the states ``(5, D)``.
      span: of some combinations of them.
    """

    search: BlockFilter
    around: list[list[int]]
    true: np.ndarray
    span: Subspace


def path(shown: int, classes: int = 1) -> Path:
    """One of whose states a gradient shows so many combinations."""
    rng, graph = np.random.default_rng(0), np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1)
    rows, layer = rng.normal(size=(5, 6)).astype(np.float32), Layer(GCNConv(40))
    weights = layer.init(jax.random.key(0), jnp.asarray(rows), jnp.asarray(graph), jnp.ones(5, bool))
    degrees = graph.sum(axis=1).astype(np.int64)
    search = BlockFilter(layer, weights["params"], rows, degrees, classes=classes)
    around = [(classes * np.flatnonzero(row)).tolist() for row in graph]
    true = search.confirm(list(range(5)), around)[2]
    span = Subspace.of_gradient(true.T @ rng.normal(size=(5, shown)) @ rng.normal(size=(shown, 30)))
    assert span.rank == shown and np.all(span.distances(true) > 1e-2)
    return Path(search, around, true, span)


@pytest.mark.parametrize("classes", [1, 2])
def test_one_direction_that_true_rows_lack_is_found_among_all_neighbourhoods(classes: int) -> None:
    """Of a path's five states four combinations are seen; also where edges are of two classes, of which a neighbour's
    number tells, and all are of the first."""
    search, around, true, span = path(4, classes)
    requests = [(centre, [Slot(classes * np.arange(5), len(near))]) for centre, near in enumerate(around)]
    found = completed(search, requests, span, FOREVER)
    assert [one.rank for one in found] == [5]
    assert np.all(found[0].distances(true) <= found[0].tolerance) and found[0].margin.gap < span.margin.gap
    false = search.confirm([0, 2, 4], [[3 * classes], [0, 0], [2 * classes]])[2]
    assert np.all(found[0].distances(false) > found[0].tolerance)


@pytest.mark.parametrize(("shown", "turned", "ranks"), [(4, 0.0, [5]), (4, 4e-5, [5]), (4, 2e-2, []), (3, 0.0, [])])
def test_rows_that_look_parallel_have_to_be_so_as_a_whole(
    shown: int, turned: float, ranks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a path's states are taken for one group: their parts outside a span of one dimension less are parallel, as
    far as the span is known, and outside one of two less they are not."""
    search, around, _, span = path(shown)
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(span.basis + turned * rng.normal(size=span.basis.shape) / np.sqrt(span.ambient))[0]
    monkeypatch.setattr(rank_completion, "_shared", lambda directions, *_: [np.arange(len(directions))])
    requests = [(centre, [Slot(np.array([t]), 1) for t in near]) for centre, near in enumerate(around)]
    found = completed(search, requests, dataclasses.replace(span, basis=basis), FOREVER)
    assert [one.rank for one in found] == ranks


@pytest.mark.parametrize("layer", [Layer(GINConv(40)), Layer(GCNConv(40), norm=LayerNorm())])
def test_states_whose_columns_need_all_others_are_not_completed(layer: Layer) -> None:
    """Of some columns alone such a state cannot be computed."""
    rows = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    graph = jnp.asarray(rows), 1.0 - jnp.eye(3), jnp.ones(3, bool)
    weights = layer.init(jax.random.key(0), *graph)
    search = BlockFilter(layer, weights["params"], rows, np.full(3, 2))
    span = Subspace.of_gradient(np.random.default_rng(1).normal(size=(40, 2)) @ np.ones((2, 9)))
    assert completed(search, [(0, [Slot(np.arange(3), 2)])], span, FOREVER) == []


def test_the_clock_is_asked_while_directions_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that ends in the third cell leaves the groups of the first two."""
    rng = np.random.default_rng(0)
    unit = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    directions = np.repeat(unit, [9, 8, 7, 6, 5, 4, 3, 3], axis=0)
    asked: list[int] = []

    def left(_: Clock) -> float:
        asked.append(1)
        return 3.5 - len(asked)

    for slab in (1 << 18, 7):
        monkeypatch.setattr(rank_completion, "SLAB", slab)
        whole = _shared(directions, np.random.default_rng(1), 2e-3, SpanLimits(), FOREVER)
        assert [group.size for group in whole] == [9, 8, 7, 6, 5, 4, 3, 3]
    monkeypatch.setattr(rank_completion, "SLAB", 1 << 18)
    monkeypatch.setattr(Clock, "left", property(left))
    cut = _shared(directions, np.random.default_rng(1), 2e-3, SpanLimits(), Clock(0.0, 0.0))
    assert [group.size for group in cut] == [9, 8]


def test_a_direction_has_neither_length_nor_sign() -> None:
    row = np.array([0.3, -2.0, 0.5])
    rows = np.stack([row, -7.0 * row, [0.0, 0.0, -4.0]])
    same = -row / np.linalg.norm(row)
    np.testing.assert_allclose(_unit(rows), np.stack([same, same, [0.0, 0.0, 1.0]]))


def test_directions_of_a_narrow_space_are_grouped() -> None:
    """Fewer coordinates than cells have axes."""
    rng = np.random.default_rng(0)
    lone = rng.normal(size=(20, 3))
    directions = np.concatenate(
        [np.tile([[0.6, 0.0, 0.8]], (5, 1)), lone / np.linalg.norm(lone, axis=1, keepdims=True)]
    )
    assert _shared(directions, rng, 2e-3, SpanLimits(), FOREVER)[0].tolist() == [0, 1, 2, 3, 4]
    assert [group.tolist() for group in _shared(directions[:5], rng, 2e-3, SpanLimits(), FOREVER)] == [[0, 1, 2, 3, 4]]


def test_a_few_equal_directions_are_found_among_many() -> None:
    """More than are compared with each other at once."""
    rng, limits = np.random.default_rng(0), SpanLimits()
    rows = rng.normal(size=(2 * limits.completion_cell, 8))
    rows[-3:] = rows[-1]
    [group] = _shared(rows / np.linalg.norm(rows, axis=1, keepdims=True), rng, 2e-3, limits, FOREVER)
    assert group.tolist() == list(range(len(rows)))[-3:]


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_residuals_of_candidates_are_relative_to_their_chosen_columns(unit: float) -> None:
    search, _, _, _ = path(4)
    rng, columns = np.random.default_rng(0), np.array([1, 4, 5, 11, 30])
    scale, null = unit * rng.uniform(0.5, 2.0, 5), rng.normal(size=(5, 3))
    members = np.array([[1, 3], [0, 4], [3, 3]])
    rows = search.confirm([2] * 3, members.tolist())[2][:, columns] * scale
    wanted = rows @ null / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(_Embedding(search, columns, scale, null)(2, members), wanted, atol=1e-4)


def test_of_near_directions_those_are_a_group_that_are_equal() -> None:
    """Whichever of a cell comes first."""
    rng = np.random.default_rng(0)
    one = rng.normal(size=12)
    directions = np.stack([one + 1e-5 * rng.normal(size=12), *[one] * 3]) / np.linalg.norm(one)
    for shift in range(4):
        [group] = _shared(np.roll(directions, shift, axis=0), rng, 1e-6, SpanLimits(), FOREVER)
        assert group.tolist() == sorted((np.arange(1, 4) + shift) % 4)


def test_candidates_are_listed_by_centre_the_fewest_first_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten pairs of four, three of three and none of no neighbour; whole centres, in batches of six."""
    requests = [(5, [Slot(np.arange(4), 2)]), (7, [Slot(np.arange(3), 1)]), (9, []), (8, [Slot(np.arange(0), 1)])]
    monkeypatch.setattr(rank_completion, "BATCHES", (3, 6))
    for most, wanted in ((14, [(7, 3), (5, 6), (5, 4)]), (13, [(7, 3)]), (4, [(7, 3)]), (3, []), (0, [])):
        found = [(centre, len(rows)) for centre, rows in _listed(requests, most)]
        assert found == wanted
    pairs = np.concatenate([rows for centre, rows in _listed(requests, 14) if centre == 5])
    assert len({tuple(pair) for pair in pairs.tolist()}) == 10
