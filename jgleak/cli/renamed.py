"""Options under the names that they had: read for one minor version more, with a warning."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

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
"""By command: old name and new. They go with version 0.3."""


class Command(TyperCommand):
    """A command that still knows its options by their old names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_renamed(RENAMED.get(self.name or "", {}), args)))


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
