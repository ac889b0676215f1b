"""A cautious recipe leaves its start only for what the gradient says beyond its noise."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.distance import Fit
from jgleak.attacks.matching import loop
from jgleak.attacks.matching.dlg import WITH_LABELS
from jgleak.attacks.matching.objectives import cosine
from jgleak.attacks.matching.options import configured
from jgleak.attacks.matching.recipe import Recipe
from jgleak.attacks.noise import largest
from jgleak.attacks.registry import get_attack
from jgleak.defenses import parse
from jgleak.federated import Knowledge, Observation, fedsgd

CAUTIOUS = dataclasses.replace(configured(WITH_LABELS, {"steps": "300"}), cautious=True)


@pytest.fixture(scope="module")
def seen(lab: Any) -> Observation:
    model = lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
    return fedsgd(model, lab.params(model), [lab.random(6, 6)], lab.space, loss="ce")


def noisy(seen: Observation, relative: float, kind: str = "gaussian", seed: int = 0) -> tuple[Observation, float]:
    """The update under noise of this length, relative to its own, and the deviation of an entry."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(seen.update)]
    entries, length = sum(leaf.size for leaf in leaves), sum(float((leaf**2).sum()) for leaf in leaves) ** 0.5
    deviation = relative * length / entries**0.5
    defended = parse(f"{kind}:{deviation:.6g}").apply(seen.update, key=jax.random.key(seed))
    return dataclasses.replace(seen, update=defended), deviation


def distance(seen: Observation, observed: Observation) -> float:
    """The relative distance of the true gradient from the observed one."""
    gap = jax.tree.map(lambda a, b: float(((a - b) ** 2).sum()), seen.update, observed.update)
    size = jax.tree.map(lambda b: float((b**2).sum()), observed.update)
    return (sum(jax.tree.leaves(gap)) / sum(jax.tree.leaves(size))) ** 0.5


def attack(recipe: Recipe, seen: Observation, known: Knowledge) -> Reconstruction:
    return loop.invert(recipe, seen, known, key=jax.random.key(1), budget=Budget(time_limit=100.0))


def test_it_goes_as_far_as_the_noise_and_no_further(lab: Any, seen: Observation) -> None:
    observed, deviation = noisy(seen, 0.3)
    known = Knowledge(lab.space, n=6, noise=deviation)
    bound = Fit.of(observed, deviation).most ** 2
    found = attack(CAUTIOUS, observed, known)
    assert found.stop == "converged" and 0 < found.info["steps"] < 300 and "reason" not in found.info
    assert 0.5 * bound < found.info["matching_loss"] < bound
    bold = attack(dataclasses.replace(CAUTIOUS, cautious=False), observed, known)
    assert bold.info["steps"] == 300
    assert bold.info["matching_loss"] < distance(seen, observed) ** 2, "nearer than the truth: it follows the noise"


def test_where_noise_explains_the_start_nothing_moves(lab: Any, seen: Observation) -> None:
    observed, deviation = noisy(seen, 30.0)
    found = attack(CAUTIOUS, observed, Knowledge(lab.space, n=6, noise=deviation))
    assert found.stop == "converged" and found.info["steps"] == 0 and "noise" in found.info["reason"]


def test_each_of_many_has_its_own_noise(lab: Any, seen: Observation) -> None:
    noises = [0.3, 30.0, 0.6]
    clients = [noisy(seen, relative, seed=i) for i, relative in enumerate(noises)]
    known = [Knowledge(lab.space, n=6, noise=deviation) for _, deviation in clients]
    keys = list(jax.random.split(jax.random.key(1), 3))
    budget = Budget(time_limit=100.0)
    together = loop.invert_many(CAUTIOUS, [o for o, _ in clients], known, keys=keys, budget=budget)
    alone = [
        loop.invert(CAUTIOUS, o, k, key=key, budget=budget) for (o, _), k, key in zip(clients, known, keys, strict=True)
    ]
    assert [one.info["steps"] for one in together] == [one.info["steps"] for one in alone]
    assert together[1].info["steps"] == 0 < together[2].info["steps"] < together[0].info["steps"]


@pytest.mark.parametrize(("relative", "moves"), [(0.3, True), (30.0, False)])
def test_of_a_clipped_update_what_noise_explains_is_as_far(
    lab: Any, seen: Observation, relative: float, moves: bool
) -> None:
    """A guess is stretched to the length of the noisy update, so that the truth is farther off than its noise."""
    clipped = dataclasses.replace(seen, scaled=True)
    truth = Knowledge(lab.space, adjacency=lab.random(6, 6).adjacency, features=lab.random(6, 6).x)
    once = configured(CAUTIOUS, {"steps": "1"})
    for seed in range(5):
        observed, deviation = noisy(clipped, relative, seed=seed)
        found = attack(once, observed, dataclasses.replace(truth, noise=deviation))
        assert found.info["steps"] == 0 and found.stop in ("converged", "match"), "the truth is explained"
    observed, deviation = noisy(clipped, relative)
    found = attack(CAUTIOUS, observed, Knowledge(lab.space, n=6, noise=deviation))
    assert found.stop == "converged" and (found.info["steps"] > 0) == moves


@pytest.mark.parametrize(("kind", "rate"), [("normal", 1e-3), ("laplace", 1e-2)])
def test_noise_seldom_exceeds_what_it_explains(kind: str, rate: float) -> None:
    """At the stated rate where it is Gaussian; Laplace noise has longer tails."""
    draws = getattr(np.random.default_rng(0), kind)(size=(20_000, 300))
    beyond = np.linalg.norm(draws / draws.std(), axis=1) > largest(300)
    assert beyond.mean() < rate


def test_under_another_objective_all_steps_are_made(lab: Any, seen: Observation) -> None:
    observed, deviation = noisy(seen, 30.0)
    recipe = dataclasses.replace(configured(CAUTIOUS, {"steps": "60"}), objective=cosine)
    assert attack(recipe, observed, Knowledge(lab.space, n=6, noise=deviation)).info["steps"] == 60


@pytest.mark.long
def test_the_refinement_of_graphdlg_is_cautious(lab: Any) -> None:
    model = lab.model(hidden=16, readout="pooled", readout_widths=(), last_act=True)
    observed, deviation = noisy(lab.observe(model, lab.random(6, 6), loss="ce"), 30.0, "laplace")
    known = Knowledge(lab.space, n=6, noise=deviation, auxiliary=tuple(lab.random(7, seed) for seed in range(4)))
    found = get_attack("graphdlg-refined")(observed, known, key=jax.random.key(0), budget=Budget(time_limit=100.0))
    assert found.info["steps"] == 0 and "noise" in found.info["reason"]
