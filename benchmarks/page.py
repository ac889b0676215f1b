"""Measured rows as Markdown tables, in percent, the paper's numbers above ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grain_rows import SIZES, Sizes
from jgleak.audit.specification import Specification
from measure import BASELINES, by_size

Record = Mapping[str, Any]

COLUMNS = ("gsm0", "gsm1", "gsm2", "exact")
HEAD = ("", "GSM-0", "GSM-1", "GSM-2", "FULL", "hours / 100 graphs")


def document(records: Sequence[Record]) -> str:
    """The whole page."""
    measured = [r for r in records if "ours" in r]
    parts = [
        "# GRAIN, reproduced",
        "Written by `benchmarks/paper_tables.py grain --write`; do not edit. Rates are percentages with 95 % bootstrap "
        "intervals over graphs. *Paper* is what Drencheva et al. (ICLR 2025) print. The baselines never look at the "
        "gradient, and are told the number of nodes, which the attack is not.",
        "## Results",
        table(records),
        "## By graph size",
        "The paper pools Tox21, ClinTox and BBBP here; ours pools the rows named, and gives the number of graphs.",
        sizes_table(records),
        "## How it was run",
        _runs(measured),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(records: Sequence[Record]) -> str:
    """The paper, ours and the baselines of every row, or why a row is absent."""
    lines = []
    for r in records:
        lines.append((f"**{r['title']}** ({r['source']})", "", "", "", "", ""))
        paper = r["paper"]
        lines.append(("paper", *(_percent(paper[c]) for c in COLUMNS), _hours(paper["hours_per_100"])))
        if "absent" in r:
            lines.append((f"ours: absent. {r['absent']}", "", "", "", "", ""))
            continue
        name = f"**jgleak** ({r['graphs']} graphs)"
        lines.append((name, *(_interval(r["ours"][c]) for c in COLUMNS), _hours(r["hours_per_100"])))
        for baseline in BASELINES:
            rates = r["baselines"][baseline]
            lines.append((f"baseline: {baseline}", *(_interval(rates[c]) for c in COLUMNS), ""))
    return markdown(HEAD, lines)


def sizes_table(records: Sequence[Record]) -> str:
    """Tables 3 and 11: GSM-0, GSM-2 and FULL by size class, and the rows that were pooled."""
    lines = []
    for group in SIZES:
        found = [r for r in records if r["row"] in group.rows and "ours" in r]
        ours = _pooled(found)
        for size, (gsm0, gsm2, full) in group.printed.items():
            lines.append((f"**{group.title}, {size} nodes**", "paper", f"{gsm0:.1f}", f"{gsm2:.1f}", f"{full:.1f}"))
            if size in ours:
                rates = ours[size]
                who = f"**jgleak** ({rates['graphs']} graphs)"
                lines.append((_names(group, found), who, *(_interval(rates[c]) for c in ("gsm0", "gsm2", "exact"))))
    return markdown(("", "", "GSM-0", "GSM-2", "FULL"), lines)


def _pooled(records: Sequence[Record]) -> dict[str, Any]:
    if not records:
        return {}
    clients = [client for r in records for client in r["clients"]]
    return by_size(clients, Specification.from_json(records[0]["specification"]))


def _names(group: Sizes, found: Sequence[Record]) -> str:
    return ", ".join(f"`{name}`" for name in group.rows if name in {r["row"] for r in found})


def _runs(records: Sequence[Record]) -> str:
    head = ("row", "graphs", "seconds a graph, at most", "seed", "how the attacks ended", "device", "jgleak")
    lines = []
    for r in records:
        stops = ", ".join(f"{count} {stop}" for stop, count in sorted(r["stops"].items()))
        limit, cells = r["specification"]["time_limit"], (str(r["seed"]), stops, r["device"], r["version"])
        lines.append((f"`{r['row']}`", str(r["graphs"]), f"{limit:g}", *cells))
    return markdown(head, lines)


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table; all columns but the first are numbers."""
    rows = [head, ["---"] + ["---:"] * (len(head) - 1), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows)


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f}"


def _interval(rate: Record) -> str:
    return f"{100 * rate['mean']:.1f} [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"


def _hours(hours: float | None) -> str:
    return "-" if hours is None else f"{hours:.1f}" if hours >= 1 else f"{hours:.2f}"
