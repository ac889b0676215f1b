"""Gradients that differ by units which rounding turns on or off."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from jgleak.federated.observation import Observation
from jgleak.gnn import Params

Label = TypeVar("Label")

TURNED = 0.1
"""A unit whose input is zero up to rounding may be on in the client's computation and off in ours, which moves the
gradient by some percent: graphs within this distance are compared again with weights that are off by ``JITTER``."""

JITTER, DRAWS = 1e-6, 8
"""How far, relative to each weight, and how many times; every draw turns such a unit with a chance of one half."""


def unturned(
    compare: Callable[[Observation], tuple[float, Label]], observation: Observation, most: float
) -> tuple[float, Label]:
    """A graph's distance and label at the client's weights, or at weights off by rounding if that distance is at most
    ``most``, what rounding alone explains."""
    distance, label = compare(observation)
    for draw in range(DRAWS if most < distance < TURNED else 0):
        closer, implied = compare(dataclasses.replace(observation, params=_jittered(observation.params, draw)))
        if closer <= most:
            return closer, implied
    return distance, label


def _jittered(params: Params, draw: int) -> Params:
    rng = np.random.default_rng(draw)

    def moved(leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        return (leaf * (1.0 + JITTER * rng.standard_normal(leaf.shape))).astype(leaf.dtype)

    return jax.tree.map(moved, params)
