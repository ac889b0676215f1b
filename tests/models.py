"""Models of tests in one line each: the fields that a stack of equal layers has, and every readout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jgleak.gnn import GNN, MLP, DotProduct, Flattened, NodeMLP, NodeScores, Pooled, Readout
from jgleak.gnn.version_1 import model_of

SLOTS = 6
"""Nodes that graphs are padded to, where a readout asks for a number."""

READOUTS: dict[str, Callable[[int, str], Readout]] = {
    "node_mlp": lambda outputs, act: NodeMLP(MLP((4, 3, outputs), act)),
    "per node": lambda outputs, act: NodeMLP(MLP((4, outputs), act), per_node=True, see_input=False),
    "mean": lambda outputs, act: Pooled("mean", MLP((outputs,), act)),
    "sum": lambda outputs, act: Pooled("sum", MLP((4, outputs), act)),
    "max": lambda outputs, act: Pooled("max", MLP((outputs,), act)),
    "mean, sum": lambda outputs, act: Pooled("mean,sum", MLP((4, outputs), act)),
    "max, sum": lambda outputs, act: Pooled("max,sum", MLP((outputs,), act)),
    "flattened": lambda outputs, act: Flattened(SLOTS, outputs),
    "node_scores": lambda outputs, act: NodeScores(outputs),
    "dot": lambda outputs, act: DotProduct(),
}
"""Every readout, from the number of outputs and the activation; a new one takes a row."""


def flat(**fields: Any) -> GNN:
    """A model of equal layers by ``version_1.DEFAULTS`` and the given fields."""
    return model_of(fields)
