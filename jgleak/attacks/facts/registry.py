"""The list of facts, and all of them of one update."""

from __future__ import annotations

from collections.abc import Callable

from jgleak.attacks.blas import one_thread
from jgleak.attacks.facts.batch_statistics import batch_statistics
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Fact, Facts, Silent
from jgleak.attacks.facts.feature_values import feature_values
from jgleak.attacks.facts.graphs import graphs
from jgleak.attacks.facts.labels import class_counts, classes, label
from jgleak.attacks.facts.node_kinds import different_nodes, node_kinds
from jgleak.attacks.facts.nodes import nodes
from jgleak.attacks.facts.units import units
from jgleak.features import FeatureSpace
from jgleak.federated.fits import check_space
from jgleak.federated.observation import Observation

FACTS: dict[str, Callable[[Evidence], Fact]] = {
    "feature_values": feature_values,
    "different_nodes": different_nodes,
    "node_kinds": node_kinds,
    "nodes": nodes,
    "graphs": graphs,
    "label": label,
    "classes": classes,
    "class_counts": class_counts,
    "units": units,
    "batch_statistics": batch_statistics,
}
"""All facts by name, in the order in which people read them."""

OF_THE_SCHEMA = ("feature_values", "different_nodes", "node_kinds")
"""Facts that read columns as the schema says."""

SCHEMA_RIGHT = "the feature schema is right"
"""Their condition where the update's rows do not add up as those of the schema do: it may be another one."""


def facts(observation: Observation, space: FeatureSpace, *, noise: float | None = None) -> Facts:
    """What an update shows by itself, before any search: exact, or left out with a reason (docs/facts.md).

    Args:
      observation: what the server saw.
      space: the public feature space.
      noise: deviation of independent noise on every entry, where clients add some; None: what the observation says.

    Raises:
      ValueError: the feature space is of another width than the model's input, or has other edge classes.
    """
    check_space(observation.model, space)
    noise = observation.noise if noise is None else noise
    evidence, found, silent = Evidence(observation, space, noise), dict[str, Fact](), dict[str, str]()
    with one_thread():
        for name, fact in FACTS.items():
            try:
                told = fact(evidence)
                doubtful = name in OF_THE_SCHEMA and evidence.unbalanced
                found[name] = told.provided(SCHEMA_RIGHT) if doubtful else told
            except Silent as reason:
                silent[name] = str(reason)
    return Facts(found, silent)
