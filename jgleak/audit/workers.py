"""Work shared among processes, each with its own part of the cores."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from importlib import import_module
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from traceback import format_exception
from typing import Any, TypeVar

from jgleak.garbage import look_seldom
from jgleak.igraph_alone import import_igraph

T = TypeVar("T")

DIED = "a worker's process died, perhaps for want of memory; take fewer --workers"

MOST, EACH = 4, 8
"""Most processes by default, each of which may take a gigabyte, and fewest calls for each, since starting one takes
seconds."""


def enough(calls: int) -> int:
    """How many processes share ``calls`` by default: one for each core, within bounds, or one alone on an
    accelerator."""
    return 1 if _device() != "cpu" else most(calls)


def most(calls: int) -> int:
    """How many processes share ``calls`` by default where there is no accelerator."""
    if calls < 2 * EACH:
        return 1
    return min(len(_cores()) or os.cpu_count() or 1, calls // EACH, MOST)


class Processes:
    """Processes that wait for calls. They end with its context.

    They are spawned, so that each JAX makes one thread for each of its own cores (where the system binds processes to
    cores), and they share compiled programs. Starting takes seconds, about as long as this process takes to import JAX
    and to load data; this module imports neither, so that the others can start earlier.

    Attributes:
      number: of processes.

    Args:
      number: of processes.
      here: this process does a part of the calls, and keeps a part of the cores.
      module: the module that they import before the first call; it holds the functions to be called.
    """

    def __init__(self, number: int, *, here: bool = False, module: str = __name__) -> None:
        self.number, context = number, get_context("spawn")
        self._compiled, self._idle, self._all = TemporaryDirectory(), SimpleQueue[Connection](), list[BaseProcess]()
        for part in partition(_cores(), number + here)[here:]:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, part, self._compiled.name, module), daemon=True)
            process.start()
            theirs.close()  # so that a death ends what is read from ``ours``
            self._all.append(process)
            self._idle.put(ours)
        self._threads = ThreadPoolExecutor(number)  # each waits for one process at a time

    def submit(self, task: Callable[..., T], *call: Any) -> Future[T]:
        """Have ``task`` called. The future of a call whose process died has a ChildProcessError."""
        return self._threads.submit(self._ask, task, call)

    def _ask(self, task: Callable[..., T], call: tuple[Any, ...]) -> T:
        asked = pickle.dumps((task, call))
        process = self._idle.get()
        try:
            process.send_bytes(asked)
            answer = process.recv_bytes()
        except (EOFError, OSError) as end:
            raise ChildProcessError(DIED) from end
        finally:
            self._idle.put(process)
        value, error = pickle.loads(answer)  # of a process that this one began, through their own pipe
        if error is not None:
            raise error
        return value

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        # No process is waited for, neither one that does what was done here too, nor the second that Python takes to
        # end in each. Each has a pipe of its own, since one that is killed in the middle of an answer must keep no
        # other's from being read: a pool of concurrent.futures has one pipe for all, and waits forever there.
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._all:
            process.kill()
        for process in self._all:
            process.join()
        self._threads.shutdown()
        while not self._idle.empty():
            self._idle.get().close()
        self._compiled.cleanup()


def share(
    task: Callable[..., T],
    calls: Sequence[tuple[Any, ...]],
    workers: int,
    *,
    here: bool = False,
    started: Processes | None = None,
) -> Generator[T, None, None]:
    """What ``task`` returns for each of ``calls``, as they are done.

    ``task`` is a function of a module whose import has no effects. When the caller stops early, calls in progress are
    dropped, with ``started`` when it ends.

    Args:
      task: what to call.
      calls: its arguments.
      workers: processes.
      here: this process is one of them: it begins at once, with the last calls, while the others start.
      started: processes that were started before and share the calls with this one; they are not ended here.

    Raises:
      ValueError: JAX computes on an accelerator here, which processes cannot share.
      ChildProcessError: a process died.
      Exception: the first that ``task`` raised, when all other calls are done.
    """
    if workers > 1 and (device := _device()) != "cpu":
        raise ValueError(f"workers: processes share CPUs, and this machine computes on {device}; leave --workers out")
    failed, number = list[Exception](), min(workers - here, len(calls)) or 1
    with Processes(number, here=here) if started is None else nullcontext(started) as processes:
        futures = [processes.submit(task, *call) for call in calls]
        for future in _both(task, calls, futures) if here else as_completed(futures):
            if isinstance(error := future.exception(), Exception):
                failed.append(error)
            else:
                yield future.result()
    if failed:
        raise failed[0]


def _both(
    task: Callable[..., T], calls: Sequence[tuple[Any, ...]], futures: Sequence[Future[T]]
) -> Generator[Future[T], None, None]:
    """Calls as they are done: by the others, which begin with the first, and in this process, from the last on. As long
    as none of the others has answered, what they were given is done here too, since all may still be starting.
    """
    left, answered = dict(zip(futures, calls, strict=True)), False
    for mine in reversed(futures):
        for future in [future for future in left if future.done()]:
            del left[future]
            answered = True
            yield future
        if mine in left and (mine.cancel() or not answered):
            yield _done(task, left.pop(mine))
    yield from as_completed(left)


def _done(task: Callable[..., T], call: tuple[Any, ...]) -> Future[T]:
    """A call that was made here."""
    future = Future[T]()
    try:
        future.set_result(task(*call))
    except Exception as error:  # raised when all other calls are done
        future.set_exception(error)
    return future


def partition(cores: Sequence[int], workers: int) -> list[list[int]]:
    """The cores of each worker, as equal in number as possible; more workers than cores share them."""
    return [list(cores[i % len(cores) :: workers]) if cores else [] for i in range(workers)]


def _cores() -> list[int]:
    """The cores that this process may use; empty where the system does not bind processes to cores."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _device() -> str:
    import jax

    return jax.default_backend()


def _work(calls: Connection, cores: list[int], compiled: str, module: str) -> None:
    """Answer ``calls``, each with a value or with what it raised."""
    _begin(cores, compiled)
    import_module(module)
    if os.name == "posix":
        os.set_inheritable(calls.fileno(), False)  # what a task starts must not keep the pipe open
    while True:
        try:
            given = calls.recv_bytes()
        except EOFError:
            return
        try:
            task, call = pickle.loads(given)  # of the process that began this one
            answer = pickle.dumps((task(*call), None))
        except BaseException as error:
            answer = _carried(error)
        calls.send_bytes(answer)


def _carried(error: BaseException) -> bytes:
    """The answer that something was raised, with where; as text, where it cannot be pickled."""
    told = "".join(format_exception(error))
    error.add_note(told)
    try:
        return pickle.dumps((None, error))
    except Exception:  # whatever pickling raises
        return pickle.dumps((None, RuntimeError(told)))


def _begin(cores: list[int], compiled: str) -> None:
    look_seldom()
    import_igraph()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    threading.Thread(target=_follow, daemon=True).start()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        import jax

        jax.config.update("jax_compilation_cache_dir", compiled)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    if cores:
        os.sched_setaffinity(0, cores)


def _follow() -> None:
    """End with the parent, however it ended, since no process would read the results."""
    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)
