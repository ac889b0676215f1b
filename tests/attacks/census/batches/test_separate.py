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
from jgleak.attacks.census.batches.separate import (
    OWN,
    OWN_FLOOR,
    OWN_MOVED,
    SAME,
    Share,
    _same,
    _share,
    _smallest,
    separated,
)
from jgleak.attacks.census.batches.upstream import Upstream, own_upstreams
from jgleak.attacks.census.batches.weights import Weights, weights
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Rules
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.federated import Knowledge, Observation, fedsgd
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
    nothing = object.__new__(Weights)
    nothing.__dict__.update(values=np.zeros((5, 1)), errors=np.zeros((5, 1)), alike=np.arange(5))
    assert separated(problem, levels, nothing, HELD) == [], "blocks that are taken to be absent have no graph"
    assert len(lives) == 2
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


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("complete", [True, False])
def test_of_factors_that_no_graph_has_whole_parts_are_looked_at(
    parts: int, complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half of the first or the second beside the other, and then thirds; both may be one graph's, which counts once.
    Where some combinations were left out, other counts may be possible."""
    known = [Factor(np.array([6.0]), np.array([0.6])), Factor(np.array([-12.0]), np.array([1.2]))]
    made, looked = list[list[float]](), list[tuple[float, float, int]]()

    class Ways:
        def __init__(self, given: list[Factor]) -> None:
            self.given, self.complete = given, complete
            made.append([one.value[0] for one in given])

    def share(_: Any, __: Any, some: Any, tried: Any, part: Factor) -> Share | None:
        ways, number = tried
        looked.append((ways.given[number].value[0], ways.given[number].error[0], number))
        assert part.value == ways.given[number].value and part.error == ways.given[number].error
        if part.value != known[number].value / parts:
            return None
        return Share(np.array([parts, 0]), np.array([1.0]), 0, 1, only=True)

    monkeypatch.setattr(module, "factors", lambda *_: known)
    monkeypatch.setattr(module, "Combinations", Ways)
    monkeypatch.setattr(module, "choices", lambda values, errors, ways, number: (ways, number))
    monkeypatch.setattr(module, "cheapest", lambda allowed, *_: allowed)
    monkeypatch.setattr(module, "_share", share)
    weights = object.__new__(Weights)
    weights.__dict__.update(errors=np.full((2, 1), 0.1), alike=np.arange(2))
    number, zeros = np.arange(2), np.zeros((2, 0))
    blocks = Blocks(number, 0 * number, ((),) * 2, zeros, zeros, np.zeros(2), 0)
    levels = Levels(Nodes(np.zeros((0, 1), int), np.zeros((0, 1)), np.zeros(0, int)), (blocks,), (), complete=True)
    live = number, np.array([[6.0], [-12.0]])
    (found,) = module._more(object.__new__(CensusProblem), levels, weights, live, HELD)  # type: ignore[arg-type]
    assert found.counts.tolist() == [parts, 0] and found.only is complete
    assert made == [[6.0, -12.0], [3.0, -12.0], [6.0, -6.0], [2.0, -12.0], [6.0, -4.0]][: 2 * parts - 1]
    sizes = [(6.0, 0.6, 0), (-12.0, 1.2, 1), (3.0, 0.3, 0), (-6.0, 0.6, 1), (2.0, 0.2, 0), (-4.0, 0.4, 1)]
    np.testing.assert_allclose(looked, sizes[: 2 * parts])


FIRST, SECOND = np.array([3.0, 4.0]), np.array([0.0, -0.5])
"""What flows back to a node under two labels, of lengths 5 and a half."""


@pytest.mark.parametrize(
    ("seen", "error", "found"),
    [
        (FIRST, 0.0, (0, 1)),
        (SECOND, 0.0, (1, 1)),
        (2 * FIRST, 0.0, (0, 2)),
        (3 * SECOND, 0.0, (1, 3)),
        (4 * FIRST, 0.0, None),
        (-FIRST, 0.0, None),
        (FIRST * (1 + 0.9 * (OWN + OWN_FLOOR)), 0.0, (0, 1)),
        (FIRST * (1 + 1.1 * (OWN + OWN_FLOOR)), 0.0, None),
        (3 * FIRST * (1 + 0.98 * (OWN + OWN_FLOOR / 3)), 0.0, (0, 3)),
        (3 * FIRST * (1 + 1.02 * (OWN + OWN_FLOOR / 3)), 0.0, None),
        (SECOND * (1 + 0.999 * (OWN + 10 * OWN_FLOOR)), 0.0, (1, 1)),
        (SECOND * (1 + 1.001 * (OWN + 10 * OWN_FLOOR)), 0.0, None),
        (SECOND * 1.1, 0.06, (1, 1)),
        (SECOND * 1.1, 0.04, None),
        (SECOND * 1.1, 6.0, (1, 1)),
        ((FIRST + SECOND) / 2, 6.0, (0, 1)),
    ],
)
def test_a_factor_is_that_of_the_label_whose_gradient_it_is(
    seen: np.ndarray, error: float, found: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one to three equal graphs, up to rounding of the outputs and the factor's own error; of two labels the one
    that is nearer to what is allowed."""
    assert label(np.array(seen), error, monkeypatch) == found


@pytest.mark.parametrize("why", ["the model moved", "a path"])
def test_along_local_steps_a_factor_may_be_further_off(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {"moves": why == "the model moved", "path": 1 + (why == "a path")}
    for off, found in ((0.9, (0, 2)), (1.1, None)):
        assert label(2 * FIRST * (1 + off * OWN_MOVED), 0.0, monkeypatch, **steps) == found


def label(
    seen: np.ndarray, error: float, monkeypatch: pytest.MonkeyPatch, *, moves: bool = False, path: int = 1
) -> tuple[int, int] | None:
    """Of three nodes' mean, and of their sum, in a batch of four graphs: what flows back is by the batch's mean."""
    added, rows = np.array([[3.0, 0.0], [0.0, 6.0]]), np.array([[2.0, 0.0], [0.0, -1.0]])
    answers = list[tuple[int, int] | None]()
    for absolute, row, nodes in ((False, [2.0, 2.0], 3), (True, [6.0, 6.0], 1)):

        def own(_: Any, at: np.ndarray, row: list[float] = row) -> np.ndarray:
            assert at.tolist() == row
            return np.array([FIRST, SECOND])

        monkeypatch.setattr(module, "own_upstreams", own)
        monkeypatch.setattr(module, "moved", lambda _: moves)
        monkeypatch.setattr(CensusProblem, "absolute", property(lambda _, here=absolute: here))
        problem, weights = object.__new__(CensusProblem), object.__new__(Weights)
        observation = object.__new__(Observation)
        observation.__dict__.update(batch_size=4)
        problem.__dict__.update(observation=observation, path=(None,) * path)
        weights.__dict__.update(added=added, upstream=Upstream(rows, None, None, np.ones(2)))
        value = np.array([seen[0] / 2, -seen[1]]) / (4 * nodes)
        factor = Factor(value, np.array([0.0, error / (4 * nodes)]))
        answers.append(module._label(problem, weights, np.array([2, 1]), factor))
    assert answers[0] == answers[1]
    return answers[0]


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


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_one_graph_from_a_part_of_its_factor_is_the_same(size: float) -> None:
    counts, factor = np.array([2, 4, 0]), size * np.array([0.3, -0.2])
    one = Share(counts, factor, 0, 1, only=True)
    assert _same(one, dataclasses.replace(one, counts=2 * counts, factor=factor / 2))
    for far, same in ((0.9, True), (1.1, False)):
        assert _same(one, dataclasses.replace(one, factor=factor * (1 + far * SAME))) is same
    assert not _same(one, dataclasses.replace(one, counts=counts[::-1].copy()))


def _in_order(shares: list[Share], truth: np.ndarray) -> list[Share]:
    by_counts = {share.counts.tobytes(): share for share in shares}
    return [by_counts[row.tobytes()] for row in truth]
