"""What a user may change about a gradient-matching attack: optimiser, rate, steps, restarts, objective, start."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import optax

from jgleak.attacks.matching import starts
from jgleak.attacks.matching.objectives import Objective, cosine, layerwise, squared
from jgleak.attacks.matching.recipe import Recipe

LINE_SEARCH = 12
"""Most evaluations of one L-BFGS line search: side by side, all restarts wait for the slowest."""

OPTIMISERS: Mapping[str, Callable[[float], Any]] = {
    "adam": optax.adam,
    "sgd": optax.sgd,
    "signed_adam": lambda rate: optax.chain(optax.scale_by_sign(), optax.adam(rate)),
    "lbfgs": lambda rate: optax.lbfgs(
        memory_size=10, linesearch=optax.scale_by_zoom_linesearch(max_linesearch_steps=LINE_SEARCH)
    ),
}
"""By name; L-BFGS chooses its own rate."""

OBJECTIVES: Mapping[str, Objective] = {
    "squared": squared,
    "cosine": cosine,
    "layers": layerwise({}),
    "layers_cosine": layerwise({}, cosine),
}

NAMES = ("optimiser", "rate", "steps", "restarts", "objective", "start")


@cache
def optimiser(name: str, rate: float = 0.1) -> Any:
    """An optimiser by name; the same object for the same arguments, so that nothing compiles twice."""
    return OPTIMISERS[name](rate)


def configured(recipe: Recipe, options: Mapping[str, str]) -> Recipe:
    """``recipe`` with some fields set from text.

    Raises:
      ValueError: an unknown option or a value that does not fit it.
    """
    for name in options:
        if name not in NAMES:
            close = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise ValueError(f"option {name!r}: unknown; {hint}choose from {', '.join(NAMES)}")
    changes: dict[str, Any] = {name: _whole(name, options[name]) for name in ("steps", "restarts") if name in options}
    if "objective" in options:
        changes["objective"] = OBJECTIVES[_one_of("objective", options["objective"], OBJECTIVES)]
    if "start" in options and recipe.latent:
        raise ValueError("option 'start': this attack searches for the input of its generator; leave it out")
    if "start" in options:
        changes["start"] = starts.named(options["start"])
    if "optimiser" in options or "rate" in options:
        name = _one_of("optimiser", options.get("optimiser", "adam"), OPTIMISERS)
        changes["optimiser"] = optimiser(name, _rate(options.get("rate", "0.1")))
    return dataclasses.replace(recipe, **changes)


def _whole(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"option {name!r}: expected a whole number from 1, got {text!r}")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ValueError(f"option 'rate': expected a positive number, got {text!r}")
    return rate


def _one_of(name: str, text: str, choices: Mapping[str, Any]) -> str:
    if text not in choices:
        raise ValueError(f"option {name!r}: unknown {text!r}; choose one of {', '.join(choices)}")
    return text
