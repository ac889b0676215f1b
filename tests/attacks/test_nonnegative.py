"""Non-negative least squares: the optimum, or None."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.attacks import nonnegative


def test_the_optimum_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orthogonal columns are projected one by one; in one step there is no answer, and no exception."""
    system, right = np.eye(3)[:, :2], np.array([2.0, -1.0, 0.5])
    found = nonnegative.nonnegative(system, right, 30)
    assert found is not None
    np.testing.assert_allclose(found[0], [2.0, 0.0])
    assert found[1] == pytest.approx(np.hypot(1.0, 0.5))
    own = nonnegative.nnls
    monkeypatch.setattr(nonnegative, "nnls", lambda *given, maxiter: own(*given, maxiter=1))
    assert nonnegative.nonnegative(np.abs(np.random.default_rng(0).normal(size=(20, 10))), np.ones(20), 30) is None
