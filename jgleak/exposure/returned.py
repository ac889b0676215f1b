"""Rounding of weights that clients return after local training."""

from __future__ import annotations

import math

import numpy as np

from jgleak.federated.local_training import LocalTraining
from jgleak.federated.observation import flatten
from jgleak.gnn import Params

WHENCE = "rounding of the returned weights"
"""Where such noise comes from, in words."""


def rounded(params: Params) -> float:
    """Deviation of what rounding to 32 bits leaves in a weight: the root mean square in the array where it is largest.

    A weight is rounded to a multiple of its spacing ``u``, which is an error of deviation ``u / sqrt(12)``.
    """
    floats = [np.asarray(leaf, np.float32) for leaf in flatten(params).values() if np.size(leaf)]
    squares = [float(np.mean(np.spacing(np.abs(leaf)).astype(np.float64) ** 2)) for leaf in floats]
    return math.sqrt(max(squares, default=0.0) / 12.0)


def returned_rounding(params: Params, local: LocalTraining) -> float:
    """Deviation of the noise that it leaves in the mean gradient which follows from the returned weights: each step
    rounds once, and the difference is divided by the length of the way."""
    return rounded(params) * math.sqrt(local.steps) / local.length
