"""Extreme rays of a cone whose rays are known: which are found, and what pooled rows they have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches import rays
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.system import Rules
from jgleak.attacks.span.hops import Blocks, Nodes
from tests.clocks import HELD as FOREVER

NO_TIME = Clock(0.0, 0.0)

KNOWN = np.array([[1.0, 2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 3.0, 30.0, 0.0]])
"""Two rays that share a block; neither has the last one."""

SYSTEM = np.linalg.svd(KNOWN)[2][2:]
"""Equations whose null space they span."""


class Readout(SimpleNamespace):
    """Pools to the mean, or to as many times the mean as a graph has nodes."""

    counts_nodes = False

    def row_of(self, mean: np.ndarray, n: float) -> np.ndarray:
        """What is pooled."""
        return n * mean


def head(kernel: np.ndarray = SYSTEM.T, *, counts_nodes: bool = False) -> HeadGradient:
    """Of a gradient and a readout."""
    columns, values, across = np.linalg.svd(kernel, full_matrices=False)
    rank, readout = int(np.sum(values > 1e-9)), Readout()
    readout.counts_nodes = counts_nodes
    made, observation = object.__new__(HeadGradient), SimpleNamespace(model=SimpleNamespace(readout=readout))
    fields = {"columns": columns[:, :rank], "values": values[:rank], "rows": across[:rank].T}
    made.__dict__.update(fields, observation=observation)
    return made


def levels(number: int) -> Levels:
    """Blocks of nodes with three neighbours and one in turn, of two kinds."""
    roots, zeros = np.arange(number) % 2, np.zeros((number, 0))
    neighbours = tuple((0,) if k % 2 else (0, 1, 1) for k in range(number))
    blocks = Blocks(roots, roots, neighbours, zeros, zeros, np.zeros(number), 0)
    nodes = Nodes(np.zeros((2, 1), np.int64), np.zeros((2, 0)), np.zeros(2, np.int64))
    return Levels(nodes, (blocks,), (), complete=True)


def of_one_cone(
    monkeypatch: pytest.MonkeyPatch, rank: int = 2, most: float = 1.0, clock: Clock = FOREVER
) -> tuple[np.ndarray, list[int]]:
    """The rows, and blocks for which rays were looked for; of a head that shows rows up to a first entry."""
    asked, shortest = list[int](), rays._shortest

    def counted(null: np.ndarray, block: int) -> Any:
        asked.append(block)
        return shortest(null, block)

    monkeypatch.setattr(rays, "_system", lambda *_: SYSTEM)
    monkeypatch.setattr(rays, "_shortest", counted)
    monkeypatch.setattr(HeadGradient, "of_row", lambda _, row: (None, float(row[0] > most) * 2 * rays.OUTSIDE))
    return rays._of_one_cone(head(np.eye(5, rank)), levels(5), np.eye(5), DEFAULTS.limits, clock), asked


def test_every_ray_of_a_cone_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a block which is rare in the ray that was found for another one, and may have one of its own."""
    found, asked = of_one_cone(monkeypatch)
    np.testing.assert_allclose(found, KNOWN / KNOWN.sum(axis=1, keepdims=True), atol=1e-6)
    assert asked == [0, 2]
    assert of_one_cone(monkeypatch, rank=1)[0].shape == (1, 5)
    assert of_one_cone(monkeypatch, clock=NO_TIME)[0].shape == (0, 5)


def test_rows_that_the_head_does_not_show_are_no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = of_one_cone(monkeypatch, most=0.2)
    np.testing.assert_allclose(found, KNOWN[1:] / KNOWN[1].sum(), atol=1e-6)
    assert asked == [0, 2], "a ray is looked for once, whether it is a graph's or not"


def test_a_ray_that_many_blocks_have_is_looked_for_once_more_for_a_rare_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a thousand nodes may be rounding, and its block another graph's: the same ray is no second row."""
    monkeypatch.setattr(HeadGradient, "of_row", lambda *_: (None, 0.0))
    monkeypatch.setattr(rays, "_occurring", lambda system, *_: np.ones(system.shape[1], bool))
    monkeypatch.setattr(rays, "_null", lambda _: np.array([[1.0], [1e3], [1.0]]) / 1e3)
    asked = list[int]()
    monkeypatch.setattr(rays, "_shortest", lambda null, block: asked.append(block) or null[:, 0] / null[block, 0])
    monkeypatch.setattr(rays, "_system", lambda *_: np.zeros((0, 3)))
    found = rays._of_one_cone(head(), levels(3), np.eye(3, 5), DEFAULTS.limits, FOREVER)
    assert asked == [0, 2] and len(found) == 1


