"""How the census reckons: noise leaves the truth in at the stated rate, and updates that say nothing end plainly."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.census import arithmetic, solve
from jgleak.attacks.census.arithmetic import Exact, Noisy
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.checks import Chosen, NamedCheck
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.system import Equations, Solution
from jgleak.attacks.noise import largest
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.subspace import Subspace
from jgleak.federated import Knowledge, Observation


@pytest.mark.parametrize(("equations", "columns", "rules"), [(300, 60, 0), (300, 90, 75), (200, 100, 90)])
def test_true_counts_are_within_the_limit_of_noise_whatever_the_rules(equations: int, columns: int, rules: int) -> None:
    """Rules hold without error: each takes a direction from the fit, whose residual grows by a degree of freedom."""
    rng, noisy, squares = np.random.default_rng(0), Noisy(DEFAULTS, 1.0), []
    for _ in range(30):
        truth = np.zeros(columns)
        truth[rng.choice(columns, 8, replace=False)] = 1 / 8
        exact = rng.integers(-2, 3, size=(rules, columns)).astype(float)
        exact[:, np.argmax(truth)] -= exact @ truth / truth.max()
        exact = np.r_[exact, np.ones((1, columns))]
        matrix = 300.0 * rng.normal(size=(equations, columns))
        system = Equations(matrix, matrix @ truth + rng.normal(size=equations), np.arange(columns), 0.0)
        weight = noisy.rules_weight(system, 20)
        reduced = (
            np.r_[matrix / system.length, weight * exact],
            np.r_[system.observed / system.length, np.zeros(rules), [weight]],
        )
        limit = noisy.limit(reduced, system, exact)
        left = np.linalg.norm(reduced[1] - reduced[0] @ truth)
        assert 0 < left <= limit
        best = np.linalg.lstsq(*reduced)[0]
        squares.append(float(np.sum((reduced[1] - reduced[0] @ best) ** 2) * system.length**2))
    freedom = equations - columns + rules + 1
    assert abs(np.mean(squares) - freedom) < 4 * np.sqrt(2 * freedom / len(squares))


@pytest.mark.parametrize(("size", "slack", "most"), [(0.5, 0.0, 20), (0.5, 3.0, 20), (0.5, 3.0, 7), (1e9, 3.0, 20)])
def test_rules_weigh_more_than_noise_can_leave(size: float, slack: float, most: int) -> None:
    """Of each of so many nodes, in units of the right-hand side; and no less than one."""
    system = Equations(np.ones((30, 5)), size * np.ones(30), np.arange(5), slack)
    noise = (largest(30) + slack) / (size * np.sqrt(30))
    found = Noisy(DEFAULTS, 1.0).rules_weight(system, most)
    assert found == pytest.approx(max(1.0, DEFAULTS.tolerances.rules_weight * most * noise))
    assert (found > 1.0) is (size < 1.0)


def test_whole_counts_are_looked_for_as_far_as_noise_and_slack_may_move_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[float]()
    monkeypatch.setattr(arithmetic, "nearest_censuses", lambda *given: asked.append(given[3]) or iter(()))
    solution = object.__new__(Solution)
    system = Equations(np.ones((2, 5)), np.ones(2), np.arange(5), slack=0.25)
    solution.__dict__.update(columns=np.arange(5), equations=system)
    assert list(Noisy(DEFAULTS, 1.0).censuses(solution, [3], Budget().start())) == []
    assert asked == [pytest.approx(largest(5) + 0.25)]


@pytest.mark.parametrize(("lacking", "factor"), [(1, 4.0), (2, 8.0)])
def test_checks_below_the_last_hop_are_looser_where_noise_hides_directions(lacking: int, factor: float) -> None:
    """Twice as loose where two directions are hidden; those of the last hop stay, and nothing is looked for."""
    rng = np.random.default_rng(0)
    gradient = rng.normal(size=(12, 3)) @ rng.normal(size=(3, 20))
    check = SpanCheck.of(Subspace.of_gradient(gradient, noise=1e-3))
    hops: list[Chosen] = [(NamedCheck(name, check, name, likeliest=False),) for name in ("node", "middle", "top")]
    below, middle, top = next(iter(Noisy(DEFAULTS, 1e-3).weaker(hops, lacking, lambda: pytest.fail("not asked for"))))
    assert top is hops[-1]
    for (looser,), name in ((below, "node"), (middle, "middle")):
        assert looser.name == f"{name} x{factor:g}" and not looser.likeliest
        assert f"off by at most {factor:g} times what noise explains" in looser.condition
        wide, narrow = looser.check.subspace.margin.spread, check.subspace.margin.spread
        assert wide.size == 3
        np.testing.assert_allclose(wide, factor * narrow)


@pytest.mark.parametrize("within", [True, False])
def test_what_moves_all_equations_at_once_keeps_the_truth_within_the_limit(within: bool) -> None:
    """A wrong upstream gradient is no noise: it may move the right-hand side by the slack, in or out of the columns."""
    rng, noisy = np.random.default_rng(0), Noisy(DEFAULTS, 1.0)
    matrix, truth = 300.0 * rng.normal(size=(200, 40)), np.full(40, 1 / 40)
    column = matrix[:, 0]
    other = rng.normal(size=200)
    moved = column if within else other - matrix @ np.linalg.lstsq(matrix, other)[0]
    moved = 90.0 * moved / np.linalg.norm(moved)
    for slack, possible in ((91.0, True), (0.0, False)):
        system = Equations(matrix, matrix @ truth + moved, np.arange(40), slack)
        left = 90.0 / system.length
        limit = noisy.limit((matrix / system.length, system.observed / system.length), system, np.zeros((0, 40)))
        assert (left <= limit) == possible


def test_equations_that_some_counts_always_fulfil_exclude_none() -> None:
    """As many as unknowns: what is left is rounding, and no degree of freedom is."""
    rng, noisy = np.random.default_rng(0), Noisy(DEFAULTS, 1.0)
    matrix, truth = 300.0 * rng.normal(size=(40, 40)), np.full(40, 1 / 40)
    system = Equations(matrix, matrix @ truth + rng.normal(size=40), np.arange(40), 0.0)
    reduced = matrix / system.length, system.observed / system.length
    assert noisy.limit(reduced, system, np.zeros((0, 40))) >= np.linalg.norm(reduced[1] - reduced[0] @ truth) > 0


@pytest.mark.parametrize("kept", [(), ("bias",)], ids=["zeros", "dead states"])
def test_an_update_that_says_nothing_of_known_rows_ends_plainly(lab: Any, kept: tuple[str, ...]) -> None:
    """Without a gradient at the head there is no pooled state; with dead states it is zero."""
    graph = lab.path([0, 1, 2])
    observation = lab.observe(lab.model(readout="pooled", readout_widths=(), last_act=True), graph)

    def silent(path: tuple[Any, ...], leaf: Any) -> np.ndarray:
        stays = path[0].key == "readout" and path[-1].key in kept
        return np.asarray(leaf) if stays else np.zeros(leaf.shape, np.float32)

    update = jax.tree_util.tree_map_with_path(silent, observation.update)
    known = Knowledge(lab.space, n=graph.n, features=graph.x)
    found = CENSUS(dataclasses.replace(observation, update=update), known, key=jax.random.key(0), budget=Budget(10.0))
    assert not found.graphs and found.stop != "match"


def test_a_triangle_has_the_residual_of_all_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a decomposition takes too long, or saves nothing, the equations stay as they are."""
    rng = np.random.default_rng(0)
    system, right, some = rng.normal(size=(20, 6)), rng.normal(size=20), rng.normal(size=6)
    reduced, goal = solve._triangle(system, right)
    assert reduced.shape == (7, 6)
    assert np.linalg.norm(reduced @ some - goal) == pytest.approx(np.linalg.norm(system @ some - right))
    assert solve._triangle(system[:7], right[:7])[0].shape == (7, 6)
    monkeypatch.setattr(solve, "PRODUCTS", 20 * 36 - 1)
    assert solve._triangle(system, right)[0].shape == (20, 6)


