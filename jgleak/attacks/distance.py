"""How far a candidate graph's gradient is from the observed one, over all labels it could have."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Num

from jgleak.attacks.node_labels import node_labels
from jgleak.attacks.noise import deviations, in_few_units, largest
from jgleak.attacks.task_labels import task_labels
from jgleak.attacks.trained_target import trained_target
from jgleak.attacks.turned_units import unturned
from jgleak.defenses.prune import bounds, seen_part
from jgleak.features import FeatureSpace
from jgleak.federated.descent import descended
from jgleak.federated.local_training import Descent
from jgleak.federated.loss import Loss, graph_loss
from jgleak.federated.observation import Observation
from jgleak.federated.statistics import distance as statistics_distance
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import at, put
from jgleak.graph import DenseGraph, Graph, GraphBatch

MATCH = 1e-4
"""Relative gradient distance that counts as zero: float32 gradients of one graph agree to about 1e-6. This and the two
below are what a certificate means by the same gradient, wherever it is checked (``jgleak verify``), so no settings."""

USUAL = 1e-5
"""Above it the relative gradient distance of the true graph is rare (of a client whose model is certain of its labels,
``sigmoid - y`` cancels, which leaves more): something small is different, as an epsilon."""

ROUNDING = 3e-6
"""Deviation that rounding adds to the noise of an entry, relative to the typical entry."""

AGREE = 3e-7
"""How far float32 puts the gradients of one graph, its nodes in another order, from each other, relative to the update:
graphs of equal gradients must not be told apart by it."""

Label = int | float | np.ndarray | None
"""A class, a target, labels of nodes ``(n,)`` or of tasks ``(1, T)``; None where the update does not show it."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """Which gradient distances rounding and known noise explain.

    Without noise, those that rounding explains (``MATCH``). With noise of known deviation, ``|g - g*|^2`` is the
    noise's variance times a chi-square number of as many degrees of freedom as the update has entries, and a graph is
    accepted below its quantile (``noise.RATE``). Where the client rounded what it sent, the most that this may change
    is added. Of two graphs that are both accepted the distances still say more: the true one is farther away than a
    given other by ``c^2`` deviations (squared) at a rate below ``P(normal > c)``. All of the rounding counts as one
    deviation there, so that beside rounding alone distances tell no accepted graphs apart.

    Attributes:
      deviation: of an entry's noise and rounding, relative to the update's length; None without noise.
      entries: number of entries that were sent, at least 1.
      rounded: the most that a client's rounding of what it sent changes, relative to the update's length.
    """

    deviation: float | None
    entries: int
    rounded: float = 0.0

    @staticmethod
    def of(observation: Observation, noise: float | None) -> Fit:
        """What to ask of the graphs behind an observation."""
        seen = observation.model.evidence(observation.update)
        leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(seen)]
        entries = sum(int(np.count_nonzero(leaf)) if observation.pruned else leaf.size for leaf in leaves)
        entries = max(entries, 1)
        size = math.sqrt(sum(float(leaf @ leaf) for leaf in leaves))
        relative = None if noise is None else math.hypot(noise / max(size, 1e-30), ROUNDING / math.sqrt(entries))
        return Fit(relative, entries, _rounded(observation, leaves, size))

    @property
    def most(self) -> float:
        """Largest relative gradient distance of a graph that is accepted."""
        return MATCH if self.deviation is None else self.deviation * largest(self.entries) + self.rounded

    @property
    def informative(self) -> bool:
        """False where noise alone explains the update: a gradient of zero would be accepted."""
        return self.most < 1.0

    def excess(self, distances: Sequence[float]) -> Float[np.ndarray, " K"]:
        """How much less likely each graph is than the best, as the negative logarithm; 0 without noise.

        What rounding of both gradients may have added is taken off: ``(c sigma + 2 AGREE)^2`` bounds what noise that
        reaches ``c`` deviations and rounding make of the difference together.
        """
        square = np.square(np.asarray(distances, np.float64))
        if self.deviation is None or not square.size:
            return np.zeros(square.size)
        farther = np.sqrt(square - square.min()) - 2.0 * AGREE
        along = self.deviation + self.rounded
        return np.maximum(farther / along, 0.0) ** 2 / 2.0

    def likely(self, distances: Sequence[float]) -> Bool[np.ndarray, " K"]:
        """The graphs among which the true one is, if it is there at all: none of the others' distances speaks against
        it at the stated rate."""
        return 2.0 * self.excess(distances) <= deviations(len(distances)) ** 2


def _rounded(observation: Observation, leaves: Sequence[Float[np.ndarray, " e"]], size: float) -> float:
    """The most that a client's rounding changes of an update of these entries and this length, relative to the length.

    Targets of several regressions are read off the rounded bias, so that their rounding comes twice.
    """
    if observation.rounding is None:
        return 0.0
    few = math.hypot(*(in_few_units(observation.rounding, leaf) for leaf in leaves)) / max(size, 1e-30)
    twice = 2.0 if Loss.of(observation.loss).name == "masked_mse" else 1.0
    return twice * math.sqrt(3.0) * observation.rounding + few


def gradient_distances(
    observation: Observation, space: FeatureSpace, graphs: Sequence[Graph], most: float = MATCH
) -> list[tuple[float, Label]]:
    """For each graph the smallest relative gradient distance over its possible labels, and that label.

    The distance is ``|g - g*| / |g*|`` in the Frobenius norm over all parameters (GRAIN, section 5.4). Graph
    classification tries every class; regression, node tasks and several tasks (``task_labels``) solve for the label
    that the observed output gradient implies, and compare with that one. Of an absolute error's target only the side
    shows, and its label is None. A graph too large for a flattened readout is infinitely far. Of an update that
    was clipped as a whole only the direction counts: gradients are stretched to fit first, and a regression's label,
    which shows in the length, is None. Of a pruned one the entries that were sent count, and of the others what they
    exceed the smallest of these by (``defenses.prune.seen_part``). Where running statistics came back beside the
    update, the distance of the graph's own from them counts if it is larger. Of a client that made several local steps
    they are made again with the graph (``descended``), and the update of these is compared. Of these, too, a single
    target is solved for (``trained_target``); labels of nodes and several targets are taken from the weights that it
    got. Gradients are those of evaluation mode: a client that trains with dropout
    is never met. Frozen parts are not compared. A graph whose gradient is the client's but for units that rounding
    turns (``unturned``) has the distance without these, unless noise is known, which hides them: then ``most``, what is
    explained (``Fit.most``), is above ``MATCH``.
    """
    if most > MATCH:
        return [_distance(observation, space, graph) for graph in graphs]
    return [unturned(lambda seen, graph=graph: _distance(seen, space, graph), observation, MATCH) for graph in graphs]


def labelled_distance(observation: Observation, space: FeatureSpace, graph: Graph) -> float:
    """The relative gradient distance of a graph with the label that it states (``gradient_distances``).

    Raises:
      ValueError: it states no label, or one that this model and loss do not have.
    """
    model, loss = observation.model, observation.loss
    kind, label = Loss.of(loss), np.asarray(graph.y if graph.y is not None else np.nan, np.float64)
    shape = (1, model.outputs) if kind.masked else (graph.n,) if model.node_level else ()
    present = label[~np.isnan(label)] if kind.masked else label
    if label.shape != shape or not np.all(np.isfinite(present)):
        nodes = f"a label for each of its {graph.n} nodes" if model.node_level else "one label"
        raise ValueError(f"y: expected {f'a row {shape} of labels' if kind.masked else nodes}, got {graph.y!r}")
    classes = 2 if kind.masked else kind.classes(model.outputs)
    if not kind.regression and not np.all(np.isin(present, np.arange(classes))):
        raise ValueError(f"y: {graph.y!r} has a label outside the classes 0..{classes - 1}")
    one = _dense(observation, space, graph)
    if one is None:
        return math.inf
    labels = _padded(label, loss, one)

    def compare(seen: Observation) -> tuple[float, Label]:
        return max(float(_at_labels(seen, one, labels)[0]), _statistics(seen, one)), None

    return unturned(compare, observation, MATCH)[0]


def _statistics(observation: Observation, one: DenseGraph) -> float:
    """How far a graph's running statistics are from those that came back; 0 where none did."""
    if observation.statistics is None:
        return 0.0
    return statistics_distance(observation.model, observation.params, observation.statistics, one)


