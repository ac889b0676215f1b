"""Measured rows as tables, in percent: the paper's numbers first, then ours, one line an attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.lib.page import interval, markdown
from benchmarks.lib.records import Record
from benchmarks.papers.grain.methods import METHODS, MOLECULES, Method
from benchmarks.papers.grain.records import RECALL, by_size, printed
from benchmarks.papers.grain.rivals import printed_of
from benchmarks.papers.grain.rows import SIZES, Row, Sizes
from jgleak.audit.record import SIZES as CLASSES

Line = tuple[str, ...]

COLUMNS = ("gsm0", "gsm1", "gsm2", "exact")
CLAIMS = ("in set", "guess", "unique", "wrong")
HEAD = ("", "GSM-0, F1", "GSM-0, recall", "GSM-1", "GSM-2", "FULL", *CLAIMS, "h / 100")

ABOUT = """\
Written by `python -m benchmarks.papers.tables grain --write`; do not edit. Rates are percentages with 95 %
intervals over graphs. *Paper* is what Drencheva et al. (ICLR 2025) print for their own sample of the same data.

- **GRAIN, by jgleak** knows the feature space only, as in the paper; it returns the first graph that matches.
- **DLG, TabLeak** are told the number of nodes, as in the paper, which optimises by L-BFGS on
  Tox21 and in its Table 9, and by SGD on networks in its Table 2; ours by Adam, or by L-BFGS where it is said.
- **census** knows the feature space, and the number of nodes where that is said. It lists every graph that explains
  the gradient. By default chemistry decides which of them comes first where nodes are atoms, and structure elsewhere.
  *Ranked by structure*: fewer nodes, shorter cycles, repeated parts first. *Not ranked*: a digest decides, so *FULL* is
  then one draw, and *guess* its expected value.
- **Baselines** never look at the gradient. They are told the number of nodes and, as all attacks are, how frequent each
  value of a feature is in the whole data set.

*GSM-0* has two definitions. The paper's text says F1; its released code prints a recall under this name (its
`metrics.py` files recall under the key of F1, which `extract_neptune.py` reads). So the paper's numbers stand under
*recall*. *F1* is ours: of the features' 0/1 columns, weighted by how often the truth sets them. *Recall* is of the
features' values, weighted by their numbers of columns, as in that code, but over our lists of values, which are longer
(242 columns, theirs 140). It is shown for molecules, and for runs that stored it. Most atoms share most of their
features, so a guess already scores high by either: read a GSM-0 beside those of the baselines.

*FULL*: the first graph is the truth. *In set*: one of the listed graphs is. *Guess*: the rate at which a graph drawn at
random from the list is the truth, 1/k for the truth among k. *Unique*: certified to be the only graph.
*Wrong*: how many of the certified ones are not the truth. *h / 100*: hours of the attack for 100 graphs."""


def document(rows: Sequence[Row], records: Sequence[Record]) -> str:
    """The whole page."""
    idle = ", ".join(f"`{row.name}`" for row in rows if row.name not in {r["row"] for r in records})
    parts = [
        "# GRAIN, reproduced",
        ABOUT,
        "## Results",
        markdown(HEAD, results(rows, records, interval)),
        f"Not run: {idle}." if idle else "",
        "## FULL by graph size, side by side",
        "The paper pools Tox21, ClinTox and BBBP; each line of ours pools those of the three that it was run on.",
        markdown(("", "nodes", "paper", *(method.title for method in METHODS)), side_by_side(rows, records)),
        "## All rates by graph size, pooled",
        markdown(("", "", "GSM-0, F1", "GSM-0, recall", "GSM-2", "FULL", *CLAIMS), sizes(records)),
        "## How it was run",
        markdown(("row", "attack", "graphs", "task", "s a graph", "seed", "ended", "device", "jgleak"), _runs(records)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def results(rows: Sequence[Row], records: Sequence[Record], show: Callable[[Record], str]) -> list[Line]:
    """Every measured row: its title, the paper and each method, with rates as ``show`` writes them."""
    lines: list[Line] = []
    for row in rows:
        measured = {r["attack"]: r for r in records if r["row"] == row.name}
        if not measured:
            continue
        lines.append((f"**{row.title}** ({row.source})", *[""] * (len(HEAD) - 1)))
        if any(number is not None for number in printed(row).values()):
            lines.append(("paper", *_paper(row)))
        for method in METHODS:
            if method.name in measured:
                if printed_of(row.name, method.name):
                    lines.append((f"paper: {method.title}", *_paper(row, method.name)))
                r = measured[method.name]
                gsm0, *means = (show(r["rates"][c]) for c in COLUMNS)
                atoms = row.experiment.dataset in MOLECULES and RECALL in r["rates"]
                recall = show(r["rates"][RECALL]) if atoms else ""
                claims = _claims(method, r["rates"], show)
                who, hours = _who(method, r["rates"]), _hours(r["hours_per_100"])
                lines.append((who, gsm0, recall, *means, *claims, hours))
    return lines


def _paper(row: Row, method: str = "grain") -> Line:
    """What is printed of an attack."""
    paper = printed(row, method)
    gsm0, *others = (_percent(paper[c]) for c in COLUMNS)
    return ("", gsm0, *others, *[""] * len(CLAIMS), _hours(paper["hours_per_100"]))


def side_by_side(rows: Sequence[Row], records: Sequence[Record]) -> list[Line]:
    """FULL by size class, one column for the paper and each method: the paper's pooled classes, then row by row."""
    lines: list[Line] = []
    for group in SIZES:
        classes = [_pooled(group, method, records)[1] for method in METHODS]
        for size, (_, _, full) in group.printed.items():
            if any(size in found for found in classes):
                lines.append(
                    (f"**pooled, {group.title}**", size, f"{full:.1f}", *(_full(c.get(size)) for c in classes))
                )
    stored = {(r["row"], r["attack"]): r["by_size"] for r in records}
    for row in rows:
        classes = [stored.get((row.name, method.name), {}) for method in METHODS]
        for size, _, _ in CLASSES:
            if any(size in found for found in classes):
                lines.append((f"`{row.name}`", size, "", *(_full(c.get(size)) for c in classes)))
    return lines


