"""Parameters and gradients of another framework's model as an ``Observation``: the same function, built from jgleak's
parts."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import jax
import numpy as np

from jgleak.attacks.closed_form.labels import contradiction, too_large
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation, unflatten
from jgleak.gnn import Params
from jgleak.interop.arrays import Arrays, by_name
from jgleak.interop.compose import model_of
from jgleak.interop.edge_classes import class_numbers
from jgleak.interop.evaluation import not_in_evaluation_mode
from jgleak.interop.example import Example, Given, check_example
from jgleak.interop.forward import Forward, forward_pass, is_live, probed
from jgleak.interop.layers import LOG_SOFTMAX, BatchNorm, Embeddings, Step
from jgleak.interop.plan import plan
from jgleak.interop.take import COUNTER, WeightSlot, slots, tree
from jgleak.precision import computed_noise, rounding_of


@dataclasses.dataclass(frozen=True)
class Client:
    """What a client does besides sending the gradients of all parameters.

    Attributes:
      frozen: names of parameters that it does not train, which have no gradient.
      buffers: the returned running statistics of batch normalisation in training mode, by name, while the state has
        those from before the step; other arrays may be among them. None: none were returned.
      clipped: it clipped the update as a whole.
      pruned: it left the smallest entries out.
      noise: standard deviation of the noise on every entry, where it added some. Rounding of a client that computes in
        16 bits follows from the arrays' types, and is added.
      rounded_to: the type (``float16``, ``bfloat16``) to which it rounded its gradient after it had computed in 32
        bits, which leaves far less noise than computing in 16.
      local: how it trained. Gradients of several steps are given as their mean; ``from_weights`` needs it also for the
        rate of a single step.
    """

    frozen: Sequence[str] = ()
    buffers: Any = None
    clipped: bool = False
    pruned: bool = False
    noise: float | None = None
    rounded_to: str | None = None
    local: LocalTraining | None = None


UNCOMPARED = (
    "example: nothing compares jgleak's model with yours, and an attack on another model finds nothing; give "
    "example=(x, edge_index, output), a public graph and your model's output for it"
)


def warn_uncompared(layers: Forward, example: Given | None) -> None:
    """Warn the caller's caller where nothing checks a forward pass; a live module is checked by running it."""
    if example is None and not is_live(layers):
        warnings.warn(UNCOMPARED, stacklevel=3)


def from_arrays(
    state: Any,
    gradients: Any,
    layers: Forward,
    *,
    loss: str | Loss,
    batch_size: int = 1,
    reduction: str = "mean",
    example: Given | None = None,
    client: Client = Client(),
) -> Observation:
    """The observation of a server that sent ``state`` and got ``gradients`` back.

    Args:
      state: the parameters at which the gradient was taken, by name (in any container of ``by_name``), and the buffers
        of layers that the list names.
      gradients: of every parameter that is trained, under the same names.
      layers: the forward pass, step by step; see ``jgleak.interop.layers`` and ``plan``. A name stands for the layer of
        PyTorch Geometric that has such arrays, with its default options. Or a live PyTorch module, which is read as in
        ``from_pyg``, with the parameters of ``state``.
      loss: a ``Loss``, or its text (``bce``, ``ce``, ``mse``, ``masked_bce``). ``bce`` on one output is PyTorch's
        ``BCEWithLogitsLoss`` on labels 0 and 1; with its ``pos_weight`` it is ``masked_bce`` of one task.
      batch_size: number of graphs whose losses were averaged.
      reduction: how the losses were combined: ``mean``, or ``sum`` (the gradient is then divided by the batch size, and
        under ``bce`` and a masked loss by the number of outputs: a sum over the labels that are present is a mean over
        all).
      example: public graphs with the model's output for them, which the bridge's output must equal. This finds errors
        that no name shows: a missing activation, a transposed square matrix, an edge weight, a row that is added. With
        labels (``Example``) the gradient must be that of these graphs too.
      client: parts that clients do not train, buffers that they return, and what they did to the gradients.

    Raises:
      ValueError: a description that does not fit the arrays, a part that no attack here handles, gradients of another
        model, values that are not finite, or an output that differs.

    Warns:
      UserWarning: there is no example, so that nothing checks the list of steps.
    """
    warn_uncompared(layers, example)
    given = {"loss": loss, "batch_size": batch_size, "reduction": reduction, "example": example}
    return observed(state, gradients, layers, **given, client=client)


