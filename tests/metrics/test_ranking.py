"""Ranking measures beside scikit-learn's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from jgleak.metrics.ranking import average_precision, roc_auc


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=40))
def test_both_are_scikit_learns(scored: list[tuple[bool, int]]) -> None:
    """On few different scores, so that most are tied."""
    truth, scores = np.array([edge for edge, _ in scored]), np.array([float(score) for _, score in scored])
    assume(0 < truth.sum() < truth.size)
    parts = scores[truth], scores[~truth]
    assert roc_auc(*parts) == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    assert average_precision(*parts) == pytest.approx(average_precision_score(truth, scores), abs=1e-12)


def test_undefined_measures_are_nan() -> None:
    """Without edges neither is defined, and where every pair is an edge the area is not."""
    some, none = np.array([0.5, 1.0]), np.zeros(0)
    assert np.isnan([roc_auc(none, some), average_precision(none, some), roc_auc(some, none)]).all()
    assert average_precision(some, none) == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for parts in ((none, some), (some, none), (none, none)):
            assert np.isnan(roc_auc(*parts)) and np.isnan(average_precision(none, parts[1]))
