"""Labels from the gradient of the last bias (iDLG; GLG, appendix B): its signs, zeros, and counts in a batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit

from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.noise import added, deviation
from jgleak.attacks.task_labels import task_labels
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params, Pooled
from jgleak.gnn.activation import CURVED


def last_bias(model: GNN, update: Params) -> Float[np.ndarray, "... C"]:
    """The gradient of the bias that is added to the logits: ``dL/dlogits``, summed over rows.

    Raises:
      ConditionFailed: the model adds none (a ``dot`` readout; ``node_scores`` without bias, or behind a norm, a
        residual or jumping knowledge), or it is frozen.
    """
    bias = model.output_bias(update)
    if bias is None and not model.trains("readout"):
        raise ConditionFailed("the last bias is frozen and shows no label; give the labels")
    if bias is None:
        raise ConditionFailed(f"the {model.readout.kind!r} readout adds no bias to its output; give the labels")
    return np.asarray(bias, np.float64)


def class_slopes(observation: Observation) -> Float[np.ndarray, "... C"]:
    """The gradient of the last bias at every class. One output under ``bce`` raises class 1 as much as it lowers 0.

    Raises:
      ConditionFailed: as for ``last_bias``.
    """
    return at_classes(observation, last_bias(observation.model, observation.update))


def at_classes(observation: Observation, slopes: Float[np.ndarray, "... _C"]) -> Float[np.ndarray, "... C"]:
    """Gradients at every class from those at the outputs."""
    two = Loss.of(observation.loss).classes(observation.model.outputs) > observation.model.outputs
    return np.concatenate([-slopes, slopes], axis=-1) if two else slopes


def infer_label(observation: Observation) -> int:
    """The class of one graph, or of one target node: the only entry whose gradient is negative.

    ``dL/dlogit = (p - 1[true class]) / scale`` for cross-entropy and for BCE on one-hot labels, so the true class is
    the one negative entry (iDLG). Of one output under BCE it is ``p - y``, negative for class 1 alone. An
    activation that does not fall (sigmoid, as in GLG's node task) keeps the signs; GELU after the last convolution of
    ``node_scores`` does fall, and is refused.

    Raises:
      ConditionFailed: a batch of several labels, a regression, several tasks, label smoothing, no bias, or signs that
        fit no class.
    """
    several = observation.gradients is not None or (
        observation.model.node_level and observation.protocol != "target_node"
    )
    if observation.batch_size > 1 or several:
        raise ConditionFailed("the gradient sums over several labels, so its signs name none; see infer_counts")
    return _negative(observation, class_slopes(observation)[None])[0].item()


def names_no_class(observation: Observation, doubt: float = 0.0) -> bool:
    """The update of one graph has signs that no class has under its loss: the loss must be another.

    ``doubt`` is how far noise may have moved an entry; with any, zeros say nothing.
    """
    loss, model = Loss.of(observation.loss), observation.model
    if loss.masked or loss.regression or model.node_level:
        return False
    if observation.batch_size > 1 or observation.pruned:
        return False
    bias = model.output_bias(observation.update)
    if bias is None:
        return False
    gradient = np.asarray(bias)
    negative, zeros = int((gradient < -doubt).sum()), int((gradient == 0).sum())
    if negative > 1 and not loss.smoothing:
        return True
    # A probability that is 0 or 1 in 32 bits leaves a zero too: under cross-entropy the sum tells, under BCE that of
    # the true class may be the only one.
    other = _unbalanced(gradient) and not observation.adaptive if loss.name == "ce" else negative > 0 or zeros > 1
    return not doubt and zeros > 0 and other


def contradiction(observation: Observation) -> str | None:
    """What in the last bias's gradient cannot be of the observation's loss, in words; None: nothing shows.

    Under softmax cross-entropy its entries add up to zero. Under cross-entropy of one graph, and BCE on one-hot labels,
    at most one is negative, and zeros are rare (``names_no_class``). Under masked absolute errors all that are not zero
    have one size. Noise that is known is allowed for, and of steps of Adam signs alone count.
    """
    loss, model = Loss.of(observation.loss), observation.model
    gradient = model.output_bias(observation.update)
    if gradient is None or observation.pruned or not np.any(gradient):
        return None
    bias = np.asarray(gradient, np.float64)
    doubt = CERTAIN * deviation(observation, observation.noise or 0.0, bias)
    size, sums = np.abs(bias), not observation.adaptive
    one = observation.batch_size == 1 and observation.steps == 1 and sums
    several = "if the outputs are tasks of their own, the loss is masked_bce"
    if loss.name == "ce" and sums and _unbalanced(bias, doubt):
        return f"under 'ce' the last bias's gradient adds up to zero, and here it does not; {several}"
    if names_no_class(observation, doubt):
        zeros = "" if doubt else f" and {np.sum(bias == 0)} zeros"
        return (
            f"the last bias's gradient has {np.sum(bias < -doubt)} negative entries{zeros}, which no class has under "
            f"{observation.loss!r}; {several}"
        )
    pulls = size[size > doubt]
    if loss.name == "masked_mae" and one and pulls.size and np.ptp(pulls) > UNBALANCED * size.max() + 2 * doubt:
        return "under 'masked_mae' all labels pull alike at the last bias, and here they do not; look at the loss"
    return None


SQUARES = {
    "bce": "a squared error (one output: 'mse')",
    "masked_bce": "a squared error ('masked_mse'), or weighted (pos_weight)",
}
"""What takes the place of losses of labels 0 and 1 where these cannot be."""


def too_large(observation: Observation) -> str | None:
    """The last bias's gradient in words, where cross-entropy or BCE cannot make it: an entry is a probability less a
    label, or a mean of such, and so at most 1 in one gradient (or ``pos_weight``, where that is more); None: it can."""
    loss, gradient = Loss.of(observation.loss), observation.model.output_bias(observation.update)
    if loss.name not in ("ce", "bce", "masked_bce") or gradient is None or observation.scaled:
        return None
    curved = observation.model.readout.passes_states and observation.model.layers[-1].act in CURVED
    if observation.adaptive or observation.steps > 1 or curved:  # GELU is steeper than 1 in places
        return None
    largest, most = float(np.max(np.abs(gradient))), max((1.0, *loss.pos_weight))
    doubt = CERTAIN * deviation(observation, observation.noise or 0.0, np.asarray(gradient))
    if largest <= most * (1.0 + ROUNDED) + doubt:
        return None
    squares = SQUARES.get(loss.name, "another loss")
    return (
        f"under {loss.name!r} no entry of the last bias's gradient is larger than {most:g}, as a probability less a "
        f"label is, and here one is {largest:.3g}: is it {squares}, or a sum over several graphs (reduction='sum')?"
    )


UNBALANCED, ROUNDED = 1e-3, 1e-6
"""Size of a sum that rounding explains: relative to its entries, and of one entry, a probability less 0 or 1."""


CERTAIN = 10.0
"""Deviations of the noise that an entry is never off by."""


def _unbalanced(gradient: Float[np.ndarray, "... C"], doubt: float = 0.0) -> bool:
    """The entries do not add up to zero."""
    size = UNBALANCED * np.abs(gradient).sum(axis=-1) + (ROUNDED + doubt) * gradient.shape[-1]
    return bool(np.any(np.abs(gradient.sum(axis=-1)) > size))


def infer_node_labels(observation: Observation) -> Int[np.ndarray, " n"]:
    """The class of every node, where each node's loss sent a gradient of its own (``node_losses``).

    Raises:
      ConditionFailed: another protocol, a regression, label smoothing, no bias, or signs that fit no class.
    """
    if observation.protocol != "node_losses":
        raise ConditionFailed("the nodes' gradients come summed up, so their signs name no label")
    return _negative(observation, class_slopes(observation))


def infer_counts(observation: Observation, probability: Float[np.ndarray, " C"]) -> Int[np.ndarray, " C"]:
    """How many labels of each class a batch holds, given the mean predicted probability of every class.

    The mean gradient is ``(mean p - counts / B) / scale``. The mean prediction of a fresh model hardly depends on the
    input, so that of public or random graphs serves (LLG; GradInversion). Whole numbers by largest remainders.

    Raises:
      ConditionFailed: a regression, several tasks or no bias.
      ValueError: ``probability`` does not have one entry a class.
    """
    _classes_only(observation)
    gradient = class_slopes(observation)
    probability = np.asarray(probability, np.float64)
    if probability.shape != gradient.shape:
        raise ValueError(
            f"probability: expected one entry for each of {gradient.size} classes, got {probability.shape}"
        )
    loss = Loss.of(observation.loss)
    scale = observation.model.outputs if loss.name == "bce" else 1
    share = np.clip(loss.unsmoothed(probability - scale * gradient), 0.0, None)
    share = share / share.sum() if share.sum() > 0 else np.full(share.size, 1 / share.size)
    votes = share * observation.batch_size
    counts = np.floor(votes + 1e-9).astype(int)
    counts[np.argsort(counts - votes, kind="stable")[: observation.batch_size - counts.sum()]] += 1
    return counts


def infer_target(observation: Observation) -> float:
    """The regression target of one graph under a pooled readout with one output.

    The gradients of the first map's weight and bias give the row ``h`` that entered it, hence the output ``o``, and the
    gradient of the last bias is ``2 (o - y)``.

    Raises:
      ConditionFailed: ``target_hidden`` or ``row_hidden`` says why, or the gradient is zero.
    """
    reason = target_hidden(observation) or row_hidden(observation)
    if reason is not None:
        raise ConditionFailed(reason)
    gradient = float(last_bias(observation.model, observation.update)[0])
    if gradient == 0.0:
        raise ConditionFailed("the gradient is zero: the output already equals the target")
    return float(_outputs(observation)[0]) - gradient / 2


def target_hidden(observation: Observation) -> str | None:
    """Why a regression's target does not follow from the update, or None; a zero gradient apart."""
    readout = observation.model.readout
    if observation.loss != "mse" or not isinstance(readout, Pooled) or observation.batch_size > 1:
        return "the target shows only with one graph, squared error and a pooled readout"
    if observation.protocol == "fedavg" or observation.scaled:
        return "the target shows only in the length of one gradient, and the client sent the sum of steps or clipped it"
    if not observation.model.trains("readout"):
        return "parts of the readout are frozen, so the output need not follow; give the target"
    if readout.dropout:
        return "the client drops entries between the readout's maps at random; give the target"
    if observation.pruned:  # noise that was added later hides which entries were left out
        return "entries of the update were pruned, so the output need not follow; give the target"
    return None


def row_hidden(observation: Observation) -> str | None:
    """Why the row that entered a pooled readout does not show, or None; losses whose signs tell labels need none."""
    readout = observation.model.readout
    if (
        Loss.of(observation.loss).regression
        and readout.maps > 1
        and not np.any(readout.first(observation.model.readout_of(observation.update))["bias"])
    ):
        return "no unit behind the pooling is on, so the row that entered does not show"
    return None


def _outputs(observation: Observation) -> Float[np.ndarray, " C"]:
    """What a pooled readout made of the row that entered it, which the gradient of its first map shows."""
    model = observation.model
    seen = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model.readout_of(observation.update))
    row = jnp.asarray(model.readout.pooled_row(seen), jnp.float32)
    weights = {"params": model.readout_of(observation.params)}
    return np.asarray(model.readout.apply(weights, row, method="behind_pooling"), np.float64)


