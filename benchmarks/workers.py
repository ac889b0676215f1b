"""Work shared among processes, each with its own part of the cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.queues import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import jax

T = TypeVar("T")


def share(task: Callable[..., T], calls: Sequence[tuple[Any, ...]], workers: int) -> Generator[T, None, None]:
    """What ``task`` returns for each of ``calls``, as they are done.

    Processes start anew, so that each JAX makes a thread a core of its own, and share what they compile. ``task`` is a
    function of a module, which imports without doing anything. When the caller leaves early, what was begun is
    dropped.

    Raises:
      BrokenProcessPool: a process died.
    """
    context = get_context("spawn")
    parts: SimpleQueue[list[int]] = context.SimpleQueue()
    for part in _parts(workers):
        parts.put(part)
    others = set(active_children())
    with (
        TemporaryDirectory() as compiled,
        ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(parts, compiled)) as pool,
    ):
        futures = [pool.submit(task, *call) for call in calls]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            if not all(future.done() for future in futures):
                for process in set(active_children()) - others:
                    process.terminate()


def _parts(workers: int) -> list[list[int]]:
    """Cores a worker; more workers than cores share them."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [cores[i % len(cores) :: workers] if cores else [] for i in range(workers)]


def _begin(parts: SimpleQueue[list[int]], compiled: str) -> None:
    jax.config.update("jax_compilation_cache_dir", compiled)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    if cores := parts.get():
        os.sched_setaffinity(0, cores)
    threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    """End with the parent, however it ended: nobody would read what comes."""
    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)
