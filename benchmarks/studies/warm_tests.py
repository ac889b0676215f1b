"""Tests that are collected once, in a process that forks for every change of the code they test.

To import JAX, the package and its tests takes longer than most tests. A process may be forked while JAX has computed
nothing, since it has started no threads then: test modules that compute when they are read are left for the forks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.studies.swapped_code import NotSwapped, swap

EVERY = 0.05
"""Seconds between looks at a process."""


class Outcome(NamedTuple):
    """What tests said of a change.

    Attributes:
      fate: ``killed``, ``survived``, ``timed out``, or ``unknown`` where it cannot be made without a fresh import.
      tests: the one that failed.
    """

    fate: str
    tests: tuple[str, ...] = ()


class WarmTests:
    """Tests of a folder, ready to run on changed code."""

    def __init__(self, root: Path, folder: str) -> None:
        """Args:
        root: the checkout.
        folder: of tests, in it.
        """
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.studies.warm_tests", folder],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.tests: frozenset[str] = frozenset(self._read())
        """Their names, and the files of those that were not collected."""

    def run(self, path: Path, source: str, tests: Sequence[str], seconds: float) -> Outcome:
        """Run tests in turn until one fails.

        Args:
          path: the file that is changed.
          source: what stands in it instead.
          tests: names of tests, or of files.
          seconds: time for all of them.
        """
        assert self.process.stdin is not None
        job = {"path": str(path), "source": source, "tests": list(tests), "seconds": seconds}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        fate, failed = self._read()
        return Outcome(fate, tuple(failed))

    def close(self) -> None:
        """End the process."""
        self.process.communicate()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process that collects tests has ended")
        return json.loads(line)


class Server:
    """A plugin of pytest that runs the tests it collected as it is told, in forks."""

    def __init__(self, jobs: Any, answers: Any) -> None:
        self.jobs, self.answers = jobs, answers
        self.late, self.failed = dict[str, pytest.Collector](), list[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """A module that could not be read without computing is read by the forks."""
        report = yield
        if report.failed:
            self.late[report.nodeid] = collector
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what failed."""
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer one job after another."""
        _computing(allowed=True)
        self._answer([*(item.nodeid for item in session.items), *self.late])
        for line in self.jobs:
            self._answer(self._forked(session, json.loads(line)))
        return True

    def _answer(self, value: Any) -> None:
        self.answers.write(json.dumps(value) + "\n")
        self.answers.flush()

    def _forked(self, session: pytest.Session, job: dict[str, Any]) -> Any:
        read, write = os.pipe()
        child, limit = os.fork(), time.monotonic() + job["seconds"]
        if not child:
            try:
                os.setpgid(0, 0)
                os.write(write, json.dumps(self._judged(session, job)).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            while not os.waitpid(child, os.WNOHANG)[0]:
                if time.monotonic() > limit:
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    return ["timed out", []]
                time.sleep(EVERY)
            text = answer.read()
        return json.loads(text) if text else ["killed", job["tests"][:1]]  # it died, without a word

    def _judged(self, session: pytest.Session, job: dict[str, Any]) -> Any:
        try:
            swap(Path(job["path"]), job["source"])
        except NotSwapped:
            return ["unknown", []]
        items = {item.nodeid: item for item in session.items}
        files = {test.partition("::")[0] for test in job["tests"]}
        late = sorted(files.intersection(self.late))
        if late:
            for file in late:  # what was read of it, up to where it computes
                sys.modules.pop(file.removesuffix(".py").replace("/", "."), None)
            # By the same node: fixtures of the folders above belong to the nodes that were collected with them.
            found = [item for file in late for item in session.genitems(self.late[file])]
            session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=found)
            items |= {item.nodeid: item for item in found}
        by_file = dict[str, list[str]]()
        for name in items:
            by_file.setdefault(name.partition("::")[0], []).append(name)
        names = dict.fromkeys(name for test in job["tests"] for name in by_file.get(test, [test]))
        chosen = [items[name] for name in names if name in items]
        self.failed.clear()
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return ["killed", self.failed[:1]]
        return ["survived", []]


def _computing(*, allowed: bool) -> None:
    """Let JAX compute, or refuse it."""
    from jax._src import xla_bridge

    if not allowed:
        refused.append(xla_bridge.backends)
        xla_bridge.backends = _refused
    elif refused:
        xla_bridge.backends = refused.pop()


refused: list[Any] = []
"""JAX's own function, while ``_refused`` is in its place."""


def _refused(*_: Any, **__: Any) -> Any:
    raise RuntimeError("this module computes when it is read")


def main(folder: str) -> None:
    """Serve the tests of a folder: jobs on standard input, answers on standard output, a JSON line each."""
    jobs, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # pytest's own words
    _computing(allowed=False)
    options = ["-q", "-n0", "-Wignore", "-m", "not slow", "-p", "no:cacheprovider"]
    pytest.main([*options, "--continue-on-collection-errors", folder], plugins=[Server(jobs, answers)])


if __name__ == "__main__":
    main(sys.argv[1])
