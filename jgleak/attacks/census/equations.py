"""Second stage: what one node with a given block adds to the gradient, for thousands of blocks, as a few hundred
equations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.local_path import Point, root_shares
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.receptive_field import hops
from jgleak.attacks.census.sketch import sketch, sketched
from jgleak.attacks.census.system import Equations
from jgleak.attacks.census.training_norms import Pull, TrainingNorm, taken, training_norms
from jgleak.attacks.closed_form.pooled_embedding import pooled_embedding
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.attacks.span.kernels import padded
from jgleak.federated.loss import Loss, label_loss
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import over

BATCH = 16
"""Blocks differentiated at once."""

NODES = (256, 2048, 16384)
WIDTHS = (4, 8, 16, 32)
"""Padded sizes: feature vectors, neighbours of a node."""

RootValue = Literal["nodes", "pooled", "labelled"]
"""The quantity at a block's root whose gradient is a column: its output, its last state before a pooled readout (both
along the upstream gradient), or its loss under one label."""


def equations(problem: CensusProblem, levels: Levels, clock: Clock) -> Equations | None:
    """The system of an update, from blocks of 1, .. ``receptive_field.hops`` hops; None if time runs out.

    With an additive readout the gradient over *all* parameters is ``sum_c mu_c G_c``, ``G_c`` the gradient of
    ``delta . rho(root)`` for block ``c`` alone. Each weight row becomes one equation or several, its products with
    vectors that the problem's arithmetic chooses, so no full gradient is kept. ``training_norms`` has what norms in
    training mode change and add.
    """
    observation, arithmetic = problem.observation, problem.arithmetic
    model, update = observation.model, host(observation.update)
    of = root_value(model)
    used = used_parts(model, update)
    classes = Loss.of(observation.loss).classes(model.outputs)
    labels = np.arange(classes if of == "labelled" else 1, dtype=np.int32)
    blocks, tags = np.repeat(np.arange(levels.top.size), labels.size), np.tile(labels, levels.top.size)
    vectors = arithmetic.vectors(used, blocks.size)
    norms = training_norms(problem)
    found = _contributions(problem, vectors, levels, (blocks, tags), norms, clock)
    if found is None:
        return None
    columns, states, entered = found
    observed, sizes = sketched(used, vectors, problem.tolerances)
    scale = arithmetic.scales(sizes)
    matrix, observed = columns.T / scale[:, None], observed / scale
    if of == "pooled":
        pooled = model.readout.summed(pooled_embedding(model, update))
        length = arithmetic.pooled_scale(float(np.linalg.norm(pooled) / np.sqrt(pooled.size)), observation)
        matrix, observed = np.r_[matrix, states.T / length], np.r_[observed, pooled / length]
    for norm, rows in zip(norms, entered, strict=True):
        more, right = norm.moments(rows)
        matrix, observed = np.r_[matrix, more], np.r_[observed, right]
    return Equations(matrix, observed, blocks, arithmetic.slack(observation, observed))


class Trees(NamedTuple):
    """Unfolding trees of blocks, breadth written out.

    Each tree node takes ``1 + W`` places, itself and its neighbours, at every hop: ``S = (1 + W)^L``.

    Attributes:
      nodes: rows of ``Nodes``, -1 for absent neighbours ``(K, S)``.
      along: for each layer, the first first, the class of every place's edge to the centre of its neighbourhood there
        ``(K, (1 + W)^L)``, .., ``(K, 1 + W)``.
    """

    nodes: Int[Array | np.ndarray, "*K S"]
    along: tuple[Int[Array | np.ndarray, "*K _"], ...]

    def part(self, rows: Int[np.ndarray, " B"], size: int) -> Trees:
        """The trees of these rows, the last one repeated up to a compiled size."""
        pad = ((0, size - rows.size), (0, 0))
        return jax.tree.map(lambda leaf: np.pad(leaf[rows], pad, mode="edge").astype(np.int32), self)


def unfold(levels: Sequence[Blocks]) -> Trees:
    """Every top block as its unfolding tree."""
    widest = max(len(n) for level in levels for n in level.neighbours)
    width = padded(widest, WIDTHS)
    places, along = np.arange(levels[-1].size)[:, None], list[Int[np.ndarray, "K _"]]()
    for level in reversed(levels):
        table = np.full((level.size + 1, 1 + width), -1)
        table[:-1, 0] = level.classes * level.roots
        for row, neighbours in zip(table[:-1], level.neighbours, strict=True):
            row[1 : 1 + len(neighbours)] = neighbours
        numbers = table[places].reshape(places.shape[0], -1)
        places = np.where(numbers < 0, -1, numbers // level.classes)
        along.insert(0, np.where(numbers < 0, 0, numbers % level.classes))
    return Trees(places, tuple(along))


def root_value(model: GNN) -> RootValue:
    """The quantity whose gradient is a column."""
    if model.node_level:
        return "labelled"
    return "pooled" if model.readout.additive == "pooled" else "nodes"


def used_parts(model: GNN, tree: Params) -> Params:
    """The parts of a tree shaped like the parameters whose gradients become equations: the trained ones, without a
    pooled readout."""
    rest = {k: v for k, v in tree.items() if k != "readout"} if root_value(model) == "pooled" else tree
    return model.evidence(rest)


class Table(NamedTuple):
    """Feature vectors as the model takes them, padded to a compiled size, and their degrees."""

    rows: Float[np.ndarray, "T m"]
    degrees: Float[np.ndarray, " T"]

    @staticmethod
    def of(nodes: Nodes) -> Table:
        number = nodes.degrees.size
        pad = padded(number, NODES) - number
        rows = np.pad(nodes.rows.astype(np.float32), ((0, pad), (0, 0)))
        return Table(rows, np.pad(nodes.degrees.astype(np.float32), (0, pad)))


Columns = tuple[Int[np.ndarray, " K"], Int[np.ndarray, " K"]]
"""The block and the label of each column."""

Contributions = tuple[Float[np.ndarray, "K M"], Float[np.ndarray, "K D"], list[Float[np.ndarray, "K _D"]]]
"""For every column the sketched gradient, the root's last state, and the root's row at each norm in training mode."""


def _contributions(
    problem: CensusProblem,
    vectors: Params,
    levels: Levels,
    columns: Columns,
    norms: Sequence[TrainingNorm],
    clock: Clock,
) -> Contributions | None:
    """Their means along the client's local steps; None if time runs out. Norms in training mode have one step."""
    model, path = problem.observation.model, problem.path
    table, trees = Table.of(levels.nodes), unfold(levels.hops)
    shares = [point.share for point in path]
    of_roots = root_shares(model, path) if root_value(model) == "pooled" else shares
    gradients, states, entering = np.zeros(()), np.zeros(()), list[Float[np.ndarray, "K _D"]]()
    for point, share, of_root in zip(path, shares, of_roots, strict=True):
        found = _at(problem, point, (vectors, table, trees), columns, norms, clock)
        if found is None:
            return None
        gradients, states = gradients + share * found[0], states + of_root * found[1]
        entering = found[2]
    return gradients, states, entering


