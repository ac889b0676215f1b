"""A paper's printed numbers beside ours: ``python benchmarks/paper_tables.py grain``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grain_rows import ROWS, Row
from measure import measure
from page import COLUMNS, document

RESULTS = Path(__file__).resolve().parent / "results"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

PAPERS = {"grain": ROWS}
"""Papers by the name that users type."""


@app.command()
def main(
    name: Annotated[str, typer.Argument(help=f"The paper: {', '.join(PAPERS)}.")],
    rows: Annotated[str | None, typer.Option(help="Rows to run, by commas; all by default. See --list.")] = None,
    graphs: Annotated[int | None, typer.Option(min=2, help="Clients a row; as many as the paper's by default.")] = None,
    time_limit: Annotated[float, typer.Option(min=1e-3, help="Seconds an attack may take on one client.")] = 60.0,
    json_lines: Annotated[bool, typer.Option("--json", help="JSON on standard output, one object a row.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Merge the rows into benchmarks/results and render the page.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Name the rows and exit.")] = False,
) -> None:
    """Run the experiments of a paper on our data, and print its numbers beside ours."""
    if name not in PAPERS:
        raise typer.BadParameter(f"no tables of {name!r}; choose one of {', '.join(PAPERS)}", param_hint="name")
    chosen = _chosen(PAPERS[name], rows)
    if show:
        for row in chosen:
            typer.echo(f"{row.name:<28}{row.title} ({row.source})")
        return
    stderr, records = Console(stderr=True), []
    try:
        for row in chosen:
            with stderr.status(row.title) as status:

                def progress(attack: str, done: int, total: int, title: str = row.title) -> None:
                    status.update(f"{title}: {attack} {done}/{total}")

                record = measure(row, graphs=graphs, time_limit=time_limit, progress=progress)
            records.append(record)
            if json_lines:
                print(json.dumps(record), flush=True)
            if write:
                _write(name, record)
    except KeyboardInterrupt:
        stderr.print("interrupted; the finished rows follow")
        raise typer.Exit(130) from None
    finally:
        if records:
            Console(stderr=json_lines).print(_table(records))


def _chosen(known: Sequence[Row], names: str | None) -> list[Row]:
    by_name = {row.name: row for row in known}
    wanted = list(by_name) if names is None else [part.strip() for part in names.split(",") if part.strip()]
    for name in wanted:
        if name not in by_name:
            raise typer.BadParameter(f"no row {name!r}; choose of {', '.join(by_name)}", param_hint="--rows")
    return [by_name[name] for name in wanted]


def _write(name: str, record: dict[str, Any]) -> None:
    """Replace one row among the stored ones, in the paper's order, and render all of them."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    stored = {r["row"]: r for r in map(json.loads, lines)} | {record["row"]: record}
    ordered = [stored[row.name] for row in PAPERS[name] if row.name in stored]
    file.write_text("".join(json.dumps(r) + "\n" for r in ordered), encoding="utf-8")
    (RESULTS / f"{name}.md").write_text(document(ordered), encoding="utf-8")


def _table(records: Sequence[dict[str, Any]]) -> Table:
    """Paper, ours and the baselines below one another, in percent."""
    table = Table(box=SIMPLE_HEAD, title="percent, FULL with its 95 % interval", title_justify="left")
    table.add_column("", no_wrap=True)
    for column in ("GSM-0", "GSM-1", "GSM-2", "FULL", "", "h / 100 graphs"):
        table.add_column(column, justify="right", no_wrap=True)
    for r in records:
        paper = r["paper"]
        table.add_row(Text(r["row"], "bold"))
        table.add_row("  paper", *(_number(paper[c], 100) for c in COLUMNS), "", _number(paper["hours_per_100"], 1))
        if "absent" in r:
            table.add_row("  absent (why: --json)")
            continue
        exact, hours = r["ours"]["exact"], _number(r["hours_per_100"], 1)
        interval = f"{100 * exact['low']:.0f}-{100 * exact['high']:.0f}"
        table.add_row("  jgleak", *_means(r["ours"]), interval, hours)
        for baseline, rates in r["baselines"].items():
            table.add_row(f"  {baseline}", *_means(rates))
    return table


def _means(rates: dict[str, Any]) -> list[str]:
    return [_number(rates[c]["mean"], 100) for c in COLUMNS]


def _number(value: float | None, scale: float) -> str:
    return "-" if value is None else f"{scale * value:.1f}"


if __name__ == "__main__":
    app()
