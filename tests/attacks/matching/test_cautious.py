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
    return loop.invert(recipe, seen, known, key=jax.random.key(1), budget=Budget(seconds=100.0))


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


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_truth_is_what_noise_explains(seen: Observation, kind: str) -> None:
    for seed in range(40):
        observed, deviation = noisy(seen, 1.0, kind, seed)
        most = Fit.of(observed, deviation).most
        assert 0.5 * most < distance(seen, observed) < most


@pytest.mark.parametrize("why", ["no noise is known", "another objective"])
def test_without_a_distance_to_compare_all_steps_are_made(lab: Any, seen: Observation, why: str) -> None:
    observed, deviation = noisy(seen, 30.0)
    recipe = configured(CAUTIOUS, {"steps": "60"})
    known = Knowledge(lab.space, n=6, noise=None if why == "no noise is known" else deviation)
    if why == "another objective":
        recipe = dataclasses.replace(recipe, objective=cosine)
    assert attack(recipe, observed, known).info["steps"] == 60
