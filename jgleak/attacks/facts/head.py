"""The head's gradient beside what the loss that a file names, or another, would make of it."""

from __future__ import annotations

import dataclasses
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
from jgleak.gnn import Pooled

FITS = 1e-3
"""Relative distance from the head's gradient that rounding explains."""

CHANCE = 1e-4
"""The same where a target of any size may be as near by chance: a number within so little of a class's is none."""

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


def fit(evidence: Evidence, loss: Loss) -> HeadFit:
    """The label under a loss whose gradient of the head is nearest to the observed one.

    Raises:
      Silent: the row that enters the head does not show.
    """
    observation = evidence.observation
    model = observation.model
    readout = model.readout
    if not isinstance(readout, Pooled):
        raise Silent("the row that enters the head does not show")
    seen, weights = model.readout_of(observation.update), model.readout_of(observation.params)
    row = jnp.asarray(readout.pooled_row(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), seen)), jnp.float32)

    def head(head_weights: Any, target: Any) -> Any:
        logits: Any = readout.mlp.apply({"params": head_weights}, row)
        return label_loss(logits, target, loss)

    observed = flat(seen["mlp"])
    fits = []
    for label in _labels(observation, loss):
        expected = flat(jax.grad(head)(weights["mlp"], label))
        factor = float(observed @ expected) / max(float(expected @ expected), 1e-300)
        size = max(float(np.linalg.norm(observed)), 1e-300)
        distances = (float(np.linalg.norm(observed - scale * expected)) / size for scale in (1.0, factor))
        fits.append(HeadFit(next(distances), factor, next(distances) if factor > 0 else np.inf))
    return min(fits, key=lambda fit: fit.rest)


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