def observed(
    state: Any,
    gradients: Any,
    layers: Forward,
    *,
    loss: str | Loss,
    batch_size: int,
    reduction: str,
    example: Given | None,
    client: Client,
) -> Observation:
    """``from_arrays`` without its warning."""
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction: losses of a batch come as 'mean' or 'sum', got {reduction!r}")
    weights, slopes = by_name(state), by_name(gradients)
    loss, shown = Loss.of(loss), None if example is None else Example.of(example)
    steps = forward_pass(layers, weights, shown)
    logits = _logits(steps, loss)
    architecture = plan(logits)
    _finite("state", weights)
    _finite("gradient", slopes)
    places = slots(architecture, weights)
    parts = _frozen(places, client.frozen)
    told = _BY_MODE if is_live(layers) else _BY_WORD
    whole = {**slopes, **{name: np.zeros_like(weights[name]) for name in client.frozen}}
    slopes = _trained(places, weights, whole, told)
    params = tree(places, weights, gradient=False)
    update = tree(places, slopes, gradient=True)
    model = model_of(architecture, places, params, weights).clone(frozen=parts)
    if client.rounded_to is not None:  # what is divided below must not be rounded again
        update = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), update)
    if reduction == "sum":
        count = batch_size * (model.outputs if loss.masked or loss.name == "bce" else 1)
        update = jax.tree.map(lambda leaf: leaf / np.asarray(count, leaf.dtype), update)
        loss = dataclasses.replace(loss, over="all") if loss.masked else loss
    statistics = None if client.buffers is None else _statistics(places, weights, by_name(client.buffers), told)
    rounding = None if client.rounded_to is None else rounding_of(client.rounded_to)
    computed = computed_noise(update) if rounding is None else None
    sources = [one for one in (client.noise, computed) if one is not None]
    noise = math.hypot(*sources) if sources else None
    marks: dict[str, Any] = {"scaled": client.clipped, "pruned": client.pruned, "noise": noise, "rounding": rounding}
    if client.local is not None and (client.local.steps > 1 or client.local.optimiser != "sgd"):
        marks |= {"protocol": "fedavg", "local": client.local}
    observation = Observation(model, params, update, str(loss), batch_size=batch_size, statistics=statistics, **marks)
    other = contradiction(observation)
    if other is not None:
        raise ValueError(f"loss: {other}")
    moved = not_in_evaluation_mode(observation)
    if moved is not None:
        raise ValueError(
            f"gradient: {moved}; give the state from before the client's forward pass, from_pyg(model, sent=..) with "
            "the model in training mode or BatchNorm(.., training=True) in a list, or take the gradient after "
            "model.eval()"
        )
    if shown is None and is_live(layers):
        shown = probed(layers, weights)
    if shown is not None:
        shown = dataclasses.replace(shown, edge_rows=class_numbers(shown.edge_rows, places, weights))
        check_example(observation, shown, _tables(places, weights), normalised=len(logits) < len(steps))
    if (large := too_large(observation)) is not None:
        raise ValueError(f"loss: {large}")
    return observation


def trained_names(layers: Forward, state: Arrays) -> list[str]:
    """The names of the parameters of a forward pass, without running statistics.

    Raises:
      ValueError: a description that does not fit the arrays.
    """
    steps = [step for step in forward_pass(layers, state, None) if step != LOG_SOFTMAX]
    return [name for slot in slots(plan(steps), state) if not slot.still for name in slot.names]


def _logits(layers: Sequence[Step], loss: Loss) -> Sequence[Step]:
    """The forward pass up to the logits: under cross-entropy a softmax of log-probabilities changes nothing."""
    if not layers or layers[-1] != LOG_SOFTMAX:
        return layers
    if loss.name != "ce":
        raise ValueError(f"layers: {LOG_SOFTMAX!r} ends the list: cross-entropy; say loss='ce', not {str(loss)!r}")
    return layers[:-1]


