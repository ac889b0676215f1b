"""Models of tests in one line each: the fields that a stack of equal layers has, and every readout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

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


def some_params(model: GNN, seed: int = 1) -> Any:
    """Uniform weights of the usual size, without compiling an initialiser: the same ones each time."""
    rng = np.random.default_rng(seed)
    return jax.tree_util.tree_map_with_path(lambda path, s: _leaf(rng, path, s.shape), model.shapes)


def _leaf(rng: np.random.Generator, path: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
    offset = np.float32(path[-1].key in ("variance", "scale"))  # of norms
    bound = np.sqrt(6.0 / sum(shape)) if len(shape) == 2 else 0.1
    return rng.uniform(-bound, bound, shape).astype(np.float32) + offset