def infer_tasks(observation: Observation) -> Float[np.ndarray, " T"]:
    """The labels of one graph with several tasks, NaN where they are missing.

    Under ``masked_bce`` the gradient of a task's bias is negative for a label 1, positive for a 0, and zero where it
    is missing, also after several local steps. Under ``masked_mse`` the outputs are needed too, which follow as for
    ``infer_target``.

    Raises:
      ConditionFailed: ``tasks_hidden`` says why, or ``row_hidden``.
    """
    reason = tasks_hidden(observation) or row_hidden(observation)
    if reason is not None:
        raise ConditionFailed(reason)
    model, loss = observation.model, Loss.of(observation.loss)
    slopes = last_bias(model, observation.update)
    if loss.name == "masked_bce":
        return np.where(slopes == 0, np.nan, (slopes < 0).astype(np.float64))
    return task_labels(loss, _outputs(observation), slopes, scaled=False, pruned=False)


def tasks_hidden(observation: Observation, noise: float | None = None) -> str | None:
    """Why the labels of several tasks do not follow from the update alone, or None."""
    loss, readout = Loss.of(observation.loss), observation.model.readout
    if not loss.masked:
        return f"the loss {loss.name!r} is not of several tasks"
    if not observation.model.trains("readout"):
        return "parts of the readout are frozen, whose gradients would show them"
    if observation.batch_size > 1:
        return "the gradient sums over the task labels of several graphs, so its signs name none"
    if added(observation, noise):
        return "noise hides which task labels are missing"
    if observation.pruned:
        return "an entry that pruning left out looks like a missing task label"
    if loss.name == "masked_mae":
        return "the gradient of an absolute error shows on which side of the output a target lies, and no more"
    if loss.name == "masked_mse" and (not isinstance(readout, Pooled) or observation.protocol == "fedavg"):
        return "targets show only in one gradient of a pooled readout"
    if loss.name == "masked_mse" and readout.dropout:
        return "the client drops entries between the readout's maps at random, so its outputs do not follow"
    if loss.name == "masked_mse" and observation.scaled:
        return "targets show only in the gradient's length, and the update was clipped"
    return None


