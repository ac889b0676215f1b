"""What pyproject.toml asks for, beside the versions that are tested: the lowest ones and the newest ones."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from jgleak.version import __version__

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


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version_in_code_citation_and_changelog() -> None:
    assert yaml.safe_load(_text("CITATION.cff"))["version"] == __version__
    headings = re.findall(r"^## \[(.+?)\]", _text("CHANGELOG.md"), re.MULTILINE)
    released = [Version(heading) for heading in headings if heading != "Unreleased"]
    assert released[0] == Version(__version__) and released == sorted(released, reverse=True)
    assert headings == [*["Unreleased"] * ("Unreleased" in headings), *map(str, released)], "what is new comes first"
    minor = ".".join(__version__.split(".")[:2])
    assert f"now {minor}." in _text("SECURITY.md")


def test_old_names_go_with_the_next_minor_version() -> None:
    said = re.findall(r"version (0\.\d+)", _text("jgleak/cli/renamed.py"))
    assert said and max(Version(one) for one in said) > Version(__version__), "take them out of RENAMED"


def test_the_container_runs_the_first_line_of_the_readme() -> None:
    lines = [line for line in _text("Dockerfile").splitlines() if line and not line.startswith("#")]
    install, command = _text("README.md").split("<!-- run: install -->\n```bash\n")[1].split("\n")[0].split(" && ")
    assert any(line.startswith("RUN pip install") and line.endswith(install.split()[-1]) for line in lines)
    assert [*lines[-2:]] == ['ENTRYPOINT ["jgleak"]', f'CMD ["{command.split()[1]}"]'] and command.startswith("jgleak ")
    (user,) = (line.split()[1] for line in lines if line.startswith("USER "))
    assert int(user) > 0, "root runs nothing"
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    let_in = [line[1:] for line in _text(".dockerignore").splitlines() if line.startswith("!")]
    assert sorted(copied) == sorted(let_in) and all((ROOT / name).exists() for name in copied)


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_issue_forms_ask_for_something(form: Path) -> None:
    read = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.stem == "config":
        assert set(read) == {"blank_issues_enabled"}
        return
    assert {"name", "description", "labels", "body"} == set(read)
    fields = [part for part in read["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in fields}) == len(fields) >= 3
    assert all(part["attributes"]["label"] for part in fields)
    assert any(part.get("validations", {}).get("required") for part in fields)
