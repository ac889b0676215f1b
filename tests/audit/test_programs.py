"""Compiled programs are forgotten before the system has no room for their code."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from jgleak.audit import programs
from jgleak.audit.experiment import run
from jgleak.audit.recommender.setup import prepare
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.training import learn
from jgleak.audit.specification import Specification

LINUX = pytest.mark.skipif(not programs.MAPPED.exists(), reason="this system does not tell a process's mappings")


def count() -> int:
    with programs.MAPPED.open("rb") as lines:
        return sum(1 for _ in lines)


@LINUX
@pytest.mark.long
def test_forgetting_gives_mappings_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New programs map their code; below the limit they stay, above it they go, and work goes on."""
    double = jax.jit(lambda x: jnp.sin(x) @ x.T + 2 * x.sum())
    monkeypatch.setattr(programs, "ALLOWED", tmp_path / "allowed")
    before = count()
    programs.ALLOWED.write_text(f"{4 * before + 4000}\n")
    for size in range(3, 23):
        double(jnp.ones((size, size))).block_until_ready()
    grown = count()
    assert grown >= before + 20 and not programs.forget_programs() and count() >= grown
    programs.ALLOWED.write_text(f"{grown}\n")
    assert programs.forget_programs()
    assert count() <= grown - 20
    assert float(double(jnp.ones((3, 3)))[0, 0]) == pytest.approx(3 * float(jnp.sin(1.0)) + 18)


def test_a_system_that_does_not_tell_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "ALLOWED", tmp_path / "nothing here")
    assert not programs.forget_programs()


@LINUX
def test_every_chunk_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hardly a mapping allowed each client starts afresh, and results are the same."""
    specification = Specification(attack="random", graphs=2, know=("n",))
    usual = [result.score for result in run(specification)]
    cleared: list[int] = []
    monkeypatch.setattr(programs, "ALLOWED", tmp_path / "allowed")
    programs.ALLOWED.write_text("10\n")
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(1))
    assert [result.score for result in run(specification)] == usual
    assert len(cleared) == 2


@LINUX
def test_every_training_of_a_recommender_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some sixty trainings took all mappings that a process may have."""
    specification = RecommenderSpecification(dataset="synthetic-ratings", method="bias")
    setup = prepare(specification)
    cleared: list[int] = []
    monkeypatch.setattr(programs, "ALLOWED", tmp_path / "allowed")
    programs.ALLOWED.write_text("10\n")
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(1))
    list(learn(specification, setup))
    assert len(cleared) == 1


@LINUX
def test_mappings_are_counted_again_only_after_a_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs.forget_programs()
    monkeypatch.setattr(programs, "MAPPED", tmp_path / "maps")
    programs.MAPPED.write_text("")
    programs._mapped.cache_clear()
    assert not programs.forget_programs()
    programs.MAPPED.write_text("\n" * int(programs.ALLOWED.read_text()))
    assert not programs.forget_programs()
    jax.jit(lambda x: x - 17)(jnp.ones(19)).block_until_ready()
    assert programs.forget_programs()
