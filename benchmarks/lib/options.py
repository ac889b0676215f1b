"""Options that take several names, by commas."""

from __future__ import annotations

from collections.abc import Collection

import typer


def parts(text: str) -> list[str]:
    """What stands between the commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def chosen(text: str | None, known: Collection[str], option: str) -> list[str]:
    """The names in an option; all known ones where it is not given.

    Raises:
      typer.BadParameter: one is not known.
    """
    names = list(known) if text is None else parts(text)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"there is no {name!r}; choose of {', '.join(known)}", param_hint=option)
    return names
