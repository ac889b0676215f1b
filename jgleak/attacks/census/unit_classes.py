"""The two last convolutions' gradients together, where the last layer's units fall into few classes.

Under a pooled readout every node gets the gradient ``delta`` of the pooled state, and unit ``k`` of a last layer with a
ReLU passes ``delta_k`` at the nodes where it is on, without an activation at all nodes. After training most units are
on at all nodes or off at all nodes. Units that are on at the same nodes form a class ``q``. Let ``h_v`` be the state
that the last layer gets from node ``v``, ``a_v`` the row (mixed, or the node's own) that enters a kernel before, and
``t_vq`` what node ``v`` gets back from the nodes of class ``q``, through the mixing. Then

    dL/dW_last[:, k] / delta_k = sum_v t_vq h_v                          for every unit k of class q,
    dL/dW_before[:, j] = sum_v 1[z_vj > 0] a_v sum_q t_vq w_qj,          w_qj = sum of delta_k W_last[j, k] over q,

and likewise the bias before. A layer with a kernel for nodes' own rows beside that for mixed rows (GraphSAGE) has
classes of its own for each of them. All of ``t`` is non-negative, and ``h``, ``a`` and ``z`` are the block's: so the
gradients of two layers are one non-negative combination of ``Q`` columns a block. That gives many more equations than
the last gradient alone, and blocks with nearly equal states can differ in the units that are on before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import linalg

from jgleak.attacks.closed_form.pooled_embedding import pooled_embedding
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.federated.observation import Observation
from jgleak.gnn import Layer
from jgleak.gnn.tree import at

FAINT = 1e-4
"""Columns of a gradient below this share of the largest are rounding."""

SAME = 1e-4
"""Relative distance within which columns over their ``delta`` belong to one class."""

ROUNDING = 1e-6
"""Error of a column, relative to the largest."""

NODE = 0.1
"""A block is used where its ``t`` is at least this share of that of one node, if all nodes were equal."""

RANK = 3e-7
"""Singular values below this share of the largest are rounding."""

BIAS = ("conv", "bias")
"""Where a layer's bias lies in its parameters."""

Rows = Literal["own", "mixed"]
"""Which rows enter a kernel (``gnn.tap.Tap``)."""


@dataclasses.dataclass(frozen=True)
class LastLayers:
    """The gradients of the last two convolutions.

    Attributes:
      before: the gradients of the kernels before the last, each over a basis of its rows' span, one below the other,
        with the bias' below them ``(r + 1, D)``; without a bias ``(r, D)``.
      bases: those bases ``(F, r)``, with the rows that enter each kernel.
      last: for each class of units the last kernel's gradient over ``delta`` ``(D, Q)``.
      weights: ``w`` ``(D, Q)``.
      biased: the layer before the last has a bias.
    """

    before: Float[np.ndarray, "R D"]
    bases: tuple[tuple[Rows, Float[np.ndarray, "F _r"]], ...]
    last: Float[np.ndarray, "D Q"]
    weights: Float[np.ndarray, "D Q"]
    biased: bool

    @staticmethod
    def of(observation: Observation, most: int) -> LastLayers | None:
        """The last layers of an update; None where the model's last layers do not fit, or have more than ``most``
        classes."""
        model, last = observation.model, observation.model.depth - 1
        if last < 1 or not _fits(observation):
            return None
        below, above = model.layers[last - 1], model.layers[last]
        first, second = _kernels(below), _kernels(above)
        paths = {last - 1: [*first, *([BIAS] if below.conv.bias else [])], last: [*second]}
        if not all(model.trains(f"layers_{number}", *path) for number in paths for path in paths[number]):
            return None
        try:
            pooled_embedding(model, observation.update)
        except ConditionFailed:
            return None
        update, params = observation.update, observation.params
        delta = model.readout.upstream(model.readout_of(params), model.readout_of(update))
        said, weights = list[Float[np.ndarray, " D"]](), list[Float[np.ndarray, " D"]]()
        for path in second:
            kernel, seen = (np.asarray(at(model.layer_of(tree, last), path), np.float64) for tree in (params, update))
            classes = _classes(seen, delta)
            said += [seen[:, q] @ delta[q] / (delta[q] @ delta[q]) for q in classes]
            weights += [kernel[:, q] @ delta[q] for q in classes]
        layer = model.layer_of(update, last - 1)
        before = [np.asarray(at(layer, path), np.float64) for path in first]
        if not 0 < len(said) <= most or not all(gradient.any() for gradient in before):
            return None
        bases = [_basis(gradient) for gradient in before]
        over = [basis.T @ gradient for basis, gradient in zip(bases, before, strict=True)]
        if below.conv.bias:
            over.append(np.asarray(at(layer, BIAS), np.float64)[None])
        entering = tuple(zip(first.values(), bases, strict=True))
        return LastLayers(np.concatenate(over), entering, np.stack(said, 1), np.stack(weights, 1), below.conv.bias)

    @property
    def off(self) -> Bool[np.ndarray, " D"]:
        """Units before the last layer that are off at every node: non-negative states do not cancel."""
        return np.max(np.abs(self.last), axis=1) == 0.0


