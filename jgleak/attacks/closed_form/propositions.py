"""Propositions 1 to 6 of GLG: what the gradients of a first layer give away by linear algebra alone.

Kernels are stored input x output, so with ``D = dL/dZ`` (one row a node) a GCN layer ``Z = S X W + b`` has
``dL/dW = (S X)^T D``, a GraphSAGE layer ``Z = X W_self + S X W_neighbour + b`` has ``dL/dW_self = X^T D`` and
``dL/dW_neighbour = (S X)^T D``; ``dL/db`` is the sum of ``D``'s rows. ``S`` is the normalised adjacency: GCN's
``D^-1/2 (A + I) D^-1/2``, GraphSAGE's ``D^-1 A``.

Each function checks the condition under which its proposition holds, and raises ``ConditionFailed`` where it does not.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from jgleak.attacks.closed_form.tolerances import TOLERANCES


class ConditionFailed(ValueError):
    """A proposition's condition does not hold, so its formula would return a wrong answer."""


def aggregated_row(
    kernel: Float[np.ndarray, "F D"], bias: Float[np.ndarray, " D"], *, one_row: float = TOLERANCES.one_row
) -> Float[np.ndarray, " F"]:
    """Proposition 1: the aggregated features of the one node whose row has a gradient, from ``dL/dW`` and ``dL/db``.

    GLG divides one column by one entry of the bias; all columns together are the same in exact arithmetic and less
    noisy. Holds for GCN's kernel and for GraphSAGE's neighbour kernel.

    Raises:
      ConditionFailed: the bias gradient is zero, or more than one row entered the layer with a gradient (a second
        convolution above it, or a loss over several nodes).
    """
    kernel, bias = _finite(kernel, "the kernel's gradient", 2), _finite(bias, "the bias gradient", 1)
    if kernel.shape[1] != bias.size:
        raise ValueError(
            f"the kernel's gradient has {kernel.shape[1]} columns and the bias gradient {bias.size} entries; "
            "pass both of one layer, the kernel as input x output"
        )
    weight = bias @ bias
    if not weight > 0.0:
        raise ConditionFailed("the bias gradient is zero, so nothing of the row shows; observe another round")
    row = kernel @ bias / weight
    size = np.linalg.norm(kernel)
    off = np.linalg.norm(kernel - np.outer(row, bias)) / size if size > 0.0 else 0.0
    if off > one_row:
        raise ConditionFailed(
            f"the gradient is {off:.1e} away from rank one: more than one row entered the layer with a gradient. "
            "Proposition 1 needs the loss of one node and no second convolution above this layer"
        )
    return row


def node_row(self_kernel: Float[np.ndarray, "F D"], bias: Float[np.ndarray, " D"]) -> Float[np.ndarray, " F"]:
    """Proposition 2: a node's own features, from GraphSAGE's self kernel.

    Raises:
      ConditionFailed: as for ``aggregated_row``.
    """
    return aggregated_row(self_kernel, bias)


def adjacency_of_rows(
    aggregated: Float[np.ndarray, "n F"], features: Float[np.ndarray, "n F"]
) -> Float[np.ndarray, "n n"]:
    """Proposition 3: the normalised adjacency ``X_agg X^+`` from every node's aggregated and own features.

    Raises:
      ConditionFailed: the features do not have full row rank (for example two equal nodes, or more nodes than
        features): then other adjacencies have the same aggregates.
    """
    features = _finite(features, "the features", 2)
    aggregated = _finite(aggregated, "the aggregated features", 2)
    if aggregated.shape != features.shape:
        raise ValueError(f"aggregated features {aggregated.shape} and features {features.shape} differ in shape")
    return aggregated @ _inverse(features, "the features", rows=True)


