"""Edges and features as tables: the paper's numbers first, then ours, one line an attacker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.lib.page import markdown
from benchmarks.lib.records import Record
from benchmarks.papers.edges.table import Attacker, Table
from jgleak.metrics import Interval, clustered
from jgleak.names.attacks import BASELINES

Cells = tuple[str, ...]

CLAIMS = ("condition holds", "exact")

PAIRED = """\
## On the same clients

Both attacks' means over the clients that both answered, then by how much the first is higher, with a 95 %
interval of the clients' differences. A client is left out where a value is undefined (the AUC of a complete graph).
An interval that contains 0 shows no difference."""


BELOW = """\
## Below the paper

Of {printed} numbers that the paper prints of attacks, its own and its rivals', and that were measured here, {below} are
better than ours. *Beyond*: the paper's number is outside of the 95 % interval of our clients, as {beyond} of them are.
(The paper prints no intervals.)"""


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
                out.append((f"paper: {method.title}", *("" if p is None else number(p) for p in printed), *beside))
            if method.name in measured:
                out.append(_ours(table, method, measured[method.name], show))
    return out


def document(table: Table, records: Sequence[Record]) -> str:
    """The whole page."""
    name = table.title.split(",")[0].lower()
    written = f"Written by `python -m benchmarks.papers.tables {name} --write`; do not edit. Means over clients with"
    idle = ", ".join(_idle(table, records))
    parts = [
        f"# {table.title}",
        f"{written}\n95 % intervals, in which an update of several graphs counts once. {table.about}",
        markdown(head(table), lines(table, records, interval)),
        f"Not run, or refused: {idle}." if idle else "",
        *([PAIRED, markdown(_paired_head(table), pairs)] if (pairs := paired(table, records)) else ()),
        *_below(table, records),
        "## How it was run",
        markdown(("row", "attack", "clients", "options", "seed", "ended", "device", "jgleak"), _runs(records)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _below(table: Table, records: Sequence[Record]) -> tuple[str, ...]:
    """The heading and the table of shortfalls; empty where there is none."""
    found, printed = shortfalls(table, records)
    if not found:
        return ()
    text = BELOW.format(below=len(found), printed=printed, beyond=sum(bool(line[-1]) for line in found))
    return text, markdown(("row", "attack", "measure", "paper", "ours", "interval"), found)


def shortfalls(table: Table, records: Sequence[Record]) -> tuple[list[Cells], int]:
    """Every mean of an attack that is worse than the number which the paper prints, and how many were compared."""
    stored, found, compared = {(record["row"], record["attack"]): record for record in records}, [], 0
    attacks = [method for method in table.methods if method.attack not in BASELINES]
    for row, method, column in product(table.rows, attacks, table.columns):
        ours = stored.get((row.name, method.name), {}).get("means", {}).get(column.title)
        printed = row.printed.get(method.name, {}).get(column.title)
        if ours is None or printed is None:
            continue
        compared += 1
        if (ours["mean"] < printed) if column.up else (ours["mean"] > printed):
            beyond = "" if ours["low"] <= printed <= ours["high"] else "beyond"
            found.append((row.title, method.title, column.title, number(printed), interval(ours), beyond))
    return found, compared


def paired(table: Table, records: Sequence[Record]) -> list[Cells]:
    """Attackers beside those that the table compares them with, over the same clients."""
    titles = {method.name: method.title for method in table.methods}
    stored = {(record["row"], record["attack"]): record for record in records}
    out = []
    for row in table.rows:
        lines = [
            (f"{titles[one]}; {titles[other]}", *_differences(table, stored[row.name, one], stored[row.name, other]))
            for one, others in table.against
            for other in others
            if (row.name, one) in stored and (row.name, other) in stored
        ]
        if lines:
            out += [(f"**{row.title}**", *[""] * (len(table.columns) + 1)), *lines]
    return out


def _paired_head(table: Table) -> Cells:
    return ("", "clients", *head(table)[1 : 1 + len(table.columns)])


class Difference(NamedTuple):
    """Two attacks' means over the same clients, and the interval of how much the first is higher."""

    one: float
    other: float
    less: Interval


def differences(table: Table, one: Record, other: Record) -> tuple[int, dict[str, Difference | None]]:
    """How many clients both answered, and every column over these; None where it is undefined for all. The graphs of an
    update are one observation."""
    pairs = [
        pair
        for pair in zip(one["clients"], other["clients"], strict=True)
        if all(_answered(table, client) for client in pair)
    ]
    batch = one["specification"]["batch_size"]
    return len(pairs), {column.title: _difference(column.title, pairs, batch) for column in table.columns}


def _differences(table: Table, one: Record, other: Record) -> Cells:
    """The clients, and in every column the two means and their difference."""
    clients, found = differences(table, one, other)
    return (str(clients), *(_compared(pair) for pair in found.values()))


def _compared(pair: Difference | None) -> str:
    if pair is None:
        return ""
    one, other, less = pair
    return f"{one:.3f}; {other:.3f}: {less.mean:+.3f} [{less.low:+.3f}, {less.high:+.3f}]"


def _answered(table: Table, client: Record) -> bool:
    """Whether there is a graph that was compared with the truth; other columns count a client without one as 0."""
    return any(client.get(column.title) is not None for column in table.columns if column.path[0] == "edges")


def _difference(title: str, pairs: Sequence[tuple[Record, Record]], batch: int) -> Difference | None:
    given = {pair[0]["graph"]: [client.get(title) for client in pair] for pair in pairs}
    both = {
        graph: pair for graph, pair in given.items() if None not in pair and np.isfinite(np.array(pair, float)).all()
    }
    if not both:
        return None
    values = np.array(list(both.values()), float)
    one, other = values.mean(axis=0)
    less = clustered(values[:, 0] - values[:, 1], clusters=[graph // batch for graph in both])
    return Difference(float(one), float(other), less)


def interval(rate: Record) -> str:
    """A mean and its interval."""
    return f"{number(rate['mean'])} [{number(rate['low'])}, {number(rate['high'])}]"


def mean(rate: Record) -> str:
    """A mean."""
    return number(rate["mean"])


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


def number(value: float) -> str:
    """Three digits behind the point, or the exponent of what is smaller."""
    return f"{value:.3f}" if value == 0 or abs(value) >= 1e-3 else f"{value:.1e}"
