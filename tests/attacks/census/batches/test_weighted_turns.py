"""Weights along a path that follows from them: which turn is kept, and when they end."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches import weights as module
from jgleak.attacks.census.batches.upstream import Upstream
from jgleak.attacks.census.batches.weights import EXPLAINED, SURE, weights
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.federated import Knowledge
from tests.clocks import HELD as FOREVER

LEVELS = Levels(Nodes(np.zeros((0, 1), np.int64), np.zeros((0, 1)), np.zeros(0, np.int64)), (), (), complete=True)


@pytest.fixture(scope="module")
def problem(lab: Any) -> CensusProblem:
    return CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1, 1, 2, 0])), Knowledge(lab.space, n=4))


def settled(
    problem: CensusProblem,
    residuals: list[float],
    monkeypatch: pytest.MonkeyPatch,
    unknowns: int = 4,
    clock: Clock = FOREVER,
) -> tuple[int, int]:
    """The number of the path that is returned, and how many were followed."""
    problems, paths = [problem], list[tuple[Any, ...]]()
    (point,) = problem.path

    def followed(here: CensusProblem, *_: Any) -> tuple[Any, ...]:
        problems.append(here)
        wild = residuals[len(paths) + 1 :] and residuals[len(paths) + 1] == np.inf
        leaf = np.array([np.nan if wild else float(len(paths))])
        paths.append((point, point._replace(params={"kernel": leaf})))
        return paths[-1]

    made = SimpleNamespace(matrix=np.zeros((12, unknowns, 1)), right=np.zeros(12))
    monkeypatch.setattr(module, "_equations", lambda *_: made)
    monkeypatch.setattr(
        module,
        "least_squares",
        lambda *_: SimpleNamespace(
            residual=residuals[len(paths)] if np.isfinite(residuals[len(paths)]) else np.nan,
            values=np.zeros((unknowns, 1)),
        ),
    )
    monkeypatch.setattr(module, "weighted_path", followed)
    found = module._settled(problem, LEVELS, clock)
    return next((k + 1 for k, path in enumerate(paths) if found.path is path), 0), len(paths)


@pytest.mark.parametrize(
    ("residuals", "kept", "followed"),
    [
        ([1e-5], 0, 0),
        ([1e-1, 1e-2, 1e-6], 2, 2),
        ([1e-1, 9e-2], 1, 1),
        ([1e-1, 2e-1], 0, 1),
        ([1.0, 0.7, 1e-6], 2, 2),
        ([1e-1, np.inf], 0, 1),
        ([1e-1, 5e-2, 3e-2, 1e-2], 2, 3),
    ],
    ids=["at once", "falling", "hardly", "worse", "just enough", "diverging", "the limit"],
)
def test_turns_go_on_while_the_residual_falls_enough(
    residuals: list[float], kept: int, followed: int, problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a factor of 0.7; at the limit of three turns the last path whose residual is known is kept."""
    settings = dataclasses.replace(problem.settings, limits=dataclasses.replace(problem.limits, path_turns=3))
    assert settled(dataclasses.replace(problem, settings=settings), residuals, monkeypatch) == (kept, followed)


