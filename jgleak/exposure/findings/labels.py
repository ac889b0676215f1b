"""The bias next to the output: signs of its gradient show labels, and its size the target of a regression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jgleak.attacks.closed_form.labels import last_bias, target_hidden, tasks_hidden
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.facts.fact import BATCH, DECAY, NOISE, ONE, PRUNING, QUANTISATION
from jgleak.attacks.facts.labels import SIGNS
from jgleak.attacks.registry import get_attack
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.finding import Finding
from jgleak.federated.loss import Loss
from jgleak.plural import counted

BLURS = {
    DECAY: "weight decay blurs signs of small entries",
    NOISE: "noise hides signs of small entries",
    PRUNING: "pruning leaves small entries out",
    QUANTISATION: "quantisation rounds small entries to 0",
}
"""Alterations that leave some signs uncertain; facts may still read the others."""


FACT_ONLY = "; an attack that finds the graph still finds its label"
"""What a remedy leaves open."""


def labels(deployment: Deployment) -> Iterator[Finding]:
    """Labels that signs show, or a regression's targets."""
    model, clients, loss = deployment.model, deployment.clients, Loss.of(deployment.loss)
    if loss.regression:
        yield from _targets(deployment, loss)
        return
    several = clients.batch_size > 1 or model.node_level
    by = "fact:classes" if several else "fact:label"
    details = {"outputs": model.outputs, "loss": str(loss), "ways": sorted(clients.ways)}
    tasks = loss.masked and not several
    lost = {NOISE, PRUNING} if tasks else {NOISE} if deployment.knowledge.noise is None else set[str]()
    hidden = clients.ways & lost
    sure = {*SIGNS, BATCH, *hidden} - {QUANTISATION}
    blurred = [BLURS.get(way, f"no fact accounts for {way}") for way in sorted(clients.ways - sure)]
    try:
        last_bias(model, jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), deployment.params))
        reason = "under label smoothing signs name no class" if loss.smoothing and not loss.masked else None
    except ConditionFailed as error:
        reason = str(error).partition(";")[0]
    if reason is None and hidden:
        reason = f"signs are not certain under {', '.join(sorted(hidden))}"
    if reason is not None:
        why = "a trained bias at the output, with a loss whose signs show classes"
        yield _unread(deployment, "No sign of the last bias shows a label.", f"{reason}.", why, by, details)
        return
    two = loss.classes(model.outputs) > model.outputs
    each = "the output" if model.outputs == 1 else f"each of {counted(model.outputs, 'output')}"
    if several:
        what = "Signs of the last bias's gradient may show labels that occur."
        why = "an entry below 0 belongs to a label that occurs; where there are as many as the model expects, none is"
        why = "below 0 it shows that class 1 occurs, above 0 that class 0 does" if two else why
    else:
        shown = "the labels of all tasks, and which are missing" if loss.masked else "the class of the graph"
        what = f"Signs of the last bias's gradient {'may ' * bool(blurred)}show {shown}."
        why = "it is below 0 where the label is" + " 1" * two
    yield Finding(
        *("labels", "open" if blurred or several else "leaks", what),
        f"it is p - y for {each}, and p lies between 0 and 1: {'; '.join([why, *blurred])}.",
        *(f"freeze the last bias{'' if loss.masked else ', or smooth the labels'}{FACT_ONLY}", by, details),
    )


def _unread(deployment: Deployment, what: str, why: str, opens: str, by: str, details: dict[str, Any]) -> Finding:
    """What no fact shows. An attack that finds a graph finds its label too, whatever hides the label from facts."""
    if deployment.refusal(get_attack("census")) is not None:
        return Finding("labels", "closed", what, why, opens, by, details)
    what = f"{what} The census returns that of each graph it finds."
    return Finding("labels", "open", what, why, "", "attack:census", details)


def _targets(deployment: Deployment, loss: Loss) -> Iterator[Finding]:
    """The targets of one graph, which one gradient shows and no other update."""
    seen, clients = deployment.seen, deployment.clients
    details = {"outputs": deployment.model.outputs, "loss": str(loss), "ways": sorted(clients.ways)}
    if seen is None or clients.local is not None or clients.ways != {ONE}:
        reason = "the target shows in the length of one gradient of one graph, which clients do not send as it is"
    else:
        reason = tasks_hidden(seen) if loss.masked else target_hidden(seen)
    if reason is not None:
        opens = "one gradient of one graph, a squared error, and a pooled readout that is trained as a whole"
        why = f"{reason.partition(';')[0]}."
        yield _unread(deployment, "No fact shows a target.", why, opens, "fact:label", details)
        return
    what = "the targets of all tasks, and which are missing" if loss.masked else "the target of the graph"
    why = (
        "the gradient of the readout's first map gives the row that enters it, hence the output o; that of the last "
        f"bias is 2 (o - y){' over a known number of labels' * loss.masked}."
    )
    one_map = deployment.model.readout.maps == 1  # behind two the gradient of the last kernel shows the same
    instead = f"{'freeze the last bias, or ' * one_map}send the gradient of several graphs{FACT_ONLY}"
    yield Finding("labels", "leaks", f"The readout's gradient shows {what}.", why, instead, "fact:label", details)
