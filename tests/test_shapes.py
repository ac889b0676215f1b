"""The test run checks the annotations of shapes and types (``tests/conftest.py``), in every worker."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError
from type_checks import checked

from jgleak.gnn.mix import mix
from jgleak.graph import Graph, GraphBatch


def test_a_wrong_shape_is_refused() -> None:
    nodes, mask = np.zeros((2, 3, 4), np.float32), np.ones((2, 3), bool)
    assert GraphBatch(nodes, np.zeros((2, 3, 3), np.float32), mask).size == 2
    with pytest.raises(TypeCheckError, match="GraphBatch"):
        GraphBatch(nodes, np.zeros((2, 3, 5), np.float32), mask)


def test_a_wrong_shape_is_refused_in_a_compiled_function() -> None:
    compiled = jax.jit(mix)
    assert compiled(jnp.zeros((3, 3)), jnp.zeros((3, 2))).shape == (3, 2)
    with pytest.raises(TypeCheckError, match="mix"):
        compiled(jnp.zeros((3, 4)), jnp.zeros((3, 2)))


def test_a_wrong_type_is_refused() -> None:
    with pytest.raises(TypeCheckError, match="Graph"):
        Graph(np.zeros((2, 1)), np.array([[0.0, 1.0]]))


def test_each_function_that_is_made_inside_another_is_itself_and_checked() -> None:
    def plus(more: int) -> Callable[..., int]:
        @checked
        def added(number: int, twice: int = more) -> int:
            return number + more + twice

        return added

    one, two = plus(1), plus(2)
    assert (one(1), two(1), one(1), two(1, 0)) == (3, 5, 3, 3)
    for made in (one, two):
        with pytest.raises(TypeCheckError, match="added"):
            made("1")


@pytest.mark.usefixtures("unchecked")
def test_unchecked_is_what_users_get() -> None:
    with pytest.raises(ValueError, match="edges: expected integers"):
        Graph(np.zeros((2, 1)), np.array([[0.0, 1.0]]))