def prior_probability(observation: Observation, logits: Float[np.ndarray, "k _C"]) -> Float[np.ndarray, " C"]:
    """Mean predicted probability of some graphs' logits, under the observation's loss."""
    if Loss.of(observation.loss).name == "bce":
        return Loss.of(observation.loss).by_class(expit(logits)).mean(axis=0)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (shifted / shifted.sum(axis=1, keepdims=True)).mean(axis=0)


def _negative(observation: Observation, gradients: Float[np.ndarray, "k C"]) -> Int[np.ndarray, " k"]:
    _classes_only(observation)
    model = observation.model
    if Loss.of(observation.loss).smoothing:
        raise ConditionFailed("label smoothing leaves several entries negative, so signs name no class")
    if model.readout.passes_states and model.layers[-1].act in CURVED:
        raise ConditionFailed("GELU falls before it rises, so the signs behind it name no class; give the labels")
    if not np.all((gradients < 0).sum(axis=1) == 1):
        raise ConditionFailed(
            "the signs of the last bias's gradient fit no class (exactly one must be negative); the update is noisy, "
            "pruned or not a single label's. Give the labels, or use an attack that optimises them"
        )
    return gradients.argmin(axis=1)


def _classes_only(observation: Observation) -> None:
    loss = Loss.of(observation.loss)
    if loss.masked:
        raise ConditionFailed("a graph of several tasks has no class; see infer_tasks")
    if loss.regression:
        raise ConditionFailed("a regression has no classes; see infer_target")
