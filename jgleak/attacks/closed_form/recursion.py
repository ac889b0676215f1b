"""A GCN's states and features from its gradients and known edges, layer by layer (GraphDLG, Theorem 2 and Algorithm 1).

With ``S = D^-1/2 (A + I) D^-1/2``, node weights ``M`` of the pooling and ``g = dL/dpooled``,

    r_L = S^T (M * g * s_L),    r_i = S^T (r_{i+1} W_{i+1}^T * s_i),    dL/dW_i = H_{i-1}^T r_i,

where ``s_i`` are the slopes of layer ``i``'s activation. ``s_i`` below the last layer follows from ``H_i``, which the
layer above has just given; ``g`` follows from the head's bias gradient. So ``H_{i-1} = (dL/dW_i r_i^+)^T``, down to the
features ``H_0``. The paper flattens this to one system with the ``(F D) x (n F)`` matrix ``r_i^T (x) I``; the
pseudo-inverse of ``r_i`` alone (``n x D``) is the same solution, the one of least norm. A bias of the convolutions
plays no part.

**The last slopes are not known.** The paper sets them to ones. Then, under mean and sum pooling, every row of
``M * g`` is the same and ``r_L = (S 1) g^T`` has rank one: only ``(S 1)^T H_{L-1}``, one weighted mean, enters the
answer, whose rows are all multiples of one vector. Layer by layer that stays so, as equal signs give equal slopes: the
recovered features are one row, scaled node by node by what ``S`` alone says, and every node decodes to the same
values. Nor does it help to run the model on them and read the slopes off its states: rows that are positive multiples
of one another have equal signs, so the slopes are again the same in every row.

With the true slopes the recursion is exact wherever every ``r_i`` has full row rank, and also where it has one row each
for the nodes that differ: nodes with equal states in all layers have equal rows, and the least solution gives them
equal states. On molecules even that is rare in narrow models, where all nodes share a few patterns of slopes
(``benchmarks/results/recursion.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jgleak.attacks.closed_form.activations import slope_of
from jgleak.attacks.closed_form.tolerances import TOLERANCES
from jgleak.gnn import GNN, Params, Readout
from jgleak.graph import bucket


class Recovered(NamedTuple):
    """What the recursion finds of one client (of many, with a leading axis).

    Attributes:
      states: ``H_0`` (the encoded features), ``H_1``, .. ``H_{L-1}``, each ``(N, F)``.
      coefficients: ``r_1``, .. ``r_L``, each ``(N, D)``; a state is exact where its ``r`` has full row rank, or one
        independent row for each kind of node.
    """

    states: tuple[Float[Array, "N _F"], ...]
    coefficients: tuple[Float[Array, "N _D"], ...]


def pooling_weights(
    readout: Readout, mask: Bool[Array, " N"], states: Float[Array, "N D"] | None = None
) -> Float[Array, "N 1"] | Float[Array, "N D"]:
    """``M``: how much the pooled vector changes with every node's state.

    ``1/n`` for the mean, 1 for the sum, and for the maximum (log-sum-exp) the softmax over nodes of the last states,
    ``1/n`` where those are not known.
    """
    share = mask.astype(float)[:, None]
    if readout.additive is None and states is not None:
        return jax.nn.softmax(jnp.where(mask[:, None], states, -jnp.inf), axis=0)
    return share if readout.counts_nodes else share / share.sum()


def recursion(
    model: GNN,
    kernels: Sequence[Float[Array, "_F _D"]],
    gradients: Sequence[Float[Array, "_F _D"]],
    upstream: Float[Array, " D"],
    adjacency: Float[Array, "N N"],
    mask: Bool[Array, " N"],
    last: Float[Array, "N D"] | None = None,
    states: Float[Array, "N D"] | None = None,
) -> Recovered:
    """The recursion for one padded graph: pure, to be jitted and mapped over clients.

    Args:
      model: a GCN under a ``pooled`` readout, whose activation tells its slope.
      kernels: of the convolutions, the first layer's first.
      gradients: observed, of the same.
      upstream: ``dL/dpooled``.
      adjacency: edges, known or guessed.
      mask: True for real nodes.
      last: slopes of the last layer's activation; None for ones, as in the paper.
      states: the last states, where a guess of them exists (max pooling alone looks at them).
    """
    mixing = model.layers[0].conv.mixing(adjacency, mask)
    slopes = pooling_weights(model.readout, mask, states).astype(upstream.dtype) * upstream
    slopes = slopes if last is None else slopes * last
    found, coefficients = [], []
    for layer in reversed(range(model.depth)):
        if found:
            slopes = (coefficients[-1] @ kernels[layer + 1].T) * slope_of(model.layers[layer].act, found[-1])
        coefficients.append(mixing.T @ slopes)
        found.append((gradients[layer] @ jnp.linalg.pinv(coefficients[-1], rtol=TOLERANCES.rank)).T)
    return Recovered(tuple(reversed(found)), tuple(reversed(coefficients)))


def recover(
    model: GNN,
    params: Params,
    updates: Sequence[Params],
    adjacencies: Sequence[Float[np.ndarray, "_n _n"]],
    *,
    last: Sequence[Float[np.ndarray, "_n D"]] | None = None,
    states: Sequence[Float[np.ndarray, "_n D"]] | None = None,
) -> list[Recovered]:
    """The recursion for many clients of one model side by side, in float64; host arrays without padding.

    The gradients are float32: an ``r_i`` is cut at a relative singular value of ``TOLERANCES.rank``. The update of a
    batch is read as that of one graph.

    Args:
      model: as for ``recursion``.
      params: of the round.
      updates: one a client.
      adjacencies: one a client.
      last: every client's last slopes; None for ones.
      states: every client's last states, for max pooling; None where they are not known.
    """
    if not updates:
        return []
    sizes = [len(a) for a in adjacencies]
    slots, clients = bucket(max(sizes)), 2 ** int(np.ceil(np.log2(len(sizes))))
    order = [*range(len(sizes)), *[len(sizes) - 1] * (clients - len(sizes))]  # so that few shapes compile

    def kernels(tree: Params) -> list[Float[np.ndarray, "_F _D"]]:
        return [np.asarray(model.conv_of(tree, layer)["kernel"], np.float64) for layer in range(model.depth)]

    def padded(parts: Sequence[np.ndarray], square: bool = False) -> Float[np.ndarray, "B N ..."]:
        rows = [np.pad(np.asarray(p, np.float64), ((0, slots - len(p)), (0, (slots - len(p)) * square))) for p in parts]
        return np.stack([rows[i] for i in order])

    def upstream_of(update: Params) -> Float[np.ndarray, " D"]:
        return model.readout.upstream(model.readout_of(params), model.readout_of(update))

    upstream = np.stack([upstream_of(updates[i]) for i in order])
    gradients = [np.stack(leaf) for leaf in zip(*(kernels(updates[i]) for i in order), strict=True)]
    mask = np.arange(slots) < np.array(sizes)[order, None]
    guessed = [None if part is None else padded(part) for part in (last, states)]
    with jax.enable_x64(True):
        found = jax.device_get(
            _recursions(model, kernels(params), gradients, upstream, padded(adjacencies, True), mask, *guessed)
        )
    return [jax.tree.map(lambda leaf, i=i, n=n: leaf[i, :n], found) for i, n in enumerate(sizes)]


@partial(jax.jit, static_argnames=("model",))
def _recursions(
    model: GNN, kernels: list[Array], gradients: list[Array], upstream: Array, adjacency: Array, mask: Array,
    last: Array | None, states: Array | None,
) -> Recovered:  # fmt: skip
    several = (0, 0, 0, 0, None if last is None else 0, None if states is None else 0)
    return jax.vmap(partial(recursion, model, kernels), several)(gradients, upstream, adjacency, mask, last, states)
