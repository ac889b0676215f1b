"""What a user may change about a gradient-matching attack: optimiser, lr, steps, restarts, objective, init."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import optax

from jgleak.attacks.matching import starts
from jgleak.attacks.matching.objectives import Objective, cosine, layerwise, squared
from jgleak.attacks.matching.recipe import Recipe

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

NAMES = ("optimiser", "lr", "steps", "restarts", "objective", "init")


def configured(recipe: Recipe, options: Mapping[str, str | float]) -> Recipe:
    """``recipe`` with some fields set from text (or numbers); the others stay as they are.

    Raises:
      ValueError: an unknown option or a value that does not fit it.
    """
    for name in options:
        if name not in NAMES:
            close = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise ValueError(f"option {name!r}: unknown; {hint}choose from {', '.join(NAMES)}")
    given = {name: str(value) for name, value in options.items()}
    changes: dict[str, Any] = {name: whole(name, given[name]) for name in ("steps", "restarts") if name in given}
    if "objective" in given:
        changes["objective"] = OBJECTIVES[_one_of("objective", given["objective"], OBJECTIVES)]
    if "init" in given and recipe.latent:
        raise ValueError("option 'init': this attack starts from what public graphs have taught it; leave it out")
    if "init" in given:
        changes["start"] = starts.named(given["init"])
    if "optimiser" in given:
        changes["optimiser"] = OPTIMISERS[_one_of("optimiser", given["optimiser"], OPTIMISERS)]
    if "lr" in given and changes.get("optimiser", recipe.optimiser) is lbfgs:
        raise ValueError("option 'lr': L-BFGS chooses its own rate; leave it out")
    if "lr" in given:
        changes["lr"] = _rate(given["lr"])
    return dataclasses.replace(recipe, **changes)


def settings(recipe: Recipe) -> dict[str, Any]:
    """The options that a recipe runs with, for the record; a function that has no name among them by its own."""
    return {
        "optimiser": _named(OPTIMISERS, recipe.optimiser),
        "lr": None if recipe.optimiser is lbfgs else recipe.lr,
        "steps": recipe.steps,
        "restarts": recipe.restarts,
        "objective": _named(OBJECTIVES, recipe.objective),
        "init": _named(starts.NAMED, recipe.start),
    }


def _named(choices: Mapping[str, Any], value: Any) -> str:
    for name, choice in choices.items():
        if choice is value:
            return name
    if isinstance(value, partial):
        return f"{value.func.__name__}({', '.join(map(str, value.args))})"
    return getattr(value, "__name__", str(value))


def whole(name: str, text: str) -> int:
    """The whole number from 1 that ``text`` is; ``ValueError`` names the option where it is none."""
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"option {name!r}: expected a whole number from 1, got {text!r}")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ValueError(f"option 'lr': expected a positive number, got {text!r}")
    return rate


def _one_of(name: str, text: str, choices: Mapping[str, Any]) -> str:
    if text not in choices:
        raise ValueError(f"option {name!r}: unknown {text!r}; choose one of {', '.join(choices)}")
    return text
