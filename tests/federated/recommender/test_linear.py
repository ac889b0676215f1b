"""Roots and solutions of small matrices, many side by side."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.federated.recommender.linear import root, solve

ROWS = jax.random.normal(jax.random.key(0), (40, 7, 5))


@pytest.mark.parametrize("rank", [2, 7])
def test_a_root_squares_to_its_matrix(rank: int) -> None:
    rows = ROWS[:, :rank]
    gram = jnp.einsum("nij,nik->njk", rows, rows)
    compiled = jax.jit(jax.vmap(root))
    for unit in (1.0, 2.0**-13, 2.0**13):  # of the rows: which pivots are zero does not depend on it
        found = compiled(unit**2 * gram) / unit
        np.testing.assert_allclose(jnp.einsum("nij,nik->njk", found, found), gram, atol=1e-4)
    assert not np.any(root(jnp.zeros((3, 3))))


def test_a_solution_solves() -> None:
    gram = jnp.einsum("nij,nik->njk", ROWS, ROWS) + 0.1 * jnp.eye(5)
    found = jax.jit(jax.vmap(solve))(gram, ROWS[:, 0])
    np.testing.assert_allclose(jnp.einsum("nij,nj->ni", gram, found), ROWS[:, 0], atol=1e-4)
