"""Random parameters without compiling an initialiser, and random padded graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jaxtyping import Array
from stars import by_class, classes_of

QUICK = {"xla_backend_optimization_level": 0}
"""Compiler options for functions that run a few times only."""


def random_params(module: nn.Module, nodes: int, width: int, seed: int, dtype: Any = np.float32) -> Any:
    """Normal weights and biases, never zero, and variances above it, of a module of ``(rows, adjacency, mask)``."""
    rng = np.random.default_rng(seed)

    def drawn(path: Any, leaf: Any) -> np.ndarray:
        numbers = rng.normal(scale=0.6, size=leaf.shape).astype(dtype)
        return np.abs(numbers) + 0.5 if path[-1].key == "variance" else numbers

    return jax.tree_util.tree_map_with_path(drawn, shapes_of(module, nodes, width))


@cache
def shapes_of(module: nn.Module, nodes: int, width: int) -> Any:
    """Shapes of a module's parameters."""
    classes = (classes_of(module),) if classes_of(module) else ()
    blank = jnp.zeros((nodes, width)), jnp.zeros((nodes, nodes, *classes)), jnp.ones(nodes, bool)
    return jax.eval_shape(module.init, jax.random.key(0), *blank)["params"]


def random_graph(n: int, slots: int, width: int, seed: int, density: float = 0.4, of: Any = None) -> tuple[Array, ...]:
    """Rows, binary adjacency and mask of a random graph, padded to ``slots``; float32.

    The adjacency is taken apart by edge class where ``of``, a model or a part of one, tells some apart.
    """
    rng = np.random.default_rng(seed)
    rows, adjacency = np.zeros((slots, width), np.float32), np.zeros((slots, slots), np.float32)
    rows[:n] = rng.normal(size=(n, width))
    upper = np.triu(rng.random((n, n)) < density, 1)
    adjacency[:n, :n] = upper + upper.T
    return jnp.asarray(rows), by_class(jnp.asarray(adjacency), classes_of(of)), jnp.arange(slots) < n


@pytest.fixture(scope="session")
def quick_jit() -> Callable[..., Any]:
    return partial(jax.jit, compiler_options=QUICK)


@pytest.fixture(scope="session")
def params_of() -> Callable[..., Any]:
    return random_params


@pytest.fixture(scope="session")
def graph_of() -> Callable[..., tuple[Array, ...]]:
    return random_graph
