"""The general road on whole batches: weights against the graphs' own gradients, counts against the graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census.batches import separate as module
from jgleak.attacks.census.batches.factors import Factor
from jgleak.attacks.census.batches.separate import SAME, Share, _same, _share, _smallest, separated
from jgleak.attacks.census.batches.upstream import own_upstreams
from jgleak.attacks.census.batches.weights import Weights, weights
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Rules
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.federated import Knowledge, fedsgd
from jgleak.gnn import GNN
from jgleak.graph import Graph
from tests.clocks import HELD

BUDGET = Budget(time_limit=60)

READOUTS: dict[str, dict[str, Any]] = {
    "GRAIN's": {},
    "mean": {"readout": "pooled", "readout_widths": (64,), "last_act": True},
    "sum, linear": {"readout": "pooled", "pooling": "sum", "readout_widths": (), "last_act": True},
}


def solved(lab: Any, model: GNN, graphs: Sequence[Graph], loss: str) -> tuple[CensusProblem, Levels, Weights]:
    """The weights of a batch under the first checks that leave all true blocks."""
    observation = fedsgd(model, lab.params(model), graphs, lab.space, loss=loss)
    problem = CensusProblem.of(observation, Knowledge(lab.space))
    clock = BUDGET.start()
    for levels in CensusCandidates(problem, clock, BUDGET).attempts(clock):
        found = weights(problem, levels, clock)
        if found is not None and found.explained:
            return problem, levels, found
    raise AssertionError("no attempt has all blocks")


def true_counts(levels: Levels, graph: Graph) -> np.ndarray:
    """How many of a graph's nodes have each top block, by the blocks' names."""
    names: list[Any] = [tuple(row) for row in levels.nodes.codes.tolist()]
    own: list[Any] = [tuple(row) for row in graph.x.tolist()]
    for blocks in levels.hops:
        around = zip(blocks.roots.tolist(), blocks.neighbours, strict=True)
        names = [(names[root], tuple(sorted(names[t] for t in neighbours))) for root, neighbours in around]
        own = [(own[v], tuple(sorted(own[u] for u in graph.neighbours[v]))) for v in range(graph.n)]
    place = {name: k for k, name in enumerate(names)}
    return np.bincount([place[name] for name in own], minlength=len(names))


@pytest.mark.parametrize(("readout", "loss"), [("GRAIN's", "ce"), ("mean", "bce"), ("sum, linear", "ce")])
def test_every_graph_of_a_batch_is_counted(lab: Any, readout: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are what the graphs' own losses and blocks say, of either sign; counts are the graphs', and the only ones
    where all combinations of factors were looked at."""
    graphs = [lab.random(7, 3), lab.random(9, 4), lab.path([0, 1, 2, 0, 3], 0)]
    assert {graph.y for graph in graphs} == {0, 1}
    model = lab.model(**READOUTS[readout])
    problem, levels, found = solved(lab, model, graphs, loss)
    truth = np.stack([true_counts(levels, graph) for graph in graphs])
    nodes = np.array([1 if problem.absolute else graph.n for graph in graphs])
    own = np.stack(
        [
            own_upstreams(problem.observation, row)[int(graph.y)]
            for row, graph in zip(truth @ found.added / nodes[:, None], graphs, strict=True)
        ]
    ) / (len(graphs) * nodes[:, None])
    assert found.explained
    scale = np.abs(truth.T @ own).max()
    np.testing.assert_allclose(found.values @ found.upstream.rows, truth.T @ own, atol=2e-5 * scale)
    shares = separated(problem, levels, found, BUDGET.start())
    assert sorted(share.counts.tolist() for share in shares) == sorted(truth.tolist())
    assert [share.label for share in _in_order(shares, truth)] == [graph.y for graph in graphs]
    assert all(share.only and share.copies == 1 for share in shares)
    monkeypatch.setattr("jgleak.attacks.census.batches.factors.SUMS", 3 * 60 + 3 * 16**2 + 8**3 - 1)
    fewer = separated(problem, levels, found, BUDGET.start())
    assert fewer and not any(share.only for share in fewer)


