"""GLG's node attacker 1: what the loss of one node tells of its features, and what it cannot."""

import dataclasses

import numpy as np

from jgleak.audit.experiment import run
from jgleak.audit.specification import Specification
from jgleak.datasets.catalogue import load

SPECIFICATION = Specification(
    dataset="synthetic-glg",
    graphs=2,
    min_nodes=12,
    max_nodes=12,
    hidden=40,
    activation="sigmoid",
    last_activation=True,
    bias=True,
    loss="ce",
    normalise=False,
    readout="node_scores",
    node_task=True,
    protocol="target_node",
    attack="glg-node-1",
    options=(("steps", "600"),),
)


def errors(model: str) -> list[float]:
    found = [unit.target_error for unit in run(dataclasses.replace(SPECIFICATION, model=model))]
    return [error for error in found if error is not None]


def least_errors() -> list[float]:
    """Of a GCN's target: the expected RNMSE of the best estimate from all that the two layers mix.

    The gradients depend on features through the mixed rows ``S_j X`` of the target's closed neighbourhood alone. Of
    independent standard normal features, ``c`` being the target's column of these rows ``R``, the best estimate from
    rows and edges has the variance ``1 - cᵀ (R Rᵀ)⁺ c`` an entry.
    """
    deviations = []
    for graph in load("synthetic-glg", task="node", graphs=2, min_nodes=12, max_nodes=12).graphs:
        closed = np.eye(graph.n)
        closed[tuple(graph.edges.T)] = closed[tuple(graph.edges.T[::-1])] = 1.0
        mixing = closed / np.sqrt(np.outer(closed.sum(axis=1), closed.sum(axis=1)))
        rows = mixing[closed[0] > 0]
        deviations.append(np.sqrt(1.0 - rows[:, 0] @ np.linalg.pinv(rows @ rows.T) @ rows[:, 0]))
    return deviations


def test_a_graphsage_target_comes_back() -> None:
    assert len(found := errors("sage")) == 2 and max(found) < 0.1


def test_a_gcn_target_is_hidden_among_its_neighbours() -> None:
    """No attack is nearer than the best estimate, which knows more; one that were would have seen the truth."""
    assert np.mean(errors("gcn")) > 0.9 * np.mean(least_errors()) > 0.5
