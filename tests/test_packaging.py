"""What pyproject.toml asks for, beside the versions that are tested: the lowest ones and the newest ones."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def _required(*lists: list[str]) -> dict[str, SpecifierSet]:
    found = [Requirement(line) for lines in lists for line in lines]
    return {canonicalize_name(one.name): one.specifier for one in found if one.name != PROJECT["name"]}


def _pinned(file: str) -> dict[str, str]:
    pairs = (line.split("==") for line in (ROOT / file).read_text(encoding="utf-8").splitlines())
    return {canonicalize_name(name): version for name, version in pairs}


def test_the_lowest_versions_are_the_lower_bounds() -> None:
    bounds = _required(PROJECT["dependencies"], EXTRAS["test"])
    assert {name: str(bound) for name, bound in bounds.items()} == {
        name: f">={version}" for name, version in _pinned("constraints-lowest.txt").items()
    }


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_the_newest_versions_are_within_the_bounds(extra: str) -> None:
    newest = _pinned("constraints.txt")
    for name, bound in _required(PROJECT["dependencies"], EXTRAS[extra]).items():
        if name in newest:
            assert bound.contains(newest[name], prereleases=True), name
        else:
            assert extra in {"notebooks", "ray", "flower", "nvflare", "all"}, f"{name} is not in constraints.txt"


def test_the_lowest_python_is_the_first_one_listed() -> None:
    prefix = "Programming Language :: Python :: 3."
    listed = [int(one.removeprefix(prefix)) for one in PROJECT["classifiers"] if one.startswith(prefix)]
    assert listed == list(range(listed[0], listed[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{listed[0]}"