@pytest.mark.long
def test_the_model_says_how_many_graphs_share_a_factor(lab: Any) -> None:
    """Factors of equal graphs add up; of a batch that is said to be of five all are 5/3 of the model's: no graph's."""
    graphs = [lab.random(8, 5), lab.random(8, 6), lab.random(8, 5)]
    problem, levels, found = solved(lab, lab.model(), graphs, "ce")
    shares = separated(problem, levels, found, BUDGET.start())
    assert {share.counts.tobytes(): share.copies for share in shares} == {
        true_counts(levels, graphs[0]).tobytes(): 2,
        true_counts(levels, graphs[1]).tobytes(): 1,
    }
    said = dataclasses.replace(problem, observation=dataclasses.replace(problem.observation, batch_size=5))
    assert not separated(said, levels, found, BUDGET.start())
    longer = dataclasses.replace(found, values=1.001 * found.values)
    assert not separated(problem, levels, longer, BUDGET.start()), "a thousandth too long: no graph's either"


def test_a_missing_block_shows(lab: Any) -> None:
    """Without one true block nothing explains the gradient."""
    graphs = [lab.random(7, 3), lab.random(9, 4)]
    problem, levels, _ = solved(lab, lab.model(), graphs, "ce")
    kept = np.arange(levels.top.size) != int(true_counts(levels, graphs[0]).argmax())
    less = Levels(levels.nodes, (*levels.hops[:-1], levels.top.keep(kept)), (), complete=False)
    found = weights(problem, less, BUDGET.start())
    assert found is None or not found.explained


def test_weights_of_graphs_that_are_found_are_taken_off_until_none_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two graphs share a block; nodes of the third and the fourth are told apart by nothing, so that their sum counts.
    The fifth block's weight is not known: it may always be a graph's."""
    counts, factors = np.array([[2, 1, 1, 0, 0], [0, 3, 0, 0, 0]]), np.array([[0.5], [-0.25]])
    shares = [Share(own, factor, 1, 1, only=True) for own, factor in zip(counts, factors, strict=True)]
    values, errors = counts.T @ factors, np.full((5, 1), 1e-6)
    values[3], values[4], errors[4] = values[2], 7.0, np.inf
    weights = object.__new__(Weights)
    weights.__dict__.update(values=values, errors=errors, alike=np.array([0, 1, 2, 2, 4]))
    problem = object.__new__(CensusProblem)
    lives, zeros = list[Any](), np.zeros((5, 0))
    blocks = Blocks(np.arange(5), np.zeros(5, int), ((),) * 5, zeros, zeros, np.zeros(5), 0)
    levels = Levels(Nodes(np.zeros((0, 1), int), np.zeros((0, 1)), np.zeros(0, int)), (blocks,), (), complete=True)

    def more(_: Any, __: Any, ___: Any, live: Any, ____: Any) -> list[Share]:
        lives.append(live)
        return shares[len(lives) - 1 : len(lives)]

    monkeypatch.setattr(module, "_more", more)
    monkeypatch.setattr(CensusProblem, "absolute", property(lambda _: True))
    found = separated(problem, levels, weights, HELD)
    assert [share.counts.tolist() for share in found] == counts.tolist()
    (every, whole), (few, left) = lives
    assert every.tolist() == [0, 1, 2, 3, 4] and few.tolist() == [1, 4]
    np.testing.assert_allclose(whole, values)
    np.testing.assert_allclose(left, [[-0.75], [7.0]])
    assert separated(problem, levels, weights, Clock(0.0, 0.0)) == []
    lives.clear()
    shares[1:] = []
    assert len(separated(problem, levels, weights, HELD)) == 1, "it ends where no graph explains what is left"


def test_factors_that_several_weights_show_are_looked_at_before_those_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of weights that are known, and of those that are told apart by nothing once."""
    asked = list[tuple[list[float], int]]()

    def factors(values: Any, errors: Any, least: int) -> list[Factor]:
        assert np.isfinite(errors).all()
        asked.append((values[:, 0].tolist(), least))
        return []

    monkeypatch.setattr(module, "factors", factors)
    weights = object.__new__(Weights)
    weights.__dict__.update(errors=np.array([[0.1], [0.1], [np.inf], [0.1], [0.1]]), alike=np.array([0, 1, 2, 1, 4]))
    number, zeros = np.arange(5), np.zeros((5, 0))
    blocks = Blocks(number, 0 * number, ((),) * 5, zeros, zeros, np.zeros(5), 0)
    levels = Levels(Nodes(np.zeros((0, 1), int), np.zeros((0, 1)), np.zeros(0, int)), (blocks,), (), complete=True)
    live = np.array([0, 1, 2, 3]), np.array([[0.5], [0.25], [9.0], [0.25]])
    assert module._more(object.__new__(CensusProblem), levels, weights, live, HELD) == []
    assert asked == [([0.5, 0.25], 2), ([0.5, 0.25], 1)]


