"""Options that commands share, and how their texts are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Seconds = Annotated[
    float,
    typer.Option(
        "--time-limit",
        help="Seconds an attack may take on one client, compilation included (of which what has begun is finished).",
    ),
]
Seed = Annotated[int, typer.Option(help="Seeds the clients, the parameters and the attack.")]
PriorOption = Annotated[
    str,
    typer.Option(
        help="How graphs with the same gradient are ranked: none, plain (structure), molecule (chemistry), or auto: "
        "molecule where the features name atoms, else plain."
    ),
]
MaxN = Annotated[int | None, typer.Option(help="Largest client, where the attacker knows a bound.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes that share the clients; by default one a core, up to 4, if clients are many."),
]
Json = Annotated[bool, typer.Option("--json", help="JSON lines on standard output, everything else on standard error.")]


def split(know: list[str] | None) -> tuple[str, ...]:
    """Words of options that were given several times, or with commas."""
    return tuple(part.strip() for word in know or () for part in word.split(",") if part.strip())


def pairs(options: list[str] | None) -> tuple[tuple[str, str], ...]:
    """Names and values of ``name=value``; raises ``ValueError`` for anything else."""
    for option in options or ():
        if "=" not in option:
            raise ValueError(f"--set: expected name=value, got {option!r}")
    return tuple((name, value) for name, _, value in (option.partition("=") for option in options or ()))


def writable(path: Path) -> Path:
    """``path`` in a folder that is there and takes files; raises ``ValueError`` where it cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise ValueError(f"out: {path} is there and no file; choose another folder")
        there = path.exists() or path.is_symlink()
        path.open("a").close()
        if not there:  # an empty file would be taken for an answer
            path.unlink()
    except OSError as error:
        raise ValueError(f"out: cannot write {path} ({error.strerror}); choose another folder") from error
    return path
