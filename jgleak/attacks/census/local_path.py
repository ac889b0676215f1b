"""Where the gradients behind an update were taken: the weights along a client's local steps.

The server knows both ends of the path. Between them the weights move nearly straight, so the search begins with a
straight path (docs/local-steps.md); ``followed`` improves it by what was found along it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from jgleak.federated.local_training import LocalTraining
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params


class Point(NamedTuple):
    """One step.

    Attributes:
      params: the weights before it.
      readout: the readout's part of the gradient there.
      share: weight of that gradient in the update; the shares of all points add up to one.
    """

    params: Params
    readout: Params
    share: float


FOLLOWED = 64
"""Most steps that are followed one by one: for each the contributions of all blocks are computed."""

LocalPath = tuple[Point, ...]
"""The steps in order; the mean of their gradients' readout parts is that of the update."""


def straight(observation: Observation) -> LocalPath:
    """The path of a client whose gradients are all equal: for one step the weights that it got, and the update; for
    more than ``FOLLOWED`` steps only the middle."""
    model, seen = observation.model, observation.model.readout_of(observation.update)
    local = observation.local if moved(observation) else None
    if local is None or local.steps > FOLLOWED:
        return (Point(midway(observation).params, seen, 1.0),)
    left, gone, shares = (part.tolist() for part in _way(local))
    return tuple(
        Point(_gone(model, observation, *place), seen, share) for *place, share in zip(left, gone, shares, strict=True)
    )


def moved(observation: Observation) -> bool:
    """True where the client made several steps and its update shows the final weights: it was not clipped or pruned."""
    local = observation.local
    return local is not None and local.steps > 1 and not (observation.scaled or observation.pruned)


def every_step_whole(observation: Observation) -> bool:
    """True where every local step of a client saw all of its graphs."""
    local = observation.local
    return local is not None and (local.loader is None or local.loader >= observation.batch_size)


def midway(observation: Observation) -> Observation:
    """The update as that of one gradient, in the middle of the straight path: right to first order in the rate."""
    local = observation.local
    if local is None or not moved(observation):
        return observation
    left, gone, shares = _way(local)
    middle = _gone(observation.model, observation, float(shares @ left), float(shares @ gone))
    return dataclasses.replace(observation, params=middle)


def root_shares(model: GNN, path: LocalPath) -> Float[np.ndarray, " E"]:
    """The weight of every step's pooled row in the one that the readout's first gradient shows (``pooled_row``): less
    where its upstream gradient is small, or has another direction."""
    behind = [np.asarray(model.readout.first(point.readout)["bias"], np.float64) for point in path]
    shares = np.array([point.share for point in path])
    mean = shares @ np.array(behind)
    along = shares * (np.array(behind) @ mean)
    return along / along.sum() if along.sum() else shares


def _way(local: LocalTraining) -> tuple[Float[np.ndarray, " E"], Float[np.ndarray, " E"], Float[np.ndarray, " E"]]:
    """Before every step the share of the initial weights that weight decay has left, and the distance gone along the
    mean gradient; and the weight of the step's gradient."""
    return local.kept[:-1], local.rate * np.r_[0.0, np.cumsum(local.response)[:-1]], local.shares


def _gone(model: GNN, observation: Observation, left: float, far: float) -> Params:
    """The weights where the share ``left`` of the initial ones is left, after the distance ``far`` along the update."""

    def one(sent: Params, slope: Params, trained: Params) -> Params:
        here = np.asarray(sent, np.float64)
        return (here - (1.0 - left) * np.asarray(trained) - far * np.asarray(slope, np.float64)).astype(np.float32)

    decaying = model.trained(observation.params) if model.frozen or model.norms else observation.params
    return jax.tree.map(one, observation.params, observation.update, decaying)
