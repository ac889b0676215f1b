"""A grid's plan and its results as tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from jgleak.audit.plan import Planned
from jgleak.audit.record import RATES
from jgleak.audit.results import Unit

KIND = ("data", "model", "attack", "defense")
"""The fields that distinguish rows; seeds are taken together."""


BREAK = re.compile(r"(?<=[:+,/ ])|(?<=[a-z]-)(?=[a-z])")
"""Where a name may be broken between lines: ``gaussian:|1e-3``, ``mean-|adjacency``."""


class Name(NamedTuple):
    """A name that is never truncated: where it is too long for its column it continues on the next line, at a ``BREAK``
    if possible. (Rich breaks at spaces, or anywhere, even within a number.)"""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        lines = [""]
        for piece in filter(None, BREAK.split(self.text)):
            if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield Text("\n".join(lines), overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(max(map(len, BREAK.split(self.text))), len(self.text)).with_maximum(options.max_width)


def plan_table(planned: Sequence[Planned], left: Mapping[int, int]) -> Table:
    """Units, remaining units, and why some cannot run, by data, model, attack and defence."""
    rows: dict[tuple[str, ...], list[Any]] = {}
    for position, (cell, graphs, _, impossible) in enumerate(planned):
        row = rows.setdefault(_kind(cell.label), [0, 0, ""])
        row[0] += graphs
        row[1] += left.get(position, 0)
        row[2] = impossible or row[2]
    return _table(rows, ("units", "to run", "impossible"))


def audit_table(units: Sequence[Unit]) -> Table:
    """Rates over the units that were attacked, by data, model, attack and defence; columns of zeros are left out."""
    groups: dict[tuple[str, ...], list[Unit]] = {}
    for unit in units:
        groups.setdefault(_kind(unit.cell), []).append(unit)
    seen = [status for status in ("failed", "skipped") if any(unit.status == status for unit in units)]
    rows: dict[tuple[str, ...], list[Any]] = {}
    for kind, members in groups.items():
        attacked = [unit.record for unit in members if unit.status == "done"]
        counts = [sum(unit.status == status for unit in members) for status in seen]
        means = [_mean([r[rate] for r in attacked if r[rate] is not None]) for rate in RATES]
        rows[kind] = [len(members), *counts, *means, f"{sum(unit.seconds for unit in members):.1f}"]
    return _table(rows, ("units", *seen, *RATES, "seconds\nin all"))


def span(seconds: float) -> str:
    """A length of time in a suitable unit."""
    for size, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} s"


def _mean(values: Sequence[float]) -> str:
    """The mean, or ``-`` of no values: clients whose truth is unknown have no rate."""
    return f"{sum(values) / len(values):.3f}" if values else "-"


def _kind(label: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(label[name] for name in KIND)


def _table(rows: Mapping[tuple[str, ...], Sequence[Any]], columns: Sequence[str]) -> Table:
    """A table; what all rows share is its title."""
    alike = [len({kind[i] for kind in rows}) == 1 for i in range(len(KIND))]
    shared = next(iter(rows), ())
    title = ", ".join(f"{name}: {text}" for name, text, same in zip(KIND, shared, alike, strict=False) if same)
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, collapse_padding=True)
    for name in (name for name, same in zip(KIND, alike, strict=True) if not same):
        table.add_column(name, overflow="fold")
    for name in columns:
        table.add_column(name, justify="left" if name == "impossible" else "right", no_wrap=name != "impossible")
    for kind, row in rows.items():
        telling = [Name(text) for text, same in zip(kind, alike, strict=True) if not same]
        table.add_row(*telling, *(Text(str(value)) for value in row))
    return table
