"""Several passes over a client's graphs in one order, one graph a step: as one pass, with weights of every pass.

Between two passes weights move by so little that a graph's gradients of all passes are one to second order: the mean
over the passes' weights. After a pass the weights are off the line between those that the client got and those that it
returned in second order too. So the first graph's weights are known in every pass; from its gradients follow those of
the second one, without a further approximation.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from jgleak.attacks.census.batches.joint import each_gradient
from jgleak.attacks.census.local_path import Point
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import CensusSettings
from jgleak.features import FeatureSpace
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.gnn import Params
from jgleak.graph import Graph


@dataclasses.dataclass(frozen=True)
class Passes:
    """The part of an update that belongs to graphs not found yet.

    Attributes:
      seen: their mean gradient, at the mean of the weights.
      weights: those at which each pass takes the first of them.
      rate: of a step.
    """

    seen: Observation
    weights: tuple[Params, ...]
    rate: float

    @staticmethod
    def of(seen: Observation) -> Passes:
        """All graphs of a client that took one of them a step, in the same order in every pass."""
        local = seen.local
        assert local is not None
        number = local.steps // seen.batch_size
        begun = [_moved(seen.params, seen.update, seen.batch_size * local.rate * past) for past in range(number)]
        return _at(dataclasses.replace(seen, protocol="fedsgd", local=None), begun, local.rate)

    @property
    def size(self) -> int:
        """How many graphs are left."""
        return self.seen.batch_size

    def problem(self, knowledge: Knowledge, settings: CensusSettings) -> CensusProblem:
        """The problem of the first of them."""
        model, share = self.seen.model, 1.0 / len(self.weights)
        path = tuple(Point(weights, model.readout_of(self.seen.update), share) for weights in self.weights)
        return dataclasses.replace(CensusProblem.of(self.seen, knowledge, settings), path=path)

    def without(self, graph: Graph, space: FeatureSpace) -> Passes:
        """What is left when the first of them is found."""
        own, size = [self._gradient(weights, graph, space) for weights in self.weights], self.size

        def rest(seen: Any, *parts: Any) -> np.ndarray:
            return ((size * np.asarray(seen, np.float64) - sum(parts) / len(parts)) / (size - 1)).astype(np.float32)

        update: Any = jax.tree.map(rest, self.seen.update, *own)
        moved = [_moved(weights, part, self.rate) for weights, part in zip(self.weights, own, strict=True)]
        return _at(dataclasses.replace(self.seen, update=update, batch_size=size - 1), moved, self.rate)

    def _gradient(self, weights: Params, graph: Graph, space: FeatureSpace) -> Params:
        alone = dataclasses.replace(self.seen, params=weights, batch_size=1)
        (own,) = each_gradient(alone, space, [graph])
        return self.seen.model.trained(own) if self.seen.model.frozen else own


def _at(seen: Observation, weights: list[Params], rate: float) -> Passes:
    def mean(*some: Any) -> np.ndarray:
        return np.mean([np.asarray(one, np.float64) for one in some], axis=0).astype(np.float32)

    middle: Any = weights[0] if len(weights) == 1 else jax.tree.map(mean, *weights)
    return Passes(dataclasses.replace(seen, params=middle), tuple(weights), rate)


def _moved(weights: Params, slope: Params, far: float) -> Params:
    """The weights after so long a way against a gradient."""

    def one(here: Any, back: Any) -> np.ndarray:
        return (np.asarray(here, np.float64) - far * np.asarray(back, np.float64)).astype(np.float32)

    return jax.tree.map(one, weights, slope)