def _dense(observation: Observation, space: FeatureSpace, graph: Graph) -> DenseGraph | None:
    """The graph as the model is shown it; None where it is too large for a flattened readout."""
    slots = observation.model.readout.slots
    if slots is not None and graph.n > slots:
        return None
    batch = GraphBatch.from_graphs([Graph(graph.x, graph.edges, edge_class=graph.edge_class)], space, slots=slots)
    return jax.tree.map(lambda leaf: leaf[0], batch).dense


def _padded(labels: Any, loss: str, one: DenseGraph) -> Num[np.ndarray, "1 ..."]:
    """One graph's label or labels, or its nodes' with zeros behind them, as the only one to compare."""
    if np.ndim(labels) == 2:
        return np.asarray(labels, np.float32)
    kind = np.float32 if Loss.of(loss).regression else np.int32
    if not np.ndim(labels):
        return np.array([labels], kind)
    padded = np.zeros((1, one.mask.size), kind)
    padded[0, : len(labels)] = labels
    return padded


def _at_labels(observation: Observation, one: DenseGraph, labels: Num[np.ndarray, "K ..."]) -> Float[np.ndarray, " K"]:
    leaves = [np.abs(leaf).max(initial=0.0) for leaf in jax.tree.leaves(observation.update)]
    unit = np.float32(max(leaves) or 1.0)  # squares of a tiny update would be lost
    update = jax.tree.map(lambda seen: np.asarray(seen, np.float32) / unit, observation.update)
    size = np.float32(sum(float(np.square(seen, dtype=np.float64).sum()) for seen in jax.tree.leaves(update)))
    seen = observation.params, (update, unit, size)
    marks = observation.scaled, observation.pruned
    return np.asarray(_distances(observation.model, *seen, one, labels, observation.loss, *marks, descent(observation)))


