"""The headline numbers and their summary."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from jgleak.graph import Graph
from jgleak.metrics import Score, gsm, rate, score, summarise

from .graphs import REAL, SPACE, path


def test_exact_reconstruction() -> None:
    truth = path(0, 1, 2, 2)
    result = score(truth, truth.permute(np.array([2, 0, 3, 1])), SPACE)
    assert result.exact
    assert [result.gsm0, result.gsm1, result.gsm2, result.gsm0_recall] == pytest.approx([1.0] * 4, abs=1e-9)


def test_nothing_recovered() -> None:
    assert score(path(0, 1), None, SPACE) == Score(False, 0.0, 0.0, 0.0, 0.0)


def test_partial_reconstruction_carries_the_gsm_values() -> None:
    truth, part = path(0, 1, 2), path(0, 1)
    result, parts = score(truth, part, SPACE), gsm(truth, part, SPACE)
    assert not result.exact
    assert (result.gsm0, result.gsm1, result.gsm2) == (parts.gsm0, parts.gsm1, parts.gsm2)


def test_tolerance_reaches_exact() -> None:
    x = np.array([[0.25, 1.0], [2.0, 3.0]])
    truth, near = Graph(x, np.array([[0, 1]])), Graph(x + 1e-7, np.array([[0, 1]]))
    assert not score(truth, near, REAL).exact
    assert score(truth, near, REAL, tolerance=1e-6).exact


def test_summary() -> None:
    scores = [Score(True, 1.0, 1.0, 1.0, 1.0)] * 3 + [Score(False, 0.2, 0.0, 0.1, 0.3)]
    summary = summarise(scores)
    assert summary["count"] == 4 and summary["exact_rate"] == 0.75
    assert summary["gsm0"]["mean"] == pytest.approx(0.8)
    for name in ("exact", "gsm0", "gsm1", "gsm2", "gsm0_recall"):
        assert summary[name]["low"] <= summary[name]["mean"] <= summary[name]["high"]
    assert summarise(scores) == summary
    pairs = summarise(scores, clusters="aabb")
    assert pairs["exact"] == dataclasses.asdict(rate([1.0, 1.0, 1.0, 0.0], clusters="aabb")) != summary["exact"]
    assert pairs["gsm0"] == dataclasses.asdict(rate([1.0, 1.0, 1.0, 0.2], clusters="aabb"))
    json.dumps(summary, allow_nan=False)


def test_summary_leaves_out_what_is_undefined() -> None:
    graph = Graph(np.array([[1.0, 2.0]]), np.zeros((0, 2), int))
    summary = summarise([score(graph, graph, REAL), score(graph, None, REAL)])
    assert "gsm0_recall" not in summary and summary["gsm0"]["mean"] == 0.5


def test_the_seed_that_is_given_draws_as_many_resamples_as_are_asked_for() -> None:
    scores = [Score(False, *values) for values in np.random.default_rng(0).random((8, 4)).tolist()]
    assert summarise(scores, seed=3) == summarise(scores, seed=3) != summarise(scores, seed=4)
    assert summarise(scores, resamples=2) != summarise(scores)


def test_nothing_to_summarise() -> None:
    with pytest.raises(ValueError, match="at least one graph"):
        summarise([])
