"""Mutants are programs, each with one change of code that runs; the tests that import a module come first."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies import mutations
from benchmarks.studies.mutations import ROOT, Fate, Mutant, _summary, explained, mutants, nearest_tests, neutral, quick
from benchmarks.studies.warm_tests import Outcome

SOURCE = '''"""A text with 1 < 2."""
LIMIT = 3


def f(a: int = 4, *, b: bool = True) -> int:
    """Not 5 + 6."""
    if not a <= 2 and b:
        g(a, key=1, other=b)
    a += 1
    return a * g(
        key=b,
    )
'''


def test_every_change_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutations, "ROOT", tmp_path)
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    found = {(m.line, m.old, m.new) for m in mutants(file)}
    assert found == {
        (5, "4", "5"),
        (5, "True", "False"),
        (7, "not ", ""),
        (7, "<=", "<"),
        (7, "2", "3"),
        (7, "and", "or"),
        (8, "g(a, key=1, other=b)", "pass"),
        (8, "key=1, ", ""),
        (8, "1", "2"),
        (8, "other=b", ""),
        (9, "a += 1", "pass"),
        (9, "1", "2"),
        (10, "*", "/"),
        (11, "key=b,", ""),
    }


@pytest.mark.parametrize(
    "name", ["metrics/gsm.py", "attacks/baselines.py", "attacks/census/assemble.py", "defenses/clip.py"]
)
def test_mutants_can_be_compiled(name: str) -> None:
    file = ROOT / "jgleak" / name
    source, count = file.read_bytes(), 0
    for mutant in mutants(file):
        assert source[mutant.start : mutant.end].decode() == mutant.old != mutant.new
        assert mutant.was != mutant.becomes and mutant.was.encode() in source
        ast.parse(source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
        count += 1
    assert count > 3


def test_a_mutant_is_never_taken_for_its_compiled_original(tmp_path: Path) -> None:
    """Python compares whole seconds and sizes."""
    file, times = tmp_path / "module.py", set[int]()
    file.write_text("1 + 1")
    for source in (b"1 - 1", b"1 + 1", b"1 * 1"):
        times.add(int(file.stat().st_mtime))
        mutations._write(file, source)
        assert file.read_bytes() == source and int(file.stat().st_mtime) not in times


def test_the_nearest_tests_come_first() -> None:
    assert nearest_tests("jgleak/metrics/edges.py")[0] == "tests/metrics/test_edges.py"
    found = nearest_tests("jgleak/attacks/census/whole_numbers.py")
    assert all(test.startswith("tests/attacks/census/") for test in found[:3])
    near = nearest_tests("jgleak/metrics/edges.py", near=True)
    assert near[0] == "tests/metrics/test_edges.py" and "tests/metrics/test_gsm.py" not in near
    alone = "jgleak/attacks/census/batches/contributions.py"  # no test imports it
    assert nearest_tests(alone, near=True) == nearest_tests(alone)


@pytest.mark.parametrize(
    ("was", "becomes", "unseen"),
    [
        ("if clock.left <= 0 or number > 3:", "if clock.left < 0 or number > 3:", True),
        ("while clock.left > 0 and number <= most:", "while clock.left >= 0 and number <= most:", True),
        ("if clock.left <= 0 or number > 3:", "if clock.left <= 0 or number >= 3:", False),
        ("if clock.left <= 0 or number > 3:", "if clock.left <= 0 and number > 3:", False),
        ("if clock.left <= 0:", "if clock.left <= 1:", False),
        ("if left < 0:", "if left > 0:", False),
        ("svd(a, full_matrices=False, check_finite=False)", "svd(a, full_matrices=False, )", True),
        ("cho_factor(a, overwrite_a=True, lower=True)", "cho_factor(a, lower=True)", True),
        ("svd(a, full_matrices=False, check_finite=False)", "svd(a, check_finite=False)", False),
        ("svd(a, check_finite=False)", "svd(a, check_finite=True)", True),
    ],
)
def test_time_that_is_exactly_over_and_what_saves_time_show_in_no_test(was: str, becomes: str, unseen: bool) -> None:
    assert neutral(Mutant("module.py", 1, 0, 1, "", "", was, becomes)) is unseen


def test_the_share_of_all_counts_what_is_explained_as_alive() -> None:
    fates = [Fate("killed")] * 5 + [Fate("timed out"), Fate("survived")] + [Fate("explained")] * 3
    summary = _summary(fates)
    assert (summary["score"], summary["of all"], summary["mutants"]) == (pytest.approx(6 / 7), 0.6, 10)


def test_what_is_explained_can_be_made() -> None:
    """An entry whose line has changed is taken out, or the reason is given for the new line."""
    known = explained()
    assert set(known) <= {mutant.name for file in {name[0] for name in known} for mutant in mutants(ROOT / file)}
    assert all(len(why) > 20 for why in known.values())


class Told:
    """Tests that are collected, whose outcomes are told."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes, self.ran = list(outcomes), list[tuple[str, ...]]()

    def run(self, path: Path, source: str, tests: Sequence[str], seconds: float) -> Outcome:
        self.ran.append((source, *tests))
        return self.outcomes.pop(0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("outcomes", "fate"),
    [
        ([Outcome("killed", ("a",)), Outcome("survived")], Fate("killed", ("a",))),
        ([Outcome("killed", ("a",)), Outcome("killed", ("a",))], None),
        ([Outcome("killed", ("a",)), Outcome("timed out")], None),
        ([Outcome("timed out")], Fate("timed out")),
        ([Outcome("survived")], None),
        ([Outcome("unknown")], None),
    ],
)
def test_a_test_that_fails_on_the_unchanged_module_kills_no_mutant(
    outcomes: list[Outcome], fate: Fate | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "ROOT", tmp_path)
    (tmp_path / "f.py").write_text("a < b\n")
    told: Any = Told(*outcomes)
    assert quick(told, Mutant("f.py", 1, 2, 3, "<", "<=", "a < b", "a <= b"), tmp_path, ["b", "a"], 1.0) == fate
    assert told.ran[0] == ("a <= b\n", "b", "a") and told.ran[1:] in ([], [("a < b\n", "a")])