@pytest.mark.parametrize(("value", "free"), [(1.05e-3, 0), (0.95e-3, 1)])
def test_a_direction_that_moves_a_count_by_half_its_tolerance_is_free(value: float, free: int) -> None:
    """Rounding of 5e-5, magnified by the singular value of two columns of length one; the tolerance is 0.1."""
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    system = (turn * [np.sqrt(2 - value**2), value]) @ turn
    assert DEFAULTS.tolerances.whole_number == 0.1
    assert Exact(DEFAULTS).real((system, np.ones(2)), 5e-5)[1].shape == (2, free)


@pytest.mark.parametrize(("rows", "columns"), [(8, 12), (20, 12), (9, 12)])
def test_far_too_many_unknowns_are_all_free(rows: int, columns: int) -> None:
    """And are not decomposed: 3 free directions may be, of 11 unknowns at most."""
    limits = dataclasses.replace(DEFAULTS.limits, freedom=3, real_blocks=11)
    system = np.abs(np.random.default_rng(0).normal(size=(rows, columns)))
    exact = Exact(dataclasses.replace(DEFAULTS, limits=limits))
    mean, null = exact.real((system, system.sum(axis=1)), 1e-7)
    assert null.shape == (columns, columns) and not mean.any()
    roomy = Exact(dataclasses.replace(DEFAULTS, limits=dataclasses.replace(limits, real_blocks=12)))
    mean, null = roomy.real((system, system.sum(axis=1)), 1e-7)
    assert null.shape == (columns, columns if rows == 8 else columns - min(rows, columns))