def features_of_rows(
    aggregated: Float[np.ndarray, "n F"], adjacency: Float[np.ndarray, "n n"]
) -> Float[np.ndarray, "n F"]:
    """Proposition 4: the features ``S^+ X_agg`` from the normalised adjacency (the paper prints the factors swapped).

    Raises:
      ConditionFailed: the adjacency is singular.
    """
    aggregated = _finite(aggregated, "the aggregated features", 2)
    adjacency = _finite(adjacency, "the normalised adjacency", 2)
    if adjacency.shape != (aggregated.shape[0],) * 2:
        raise ValueError(f"the adjacency is {adjacency.shape}, the aggregated features have {len(aggregated)} rows")
    return _inverse(adjacency, "the normalised adjacency", rows=False) @ aggregated


def graph_of_rows(
    self_kernels: Float[np.ndarray, "n F D"],
    neighbour_kernels: Float[np.ndarray, "n F D"],
    biases: Float[np.ndarray, "n D"],
) -> tuple[Float[np.ndarray, "n F"], Float[np.ndarray, "n n"]]:
    """Proposition 5: features and normalised adjacency from GraphSAGE's gradients of every node's own loss.

    Raises:
      ConditionFailed: as for Propositions 1, 2 and 3.
    """
    features = np.stack([node_row(kernel, bias) for kernel, bias in zip(self_kernels, biases, strict=True)])
    aggregated = [aggregated_row(kernel, bias) for kernel, bias in zip(neighbour_kernels, biases, strict=True)]
    return features, adjacency_of_rows(np.stack(aggregated), features)


def adjacency_of_gradient(
    features: Float[np.ndarray, "n F"],
    self_kernel: Float[np.ndarray, "F D"],
    neighbour_kernel: Float[np.ndarray, "F D"],
    *,
    rank: float = TOLERANCES.rank,
) -> Float[np.ndarray, "n n"]:
    """Proposition 6: the normalised adjacency from one gradient of GraphSAGE's first layer and known features.

    ``X^T D`` gives ``D``, and ``(S X)^T D = X^T (S^T D)`` gives ``S^T D``; their quotient is ``S^T``. Any loss and any
    layers above will do.

    Raises:
      ConditionFailed: the features do not have full row rank, or ``D`` does not: besides the paper's condition it needs
        no more nodes than units, and independent gradients of the nodes' rows.
    """
    features = _finite(features, "the features", 2)
    own = _finite(self_kernel, "the self kernel's gradient", 2)
    others = _finite(neighbour_kernel, "the neighbour kernel's gradient", 2)
    if own.shape != others.shape or own.shape[0] != features.shape[1]:
        raise ValueError(
            f"features {features.shape}, self kernel {own.shape} and neighbour kernel {others.shape} do not belong "
            "together; the kernels' gradients have one row a feature"
        )
    back = _inverse(features, "the features", rows=True, tolerance=rank).T  # (X^T)^+
    upstream = back @ own
    inverse = _inverse(upstream, "the gradient at the layer's output", rows=True, tolerance=rank)
    return ((back @ others) @ inverse).T


def _inverse(
    matrix: Float[np.ndarray, "a b"], name: str, *, rows: bool, tolerance: float = TOLERANCES.rank
) -> Float[np.ndarray, "b a"]:
    """Pseudo-inverse of a matrix of full row (or column) rank."""
    values = np.linalg.svd(matrix, compute_uv=False)
    wanted = matrix.shape[0 if rows else 1]
    rank = int(np.sum(values > tolerance * values[:1]))
    if rank < wanted:
        which = "row" if rows else "column"
        raise ConditionFailed(
            f"{name} {matrix.shape} have rank {rank}; the proposition needs full {which} rank {wanted}"
        )
    return np.linalg.pinv(matrix, rcond=tolerance)


def _finite(values: Float[np.ndarray, "..."], name: str, dimensions: int) -> Float[np.ndarray, "..."]:
    values = np.asarray(values, np.float64)
    if values.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, not shape {values.shape}")
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} holds NaN or infinite values; ask the client for the round again")
    return values
