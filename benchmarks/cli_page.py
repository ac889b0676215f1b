"""docs/cli.md: every command with its options, from the code that reads them.

``python -m benchmarks.check --quick --write`` renews it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, CommandInfo, OptionInfo

from jgleak.cli import app
from jgleak.cli.options import GROUPS

ABOUT = """\
# Commands and options

What `jgleak COMMAND --help` says, of every command. [The command line](command-line.md) has examples, exit statuses and
what can be combined. Options that may be repeated take one value each time. `-h` is `--help`.
"""

WORDS = {str: "text", int: "whole number", float: "number", bool: "", Path: "path"}
"""What a value is."""


class Given(NamedTuple):
    """An argument or option of a command.

    Attributes:
      names: as users type it, perhaps with the name of its opposite.
      value: what it takes; empty where it takes none.
      default: its text; empty where there is none.
      help: a sentence.
      group: the one in which help shows it; empty of arguments.
    """

    names: str
    value: str
    default: str
    help: str
    group: str


def document() -> str:
    """The page."""
    return "".join([ABOUT, *(_section(command) for command in app.registered_commands)])


def command_name(command: CommandInfo) -> str:
    """As users type it."""
    return command.name or _function(command).__name__


def given(command: CommandInfo) -> Iterator[Given]:
    """Arguments and options in the order of the command's signature."""
    function = _function(command)
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, info = get_args(hints[name])
        several = get_origin(_plain(kind)) is list
        base = get_args(_plain(kind))[0] if several else _plain(kind)
        value = WORDS[base] + ", repeatable" * (several and isinstance(info, OptionInfo))
        default = parameter.default
        silent = any(default is one for one in (None, False, "", inspect.Parameter.empty))
        text = "" if silent else "yes" if default is True else f"`{default}`"
        if isinstance(info, ArgumentInfo):
            yield Given(f"`{info.metavar or name.upper()}`", value, text, info.help or "", "")
        else:
            dashed = name.replace("_", "-")
            named = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]
            words = named or ([f"--{dashed}/--no-{dashed}"] if base is bool else [f"--{dashed}"])
            names = ", ".join(f"`{word}`" for part in words for word in part.split("/"))
            yield Given(names, value, text, info.help or "", str(info.rich_help_panel))


def _section(command: CommandInfo) -> str:
    function = _function(command)
    name, everything = command_name(command), list(given(command))
    arguments = [one for one in everything if not one.group]
    words = [f"[{one.names}]" if one.default else one.names for one in arguments]
    usage = " ".join(["jgleak", name, *words, *["[OPTIONS]"] * (len(arguments) < len(everything))]).replace("`", "")
    parts = [f"\n## `jgleak {name}`\n\n{inspect.getdoc(function)}\n\n```\n{usage}\n```\n"]
    if arguments:
        parts.append(_table("argument", arguments))
    for group in GROUPS:
        found = [one for one in everything if one.group == group]
        if found:
            parts.append(_table(group, found))
    return "".join(parts)


def _table(title: str, rows: list[Given]) -> str:
    lines = [f"\n| {title} | takes | default | |\n|---|---|---|---|\n"]
    for one in rows:
        lines.append(f"| {one.names} | {one.value} | {one.default} | {one.help.replace('|', chr(92) + '|')} |\n")
    return "".join(lines)


def _function(command: CommandInfo) -> Callable[..., Any]:
    assert command.callback is not None
    return command.callback


def _plain(kind: Any) -> Any:
    """A type without None."""
    if get_origin(kind) is types.UnionType:
        (kind,) = (one for one in get_args(kind) if one is not types.NoneType)
    return kind