def sizes(records: Sequence[Record]) -> list[Line]:
    """Tables 3 and 11: the paper and each method, one size class after the other."""
    lines: list[Line] = []
    for group in SIZES:
        pooled = {method: _pooled(group, method, records) for method in METHODS}
        for size, numbers in group.printed.items():
            found = {method: (names, classes[size]) for method, (names, classes) in pooled.items() if size in classes}
            if found:
                paper = (f"{number:.1f}" for number in numbers)
                lines.append((f"**{group.title}, {size} nodes**", "paper", "", *paper, *[""] * len(CLAIMS)))
            for method, (names, part) in found.items():
                gsm0, *means = (interval(part[c]) for c in ("gsm0", "gsm2", "exact"))
                recall = interval(part[RECALL]) if RECALL in part else ""
                lines.append((names, _who(method, part), gsm0, recall, *means, *_claims(method, part, interval)))
    return lines


def _pooled(group: Sizes, method: Method, records: Sequence[Record]) -> tuple[str, dict[str, Any]]:
    """The names of the pooled rows, and the rates of all their clients by size class."""
    parts = [r for r in records if r["row"] in group.rows and r["attack"] == method.name]
    clients = [client for r in parts for client in r["clients"]]
    return ", ".join(f"`{r['row']}`" for r in parts), by_size(clients)


def _runs(records: Sequence[Record]) -> list[Line]:
    lines = []
    for r in records:
        done = r["specification"]
        stops = ", ".join(f"{count} {stop}" for stop, count in sorted(r["stops"].items()))
        how = (str(r["graphs"]), done["task"] or "first", f"{done['time_limit']:g}", str(r["seed"]), stops)
        lines.append((f"`{r['row']}`", r["attack"], *how, r["device"], r["version"]))
    return lines


def mean(rate: Record) -> str:
    """A mean in percent."""
    return _percent(rate["mean"])


def _who(method: Method, found: Record) -> str:
    return f"{method.title} ({found['graphs']} graphs)"


def _claims(method: Method, found: Record, show: Callable[[Record], str]) -> Line:
    """Truth in the set, rate of a guess in it, share certified unique and how many of those are wrong."""
    if not method.certifies:
        return ("",) * len(CLAIMS)
    guess = show(found["guess_rate"]) if "guess_rate" in found else ""
    wrong = f"{found['unique_wrong']} of {found['unique_count']}"
    return show(found["truth_in_set"]), guess, show(found["unique"]), wrong


def _full(found: Record | None) -> str:
    return "-" if found is None else f"{interval(found['exact'])} of {found['graphs']}"


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f}"


def _hours(hours: float | None) -> str:
    return "-" if hours is None else f"{hours:.1f}" if hours >= 1 else f"{hours:.2f}"
