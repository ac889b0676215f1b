"""What a user may change about a gradient-matching attack."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import optax

from jgleak.attacks.matching import starts
from jgleak.attacks.matching.objectives import Objective, cosine, layerwise, squared
from jgleak.attacks.matching.problem import REPLAYS
from jgleak.attacks.matching.recipe import MASKINGS, Recipe, sampled, threshold
from jgleak.attacks.options import choice, values, with_options
from jgleak.attacks.public.training import PublicTraining

LINE_SEARCH = 12
"""Most evaluations of one L-BFGS line search: side by side, all restarts wait for the slowest."""


def signed_adam(lr: float) -> optax.GradientTransformation:
    """Adam on the signs of the derivatives (InverGrad)."""
    return optax.chain(optax.scale_by_sign(), optax.adam(lr))


def lbfgs(lr: float) -> optax.GradientTransformationExtraArgs:
    """L-BFGS, whose line search chooses the rate."""
    del lr
    search = optax.scale_by_zoom_linesearch(max_linesearch_steps=LINE_SEARCH)
    return optax.lbfgs(memory_size=10, linesearch=search)


OPTIMISERS: Mapping[str, Callable[[float], Any]] = {
    "adam": optax.adam,
    "sgd": optax.sgd,
    "signed_adam": signed_adam,
    "lbfgs": lbfgs,
}

OBJECTIVES: Mapping[str, Objective] = {
    "squared": squared,
    "cosine": cosine,
    "layers": layerwise({}),
    "layers_cosine": layerwise({}, cosine),
}

EDGES: Mapping[str, tuple[Callable[..., Any], bool]] = {
    "soft": (threshold, False),
    "rounded": (threshold, True),
    "sampled": (sampled, True),
}
"""How edges are rounded for the graph, and whether these stand for the relaxed ones too."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MatchingOptions:
    """What a user may change.

    Attributes:
      optimiser: a name of ``OPTIMISERS``.
      lr: the learning rate; L-BFGS chooses its own.
      steps: how many.
      restarts: how many starts, side by side.
      objective: a name of ``OBJECTIVES``.
      init: a name of ``starts.NAMED``, or a number.
      target: a data term below this ends a restart.
      edges: which ones metrics are of, a name of ``EDGES``.
      masks: what is done about dropout, a name of ``MASKINGS``.
      draws: of masks, to average a guess's gradient over.
      replay: what is done about several local steps, a name of ``REPLAYS``.
      training: how the attack learns from public graphs; None where it does not.
      start: the settings that this part of the recipe has, or None; and so for the others below.
      relax: the same.
      penalty: the same.
      project: the same.
      combine: the same.
      learn: the same.
      dummy: the same.
      reduce: the same.
    """

    optimiser: str = choice(OPTIMISERS)
    lr: float
    steps: int
    restarts: int
    objective: str = choice(OBJECTIVES)
    init: str
    target: float
    edges: str = choice(EDGES)
    masks: str = choice(MASKINGS)
    draws: int
    replay: str = choice(REPLAYS)
    training: PublicTraining | None
    start: Any
    relax: Any
    penalty: Any
    project: Any
    combine: Any
    learn: Any
    dummy: Any
    reduce: Any


PARTS = ("start", "relax", "penalty", "project", "combine", "learn", "dummy", "reduce")
"""Fields of a recipe that may hold settings of their own."""


def options_of(recipe: Recipe) -> MatchingOptions:
    """The options that a recipe runs with; a function without a name among them has its own."""
    parts = {name: getattr(recipe, name) for name in PARTS}
    return MatchingOptions(
        optimiser=_named(OPTIMISERS, recipe.optimiser),
        lr=recipe.lr,
        steps=recipe.steps,
        restarts=recipe.restarts,
        objective=_named(OBJECTIVES, recipe.objective),
        init=_named(starts.NAMED, recipe.start),
        target=recipe.target,
        edges=next((name for name, one in EDGES.items() if one == (recipe.rounding, recipe.hard)), "own"),
        masks=recipe.masks,
        draws=recipe.draws,
        replay=recipe.replay,
        training=recipe.training,
        **{name: part if dataclasses.is_dataclass(part) else None for name, part in parts.items()},
    )


def configured(recipe: Recipe, options: Mapping[str, str | float]) -> Recipe:
    """``recipe`` with some options set from text (or numbers); the others stay as they are.

    Raises:
      ValueError: an unknown option or a value that does not fit it.
    """
    if "init" in options and recipe.latent:
        raise ValueError("option 'init': this attack starts from what public graphs have taught it; leave it out")
    if "init" in options:
        recipe = dataclasses.replace(recipe, start=starts.named(str(options["init"])))
    chosen = with_options(options_of(recipe), options)
    plain = ("lr", "steps", "restarts", "target", "masks", "draws", "replay", "training")
    changes: dict[str, Any] = {name: getattr(chosen, name) for name in plain}
    changes |= {name: part for name in PARTS if (part := getattr(chosen, name)) is not None}
    if "objective" in options:
        changes["objective"] = OBJECTIVES[chosen.objective]
    if "optimiser" in options:
        changes["optimiser"] = OPTIMISERS[chosen.optimiser]
    if "edges" in options:
        changes["rounding"], changes["hard"] = EDGES[chosen.edges]
    if "lr" in options and changes.get("optimiser", recipe.optimiser) is lbfgs:
        raise ValueError("option 'lr': L-BFGS chooses its own rate; leave it out")
    return dataclasses.replace(recipe, **changes)


def settings(recipe: Recipe) -> dict[str, Any]:
    """The options that a recipe runs with, by name, for the record."""
    found = {name: value for name, value in values(options_of(recipe)) if value is not None}
    return {**found, "lr": None if recipe.optimiser is lbfgs else recipe.lr}


def _named(choices: Mapping[str, Any], value: Any) -> str:
    for name, known in choices.items():
        if known is value or (dataclasses.is_dataclass(value) and type(known) is type(value)):
            return name
    if dataclasses.is_dataclass(value):
        return type(value).__name__
    if isinstance(value, partial):
        return f"{value.func.__name__}({', '.join(map(str, value.args))})"
    return getattr(value, "__name__", str(value))
