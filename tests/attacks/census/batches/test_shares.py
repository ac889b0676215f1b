"""The graphs of one share of a batch's weights, and when they are all that there are."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import linalg

from jgleak.attacks.census.batches import shares
from jgleak.attacks.census.batches.separate import Share
from jgleak.attacks.census.batches.shares import ONE_EACH, by_weights
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.moves import Linked
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.search import levels_of
from jgleak.federated import Knowledge
from tests.clocks import HELD as FOREVER


@pytest.fixture(scope="module")
def ring(lab: Any) -> tuple[CensusProblem, Levels, np.ndarray]:
    """Three different nodes in a ring behind a mean, where graphs have up to twelve nodes; blocks of a path besides."""
    graph, path = lab.ring([0, 1, 2]), lab.path([0, 1, 2])
    model = lab.model(readout="pooled", readout_widths=(64,), last_act=True)
    problem = CensusProblem.of(lab.observe(model, graph), Knowledge(lab.space, max_n=12, prior="plain"))
    codes, kinds = np.unique(np.r_[graph.x, graph.x, path.x], axis=0, return_inverse=True)
    adjacency = np.asarray(linalg.block_diag(graph.adjacency, graph.adjacency, path.adjacency)) > 0
    levels, counts = levels_of(problem, Linked(adjacency, kinds.reshape(-1)), codes, 2)
    assert sorted(counts.tolist()) == [1, 1, 1, 2, 2, 2]
    return problem, dataclasses.replace(levels, complete=True), counts // 2


def share(counts: np.ndarray, copies: int = 1, only: bool = True) -> Share:
    return Share(counts, np.ones(1), 1, copies, only)


def limited(problem: CensusProblem, **limits: Any) -> CensusProblem:
    settings = dataclasses.replace(problem.settings, limits=dataclasses.replace(problem.limits, **limits))
    return dataclasses.replace(problem, settings=settings)


def test_behind_a_mean_every_multiple_of_the_counts_is_a_graph(ring: Any, lab: Any) -> None:
    problem, levels, counts = ring
    found, most = shares._graphs(problem, levels, share(counts), 1e-7, FOREVER)
    assert [one.graph.n for one in found.graphs] == [3, 6, 9, 12] and most == 12 and found.exhausted
    assert all(
        one.distance == 1e-7 and one.graph.y == 1 and one.graph.degree.tolist() == [2] * one.graph.n
        for one in found.graphs
    )
    assert found.graphs[0].graph.isomorphic(lab.ring([0, 1, 2]))
    twice, _ = shares._graphs(problem, levels, share(2 * counts), 1e-7, FOREVER)
    assert [one.graph.n for one in twice.graphs] == [6, 12]


@pytest.mark.parametrize(
    ("known", "sizes", "most"),
    [
        ({"max_n": 11}, [3, 6, 9], 11),
        ({"max_n": 9}, [3, 6, 9], 9),
        ({"max_n": 2}, [], 3),
        ({"n": 6}, [6], 6),
        ({"n": 3}, [3], 3),
        ({"n": 7}, [], 7),
        ({"n": 2}, [], 3),
        ({"max_n": None}, [3], 3),
    ],
    ids=[
        "no multiple",
        "a multiple",
        "below the share",
        "twice",
        "once",
        "no share's",
        "too few",
        "a first round of two",
    ],
)
def test_graphs_have_sizes_that_are_possible(
    ring: Any, known: dict[str, int | None], sizes: list[int], most: int
) -> None:
    """Where nothing is known of sizes, a share that is larger than the first round's graphs is still one of a graph."""
    problem, levels, counts = ring
    told = dataclasses.replace(problem.knowledge, **{"max_n": None, **known})
    less = dataclasses.replace(limited(problem, size_rounds=(2, 40)), knowledge=told)
    found, largest = shares._graphs(less, levels, share(counts), 1e-7, FOREVER)
    assert ([one.graph.n for one in found.graphs], largest) == (sizes, most)


def test_behind_a_sum_a_multiple_has_another_gradient(ring: Any, lab: Any) -> None:
    problem, levels, counts = ring
    summed = problem.observation.model.clone(
        readout=lab.model(readout="pooled", readout_widths=(64,), pooling="sum").readout
    )
    seen = dataclasses.replace(problem, observation=dataclasses.replace(problem.observation, model=summed))
    found, _ = shares._graphs(seen, levels, share(counts), 1e-7, FOREVER)
    assert [one.graph.n for one in found.graphs] == [3] and found.exhausted


def test_a_list_that_is_full_is_not_all(ring: Any) -> None:
    problem, levels, counts = ring
    found, _ = shares._graphs(limited(problem, listed=2), levels, share(counts), 1e-7, FOREVER)
    assert [one.graph.n for one in found.graphs] == [3, 6] and not found.exhausted


def test_counts_out_of_balance_are_no_graph(ring: Any) -> None:
    """A node whose neighbours' kinds are missing."""
    problem, levels, counts = ring
    found, _ = shares._graphs(problem, levels, share(counts * (np.cumsum(counts) < 3)), 1e-7, FOREVER)
    assert not found.graphs and found.exhausted


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, "k_graphs"),
        ({"size": 4}, "at_least_k"),
        ({"only": False}, "at_least_k"),
        ({"explained": False}, "at_least_k"),
        ({"complete": False}, "at_least_k"),
        ({"open": "used"}, "at_least_k"),
        ({"open": "others"}, "k_graphs"),
    ],
    ids=[
        "all is known",
        "a graph is missing",
        "other counts",
        "a block is missing",
        "not all blocks",
        "open",
        "others open",
    ],
)
def test_a_list_is_all_that_there_is_only_where_everything_is_known(
    ring: Any, changed: dict[str, Any], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two copies of one graph have an answer each; counts that are no graph's have none."""
    problem, levels, counts = ring
    seen = dataclasses.replace(problem.observation, batch_size=changed.get("size", 3))
    problem = dataclasses.replace(problem, observation=seen)
    open_ = {"used": counts > 0, "others": counts == 0}.get(changed.get("open", ""), np.zeros(6, bool))
    weights = SimpleNamespace(residual=1e-7, explained=changed.get("explained", True), open=open_)
    none = share(counts * (np.cumsum(counts) < 3))
    found = [none, share(counts, 2, changed.get("only", True))]
    monkeypatch.setattr(shares, "weights_along", lambda *_: weights)
    monkeypatch.setattr(shares, "separated", lambda *_: found)
    levels = dataclasses.replace(levels, complete=changed.get("complete", True))
    first, second = by_weights(problem, levels, FOREVER)
    assert first == second and [graph.n for graph in first.graphs] == [3, 6, 9, 12]
    certificate = first.certificate
    assert certificate is not None and (certificate.status, certificate.n_max) == (status, 12)
    assert ONE_EACH in certificate.conditions and certificate.residual == first.gradient_distance == 1e-7


def test_without_weights_there_is_no_answer(ring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, levels, _ = ring
    monkeypatch.setattr(shares, "weights_along", lambda *_: None)
    assert list(by_weights(problem, levels, FOREVER)) == []
