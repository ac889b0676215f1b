"""What a GCN's edges hide of the states, and how it follows from its absence before the activation."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from jgleak.attacks.closed_form.propositions import CONDITION, FIT, ConditionFailed
from jgleak.attacks.closed_form.slopes import slope_of

HIDDEN = 1e-9
"""Eigenvalues of the normalised adjacency below this are zero."""

NEWTON = 50
"""Most steps of Newton's method, and most halvings of one."""

INVERSES = ("sigmoid", "tanh")
"""Activations that can be undone."""


def reach_of(mixing: Float[np.ndarray, "n n"]) -> tuple[Float[np.ndarray, "n r"], Float[np.ndarray, "n k"]]:
    """Orthonormal bases of what a GCN's symmetric ``S`` passes on, and of what it hides (``S`` times it is 0).

    Nodes of one closed neighbourhood hide their difference, for example, and so do two pendant paths at one node.
    """
    values, vectors = np.linalg.eigh(mixing)
    hidden = np.abs(values) < HIDDEN
    return vectors[:, ~hidden], vectors[:, hidden]


def completed(
    states: Float[np.ndarray, "n D"], mixing: Float[np.ndarray, "n n"], act: str, bias: Float[np.ndarray, " D"]
) -> Float[np.ndarray, "n D"]:
    """A GCN's hidden states with the part that its edges hide, from that part's absence before the activation.

    The states are ``act(Z)`` and ``Z - bias = S (..)`` has no hidden part. So ``Z - bias = R b`` for a basis ``R`` of
    what ``S`` passes on, and ``Rᵀ act(R b + bias) = Rᵀ states`` are as many equations as unknowns, the stationary point
    of a strictly convex function; Newton's method finds it, column by column.

    Raises:
      ConditionFailed: something is hidden and the activation is not invertible, or Newton's method ends elsewhere.
    """
    reach, hidden = reach_of(mixing)
    if hidden.shape[1] == 0:
        return states
    if act not in INVERSES:
        raise ConditionFailed(f"the normalised adjacency is singular and {act!r} is not invertible; nothing tells more")
    wanted, value = reach.T @ states, {"sigmoid": expit, "tanh": np.tanh}[act]
    z = np.broadcast_to(bias, states.shape).astype(np.float64)
    gap = reach.T @ value(z) - wanted
    for _ in range(NEWTON):
        if np.abs(gap).max() < 1e-12:
            break
        slopes = np.einsum("nr,nd,ns->drs", reach, slope_of(act, value(z)), reach, optimize=True)
        slopes += CONDITION**2 * np.eye(reach.shape[1])  # where an activation is saturated
        step = reach @ np.linalg.solve(slopes, gap.T[..., None])[..., 0].T
        length = np.ones(states.shape[1])
        for _ in range(NEWTON):
            nearer = reach.T @ value(z - length * step) - wanted
            longer = np.linalg.norm(nearer, axis=0) > np.linalg.norm(gap, axis=0)
            if not longer.any():
                break
            length = np.where(longer, length / 2, length)
        z, gap = z - length * step, nearer
    if not np.abs(gap).max() < FIT:
        raise ConditionFailed("no states have the mixed states that the gradients show; the update was changed")
    return value(z)
