"""The mixing of nodes is a product, whichever way and however often it is differentiated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.gnn.mix import mix

PLAIN = partial(jnp.matmul, precision="highest")


def matrices(seed: int, n: int, width: int) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(n, n)), jnp.float32), jnp.asarray(rng.normal(size=(n, width)), jnp.float32)


@partial(jax.jit, static_argnums=0)
def slopes(product: Callable[[Any, Any], Any], adjacency: Any, many: Any) -> Any:
    """Derivatives of several states' squares, with one adjacency for all."""
    return jax.vmap(jax.grad(lambda a, h: jnp.sum(product(a, h) ** 2), argnums=(0, 1)), (None, 0))(adjacency, many)


@pytest.mark.parametrize(
    "derivative",
    [jax.grad, jax.jacfwd, jax.hessian, lambda f, argnums: jax.jacrev(jax.jacrev(f, argnums), argnums)],
    ids=["reverse", "forward", "forward over reverse", "reverse over reverse"],
)
def test_derivatives_are_those_of_the_product(derivative: Any) -> None:
    def of(product: Callable[[Any, Any], Any]) -> Any:
        def value(adjacency: Any, states: Any) -> Any:
            return jnp.sum(jnp.sin(product(adjacency, product(adjacency, states))) ** 2)

        return jax.jit(derivative(value, argnums=(0, 1)))(*matrices(0, 4, 3))

    wanted = of(PLAIN)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), of(mix), wanted)


@given(st.integers(0, 1000), st.sampled_from([(1, 1), (3, 5), (6, 2)]))
@settings(max_examples=8, deadline=None)
def test_side_by_side_with_one_adjacency_for_all(seed: int, shape: tuple[int, int]) -> None:
    adjacency, states = map(np.asarray, matrices(seed, *shape))
    many = np.stack([states, 2 * states])
    for a, b in zip(slopes(mix, adjacency, many), slopes(PLAIN, adjacency, many), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_no_transposed_left_factor_is_left_to_the_compiler() -> None:
    """The derivative by the states is one product of two matrices as they lie."""
    adjacency, states = matrices(0, 4, 3)
    made = jax.make_jaxpr(jax.grad(lambda h: jnp.sum(mix(adjacency, h) ** 2)))(states)
    contracted = [e.params["dimension_numbers"][0] for e in made.jaxpr.eqns if e.primitive.name == "dot_general"]
    assert contracted and all(left == (1,) for left, _ in contracted)
