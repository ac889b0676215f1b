"""Labels from the gradient of the last bias (iDLG; GLG, appendix B): its signs, and counts in a batch."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit

from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params


def last_bias(model: GNN, update: Params) -> Float[np.ndarray, "... C"]:
    """The gradient of the bias that is added to the logits: ``dL/dlogits``, summed over rows.

    Raises:
      ConditionFailed: the model adds none (a ``dot`` readout; ``node_scores`` without bias, or behind a norm, a
        residual or jumping knowledge).
    """
    bias = model.output_bias(update)
    if bias is None:
        raise ConditionFailed(f"the {model.readout.kind!r} readout adds no bias to its output; give the labels")
    return np.asarray(bias, np.float64)


def infer_label(observation: Observation) -> int:
    """The class of one graph, or of one target node: the only entry whose gradient is negative.

    ``dL/dlogit = (p - 1[true class]) / scale`` for cross-entropy and for BCE on one-hot labels, so the true class is
    the one negative entry (iDLG). An activation that does not fall (sigmoid, as in GLG's node task) keeps the signs;
    GELU after the last convolution of ``node_scores`` does fall, and is refused.

    Raises:
      ConditionFailed: a batch of several labels, a regression, no bias, or signs that fit no class.
    """
    several = observation.gradients is not None or (
        observation.model.node_level and observation.protocol != "target_node"
    )
    if observation.batch_size > 1 or several:
        raise ConditionFailed("the gradient sums over several labels, so its signs name none; see infer_counts")
    return _negative(observation, last_bias(observation.model, observation.update)[None])[0].item()


def infer_node_labels(observation: Observation) -> Int[np.ndarray, " n"]:
    """The class of every node, where each node's loss sent a gradient of its own (``node_losses``).

    Raises:
      ConditionFailed: another protocol, a regression, no bias, or signs that fit no class.
    """
    if observation.protocol != "node_losses":
        raise ConditionFailed("the nodes' gradients come summed up, so their signs name no label")
    return _negative(observation, last_bias(observation.model, observation.update))


def infer_counts(observation: Observation, probability: Float[np.ndarray, " C"]) -> Int[np.ndarray, " C"]:
    """How many labels of each class a batch holds, given the mean predicted probability of every class.

    The mean gradient is ``(mean p - counts / B) / scale``. The mean prediction of a fresh model hardly depends on the
    input, so that of public or random graphs serves (LLG; GradInversion). Whole numbers by largest remainders.

    Raises:
      ConditionFailed: a regression or no bias.
      ValueError: ``probability`` does not have one entry a class.
    """
    _classes_only(observation)
    gradient = last_bias(observation.model, observation.update)
    probability = np.asarray(probability, np.float64)
    if probability.shape != gradient.shape:
        raise ValueError(
            f"probability: expected one entry for each of {gradient.size} classes, got {probability.shape}"
        )
    scale = observation.model.outputs if observation.loss == "bce" else 1
    share = np.clip(probability - scale * gradient, 0.0, None)
    share = share / share.sum() if share.sum() > 0 else np.full(share.size, 1 / share.size)
    votes = share * observation.batch_size
    counts = np.floor(votes + 1e-9).astype(int)
    counts[np.argsort(counts - votes, kind="stable")[: observation.batch_size - counts.sum()]] += 1
    return counts


def infer_target(observation: Observation) -> float:
    """The regression target of one graph under a pooled linear readout.

    The gradients of weight and bias give the pooled row ``h = dL/dW / dL/db``, hence the output ``o = h W + b``, and
    ``dL/db = 2 (o - y)``.

    Raises:
      ConditionFailed: another readout or loss, a batch, a zero gradient, or a pruned update.
    """
    model = observation.model
    readout = model.readout
    if observation.loss != "mse" or not readout.pools or readout.maps > 1 or observation.batch_size > 1:
        raise ConditionFailed("the target shows only with one graph, squared error and one linear map after pooling")
    seen, weights = (readout.first(model.readout_of(tree)) for tree in (observation.update, observation.params))
    if observation.pruned:  # noise that was added later hides which entries were left out
        raise ConditionFailed("entries of the update were pruned, so the output need not follow; give the target")
    gradient = float(np.asarray(seen["bias"])[0])
    if gradient == 0.0:
        raise ConditionFailed("the gradient is zero: the output already equals the target")
    pooled = np.asarray(seen["kernel"], np.float64)[:, 0] / gradient
    output = float(pooled @ np.asarray(weights["kernel"], np.float64)[:, 0] + np.asarray(weights["bias"])[0])
    return output - gradient / 2


def prior_probability(observation: Observation, logits: Float[np.ndarray, "k C"]) -> Float[np.ndarray, " C"]:
    """Mean predicted probability of some graphs' logits, under the observation's loss."""
    if observation.loss == "bce":
        return expit(logits).mean(axis=0)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (shifted / shifted.sum(axis=1, keepdims=True)).mean(axis=0)


def _negative(observation: Observation, gradients: Float[np.ndarray, "k C"]) -> Int[np.ndarray, " k"]:
    _classes_only(observation)
    model = observation.model
    if model.readout.passes_states and model.layers[-1].act == "gelu":
        raise ConditionFailed("GELU falls before it rises, so the signs behind it name no class; give the labels")
    if not np.all((gradients < 0).sum(axis=1) == 1):
        raise ConditionFailed(
            "the signs of the last bias's gradient fit no class (exactly one must be negative); the update is noisy, "
            "pruned or not a single label's. Give the labels, or use an attack that optimises them"
        )
    return gradients.argmin(axis=1)


def _classes_only(observation: Observation) -> None:
    if observation.loss == "mse":
        raise ConditionFailed("a regression has no classes; see infer_target")
