"""What one node with a given block adds to the gradient, for thousands of blocks, as a few hundred random equations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.receptive_field import hops
from jgleak.attacks.closed_form.pooled_embedding import pooled_embedding
from jgleak.attacks.noise import largest
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.federated.loss import label_loss
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params

BATCH = 16
"""Blocks differentiated at once."""

NODES = (256, 2048, 16384)
WIDTHS = (4, 8, 16, 32)
"""Padded sizes: feature vectors, neighbours of a node."""

FLOOR = 1e-3
"""Smallest scale of an equation, relative to the median of its weight: a part without gradient must be zero in every
block."""

FAINT = 0.1
"""Smallest scale of an equation, relative to the median of the largest weight in its layer: what is much fainter is
rounding noise of that weight's size (the gradient of an attention's target vector, which a softmax hardly sees)."""


FEW, EQUATIONS = 32, 256
"""A weight of fewer rows than this becomes so many equations, not one a row."""

CELLS, PRODUCTS = 40_000_000, 20_000_000_000
"""Most entries of the system under noise, and of these times its columns: what solving it costs."""

ROUNDING = 1e-6
"""Rounding under noise: of an equation, relative to the typical entry of its weight row, and of all together."""


def unfold(levels: Sequence[Blocks]) -> Int[np.ndarray, "K S"]:
    """Every top block as its unfolding tree, breadth written out: rows of ``Nodes``, -1 for absent neighbours.

    Each tree node takes ``1 + W`` places, itself and its neighbours, at every hop: ``S = (1 + W)^L``.
    """
    widest = max((len(n) for level in levels for n in level.neighbours), default=0)
    width = next(w for w in (*WIDTHS, widest) if w >= widest)
    places = np.arange(levels[-1].size)[:, None]
    for level in reversed(levels):
        table = np.full((level.size + 1, 1 + width), -1)
        table[:-1, 0] = level.roots
        for row, neighbours in zip(table[:-1], level.neighbours, strict=True):
            row[1 : 1 + len(neighbours)] = neighbours
        places = table[places].reshape(places.shape[0], -1)
    return places


@dataclasses.dataclass(frozen=True)
class Contributions:
    """The linear system of the census: ``equations @ counts == observed`` (times ``n`` for means).

    With an additive readout the gradient over *all* parameters is ``sum_c mu_c G_c``, ``G_c`` the gradient of
    ``delta . rho(root)`` for block ``c`` alone. Each weight row becomes one equation, its entries combined with random
    signs, so no full gradient is kept; or several, where a weight has ``FEW`` rows.

    Under noise of known deviation a weight row becomes as many equations as ``CELLS`` allows, its products with
    orthonormal vectors: each has the noise's own deviation, and one of 300 would show a 300th of what the row says
    against it. Equations are divided by that deviation (and rounding). The upstream gradient, itself read off the noisy
    update, is wrong by some factor, the same in all equations.

    Attributes:
      equations: one column a block (and label, where every node has one) ``(M, K)``, of comparable size.
      observed: the same of the update ``(M,)``.
      blocks: the top block of each column ``(K,)``.
      slack: under noise, the length by which rounding and the upstream gradient's own error may move the right-hand
        side; the first matters where noise is as small as it.
    """

    equations: Float[np.ndarray, "M K"]
    observed: Float[np.ndarray, " M"]
    blocks: Int[np.ndarray, " K"]
    slack: float = 0.0

    @staticmethod
    def of(
        observation: Observation,
        nodes: Nodes,
        levels: Sequence[Blocks],
        clock: Clock,
        *,
        noise: float | None = None,
    ) -> Contributions | None:
        """The system of an observation, from blocks of 1, .. ``receptive_field.hops`` hops; None if time runs out."""
        model, params = observation.model, observation.params
        update = jax.tree.map(np.asarray, observation.update)
        kind = "labelled" if model.node_level else model.readout.additive
        readout, weights = model.readout, (model.readout_of(params), model.readout_of(update))
        none = np.zeros(model.outputs)
        upstream = (none if kind == "labelled" else readout.upstream(*weights)).astype(np.float32)
        size = next(s for s in (*NODES, nodes.degrees.size) if s >= nodes.degrees.size)
        pad = size - nodes.degrees.size
        rows = np.pad(nodes.rows.astype(np.float32), ((0, pad), (0, 0)))
        degrees = np.pad(nodes.degrees.astype(np.float32), (0, pad))
        used = update if kind != "pooled" else {k: v for k, v in update.items() if k != "readout"}
        trees = unfold(levels)
        labels = np.arange(model.outputs if kind == "labelled" else 1, dtype=np.int32)
        signs = _signs(used) if noise is None else _directions(used, trees.shape[0] * labels.size)
        observed, scale = _observed(used, signs)
        if noise is not None:
            scale = np.hypot(noise, ROUNDING * scale)
        blocks, tags = np.repeat(np.arange(trees.shape[0]), labels.size), np.tile(labels, trees.shape[0])
        columns, states = [], []
        for start in range(0, blocks.size, BATCH):
            if clock.left <= 0:
                return None
            part, tag = trees[blocks[start : start + BATCH]], tags[start : start + BATCH]
            here = part.shape[0]
            part = np.pad(part, ((0, BATCH - here), (0, 0)), mode="edge").astype(np.int32)
            tag = np.pad(tag, (0, BATCH - here), mode="edge")
            found, state = _columns(model, observation.loss, kind, params, upstream, signs, rows, degrees, part, tag)
            columns.append(np.asarray(found, np.float64)[:here])
            states.append(np.asarray(state, np.float64)[:here])
        equations, observed = np.concatenate(columns).T / scale[:, None], observed / scale
        if kind == "pooled":
            pooled = pooled_embedding(model, update)
            length = np.linalg.norm(pooled) / np.sqrt(pooled.size)
            if noise is not None:
                delta = np.linalg.norm(readout.first(weights[1])["bias"])
                length = np.hypot(noise / delta, ROUNDING * length)
            equations = np.r_[equations, np.concatenate(states).T / length]
            observed = np.r_[observed, pooled / length]
        off = 0.0 if noise is None else ROUNDING
        if noise is not None and kind != "labelled":
            entries, spread = readout.upstream_spread(*weights)
            off += noise * largest(entries) * spread
        slack = off * np.linalg.norm(observed)
        return Contributions(equations, observed, blocks, float(slack))


def _signs(tree: Params) -> Params:
    """Random signs for every entry of every matrix, several a row where there are few rows; vectors as they are."""
    rng, signs = np.random.default_rng(0), np.array([-1.0, 1.0], np.float32)

    def one(leaf: np.ndarray) -> np.ndarray:
        if leaf.ndim > 1 and leaf.shape[0] < FEW:
            return rng.choice(signs, (1, leaf.shape[1], -(-EQUATIONS // leaf.shape[0])))
        return rng.choice(signs, leaf.shape if leaf.ndim > 1 else 1)

    return jax.tree.map(one, tree)


def _directions(tree: Params, columns: int) -> Params:
    """Orthonormal vectors for the rows of every matrix ``(1, width, k)``, ``width`` of them where affordable."""
    rng = np.random.default_rng(0)
    rows = sum(leaf.shape[0] for leaf in jax.tree.leaves(tree) if leaf.ndim > 1)
    most = max(1, min(CELLS, PRODUCTS // columns) // (rows * columns))
    most = 1 << (most.bit_length() - 1)  # a compiled shape: a power of two

    def one(leaf: np.ndarray) -> np.ndarray:
        if leaf.ndim == 1:
            return np.ones(1, np.float32)
        width = leaf.shape[1]
        if most >= width:
            return np.eye(width, dtype=np.float32)[None]
        return np.linalg.qr(rng.normal(size=(width, most)))[0].astype(np.float32)[None]

    return jax.tree.map(one, tree)


def _observed(tree: Params, signs: Params) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """The equations' right-hand side, and the size of each equation."""
    rows = [
        (path[:-1], np.linalg.norm(leaf, axis=1) if leaf.ndim > 1 else np.abs(leaf))
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]
    typical = [float(np.median(size[size > 0])) if np.any(size > 0) else 0.0 for _, size in rows]
    layers: dict[object, float] = {}
    for (layer, _), middle in zip(rows, typical, strict=True):
        layers[layer] = max(layers.get(layer, 0.0), middle)
    sizes = [
        np.maximum(size, max(FLOOR * middle, FAINT * layers[layer]) or 1.0)
        for (layer, size), middle in zip(rows, typical, strict=True)
    ]
    repeats = [(s.shape[2], leaf.shape[1]) if s.ndim == 3 else (1, 1) for leaf, s in _pairs(tree, signs)]
    spread = [np.repeat(size / np.sqrt(width), k) for size, (k, width) in zip(sizes, repeats, strict=True)]
    return np.asarray(_sketch(tree, signs), np.float64), np.concatenate(spread)


