"""The part of a batch's update that belongs to one graph: its pooled row, its label, and the gradient of its
readout."""

from __future__ import annotations

import dataclasses
from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.upstream import logits_of
from jgleak.federated.loss import Loss, label_loss
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params

AGREES = 1e-3
"""Largest relative distance of a sum of labels' gradients from the observed one."""

AGREES_MOVED = 0.2
"""The same after several local steps, in which units may switch."""

MULTISETS = 2_000
"""Most multisets of labels of graphs with one pooled row."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One pooled row, and the graphs that have it.

    Attributes:
      row: the pooled row ``(P,)``.
      labels: of the graphs that have it; more than one where several graphs of the batch are equal, or equal for the
        readout. A label is None where the update does not show it.
      observation: the update of a client with only such a graph and frozen convolutions: the gradients of convolutions
        are not separated by graph.
      moved: the row was found at the middle of several local steps; its error is of second order in their length.
    """

    row: Float[np.ndarray, " P"]
    labels: tuple[int | None, ...]
    observation: Observation
    moved: bool = False


def parts_of(head: HeadGradient, rows: Float[np.ndarray, "k P"]) -> tuple[Part, ...]:
    """The parts of a batch for these pooled rows; those that no label explains are left out."""
    sought = head.explained(rows)[0] if len(rows) == head.rank else [head.of_row(row)[0] for row in rows]
    return tuple(part for row, s in zip(rows, sought, strict=True) if (part := _part(head, row, s)))


def _part(head: HeadGradient, row: Float[np.ndarray, " P"], s: Float[np.ndarray, " c"]) -> Part | None:
    seen, observation = head.directions @ s * head.observation.batch_size, head.observation
    labels: tuple[int | None, ...] | None = (None,)
    loss = Loss.of(observation.loss)
    if not loss.regression and not loss.masked:
        labels = _labels(head, row, seen, observation.batch_size - head.rank + 1)
    if labels is None:
        return None
    own = _labelled(observation, row, labels[0]) if labels[0] is not None else seen
    return Part(row, labels, single_update(observation, row, own), head.moved)


def _labels(
    head: HeadGradient, row: Float[np.ndarray, " P"], seen: Float[np.ndarray, " C"], most: int
) -> tuple[int, ...] | None:
    """The labels of at most ``most`` graphs whose gradients at the logits add up to ``seen``; None where none do, or
    several choices."""
    classes = Loss.of(head.observation.loss).classes(head.observation.model.outputs)
    each = [_labelled(head.observation, row, label) for label in range(classes)]
    agrees = AGREES_MOVED if head.moved else AGREES
    tried, found = 0, list[tuple[int, ...]]()
    for number in range(1, most + 1):
        for labels in combinations_with_replacement(range(len(each)), number):
            tried += 1
            if tried > MULTISETS:
                return None
            if np.linalg.norm(sum(each[label] for label in labels) - seen) <= agrees * np.linalg.norm(seen):
                found.append(labels)
    return found[0] if len(found) == 1 else None


def _labelled(observation: Observation, row: Float[np.ndarray, " P"], label: int) -> Float[np.ndarray, " C"]:
    """The gradient at the logits of a graph with this pooled row and label."""
    logits = _logits(observation.model, observation.params, jnp.asarray(row, jnp.float32))
    return np.asarray(jax.grad(label_loss)(logits, jnp.asarray(label), observation.loss), np.float64)


def single_update(observation: Observation, row: Float[np.ndarray, " P"], s: Float[np.ndarray, " C"]) -> Observation:
    """The update of a client with one graph of this pooled row, ``s`` the gradient at its logits, and frozen
    convolutions.

    The weight of one label of several tasks may depend on the batch: then only the direction is the graph's.
    """
    model, params = observation.model, observation.params
    frozen = tuple(name for name in params if name != "readout")
    shown = _readout_gradient(model, params, jnp.asarray(row, jnp.float32), jnp.asarray(s, jnp.float32))
    return dataclasses.replace(
        observation,
        model=model.clone(frozen=frozen),
        update={"readout": jax.tree.map(np.asarray, shown)},
        batch_size=1,
        protocol="fedsgd",
        local=None,
        scaled=observation.scaled or Loss.of(observation.loss).masked,
    )


_logits = jax.jit(logits_of, static_argnames="model")


@jax.jit(static_argnames="model")
def _readout_gradient(model: GNN, params: Params, row: Float[Array, " P"], s: Float[Array, " C"]) -> Any:
    def along(readout: Params) -> Float[Array, ""]:
        return jnp.sum(logits_of(model, {**params, "readout": readout}, row) * s)

    return jax.grad(along)(model.readout_of(params))
