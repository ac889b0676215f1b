"""Where chunks run: in this process, in several of this machine, or as tasks of a Ray cluster. Only the caller stores
results."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from jgleak.audit.specification import Specification
from jgleak.audit.units import Outcome, attempt, failed
from jgleak.audit.workers import share


class Work(NamedTuple):
    """One chunk: clients attacked together, kept together.

    Attributes:
      position: position of its cell in the grid.
      specification: the cell's specification.
      firsts: the first graph of each client.
      graphs: number of graphs of all clients of the cell.
      data: digest of the data when the audit began.
      units: how many graphs these clients have.
    """

    position: int
    specification: Specification
    firsts: range
    graphs: int
    data: str
    units: int

    @property
    def call(self) -> tuple[Specification, range, int, str]:
        """Arguments of ``attempt``."""
        return self.specification, self.firsts, self.graphs, self.data


Finished = Iterator[tuple[Work, list[Outcome]]]
Engine = Callable[[Sequence[Work]], Finished]


def local(work: Sequence[Work]) -> Finished:
    """One chunk after another, in this process."""
    for chunk in work:
        yield chunk, attempt(*chunk.call)


def in_processes(workers: int) -> Engine:
    """Chunks in ``workers`` processes of this machine, each on its part of the cores, in the order in which they
    finish.

    Raises:
      ValueError: when the engine starts, JAX computes on an accelerator, which processes cannot share.
      ChildProcessError: a process died; chunks that were yielded are done.
    """

    def run(work: Sequence[Work]) -> Finished:
        for place, outcomes in share(_attempt, list(enumerate(work)), workers):
            yield work[place], outcomes

    return run


def _attempt(place: int, chunk: Work) -> tuple[int, list[Outcome]]:
    return place, attempt(*chunk.call)


def on_ray(workers: int | None = None) -> Engine:
    """Chunks as Ray tasks, in the order in which they finish.

    With ``RAY_ADDRESS`` set they run on that cluster, whose nodes need jgleak and the data under the same paths;
    otherwise on a cluster of this machine, which ends with the audit. A task takes one processor, and one GPU where the
    cluster has any. Ray retries a task whose worker died; if that fails, its units have failed.

    Args:
      workers: most tasks at a time; None for as many as the cluster has processors.

    Raises:
      ValueError: Ray is not installed; when the engine starts, there is no cluster at the address.
    """
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ValueError('engine: ray is not installed; pip install "jgleak[ray]"') from error
    return partial(_on_cluster, ray, workers)


def _on_cluster(ray: Any, workers: int | None, work: Sequence[Work]) -> Finished:
    own = "RAY_ADDRESS" not in os.environ
    try:
        with warnings.catch_warnings():
            # Ray starts processes by fork and, at once, exec: JAX's warning of a fork that goes on is not about that.
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            ray.init(**({"num_cpus": workers, "include_dashboard": False} if own else {}), log_to_driver=False)
    except (ConnectionError, RuntimeError) as error:
        raise ValueError(f"engine: no Ray cluster could be reached ({error}); look at RAY_ADDRESS") from error
    try:
        gpus = 1 if ray.cluster_resources().get("GPU") else 0
        task = ray.remote(num_cpus=1, num_gpus=gpus)(attempt)
        most = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting, running = list(reversed(work)), {}
        while waiting or running:
            while waiting and len(running) < most:
                chunk = waiting.pop()
                running[task.remote(*chunk.call)] = chunk
            done, _ = ray.wait(list(running), num_returns=1)
            chunk = running.pop(done[0])
            yield chunk, _collected(ray, done[0], chunk)
    finally:
        ray.shutdown()


def _collected(ray: Any, reference: Any, chunk: Work) -> list[Outcome]:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return failed(chunk.specification, chunk.firsts, chunk.graphs, f"the Ray worker died: {error}")
