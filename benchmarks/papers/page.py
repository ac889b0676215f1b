"""docs/papers.md: the papers' tables and figures beside ours. ``python -m benchmarks.papers.page --write``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from scipy.stats import fisher_exact

from benchmarks.lib.page import markdown
from benchmarks.lib.records import RESULTS, Record
from benchmarks.papers.edges.page import number
from benchmarks.papers.edges.table import Line
from benchmarks.papers.fedgnn import rows as fedgnn_rows
from benchmarks.papers.grain import rows as grain_rows
from benchmarks.papers.grain.methods import METHODS, MOLECULES
from benchmarks.papers.grain.records import RECALL
from benchmarks.papers.grain.records import printed as grain_printed
from benchmarks.papers.grain.rivals import LBFGS, NAMES, RIVALS
from benchmarks.papers.missing import EDGES, Cell, missing, reasons, stored
from jgleak.audit.record import SIZES
from jgleak.metrics import rate

CONTENTS = Path(__file__).parent / "contents.toml"
PAGE = Path(__file__).parents[2] / "docs" / "papers.md"

ABOUT = """\
# The papers, table by table

Written by `python -m benchmarks.papers.page --write`; do not edit. Every table and figure of the five papers: the
command that computes ours, our number with the paper's in brackets, and how the two compare. *Better*, *worse*: the
paper's number lies outside the 95 % interval of our clients; *same*: within it, or equal as printed here. Of exact
reconstructions the number of graphs is known on both sides, but for those by size: they are the same where Fisher's
exact test finds no difference at 5 %. Otherwise the spread of the paper's own number is not counted. A single run has
no verdict. For errors (RNMSE, MSE, MAE, RMSE) smaller is better. Our clients, 10 to 100 a row (of GLG's batches up to
500 graphs in ten updates), are other samples of the same sets than the papers'. The sums at the head of a paper count
a number once, however many tables show it; a table with clients of the defence grid (GraphDLG's Table 9) is not in its
paper's sum. Guesses that see no gradient, all intervals and the number of clients are in
`benchmarks/results/*.md`. Run the commands in the repository's root, with the test extras installed (README) and the
[data sets](command-line.md) in place. Without `--write` they leave the repository's records as they are; `--graphs 2`
makes a short run (not of `fedgnn`, nor of modules of their own, which `--help` tells of). Options that a record was run
with besides stand below its command, with the rows, where they are not all."""

METRICS = {"exact": ("exact", "exact"), "GSM-0": (RECALL, "gsm0"), "GSM-1": ("gsm1", "gsm1"), "GSM-2": ("gsm2", "gsm2")}
"""GRAIN's columns: the name of ours, and of the paper's. Its GSM-0 is a recall."""

NO_ANSWER = "it was run, and has an answer on no client"

LIMITS = re.compile(r"--(?:graphs|time-limit) [0-9.]+")
"""Options of a record's command that change how many clients it is of, and how long each has."""

RIVAL_RECOMMENDERS = ("fcf", "fedmf")

ERRORS = {column.title for table in EDGES.values() for column in table.columns if not column.up}


LEVEL = 0.05
"""Of Fisher's test."""


class Number(NamedTuple):
    """One of ours beside the paper's; None where there is none.

    Attributes:
      mean: ours.
      low: of its interval.
      high: of its interval.
      printed: the paper's.
      error: smaller is better.
      graphs: of shares of successes, how many graphs ours and the paper's are of.
      single: of one run, which has no interval.
    """

    mean: float
    low: float
    high: float
    printed: float | None = None
    error: bool = False
    graphs: tuple[int, int] | None = None
    single: bool = False

    @property
    def verdict(self) -> str | None:
        """``better``, ``same`` or ``worse`` than what is printed; None where nothing is, and of a single run."""
        if self.printed is None or self.single:
            return None
        if self._alike(self.printed):
            return "same"
        return "better" if (self.mean < self.printed) == self.error else "worse"

    def _alike(self, printed: float) -> bool:
        if self.graphs is None:
            return self.low <= printed <= self.high or number(self.mean) == number(printed)
        shares = zip((self.mean, printed), self.graphs, strict=True)
        successes = [(round(share * of), of) for share, of in shares]
        test: Any = fisher_exact([[one, of - one] for one, of in successes])
        return test.pvalue >= LEVEL

    def __str__(self) -> str:
        beside = "" if self.printed is None else f" ({number(self.printed)}) {self.verdict or ''}"
        return number(self.mean) + beside.rstrip()


Numbers = dict[str, Number]
"""By column."""

WHOSE = {
    "own": "The paper's method, as we run it",
    "rival": "Its rivals, as we run them",
    "ours": "Ours, beside the same numbers",
}


class Measured(NamedTuple):
    """One attack on one row: its numbers, or why it has none; and whose it is, a name of ``WHOSE``."""

    title: str
    attack: str
    numbers: Numbers
    why: str | None = None
    whose: str = "own"


class Section(NamedTuple):
    """What the page says of a table or figure, and the attacks in it."""

    text: str
    lines: Sequence[Measured]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(write: Annotated[bool, typer.Option("--write", help="Into docs/papers.md.")] = False) -> None:
    """Print the page, or write it."""
    page = document()
    if write:
        PAGE.write_text(page, encoding="utf-8")
    else:
        typer.echo(page, nl=False)


def contents() -> list[dict[str, Any]]:
    """What ``contents.toml`` says of each paper."""
    return tomllib.loads(CONTENTS.read_text(encoding="utf-8"))["paper"]


def document() -> str:
    """The whole page. Its sums count a row once, however many tables show it, and none of another grid's clients."""
    parts = [ABOUT]
    for paper in contents():
        sections = [section(paper["name"], item) for item in paper["item"]]
        own = [one for one, item in zip(sections, paper["item"], strict=True) if "paper" not in item]
        lines = list({(line.title, line.attack): line for one in own for line in one.lines}.values())
        by = {text: [line for line in lines if line.whose == whose] for whose, text in WHOSE.items()}
        counts = " ".join(f"{text}: {_count(ones)}" for text, ones in by.items() if ones)
        parts += [f"## {paper['title']}", f"All numbers: [{paper['page']}]({paper['page']}). {counts}", paper["about"]]
        parts += [one.text for one in sections]
    return "\n\n".join(parts) + "\n"


def _count(lines: Sequence[Measured]) -> str:
    """How many numbers are better, the same and worse."""
    verdicts = [one.verdict for line in lines for one in line.numbers.values()]
    return ", ".join(f"{verdicts.count(word)} {word}" for word in ("better", "same", "worse")) + "."


def section(paper: str, item: Mapping[str, Any]) -> Section:
    """One table or figure of a paper."""
    head = f"### {item['name']}: {item['what']}"
    if "none" in item:
        return Section(f"{head}\n\nNot run: {item['none'].rstrip('.')}.", [])
    if "command" in item:
        name = item["results"]
        curves = f", as curves `{name}.svg`" if (RESULTS / f"{name}.svg").exists() else ""
        shown = f"No number is printed; ours: `benchmarks/results/{name}.md`{curves}."
        return Section(f"{head}\n\n```bash\n{item['command']}\n```\n\n{shown}\n\nWhy: {item['why']}", [])
    paper = item.get("paper", paper)
    lines = list(_sizes(item) if "sizes" in item else _rows(paper, item))
    columns = list(dict.fromkeys(column for line in lines for column in line.numbers))
    table = [(f"{line.title}, `{line.attack}`", *_cells(line, columns)) for line in lines if line.numbers]
    attacks = list(dict.fromkeys(line.attack for line in lines))
    option = f" --attacks {','.join(attacks)}"
    rows = ",".join(_names(paper, item))
    parts = [
        head,
        f"```bash\npython -m benchmarks.papers.tables {paper} --rows {rows}{option} --write\n```",
        _besides(paper, _names(paper, item), attacks),
        markdown(("", *columns), table) if table else "",
        *_idle(lines),
        f"Why: {item['why']}" if "why" in item else "",
    ]
    return Section("\n\n".join(part for part in parts if part), lines)


def _besides(paper: str, rows: Sequence[str], attacks: Sequence[str]) -> str:
    """The time limits and numbers of graphs that records were run with, by which attacks, and on which rows where not
    on all that were run."""
    found: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for attack in attacks:
        ran = [row for row in rows if Cell(paper, row, attack) in _records()]
        options: dict[str, list[str]] = {}
        for row in ran:
            for option in LIMITS.findall(_records()[Cell(paper, row, attack)]["command"]):
                options.setdefault(option, []).append(row)
        for option, some in options.items():
            found.setdefault(option, {}).setdefault(() if some == ran else tuple(some), []).append(f"`{attack}`")
    given = []
    for option, of in sorted(found.items()):
        each = [", ".join(names) + (": " + ", ".join(some)) * bool(some) for some, names in of.items()]
        given.append(f"`{option}` ({'; '.join(each)})")
    return f"Options of some records: {'; '.join(given)}." if given else ""


def _idle(lines: Sequence[Measured]) -> Iterator[str]:
    """What has no numbers, by the reason, then by attack."""
    for why in dict.fromkeys(line.why for line in lines if line.why is not None):
        found = [line for line in lines if line.why == why]
        attacks = dict.fromkeys(line.attack for line in found)
        named = (f"`{attack}` ({'; '.join(one.title for one in found if one.attack == attack)})" for attack in attacks)
        yield f"Without a number: {', '.join(named)}. {why[0].upper()}{why[1:].rstrip('.')}."


def _cells(line: Measured, columns: Sequence[str]) -> Iterator[str]:
    for column in columns:
        yield str(line.numbers[column]) if column in line.numbers else ""


@cache
def _records() -> dict[Cell, Record]:
    return {Cell(paper, one["row"], one["attack"]): one for paper, lines in stored().items() for one in lines}


@cache
def _why() -> dict[Cell, str]:
    found, _ = missing(stored(), reasons())
    return {cell: reason.why for reason, cells in found.items() for cell in cells}


def _table(paper: str) -> Sequence[Any]:
    return {"grain": grain_rows.ROWS, "fedgnn": fedgnn_rows.ROWS}.get(paper) or EDGES[paper].rows


def _names(paper: str, item: Mapping[str, Any]) -> list[str]:
    """The item's rows: those it names, or those whose source is its name."""
    if "sizes" in item:
        groups = [group for group in grain_rows.SIZES if group.source == item["sizes"]]
        return list(dict.fromkeys(row for group in groups for row in group.rows))
    patterns = item.get("rows")
    if patterns is None:
        return [row.name for row in _table(paper) if row.source == item["name"]]
    return [row.name for row in _table(paper) if any(fnmatchcase(row.name, pattern) for pattern in patterns)]


def _rows(paper: str, item: Mapping[str, Any]) -> Iterator[Measured]:
    """The item's rows by its attacks."""
    for row in (row for row in _table(paper) if row.name in _names(paper, item)):
        attacks = _attacks(paper, item, row)
        for attack in attacks:
            cell = Cell(paper, row.name, attack)
            whose, record = _whose(paper, row, attack), _records().get(cell)
            if record is not None:
                numbers = _numbers(paper, item, row, record)
                yield Measured(row.title, attack, numbers, None if numbers else NO_ANSWER, whose)
            elif cell in _why():
                yield Measured(row.title, attack, {}, _why()[cell], whose)


@cache
def _printed(paper: str) -> frozenset[str]:
    """The attacks of which the paper prints a number on some row."""
    if paper == "grain":
        return frozenset({"grain", *NAMES, *LBFGS})
    return frozenset(attack for row in EDGES[paper].rows for attack in row.printed)


def _whose(paper: str, row: Any, attack: str) -> str:
    """A name of ``WHOSE``; a method's variants begin with its name, and GLG has no rivals."""
    if paper == "fedgnn":
        return "rival" if row.name.endswith(RIVAL_RECOMMENDERS) else "own"
    variants = {one.name for one in EDGES[paper].methods if one.ours} if paper in EDGES else set[str]()
    if attack in variants or attack not in _printed(paper):
        return "ours"
    own = {"defenses": "graphdlg"}.get(paper, paper)
    return "own" if paper == "glg" or attack.startswith(own) else "rival"


def _beside(row: Any) -> Sequence[str]:
    """Attacks on a row that the paper's numbers stand beside."""
    return list(row.printed) if isinstance(row, Line) else ["grain", *RIVALS.get(row.name, ())]


def _attacks(paper: str, item: Mapping[str, Any], row: Any) -> Sequence[str]:
    if paper == "fedgnn":
        counted = "traffic" in item and fedgnn_rows.counted(row)
        seeds = item["name"] == row.source and fedgnn_rows.repeated(row)
        more = ([fedgnn_rows.SEEDS.name] if seeds else []) + ([fedgnn_rows.TRAFFIC.name] if counted else [])
        return more if seeds else [fedgnn_rows.RMSE.name, *more]
    named = item.get("attacks") or [*_beside(row), *item.get("also", ())]
    if any("*" in attack for attack in named):
        return [attack for attack in row.attackers if any(fnmatchcase(attack, one) for one in named)]
    return named


def _numbers(paper: str, item: Mapping[str, Any], row: Any, record: Record) -> Numbers:
    if paper == "fedgnn" and record["attack"] == fedgnn_rows.TRAFFIC.name:
        return {title: _rate(rate, None) for title, rate in record["means"].items()}
    if paper == "fedgnn" and record["attack"] == fedgnn_rows.SEEDS.name:
        return {f"RMSE, mean of {len(record['tests'])}": _rate(record["means"]["RMSE"], row.printed, True)}
    if paper == "fedgnn":
        test = record["test"]
        return {"RMSE": Number(test, test, test, row.printed, True, single=True)}
    if paper == "grain":
        printed = grain_printed(row, record["attack"])
        rates = {name: rate for name, rate in record["rates"].items() if name != RECALL or _molecules(row)}
        numbers = {t: _rate(rates[name], printed[theirs]) for t, (name, theirs) in METRICS.items() if name in rates}
        return numbers | {"exact": numbers["exact"]._replace(graphs=(record["graphs"], row.printed.graphs))}
    by = record["attack"] if record["attack"] in row.printed else item.get("printed", next(reversed(row.printed), None))
    beside = row.printed.get(by, {})
    means = {title: record["means"].get(title) for title in item.get("columns") or beside or row.columns}
    return {t: _rate(mean, beside.get(t), t in ERRORS) for t, mean in means.items() if mean is not None}


def _molecules(row: Any) -> bool:
    """Elsewhere every feature has two values, and the recall counts words that are not there."""
    return row.experiment.dataset in MOLECULES


def _rate(rate: Mapping[str, float], printed: float | None, error: bool = False) -> Number:
    return Number(rate["mean"], rate["low"], rate["high"], printed, error)


def _sizes(item: Mapping[str, Any]) -> Iterator[Measured]:
    """Exact answers of GRAIN and the census by size, pooled over the rows that were run."""
    for group in grain_rows.SIZES:
        for attack in (method.name for method in METHODS if method.name in ("grain", "census")):
            cells = [Cell("grain", row, attack) for row in group.rows]
            clients = [client for cell in cells if cell in _records() for client in _records()[cell]["clients"]]
            whose = "own" if attack == "grain" else "ours"
            if group.source != item["sizes"]:
                continue
            if not clients:
                yield Measured(group.title, attack, {}, _why()[cells[0]], whose)
                continue
            numbers = Numbers()
            for size, low, high in SIZES:
                exact = [float(client["exact"]) for client in clients if low <= client["n_nodes"] <= high]
                if exact:
                    found = rate(exact)
                    printed = group.printed[size][2] / 100
                    numbers[f"exact, {size} nodes"] = Number(found.mean, found.low, found.high, printed)
            yield Measured(group.title, attack, numbers, whose=whose)


if __name__ == "__main__":
    app()
