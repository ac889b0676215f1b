"""The gradient of a readout's first kernel, made of parts that are known: what a graph takes away from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import linalg

from jgleak.attacks.census.batches import first_kernel as module
from jgleak.attacks.census.batches.first_kernel import LAST_OF_PASSES, ONE_PASS, SEVERAL_PASSES, Exactness, Head, Roots
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.local_path import Point
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.attacks.span.subspace import Subspace
from tests.clocks import HELD

GRAPHS, PASSES, LABEL = 3, 2, 1


def problem_of(graphs: int = GRAPHS, passes: int = PASSES, **fields: Any) -> CensusProblem:
    problem = object.__new__(CensusProblem)
    path = tuple(Point({"pass": np.array(e)}, {}, 1.0 / passes) for e in range(passes))
    problem.__dict__.update(observation=SimpleNamespace(batch_size=graphs, **fields), path=path)
    return problem


@pytest.mark.parametrize(
    ("passes", "graphs", "most", "exactness"),
    [(1, 3, 2, ONE_PASS), (2, 3, 2, SEVERAL_PASSES), (2, 2, 2, LAST_OF_PASSES), (2, 1, 2, LAST_OF_PASSES)],
)
def test_rows_are_the_surer_the_fewer_passes_and_the_more_graphs_come_later(
    passes: int, graphs: int, most: int, exactness: Exactness
) -> None:
    assert module._exactness(problem_of(graphs, passes), most) == exactness


def head_of(kernel: np.ndarray, exactness: Exactness = ONE_PASS) -> Head:
    return Head(Subspace.of_gradient(kernel), kernel, *np.linalg.svd(kernel, full_matrices=False), exactness)


class Parts:
    """Six blocks, what flows back to a graph of these at each pass, and the parts of graphs in the mean gradient."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rows: int = 9) -> None:
        rng = np.random.default_rng(0)
        logits, entering = rng.normal(size=(6, PASSES, 2)), rng.normal(size=(6, 1, rows)) * np.ones((1, PASSES, 1))
        slopes = rng.normal(size=(6, 1, 2, 11)) * np.ones((1, PASSES, 1, 1))
        self.roots, self.upstream = Roots(logits, entering, slopes, np.zeros(6)), rng.normal(size=(2, 2))
        monkeypatch.setattr(module, "own_upstreams", self.own_upstreams)

    def own_upstreams(self, _: Any, mean: np.ndarray) -> np.ndarray:
        """Of each label; the mean decides on them."""
        return mean.sum() * self.upstream

    def part(self, counts: np.ndarray) -> np.ndarray:
        """Of one graph of these counts: of each node its row beside what flows back to it."""
        whole = np.zeros((self.roots.rows.shape[2], 11))
        for e in range(PASSES):
            nodes = np.repeat(np.arange(6), counts)
            own = self.own_upstreams(None, self.roots.logits[nodes, e].mean(axis=0))[LABEL]
            for node in nodes:
                whole += np.outer(self.roots.rows[node, e], own @ self.roots.slopes[node, e]) / nodes.size
        return whole / PASSES / GRAPHS


