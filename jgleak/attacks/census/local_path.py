"""Where the gradients behind an update were taken: the weights along a client's local steps.

The server knows both ends of the path. Between them the weights move nearly straight, so a straight path is where the
search begins (docs/local-steps.md); ``followed`` makes a better one of what was found along it.
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
      share: what that gradient counts in the update; all points have one in total.
    """

    params: Params
    readout: Params
    share: float


FOLLOWED = 64
"""Most steps that are followed one by one: every one costs the contributions of all blocks."""

LocalPath = tuple[Point, ...]
"""The steps, the first first; their gradients' readout parts have that of the update as their mean."""


def straight(observation: Observation) -> LocalPath:
    """The path of a client whose gradients were all alike: of one step the weights that it got, and the update; of more
    than ``FOLLOWED`` the middle alone."""
    model, seen = observation.model, observation.model.readout_of(observation.update)
    local = observation.local if moved(observation) else None
    if local is None or local.steps > FOLLOWED:
        return (Point(midway(observation).params, seen, 1.0),)
    left, gone, shares = (part.tolist() for part in _way(local))
    return tuple(
        Point(_gone(model, observation, *place), seen, share) for *place, share in zip(left, gone, shares, strict=True)
    )


def moved(observation: Observation) -> bool:
    """True where the client made several steps, and what came back says where it went: it was not clipped or pruned."""
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
    """What the pooled row of every step counts in the one that the readout's first gradient shows (``pooled_row``):
    where its upstream gradient is small, or has another direction, less."""
    behind = [np.asarray(model.readout.first(point.readout)["bias"], np.float64) for point in path]
    shares = np.array([point.share for point in path])
    mean = shares @ np.array(behind)
    along = shares * (np.array(behind) @ mean)
    return along / along.sum() if along.sum() else shares


def _way(local: LocalTraining) -> tuple[Float[np.ndarray, " E"], Float[np.ndarray, " E"], Float[np.ndarray, " E"]]:
    """Before every step what is left of the first weights, how far they have gone along the mean gradient, and what the
    step's gradient counts."""
    return local.kept[:-1], local.rate * np.r_[0.0, np.cumsum(local.response)[:-1]], local.shares


def _gone(model: GNN, observation: Observation, left: float, far: float) -> Params:
    """The weights of which so much is left, after so long a way along the update."""

    def one(sent: Params, slope: Params, trained: Params) -> Params:
        here = np.asarray(sent, np.float64)
        return (here - (1.0 - left) * np.asarray(trained) - far * np.asarray(slope, np.float64)).astype(np.float32)

    decaying = model.trained(observation.params) if model.frozen or model.norms else observation.params
    return jax.tree.map(one, observation.params, observation.update, decaying)