class BlockCone:
    """The cone of candidate blocks (``cone.Cone``): a column for each block and class.

    Args:
      seen: the gradients.
      states: what enters the last convolution from each block.
      entering: what enters a kernel before it, of each kind.
      roots: which blocks are alike at their centre.
      most: largest number of nodes.
    """

    def __init__(
        self,
        seen: LastLayers,
        states: Float[np.ndarray, "K D"],
        entering: Callable[[Rows], Float[np.ndarray, "K F"]],
        roots: Int[np.ndarray, " K"],
        most: int,
    ) -> None:
        self.least = NODE / most
        self.possible = np.flatnonzero(~np.any(states[:, seen.off] > ROUNDING * states.max(initial=0.0), axis=1))
        self.states = states[self.possible]
        self.on = self.states > 0.0
        rows = [entering(kind)[self.possible] @ basis for kind, basis in seen.bases]
        self.rows = np.column_stack([*rows, *([np.ones(self.possible.size)] if seen.biased else [])])
        self.weights, classes = seen.weights, seen.weights.shape[1]
        self.shares = 1.0 / np.linalg.norm(seen.before), 1.0 / np.linalg.norm(seen.last)
        goal = np.r_[seen.before.ravel() * self.shares[0], seen.last.T.ravel() * self.shares[1]]
        self.goal = goal / np.linalg.norm(goal)
        before = np.sum(self.rows**2, axis=1)[:, None] * (self.on @ self.weights**2) * self.shares[0] ** 2
        lengths = np.sqrt(before + np.sum(self.states**2, axis=1)[:, None] * self.shares[1] ** 2)
        self.lengths = np.where(lengths > 0.0, lengths, 1.0)
        self.blocks = np.repeat(self.possible, classes)
        self.groups = (
            np.unique(roots[self.possible], return_inverse=True)[1][:, None] * classes + np.arange(classes)
        ).ravel()
        self.fast = [part.astype(np.float32) for part in (self.rows, self.states, self.weights)]

    def columns(self, some: Int[np.ndarray, " k"]) -> Float[np.ndarray, "k M"]:
        """Some columns, as rows."""
        classes = self.weights.shape[1]
        block, unit = np.divmod(some, classes)
        passed = self.on[block] * self.weights[:, unit].T
        before = self.rows[block][:, :, None] * passed[:, None, :] * self.shares[0]
        last = np.zeros((some.size, classes, self.states.shape[1]))
        last[np.arange(some.size), unit] = self.states[block] * self.shares[1]
        size = self.rows.shape[1] * self.states.shape[1]
        whole = np.c_[before.reshape(some.size, size), last.reshape(some.size, self.goal.size - size)]
        return whole / self.lengths[block, unit][:, None]

    def prices(self, rest: Float[np.ndarray, " M"]) -> Float[np.ndarray, " C"]:
        """The product of every column with what is left to be explained."""
        units, size = self.states.shape[1], self.rows.shape[1] * self.states.shape[1]
        before, last = rest[:size].reshape(-1, units) * self.shares[0], rest[size:].reshape(-1, units) * self.shares[1]
        rows, states, weights = self.fast
        unit = max(float(np.abs(rest).max()), 1e-300)
        passed = rows @ (before / unit).astype(np.float32)
        passed *= self.on
        return unit * ((passed @ weights + states @ (last.T / unit).astype(np.float32)) / self.lengths).ravel()

    def counts(self, some: Int[np.ndarray, " k"], weights: Float[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        """Which weights are as large as one node's, relative to the largest total of a class."""
        block, unit = np.divmod(some, self.weights.shape[1])
        back = weights / self.lengths[block, unit]
        return back >= self.least * np.bincount(unit, back).max(initial=0.0)

    @property
    def alike(self) -> Int[np.ndarray, " P"]:
        """A number for each possible block, equal for blocks with equal columns."""
        whole = np.c_[self.rows, self.states]
        vector = np.random.default_rng(0).normal(size=whole.shape[1])
        sums = whole @ vector
        return np.unique(np.round(sums / np.abs(sums).max(initial=1e-300), 9), return_inverse=True)[1]


def _fits(observation: Observation) -> bool:
    """True where both layers are convolutions whose kernels take the nodes' own rows or mixed ones, the first has a
    ReLU, the last a ReLU or no activation, and the last states are pooled."""
    model = observation.model
    below, above = model.layers[-2], model.layers[-1]
    bare = all(layer.plain and layer.conv.peels and layer.dropout == 0.0 for layer in (below, above))
    bends = below.act == "relu" and above.act in ("relu", "identity")
    pooled = model.readout.additive == "pooled" and model.jumping.keeps == "last"
    return bare and bends and pooled


def _kernels(layer: Layer) -> dict[tuple[str, ...], Rows]:
    """Where a layer's kernels lie, and which rows enter each; mixed ones where self-loops mix a node's own in."""
    kinds: tuple[Rows, ...] = ("own", "mixed")
    return {tap.path: kind for kind in kinds for tap in layer.taps if tap.rows == kind}


def _basis(gradient: Float[np.ndarray, "F D"]) -> Float[np.ndarray, "F r"]:
    """An orthonormal basis of the span of the rows that entered a kernel."""
    left, values, _ = linalg.svd(gradient, full_matrices=False)
    return left[:, values > RANK * values[0]]


def _classes(gradient: Float[np.ndarray, "D m"], delta: Float[np.ndarray, " m"]) -> list[Int[np.ndarray, " _k"]]:
    """Units of equal columns over their ``delta``; those off everywhere are in none."""
    size = np.linalg.norm(gradient, axis=0)
    live = np.flatnonzero((size > 0.0) & (np.abs(delta) > 0.0))
    live = live[np.argsort(-size[live], kind="stable")]
    columns = gradient[:, live] / delta[live]
    error = ROUNDING * size.max() / np.abs(delta[live])
    found, left = list[Int[np.ndarray, " _k"]](), np.ones(live.size, bool)
    for i in range(live.size):
        if left[i]:
            apart = np.linalg.norm(columns - columns[:, [i]], axis=0)
            same = left & (apart <= SAME * np.linalg.norm(columns[:, i]) + error)
            found.append(live[same])
            left &= ~same
    return found
