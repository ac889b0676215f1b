"""What pages are made of: tables in Markdown, and rates in percent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table; all columns but the first are numbers."""
    rows = [head, ["---"] + ["---:"] * (len(head) - 1), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows)


def interval(rate: Mapping[str, float]) -> str:
    """A mean and its interval, in percent."""
    return f"{100 * rate['mean']:.1f} [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"
