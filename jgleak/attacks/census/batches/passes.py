"""What graphs of a client add to an update that are not found yet, where every step saw some of its graphs.

A client that goes once through its graphs takes the first of them at the weights that it got; from its gradients follow
the weights of the next step, also where steps have momentum or weights decay. Where it goes through them several times
in one order, weights move by so little between two passes that a graph's gradients of all passes are one to second
order: the mean over the passes' weights. After a pass the weights are off the line between those that the client got
and those that it returned in second order too. So the first step's weights are known in every pass, and those of the
next one follow without a further approximation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jgleak.attacks.census.batches.joint import each_gradient, summed
from jgleak.attacks.census.local_path import Point
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import CensusSettings
from jgleak.features import FeatureSpace
from jgleak.federated.descent import stepped
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.observation import Observation
from jgleak.gnn import Params
from jgleak.graph import Graph


@dataclasses.dataclass(frozen=True)
class Passes:
    """The part of an update that belongs to graphs not found yet.

    Attributes:
      seen: the sum of their gradients, at the mean of the weights, divided by their number; those of later steps count
        more or less than those of the first, as their steps do.
      weights: those at which each pass takes the first step that is left.
      speeds: the direction of the step before it, in each pass.
      slopes: the mean gradient of the graphs of this step that are found, likewise.
      local: how the client trains.
      number: of this step in its pass.
      step: graphs of this step; ``left`` of them are not found yet.
    """

    seen: Observation
    weights: tuple[Params, ...]
    speeds: tuple[Params, ...]
    slopes: tuple[Params, ...]
    local: LocalTraining
    number: int
    step: int
    left: int

    @staticmethod
    def of(seen: Observation) -> Passes:
        """All graphs of a client that went through them step by step, in the same order in every pass."""
        local, size = seen.local, seen.batch_size
        assert local is not None and local.loader is not None
        steps = local.passes(size)
        begun = tuple(
            _moved(seen.params, seen.update, steps * local.rate * past) for past in range(local.steps // steps)
        )
        # what is seen counts the steps, and not the graphs
        counted = local.loader / (len(begun) * float(local.shares[0]) * size)
        update: Any = jax.tree.map(
            lambda leaf: (counted * np.asarray(leaf, np.float64)).astype(np.float32), seen.update
        )
        seen = dataclasses.replace(seen, update=update, params=_mean(begun), protocol="fedsgd", local=None)
        still = (_still(seen.params),) * len(begun)
        return Passes(seen, begun, still, still, local, 0, local.loader, local.loader)

    @property
    def size(self) -> int:
        """How many graphs are left."""
        return self.seen.batch_size

    def problem(self, knowledge: Knowledge, settings: CensusSettings) -> CensusProblem:
        """The problem of the graphs of the first step that is left."""
        model, share = self.seen.model, 1.0 / len(self.weights)
        path = tuple(Point(weights, model.readout_of(self.seen.update), share) for weights in self.weights)
        return dataclasses.replace(CensusProblem.of(self.seen, knowledge, settings), path=path)

    def without(self, graphs: Sequence[Graph], space: FeatureSpace) -> Passes:
        """What is left when graphs of that step are found, and others are left."""
        own = [self._gradient(weights, graphs, space) for weights in self.weights]
        slopes = tuple(_moved(slope, part, -1.0 / self.step) for slope, part in zip(self.slopes, own, strict=True))
        rest = dataclasses.replace(self, slopes=slopes, left=self.left - len(graphs))
        rest, size = rest if rest.left else rest._stepped(self.size - len(graphs)), self.size - len(graphs)
        shares = self.local.shares
        counted = float(shares[self.number] / shares[rest.number]) * rest.step / (self.step * size)

        def left(seen: Any, *parts: Any) -> np.ndarray:
            found = sum(parts) / len(parts)
            return (counted * (self.size * np.asarray(seen, np.float64) - found)).astype(np.float32)

        update: Any = jax.tree.map(left, self.seen.update, *own)
        seen = dataclasses.replace(self.seen, update=update, params=_mean(rest.weights), batch_size=size)
        return dataclasses.replace(rest, seen=seen)

    def _stepped(self, size: int) -> Passes:
        """The next step, of ``size`` graphs at most, when all graphs of this one are found."""
        assert self.local.loader is not None
        moved = [
            stepped(self.seen.model, self.local.descent, *now)
            for now in zip(self.weights, self.speeds, self.slopes, strict=True)
        ]
        step = min(self.local.loader, size)
        weights, speeds = (tuple(_moved(part, part, 0.0) for part in parts) for parts in zip(*moved, strict=True))
        still = (_still(self.seen.params),) * len(weights)
        return dataclasses.replace(
            self, weights=weights, speeds=speeds, slopes=still, number=self.number + 1, step=step, left=step
        )

    def _gradient(self, weights: Params, graphs: Sequence[Graph], space: FeatureSpace) -> Params:
        alone = dataclasses.replace(self.seen, params=weights, batch_size=1)
        own = summed(each_gradient(alone, space, graphs))
        return self.seen.model.trained(own) if self.seen.model.frozen else own


def _mean(weights: Sequence[Params]) -> Params:
    def mean(*some: Any) -> np.ndarray:
        return np.mean([np.asarray(one, np.float64) for one in some], axis=0).astype(np.float32)

    return weights[0] if len(weights) == 1 else jax.tree.map(mean, *weights)


def _still(weights: Params) -> Params:
    return jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), np.float32), weights)


def _moved(weights: Params, slope: Params, far: float) -> Params:
    """The weights after so long a way against a gradient."""

    def one(here: Any, back: Any) -> np.ndarray:
        return (np.asarray(here, np.float64) - far * np.asarray(back, np.float64)).astype(np.float32)

    return jax.tree.map(one, weights, slope)
