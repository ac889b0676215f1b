"""Which tests ran a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from coverage import CoverageData

from benchmarks.studies.covering_tests import CoveringTests

SOURCE = """def f(a):
    if (
        a > 1
    ):
        a = g(
            a,
            2,
        )
    return a
"""


@pytest.fixture
def recorded(tmp_path: Path) -> CoveringTests:
    """Coverage of a module somewhere else, where line 7, a constant alone, has no code of its own."""
    data = CoverageData(str(tmp_path / ".coverage"))
    for context, lines in {
        "tests/test_a.py::test_one[x|y]|run": [2, 3, 9],
        "tests/test_a.py::test_two|setup": [2, 3, 5, 6, 9],
        "": [1],
    }.items():
        data.set_context(context)
        data.add_lines({"/elsewhere/jgleak/module.py": lines})
    data.write()
    (tmp_path / "jgleak").mkdir()
    (tmp_path / "jgleak" / "module.py").write_text(SOURCE)
    return CoveringTests(tmp_path / ".coverage")


@pytest.mark.parametrize(
    ("line", "wanted"), [(1, []), (3, ["one[x|y]", "two"]), (6, ["two"]), (7, ["two"]), (9, ["one[x|y]", "two"])]
)
def test_a_line_is_run_by_who_ran_its_statement(
    recorded: CoveringTests, tmp_path: Path, line: int, wanted: list[str]
) -> None:
    found = recorded.tests(tmp_path / "jgleak" / "module.py", line, tmp_path)
    assert found == [f"tests/test_a.py::test_{name}" for name in wanted]


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cov-context=test"):
        CoveringTests(tmp_path / "none")
