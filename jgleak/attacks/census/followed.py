"""The path of a client's local steps, from what is known of its graph so far: shares of blocks.

Blocks decide a graph's output and gradient at any weights, so the training of any mixture of blocks can be run as the
client ran its own, though no graph of these blocks is known yet. The path of the true shares is the true path, and near
shares have a near one: the path's error is that of the shares, times how far the weights move. So shares and path are
found in turns (``settled``), and the true ones are where that ends: each turn's error is about the square of the last
one's.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import Table, Trees, embed, equations, unfold
from jgleak.attacks.census.local_path import LocalPath, Point
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.solve import fitted, posed
from jgleak.attacks.census.system import Equations
from jgleak.federated.descent import Descended, descended
from jgleak.federated.local_training import Descent
from jgleak.federated.loss import Loss, label_loss
from jgleak.gnn import GNN, Params

BLOCKS = (16, 32, 64, 128, 256, 512, 1024, 2048, 8192)
"""Padded numbers of blocks."""


def settled(problem: CensusProblem, levels: Levels, system: Equations, clock: Clock) -> tuple[CensusProblem, Equations]:
    """The problem with a path that agrees with the shares which its equations have along it, and these equations.

    As it was, where there is no path to follow. Otherwise the turn with the least residual: it ends with one that
    explains no more of the update than the one before, and at what rounding explains.
    """
    if not followable(problem):
        return problem, system
    turn, least, tolerances = (problem, system), np.inf, problem.tolerances
    for _ in range(problem.limits.path_turns):
        here, along = turn
        shares, residual = fitted(here, along, posed(here, levels, along, here.rounds[0])[-1], clock)
        if residual >= tolerances.path_gain * least:
            break
        problem, system, least = here, along, residual
        used = np.flatnonzero(shares > 0)
        if residual <= tolerances.path_residual or not used.size or clock.left <= 0:
            break
        here = dataclasses.replace(here, path=followed(here, levels, along.blocks[used], shares[used]))
        along = equations(here, levels, clock)
        if along is None:
            break
        turn = here, along
    return problem, system


def followable(problem: CensusProblem) -> bool:
    """True where the training of a mixture of blocks can be run: its label and its pooled row follow from the update
    and the shares."""
    model, loss = problem.seen.model, Loss.of(problem.seen.loss)
    return (
        len(problem.path) > 1
        and not model.node_level
        and not loss.regression
        and not model.drops
        and model.output_bias(problem.seen.update) is not None
        and (model.readout.additive == "nodes" or model.readout.pools)
    )


def followed(
    problem: CensusProblem, levels: Levels, blocks: Int[np.ndarray, " k"], shares: Float[np.ndarray, " k"]
) -> LocalPath:
    """The path of a graph with these shares of top blocks (numbers, under sum pooling)."""
    seen = problem.seen
    assert seen.local is not None
    trees, size = unfold(levels.hops), next(size for size in BLOCKS if size >= blocks.size)
    weights = np.zeros(size, np.float32)
    weights[: blocks.size] = shares
    part = trees.part(blocks, size)
    given = seen.params, seen.local.descent, Table.of(levels.nodes), part, weights, label_of(problem)
    found = jax.device_get(_followed(seen.model, seen.loss, *given))
    counted = seen.local.shares
    slopes = seen.model.readout_of(found.slopes)
    off = jax.tree.map(lambda want, got: want - got, *map(seen.model.readout_of, (seen.update, found.update)))
    return tuple(
        Point(
            jax.tree.map(lambda leaf, t=t: leaf[t], found.weights),
            jax.tree.map(lambda leaf, gap, t=t: leaf[t] + gap, slopes, off),
            float(share),
        )
        for t, share in enumerate(counted)
    )


def label_of(problem: CensusProblem) -> Num[np.ndarray, "..."]:
    """The client's label: the gradient at the logit of a true class is negative, at all others positive, step by step
    and so in their mean; that of a missing label is zero."""
    slopes = np.asarray(problem.seen.model.output_bias(problem.seen.update))
    if Loss.of(problem.seen.loss).masked:
        return np.where(slopes == 0, np.nan, slopes < 0).astype(np.float32)
    return np.asarray(slopes.argmin(), np.int32)


@partial(jax.jit, static_argnames=("model", "loss"))
def _followed(
    model: GNN,
    loss: str,
    params: Params,
    how: Descent,
    table: Table,
    trees: Trees,
    shares: Float[Array, " k"],
    label: Num[Array, "..."],
) -> Descended:
    rows, degrees = map(jnp.asarray, table)

    def of_all(weights: Params) -> Array:
        states = jax.vmap(lambda tree: embed(model, weights, rows, degrees, tree)[0])(trees)
        if model.readout.additive == "pooled":
            logits: Any = model.apply(
                {"params": weights}, rows[:1], (shares @ states)[None], jnp.ones(1, bool), method=_read
            )
        else:
            out: Any = model.apply({"params": weights}, rows[trees.nodes[:, 0]], states, method="node_hidden")
            logits = shares @ out[1]
        return label_loss(logits, label, loss)

    def slope(weights: Params, number: Array) -> Params:
        gradient = jax.grad(of_all)(weights)
        return model.trained(gradient) if model.frozen or model.norms else gradient

    return descended(model, params, slope, how, along=True)


def _read(model: GNN, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Array) -> Array:
    return model.readout(rows, states, mask)
