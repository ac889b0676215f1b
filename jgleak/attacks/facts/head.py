"""The head's gradient beside what the loss that a file names, or another, would make of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from jgleak.attacks.closed_form.labels import infer_tasks, last_bias
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Silent
from jgleak.federated.loss import Loss, label_loss
from jgleak.federated.observation import Observation
from jgleak.gnn import NodeMLP, Pooled
from jgleak.gnn.pooled import entering
from jgleak.gnn.precise import precise

FITS = 1e-3
"""Relative distance from the head's gradient that rounding explains."""

CHANCE = 1e-4
"""The same where a target of any size may be as near by chance: a number within so little of a class's is none."""

OF_NUMBERS = ("bce", "mse")
"""A loss of labels 0 and 1, and the squared error of as many outputs: one."""

OF_CLASSES = {"mse": "bce", "masked_mse": "masked_bce"}
"""The losses of labels 0 and 1 that have as many outputs as squared errors."""


class HeadFit(NamedTuple):
    """A loss beside the head's gradient: the distance that the best label leaves, as it is and up to a factor."""

    distance: float
    factor: float
    rest: float


def of_classes(evidence: Evidence) -> str | None:
    """The loss of labels 0 and 1 that explains the head's gradient of one graph whose file names a squared error, which
    explains it under targets that are any numbers; None where it does not."""
    observation = evidence.observation
    other = OF_CLASSES.get(Loss.of(observation.loss).name)
    if other is None or not evidence.one_gradient or observation.batch_size > 1 or observation.scaled:
        return None
    as_other = dataclasses.replace(evidence, observation=dataclasses.replace(observation, loss=other))
    try:
        return other if fit(as_other, Loss(other)).distance <= CHANCE else None
    except Silent:
        return None


def squared_target(evidence: Evidence) -> float | None:
    """The target under which a squared error explains the head's gradient of one graph, where the file names the loss
    of labels 0 and 1, none of which explains it; None where one does, or the update's length is not the gradient's."""
    observation = evidence.observation
    classes, squared = OF_NUMBERS
    one = evidence.one_gradient and observation.batch_size == 1 and observation.model.outputs == 1
    plain = evidence.noise is None and not evidence.altered and not observation.pruned and not observation.scaled
    trained = observation.model.trains("readout") and not observation.model.drops
    if Loss.of(observation.loss) != Loss(classes) or not (one and plain and trained):
        return None
    try:
        found = fit(evidence, Loss(classes))
        if found.distance <= FITS or found.rest > FITS:  # a squared error's gradient is a multiple of the other one
            return None
        head = _head(observation)
    except Silent:
        return None
    slope = last_bias(observation.model, observation.update)
    return float(np.asarray(head.logits(head.weights))[0] - slope[0] / 2.0) if np.any(slope) else None


def whole(target: float) -> bool:
    """Whether a target is 0 or 1 up to rounding: another number is as near to one of them once in thousands."""
    return min(abs(target), abs(target - 1.0)) <= CHANCE


def fit(evidence: Evidence, loss: Loss) -> HeadFit:
    """The label under a loss whose gradient of the head is nearest to the observed one.

    Raises:
      Silent: the row that enters the head does not show.
    """
    observation = evidence.observation
    head = _head(observation)

    def lost(weights: Any, target: Any) -> Any:
        return label_loss(head.logits(weights), target, loss)

    observed = flat(head.update)
    fits = []
    for label in _labels(observation, loss):
        expected = flat(jax.grad(lost)(head.weights, label))
        factor = float(observed @ expected) / max(float(expected @ expected), 1e-300)
        size = max(float(np.linalg.norm(observed)), 1e-300)
        distances = (float(np.linalg.norm(observed - scale * expected)) / size for scale in (1.0, factor))
        fits.append(HeadFit(next(distances), factor, next(distances) if factor > 0 else np.inf))
    return min(fits, key=lambda fit: fit.rest)


class _Head(NamedTuple):
    """The maps behind the row that enters them: their update, their weights, and the output by their weights."""

    update: Any
    weights: Any
    logits: Callable[[Any], Any]


def _head(observation: Observation) -> _Head:
    """All maps behind a pooling; of a readout on every node the last one, which the mean over nodes enters.

    Raises:
      Silent: the row that enters them does not show.
    """
    readout = observation.model.readout
    seen, weights = observation.model.readout_of(observation.update), observation.model.readout_of(observation.params)
    if isinstance(readout, Pooled):
        row = jnp.asarray(readout.pooled_row(_double(seen)), jnp.float32)
        return _Head(seen["mlp"], weights["mlp"], lambda mlp: readout.mlp.apply({"params": mlp}, row))
    if isinstance(readout, NodeMLP) and not readout.per_node:
        last = readout.last(_double(seen))
        mean = jnp.asarray(entering(last["kernel"], last["bias"]), jnp.float32)
        return _Head(readout.last(seen), readout.last(weights), precise(lambda own: mean @ own["kernel"] + own["bias"]))
    raise Silent("the row that enters the head does not show")


def _double(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def _labels(observation: Observation, loss: Loss) -> list[Any]:
    if loss.name == "masked_bce":
        return [jnp.asarray(_signs(observation), jnp.float32)]
    return [jnp.asarray(label) for label in range(loss.classes(observation.model.outputs))]


def _signs(observation: Observation) -> Float[np.ndarray, " T"]:
    if Loss.of(observation.loss).masked:
        return infer_tasks(observation)
    bias = last_bias(observation.model, observation.update)
    return np.where(bias == 0, np.nan, bias < 0)


def flat(tree: Any) -> Float[np.ndarray, " P"]:
    """All entries side by side."""
    return np.asarray(ravel_pytree(tree)[0], np.float64)
