"""What a public defence did to an update's entries."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from jgleak.federated.recommender import Protection

KNOWN = ((), ("clip-inf",), ("laplace",), ("gaussian",), ("clip-inf", "laplace"), ("clip-inf", "gaussian"))
"""Defences under which an entry's distribution is known."""


class Noise(NamedTuple):
    """An entry leaves as ``clip(g, +-bound) + noise``.

    Attributes:
      bound: of an entry; infinite without clipping.
      deviation: of the noise; 0 without.
      kind: its distribution.
    """

    bound: float
    deviation: float
    kind: Literal["none", "laplace", "gaussian"]


def noise(protection: Protection) -> Noise:
    """The noise of a public protection.

    Raises:
      ValueError: a defence other than ``clip-inf`` followed by Laplace or Gaussian noise, or a part of it.
    """
    steps = protection.defense.steps
    if tuple(step.kind.name for step in steps) not in KNOWN:
        raise ValueError(
            f"protection: what {protection.defense} leaves of a rating is not worked out; ratings are recovered under "
            "clip-inf, laplace, gaussian, and clip-inf before either; for the history alone use history()"
        )
    strength = {step.kind.name: step.strength for step in steps}
    if "laplace" in strength:
        return Noise(strength.get("clip-inf", np.inf), strength["laplace"], "laplace")
    if "gaussian" in strength:
        return Noise(strength.get("clip-inf", np.inf), strength["gaussian"], "gaussian")
    return Noise(strength.get("clip-inf", np.inf), 0.0, "none")
