"""Edges and features as tables: the paper's numbers first, then ours, one line an attacker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from comparison import Attacker, Table
from page import markdown

Record = Mapping[str, Any]
Cells = tuple[str, ...]

CLAIMS = ("condition holds", "exact")


def head(table: Table) -> Cells:
    """The columns' titles, with the direction that is better."""
    metrics = (f"{column.title} {'↑' if column.up else '↓'}" for column in table.columns)
    return ("", *metrics, *(CLAIMS if _claims(table) else ()), "s a client")


def lines(table: Table, records: Sequence[Record], show: Callable[[Record], str]) -> list[Cells]:
    """Every measured row: its title, then for each attacker the paper's numbers, where it has some, and ours."""
    width, out = len(head(table)), []
    for row in table.rows:
        measured = {r["attack"]: r for r in records if r["row"] == row.name}
        if not measured:
            continue
        out.append((f"**{row.title}** ({row.source})", *[""] * (width - 1)))
        for method in table.methods:
            if method.name in row.printed and method.name in row.attackers:
                printed = [row.printed[method.name].get(column.title) for column in table.columns]
                beside = [""] * (width - 1 - len(printed))
                out.append((f"paper: {method.title}", *("" if p is None else _number(p) for p in printed), *beside))
            if method.name in measured:
                out.append(_ours(table, method, measured[method.name], show))
    return out


def document(table: Table, records: Sequence[Record]) -> str:
    """The whole page."""
    name = table.title.split(",")[0].lower()
    written = f"Written by `benchmarks/paper_tables.py {name} --write`; do not edit. Means over clients with 95 %"
    idle = ", ".join(_idle(table, records))
    parts = [
        f"# {table.title}",
        f"{written}\nbootstrap intervals. {table.about}",
        markdown(head(table), lines(table, records, interval)),
        f"Not run, or refused: {idle}." if idle else "",
        "## How it was run",
        markdown(("row", "attack", "clients", "options", "seed", "ended", "device", "jgleak"), _runs(records)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def interval(rate: Record) -> str:
    """A mean and its interval."""
    return f"{_number(rate['mean'])} [{_number(rate['low'])}, {_number(rate['high'])}]"


def mean(rate: Record) -> str:
    """A mean."""
    return _number(rate["mean"])


def _ours(table: Table, method: Attacker, found: Record, show: Callable[[Record], str]) -> Cells:
    means = (found["means"].get(column.title) for column in table.columns)
    claims: Cells = ()
    if _claims(table):
        held, right = found["holds"], found["exact"]
        claims = ("", "") if held is None else (f"{held} of {found['graphs']}", f"{right} of {held}")
    cells = ("" if value is None else show(value) for value in means)
    answers = sum(client["gradient_distance"] is not None for client in found["clients"])
    some = method.attack == "census" and answers < found["graphs"]
    title = f"{method.title}, {answers} of {found['graphs']} answered" if some else method.title
    return (title, *cells, *claims, f"{found['seconds_a_client']:.1f}")


def _idle(table: Table, records: Sequence[Record]) -> Iterator[str]:
    """Rows without any record, and the attackers that other rows lack."""
    for row in table.rows:
        measured = {r["attack"] for r in records if r["row"] == row.name}
        missing = [name for name in row.attackers if name not in measured]
        if missing:
            yield f"`{row.name}` ({', '.join(missing)})" if measured else f"`{row.name}`"


def _claims(table: Table) -> bool:
    return any(method.attack == "closed-form" for method in table.methods)


def _runs(records: Sequence[Record]) -> list[Cells]:
    out = []
    for r in records:
        done = r["specification"]
        options = ", ".join(f"{name}={value}" for name, value in done["options"])
        stops = ", ".join(f"{count} {stop}" for stop, count in sorted(r["stops"].items()))
        device = r["device"] + (f", {r['workers']} workers" if r.get("workers", 1) > 1 else "")
        out.append(
            (f"`{r['row']}`", r["attack"], str(r["graphs"]), options, str(r["seed"]), stops, device, r["version"])
        )
    return out


def _number(value: float) -> str:
    return f"{value:.3f}" if value == 0 or abs(value) >= 1e-3 else f"{value:.1e}"
