"""Gradients as products of thin matrices: what enters a kernel, and the derivatives at what comes out."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Array, Float, Num

from jgleak.federated.loss import Loss, output_loss
from jgleak.gnn import GNN, Params
from jgleak.gnn.dropout import DROPOUT, MASKS
from jgleak.gnn.tap import PROBES, ROWS
from jgleak.graph import DenseGraph


class Outer(NamedTuple):
    """``T`` gradients of one kernel: ``rows^T slopes[t]``.

    Attributes:
      rows: ``(R, F)`` what entered the kernel, of all nodes (or graphs) of the client's graphs.
      slopes: ``(T, R, D)`` the derivatives of the ``T`` losses by what came out.
    """

    rows: Float[Array, "R F"]
    slopes: Float[Array, "T R D"]


def factored_gradients(
    model: GNN,
    params: Params,
    graphs: DenseGraph,
    labels: Num[Array, "G ..."],
    loss: str | Loss,
    shares: Float[Array, "T G N"],
    masks: Any = None,
    trim: tuple[int, ...] | None = None,
) -> Params:
    """Gradients of one client's losses in the parameters' tree: an ``Outer`` a kernel, other leaves ``(T, ...)``.

    Args:
      model: the shared model.
      params: the round's parameters.
      graphs: the client's ``G`` graphs, side by side; their edges may be relaxed.
      labels: of the graphs or of their nodes, possibly relaxed (``label_loss``).
      loss: a ``Loss``, or its text.
      shares: the weights of the nodes' losses in each of ``T`` losses; for graph tasks the mean over graphs is the only
        loss (``T = 1``) and only its length counts.
      masks: of dropout: a tree of masks (``gnn.dropout.MASKS``), those of the graphs side by side. Or ``M`` keys: the
        gradients are the mean over ``M`` draws. None: nothing is masked.
      trim: of how many of the first nodes each layer makes the states, where the others' reach no loss
        (``GNN.states``); None: of all.
    """
    drawn = isinstance(masks, jax.Array)
    if drawn:
        graphs, labels, shares = _repeated(masks.shape[0], graphs, labels, shares)
        masks = jax.vmap(lambda key: jax.random.split(key, graphs.mask.shape[0] // masks.shape[0]))(masks).ravel()
    weights: dict[Any, Any] = dict(flatten_dict(params))
    entries = Loss.of(loss).entry_weights(labels)

    def forward(probes: Any, rest: Any, share: Float[Array, "G N"]) -> tuple[Float[Array, ""], Any]:
        whole = unflatten_dict(weights | rest)

        def one(
            probes: Any, graph: DenseGraph, label: Array, share: Array | None, own: Any
        ) -> tuple[Float[Array, ""], Any]:
            variables = {"params": whole, PROBES: probes}
            rngs = {DROPOUT: own} if drawn else None
            variables |= {} if own is None or drawn else {MASKS: own}
            logits, seen = model.apply(variables, *graph, trim=trim, mutable=[ROWS], rngs=rngs)
            if trim is not None:  # the other nodes have no share
                logits = jnp.pad(logits, ((0, graph.mask.shape[0] - trim[-1]), (0, 0)))
            return output_loss(model, logits, graph.mask, label, loss, share), seen[ROWS]

        counted = share if model.node_level else entries
        losses, rows = jax.vmap(one)(unflatten_dict(probes), graphs, labels, counted, masks)
        return losses.sum() if model.node_level else losses.mean(), flatten_dict(rows)

    rows = jax.eval_shape(forward, {}, {}, shares[0])[1]
    probes = {path: jnp.zeros((*row.shape[:-1], weights[path].shape[-1]), row.dtype) for path, row in rows.items()}
    rest = {path: weight for path, weight in weights.items() if path not in rows}

    def slopes(share: Float[Array, "G N"]) -> tuple[Any, Any]:
        return jax.grad(forward, argnums=(0, 1), has_aux=True)(probes, rest, share)

    (by_probe, by_rest), entered = jax.vmap(slopes, out_axes=(0, None))(shares)
    found: dict[Any, Any] = dict(by_rest)
    for path, slope in by_probe.items():
        count = slope.shape[0]
        flat = entered[path].reshape(-1, entered[path].shape[-1])
        found[path] = Outer(flat, slope.reshape(count, flat.shape[0], -1))
    return unflatten_dict(found)


def _repeated(
    times: int, graphs: DenseGraph, labels: Num[Array, "G ..."], shares: Float[Array, "T G N"]
) -> tuple[DenseGraph, Num[Array, "_G ..."], Float[Array, "T _G N"]]:
    """A client's graphs ``times`` over, whose mean is that of one time."""
    more, wide = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * times), (graphs, labels))
    return more, wide, jnp.concatenate([shares] * times, axis=1) / times
