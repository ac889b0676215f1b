"""Peeling a model from its output: GLG's propositions for every layer, the last one first.

With ``D = dL/dZ`` of a layer (one row a node), ``S`` the normalised adjacency and ``H`` the states that enter it, the
gradients of its kernels are ``Hᵀ E`` with a design ``E`` made of ``D``: ``Sᵀ D`` for GCN's kernel, ``D`` and ``Sᵀ D``
for GraphSAGE's. GLG (Sinha et al.) knows ``D`` at the first layer only where one node's loss meets one layer
(Propositions 1, 2, 5), or not at all (Proposition 6, which takes the features instead). But the *last* layer's ``D`` is
always known, from the gradient of the last bias, and every layer's ``D`` follows from the one above:

1. ``H = (G E⁺)ᵀ``: the states that entered the layer (``rows_of``);
2. ``S = (S H) H⁺`` where the edges are not given, from GraphSAGE's two kernels (``edges_of``);
3. ``D`` below ``= (dL/dH) * act'``, and ``act'`` is a function of ``H`` (``below``),

down to the features. So no layer but the last has to see a single row, and neither features nor edges have to be known
for GraphSAGE; a GCN, whose edges have to be, needs more care (``gcn_inversion``). Several gradients of one graph (one a
node's loss) are stacked: each adds columns to ``E``.

Everything is float64 on the host, from float32 gradients. Each function checks its condition and raises
``ConditionFailed`` where it does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components

from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.closed_form.tolerances import TOLERANCES, ClosedFormTolerances
from jgleak.federated.observation import Observation
from jgleak.gnn import Convolution


class LayerGradient(NamedTuple):
    """One convolution as the server sees it, in ``B`` gradients of one graph.

    Attributes:
      conv: a convolution that ``peels``.
      weights: kernels ``(F, D)``.
      bias: ``(D,)``.
      gradients: those of the kernels ``(B, F, D)``.
      tolerances: what counts as equal in them.
    """

    conv: Convolution
    weights: Mapping[str, Float[np.ndarray, "F D"]]
    bias: Float[np.ndarray, " D"]
    gradients: Mapping[str, Float[np.ndarray, "B F D"]]
    tolerances: ClosedFormTolerances = TOLERANCES

    @staticmethod
    def of(observation: Observation, depth: int, tolerances: ClosedFormTolerances = TOLERANCES) -> LayerGradient:
        """The convolution ``depth`` of an observation's model; without biases they are 0."""
        model = observation.model
        weights, seen = (model.conv_of(tree, depth) for tree in (observation.params, observation.update))
        names = [name for name in weights if name != "bias"]
        each = observation.gradients is not None
        return LayerGradient(
            model.layers[depth].conv,
            {name: np.asarray(weights[name], np.float64) for name in names},
            np.asarray(weights.get("bias", np.zeros(weights[names[0]].shape[1])), np.float64),
            {name: np.asarray(seen[name]) if each else np.asarray(seen[name])[None] for name in names},
            tolerances,
        )

    def own(self, tree: Mapping[str, Any]) -> Any:
        """Of the weights or their gradients, that of the kernel which nodes' own rows meet."""
        name = self.conv.kernel("own")
        assert name is not None
        return tree[name]

    def mixed(self, tree: Mapping[str, Any]) -> Any:
        """Of the weights or their gradients, that of the kernel which mixed rows meet."""
        name = self.conv.kernel("mixed")
        assert name is not None
        return tree[name]


