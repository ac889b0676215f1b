"""The path of a client's local steps, computed from shares of blocks, which are what is known of its graph so far.

Blocks determine a graph's output and gradient at any weights, so the client's training can be repeated for any mixture
of blocks, without a graph. The true shares give the true path, and the error of a path grows with the error of the
shares and with how far the weights move.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Num

from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import Table, Trees, embed, unfold
from jgleak.attacks.census.local_path import LocalPath, Point
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.closed_form.labels import class_slopes
from jgleak.attacks.noise import deviations
from jgleak.attacks.span.kernels import padded
from jgleak.attacks.trained_target import trained_target
from jgleak.federated.descent import Descended, Slope, descended
from jgleak.federated.local_training import Descent
from jgleak.federated.loss import Loss, label_loss
from jgleak.gnn import GNN, Params

BLOCKS = (16, 32, 64, 128, 256, 512, 1024, 2048, 8192)
"""Padded numbers of blocks."""


def followable(problem: CensusProblem) -> bool:
    """True where the training of a mixture of blocks can be run: its label and its pooled row follow from the update
    and the shares."""
    model, loss = problem.seen.model, Loss.of(problem.seen.loss)
    return (
        len(problem.path) > 1
        and not model.node_level
        and (not loss.regression or loss.name == "mse")
        and not loss.smoothing
        and not model.drops
        and model.output_bias(problem.seen.update) is not None
        and (model.readout.additive == "nodes" or model.readout.pools)
    )


def followed(
    problem: CensusProblem, levels: Levels, blocks: Int[np.ndarray, " k"], shares: Float[np.ndarray, " k"]
) -> LocalPath:
    """The path of a graph with these shares of top blocks (numbers under sum pooling); its gradients are shifted so
    that their mean is the update."""
    seen, model = problem.seen, problem.seen.model
    assert seen.local is not None
    found = jax.device_get(_followed(model, seen.loss, _trained(problem, levels, blocks), _padded(blocks, shares)))
    slopes, mean = model.readout_of(found.slopes), model.readout_of(found.update)
    off = jax.tree.map(lambda want, got: want - got, model.readout_of(seen.update), mean)
    return tuple(
        Point(
            jax.tree.map(lambda leaf, t=t: leaf[t], found.weights),
            jax.tree.map(lambda leaf, gap, t=t: leaf[t] + gap, slopes, off),
            share,
        )
        for t, share in enumerate(seen.local.shares.tolist())
    )


def returned_distances(
    problem: CensusProblem, levels: Levels, blocks: Int[np.ndarray, " k"], shares: Float[np.ndarray, "P k"]
) -> Float[np.ndarray, " P"]:
    """Distances of the updates of graphs with these shares from the observed update, relative to its length."""
    seen = problem.seen
    given = _trained(problem, levels, blocks), _padded(blocks, shares), seen.model.evidence(seen.update)
    return np.asarray(_returned(seen.model, seen.loss, *given))


class Trained(NamedTuple):
    """The inputs of the training of mixtures of some blocks except the shares: the initial weights, the steps, the
    blocks, and the client's label; of a regression the mean gradient at the output, from which the target follows."""

    params: Params
    how: Descent
    table: Table
    trees: Trees
    label: Num[Array | np.ndarray, "..."]


def _trained(problem: CensusProblem, levels: Levels, blocks: Int[np.ndarray, " k"]) -> Trained:
    seen = problem.seen
    assert seen.local is not None
    trees = unfold(levels.hops).part(blocks, padded(blocks.size, BLOCKS))
    return Trained(seen.params, seen.local.descent, Table.of(levels.nodes), trees, label_of(problem))


def _padded(blocks: Int[np.ndarray, " k"], shares: Float[np.ndarray, "*P k"]) -> Float[np.ndarray, "*P K"]:
    lead = ((0, 0),) * (shares.ndim - 1)
    return np.pad(shares, (*lead, (0, padded(blocks.size, BLOCKS) - blocks.size))).astype(np.float32)


def label_of(problem: CensusProblem) -> Num[np.ndarray, "..."]:
    """The client's label: the gradient at the logit of a true class is negative, at all others positive, step by step
    and so in their mean; that of a missing label is zero, or noise. Of a regression the mean gradient at the output."""
    if Loss.of(problem.seen.loss).regression:
        return np.asarray(_at_output(problem.seen.model, problem.seen.update), np.float32)
    slopes = class_slopes(problem.seen)
    if Loss.of(problem.seen.loss).masked:
        doubt = deviations(slopes.size) * (problem.knowledge.noise or 0.0)  # rounding leaves zeros and signs
        return np.where(np.abs(slopes) <= doubt, np.nan, slopes < 0).astype(np.float32)
    return np.asarray(slopes.argmin(), np.int32)


@partial(jax.jit, static_argnames=("model", "loss"))
def _followed(model: GNN, loss: str, given: Trained, shares: Float[Array, " k"]) -> Descended:
    return descended(model, given.params, _slope(model, loss, given, shares), given.how, along=True)


@partial(jax.jit, static_argnames=("model", "loss"))
def _returned(model: GNN, loss: str, given: Trained, shares: Float[Array, "P k"], update: Params) -> Float[Array, " P"]:
    def one(own: Float[Array, " k"]) -> Array:
        made = descended(model, given.params, _slope(model, loss, given, own), given.how).update
        gap = jax.tree.map(jnp.subtract, model.evidence(made), update)
        return optax.tree.norm(gap) / jnp.maximum(optax.tree.norm(update), 1e-30)

    return jax.lax.map(one, shares)


def _slope(model: GNN, loss: str, given: Trained, shares: Float[Array, " k"]) -> Slope:
    """The gradient of a mixture's loss, with the client's label."""
    if not Loss.of(loss).regression:
        return _labelled(model, loss, given, shares, jnp.asarray(given.label))

    def residual(target: Float[Array, ""]) -> Array:
        made = descended(model, given.params, _labelled(model, loss, given, shares, target), given.how)
        return _at_output(model, made.update) - given.label

    first = _logits(model, given, shares, given.params)[0] - given.label / 2.0
    return _labelled(model, loss, given, shares, trained_target(residual, first))


def _labelled(model: GNN, loss: str, given: Trained, shares: Float[Array, " k"], label: Num[Array, "..."]) -> Slope:
    """The gradient of a mixture's loss with this label."""

    def slope(weights: Params, number: Array) -> Params:
        gradient = jax.grad(lambda at: label_loss(_logits(model, given, shares, at), label, loss))(weights)
        return model.trained(gradient) if model.frozen or model.norms else gradient

    return slope


def _logits(model: GNN, given: Trained, shares: Float[Array, " k"], weights: Params) -> Float[Array, " C"]:
    """The outputs of a mixture."""
    rows, degrees = map(jnp.asarray, given.table)
    states = jax.vmap(lambda tree: embed(model, weights, rows, degrees, tree)[0])(given.trees)
    if model.readout.additive == "pooled":
        only = rows[:1], jnp.matmul(shares, states, precision="highest")[None], jnp.ones(1, bool)
        logits: Any = model.apply({"params": weights}, *only, method=_read)
        return logits
    out: Any = model.apply({"params": weights}, rows[given.trees.nodes[:, 0]], states, method="node_hidden")
    return jnp.matmul(shares, out[1], precision="highest")


def _at_output(model: GNN, update: Params) -> Any:
    """The gradient of the last bias of a regression, which shows the one at its output."""
    bias: Any = model.output_bias(update)
    return bias[0]


def _read(model: GNN, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Array) -> Array:
    return model.readout(rows, states, mask)
