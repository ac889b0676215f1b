"""GLG's Figure 2: which child of the dummy tree stands for which neighbour, and what is written of it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.papers.glg import neighbours


def test_the_matching_has_the_least_sum_of_errors() -> None:
    rng = np.random.default_rng(0)
    rows, found = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    errors = neighbours.matched(rows, found)

    def total(order: tuple[int, ...]) -> float:
        return float(np.sum(np.linalg.norm(rows - found[list(order)], axis=1) / np.linalg.norm(rows, axis=1)))

    assert errors.sum() == pytest.approx(min(map(total, itertools.permutations(range(5)))))
    np.testing.assert_allclose(neighbours.matched(rows, rows[::-1]), 0.0)
    np.testing.assert_allclose(neighbours.matched(rows, 0.0 * rows), 1.0)


@pytest.mark.long
def test_targets_have_neighbours_and_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.lib.records.RESULTS", tmp_path)
    arguments = ["--sets", "synthetic-glg", "--targets", "2", "--steps", "500", "--write"]
    result = CliRunner().invoke(neighbours.app, arguments)
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "glg_neighbours.jsonl").read_text())
    assert record["set"] == "synthetic-glg" and len(record["targets"]) == 2 and "command" in record
    for one in record["targets"]:
        assert 1 <= one["neighbours"] == len(one["errors"]) <= neighbours.MOST
        assert one["target"] < 0.1 and np.mean(one["errors"]) < 0.9, "zeros have 1"
    lines = (tmp_path / "glg_neighbours.md").read_text().splitlines()
    assert len([line for line in lines if line.startswith("| synthetic |")]) == 3
