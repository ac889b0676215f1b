"""What clients minimise: the losses of the five papers, and those of several tasks with missing labels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Num

from jgleak.gnn import GNN, Params
from jgleak.gnn.dropout import DROPOUT
from jgleak.graph import DenseGraph

CLASSES = ("bce", "ce")
"""Losses of one class a graph or node."""

MASKED = ("masked_bce", "masked_mse", "masked_mae")
"""Losses of a row of labels a graph, one a task, of which some may be missing."""

LOSSES = (*CLASSES, "mse", *MASKED)

MEANS = ("batch", "graph", "task", "all")
"""What losses of several tasks are the mean over (``Loss.over``)."""


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss with its options; as text ``ce``, ``ce+smoothing:0.1`` or ``masked_bce+over:task+pos_weight:2,1,4``.

    - ``bce``: BCE-with-logits on one-hot labels, mean over the ``C`` outputs (GRAIN). One output is the score of class
      1, and the other class is 0 (PyTorch's ``BCEWithLogitsLoss`` on labels 0 and 1).
    - ``ce``: softmax cross-entropy (GLG, FedGIG, GraphDLG).
    - ``mse``: squared error of the single output (FreeSolv) or of a rating (FedGNN).
    - ``masked_bce``: BCE-with-logits of ``T`` binary tasks, an output each, where labels may be missing.
    - ``masked_mse``, ``masked_mae``: squared and absolute error of ``T`` regression tasks, likewise.

    Attributes:
      name: one of ``LOSSES``.
      smoothing: label smoothing ``s`` of ``ce``, whose target is ``(1 - s) onehot + s / C`` (PyTorch), and of ``bce``,
        whose target is ``(1 - s) onehot + s / 2``, and of one output ``(1 - s) y + s / 2`` (Keras).
      pos_weight: of ``masked_bce``: what the loss of a label 1 is multiplied with, a factor a task (PyTorch); empty
        for none.
      over: what a masked loss is the mean over. ``batch``: all labels of the batch that are present (OGB, FedGraphNN).
        ``graph``: those of each graph, and then the graphs. ``task``: those of each task, and then all tasks (kMoL).
        ``all``: all entries, where missing ones count as zeros. Of a single graph ``graph`` is ``batch``, and ``task``
        is ``all``.

    Raises:
      ValueError: an unknown loss, or an option that it does not have or that is out of range.
    """

    name: str
    smoothing: float = 0.0
    pos_weight: tuple[float, ...] = ()
    over: str = "batch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "pos_weight", tuple(float(w) for w in self.pos_weight))
        if self.name not in LOSSES:
            raise ValueError(f"loss: unknown {self.name!r}; choose one of {', '.join(LOSSES)}")
        for option, owners in (("smoothing", CLASSES), ("pos_weight", ("masked_bce",)), ("over", MASKED)):
            if self.name not in owners and getattr(self, option) != getattr(type(self), option):
                raise ValueError(f"loss: {self.name!r} has no option {option!r}; {', '.join(owners)} has it")
        if not 0.0 <= self.smoothing < 1.0:
            raise ValueError(f"loss: smoothing must lie in 0..1, below 1, got {self.smoothing}")
        if not all(math.isfinite(w) and w > 0 for w in self.pos_weight):
            raise ValueError(f"loss: every pos_weight must be positive and finite, got {self.pos_weight}")
        if self.over not in MEANS:
            raise ValueError(f"loss: unknown mean over {self.over!r}; choose one of {', '.join(MEANS)}")

    def __str__(self) -> str:
        numbers = ",".join(f"{w!r}" for w in self.pos_weight)
        said = {"smoothing": repr(self.smoothing), "pos_weight": numbers, "over": self.over}
        given = (name for name in said if getattr(self, name) != getattr(type(self), name))
        return "+".join((self.name, *(f"{name}:{said[name]}" for name in given)))

    @staticmethod
    def of(loss: str | Loss) -> Loss:
        """The loss that a text stands for; raises ``ValueError`` for what is none."""
        if isinstance(loss, Loss):
            return loss
        if not isinstance(loss, str):
            raise ValueError(f"loss: expected a Loss or its text, got {loss!r}")
        return _parsed(loss)

    @property
    def masked(self) -> bool:
        """A graph has a row of labels ``(1, T)``, one a task, NaN where it is missing."""
        return self.name in MASKED

    @property
    def regression(self) -> bool:
        """Labels are numbers, not classes."""
        return self.name in ("mse", "masked_mse", "masked_mae")

    def classes(self, outputs: int) -> int:
        """How many classes so many outputs tell apart."""
        return 2 if self.name == "bce" and outputs == 1 else outputs

    def by_class(self, shares: Float[np.ndarray, "... _C"]) -> Float[np.ndarray, "... C"]:
        """Shares of all classes from what stands at the outputs: one output has that of class 1."""
        two = self.classes(shares.shape[-1]) > shares.shape[-1]
        return np.concatenate([1.0 - shares, shares], axis=-1) if two else shares

    def level(self, classes: int) -> float:
        """What label smoothing draws every entry of a one-hot row towards."""
        return 1.0 / 2 if self.name == "bce" else 1.0 / classes

    def unsmoothed(self, targets: Float[np.ndarray, "... C"]) -> Float[np.ndarray, "... C"]:
        """One-hot rows, or means of such, from what label smoothing made of them."""
        if not self.smoothing:
            return targets
        return (targets - self.smoothing * self.level(targets.shape[-1])) / (1.0 - self.smoothing)

    def entry_weights(self, labels: Num[Array | np.ndarray, "B ..."]) -> Float[Array, "B T"] | None:
        """What every entry's loss is multiplied with, so that the batch's loss is the mean of its graphs' sums.

        ``labels (B, T)`` are those of one client's batch. None for losses without tasks.
        """
        if not self.masked:
            return None
        present = (~jnp.isnan(labels)).astype(labels.dtype)
        graphs, tasks = present.shape
        counts = {
            "batch": present.sum() / graphs,
            "graph": present.sum(axis=1, keepdims=True),
            "task": tasks * present.sum(axis=0) / graphs,
            "all": jnp.asarray(tasks, present.dtype),
        }
        count = counts[self.over]
        return present / jnp.where(count > 0, count, 1.0)


