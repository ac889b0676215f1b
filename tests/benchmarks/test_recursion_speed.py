"""The recursion's benchmark at a tiny size: both ways give the same states, and rows say what was run."""

from __future__ import annotations

import json

import numpy as np
from models import flat
from typer.testing import CliRunner

from benchmarks.speed import recursion_speed
from jgleak.features import FeatureSpace, real
from jgleak.graph import Graph


def test_speed_alone() -> None:
    found = CliRunner().invoke(recursion_speed.app, ["--datasets", "", "--nodes", "4", "--width", "5"])
    assert found.exit_code == 0, found.output
    row = json.loads(found.output)
    assert row["nodes"] == 4 and row["ratio"] == row["kronecker"] / row["pinv"]


def test_nodes_that_are_alike_need_no_full_rank() -> None:
    """A star with two equal leaves has no full row rank and comes back all the same; the page says both."""
    rows = np.random.default_rng(0).normal(size=(4, 6))
    star = Graph(np.r_[rows, rows[3:]], np.array([(0, 1), (1, 2), (1, 3), (1, 4)]), 1)
    net = flat(in_features=6, layers=2, hidden=64, last_act=True, readout="pooled", readout_widths=())
    row = recursion_speed.exactness(net, [star], FeatureSpace(tuple(real(f"x{i}") for i in range(6))))
    assert row["full_rank"] == 0.0 and row["error_full_rank"] is None
    assert (row["exact_true_mask"], row["exact_ones"]) == (1.0, 0.0)
    named = {"dataset": "star", "layers": 2, "pooling": "mean", "hidden": 64}
    page = recursion_speed.document(
        [{"host": "h", "nodes": 4, "width": 5} | recursion_speed.speed(4, 5, 1), named | row]
    )
    assert "| star, mean | 2 | 64 | 0.00 |  | 1.00 | 0.00 |" in page
