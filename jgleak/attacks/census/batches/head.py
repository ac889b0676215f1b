"""What the gradient of the first map behind pooling shows of a batch."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks.census.local_path import moved
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params

ROUNDING = 5e-7
"""Singular values below this share of the largest are rounding of float32."""

FAINT = 0.05
"""Units to which the last map leads by less than this share of the most are not looked at."""

UNLIT = 1e-4
"""Neither are those whose entries in every ``d_g`` are below this share of the largest."""

WORST = 1e6
"""Largest condition number of vectors that are taken to be independent."""

SHORT = 1e-5
"""Smallest length of a ``d_g`` beside the largest."""


@dataclasses.dataclass(frozen=True)
class HeadGradient:
    """``G = dL/dW = sum_g p_g (x) d_g`` of the map that pooled rows enter, and its singular value decomposition.

    ``p_g (P,)`` is the pooled row of graph ``g``; ``d_g = J(p_g) s_g (F,)``, where ``J (F, C)`` leads back from the
    logits to what leaves the map and ``s_g (C,)`` is the gradient of the batch's loss at the graph's logits.

    Attributes:
      observation: the update of the batch.
      columns: orthonormal basis of the space of the ``p_g`` ``(P, r)``.
      values: singular values ``(r,)``.
      rows: orthonormal basis of the space of the ``d_g`` ``(F, r)``.
    """

    observation: Observation
    columns: Float[np.ndarray, "P r"]
    values: Float[np.ndarray, " r"]
    rows: Float[np.ndarray, "F r"]

    @staticmethod
    def of(observation: Observation) -> HeadGradient:
        """The head's gradient in an update of a model that pools."""
        readout = observation.model.readout
        kernel = np.asarray(readout.first(observation.model.readout_of(observation.update))["kernel"], np.float64)
        values = np.linalg.svd(kernel, compute_uv=False)
        rank = int(np.sum(values > ROUNDING * values[0]))
        return _factored(
            observation, kernel, _largest_gap(values[: rank + 1], observation) if rank and moved(observation) else rank
        )

    @property
    def moved(self) -> bool:
        """The weights moved through several local steps, and units may have switched on the way."""
        return moved(self.observation)

    @property
    def rank(self) -> int:
        """Dimension of the space of the ``p_g``: at most the number of graphs."""
        return self.values.size

    @property
    def kernel(self) -> Float[np.ndarray, "P F"]:
        """``G``, without the directions that are rounding."""
        return (self.columns * self.values) @ self.rows.T

    @property
    def weights(self) -> Params:
        """The readout's own parameters."""
        return self.observation.model.readout_of(self.observation.params)

    @cached_property
    def directions(self) -> Float[np.ndarray, "C c"]:
        """Orthonormal basis of the possible ``s_g``: under softmax cross-entropy their entries add up to 0."""
        outputs = self.observation.model.outputs
        basis = np.eye(outputs)
        if Loss.of(self.observation.loss).name != "ce":
            return basis
        return np.linalg.svd(basis - 1.0 / outputs)[0][:, : outputs - 1]

    @cached_property
    def outgoing(self) -> Float[np.ndarray, "F c"]:
        """What the last map leads back to each unit before it, along ``directions``."""
        return np.asarray(self.observation.model.readout.last(self.weights)["kernel"], np.float64) @ self.directions

    @cached_property
    def units(self) -> Int[np.ndarray, " U"]:
        """The units that show whether a graph lights them."""
        size, lit = np.linalg.norm(self.outgoing, axis=1), np.linalg.norm(self.rows, axis=1)
        return np.flatnonzero((size > FAINT * size.max()) & (lit > UNLIT * lit.max()))

    def at_units(self, units: Int[np.ndarray, " U"]) -> tuple[Float[np.ndarray, "U r"], Float[np.ndarray, "U c"]]:
        """``rows`` and ``outgoing`` at these units, in units of the latter's length."""
        size = np.linalg.norm(self.outgoing[units], axis=1, keepdims=True)
        return self.rows[units] / size, self.outgoing[units] / size

    def back(self, rows: Float[np.ndarray, "k P"]) -> Float[np.ndarray, "k F c"]:
        """``J`` along ``directions`` for every pooled row."""
        found = _back(self.observation.model, self.observation.params, jnp.asarray(rows, jnp.float32))
        return np.asarray(found, np.float64) @ self.directions

    def explained(self, rows: Float[np.ndarray, "k P"]) -> tuple[Float[np.ndarray, "k c"], Float[np.ndarray, " k"]]:
        """Given the pooled rows of all graphs, ``s_g`` along ``directions``, and for each the relative residual of the
        ``d_g`` that the gradient implies: it must be ``J s_g`` for some ``s_g``."""
        implied = np.linalg.lstsq(rows.T, self.kernel, rcond=None)[0]
        sought, rest = np.zeros((len(rows), self.directions.shape[1])), np.zeros(len(rows))
        for k, (jacobian, own) in enumerate(zip(self.back(rows), implied, strict=True)):
            sought[k] = np.linalg.lstsq(jacobian, own, rcond=None)[0]
            rest[k] = np.linalg.norm(jacobian @ sought[k] - own) / max(float(np.linalg.norm(own)), 1e-300)
        return sought, rest

    def implied(self, vectors: Float[np.ndarray, "r r"]) -> Float[np.ndarray, "r P"] | None:
        """The pooled rows if the ``d_g`` have these coordinates along ``rows``, up to their lengths; None where they
        depend on each other, or one is next to 0.

        The bias' gradient is the sum of the ``d_g``, so its coordinates along them are their lengths; the kernel's is
        the sum of ``p_g (x) d_g``, and dual to the ``d_g`` are then the pooled rows.
        """
        if np.linalg.cond(vectors) > WORST:
            return None
        inverse, model = np.linalg.inv(vectors), self.observation.model
        delta = np.asarray(model.readout.first(model.readout_of(self.observation.update))["bias"], np.float64)
        lengths = (delta @ self.rows) @ inverse
        if np.any(np.abs(lengths) <= SHORT * np.abs(lengths).max()):
            return None
        return (self.columns * self.values @ inverse / lengths).T

    def without(self, rows: Float[np.ndarray, "k P"]) -> HeadGradient:
        """The gradient minus the parts of the graphs with these pooled rows, its rank lower by their number."""
        parts = [np.outer(row, self.back(row[None])[0] @ self.of_row(row)[0]) for row in rows]
        return _factored(self.observation, self.kernel - sum(parts), self.rank - len(rows))

    def of_row(self, row: Float[np.ndarray, " P"]) -> tuple[Float[np.ndarray, " c"], float]:
        """For one pooled row, ``s_g`` along ``directions``, and how far ``J s_g`` is from the space of the ``d_g``.

        ``G - p (x) d`` has one dimension less than ``G`` exactly where ``p`` and ``d`` lie in its spaces and
        ``d' G^+ p = 1`` (Wedderburn's rank reduction); both are linear in ``s_g``, which follows.
        """
        jacobian = self.back(row[None])[0]
        within = jacobian.T @ self.rows
        turned = np.linalg.svd(jacobian - self.rows @ within.T)
        direction = turned[2][-1]
        reduces = float(direction @ within @ ((row @ self.columns) / self.values))
        length = float(np.linalg.norm(jacobian @ direction))
        if not reduces or not length:
            return direction * 0.0, np.inf
        return direction / reduces, float(turned[1][-1]) / length