@pytest.mark.parametrize(("dimensions", "most", "looked"), [(0, 3, False), (1, 3, True), (3, 3, True), (4, 3, False)])
def test_rays_are_looked_for_in_a_cone_of_few_dimensions(
    dimensions: int, most: int, looked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    monkeypatch.setattr(rays, "FREE", most)
    monkeypatch.setattr(rays, "_system", lambda *_: SYSTEM)
    monkeypatch.setattr(rays, "_null", lambda system: np.ones((system.shape[1], dimensions)))
    monkeypatch.setattr(rays, "_shortest", lambda _, block: asked.append(block))
    found = rays._of_one_cone(head(), levels(5), np.eye(5), DEFAULTS.limits, FOREVER)
    assert found.shape == (0, 5) and asked == [0, 1, 2, 3] * looked, (
        "where there is no ray, the next block is looked at"
    )


def test_cones_follow_one_another_without_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until rows are as many as the gradient has dimensions, or there are no more."""
    left, parts = list[int](), [np.ones((2, 5)), 2 * np.ones((2, 5)), np.ones((0, 5))]
    monkeypatch.setattr(HeadGradient, "without", lambda _, rows: left.append(len(rows)))
    monkeypatch.setattr(rays, "_of_one_cone", lambda *_: parts[len(left) - 1])

    def found(rank: int, clock: Clock = FOREVER) -> np.ndarray:
        left.clear()
        return rays.pooled_rows(head(np.eye(5, rank)), levels(5), np.eye(5), DEFAULTS.limits, clock)

    assert found(3)[:, 0].tolist() == [1.0, 1.0, 2.0] and left == [0, 2]
    assert found(5)[:, 0].tolist() == [1.0, 1.0, 2.0, 2.0] and left == [0, 2, 4]
    assert found(2)[:, 0].tolist() == [1.0, 1.0] and left == [0]
    assert found(2, NO_TIME).shape == (0, 5) and left == []


def test_without_candidates_there_are_no_rows() -> None:
    assert rays._of_one_cone(head(), levels(0), np.zeros((0, 5)), DEFAULTS.limits, FOREVER).shape == (0, 5)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_equations_are_those_beside_the_pooled_rows_and_the_balances(size: float) -> None:
    """Of one row along the first axis, whatever the states' unit is; a second pooling beside it says the same."""
    states, row = size * np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([1.0, 0.0, 0.0])
    here = head(np.outer(np.r_[row, 5.0, 7.0], [1.0, -1.0]))
    balance = Rules.of(levels(3).top, np.arange(3)).balance
    assert balance.any()
    found = rays._system(here, levels(3), states)
    gram = np.diag([0.0, 0.25, 0.25]) + 0.09 * balance.T @ balance
    np.testing.assert_allclose(found.T @ found, gram, atol=1e-12)
    assert not rays._system(here, levels(3), np.zeros((3, 3)))[:2].any()


def test_blocks_occur_that_some_vector_of_the_cone_has() -> None:
    """The first two as often as each other, the third by itself; of the fourth and the fifth there are a ten-millionth
    of the others, and none."""
    system = np.array([[1.0, -1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1e-7, -1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    occur = [True, True, True, False, False]
    assert rays._occurring(system, DEFAULTS.limits, FOREVER).tolist() == occur
    assert rays._occurring(system[:, :3], DEFAULTS.limits, FOREVER).all()
    assert rays._occurring(system, DEFAULTS.limits, NO_TIME).all()


def test_the_null_space_is_orthonormal_and_takes_rounding_for_nothing() -> None:
    left, across = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 4, 4)))[0]
    found = rays._null((left * [1.0, 1e-5, 1e-7, 0.0]) @ across.T)
    np.testing.assert_allclose(found @ found.T, across[:, 2:] @ across[:, 2:].T, atol=1e-6)
    assert rays._null(np.zeros((3, 0))).shape == (0, 0)


def test_the_shortest_vector_with_a_block_is_a_ray() -> None:
    """From any basis; rounding below zero is none, and where less than none would be needed there is no vector."""
    basis = np.linalg.qr(KNOWN.T @ np.random.default_rng(0).normal(size=(2, 2)))[0]
    for block, ray in ((0, KNOWN[0]), (2, KNOWN[1] / 3), (3, KNOWN[1] / 30)):
        assert rays._shortest(basis, block) == pytest.approx(ray, rel=1e-6, abs=1e-9)
    assert rays._shortest(basis, 4) is None
    found = rays._shortest(np.array([[1.0], [100.0], [-9e-5]]), 0)
    assert found is not None and found.tolist() == [1.0, 100.0, 0.0]
    assert rays._shortest(np.array([[1.0], [-1.0]]), 0) is None
    assert rays._shortest(np.array([[2.0], [3.0]]), 0) == pytest.approx([1.0, 1.5])


def test_rounding_is_shared_by_all_blocks_that_a_ray_does_not_have() -> None:
    """Of the last two the programme makes one zero, and leaves a ten-thousandth of the largest count to the other."""
    basis = np.array([[1.0, 0.0], [100.0, 0.0], [0.30, 1.0], [0.31, 1.0]])
    found = rays._shortest(basis, 0)
    assert found is not None and found == pytest.approx([1.0, 100.0, 0.0, 0.005], abs=1e-4)


def test_a_sum_is_of_whole_numbers_of_the_rarest_block() -> None:
    """The counts 2 and 4, beside rounding: three nodes, six and so on; a mean is the same for all of them."""
    ray, states = np.array([2.0, 4.0, 0.0]), np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
    (mean,) = rays._rows_of(head(), states, ray)
    assert mean.tolist() == [1.0, 2.0, 0.0]
    sums = rays._rows_of(head(counts_nodes=True), states, np.array([2.0, 4.0, 1e-2]))
    assert len(sums) == 6
    np.testing.assert_allclose(sums, np.arange(1, 7)[:, None] * [3.0, 6.0, 0.015])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_rows_are_one_up_to_rounding(size: float) -> None:
    row = size * np.array([3.0, -4.0])
    for off, alike in ((0.9, True), (1.1, False)):
        assert rays._alike(row, row * (1 + off * rays.ALIKE)) is alike
    assert rays._alike(0.0 * row, 0.0 * row), "those of graphs that light no unit"
