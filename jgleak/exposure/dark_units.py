"""Units that graphs leave dark behind pooling, by which the census tells graphs of several local steps apart."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from jgleak.attacks.census.batches.dark import MORE, needed
from jgleak.attacks.census.local_path import every_step_whole, moved
from jgleak.exposure.deployment import Deployment
from jgleak.federated.client import fedsgd
from jgleak.graph import Graph


class DarkUnits(NamedTuple):
    """What the census needs of the map behind pooling, as sentences (empty: nothing), and whether it is lacking."""

    said: str = ""
    few: bool = False


def dark_units(deployment: Deployment) -> DarkUnits:
    """Of clients whose local steps see some of their graphs each; where weights are given, with how many dark units the
    made-up graphs of ``Deployment.knowledge`` have.
    """
    seen = deployment.seen
    if seen is None or seen.batch_size == 1 or not moved(seen) or every_step_whole(seen):
        return DarkUnits()
    if seen.model.readout.additive != "pooled":
        return DarkUnits()
    said = needed(seen.batch_size)
    if deployment.given is None:
        return DarkUnits(f"{said}: that depends on the weights. ")
    lit = np.stack([_lit(deployment, graph) for graph in deployment.knowledge.auxiliary])
    counts = (lit.any(axis=0) & ~lit).sum(axis=1).tolist()
    few = max(counts) < seen.batch_size - 1 + MORE
    known = f"at these weights random graphs leave {min(counts)} to {max(counts)} of {lit.shape[1]}"
    return DarkUnits(f"{said}: {known}{', which are too few' * few}. ", few)


def _lit(deployment: Deployment, graph: Graph) -> Bool[np.ndarray, " U"]:
    """The units through which something flows back to a graph."""
    model, labelled = deployment.model, dataclasses.replace(graph, y=0)
    update = fedsgd(model, deployment.params, [labelled], deployment.space, loss=deployment.loss).update
    kernel = np.asarray(model.readout.first(model.readout_of(update))["kernel"])
    return np.any(kernel, axis=0)
