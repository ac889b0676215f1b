"""The filter's benchmark at tiny sizes: four methods that accept the same blocks, and rows that say what was run."""

from __future__ import annotations

import json
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from benchmarks.speed import filter_methods, filter_throughput
from benchmarks.speed.filter_methods import blocked, filtered, gathered, jitted
from benchmarks.speed.filter_problem import Problem

CANDIDATES = 3000
RANK = 5


def throughput(*arguments: str) -> Result:
    small = ("--candidates", "1500", "--part", "1000", "--sample", "100", "--repeats", "1")
    return CliRunner().invoke(filter_throughput.app, [*small, *arguments])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_throughput, "peak", lambda: (1e9, "nothing"))


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.long
def test_all_methods_accept_the_same_blocks(degree: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_methods, "BLOCK", 256)  # several blocks a prefix
    problem = Problem.draw(RANK, degree, candidates=CANDIDATES, part=CANDIDATES // 2, seed=1)
    assert CANDIDATES // 2 <= problem.part < problem.candidates
    everything = np.array(list(combinations_with_replacement(range(problem.rows.shape[0]), degree)))
    assert everything.shape[0] == problem.candidates
    accepted = gathered(problem, everything)()
    planted = frozenset(map(tuple, problem.planted.tolist()))
    assert len(planted) == RANK and planted <= accepted == filtered(problem)()
    members = problem.members(*problem.pairs(np.arange(problem.part)))
    assert len(set(map(tuple, members.tolist()))) == problem.part
    assert blocked(problem)() == jitted(problem)() == gathered(problem, members)() == problem.in_part(accepted)


def test_one_object_a_method_and_a_page(quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_throughput, "RESULTS", tmp_path)
    result = throughput("--ranks", "4", "--degrees", "2", "--json", "--out")
    assert result.exit_code == 0, result.output
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [r["method"] for r in records] == ["gathered", "numpy", "jit", "filter"]
    assert all((r["rank"], r["degree"], r["accepted"]) == (4, 2, 4) for r in records)
    assert records[1]["ratio"] == records[0]["ratio_gathered"] == 1.0
    assert records[3]["operations"] == (4 + 6) * 9 + 6 and records[3]["candidates"] >= 1500
    assert "| 4 | 2 |" in (tmp_path / "filter_throughput.md").read_text()


def test_a_disagreement_is_an_error(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_throughput, "jitted", lambda problem: lambda: frozenset())
    result = throughput("--ranks", "4", "--degrees", "2")
    assert isinstance(result.exception, RuntimeError) and "jit accepts 0 candidates, 4 of them" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--ranks", "10,x"), "from 1 to 90"),
        (("--degrees", "1"), "from 2 to 6"),
        (("--candidates", "5"), "'--candidates'"),
        (("--profile", __file__), "--profile"),
    ],
)
def test_unknown_values(arguments: tuple[str, ...], hint: str) -> None:
    result = throughput(*arguments)
    assert result.exit_code == 2
    assert hint in result.stderr
