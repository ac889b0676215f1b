"""Work shared among processes, each with its own part of the cores."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.queues import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import jax

T = TypeVar("T")

DIED = "a worker's process died, perhaps for want of memory; take fewer --workers"


def share(task: Callable[..., T], calls: Sequence[tuple[Any, ...]], workers: int) -> Generator[T, None, None]:
    """What ``task`` returns for each of ``calls``, as they are done.

    Processes start anew, so that each JAX makes a thread a core of its own (where the system binds processes to cores),
    and share what they compile. ``task`` is a function of a module, which imports without doing anything. When the
    caller leaves early, what was begun is dropped.

    Raises:
      ValueError: JAX computes on an accelerator here, which processes cannot share.
      ChildProcessError: a process died.
      Exception: the first that ``task`` raised, when all other calls are done.
    """
    if workers > 1 and (device := jax.default_backend()) != "cpu":
        raise ValueError(f"workers: processes share CPUs, and this machine computes on {device}; leave --workers out")
    context, failed = get_context("spawn"), list[Exception]()
    workers = min(workers, len(calls)) or 1
    parts: SimpleQueue[list[int]] = context.SimpleQueue()
    for part in partition(_cores(), workers):
        parts.put(part)
    others, futures = set(active_children()), list[Future[T]]()
    with (
        TemporaryDirectory() as compiled,
        ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(parts, compiled)) as pool,
    ):
        try:
            futures += [pool.submit(task, *call) for call in calls]
            for future in as_completed(futures):
                if isinstance(error := future.exception(), Exception):
                    failed.append(error)
                else:
                    yield future.result()
        finally:
            if len(futures) < len(calls) or not all(future.done() for future in futures):
                for process in set(active_children()) - others:
                    process.terminate()
    for error in failed:
        raise ChildProcessError(DIED) if isinstance(error, BrokenProcessPool) else error


def partition(cores: Sequence[int], workers: int) -> list[list[int]]:
    """Cores a worker, as equal as can be; more workers than cores share them."""
    return [list(cores[i % len(cores) :: workers]) if cores else [] for i in range(workers)]


def _cores() -> list[int]:
    """Those this process may use; empty where the system does not bind processes to cores."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _begin(parts: SimpleQueue[list[int]], compiled: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us ends us
    threading.Thread(target=_follow, daemon=True).start()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", compiled)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    if cores := parts.get():
        os.sched_setaffinity(0, cores)


def _follow() -> None:
    """End with the parent, however it ended: nobody would read what comes."""
    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)
