"""What batch normalisation in training mode does to the equations of the census.

A norm maps a node's row ``z`` to ``gamma x + beta``, ``x = (z - mean) / sigma``, with the batch's own mean and
deviation. Those are known (``federated.statistics``), so that rows are those of evaluation mode with these statistics.
Gradients are not: with ``d`` the gradient at the norm's output, the gradient at its input is ``gamma / sigma (d_v -
sum_u d_u / N - x_v sum_u d_u x_u / N)``. Both sums are in the update, as the gradients of ``beta`` and ``gamma``, so
the gradient is still a sum over nodes. The batch's mean and variance give two further equations for each column.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.census.problem import CensusProblem
from jgleak.gnn.tree import at


class Pull(NamedTuple):
    """What one norm subtracts from the gradient of a node's row: ``by + along (z - mean) / sigma``."""

    by: Float[np.ndarray, " D"]
    along: Float[np.ndarray, " D"]
    mean: Float[np.ndarray, " D"]
    sigma: Float[np.ndarray, " D"]


@dataclasses.dataclass(frozen=True)
class TrainingNorm:
    """One norm in training mode.

    Attributes:
      path: where its parameters lie.
      pull: what it subtracts, for a share of the nodes, or for one node where the update shows their number.
      mean: the batch's mean ``(D,)``.
      variance: the batch's biased variance ``(D,)``.
      total: what counts add up to: 1, or the number of nodes.
    """

    path: tuple[str, ...]
    pull: Pull
    mean: Float[np.ndarray, " D"]
    variance: Float[np.ndarray, " D"]
    total: int

    def moments(self, rows: Float[np.ndarray, "K D"]) -> tuple[Float[np.ndarray, "E K"], Float[np.ndarray, " E"]]:
        """Equations over ``K`` blocks, in units of ``sigma``: their rows before the norm have the batch's mean and
        variance."""
        sigma = np.asarray(self.pull.sigma, np.float64)
        normal = ((rows - self.mean) / sigma).T
        right = np.r_[np.zeros(self.mean.size), self.variance / sigma**2]
        return np.r_[normal, normal**2], right * self.total


def training_norms(problem: CensusProblem) -> list[TrainingNorm]:
    """The model's norms in training mode, in the order of the forward pass."""
    observation, nodes, found = problem.observation, problem.most_nodes, []
    for path, (mean, unbiased) in problem.batch.items():
        here, update = at(observation.params, path), at(observation.update, path)
        variance, total = unbiased * (nodes - 1) / nodes, nodes if problem.absolute else 1
        sigma = np.sqrt(variance + observation.model.norms[path].epsilon)
        factor = np.asarray(here["scale"], np.float64) / sigma / total
        parts = factor * update["bias"], factor * update["scale"], mean, sigma
        found.append(TrainingNorm(path, Pull(*(part.astype(np.float32) for part in parts)), mean, variance, total))
    return found


def taken(pull: Pull, row: Float[Array, " D"]) -> Float[Array, ""]:
    """A scalar whose gradient by a node's row is what the norm subtracts."""
    cotangent = jax.lax.stop_gradient(pull.by + pull.along * (row - pull.mean) / pull.sigma)
    return jnp.vdot(cotangent, row, precision="highest")