def _finite(what: str, arrays: Arrays) -> None:
    if not arrays:
        missed = "; a module has gradients after loss.backward()" if what == "gradient" else ""
        raise ValueError(f"{what}: there is no array; give a dict of arrays by name{missed}")
    for name, array in arrays.items():
        if not np.all(np.isfinite(array.astype(np.float64))):
            raise ValueError(
                f"{what}: {name!r} holds NaN or infinite values, from which nothing follows; take another round's, and "
                "check the client's loss and learning rate"
            )


def _frozen(places: Sequence[WeightSlot], names: Sequence[str]) -> tuple[str, ...]:
    """The parts of ``GNN`` that hold the parameters which are not trained."""
    frozen, known = set(names), {name for slot in places for name in slot.names}
    if not frozen <= known:
        raise ValueError(f"frozen: {min(frozen - known)!r} is not a parameter of this state; it has {', '.join(known)}")
    for slot in places:
        if frozen & set(slot.names) and not frozen >= set(slot.names):
            left = min(set(slot.names) - frozen)
            raise ValueError(f"frozen: {left!r} is trained, and the tables beside it are not; here they are one array")
    return tuple(slot.path for slot in places if frozen >= set(slot.names) and slot.role != "eps")


def _trained(places: Sequence[WeightSlot], weights: Arrays, slopes: Arrays, told: str) -> Arrays:
    """The gradients, with zeros for running statistics. ``told``: how the forward pass says training mode.

    Raises:
      ValueError: a gradient of another model, or statistics that moved in evaluation mode.
    """
    still = {name for slot in places if slot.still for name in slot.names}
    training = {slot.layer.name for slot in places if isinstance(slot.layer, BatchNorm) and slot.layer.training}
    known = {name for slot in places for name in slot.names}
    for name, slope in slopes.items():
        if (name in still or name.endswith(COUNTER)) and np.any(slope) and not _of_any(name, training):
            raise _moved("gradient", name, told)
        if name.endswith(COUNTER):
            continue
        if name not in known:
            raise ValueError(f"gradient: {name!r} is not a parameter of this state; it is a gradient of another model")
        if slope.shape != weights[name].shape:
            raise ValueError(
                f"gradient: {name!r} has shape {slope.shape}, the parameter {weights[name].shape}; it is a gradient of "
                "another model"
            )
    return {**slopes, **{name: np.zeros_like(weights[name]) for name in still}}


def _of_any(name: str, layers: Collection[str]) -> bool:
    return any(name.startswith(f"{layer}.") for layer in layers)


_BY_WORD = "write BatchNorm({!r}, training=True)"
_BY_MODE = "pass the model with its norms in training mode (module.train() of each norm, dropout off)"
"""What says that a norm is in training mode, in a list of steps and of a live model."""


def _moved(what: str, name: str, told: str) -> ValueError:
    layer = name.rpartition(".")[0].removesuffix(".module")
    return ValueError(
        f"{what}: {name!r} moved: the client's batch normalisation was in training mode, which is read of one graph "
        f"and one step: {told.format(layer)}. Have clients call .eval() on it before they train on more"
    )


def _statistics(places: Sequence[WeightSlot], weights: Arrays, buffers: Arrays, told: str) -> Params | None:
    """The returned running statistics of the norms in training mode; None: there are none. ``told``: as before.

    Raises:
      ValueError: some are missing, moved in evaluation mode, or did not move in training mode.
    """
    found: Arrays = {}
    for slot in places:
        if not slot.still or not isinstance(slot.layer, BatchNorm):
            continue
        if slot.name not in buffers:
            raise ValueError(f"buffers: lacks {slot.name!r}; give all running statistics after the step, or None")
        same = np.array_equal(weights[slot.name], buffers[slot.name])
        if slot.layer.training:
            found[slot.path] = buffers[slot.name]
        if same == slot.layer.training:
            if not same:
                raise _moved("buffers", slot.name, told)
            raise ValueError(
                f"buffers: {slot.name!r} did not move, though its batch normalisation was in training mode; give the "
                "statistics of before the step as the state: a copy, since state_dict() holds the arrays themselves"
            )
    return unflatten(found) or None


def _tables(places: Sequence[WeightSlot], weights: Arrays) -> tuple[int, ...]:
    """Number of rows of every embedding table of the encoder; empty: the model takes its rows unchanged."""
    names = [name for slot in places if isinstance(slot.layer, Embeddings) for name in slot.names]
    return tuple(weights[name].shape[0] for name in names)