COUNTS = np.array([2, 3, 1, 0, 0, 0])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("copies", [1, 2])
def test_a_graph_takes_its_blocks_dimensions_from_the_gradient(
    size: float, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all of its copies, and no other count of them; at every size of the rows."""
    parts, problem = Parts(monkeypatch), problem_of()
    whole = copies * parts.part(COUNTS) + parts.part(np.array([0, 0, 0, 1, 2, 0]))
    head, roots = head_of(size * whole), parts.roots._replace(rows=size * parts.roots.rows)
    assert head.lacks(problem, roots, COUNTS, LABEL, copies)
    assert not head.lacks(problem, roots, COUNTS, LABEL, 3 - copies)
    assert not head.lacks(problem, roots, COUNTS, 1 - LABEL, copies)
    assert not head.lacks(problem, roots, np.array([1, 1, 2, 0, 0, 0]), LABEL, copies)


@pytest.mark.parametrize(
    ("shared", "switched", "lacks"), [(1, 0, True), (2, 0, False), (3, 1, True), (4, 1, False)], ids=str
)
def test_half_of_its_blocks_may_be_those_of_other_graphs_or_have_switched(
    shared: int, switched: int, lacks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two to five blocks all but one occur in others too: the gradient keeps their dimensions. One may count more
    where units switch between passes."""
    parts, counts = Parts(monkeypatch), np.zeros(6, np.int64)
    counts[: shared + 1] = 1
    others = np.random.default_rng(1).normal(size=(shared, 11))
    whole = parts.part(counts) + parts.roots.rows[1 : shared + 1, 0].T @ others
    head = head_of(whole, ONE_PASS._replace(switched=float(switched)))
    assert head.lacks(problem_of(), parts.roots, counts, LABEL) is lacks


def test_a_gradient_of_all_dimensions_lacks_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many blocks as a row has entries: there is no direction to spare."""
    parts, rank = Parts(monkeypatch, rows=3), np.array([1, 1, 1, 0, 0, 0])
    assert not head_of(parts.part(rank)).lacks(problem_of(), parts.roots, rank, LABEL)


def test_rounding_beside_the_largest_value_is_no_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all other values are faint."""
    parts, sizes = Parts(monkeypatch), np.array([1e3, 1.0, 1.0, 1.0, 1.0, 1.0])
    parts.roots = parts.roots._replace(rows=parts.roots.rows * sizes[:, None, None])
    whole = parts.part(COUNTS)
    noise = np.random.default_rng(1).normal(size=whole.shape)
    whole += 1e-9 * np.linalg.norm(whole) * noise
    assert head_of(whole).lacks(problem_of(), parts.roots, COUNTS, LABEL)


def test_values_of_the_gradient_count_down_to_rounding() -> None:
    """Whether or not there is a gap between them."""
    left = linalg.hadamard(8) / np.sqrt(8)
    right = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    kernel = left * np.array([1.0, 0.5, 0.4, 1e-4, 5e-5, 1.5e-7, 0.0, 0.0]) @ right
    readout = SimpleNamespace(first_map=("mlp", "first"))
    update = {"readout": {"mlp": {"first": {"kernel": kernel}}}}
    head = Head.of(problem_of(passes=1, update=update, model=SimpleNamespace(readout=readout)), 1)
    np.testing.assert_allclose(head.gradient * head.span.scale[:, None], kernel)
    np.testing.assert_allclose(head.left * head.values @ head.across, head.gradient, atol=1e-12)
    assert head.span.rank == 6 and head.exactness == ONE_PASS


def test_roots_are_those_of_every_pass_in_the_gradients_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    """And as far from the gradient's space as their mean row is."""
    rng = np.random.default_rng(0)
    kernel = 10.0 ** rng.integers(-1, 2, (5, 1)) * (rng.normal(size=(5, 2)) @ rng.normal(size=(2, 7)))
    head = head_of(kernel)
    codes, rows = np.zeros((2, 1), int), rng.normal(size=(2, 3))
    kinds = np.array([0, 1])
    blocks = Blocks(kinds, kinds, ((1,), (0,)), np.zeros((2, 0)), np.zeros((2, 0)), np.zeros(2), 0)
    levels = Levels(Nodes(codes, rows, np.zeros(2, int)), (blocks,), (), complete=True)
    logits, slopes = rng.normal(size=(PASSES, 2, 4)), rng.normal(size=(PASSES, 2, 4, 7))
    inside, beside = kernel @ rng.normal(size=(7, 2)), rng.normal(size=(5, 2))
    entering = np.stack([(inside + sign * beside).T for sign in (1.0, -1.0)])
    monkeypatch.setattr(module, "root_states", lambda _, params, *__: np.full((2, 1), float(params["pass"])))

    def at_first_map(_: Any, params: Any, __: Any, nodes: np.ndarray, states: np.ndarray) -> Any:
        e = int(params["pass"])
        assert states.tolist() == [[e], [e]]
        return logits[e], slopes[e], entering[e]

    monkeypatch.setattr(module, "_at_first_map", at_first_map)
    problem = problem_of(model=SimpleNamespace(readout=SimpleNamespace(first_map=("mlp",))))
    roots = head.roots(problem, levels, HELD)
    assert roots is not None
    np.testing.assert_array_equal(roots.logits, np.moveaxis(logits, 0, 1))
    np.testing.assert_array_equal(roots.slopes, np.moveaxis(slopes, 0, 1))
    np.testing.assert_allclose(roots.rows * head.span.scale, np.moveaxis(entering, 0, 1))
    assert roots.off.max() < 1e-6, "what passes differ by cancels in the mean"
    np.testing.assert_array_equal(roots.part(np.array([1])).rows, roots.rows[1:])
    monkeypatch.setattr(module, "root_states", lambda *_: None)
    assert head.roots(problem, levels, HELD) is None