def test_what_an_exact_gradient_leaves_open_is_the_share_of_rounding() -> None:
    """Beside the best solution's residual, whatever the limit; a pooled state of zeros stays as it is."""
    exact, tolerances = Exact(DEFAULTS), DEFAULTS.tolerances
    allowed = tolerances.excluded_residual + 0.25 * tolerances.residual_margin
    assert exact.exclusion(0.25, 1e9) == pytest.approx(allowed)
    nothing = object.__new__(Observation)
    assert [exact.pooled_scale(size, nothing) for size in (2.5, 0.0)] == [2.5, 1.0]


@pytest.mark.parametrize("fields", [{"readout": "pooled", "readout_widths": (8,)}, {"readout": "node_mlp"}])
def test_an_equation_is_as_sure_as_noise_and_rounding_leave_it(fields: dict[str, Any], lab: Any) -> None:
    """And the error of what flows back moves all of them at once, as far as the noise of its entries does."""
    noisy, rounding = Noisy(DEFAULTS, 0.5), DEFAULTS.tolerances.equation_rounding
    np.testing.assert_allclose(noisy.scales(np.array([0.0, 1e7])), [0.5, np.hypot(0.5, 1e7 * rounding)])
    model = lab.model(hidden=4, last_act=True, **fields)
    params = lab.params(model)
    seen, observed = Observation(model, params, params, "bce"), np.array([3.0, 4.0])
    own = model.readout_of(params)
    entries, spread = model.readout.upstream_spread(own, own)
    assert noisy.slack(seen, observed) == pytest.approx(5.0 * (rounding + 0.5 * largest(entries) * spread))
    if fields["readout"] == "pooled":
        delta = np.linalg.norm(model.readout.first(own)["bias"])
        assert noisy.pooled_scale(1e7, seen) == pytest.approx(np.hypot(0.5 / delta, 1e7 * rounding))


def test_where_nodes_have_the_labels_rounding_alone_moves_all_equations(lab: Any) -> None:
    """What flows back to them is known."""
    model = lab.model(hidden=4, readout_widths=(4,), per_node=True)
    seen = Observation(model, lab.params(model), lab.params(model), "ce")
    assert Noisy(DEFAULTS, 0.5).slack(seen, np.array([3.0, 4.0])) == 5.0 * DEFAULTS.tolerances.equation_rounding