@cache
def _parsed(text: str) -> Loss:
    name, *parts = text.split("+")
    given: dict[str, Any] = {}
    for part in parts:
        option, colon, value = part.partition(":")
        if option not in ("smoothing", "pos_weight", "over") or not colon or option in given:
            raise ValueError(
                f"loss: {part!r} is no option; expected smoothing:NUMBER, pos_weight:NUMBER,NUMBER,... or over:WORD, "
                "each once"
            )
        try:
            numbers = tuple(float(word) for word in value.split(",")) if option != "over" else ()
        except ValueError as error:
            raise ValueError(f"loss: expected numbers in {part!r}") from error
        if option == "smoothing" and len(numbers) > 1:
            raise ValueError(f"loss: smoothing is one number, got {value!r}")
        given[option] = {"smoothing": numbers[:1], "pos_weight": (numbers,), "over": (value,)}[option][0]
    return Loss(name, **given)


def check_loss(model: GNN, loss: str | Loss) -> None:
    """Raise ``ValueError`` where a loss does not fit the model's outputs."""
    loss = Loss.of(loss)
    if loss.masked and model.node_level:
        raise ValueError(
            f"loss: {loss.name!r} is of graphs with several tasks, but this model labels nodes; say 'ce', or pool them"
        )
    if model.readout.rates and loss.name != "mse":
        raise ValueError(
            f"loss: {loss.name!r} needs class scores, but the readout {model.readout.kind!r} predicts ratings; use "
            "'mse'"
        )
    if not model.readout.rates and loss.name == "mse" and model.outputs != 1:
        raise ValueError(
            f"loss: 'mse' is the squared error of one output, this model has {model.outputs} outputs; several tasks "
            "take 'masked_mse'"
        )
    if loss.name == "ce" and model.outputs == 1:
        raise ValueError(
            "loss: 'ce' (softmax cross-entropy) of one output is zero whatever it is, for its softmax is 1; one score "
            "under binary cross-entropy (BCEWithLogitsLoss) takes 'bce', one number 'mse'"
        )
    if loss.pos_weight and len(loss.pos_weight) != model.outputs:
        raise ValueError(f"loss: {len(loss.pos_weight)} entries of pos_weight, this model has {model.outputs} outputs")