def descent(observation: Observation) -> Descent | None:
    """How the client is trained again; None: it sent one gradient."""
    local = observation.local
    return None if local is None or (local.steps == 1 and not observation.adaptive) else local.descent


def _distance(observation: Observation, space: FeatureSpace, graph: Graph) -> tuple[float, Label]:
    model, loss = observation.model, observation.loss
    one = _dense(observation, space, graph)
    if one is None:
        return math.inf, None
    beside = _statistics(observation, one)
    if model.node_level:
        labels = node_labels(observation, one)
        return max(float(_at_labels(observation, one, _padded(labels, loss, one))[0]), beside), labels
    if Loss.of(loss).masked:
        distance, label = _task_distance(observation, one)
        return max(distance, beside), label
    if loss == "mse":
        how = None if observation.scaled else descent(observation)  # a clipped length says nothing of the target
        target = float(_target(model, observation.params, observation.update, one, observation.pruned, how))
        distance = float(_at_labels(observation, one, _padded(target, loss, one))[0])
        return max(distance, beside), None if observation.scaled else target
    values = _at_labels(observation, one, np.arange(Loss.of(loss).classes(model.outputs)))
    best = int(values.argmin())
    return max(float(values[best]), beside), best


def _task_distance(observation: Observation, one: DenseGraph) -> tuple[float, Label]:
    loss = Loss.of(observation.loss)
    outputs, slopes = _task_slopes(observation, one)
    row = task_labels(loss, outputs, slopes, scaled=observation.scaled, pruned=observation.pruned)[None]
    shown = loss.name == "masked_bce" or (loss.name == "masked_mse" and not observation.scaled)
    return float(_at_labels(observation, one, np.asarray(row, np.float32))[0]), row if shown else None


def _task_slopes(
    observation: Observation, graph: DenseGraph
) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """The graph's outputs, and the gradient at them.

    That is the last bias's, whatever the graph. Where no task's is exactly zero there may be noise, and of a pruned
    update it may be missing: then it is found by least squares over each column of the last map, which is what entered
    the map times the column's slope. Of a pruned update the entries that were sent count.
    """
    path = observation.model.nearest_output[0]
    outputs, rows = _summed_slopes(observation.model, observation.params, graph, path)
    entered, seen = (_columns(tree) for tree in (rows, at(observation.update, path)))
    outputs, bias = np.asarray(outputs, np.float64), observation.model.output_bias(observation.update)
    if bias is not None and np.any(bias == 0) and not observation.pruned:
        return outputs, np.asarray(bias, np.float64)
    told = seen != 0 if observation.pruned else np.ones(seen.shape, bool)
    square = (np.square(entered) * told).sum(axis=0)
    return outputs, (entered * seen).sum(axis=0) / np.where(square > 0, square, 1.0)


