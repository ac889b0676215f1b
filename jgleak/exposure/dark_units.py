"""Units that graphs leave dark behind pooling, by which the census tells graphs of several local steps apart."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool

from jgleak.attacks.census.batches.dark import MORE
from jgleak.attacks.census.local_path import every_step_whole, moved
from jgleak.exposure.deployment import Deployment
from jgleak.federated.client import fedsgd
from jgleak.graph import Graph


def dark_units(deployment: Deployment) -> str:
    """What the census needs of the map behind pooling where a local step sees some of a client's graphs, and how many
    dark units the made-up graphs of ``Deployment.knowledge`` have where weights are given, as sentences; empty where it
    needs none.
    """
    seen = deployment.seen
    if seen is None or seen.batch_size == 1 or not moved(seen) or every_step_whole(seen):
        return ""
    if seen.model.readout.additive != "pooled":
        return ""
    needed = seen.batch_size - 1 + MORE
    said = (
        "The census tells graphs of several steps apart by units of the map behind pooling, of which each must leave "
        f"{needed} or more dark that others light"
    )
    if deployment.given is None:
        return f"{said}: that depends on the weights. "
    lit = np.stack([_lit(deployment, graph) for graph in deployment.knowledge.auxiliary])
    counts = (lit.any(axis=0) & ~lit).sum(axis=1).tolist()
    few = ", which are too few" if max(counts) < needed else ""
    return f"{said}: at these weights random graphs leave {min(counts)} to {max(counts)} of {lit.shape[1]}{few}. "


def _lit(deployment: Deployment, graph: Graph) -> Bool[np.ndarray, " U"]:
    """The units through which something flows back to a graph."""
    model, labelled = deployment.model, dataclasses.replace(graph, y=0)
    update = fedsgd(model, deployment.params, [labelled], deployment.space, loss=deployment.loss).update
    kernel = np.asarray(model.readout.first(model.readout_of(update))["kernel"])
    return np.any(kernel, axis=0)