def _at(
    problem: CensusProblem,
    point: Point,
    given: tuple[Params, Table, Trees],
    columns: Columns,
    norms: Sequence[TrainingNorm],
    clock: Clock,
) -> Contributions | None:
    """Contributions to the gradient of one step."""
    model, readout = problem.observation.model, problem.observation.model.readout
    upstream = np.zeros(model.outputs)
    if not model.node_level:
        upstream = readout.upstream(model.readout_of(point.params), host(point.readout))
    (vectors, table, trees), (blocks, labels), found = given, columns, []
    shown = point.params, upstream.astype(np.float32), [norm.pull for norm in norms], vectors, table
    static = model, problem.observation.loss, tuple(norm.path for norm in norms)
    for start in range(0, blocks.size, BATCH):
        if clock.left <= 0:
            return None
        tag = labels[start : start + BATCH]
        here = tag.size
        part, tag = trees.part(blocks[start : start + BATCH], BATCH), np.pad(tag, (0, BATCH - here), mode="edge")
        gradients, state, entering = _columns(*static, *shown, part, tag)
        found.append([np.asarray(leaf, np.float64)[:here] for leaf in (gradients, state, *entering)])
    gradients, states, *entering = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return gradients, states, entering


def host(tree: Params) -> Params:
    """A tree with its leaves as arrays on the host."""
    return jax.tree.map(np.asarray, tree)