def _columns(tree: Params) -> Float[np.ndarray, "R T"]:
    return np.concatenate([np.atleast_2d(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(tree)])


@partial(jax.jit, static_argnames=("model", "path"))
def _summed_slopes(
    model: GNN, params: Params, graph: DenseGraph, path: tuple[str, ...]
) -> tuple[Float[Array, " T"], Params]:
    """A graph's outputs, and the derivative of their sum by the weights at ``path``."""

    def total(weights: Params) -> tuple[Array, Array]:
        outputs = jnp.asarray(model.apply({"params": put(params, path, weights)}, *graph))
        return outputs.sum(), outputs

    slopes, outputs = jax.grad(total, has_aux=True)(at(params, path))
    return outputs, slopes


@partial(jax.jit, static_argnames=("model", "loss", "scaled", "pruned"))
def _distances(
    model: GNN,
    params: Params,
    seen: tuple[Params, Float[Array, ""], Float[Array, ""]],
    graph: DenseGraph,
    labels: Num[Array, "K ..."],
    loss: str,
    scaled: bool,
    pruned: bool,
    how: Descent | None,
) -> Float[Array, " K"]:
    """``seen`` is the update in the stated unit, and its squared length in it."""
    update, unit, size = seen
    least = bounds(update) if pruned else None

    def slope(weights: Params, label: Array) -> Params:
        gradient = jax.grad(lambda p: graph_loss(model, p, graph, label, loss))(weights)
        return model.trained(gradient) if model.frozen else gradient

    def one(label: Array) -> Array:
        if how is None:
            gradient = slope(params, label)
        else:
            gradient = descended(model, params, lambda weights, _: slope(weights, label), how).update
        gradient = jax.tree.map(lambda g: g / unit, gradient)
        if scaled:
            sent = _sent(gradient, update) if pruned else gradient
            along = optax.tree.vdot(sent, update)
            factor = jnp.maximum(along, 0.0) / jnp.maximum(optax.tree.norm(sent, squared=True), 1e-30)
            gradient = jax.tree.map(lambda g: factor * g, gradient)
        if pruned:
            gradient = jax.tree.map(seen_part, gradient, update, least)
        gap = jax.tree.map(lambda g, seen: jnp.sum((g - seen) ** 2), gradient, update)
        return jnp.sqrt(sum(jax.tree.leaves(gap)) / jnp.maximum(size, 1e-30))

    return jax.lax.map(one, labels)


def _sent(gradient: Params, update: Params) -> Params:
    """A gradient without the entries that pruning left out of the update."""
    return jax.tree.map(lambda g, seen: jnp.where(seen != 0, g, 0.0), gradient, update)


@partial(jax.jit, static_argnames=("model", "pruned"))
def _target(
    model: GNN, params: Params, update: Params, graph: DenseGraph, pruned: bool, how: Descent | None
) -> Float[Array, ""]:
    """Regression target: the gradient is ``2 (output - y)`` times the output's own gradient, wherever it was sent.

    Of several steps (``how``) it is the one whose training has the observed part of the mean gradient along the first
    output's gradient.
    """
    output, gradient = jax.value_and_grad(lambda p: model.apply({"params": p}, *graph)[0])(params)
    gradient = model.trained(gradient) if model.frozen else gradient
    gradient = _sent(gradient, update) if pruned else gradient
    square = jnp.maximum(optax.tree.norm(gradient, squared=True), 1e-30)
    seen = optax.tree.vdot(gradient, update) / square
    first = jnp.asarray(output - 0.5 * seen)
    if how is None:
        return first

    def slope(weights: Params, target: Array) -> Params:
        own = jax.grad(lambda p: graph_loss(model, p, graph, target, "mse"))(weights)
        return model.trained(own) if model.frozen else own

    def residual(target: Float[Array, ""]) -> Array:
        made = descended(model, params, lambda weights, _: slope(weights, target), how).update
        return jnp.asarray(optax.tree.vdot(gradient, made) / square - seen)

    return trained_target(residual, first)