def label_loss(
    logits: Float[Array, "... C"],
    label: Num[Array, "..."],
    loss: str | Loss,
    weights: Float[Array, "... C"] | None = None,
) -> Float[Array, "..."]:
    """Loss of rows of logits against labels (``Loss``).

    A class label may be relaxed to a distribution over the classes, which stands in the place of the one-hot row.
    Under a masked loss a row of labels belongs to the row of logits, and ``weights`` (``Loss.entry_weights``) says
    what each entry counts; None: it is the batch's only graph.
    """
    loss = Loss.of(loss)
    if loss.masked:
        weights = jnp.asarray(loss.entry_weights(label[None]))[0] if weights is None else weights
        return (weights * _entries(logits, jnp.where(jnp.isnan(label), 0.0, label), loss)).sum(axis=-1)
    if loss.name == "mse":
        outputs = logits if logits.ndim == label.ndim else logits[..., 0]
        return jnp.square(outputs - label)
    classes = loss.classes(logits.shape[-1])
    target = label if label.ndim == logits.ndim else jax.nn.one_hot(label, classes, dtype=logits.dtype)
    target = target[..., classes - logits.shape[-1] :]  # one score is that of class 1
    if loss.smoothing:
        target = (1.0 - loss.smoothing) * target + loss.smoothing * loss.level(logits.shape[-1])
    if loss.name == "bce":
        return optax.sigmoid_binary_cross_entropy(logits, target).mean(axis=-1)
    return optax.softmax_cross_entropy(logits, target)


def _entries(outputs: Float[Array, "... T"], labels: Float[Array, "... T"], loss: Loss) -> Float[Array, "... T"]:
    """The loss of every task."""
    if loss.name == "masked_bce" and loss.pos_weight:
        ones = jnp.asarray(loss.pos_weight, outputs.dtype) * labels * jax.nn.log_sigmoid(outputs)
        return -(ones + (1.0 - labels) * jax.nn.log_sigmoid(-outputs))
    if loss.name == "masked_bce":
        return optax.sigmoid_binary_cross_entropy(outputs, labels)
    return jnp.square(outputs - labels) if loss.name == "masked_mse" else jnp.abs(outputs - labels)


def graph_loss(
    model: GNN,
    params: Params,
    graph: DenseGraph,
    label: Num[Array, "..."],
    loss: str | Loss,
    share: Float[Array, "..."] | None = None,
    disturb: Callable[[int, Array], Array] | None = None,
    masks: Array | None = None,
) -> Float[Array, ""]:
    """Training loss of one padded graph: of its output, or the mean over its nodes for node tasks.

    ``share`` weighs the nodes ``(N,)`` of a node task otherwise (a 1 for one node gives the loss of that node), and
    the entries ``(T,)`` of a masked loss (``Loss.entry_weights``). ``disturb`` is what the client does to each layer's
    output. Dropout draws its masks from the key ``masks``; without it there are none (evaluation mode).
    """
    logits: Any = model.apply({"params": params}, *graph, disturb, rngs=None if masks is None else {DROPOUT: masks})
    return output_loss(model, logits, graph.mask, label, loss, share)


def output_loss(
    model: GNN,
    logits: Float[Array, "..."],
    mask: Bool[Array | np.ndarray, " N"],
    label: Num[Array, "..."],
    loss: str | Loss,
    share: Float[Array, "..."] | None = None,
) -> Float[Array, ""]:
    """``graph_loss`` from the model's output."""
    if not model.node_level:
        return label_loss(logits, label, loss, share)
    weight = mask.astype(logits.dtype)
    return ((weight / weight.sum() if share is None else share) * label_loss(logits, label, loss)).sum()
