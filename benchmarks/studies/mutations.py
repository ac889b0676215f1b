"""Would the tests notice a wrong line? ``python -m benchmarks.studies.mutations --sample 60``.

A mutant is the package with one operator, constant, argument or statement changed. The tests that import the changed
module are run on it, the nearest first; a mutant on which all pass has survived. Every test that failed runs on the
package as it is, too, at once and in the end, so that no test that always fails counts. Mutants are drawn at random, so
that the share that is killed has an interval. Survivors that no test can kill are in ``mutations.toml``, with the
reason; of some kinds of change none can (``neutral``). The score without these is printed with the score of all
mutants. ``--contexts`` adds tests that run the line, wherever they are. Most mutants are killed in a fork of a process
that has collected the tests of the part (``warm_tests``); the others are imported afresh. Code of others (mutmut,
cosmic-ray) runs the whole suite, or forks a process that JAX has started threads in.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from bisect import bisect
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from benchmarks.lib.options import parts
from benchmarks.studies.covering_tests import CoveringTests
from benchmarks.studies.warm_tests import WarmTests
from jgleak.metrics import rate

ROOT = Path(__file__).parents[2]
PACKAGES = ("attacks", "federated", "metrics", "defenses")

SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
"""Operators, and what takes their place."""

EXPLAINED = Path(__file__).with_suffix(".toml")
"""Mutants that no test can kill, each with the reason."""

LIMITS = ("settings.py", "tolerances.py", "options.py")
"""Files of limits and tolerances, whose constants are choices: another one is no mistake."""

CLOCK = re.compile(r"\bleft (<|>)=? 0\b")
"""The time that a clock has left, beside zero."""

SPEED = re.compile(r"(?:,\s*)?\b(?:check_finite|overwrite_[ab])=\w+")
"""Arguments that SciPy documents as a matter of speed, where all entries are finite."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Mutant(NamedTuple):
    """One change.

    Attributes:
      file: path in the repository.
      line: where it is.
      start: first byte that is replaced.
      end: the byte behind the last.
      old: what stood there.
      new: what stands there instead.
      was: the line, or lines, without indentation.
      becomes: what the change makes of it.
    """

    file: str
    line: int
    start: int
    end: int
    old: str
    new: str
    was: str
    becomes: str

    @property
    def name(self) -> tuple[str, str, str]:
        """What it is called in ``mutations.toml``, where numbers of lines would not last."""
        return self.file, self.was, self.becomes


class Fate(NamedTuple):
    """What became of a mutant.

    Attributes:
      fate: ``killed``, ``timed out`` or ``survived``; ``explained`` where no test could kill it.
      tests: those that failed.
    """

    fate: str
    tests: tuple[str, ...] = ()


@app.command()
def main(
    packages: Annotated[str, typer.Option(help="Parts of the package, by commas.")] = ",".join(PACKAGES),
    sample: Annotated[int, typer.Option(min=1, help="Mutants that are drawn of each part.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Draws them.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Mutants at a time.")] = 2,
    seconds: Annotated[float, typer.Option(min=1.0, help="Time for the tests of one mutant.")] = 600.0,
    near: Annotated[bool, typer.Option("--near", help="Only tests that import the module, if there are any.")] = False,
    contexts: Annotated[
        Path | None,
        typer.Option(help="What `pytest --cov=jgleak --cov-context=test` wrote: then also tests that run the line."),
    ] = None,
) -> None:
    """One JSON line a mutant, then how many of each part were killed; status 1 where a test fails on the package."""
    stderr = Console(stderr=True)
    covering = None if contexts is None else CoveringTests(contexts)
    known = explained()
    with TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        places, whole = threading.local(), _copied(Path(folder) / "whole")

        def chosen(mutant: Mutant) -> list[str]:
            tests = nearest_tests(mutant.file, near=near or covering is not None)
            ran = [] if covering is None else covering.tests(ROOT / mutant.file, mutant.line, ROOT)
            return tests + [test for test in ran if test.partition("::")[0] not in tests]

        def judged(mutant: Mutant, tests: Sequence[str]) -> Fate:
            if mutant.name in known or neutral(mutant):
                return Fate("explained")
            if not hasattr(places, "tree"):
                places.tree, places.warm = _copied(Path(folder) / str(threading.get_ident())), {}
            part = mutant.file.split("/")[1]
            if part not in places.warm:
                places.warm[part] = WarmTests(places.tree, f"tests/{part}")
                warm.append(places.warm[part])
            return quick(places.warm[part], mutant, places.tree, tests, seconds) or _fate(
                mutant, places.tree, seconds, tests
            )

        fates, warm = dict[str, list[Fate]](), list[WarmTests]()
        for part in parts(packages):
            mine, count = drawn(part, sample, seed)
            stderr.print(f"{part}: {len(mine)} of {count} mutants")
            tests = [chosen(mutant) for mutant in mine]  # not in the threads: Python 3.11 may fail to parse in several
            for mutant, fate in zip(mine, pool.map(judged, mine, tests), strict=True):
                fates.setdefault(part, []).append(fate)
                print(json.dumps(mutant._asdict() | fate._asdict()), flush=True)
        for process in warm:
            process.close()
        stopping = sorted({test for part in fates.values() for fate in part for test in fate.tests})
        failing = _tested(whole, stopping).tests if stopping else ()
    for part, mine in fates.items():
        print(json.dumps({"part": part} | _summary(mine)))
    if failing:
        stderr.print("fails without any mutant, so that what it killed is unknown:", *failing)
        raise typer.Exit(1)