@partial(jax.jit, static_argnames=("model", "loss", "paths"))
def _columns(
    model: GNN,
    loss: str,
    paths: tuple[tuple[str, ...], ...],
    params: Params,
    upstream: Float[Array, " C"],
    pulls: list[Pull],
    vectors: Params,
    table: Table,
    trees: Trees,
    labels: Num[Array, " B"],
) -> tuple[Float[Array, "B M"], Float[Array, "B D"], list[Float[Array, "B _D"]]]:
    """``vmap(grad)`` over blocks, sketched."""
    of, (rows, degrees) = root_value(model), map(jnp.asarray, table)
    along = partial(jnp.matmul, upstream, precision="highest")

    def value(weights: Params, tree: Trees, label: Array) -> tuple[Array, Any]:
        full = over(params, weights)
        state, at_norms = embed(model, full, rows, degrees, tree)
        entering = [at_norms[path] for path in paths]
        off = sum(taken(pull, row) for pull, row in zip(pulls, entering, strict=True))
        if of == "pooled":
            return along(state) - off, (state, entering)
        out: Any = model.apply({"params": full}, rows[tree.nodes[:1]], state[None], method="node_hidden")
        logits = out[1][0]
        own = label_loss(logits, label, loss) if of == "labelled" else along(logits)
        return own - off, (state, entering)

    weights = used_parts(model, params)

    def one(tree: Trees, label: Array) -> tuple[Array, Array, list[Array]]:
        gradient, (state, entering) = jax.grad(value, has_aux=True)(weights, tree, label)
        return sketch(gradient, vectors), state, entering

    return jax.vmap(one)(trees, labels)


def embed(
    model: GNN, params: Params, rows: Float[Array, "T m"], degrees: Float[Array, " T"], tree: Trees
) -> tuple[Float[Array, " D"], dict[tuple[str, ...], Float[Array, " _D"]]]:
    """What of the root enters the readout, and what enters every norm, from its unfolding tree alone.

    Differentiable in ``params``. For a model that ends linear the first is what the root adds to the sum of all last
    states: its state one layer below, weighted by how often it and its neighbours sum it (``receptive_field``).
    """
    side = round(tree.nodes.shape[0] ** (1 / hops(model)))
    present, kinds = tree.nodes >= 0, jnp.maximum(tree.nodes, 0)
    states: Any = model.apply({"params": params}, rows[kinds], method="encode")
    degree, history = degrees[kinds], []
    around, entering = (degree[:side], present[:side]), dict[tuple[str, ...], Array]()
    for number, layer in enumerate(model.layers):
        if number == hops(model):
            states, (degree, present) = jnp.repeat(states, side, axis=0), around
        along = tree.along[min(number, hops(model) - 1)]
        shapes = (-1, side, states.shape[-1]), *[(-1, side)] * 3
        star = [a.reshape(shape) for a, shape in zip((states, degree, present, along), shapes, strict=True)]
        weights = model.layer_of(params, number)
        if layer.norms:
            root = (part[0] for part in star)
            places = ((f"layers_{number}", *path) for path in layer.norms)
            entering |= dict(zip(places, layer.by(weights, "entering_norms", *root), strict=True))
        states = layer.by(weights, "rooted", *star)
        degree, present = star[1][:, 0], star[2][:, 0]
        history.append(states[0])
    return model.jumping.combine(history), entering
