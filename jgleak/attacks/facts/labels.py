"""The label of one graph, labels and missing ones of several tasks, and what a batch holds, from the last bias."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from jgleak.attacks.closed_form.labels import (
    at_classes,
    infer_target,
    infer_tasks,
    last_bias,
    names_no_class,
    too_large,
)
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.facts.evidence import UNSURE, Evidence
from jgleak.attacks.facts.fact import (
    ADAM,
    BATCH,
    CLIPPING,
    DECAY,
    MOMENTUM,
    NOISE,
    ONE,
    PRUNING,
    QUANTISATION,
    STEPS,
    Fact,
    Silent,
)
from jgleak.attacks.facts.graphs import head_rank
from jgleak.attacks.facts.head import OF_NUMBERS, of_classes, squared_target, whole
from jgleak.attacks.noise import added, tail
from jgleak.federated.loss import Loss
from jgleak.gnn.activation import CURVED

SIGNS = (ONE, STEPS, MOMENTUM, ADAM, CLIPPING, QUANTISATION)
"""Under these an entry of the last bias keeps the sign that it has in every single step, and zeros stay."""


WHOLE = "the update is one whole gradient"
"""What a target rests on beside the loss, since its gradient may have any length."""

ONE_GRAPH = "the client has one graph"
"""What a label rests on: a head's gradient of rank 1 may be that of several graphs."""

SLACK = 1e-5
"""What rounding may add to a number of labels."""


def label(evidence: Evidence) -> Fact:
    """The class of the client's graph, its labels of several tasks, or its regression target.

    The last bias gets ``p - 1[class]`` (or ``p_t - y_t`` for a task): below zero for the class alone, above for others,
    in every step; zero where a task has no label. All of it has the condition that there is one graph: of several the
    head's gradient may look like that of one. A target has more, since the length of a gradient shows it.

    Raises:
      Silent: a batch, another task, or signs that are not certain.
    """
    return _label(evidence).provided(ONE_GRAPH)


def _label(evidence: Evidence) -> Fact:
    """The label of the one graph that the file tells of."""
    observation = evidence.observation
    loss = Loss.of(observation.loss)
    if observation.batch_size > 1 or observation.model.node_level:
        raise Silent("the update sums over several labels; see 'classes'")
    if _mixed(evidence):
        raise Silent("the head's gradient is that of several graphs, and the file says that there is one")
    if loss.masked:
        return _tasks(evidence, loss)
    if loss.regression:
        return _target(evidence)
    if loss.smoothing:
        raise Silent("label smoothing leaves several entries of the last bias negative")
    if names_no_class(observation) and evidence.noise is None:
        return _refuted(evidence)
    signs = _signs(evidence)
    below = np.flatnonzero(signs < 0)
    unknown = np.flatnonzero(signs == 0)
    if below.size > 1 or (not below.size and unknown.size != 1):
        raise Silent("the signs of the last bias do not single out a class")
    found = int(below[0] if below.size else unknown[0])
    pruned = (PRUNING,) if observation.pruned else ()
    fact = Fact("label", found, (*SIGNS, *pruned, *_beside(evidence)), f"the label is class {found}")
    target = squared_target(evidence)
    return fact if target is None else _doubted(fact, target)


def _doubted(fact: Fact, target: float) -> Fact:
    """The class where no label under the file's loss gives the head's gradient, but a squared error does."""
    classes, squared = OF_NUMBERS
    but = (
        f"the gradient is, to rounding, that of a squared error with the target {target:.0f}: if they minimise "
        f"{squared!r}, give --loss {squared}"
        if whole(target)
        else "under it no label gives the head's gradient"
    )
    fact = fact.provided(f"clients minimise {classes!r}")
    return dataclasses.replace(fact, line=f"{fact.line}; but {but}")


def _mixed(evidence: Evidence) -> bool:
    """One gradient whose head has more rows than the one graph that the file tells of."""
    try:
        return evidence.one_gradient and head_rank(evidence) > 1
    except Silent:
        return False


