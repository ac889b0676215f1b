"""Work shared among processes: all of it is done, each process on its own cores, and a death is told."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from jgleak.audit import workers
from jgleak.audit.specification import Specification
from jgleak.audit.workers import Processes, enough, most, partition, share
from jgleak.cli.attack import _others


@pytest.mark.parametrize("here", [False, True])
def test_all_calls_are_answered_once(here: bool) -> None:
    assert sorted(share(pow, [(base, 2) for base in range(6)], 2, here=here)) == [0, 1, 4, 9, 16, 25]


def test_this_process_does_not_wait_until_the_others_have_started(tmp_path: Path) -> None:
    """It does all of what is quick, and of what is slow the last call, while another does the first."""
    assert set(share(os.getpid, [()] * 6, 2, here=True)) == {os.getpid()}
    found = dict(share(_answered, [(tmp_path, call) for call in range(8)], 2, here=True))
    assert sorted(found) == list(range(8))
    assert found[7] == os.getpid() != found[0]


def _answered(folder: Path, call: int) -> tuple[int, int]:
    """The call and who did it; the last one lasts until the first is long done."""
    (folder / str(call)).touch()
    begun = time.monotonic()
    while call == 7 and not (folder / "0").exists() and time.monotonic() - begun < 60:
        time.sleep(0.01)
    time.sleep(0.5 * (call == 7))
    return call, os.getpid()


def test_calls_that_wait_behind_one_that_lasts_are_done_here(tmp_path: Path) -> None:
    """Here they are done before that one ends."""
    found = list(share(_long_second, [(tmp_path, call) for call in range(6)], 2, here=True))
    assert sorted(call for call, _ in found) == list(range(6))
    assert found[-1][0] == 1 and dict(found)[1] != os.getpid()
    assert all(who == os.getpid() for call, who in found if call > 1)


def _long_second(folder: Path, call: int) -> tuple[int, int]:
    """The call and who did it. The last one waits for the second to begin, which lasts until all others are done."""
    (folder / f"begun {call}").touch()
    wanted = {1: [f"done {other}" for other in (2, 3, 4, 5)], 5: ["begun 1"]}.get(call, [])
    begun = time.monotonic()
    while not all((folder / name).exists() for name in wanted) and time.monotonic() - begun < 60:
        time.sleep(0.01)
    (folder / f"done {call}").touch()
    return call, os.getpid()


def test_unasked_there_are_as_many_processes_as_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_cores", lambda: list(range(64)))
    assert [enough(calls) for calls in (0, 1, 15, 16, 24, 1000)] == [1, 1, 1, 2, 3, 4]
    monkeypatch.setattr(workers, "_cores", lambda: [5])
    assert enough(1000) == 1
    monkeypatch.setattr(workers, "_cores", list)  # a system that does not bind processes to cores
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert enough(1000) == 3
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    assert enough(1000) == 1
    assert most(1000) == 3


def test_processes_start_before_there_are_calls_and_end_with_their_context() -> None:
    with Processes(1, module="colorsys") as started:
        first = started.submit(_loaded, "colorsys").result()
        found = list(share(_loaded, [("colorsys",), ("tabnanny",)], 1, started=started))
        assert first[0] != os.getpid() and first[1]
        assert sorted(found) == [(first[0], False), first]  # it is the same process, and has imported no more
    with pytest.raises(ProcessLookupError):
        os.kill(first[0], 0)


def _loaded(module: str) -> tuple[int, bool]:
    return os.getpid(), module in sys.modules


def test_processes_without_calls_are_not_waited_for() -> None:
    begun = time.monotonic()
    with Processes(1) as started:
        started.submit(time.sleep, 60)
    assert time.monotonic() - begun < 50


def test_processes_that_died_are_told() -> None:
    with Processes(1) as started:
        with pytest.raises(ChildProcessError, match="fewer --workers"):
            started.submit(os._exit, 1).result()
        with pytest.raises(ChildProcessError, match="fewer --workers"):
            list(share(pow, [(2, 3)], 1, started=started))


def test_processes_end_in_the_middle_of_what_they_answer() -> None:
    """An answer that is half written when its process ends keeps nobody waiting, neither its context nor Python."""
    code = """
