"""What the commands say of themselves: where to begin, groups of options, completion, old names, progress."""

from __future__ import annotations

import importlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from jgleak.cli import app
from jgleak.cli.options import GROUPS
from jgleak.cli.progress import bar, doing
from jgleak.cli.renamed import RENAMED
from jgleak.cli.start import START

COMMANDS = {command.name or getattr(command.callback, "__name__", ""): command for command in app.registered_commands}


def jgleak(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", **environment})


def _panels(command: str) -> list[tuple[str, list[str]]]:
    """The groups of a command's help, each with its options."""
    found: list[tuple[str, list[str]]] = []
    for line in jgleak(command, "--help").stdout.splitlines():
        if title := re.match(r"╭─ (\w+) ─", line):
            found.append((title[1], []))
        elif option := re.match(r"│ +(?:\* +)?(--[\w-]+)", line):
            found[-1][1].append(option[1])
    return found


def test_jgleak_alone_says_where_to_begin() -> None:
    result = jgleak()
    assert result.exit_code == 0 and result.stdout == START + "\n"
    lines = [line.split() for line in START.splitlines() if line.startswith("  jgleak ")]
    assert len(lines) == 5
    for _, command, *words in lines:
        known = {option for _, options in _panels(command) for option in options}
        assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_h_is_help(command: str) -> None:
    asked = [command] if command else []
    assert jgleak(*asked, "-h").stdout == jgleak(*asked, "--help").stdout != ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_a_group_and_groups_have_one_order(command: str) -> None:
    panels = dict(_panels(command))
    assert set(panels.pop("Options")) == {"--help"}
    panels.pop("Arguments", None)
    assert list(panels) == [group for group in GROUPS if group in panels]
    assert all(panels.values())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("attack cen", ["census"]),
        ("attack --dataset tox", ["tox21"]),
        ("attack --residual ", ["none", "add", "linear"]),
        ("invert seen.safetensors --attack graphdlg-r", ["graphdlg-refined"]),
        ("check openfgl-", ["openfgl-gin"]),
    ],
)
def test_shells_complete_names(words: str, wanted: list[str]) -> None:
    place = str(len(words.split(" ")))
    asked = {"_JGLEAK_COMPLETE": "complete_bash", "COMP_WORDS": f"jgleak {words}", "COMP_CWORD": place}
    result = CliRunner().invoke(app, [], env=asked, prog_name="jgleak")
    assert result.stdout.split() == wanted


def test_old_names_of_options_are_read_with_a_warning() -> None:
    for command, names in RENAMED.items():
        known = {option for _, options in _panels(command) for option in options}
        for old, new in names.items():
            assert old not in known and new.replace("--no-", "--") in known
    said = jgleak("check", "openfgl-gin", "--local-steps", "0", "--optimiser=adam")
    assert "--optimiser is called --local-optimiser since version 0.2" in said.stderr
    assert said.exit_code == 2 and "one gradient, which has no rate" in said.stderr
    raw = jgleak("attack", "--raw", "--encoder", "embedding", "--know", "nobody")
    assert "--raw is called --no-normalise" in raw.stderr and "embeddings look raw values up" not in raw.stderr
    after = jgleak("attack", "--know", "nobody", "--", "--raw")
    assert after.exit_code == 2 and "is called" not in after.stderr, "what follows -- is no option"


@pytest.mark.parametrize(
    ("given", "old", "new"),
    [
        (("attack", "--batch", "2", "--batch-size", "4"), "--batch", "--batch-size"),
        (("attack", "--batch-size=4", "--batch=2"), "--batch", "--batch-size"),
        (("attack", "--raw", "--normalise"), "--raw", "--normalise"),
        (
            ("check", "openfgl-gin", "--optimiser", "adam", "--local-optimiser", "sgd"),
            "--optimiser",
            "--local-optimiser",
        ),
    ],
)
def test_an_option_under_both_of_its_names_is_refused(given: tuple[str, ...], old: str, new: str) -> None:
    said = jgleak(*given)
    assert said.exit_code == 2 and f"{new} is given too; leave {old} out" in " ".join(said.stderr.split())


def test_an_option_that_may_be_repeated_has_both_names() -> None:
    said = jgleak("attack", "dlg", "--set", "steps=0", "--option", "nothing=1")
    assert said.exit_code == 2 and "given too" not in said.stderr


def test_progress_on_a_terminal_is_a_bar() -> None:
    shown = io.StringIO()
    clock = iter(range(0, 3000, 100))
    with bar(Console(file=shown, force_terminal=True, width=120), "exact") as progress:
        progress.get_time = lambda: float(next(clock))
        task = progress.add_task("census", total=4, exact=0)
        progress.update(task, advance=1, exact=1)
        progress.update(task, advance=1, exact=2)
        progress.get_time = lambda: 1000.0
        remaining = progress.tasks[0].time_remaining
    assert remaining is not None and 60 <= remaining <= 600, "clients that take minutes have a pace too"
    text = shown.getvalue()
    assert "2/4" in text and "2 exact" in text and "census" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_being_done_is_said_when_it_begins(terminal: bool) -> None:
    shown = io.StringIO()
    with doing(Console(file=shown, force_terminal=terminal, width=40), "looking at data"):
        begun = shown.getvalue()
    assert "looking at data" in shown.getvalue()
    assert terminal or begun == shown.getvalue() == "looking at data\n"


def test_progress_in_a_file_is_a_line_now_and_then() -> None:
    """Steps of 4 s: no line before 10 s, one at 12 s, the next 12 s later; after 2,000 s one in a twentieth of that."""
    shown, now = io.StringIO(), [0.0]
    console = Console(file=shown, force_terminal=False, width=40, get_time=lambda: now[0])
    with bar(console, "exact") as progress:
        task = progress.add_task("census", total=1000, exact=0)
        for step in range(1, 7):
            now[0] = 4.0 * step
            progress.update(task, advance=1, exact=step // 2)
        early = shown.getvalue().splitlines()
        for late in (2000.0, 2099.0, 2106.0):
            now[0] = late
            progress.update(task, description="nothing is done yet")
            progress.advance(task)
    assert early == [
        "3 of 1000, 1 exact, 0:00:12 so far, about 1:06:28 left: census",
        "6 of 1000, 3 exact, 0:00:24 so far, about 1:06:16 left: census",
    ]
    assert [line.split(", ")[0] for line in shown.getvalue().splitlines()[2:]] == ["7 of 1000", "9 of 1000"]


def test_ctrl_c_ends_several_files_with_a_summary_and_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(file: Path, *rest: Any) -> Any:
        raise ValueError("no header") if file.stem == "a" else KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("jgleak.cli.invert"), "_one", broken)
    result = jgleak("invert", "a.safetensors", "b.safetensors", "c.safetensors")
    assert result.exit_code == 130
    assert "to go on, give b.safetensors and what follows it" in result.stderr
    assert result.stdout.splitlines()[0] == "a.safetensors: failed: no header"
    assert result.stdout.splitlines()[1].startswith("1 files: 0 found") and result.stdout.endswith("; 1 failed\n")