@pytest.mark.parametrize(
    ("tried", "labelled", "known", "found", "only"),
    [
        ([1, 2, 3], {1: (0, 1)}, True, 1, True),
        ([2, 1, 3], {1: (1, 2)}, True, 1, True),
        ([1, 2, None], {1: (0, 1)}, True, 1, False),
        ([1, 2], {1: (0, 1), 2: (1, 1)}, True, 1, False),
        ([1, 2], {1: (0, 1)}, False, 1, False),
        ([1, 2], {}, True, None, False),
        ([1, None], {}, True, None, False),
    ],
    ids=["one", "not the first", "there may be more", "two", "an unknown weight", "none", "none of many"],
)
def test_counts_are_the_only_ones_where_all_others_were_tried(
    tried: list[int | None],
    labelled: dict[int, tuple[int, int]],
    known: bool,
    found: int | None,
    only: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first that the model confirms: others may be confirmed as well, or were not tried. Counts are given of two of
    three blocks; what is known of the other one's weight does not matter."""
    monkeypatch.setattr(module, "_label", lambda _, __, counts, ___: labelled.get(int(counts[2])))
    errors = np.array([[0.0], [np.inf], [0.0 if known else np.inf]])
    weights = object.__new__(Weights)
    weights.__dict__.update(values=np.zeros((3, 1)), errors=errors)
    ways = iter([None if one is None else np.array([5, one]) for one in tried])
    share = _share(
        object.__new__(CensusProblem), weights, np.array([0, 2]), ways, Factor(np.array([0.25]), np.array([1e-9]))
    )
    if found is None:
        assert share is None
    else:
        assert share is not None and share.counts.tolist() == [5, 0, found] and share.only is only
        assert (share.label, share.copies) == labelled[found] and share.factor.tolist() == [0.25]


@pytest.mark.parametrize(
    ("counts", "smallest"),
    [
        ((3, 0, 0), (3, 0, 0)),
        ((0, 12, 0), (0, 1, 0)),
        ((0, 0, 6), (0, 0, 6)),
        ((4, 6, 0), (2, 3, 0)),
        ((6, 3, 0), (2, 1, 0)),
        ((6, 6, 0), (2, 2, 0)),
    ],
    ids=["ends alone", "rings", "leaves alone", "paths", "short paths", "an odd number of ends"],
)
def test_a_share_is_the_smallest_that_may_be_a_graphs(counts: tuple[int, ...], smallest: tuple[int, ...]) -> None:
    """Nodes of one kind with one and two neighbours, and one of another with one: under a mean all multiples are alike.
    Sizes are those that balances and the number of edges allow."""
    neighbours, roots, zeros = ((0,), (0, 0), (0,)), np.array([0, 0, 1]), np.zeros(3)
    blocks = Blocks(roots, roots, neighbours, zeros[:, None], zeros[:, None], zeros, 0)
    rules = Rules.of(blocks, np.arange(3))
    share = Share(np.array(counts), np.array([0.5, -1.0]), 1, 2, only=True)
    found = _smallest(share, rules)
    assert tuple(found.counts.tolist()) == smallest
    np.testing.assert_allclose(found.counts[:, None] * found.factor, share.counts[:, None] * share.factor)
    assert (found.label, found.copies, found.only) == (1, 2, True)


def test_one_graph_from_a_part_of_its_factor_is_the_same() -> None:
    counts, factor = np.array([2, 4, 0]), np.array([0.3, -0.2])
    one = Share(counts, factor, 0, 1, only=True)
    assert _same(one, dataclasses.replace(one, counts=2 * counts, factor=factor / 2))
    for far, same in ((0.9, True), (1.1, False)):
        assert _same(one, dataclasses.replace(one, factor=factor * (1 + far * SAME))) is same
    assert not _same(one, dataclasses.replace(one, counts=counts[::-1].copy()))


def _in_order(shares: list[Share], truth: np.ndarray) -> list[Share]:
    by_counts = {share.counts.tobytes(): share for share in shares}
    return [by_counts[row.tobytes()] for row in truth]