def classes(evidence: Evidence) -> Fact:
    """Classes (of tasks: labels) that occur in a batch or among nodes.

    An entry of the last bias is below zero only where some label is of its class: others add what is above.

    Raises:
      Silent: a single label, or signs that are not certain.
    """
    loss = _several(evidence)
    signs = _signs(evidence)
    pruned = (PRUNING,) if evidence.observation.pruned else ()
    under = (*SIGNS, BATCH, *pruned, *_beside(evidence))
    if loss.masked:
        found = [[0] if sign > 0 else [1] if sign < 0 else [] for sign in signs.tolist()]
        said = "; ".join(f"task {task}: a {labels[0]}" for task, labels in enumerate(found) if labels)
        if not said:
            raise Silent("no entry of the last bias has a certain sign")
        return Fact("classes", found, under, f"labels that occur: {said}")
    occur = np.flatnonzero(signs < 0).tolist()
    if not occur:
        raise Silent("no entry of the last bias is certainly negative")
    return Fact("classes", occur, under, f"labels of class {', '.join(map(str, occur))} occur")


def class_counts(evidence: Evidence) -> Fact:
    """How many labels of each class a batch holds, at least and at most.

    The mean gradient is ``mean p - count / B`` by class (divided by the number of outputs under ``bce``). As
    probabilities lie between 0 and 1, ``-B g <= count <= B (1 - g)``.

    Raises:
      Silent: a single label, several tasks, nodes, or no single gradient.
    """
    loss, observation = _several(evidence), evidence.observation
    if loss.masked or observation.model.node_level:
        raise Silent("labels are counted of graphs with one class each")
    if observation.protocol != "fedsgd" or not _exact(evidence):
        raise Silent("labels are counted in one gradient without noise, pruning or weight decay")
    outputs = observation.model.outputs if loss.name == "bce" else 1
    gradient, graphs = outputs * _bias(evidence)[0], observation.batch_size
    low = np.maximum(0, np.ceil(-graphs * gradient - SLACK)).astype(int)
    high = np.minimum(graphs, np.floor(graphs * (1.0 - gradient) + SLACK)).astype(int)
    # All labels together are as many as graphs.
    low, high = np.maximum(low, graphs - (high.sum() - high)), np.minimum(high, graphs - (low.sum() - low))
    if np.all(low <= 0) and np.all(high >= graphs):
        raise Silent("any number of labels of each class is possible")
    said = ", ".join(
        f"{a} to {b} of class {k}" for k, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True))
    )
    value = {"at_least": low.tolist(), "at_most": high.tolist()}
    return Fact("class_counts", value, (ONE, BATCH, CLIPPING), f"of {graphs} labels {said}")


def _several(evidence: Evidence) -> Loss:
    """The loss, where signs of several labels' sum say something."""
    observation = evidence.observation
    loss = Loss.of(observation.loss)
    several = observation.batch_size > 1 or observation.model.node_level
    if not several or observation.gradients is not None or observation.protocol == "target_node":
        raise Silent("there is one label; see 'label'")
    if loss.regression or loss.smoothing:
        raise Silent("a regression or smoothed labels leave signs that tell no label")
    return loss


def _exact(evidence: Evidence) -> bool:
    return evidence.noise is None and not evidence.observation.pruned and not evidence.altered


def _beside(evidence: Evidence) -> tuple[str, ...]:
    """Protocols beside ``SIGNS`` that were looked after here."""
    decay = (DECAY,) if evidence.decay is not None else ()
    return (*decay, NOISE) if evidence.noise is not None else decay


def _signs(evidence: Evidence) -> Float[np.ndarray, " C"]:
    """The sign that an entry of the last bias certainly has without decay and noise; 0 where it is not certain.

    Raises:
      Silent: the model adds no bias to its output.
    """
    gradient, doubt = _bias(evidence)
    return np.where(np.abs(gradient) > doubt, np.sign(gradient), 0.0)


def _bias(evidence: Evidence) -> tuple[Float[np.ndarray, " C"], Float[np.ndarray, " C"]]:
    """The last bias' update at every class without weight decay, and how far it may be off."""
    observation = evidence.observation
    if observation.model.layers[-1].act in CURVED and observation.model.readout.passes_states:
        raise Silent("GELU falls before it rises, so the signs behind it tell no label")
    try:
        gradient = last_bias(observation.model, observation.update)
        weights = last_bias(observation.model, observation.params)
    except ConditionFailed as error:
        raise Silent(str(error)) from None
    if not np.any(gradient):
        raise Silent("the last bias did not move: it is frozen, or nothing reached it")
    doubt = np.zeros(gradient.shape)
    if evidence.noise is not None:
        doubt += evidence.noise * tail(gradient.size)  # rounding leaves signs
    if evidence.decay:
        gradient = gradient - evidence.decay * weights
        doubt += 0.05 * abs(evidence.decay) * np.abs(weights) + UNSURE * evidence.error(gradient, weights)
    gradient = at_classes(observation, gradient)
    return gradient, np.broadcast_to(doubt, gradient.shape)


