"""Readouts that count: the number of nodes of a graph, and a lower bound on the number of graphs."""

from __future__ import annotations

from collections.abc import Iterator

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import BATCH, CLIPPING, ONE, Silent
from jgleak.attacks.facts.nodes import share_of_nodes
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.finding import Finding
from jgleak.features import FeatureSpace
from jgleak.federated.observation import Observation
from jgleak.gnn import Flattened, Pooled

UNDER = frozenset({ONE, BATCH, CLIPPING})
"""Both facts read a single gradient."""


def sizes(deployment: Deployment) -> Iterator[Finding]:
    """The number of nodes of one graph, or the number of graphs of a batch."""
    model, clients, seen = deployment.model, deployment.clients, deployment.seen
    readout, first = model.readout, ("readout", *model.readout.first_map)
    if seen is None or not clients.ways <= UNDER:
        return
    if clients.batch_size > 1 and isinstance(readout, Pooled | Flattened) and model.trains(*first, "kernel"):
        width = readout.first(deployment.params["readout"])["kernel"].shape
        yield Finding(
            *("sizes", "open", "The head's gradient shows a lower bound on the number of graphs."),
            f"one row for each graph enters the first map after the pooling ({width[0]} x {width[1]}), whose gradient "
            f"has at most that rank; {clients.batch_size} graphs are sent.",
            *("several local steps", "fact:graphs"),
            {"graphs": clients.batch_size, "width": min(width)},
        )
    if clients.batch_size == 1 and isinstance(readout, Pooled) and model.trains(*first):
        yield from _nodes(seen, deployment.space, readout)


def _nodes(seen: Observation, space: FeatureSpace, readout: Pooled) -> Iterator[Finding]:
    """The number of nodes of one graph."""
    if readout.counts_nodes and "mean" in readout.poolings:
        what = "The update may show the number of nodes."
        why = (
            "the pooling has both a sum over nodes and their mean, whose quotient is the number of nodes, unless all "
            "units before or after the pooling are off"
        )
        instead = "only one pooling"
    else:
        try:
            share_of_nodes(Evidence(seen, space), readout)
        except Silent:
            return
        if not seen.model.trains(f"layers_{seen.model.depth - 1}", "conv", "bias"):
            return
        what = "The update may show the number of nodes, or a number that divides it."
        why = "under a mean, the gradient of the last convolution's bias shows the share of nodes at which a unit is on"
        instead = "no bias in the last convolution"
    yield Finding("sizes", "open", what, f"{why}.", instead, "fact:nodes")