def quick(warm: WarmTests, mutant: Mutant, tree: Path, tests: Sequence[str], seconds: float) -> Fate | None:
    """What the tests that are collected already say, or None where only a fresh import can tell: the change cannot be
    made in place, all tests passed on it, or the one that failed fails there on the unchanged module too."""
    place = tree / mutant.file
    found = warm.run(place, _source(mutant), tests, seconds)
    if (
        found.fate == "killed"
        and warm.run(place, place.read_text(encoding="utf-8"), found.tests, seconds).fate != "survived"
    ):
        return None
    return Fate(*found) if found.fate in ("killed", "timed out") else None


def drawn(part: str, sample: int, seed: int) -> tuple[list[Mutant], int]:
    """A random sample of a part's mutants, the same whatever other parts are looked at; and how many there are."""
    files = sorted((ROOT / "jgleak" / part).rglob("*.py"))
    every = [mutant for file in files for mutant in mutants(file)]
    return random.Random(f"{seed} {part}").sample(every, min(sample, len(every))), len(every)


def explained() -> dict[tuple[str, str, str], str]:
    """The reason why no test can kill a mutant, by the mutant's name."""
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["mutant"]
    return {(one["file"], one["was"], one["becomes"]): one["why"] for one in entries}


def neutral(mutant: Mutant) -> bool:
    """True where the change is of a kind that no test can see: time that is exactly over counts as left or not, which
    no measured time ever is; or SciPy is not told what it may save."""
    before, after = (
        re.sub(r"[\s,]", "", SPEED.sub("", CLOCK.sub(r"left \1 0", one))) for one in (mutant.was, mutant.becomes)
    )
    return before == after


def _summary(fates: Sequence[Fate]) -> dict[str, float]:
    """How many there are of each fate; of those that are not explained, and of all, the share that a test stopped."""
    names = [fate.fate for fate in fates]
    counts = {name: names.count(name) for name in ("killed", "timed out", "survived", "explained")}
    score = rate([float(name != "survived") for name in names if name != "explained"] or [float("nan")])
    every = (counts["killed"] + counts["timed out"]) / max(1, len(fates))
    return {"mutants": len(fates), **counts, "score": score.mean, "low": score.low, "high": score.high, "of all": every}


def mutants(file: Path) -> Iterator[Mutant]:
    """All changes of a file."""
    source = file.read_bytes()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    name = file.relative_to(ROOT).as_posix()

    def mutant(line: int, start: int, end: int, new: str) -> Mutant:
        first, last = lines[bisect(lines, start) - 1], lines[bisect(lines, end - 1)]
        was, becomes = source[first:last], source[first:start] + new.encode() + source[end:last]
        texts = (text.decode().strip() for text in (was, becomes))
        return Mutant(name, line, start, end, source[start:end].decode(), new, *texts)

    for node in _code(ast.parse(source)):
        for line, start, end, new in _changes(node, source, lines, constants=file.name not in LIMITS):
            yield mutant(line, start, end, new)


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run: no docstrings, annotations, decorators, imports, messages of errors or constants of a module."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.Import | ast.ImportFrom | ast.Raise):
                continue
            if isinstance(tree, ast.keyword) and tree.arg == "strict":  # of zip: it guards, and changes nothing
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue
            if isinstance(tree, ast.Module | ast.ClassDef) and isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            yield node
            yield from _code(node)