def _tasks(evidence: Evidence, loss: Loss) -> Fact:
    observation = evidence.observation
    if added(observation, evidence.noise):
        raise Silent("noise hides which task labels are missing")
    if observation.pruned:
        raise Silent("an entry that pruning left out looks like a missing task label")
    if loss.name == "masked_bce":
        return _binary_tasks(evidence)
    if not _exact(evidence) or observation.protocol != "fedsgd":
        raise Silent("targets of a regression show in one gradient alone")
    try:
        targets = infer_tasks(observation)
    except ConditionFailed as error:
        raise Silent(str(error)) from None
    value = [None if np.isnan(target) else float(target) for target in targets]
    said = " ".join("-" if target is None else f"{target:.4g}" for target in value)
    told = Fact("label", value, (ONE,), f"the targets of the tasks are {said} (- is missing)")
    return told.provided(f"clients minimise {observation.loss!r} and {WHOLE}")


def _binary_tasks(evidence: Evidence, before: str = "", under: tuple[str, ...] = SIGNS) -> Fact:
    gradient, doubt = _bias(evidence)
    reason = too_large(evidence.observation) if evidence.decay == 0.0 else None
    if reason is not None:
        raise Silent(reason)
    if evidence.decay:  # a missing label's entry is rounding, a present one's is far above it
        clear = np.abs(gradient) > 100 * doubt
        if np.any(~clear & (np.abs(gradient) > doubt)):
            raise Silent("weight decay in the last bias leaves entries of which nothing is certain")
        gradient = np.where(clear, gradient, 0.0)
    elif evidence.decay is None and np.all(gradient != 0):
        raise Silent("weight decay may hide which task labels are missing")
    value = [None if entry == 0.0 else int(entry < 0) for entry in gradient.tolist()]
    said = " ".join("-" if entry is None else str(entry) for entry in value)
    rounded = " or rounded to zero" if evidence.rounded else ""
    line = f"{before}the labels of the tasks are {said} (- is missing{rounded})"
    under = tuple(one for one in under if one != QUANTISATION or None not in value)  # which makes zeros of its own
    return Fact("label", value, (*under, *_beside(evidence)), line)


def _refuted(evidence: Evidence) -> Fact:
    """Signs that no class has under the loss that the file names: the outputs are tasks of their own.

    Raises:
      Silent: signs of tasks would not explain them either.
    """
    observation = evidence.observation
    gradient = _bias(evidence)[0]
    if observation.model.outputs < 3 and np.all(gradient != 0):
        raise Silent(f"the signs of the last bias fit no class under the loss {observation.loss!r}")
    below, zero = int(np.sum(gradient < 0)), int(np.sum(gradient == 0))
    if below == 1 and evidence.rounded:
        raise Silent("zeros in the last bias are missing labels of tasks, or were rounded")
    before = (
        f"{below} negative entries and {zero} zeros in the last bias refute the loss {observation.loss!r}; of binary "
        "tasks "
    )
    return _binary_tasks(evidence, before)


def _target(evidence: Evidence) -> Fact:
    observation = evidence.observation
    if not _exact(evidence) or observation.protocol != "fedsgd" or observation.scaled:
        raise Silent("a target shows in the length of one gradient alone")
    try:
        target = infer_target(observation)
    except ConditionFailed as error:
        raise Silent(str(error)) from None
    classes, doubt = of_classes(evidence), ""
    if classes is not None:
        doubt = (
            f"; but the gradient is, to rounding, also that of {classes!r} "
            f"with a label of 0 or 1: if clients minimise that, give --loss {classes}"
        )
    told = Fact("label", target, (ONE,), f"the target is {target:.6g}{doubt}")
    return told.provided(f"clients minimise {observation.loss!r} and {WHOLE}")
