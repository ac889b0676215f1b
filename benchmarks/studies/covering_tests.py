"""Which tests run a line, by what ``coverage`` recorded: ``pytest --cov=jgleak --cov-context=test``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path


class CoveringTests:
    """The tests that ran each line.

    A line that JAX traces is run by the first test that compiles it, and a value that tests keep is made by the first
    that asks for it. Later tests use it without running the line, so that those of the same file have to be run too
    where all others pass.
    """

    def __init__(self, data: Path) -> None:
        """Args:
        data: the file that ``coverage`` wrote (``.coverage``), of the same lines of code.

        Raises:
          FileNotFoundError: there is none.
        """
        if not data.is_file():
            raise FileNotFoundError(f"{data}: no data of coverage; pytest --cov=jgleak --cov-context=test writes them")
        self.data = data

    def tests(self, source: Path, line: int, root: Path) -> list[str]:
        """Those that ran the statement on a line, as pytest names them.

        Args:
          source: the file, under ``root``.
          line: from 1.
          root: the repository.
        """
        contexts = self._contexts.get(source.relative_to(root).as_posix(), {})
        found = {context for one in _statement(source, line) for context in contexts.get(one, ())}
        return sorted({context.rpartition("|")[0] for context in found if context})

    @cached_property
    def _contexts(self) -> Mapping[str, Mapping[int, list[str]]]:
        """Contexts by file in the repository and line."""
        from coverage import CoverageData  # of the `test` extra: no other command needs it

        data = CoverageData(str(self.data))
        data.read()
        files = {file: Path(file).parts for file in data.measured_files()}
        names = {file: "/".join(parts[len(parts) - parts[::-1].index("jgleak") - 1 :]) for file, parts in files.items()}
        return {name: data.contexts_by_lineno(file) for file, name in names.items()}


def _statement(source: Path, line: int) -> range:
    """Lines of the innermost statement on a line; of one with a body those before it."""
    best = range(line, line + 1)
    for node in ast.walk(ast.parse(source.read_bytes())):  # outer ones come first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            best = range(node.lineno, max(end, node.lineno) + 1)
    return best
