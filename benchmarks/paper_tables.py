"""A paper's printed numbers beside ours: ``python benchmarks/paper_tables.py grain``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from grain_rows import ROWS, Row
from measure import finished, measure
from methods import METHODS, Method
from page import HEAD, document, mean, results

RESULTS = Path(__file__).resolve().parent / "results"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Named = TypeVar("Named", Row, Method)

PAPERS = {"grain": ROWS}
"""Papers by the name that users type."""


@app.command()
def main(
    name: Annotated[str, typer.Argument(help=f"The paper: {', '.join(PAPERS)}.")],
    rows: Annotated[str | None, typer.Option(help="Rows to run, by commas; all by default. See --list.")] = None,
    attacks: Annotated[str | None, typer.Option(help="Attacks to run, by commas; all by default. See --list.")] = None,
    graphs: Annotated[int | None, typer.Option(min=2, help="Clients a row; as many as the paper's by default.")] = None,
    time_limit: Annotated[float, typer.Option(min=1e-3, help="Seconds an attack may take on one client.")] = 60.0,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", exists=True, dir_okay=False, help="Run nothing: read what `jgleak attack --json` wrote."
        ),
    ] = None,
    json_lines: Annotated[bool, typer.Option("--json", help="One JSON object a row and attack.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Merge the results into benchmarks/results and render the page.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Name the rows and attacks and exit.")] = False,
) -> None:
    """Run the experiments of a paper on our data, and print its numbers beside ours."""
    if name not in PAPERS:
        raise typer.BadParameter(f"no tables of {name!r}; choose one of {', '.join(PAPERS)}", param_hint="name")
    chosen = _chosen({row.name: row for row in PAPERS[name]}, rows, "--rows")
    methods = _chosen({method.name: method for method in METHODS}, attacks, "--attacks")
    if show:
        for row in chosen:
            typer.echo(f"{row.name:<28}{row.title} ({row.source})")
        for method in methods:
            typer.echo(f"{method.name:<28}{method.title}")
        return
    if files and (rows or attacks or graphs):
        raise typer.BadParameter(
            "files say what they measured; leave --rows, --attacks and --graphs out", param_hint="--from"
        )
    stderr, records = Console(stderr=True), []
    try:
        for record in _read(files, PAPERS[name]) if files else _run(chosen, methods, graphs, time_limit, stderr):
            if json_lines:
                print(json.dumps(record), flush=True)
            if "absent" in record:
                stderr.print(f"{record['row']}: absent. {record['absent']}", markup=False)
                continue
            records.append(record)
            if write:
                _write(name, record)
    except KeyboardInterrupt:
        stderr.print("interrupted; what was finished follows")
        raise typer.Exit(130) from None
    finally:
        if records:
            Console(stderr=json_lines).print(_table(chosen, records))


def _chosen(known: dict[str, Named], names: str | None, option: str) -> list[Named]:
    wanted = list(known) if names is None else [part.strip() for part in names.split(",") if part.strip()]
    for name in wanted:
        if name not in known:
            raise typer.BadParameter(f"there is no {name!r}; choose of {', '.join(known)}", param_hint=option)
    return [known[name] for name in wanted]


def _run(
    rows: Sequence[Row], methods: Sequence[Method], graphs: int | None, time_limit: float, stderr: Console
) -> Iterator[dict[str, Any]]:
    for row in rows:
        with stderr.status(row.title) as status:

            def progress(attack: str, done: int, total: int, title: str = row.title) -> None:
                status.update(f"{title}: {attack} {done}/{total}")

            yield from measure(row, methods, graphs=graphs, time_limit=time_limit, progress=progress)


def _read(files: Sequence[Path], rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    try:
        for file in files:
            yield from finished(file, rows)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from error


def _write(name: str, record: dict[str, Any]) -> None:
    """Replace one row and attack among the stored ones, in the paper's order, and render all of them."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    stored = {(r["row"], r["attack"]): r for r in (*map(json.loads, lines), record)}
    order = [(row.name, method.name) for row in PAPERS[name] for method in METHODS]
    ordered = [stored[key] for key in order if key in stored]
    beside = file.with_suffix(".part")
    beside.write_text("".join(json.dumps(r) + "\n" for r in ordered), encoding="utf-8")
    os.replace(beside, file)
    (RESULTS / f"{name}.md").write_text(document(PAPERS[name], ordered), encoding="utf-8")


def _table(rows: Sequence[Row], records: Sequence[dict[str, Any]]) -> Table:
    """The same lines as the page's, without intervals."""
    table = Table(box=SIMPLE_HEAD, title="percent", title_justify="left", padding=0)
    for column in HEAD:
        table.add_column(column, justify="right" if column else "left")
    for title, *cells in results(rows, records, mean):
        table.add_row(title.replace("**", ""), *cells)
    return table


if __name__ == "__main__":
    app()
