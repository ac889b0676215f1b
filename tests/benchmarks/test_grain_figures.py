"""GRAIN's figures: ranks by closed forms, counts by brute force."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.papers.grain import figures as grain_figures
from benchmarks.papers.grain import plots as grain_plots
from benchmarks.papers.grain import threshold as grain_threshold
from benchmarks.papers.grain.rank import independent, of_chance, of_graphs, slopes
from benchmarks.papers.grain.threshold import of_clients
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.federated import fedsgd
from jgleak.graph import Graph

SMALL = Specification(dataset="embedded", graphs=2, max_nodes=6, hidden=100)


def test_rows_that_are_no_combination_of_the_others() -> None:
    """Two equal rows hide each other; the rest stays; a path of two has equal rows of A + I, one of three has not."""
    assert independent(np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])).tolist() == [False, False, True, True]
    assert independent(np.eye(3)).all() and not independent(np.zeros((2, 2))).any()
    paths = [Graph(np.zeros((n, 1), np.int32), np.c_[np.arange(n - 1), np.arange(1, n)], 0) for n in (2, 3, 3, 5)]
    found = of_graphs(paths, {})  # the path of n is singular where n + 1 is a multiple of 3
    assert (found["nodes"], found["graphs"], found["full"]) == ([2, 3, 5], [1, 2, 1], [0.0, 1.0, 0.0])
    assert found["held"] == pytest.approx([0.0, 1.0, 1 / 5])
    assert of_chance(1.0, [3], 2, {})["held"] == [0.0] and of_chance(0.0, [3], 2, {})["full"] == [1.0]


def test_blocks_of_a_graph_are_told_apart_by_codes() -> None:
    path = Graph(np.array([[1], [2], [1]], np.int32), np.array([[0, 1], [1, 2]]), 0)
    assert grain_threshold._blocks(path) == {((1,), ((2,),)), ((2,), ((1,), (1,)))}


@pytest.mark.slow
def test_slopes_times_rows_are_the_gradient() -> None:
    setup = prepare(SMALL)
    graph = setup.dataset.graphs[0]
    first, second = slopes(setup, graph)
    assert first.shape == second.shape == (graph.n, 100)
    update = fedsgd(setup.model, setup.params, [graph], setup.dataset.space, loss=setup.loss).update
    rows = setup.dataset.space.encode(graph.x)
    assert rows.T @ first == pytest.approx(np.asarray(update["layers_0"]["conv"]["kernel"]), abs=1e-5)


@pytest.mark.slow
def test_all_true_nodes_and_blocks_pass_a_loose_threshold_and_none_a_tight_one() -> None:
    setup = prepare(dataclasses.replace(SMALL, graphs=15, max_nodes=9))
    regular = next(graph for graph in setup.dataset.graphs if independent(graph.adjacency + np.eye(graph.n)).all())
    (client,) = of_clients(setup._replace(dataset=dataclasses.replace(setup.dataset, graphs=[regular])), {})["clients"]
    shares = [share for _, share in client["blocks"]]
    assert shares == sorted(shares) and shares[-1] == 1.0 and shares[0] < 1.0
    assert client["nodes"][-1][1] == 1.0 and len(client["nodes"]) < len(client["blocks"])


def test_curves_are_written_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.lib.records.RESULTS", tmp_path)
    monkeypatch.setattr(grain_figures, "SIZES", range(2, 5))
    result = CliRunner().invoke(grain_figures.app, ["--figures", "3b-random-0.3", "--graphs", "4", "--write"])
    assert result.exit_code == 0, result.output
    (line,) = (tmp_path / "grain_figures.jsonl").read_text().splitlines()
    assert json.loads(line)["graphs"] == [4, 4, 4] and "command" in json.loads(line)
    assert "| random, p = 0.3: full rank |" in (tmp_path / "grain_figures.md").read_text()
    drawn = CliRunner().invoke(
        grain_plots.app, ["--source", str(tmp_path / "grain_figures.jsonl"), "--out", str(tmp_path / "all.svg")]
    )
    assert drawn.exit_code == 0 and (tmp_path / "all.svg").stat().st_size > 1000
