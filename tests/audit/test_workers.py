"""Work shared among processes: all of it is done, each process on its own cores, and a death is told."""

from __future__ import annotations

import os
import time

import pytest

from jgleak.audit.workers import partition, share


def test_all_calls_are_answered() -> None:
    assert sorted(share(pow, [(base, 2) for base in range(6)], 2)) == [0, 1, 4, 9, 16, 25]


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two cores to choose from"
)
def test_a_worker_has_its_own_part_of_the_cores() -> None:
    whole = os.sched_getaffinity(0)
    for part in share(os.sched_getaffinity, [(0,)] * 8, 2):
        assert len(part) <= (len(whole) + 1) // 2
        assert part < whole
    assert os.sched_getaffinity(0) == whole


@pytest.mark.parametrize(("cores", "workers"), [([0, 1], 2), ([3, 5, 6, 7, 9], 2), ([0, 1, 2], 3), ([4], 1)])
def test_every_core_is_of_one_worker(cores: list[int], workers: int) -> None:
    parts = partition(cores, workers)
    assert sorted(core for part in parts for core in part) == cores
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_more_workers_than_cores_share_them() -> None:
    assert partition([2, 3], 3) == [[2], [3], [2]] and partition([], 2) == [[], []]


def test_a_call_that_fails_costs_no_other() -> None:
    calls, found = share(pow, [(2, 3), ("two", 3), (3, 2)], 1), []
    with pytest.raises(TypeError):
        found.extend(calls)
    assert sorted(found) == [8, 9]


def test_a_worker_that_dies_is_told() -> None:
    with pytest.raises(ChildProcessError, match="fewer --workers"):
        list(share(os._exit, [(1,)], 1))


def test_accelerators_are_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    with pytest.raises(ValueError, match="workers: processes share CPUs, and this machine computes on gpu"):
        next(share(pow, [(2, 3)], 2))


def test_who_leaves_early_waits_for_nothing() -> None:
    begun, calls = time.monotonic(), share(time.sleep, [(0,), (60,), (60,), (60,)], 1)
    next(calls)
    calls.close()
    assert time.monotonic() - begun < 50
