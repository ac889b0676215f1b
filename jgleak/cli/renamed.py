"""Old names of options, which are accepted for one minor version more, with a warning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from jgleak.cli.status import MISTAKE

RENAMED = {
    "attack": {
        "--raw": "--no-normalise",
        "--batch": "--batch-size",
        "--set": "--option",
        "--distinct": "--distinct-nodes",
        "--no-distinct": "--no-distinct-nodes",
        "--local-decay": "--local-weight-decay",
    },
    "check": {
        "--optimiser": "--local-optimiser",
        "--batch": "--batch-size",
        "--local-decay": "--local-weight-decay",
    },
    "invert": {"--batch": "--batch-size", "--set": "--option", "--distinct": "--distinct-nodes"},
    "recommender": {"--set": "--option"},
}
"""By command: old name and new. Removed in version 0.3."""


class Command(TyperCommand):
    """A command that accepts the old names of its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = RENAMED.get(self.name or "", {})
        _refuse_both(names, self.params, args)
        return super().parse_args(ctx, _renamed(names, args))


def _refuse_both(names: dict[str, str], params: Sequence[Any], args: Sequence[str]) -> None:
    """End the command where an option is given by its old and its new name, since one would be lost; options that may
    be repeated are combined."""
    given = {word.partition("=")[0] for word in args[: args.index("--") if "--" in args else None]}
    for old in names.keys() & given:
        for param in params:
            spellings = {*param.opts, *param.secondary_opts}
            if names[old] in spellings and not param.multiple and spellings & given:
                beside = min(spellings & given)
                typer.echo(
                    f"error: {old} is the old name of {names[old]}, and {beside} is given too; leave {old} out",
                    err=True,
                )
                raise typer.Exit(MISTAKE)


def _renamed(names: dict[str, str], args: list[str]) -> list[str]:
    if "--" in args:
        rest = args.index("--")
        return [*_renamed(names, args[:rest]), *args[rest:]]
    return [_new(names, word) for word in args]


def _new(names: dict[str, str], word: str) -> str:
    old, equals, value = word.partition("=")
    if old not in names:
        return word
    typer.echo(f"warning: {old} is called {names[old]} since version 0.2; version 0.3 takes that alone", err=True)
    return names[old] + equals + value