def _changes(
    node: ast.AST, source: bytes, lines: Sequence[int], *, constants: bool
) -> Iterator[tuple[int, int, int, str]]:
    """Line, place and text of each change of one node."""

    def place(part: ast.expr | ast.stmt | ast.keyword, *, behind: bool = False) -> int:
        if behind:
            return lines[(part.end_lineno or 1) - 1] + (part.end_col_offset or 0)
        return lines[part.lineno - 1] + part.col_offset

    def between(left: ast.expr, operator: ast.AST, right: ast.expr) -> Iterator[tuple[int, int, int, str]]:
        old, new = SWAPS.get(type(operator), ("", ""))
        start = source.find(old.encode(), place(left, behind=True), place(right)) if old else -1
        if start >= 0:
            yield left.lineno, start, start + len(old), new

    match node:
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for one, operator, other in zip([left, *comparators], ops, comparators, strict=False):
                yield from between(one, operator, other)
        case ast.BinOp(left=left, op=operator, right=right):
            yield from between(left, operator, right)
        case ast.BoolOp(op=operator, values=values):
            for one, other in zip(values, values[1:], strict=False):
                yield from between(one, operator, other)
        case ast.UnaryOp(op=ast.Not()):
            yield node.lineno, place(node), place(node) + len(b"not "), ""
        case ast.Constant(value=bool(value)):
            yield node.lineno, place(node), place(node, behind=True), str(not value)
        case ast.Constant(value=int(value)) if constants:
            yield node.lineno, place(node), place(node, behind=True), str(value + 1)
        case ast.Call(keywords=keywords):
            named = [keyword for keyword in keywords if keyword.arg and keyword.arg != "strict"]
            for number, keyword in enumerate(named, start=1):
                end = place(named[number]) if number < len(named) else place(keyword, behind=True)
                comma = source.find(b",", end)
                if comma >= 0 and not source[end:comma].strip():  # behind the last argument: it cannot stand alone
                    end = comma + 1
                yield keyword.lineno, place(keyword), end, ""
        case ast.AugAssign() | ast.Expr(value=ast.Call()) | ast.Continue() | ast.Break():
            yield node.lineno, place(node), place(node, behind=True), "pass"


def _copied(tree: Path) -> Path:
    """The repository's own files."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    return tree


def _fate(mutant: Mutant, tree: Path, seconds: float, tests: Sequence[str]) -> Fate:
    file = tree / mutant.file
    source = file.read_bytes()
    try:
        _write(file, _source(mutant).encode())
        return _tested(tree, ["-x", *tests], seconds)
    except subprocess.TimeoutExpired:
        return Fate("timed out")
    finally:
        _write(file, source)


def _source(mutant: Mutant) -> str:
    """Of the file with the change."""
    source = (ROOT / mutant.file).read_bytes()
    return (source[: mutant.start] + mutant.new.encode() + source[mutant.end :]).decode()


def _write(file: Path, source: bytes) -> None:
    """A file whose time no earlier version had: Python knows by time and size which source compiled code is of."""
    last = file.stat().st_mtime
    file.write_bytes(source)
    os.utime(file, (last + 2, last + 2))


def _tested(tree: Path, words: Sequence[str], seconds: float | None = None) -> Fate:
    failed = tree / ".pytest_cache" / "v" / "cache" / "lastfailed"  # where pytest keeps what failed
    failed.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-W", "ignore", "-m", "not slow", *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""},  # most of the time is compiling
        capture_output=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode == 0:
        return Fate("survived")
    found = tuple(json.loads(failed.read_bytes())) if failed.exists() else ()
    return Fate("killed", found or tuple(words[-1:]))  # a process that died has no list


def nearest_tests(file: str, tree: Path = ROOT, *, near: bool = False) -> list[str]:
    """Test files: that of the same name, those that import the module, then all in its own folder of ``tests/``; if
    ``near``, these only where there are no others."""
    module = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    own = tree / "tests" / Path(*Path(file).parts[1:-1])
    importing = [test for test in sorted((tree / "tests").rglob("test_*.py")) if module in _imported(test)]
    named = own / f"test_{Path(file).stem}.py"
    order = [*([named] if named.exists() else []), *sorted(importing, key=lambda test: test.parent != own)]
    order += [] if near and order else sorted(own.glob("test_*.py"))
    return [test.relative_to(tree).as_posix() for test in dict.fromkeys(order)]


@cache
def _imported(test: Path) -> set[str]:
    """Modules, and what is taken from them, that a test imports by name."""
    found = set[str]()
    for node in ast.walk(ast.parse(test.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


if __name__ == "__main__":
    app()