def test_a_path_is_followed_where_equations_are_thrice_the_unknowns_and_there_is_time(
    problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    falling = [1e-1, 1e-2, 1e-6]
    assert settled(problem, falling, monkeypatch, unknowns=4) == (2, 2)
    assert settled(problem, falling, monkeypatch, unknowns=5) == (0, 0)
    assert settled(problem, falling, monkeypatch, clock=Clock(0.0, 0.0)) == (0, 0)


@pytest.mark.parametrize(
    ("path", "additive", "followed"), [(1, "nodes", False), (2, "nodes", True), (2, "pooled", False)]
)
def test_paths_are_those_of_several_steps_behind_a_readout_a_node(
    path: int, additive: str, followed: bool, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {} if additive == "nodes" else {"readout": "pooled", "readout_widths": (64,), "last_act": True}
    problem = CensusProblem.of(lab.observe(lab.model(**fields), lab.ring([0, 1, 2])), Knowledge(lab.space))
    problem = dataclasses.replace(problem, path=problem.path * path)
    other = dataclasses.replace(problem)
    asked = list[CensusProblem]()
    monkeypatch.setattr(module, "_settled", lambda *_: other)
    monkeypatch.setattr(module, "weights", lambda some, *_: asked.append(some))
    module.weights_along(problem, LEVELS, FOREVER)
    assert asked[0] is (other if followed else problem)


@pytest.mark.parametrize(("unknowns", "each"), [(1, 8), (26, 8), (27, 8), (29, 8), (30, 16), (60, 32), (10**6, 512)])
def test_a_row_has_more_equations_where_unknowns_are_many(unknowns: int, each: int) -> None:
    """Eight of each of ten rows where that is thrice the unknowns; about 4,000 in all at most, a power of two a row."""
    tree = {"kernel": np.zeros((10, 300), np.float32), "bias": np.zeros(300, np.float32)}
    vectors = module._vectors(tree, unknowns)
    assert vectors["bias"].shape == (1,) and vectors["kernel"].shape[1:] == (300, min(each, 300))
    many = module._vectors({"kernel": np.zeros((5000, 3), np.float32)}, 10**6)
    assert many["kernel"].shape[1:] == (3, 1), "one at least"


def test_what_the_readout_shows_of_weights_is_as_long_as_one() -> None:
    """Of two blocks, in two directions, one of which is faint: equations that the true weights fulfil."""
    rng = np.random.default_rng(0)
    added, weights, sizes = rng.normal(size=(2, 3)), rng.normal(size=(2, 2)), np.array([1.0, 1e-3])
    upstream = Upstream(np.eye(2), weights.T @ added, weights.sum(axis=0), sizes)
    (states, seen), (total, whole) = module._of_readout(upstream, added)
    for system, right in ((states, seen), (total, whole)):
        np.testing.assert_allclose(np.einsum("mkr,kr->m", system, weights), right, atol=1e-12)
        assert np.linalg.norm(right) == pytest.approx(1.0)
    assert states.shape == (6, 2, 2) and total.shape == (2, 2, 2)
    assert module._of_readout(upstream._replace(states=None, total=None), added) == []


def test_few_blocks_have_weights_and_how_far_they_may_be_off_is_said(
    problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thirty blocks three occur, and two that do not are one to the equations: either may, in place of the other.
    Errors are so many deviations of the best solution with the blocks that occur; all others have none."""
    rng, number = np.random.default_rng(0), np.arange(30)
    system, added = rng.normal(size=(300, 30, 2)), rng.normal(size=(30, 3))
    system[:, 20] = system[:, 21]
    truth = np.zeros((30, 2))
    truth[[3, 8, 17]] = rng.normal(size=(3, 2))
    right = np.einsum("mkr,kr->m", system, truth)
    right += 1e-7 * np.linalg.norm(right) / np.sqrt(300) * rng.normal(size=300)

    def equations(_: Any, levels: Levels, *__: Any) -> Any:
        assert levels.hops[:-1] == lower, "only of the last hop blocks are left out"
        few = 200 if levels.top.size == 30 else 300
        return module._Equations(system[:few, levels.top.roots], right[:few], added)

    upstream = Upstream(np.eye(2), None, None, np.ones(2))
    monkeypatch.setattr(module, "_equations", equations)
    monkeypatch.setattr(Upstream, "of", lambda _: upstream)
    zeros = np.zeros((30, 0))
    blocks = Blocks(number, 0 * number, ((),) * 30, zeros, zeros, np.zeros(30), 0)
    lower = (dataclasses.replace(blocks),)
    levels = dataclasses.replace(LEVELS, hops=(*lower, blocks))
    found = weights(problem, levels, FOREVER)
    assert found is not None and found.explained and found.upstream is upstream
    assert (
        np.flatnonzero(found.values.any(axis=1)).tolist() == [3, 8, 17] == np.flatnonzero(found.errors.any(1)).tolist()
    )
    assert np.all(np.abs(found.values - truth) <= found.errors) and np.flatnonzero(found.open).tolist() == [20, 21]
    columns = system[:, [3, 8, 17]].reshape(300, 6)
    best = np.linalg.lstsq(columns, right)[0]
    rest = np.linalg.norm(right - columns @ best)
    deviations = rest / np.sqrt(300 - 6) * np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)))
    np.testing.assert_allclose(found.values[[3, 8, 17]].ravel(), best, rtol=1e-9)
    np.testing.assert_allclose(found.errors[[3, 8, 17]].ravel(), SURE * deviations, rtol=1e-6)
    assert found.residual == pytest.approx(rest / np.linalg.norm(right))
    assert not dataclasses.replace(found, residual=1.01 * EXPLAINED).explained
    assert dataclasses.replace(found, residual=0.99 * EXPLAINED).explained
    right[:] = 0.0
    assert weights(problem, levels, FOREVER) is None, "no block occurs"


def test_a_system_has_an_unknown_a_block_and_direction_and_a_limit(
    problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What blocks add, which takes long, is computed for no more entries than that, and for one block at least."""
    asked, unknowns = list[int](), list[int]()
    monkeypatch.setattr(module, "_vectors", lambda _, number: unknowns.append(number))
    monkeypatch.setattr(module, "sketched", lambda *_: (np.ones(50), np.ones(50)))
    monkeypatch.setattr(module, "contributions", lambda _, levels, *__: asked.append(levels.top.size))
    upstream = Upstream(np.eye(2), None, None, np.ones(2))
    for size, limit, tried in ((30, 3000, True), (30, 2999, False), (0, 3000, False)):
        monkeypatch.setattr(module, "ENTRIES", limit)
        number, zeros = np.arange(size), np.zeros((size, 0))
        blocks = Blocks(number, 0 * number, ((),) * size, zeros, zeros, np.zeros(size), 0)
        assert module._equations(problem, dataclasses.replace(LEVELS, hops=(blocks,)), upstream, FOREVER) is None
        assert asked == [size] * tried and unknowns.pop() == 2 * size
        asked.clear()


def two_kinds(number: int) -> Levels:
    """Blocks of nodes with three neighbours and one in turn, of two kinds."""
    roots, zeros = np.arange(number) % 2, np.zeros((number, 0))
    neighbours = tuple((0,) if k % 2 else (0, 1, 1) for k in range(number))
    return dataclasses.replace(LEVELS, hops=(Blocks(roots, roots, neighbours, zeros, zeros, np.zeros(number), 0),))


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_equations_are_of_comparable_size_whatever_the_units(
    unit: float, problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """True weights fulfil those of the gradient, of the readout and of edges, each part in units of its own length; of
    an edge's two ends what is added along each direction balances, as large as a typical column of the gradient."""
    rng, levels = np.random.default_rng(0), two_kinds(3)
    weights = np.array([[1.0, -2.0], [4.0, -8.0], [1.0, -2.0]])  # two edges from either block of three, one of one
    added, upstream = rng.normal(size=(3, 2)), Upstream(np.eye(2), None, weights.sum(axis=0), np.array([1.0, 0.5]))
    upstream = upstream._replace(states=np.einsum("kc,kr->rc", added, weights))
    columns, sizes = unit * rng.normal(size=(3, 2, 5)) * [1.0, 1.0, 1e3, 1.0, 1.0], np.array([1, 1, 1e3, 1, 1])
    observed = np.einsum("krm,kr->m", columns, weights)
    monkeypatch.setattr(module, "sketched", lambda *_: (observed, unit * sizes.copy()))
    monkeypatch.setattr(module, "contributions", lambda *_: (columns, added))
    found = module._equations(problem, levels, upstream, FOREVER)
    assert found is not None and found.added is added and found.matrix.shape == (5 + 4 + 2 + 2, 3, 2)
    left = np.einsum("mkr,kr->m", found.matrix, weights)
    np.testing.assert_allclose(left, found.right, atol=1e-12)
    for part in (slice(0, 5), slice(5, 9), slice(9, 11)):
        assert np.linalg.norm(found.right[part]) == pytest.approx(1.0)
    scaled = observed / sizes
    np.testing.assert_allclose(found.right[:5], scaled / np.linalg.norm(scaled), rtol=1e-12)
    typical = np.median(np.linalg.norm(found.matrix[:5], axis=0))
    for direction in range(2):
        row = found.matrix[11 + direction]
        np.testing.assert_allclose(np.abs(row[:, direction]), typical * np.array([2.0, 1.0, 2.0]), rtol=1e-12)
        assert not row[:, 1 - direction].any() and found.right[11 + direction] == 0.0


def test_equations_of_a_gradient_of_nothing_are_numbers(
    problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream(np.eye(2), None, None, np.ones(2))
    monkeypatch.setattr(module, "sketched", lambda *_: (np.zeros(5), np.full(5, 2.0)))
    monkeypatch.setattr(module, "contributions", lambda *_: (np.ones((3, 2, 5)), np.ones((3, 2))))
    found = module._equations(problem, two_kinds(3), upstream, FOREVER)
    assert found is not None and not found.right.any() and np.all(found.matrix[:5] == 0.5)
