"""What of a recipe is compiled, and what is shown."""

from __future__ import annotations

import dataclasses

from jgleak.attacks.matching import molgan
from jgleak.attacks.matching.dlg import RECIPE
from jgleak.attacks.matching.glg import Tree
from jgleak.attacks.matching.options import OBJECTIVES, OPTIMISERS, configured, settings
from jgleak.attacks.matching.recipe import on_device
from jgleak.attacks.matching.starts import NAMED, Frequent, Sparse
from jgleak.attacks.matching.tableak import Ensemble


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
    for option, names in (("optimiser", OPTIMISERS), ("objective", OBJECTIVES), ("init", NAMED)):
        for name in names:
            assert settings(configured(RECIPE, {option: name}))[option] == name
    assert settings(dataclasses.replace(RECIPE, start=Sparse(0.5)))["init"] == "sparse"
    assert settings(dataclasses.replace(RECIPE, start=Frequent()))["init"] == "Frequent"
