"""What of a recipe is compiled, and what is shown."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.matching import molgan, recipe
from jgleak.attacks.matching.dlg import RECIPE
from jgleak.attacks.matching.glg import Tree
from jgleak.attacks.matching.options import EDGES, OBJECTIVES, OPTIMISERS, configured, settings
from jgleak.attacks.matching.problem import Problem, Setting, pose
from jgleak.attacks.matching.recipe import answer, init, on_device, relaxed, relaxed_labels
from jgleak.attacks.matching.starts import NAMED, Frequent, Sparse
from jgleak.attacks.matching.tableak import Ensemble
from jgleak.federated import Knowledge, Observation
from jgleak.gnn import MLP, GCNConv, Layer, Pooled, standard


def test_recipes_that_differ_on_the_host_alone_are_compiled_as_one() -> None:
    """They say how answers are rounded, combined and finished, what is learnt before, and how many masks are drawn."""
    plain = dataclasses.replace(RECIPE, draws=1)
    on_host = dataclasses.replace(
        RECIPE,
        combine=Ensemble(),
        rounding=lambda edges, rng: edges,
        hard=True,
        learn=lambda observations, knowledges, training: None,
        training=molgan.TRAINING,
        finish=lambda setting, problem, guess: guess,
        dummy=Tree(),
        cautious=True,
        draws=3,
        replay="none",
    )
    assert on_device(on_host) == on_device(RECIPE) == plain
    for field, value in (("steps", 7), ("restarts", 3), ("lr", 0.5), ("target", 1.0), ("keep", "last")):
        assert on_device(dataclasses.replace(RECIPE, **{field: value})) != plain


def test_parts_that_users_name_are_recorded_by_their_names() -> None:
    for option, names in (("optimiser", OPTIMISERS), ("objective", OBJECTIVES), ("init", NAMED), ("edges", EDGES)):
        for name in names:
            assert settings(configured(RECIPE, {option: name}))[option] == name
    assert settings(dataclasses.replace(RECIPE, start=Sparse(0.5)))["init"] == "sparse"
    assert settings(dataclasses.replace(RECIPE, start=Frequent()))["init"] == "Frequent"


def posed(lab: Any, loss: str = "ce", outputs: int = 2, dropout: float = 0.0) -> tuple[Setting, Problem]:
    """A path of five nodes of which nothing is known but their number."""
    layer, head = Layer(GCNConv(4), dropout=dropout), MLP((3, outputs), dropout=dropout)
    model = standard(lab.space.width, layer, Pooled("mean", head), layers=1, last_act=True)
    observed = Observation(model, lab.params(model), lab.params(model), loss)
    return pose(observed, Knowledge(lab.space, n=5), infer=False)


def test_masks_that_are_searched_for_begin_at_their_chances(lab: Any) -> None:
    """A fifth is dropped: before the first step every entry is kept by four fifths."""
    setting, problem = posed(lab, dropout=0.2)
    variables = init(RECIPE, setting, problem, key=jax.random.key(0)).variables
    shown = relaxed(RECIPE, setting, problem, variables, jnp.asarray(0)).masks
    assert {round(float(kept), 4) for leaf in jax.tree.leaves(shown) for kept in np.unique(leaf)} == {0.8}
    without = dataclasses.replace(RECIPE, masks="none")
    variables = init(without, setting, problem, key=jax.random.key(0)).variables
    assert "masks" not in variables and relaxed(without, setting, problem, variables, jnp.asarray(0)).masks is None


@pytest.mark.parametrize("keep", ["best", "last"])
def test_a_restart_ends_with_its_best_variables_or_its_last(
    keep: str, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "gradients", lambda setting, problem, guess: problem.update)
    setting, problem = posed(lab)
    flat = dataclasses.replace(RECIPE, keep=keep, objective=lambda found, seen: jnp.full((), jnp.nan))
    begun = init(flat, setting, problem, key=jax.random.key(0))
    ended = dataclasses.replace(begun, best=jax.tree.map(jnp.zeros_like, begun.variables))
    guess, value = answer(flat, setting, problem, ended)
    wanted = relaxed(flat, setting, problem, ended.best if keep == "best" else begun.variables, jnp.asarray(0))
    np.testing.assert_array_equal(guess.nodes, wanted.nodes)
    assert bool(np.any(guess.nodes)) is (keep == "last") and np.isposinf(value), "no number is as good as none"


def test_labels_are_targets_or_distributions_over_classes(lab: Any) -> None:
    rows = jnp.asarray([[0.5, -2.0, 1.0]])
    targets, classes = posed(lab, "mse", 1), posed(lab, outputs=3)
    np.testing.assert_array_equal(relaxed_labels(*targets, {"labels": rows[0]}), rows[0])
    np.testing.assert_allclose(relaxed_labels(*classes, {"labels": rows}), np.exp(rows) / np.exp(rows).sum(), rtol=1e-6)
