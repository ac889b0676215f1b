"""Activations on the host, and their slope from the value that they took."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.closed_form.tolerances import TOLERANCES, ClosedFormTolerances

VALUES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": expit,
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
    "identity": lambda z: z,
}
"""Activations whose slope is a function of their value."""


def slope_of(act: str, states: Any, tolerances: ClosedFormTolerances = TOLERANCES) -> Any:
    """``act'`` where the activation took the values ``states (n, F)``; it need not be invertible for that.

    Arrays of either kind, on the host or traced, give the same kind.

    Raises:
      ConditionFailed: the value does not tell the slope (GELU falls before it rises).
    """
    if act == "sigmoid":
        return states * (1 - states)
    if act == "tanh":
        return 1 - states**2
    if act == "relu":
        least, moved = tolerances.zero * abs(states).max(), (-states).max(axis=-1, keepdims=True)
        return ((states > least) & (states > tolerances.moved * moved)).astype(states.dtype)
    if act == "identity":
        return states * 0 + 1
    raise ConditionFailed(f"the slope of {act!r} is not a function of its value; known are {', '.join(VALUES)}")
