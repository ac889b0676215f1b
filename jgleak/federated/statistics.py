"""Running statistics that clients return beside their update, and the batch's own, which follow from them.

A client that trains with batch normalisation moves ``mean`` and ``variance`` towards the batch's: with a momentum
``m``, ``after = (1 - m) before + m batch``, where the variance of the batch of ``N`` nodes is unbiased, divided by
``N - 1``. Whoever knows the statistics from before solves for the batch's. The rows themselves were normalised by the
biased variance.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float

from jgleak.gnn import GNN, Norm, Params
from jgleak.gnn.convolution import AnyArray
from jgleak.gnn.dropout import DROPOUT
from jgleak.gnn.norm import STATISTICS, BatchNorm
from jgleak.gnn.tree import at, put
from jgleak.graph import DenseGraph

Batch = dict[tuple[str, ...], tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]]
"""A batch's mean and unbiased variance at every norm, by where the norm's parameters lie."""


def moved(model: GNN, params: Params, graph: DenseGraph, masks: Array | None = None) -> Params:
    """The running statistics after a step on one graph: a tree with ``mean`` and ``variance`` of every norm.

    ``masks`` is the key of dropout's masks, where there are some.
    """
    found: Params = {}
    for path, batch in _statistics(model, params, graph, masks).items():
        before, momentum = at(params, path), _momentum(model.norms[path])
        after = {
            name: ((1.0 - momentum) * np.asarray(before[name], np.float64) + momentum * np.asarray(now, np.float64))
            for name, now in zip(("mean", "variance"), batch, strict=True)
        }
        found = put(found, path, {name: value.astype(np.float32) for name, value in after.items()})
    return found


def of_batch(model: GNN, params: Params, returned: Params) -> Batch:
    """The batch's statistics, from running ones before and after."""
    found: Batch = {}
    for path, norm in model.norms.items():
        if norm.returns_statistics:
            before, after = at(params, path), at(returned, path)
            mean, variance = (_towards(before[name], after[name], _momentum(norm)) for name in ("mean", "variance"))
            found[path] = mean, np.maximum(variance, 0.0)
    return found


def blur(model: GNN, params: Params, returned: Params) -> Batch:
    """How far rounding may have moved the batch's mean and unbiased variance at every norm, about."""
    found: Batch = {}
    for path, norm in model.norms.items():
        if norm.returns_statistics:
            before, after = at(params, path), at(returned, path)
            mean, variance = (_rounding(before[name], after[name], _momentum(norm)) for name in ("mean", "variance"))
            found[path] = mean, variance
    return found


def deviation_blur(model: GNN, params: Params, returned: Params) -> float:
    """How far rounding may have moved the deviation that a norm divides by, relative, in its worst column."""
    batch, blurred, worst = of_batch(model, params, returned), blur(model, params, returned), 0.0
    for path, (_, variance) in batch.items():
        norm = model.norms[path]
        worst = max(worst, float(np.max(blurred[path][1] / (2.0 * (variance + norm.epsilon)))))
    return worst


def evaluated(model: GNN) -> GNN:
    """The model with its batch normalisation in evaluation mode."""
    layers = [
        layer.clone(
            conv=layer.conv.with_inner_norm(_evaluated), norm=None if layer.norm is None else _evaluated(layer.norm)
        )
        for layer in model.layers
    ]
    return model.clone(layers=tuple(layers))


def frozen(model: GNN, params: Params, batch: Batch, nodes: int) -> tuple[GNN, Params]:
    """The model in evaluation mode that computes on this batch of ``nodes`` what it computed in training mode.

    Its derivatives are others: statistics are constants there.
    """
    for path, (mean, variance) in batch.items():
        still = {"mean": mean, "variance": variance * (nodes - 1) / nodes}
        params = put(params, path, {**at(params, path), **still})
    return evaluated(model), params


def distance(model: GNN, params: Params, returned: Params, graph: DenseGraph) -> float:
    """How far a graph's statistics are from those that follow from the returned ones, at the norm where it is most.

    Means relative to the batch's root mean square, variances to its mean squares, over all columns together: a column
    of little size is known less well than others.
    """
    seen, worst = of_batch(model, params, returned), 0.0
    for path, (mean, variance) in _statistics(model, params, graph).items():
        wanted, spread = seen[path]
        squares = np.square(wanted) + spread
        for gap, size in ((mean - wanted, np.sqrt(squares)), (variance - spread, squares)):
            worst = max(worst, float(np.linalg.norm(gap) / max(float(np.linalg.norm(size)), 1e-30)))
    return worst


def _towards(before: AnyArray, after: AnyArray, momentum: float) -> Float[np.ndarray, " D"]:
    """What running statistics have moved towards."""
    then, now = (np.asarray(one, np.float64) for one in (before, after))
    return (now - (1.0 - momentum) * then) / momentum


def _rounding(before: AnyArray, after: AnyArray, momentum: float) -> Float[np.ndarray, " D"]:
    """What rounding of running statistics leaves of what they have moved towards."""
    then, now = (np.abs(np.asarray(one, np.float64)) for one in (before, after))
    return float(np.finfo(np.float32).eps) * ((then + now) / momentum + now)


def _momentum(norm: Norm) -> float:
    if not isinstance(norm, BatchNorm):
        raise TypeError(f"norm: {norm.kind!r} has no running statistics")
    return norm.momentum


def _evaluated(norm: Norm) -> Norm:
    return norm.clone(training=False) if isinstance(norm, BatchNorm) else norm


def _statistics(model: GNN, params: Params, graph: DenseGraph, masks: Array | None = None) -> Batch:
    sown = jax.device_get(_sown(model, params, graph, masks))
    norms = (path for path, norm in model.norms.items() if norm.returns_statistics)
    return {path: (at(sown, path)["mean"], at(sown, path)["variance"]) for path in norms}


@partial(jax.jit, static_argnames=("model",))
def _sown(model: GNN, params: Params, graph: DenseGraph, masks: Array | None) -> Params:
    rngs = None if masks is None else {DROPOUT: masks}
    _, left = model.apply({"params": params}, *graph, mutable=[STATISTICS], rngs=rngs)
    return left[STATISTICS]
