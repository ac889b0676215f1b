"""The recursion's benchmark at a tiny size: both ways give the same states, and rows say what was run."""

from __future__ import annotations

import json

from typer.testing import CliRunner

import recursion_speed


def test_speed_alone() -> None:
    found = CliRunner().invoke(recursion_speed.app, ["--datasets", "", "--nodes", "4", "--width", "5"])
    assert found.exit_code == 0, found.output
    row = json.loads(found.output)
    assert row["nodes"] == 4 and row["ratio"] == row["kronecker"] / row["pinv"]
