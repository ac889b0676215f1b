"""What a GCN's edges hide of the states, and how it follows from its absence before the activation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from jgleak.attacks.closed_form.activations import VALUES
from jgleak.attacks.closed_form.tolerances import SETTINGS, ClosedFormSettings

INTEGRALS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda z: np.logaddexp(0.0, z),
    "tanh": lambda z: np.logaddexp(z, -z),
    "relu": lambda z: 0.5 * np.maximum(z, 0.0) ** 2,
    "identity": lambda z: 0.5 * z**2,
}
"""Functions whose derivative is the activation; convex, as it never falls."""


def completed(
    states: Float[np.ndarray, "n D"],
    mixing: Float[np.ndarray, "n n"],
    act: str,
    bias: Float[np.ndarray, " D"],
    settings: ClosedFormSettings = SETTINGS,
) -> Float[np.ndarray, "n D"]:
    """A GCN's hidden states ``act(Z)`` with the part that the edges above hide.

    Nodes of one closed neighbourhood hide their difference, for example, and so do two pendant paths at one node.
    ``Z - bias = S (..)`` has no such part: ``Z = R b + bias`` with a basis ``R`` of what ``S`` passes on. Then ``Rᵀ
    act(R b + bias) = Rᵀ states`` are as many equations as unknowns, and the stationary points of a convex function,
    all of which have the same ``act(Z)``, be the activation invertible or not (a minimum of a sum of convex functions
    has one gradient of each that is smooth). L-BFGS finds one.
    """
    tolerances = settings.tolerances
    values, vectors = np.linalg.eigh(mixing)
    reach = vectors[:, np.abs(values) > tolerances.faint]
    if reach.shape[1] == len(mixing):
        return states
    wanted, shape = reach.T @ states, (reach.shape[1], states.shape[1])

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        b = flat.reshape(shape)
        z = reach @ b + bias
        value = np.sum(INTEGRALS[act](z)) - np.sum(b * wanted) + tolerances.ridge / 2 * np.sum(b * b)
        return float(value), np.ravel(reach.T @ VALUES[act](z) - wanted + tolerances.ridge * b)

    most = {"maxiter": settings.limits.steps}
    best = minimize(objective, np.zeros(wanted.size), jac=True, method="L-BFGS-B", options=most)
    return VALUES[act](reach @ best.x.reshape(shape) + bias)