def _largest_gap(values: Float[np.ndarray, " k"], observation: Observation) -> int:
    """The rank, at most that of all graphs, behind which singular values fall most: what a path adds to it is of second
    order in its length."""
    some = np.maximum(values[: observation.batch_size + 1], ROUNDING * values[0])
    return int(np.argmax(some[:-1] / some[1:])) + 1 if some.size > 1 else some.size


def _factored(observation: Observation, kernel: Float[np.ndarray, "P F"], rank: int) -> HeadGradient:
    columns, values, rows = np.linalg.svd(kernel, full_matrices=False)
    return HeadGradient(observation, columns[:, :rank], values[:rank], rows[:rank].T)


@jax.jit(static_argnames="model")
def _back(model: GNN, params: Params, rows: Float[Array, "k P"]) -> Float[Array, "k F C"]:
    """The Jacobian of the logits at what leaves the first map, transposed."""
    first = model.readout.first(model.readout_of(params))

    def logits(own: Float[Array, " F"]) -> Any:
        return model.apply({"params": params}, own, method=lambda module, x: module.readout.behind_first(x))

    def after(row: Float[Array, " P"]) -> Float[Array, "F C"]:
        own = jnp.matmul(row, first["kernel"], precision="highest") + first["bias"]
        return jax.jacobian(logits)(own).T

    return jax.vmap(after)(rows)