def mixing_of(conv: Convolution, adjacency: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """The convolution's normalised adjacency ``S``, in float64."""
    return conv.mixing(np.asarray(adjacency, np.float64), np.ones(len(adjacency), bool))


def rows_of(
    layer: LayerGradient, upstream: Float[np.ndarray, "B n D"], mixing: Float[np.ndarray, "n n"] | None
) -> Float[np.ndarray, "n F"]:
    """The states that entered a GraphSAGE layer, from the gradients at its output.

    Where each of the ``upstream`` gradients has one row, these are Propositions 1 and 2.

    Args:
      layer: a GraphSAGE layer.
      upstream: ``dL/dZ`` in each gradient.
      mixing: the normalised adjacency, where it is known; the self kernel serves without.

    Raises:
      ConditionFailed: gradients at the output without full row rank (more nodes than units in one gradient, for
        example); gradients that no states fit.
    """
    if mixing is None:
        return _solve([upstream], [layer.own(layer.gradients)], layer.tolerances)
    return _solve(*_both_kernels(layer, upstream, mixing), layer.tolerances)


def edges_of(
    layer: LayerGradient, upstream: Float[np.ndarray, "B n D"], rows: Float[np.ndarray, "n F"]
) -> Float[np.ndarray, "n n"]:
    """The adjacency from a GraphSAGE layer and the states that entered it, as zeros and ones (Propositions 3 and 6).

    ``S = (S H) H⁺``, rounded: an edge is where the entries of both directions, as shares of their rows' largest, are
    more than a half on average. Nodes of equal states share a column of ``S``: there the other direction decides. The
    propositions ask for full row rank; rounding may make up for a direction or two that float32 loses, so the answer
    is checked instead, against the part of the gradients that the *differences* of states make.

    Raises:
      ConditionFailed: the rounded adjacency does not make the gradients, or nodes of equal states neighbour others of
        equal states, which leaves their edges open.
    """
    kernel, tolerances = layer.mixed(layer.gradients), layer.tolerances
    # Without edges the kernel's gradient is zero.
    aggregated = _solve([upstream], [kernel], tolerances) if np.any(kernel) else np.zeros_like(rows)
    group, size = _equal_rows(rows, tolerances.fit)
    distinct = np.stack([rows[group == g].mean(axis=0) for g in range(size.size)])
    rank = f"the {len(rows)} states have {size.size} distinct rows and rank {_rank(distinct, tolerances.rank)}"
    mixing = ((aggregated @ np.linalg.pinv(distinct, rcond=tolerances.rank)) / size)[:, group]
    largest = mixing.max(axis=1, keepdims=True)
    share = np.where(largest > tolerances.fit, mixing / np.maximum(largest, tolerances.fit), 0.0)
    alike = size[group] > 1
    if np.any(share[np.ix_(alike, alike)] > 0.5 / size.max()):
        raise ConditionFailed(f"nodes of equal states neighbour each other, and which whose does not show: {rank}")
    trust = np.broadcast_to(np.where(alike, tolerances.fit, 1.0), share.shape)
    edges = (trust * share + (trust * share).T) / (trust + trust.T) > 0.5
    adjacency = (edges & ~np.eye(len(mixing), dtype=bool)).astype(np.float64)
    _, missed, spread = _fit(*_both_kernels(layer, upstream, mixing_of(layer.conv, adjacency)), tolerances.rank)
    if len(rows) > 1 and not missed < tolerances.fit * spread:
        raise ConditionFailed(
            f"no graph fits: the nearest one misses {missed / spread:.1e} of what the states' differences make, and "
            f"{rank}; Proposition 3 needs full row rank"
        )
    return adjacency


def below(
    layer: LayerGradient,
    upstream: Float[np.ndarray, "B n D"],
    mixing: Float[np.ndarray, "n n"],
    slope: Float[np.ndarray, "n F"],
) -> Float[np.ndarray, "B n F"]:
    """``dL/dZ`` of the layer below: through the weights and edges of this one, times the ``slope`` of its input."""
    passed = (mixing.T @ upstream) @ layer.mixed(layer.weights).T
    own = layer.conv.own_kernel
    return (passed if own is None else passed + upstream @ layer.weights[own].T) * slope


def _both_kernels(
    layer: LayerGradient, upstream: Float[np.ndarray, "B n D"], mixing: Float[np.ndarray, "n n"]
) -> tuple[list[Float[np.ndarray, "B n D"]], list[Float[np.ndarray, "B F D"]]]:
    own = layer.own(layer.gradients)
    return [upstream, mixing.T @ upstream], [own, layer.mixed(layer.gradients)]


def _solve(
    designs: Sequence[Float[np.ndarray, "B n D"]],
    gradients: Sequence[Float[np.ndarray, "B F D"]],
    tolerances: ClosedFormTolerances,
) -> Float[np.ndarray, "n F"]:
    """``H`` of ``Hᵀ E = G``.

    Raises:
      ConditionFailed: ``E`` lacks full row rank, or no ``H`` fits.
    """
    rows, missed, _ = _fit(designs, gradients, tolerances.rank)
    if missed > tolerances.fit:
        raise ConditionFailed(
            f"no states fit: the gradients are {missed:.1e} from any that {len(rows)} rows could make here; the "
            "update was changed, or what was found above is inexact"
        )
    return rows


def _fit(
    designs: Sequence[Float[np.ndarray, "B n D"]], gradients: Sequence[Float[np.ndarray, "B F D"]], tolerance: float
) -> tuple[Float[np.ndarray, "n F"], float, float]:
    """``H`` of ``Hᵀ E = G`` by least squares, and as shares of ``|G|`` what it misses and what its spread makes.

    Every block of ``G`` counts alike, as its rounding is relative to its size, and nodes are scaled alike before the
    rank is judged, as a node of small gradients is no less known for that.
    """
    blocks = [pair for each in zip(designs, gradients, strict=True) for pair in zip(*each, strict=True)]
    sizes = [float(np.sqrt(np.sum(np.square(g, dtype=np.float64)))) for _, g in blocks]
    weights = [1 / size if size > 0 else 0.0 for size in sizes]
    design = np.hstack([weight * d for weight, (d, _) in zip(weights, blocks, strict=True)])
    inverse = _inverse(design, "the gradients at the layer's output", tolerance)
    parts = np.split(inverse, np.cumsum([d.shape[1] for d, _ in blocks])[:-1])
    rows = np.zeros((len(design), blocks[0][1].shape[0]))
    for weight, (_, seen), part in zip(weights, blocks, parts, strict=True):
        rows += weight * (seen @ part).T
    total, gram = max(sum(size > 0 for size in sizes), 1), design @ design.T
    centred = rows - rows.mean(axis=0)
    made, spread = (float(np.sum(part * (gram @ part))) / total for part in (rows, centred))
    return rows, np.sqrt(max(1 - made, 0.0)) if any(weights) else 0.0, np.sqrt(max(spread, 0.0))


def _inverse(matrix: Float[np.ndarray, "n k"], name: str, tolerance: float) -> Float[np.ndarray, "k n"]:
    """Pseudo-inverse of a matrix of full row rank, whatever the sizes of its rows."""
    size = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.all(size > 0):
        raise ConditionFailed(f"row {int(np.argmin(size))} of {name} is zero; full row rank {len(matrix)} is needed")
    left, values, right = np.linalg.svd(matrix / size, full_matrices=False)
    rank = int(np.sum(values > tolerance * values[0]))
    if rank < len(matrix):
        raise ConditionFailed(f"{name} {matrix.shape} have rank {rank}; full row rank {len(matrix)} is needed")
    return (right.T / values) @ (left / size).T


def _rank(matrix: Float[np.ndarray, "n k"], tolerance: float) -> int:
    return int(np.linalg.matrix_rank(matrix, rtol=tolerance))


def _equal_rows(
    rows: Float[np.ndarray, "n F"], tolerance: float
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " r"]]:
    """Group of every row, rows nearer than ``tolerance`` times the usual distance being equal; the groups' sizes."""
    centred = rows - rows.mean(axis=0)
    square = np.sum(centred**2, axis=1)
    gap = square[:, None] + square - 2 * centred @ centred.T
    group = connected_components(gap < tolerance**2 * square.mean())[1]
    return group, np.bincount(group)
