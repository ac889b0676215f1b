"""The pages of commands and of public names: what the code says, and nothing else."""

from __future__ import annotations

import importlib
import re

import pytest
from typer.testing import CliRunner

from benchmarks import cli_page, public_api
from benchmarks.check import ROOT
from jgleak.cli import app

RENEW = "python -m benchmarks.check --quick --write renews it"
COMMANDS = {cli_page.command_name(command): command for command in app.registered_commands}


def test_the_page_of_commands_is_renewed() -> None:
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == cli_page.document(), RENEW


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_what_help_has(name: str) -> None:
    said = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "400", "NO_COLOR": "1"}).stdout
    section = cli_page.document().split(f"## `jgleak {name}`\n")[1].split("\n## ")[0]
    shown = {word for line in section.splitlines() for word in re.findall(r"`(--[\w-]+)`", line.split(" | ")[0])}
    panels = [line[1:] for line in said.splitlines() if line.startswith("│")]
    listed = {word for line in panels for word in re.findall(r"--[\w-]+", line.split("  <")[0])}
    assert shown == listed - {"--help"}
    for one in cli_page.given(COMMANDS[name]):
        assert one.help and one.help in said
        default = re.search(rf"{re.escape(one.names.split(',')[0].strip('`'))} .*\[default: ([^\]]+)\]", said)
        if one.group and one.default.startswith("`"):
            assert default is not None and default[1] == one.default.strip("`")


def test_public_names_and_signatures_are_the_committed_ones() -> None:
    committed = (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").splitlines()
    now = public_api.signatures().splitlines()
    gone, new = sorted(set(committed) - set(now)), sorted(set(now) - set(committed))
    said = "a name that goes needs a minor version in which it warns, and both a line in CHANGELOG.md"
    assert committed == now, f"{said}; {RENEW}\ngone: {gone}\nnew: {new}"
    assert (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8") == public_api.document(), RENEW


def test_public_names_can_be_imported() -> None:
    found = public_api.public()
    assert {"jgleak", "jgleak.gnn", "jgleak.interop", "jgleak.metrics"} <= {one.home for one in found}
    for one in found:
        assert hasattr(importlib.import_module(one.home), one.name), f"{one.home}.{one.name}"
    root = {one.name for one in found if one.home == "jgleak"}
    assert root == set(dir(importlib.import_module("jgleak")))