def _pairs(tree: Params, signs: Params) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(jax.tree.leaves(tree), jax.tree.leaves(signs), strict=True))


def _sketch(tree: Params, signs: Params) -> Float[Array, " M"]:
    def one(g: Array | np.ndarray, s: Array | np.ndarray) -> Array | np.ndarray:
        if s.ndim == 3:
            return jnp.matmul(g, s[0], precision="highest").ravel()
        return (s * g).sum(axis=-1).ravel() if s.ndim > 1 else s * g

    return jnp.concatenate(jax.tree.leaves(jax.tree.map(one, tree, signs)))


@partial(jax.jit, static_argnames=("model", "loss", "kind"))
def _columns(
    model: GNN,
    loss: str,
    kind: str,
    params: Params,
    upstream: Float[Array, " C"],
    signs: Params,
    rows: Float[Array, "T m"],
    degrees: Float[Array, " T"],
    trees: Int[Array, "B S"],
    labels: Num[Array, " B"],
) -> tuple[Float[Array, "B M"], Float[Array, "B D"]]:
    """``vmap(grad)`` over blocks, sketched."""

    along = partial(jnp.matmul, upstream, precision="highest")

    def value(weights: Params, tree: Array, label: Array) -> tuple[Array, Array]:
        full = {**params, **weights}
        state = embed(model, full, rows, degrees, tree)
        if kind == "pooled":
            return along(state), state
        out: Any = model.apply({"params": full}, rows[tree[:1]], state[None], method="node_hidden")
        logits = out[1][0]
        return (label_loss(logits, label, loss) if kind == "labelled" else along(logits)), state

    weights = {k: v for k, v in params.items() if kind != "pooled" or k != "readout"}

    def one(tree: Array, label: Array) -> tuple[Array, Array]:
        gradient, state = jax.grad(value, has_aux=True)(weights, tree, label)
        return _sketch(gradient, signs), state

    return jax.vmap(one)(trees, labels)


def embed(
    model: GNN, params: Params, rows: Float[Array, "T m"], degrees: Float[Array, " T"], tree: Int[Array, " S"]
) -> Float[Array, " D"]:
    """What of the root enters the readout, from its unfolding tree alone; differentiable in ``params``.

    Of a model that ends linear it is what the root adds to the sum of all last states: its own state below counts as
    often as it and its neighbours take it up (``receptive_field``).
    """
    side = round(tree.shape[0] ** (1 / hops(model)))
    present, kinds = tree >= 0, jnp.maximum(tree, 0)
    states: Any = model.apply({"params": params}, rows[kinds], method="encode")
    degree, roots = degrees[kinds], []
    around = degree[:side], present[:side]
    for number, layer in enumerate(model.layers):
        if number == hops(model):
            states, (degree, present) = jnp.repeat(states, side, axis=0), around
        star = states.reshape(-1, side, states.shape[-1]), degree.reshape(-1, side), present.reshape(-1, side)
        states = layer.by(model.layer_of(params, number), "rooted", *star)
        degree, present = star[1][:, 0], star[2][:, 0]
        roots.append(states[0])
    return model.jumping.combine(roots)
