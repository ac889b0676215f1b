"""Changed code in functions that exist, and tests in forks of one process."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.studies.swapped_code import NotSwapped, swap
from benchmarks.studies.warm_tests import WarmTests

ROOT = Path(__file__).parents[2]
SOURCE = """
import functools
LIMIT = 1 + 1
def double(a, times=2):
    return a * times
@functools.cache
def cached(a):
    return [b + 1 for b in range(a)]
class Thing:
    size = 3
    def grown(self, by):
        return self.size + by
def adder(by):
    return lambda a: a + by
ADD = adder(4)
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[tuple[Path, ModuleType]]:
    path = tmp_path / "swapped_module.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("swapped_module", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    yield path, found


@pytest.mark.parametrize(
    ("old", "new", "call", "before", "after"),
    [
        ("a * times", "a / times", lambda m: m.double(4), 8, 2),
        ("b + 1", "b - 1", lambda m: m.cached(2), None, [-1, 0]),
        ("self.size + by", "self.size - by", lambda m: m.Thing().grown(1), 4, 2),
        ("a + by", "a - by", lambda m: m.ADD(1), 5, -3),
        ("lambda a: a + by", "print", lambda m: m.adder(1) is print, False, True),
    ],
)
def test_functions_that_are_known_by_other_names_run_the_changed_code(
    module: tuple[Path, ModuleType], old: str, new: str, call: Any, before: Any, after: Any
) -> None:
    """What is kept of a call before the change is kept."""
    path, found = module
    assert before is None or call(found) == before
    swap(path, SOURCE.replace(old, new))
    assert call(found) == after


@pytest.mark.parametrize(("old", "new"), [("1 + 1", "1 - 1"), ("times=2", "times=3"), ("size = 3", "size = 4")])
def test_what_runs_on_import_is_not_swapped(module: tuple[Path, ModuleType], old: str, new: str) -> None:
    with pytest.raises(NotSwapped, match="on import"):
        swap(module[0], SOURCE.replace(old, new))


@pytest.mark.long
def test_tests_run_in_forks_one_change_after_another(tmp_path: Path) -> None:
    """No change; one that is noticed, one that nobody notices, one that never ends, one that ends the process, one of
    what runs on import; and a module that computes when it is read, and takes its folder's fixture."""
    (tmp_path / "thing.py").write_text(
        "LIMIT = 2\ndef size(a):\n    while a > 9:\n        a = a - 1\n    return a * 1\n"
    )
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text(
        "from thing import size\n"
        "def test_small():\n    assert size(3) == 3\n"
        "def test_large():\n    assert size(12) == 9\n"
    )
    (tmp_path / "tests" / "test_late.py").write_text(
        "import jax\nimport pytest\nfrom thing import size\nONE = int(jax.numpy.ones(()))\n"
        "def test_one(two):\n    assert size(ONE) * 2 == two\n"
        "@pytest.mark.slow\ndef test_two(two):\n    assert not two\n"
    )
    (tmp_path / "tests" / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef two():\n    return 2\n")
    one, late = "tests/test_one.py", "tests/test_late.py"
    source, file = (tmp_path / "thing.py").read_text(), tmp_path / "thing.py"
    warm = WarmTests(tmp_path, "tests")
    try:
        assert warm.tests == {f"{one}::test_small", f"{one}::test_large", late}
        for old, new, tests, fate, failed in (
            ("a", "a", [one], "survived", ()),
            ("a * 1", "a * 2", [one], "killed", (f"{one}::test_small",)),
            ("a > 9", "a > 8", [f"{one}::test_small"], "survived", ()),
            ("a > 9", "a > 8", [f"{one}::test_small", one], "killed", (f"{one}::test_large",)),
            ("a - 1", "a - 0", [one], "timed out", ()),
            ("return a * 1", "__import__('os')._exit(1)", [one], "killed", (one,)),
            ("LIMIT = 2", "LIMIT = 3", [one], "unknown", ()),
            ("a * 1", "a * 2", [late], "killed", (f"{late}::test_one",)),
            ("a > 9", "a > 8", [late], "survived", ()),
        ):
            assert warm.run(file, source.replace(old, new), tests, 0.5 if fate == "timed out" else 60.0) == (
                fate,
                failed,
            )
    finally:
        warm.close()
