"""Rows known up to a factor become shares; what exists stays as it is, and what no schema tells is left alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.attacks.graphdlg.mixtures import mixtures
from jgleak.features import Feature, FeatureSpace

SPACE = FeatureSpace(
    (Feature("kind", ("a", "b", "c")), Feature("flag", (0, 1), kind="binary"), Feature("x", (), "real"))
)


@given(st.integers(0, 1000), st.floats(0.05, 20.0))
@settings(max_examples=30, deadline=None)
def test_every_rows_factor_of_either_sign_is_undone(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet((1.0, 1.0, 1.0), 5)
    factor = size * rng.choice([-1.0, 1.0], (5, 1))
    rows = np.concatenate([factor * shares, rng.random((5, 1)), rng.normal(size=(5, 1))], axis=1)
    found = mixtures(SPACE, rows)
    np.testing.assert_allclose(found[:, :3], shares, atol=1e-9)
    np.testing.assert_allclose(found[:, 3:], rows[:, 3:])
    np.testing.assert_allclose(mixtures(SPACE, found), found, atol=1e-9)


def test_rows_of_real_nodes_stay_with_and_without_statistics() -> None:
    x = np.array([[0, 0, 1.5], [2, 1, -3.0], [1, 0, 0.0]])
    raw = SPACE.encode(x)
    fitted = FeatureSpace(SPACE.features, mean=raw.mean(axis=0), std=raw.std(axis=0))
    for space in (SPACE, fitted):
        np.testing.assert_allclose(mixtures(space, space.encode(x)), space.encode(x), atol=1e-6)


def test_impossible_parts_are_cut() -> None:
    """A sum of zero is no negative one: the sign stays."""
    found = mixtures(
        SPACE, np.array([[2.0, -0.5, 2.0, 1.7, 9.0], [0.0, 0.0, 0.0, -0.2, 0.0], [2.0, -2.0, 0.0, 0.5, 1.0]])
    )
    np.testing.assert_allclose(found, [[0.5, 0.0, 0.5, 1.0, 9.0], [0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.5, 1.0]])