import time
from jgleak.audit.workers import Processes

if __name__ == "__main__":
    with Processes(2) as started:
        calls = [started.submit(bytes, 200_000) for _ in range(400)]
        calls[2].result()
    print(sum(call.cancelled() for call in calls) > 300, all(call.done() for call in calls))
"""
    for _ in range(3):
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
        assert told.stdout == "True True\n"


def test_what_cannot_be_carried_over_costs_no_other() -> None:
    with Processes(1) as started:
        with pytest.raises(Exception, match="pickle"):
            started.submit(pow, lambda: 2, 3).result()
        with pytest.raises(Exception, match="pickle"):
            started.submit(iter, (lambda: 2).__call__, 3).result()
        with pytest.raises(RuntimeError, match="holds what cannot be pickled"):
            started.submit(_raise_unpicklable).result()
        with pytest.raises(EOFError, match="Ran out of input"):
            started.submit(pickle.loads, b"").result()
        with pytest.raises(SystemExit):
            started.submit(sys.exit, 3).result()
        with pytest.raises(ValueError, match="invalid literal") as told:
            started.submit(int, "two").result()
        assert "in _work" in "".join(told.value.__notes__)
        assert started.submit(pow, 2, 3).result() == 8


def _raise_unpicklable() -> None:
    raise ValueError("holds what cannot be pickled", lambda: 2)


def test_starting_imports_no_jax() -> None:
    """The command starts the others before it imports JAX."""
    code = "import sys, jgleak.audit.workers, jgleak.cli.attack; print('jax' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two cores to choose from"
)
def test_a_worker_has_its_own_part_of_the_cores() -> None:
    whole = os.sched_getaffinity(0)
    for part in share(os.sched_getaffinity, [(0,)] * 8, 2):
        assert len(part) <= (len(whole) + 1) // 2
        assert part < whole
    assert os.sched_getaffinity(0) == whole


@pytest.mark.parametrize(("cores", "number"), [([0, 1], 2), ([3, 5, 6, 7, 9], 2), ([0, 1, 2], 3), ([4], 1)])
def test_every_core_is_of_one_worker(cores: list[int], number: int) -> None:
    parts = partition(cores, number)
    assert sorted(core for part in parts for core in part) == cores
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_more_workers_than_cores_share_them() -> None:
    assert partition([2, 3], 3) == [[2], [3], [2]] and partition([], 2) == [[], []]


@pytest.mark.parametrize("here", [False, True])
def test_a_call_that_fails_costs_no_other(here: bool) -> None:
    calls, found = share(pow, [(2, 3), ("two", 3), (3, 2)], 1, here=here), []
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


@pytest.mark.parametrize(
    ("fields", "workers", "number"),
    [
        ({}, None, 1),
        ({"graphs": 100}, 2, 1),
        ({"graphs": 15}, None, 0),
        ({"graphs": 33, "batch_size": 2}, 40, 16),
        ({}, 64, 0),
        ({"attack": "dlg"}, None, 0),
        ({"attack": "random", "graphs": 100}, 4, 0),
        ({"graphs": 1}, 2, 0),
    ],
)
def test_the_command_starts_as_many_as_have_clients(
    fields: dict[str, Any], workers: int | None, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before data are loaded: no more than clients can be, and none for attacks that take all clients side by side."""
    made: list[int] = []
    monkeypatch.setattr("jgleak.audit.workers._cores", lambda: [0, 1])
    monkeypatch.setattr("jgleak.audit.workers.Processes", lambda number, **_: made.append(number) or nullcontext())
    given: dict[str, Any] = {"attack": "census"} | fields
    _others(Specification(**given), workers)
    assert made == [number] * (number > 0)
