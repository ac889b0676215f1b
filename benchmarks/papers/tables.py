"""A paper's printed numbers beside ours: ``python -m benchmarks.papers.tables grain``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from benchmarks.lib.options import chosen
from benchmarks.lib.provenance import provenance, sources
from benchmarks.lib.records import RESULTS, Record, read
from benchmarks.papers.registry import PAPERS, Paper, Size, cell
from jgleak.audit.specification import Specification
from jgleak.audit.workers import share
from jgleak.cli.progress import bar

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    name: Annotated[str, typer.Argument(help=f"The paper: {', '.join(PAPERS)}.")],
    rows: Annotated[str | None, typer.Option(help="Rows to run, by commas; all by default. See --list.")] = None,
    attacks: Annotated[str | None, typer.Option(help="Attacks to run, by commas; all by default. See --list.")] = None,
    graphs: Annotated[
        int | None,
        typer.Option(min=2, help="Clients a row (of fedgnn: users attacked); as many as the paper's by default."),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(min=1e-3, help="Seconds an attack may take on one client; fedgnn has none.")
    ] = 60.0,
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
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Take over what benchmarks/results has of this very code, run in the same way."),
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that share the rows' attacks, each on its own part of the cores.")
    ] = 1,
    show: Annotated[bool, typer.Option("--list", help="Name the rows and attacks and exit.")] = False,
) -> None:
    """Run the experiments of a paper on our data, and print its numbers beside ours."""
    if name not in PAPERS:
        raise typer.BadParameter(f"no tables of {name!r}; choose one of {', '.join(PAPERS)}", param_hint="name")
    paper = PAPERS[name]
    named_rows = {row.name: row for row in paper.rows}
    named_methods = {method.name: method for method in paper.methods}
    wanted = [named_rows[row] for row in chosen(rows, named_rows, "--rows")]
    methods = [named_methods[method] for method in chosen(attacks, named_methods, "--attacks")]
    if show:
        for row in wanted:
            typer.echo(f"{row.name:<28}{row.title} ({row.source})")
        for method in methods:
            typer.echo(f"{method.name:<28}{method.title}")
        return
    if files and (rows or attacks or graphs):
        message = "files say what they measured; leave --rows, --attacks and --graphs out"
        raise typer.BadParameter(message, param_hint="--from")
    _refuse(name, files, resume, workers)
    stderr, records = Console(stderr=True), []
    stored, origin = _stored(name) if resume else {}, provenance()
    size = Size(graphs, time_limit)
    try:
        for record in _read(files, paper) if files else _run(name, wanted, methods, size, stored, workers, stderr):
            taken_over = "sources" in record
            if not (taken_over or files or "absent" in record):
                record = record | origin | {"workers": workers}
            if json_lines:
                print(json.dumps(record), flush=True)
            if "absent" in record:
                stderr.print(f"{record['row']}: absent. {record['absent']}", markup=False)
                continue
            records.append(record)
            if write and not taken_over:
                _write(name, record)
    except KeyboardInterrupt:
        stderr.print("interrupted; what was finished follows")
        raise typer.Exit(130) from None
    except ChildProcessError as error:
        stderr.print(f"{error}; what was finished follows", markup=False)
        raise typer.Exit(1) from error
    finally:
        if records:
            Console(stderr=json_lines).print(_table(paper, wanted, records))


def _refuse(name: str, files: Sequence[Path] | None, resume: bool, workers: int) -> None:
    """Raise ``typer.BadParameter`` where the paper's runs are not read, resumed or shared."""
    if files and PAPERS[name].finished is None:
        raise typer.BadParameter(f"only grain's runs are read from files; run {name}", param_hint="--from")
    if resume and (files or PAPERS[name].wanted is None):
        raise typer.BadParameter(f"{'files are read' if files else name + ' is run'} whole", param_hint="--resume")
    if workers > 1 and (reason := _alone(name, files)):
        raise typer.BadParameter(reason, param_hint="--workers")


def _alone(name: str, files: Sequence[Path] | None) -> str | None:
    """Why the work cannot be shared, or None."""
    if files:
        return "files are read, nothing is run"
    if PAPERS[name].wanted is None:
        return f"{name} trains once for all attacks on a row; leave it out"
    return None if jax.default_backend() == "cpu" else "it shares a processor's cores; leave it out on accelerators"


def _run(
    name: str,
    rows: Sequence[Any],
    methods: Sequence[Any],
    size: Size,
    stored: Mapping[tuple[str, str], Record],
    workers: int,
    stderr: Console,
) -> Iterator[Record]:
    """What is stored, then what is left: row by row here, or its cells among workers, as they are done."""
    paper, left = PAPERS[name], list[tuple[Any, list[Any]]]()
    for row in rows:
        done = {m.name: _done(paper, row, m, size, workers, stored) for m in methods} if stored else {}
        yield from (record for record in done.values() if record)
        if missing := [method for method in methods if done.get(method.name) is None]:
            left.append((row, missing))
    if workers > 1:
        yield from _shared(name, left, size, workers, stderr)
        return
    for row, missing in left:
        with bar(stderr) as status:
            status.add_task(row.title, total=None)

            def progress(attack: str, done: int, total: int, title: str = row.title) -> None:
                status.update(status.task_ids[0], completed=done, total=total, description=f"{title}: {attack}")

            yield from paper.measure(row, missing, **size._asdict(), progress=progress)


def _shared(
    name: str, left: Sequence[tuple[Any, Sequence[Any]]], size: Size, workers: int, stderr: Console
) -> Iterator[Record]:
    paper, absent = PAPERS[name], set[str]()
    assert paper.wanted is not None
    cells = [
        (name, row.name, method.name, size)
        for row, methods in left
        for method in methods
        if paper.wanted(row, method, *size) is not None
    ]
    running = {row for _, row, _, _ in cells}
    for row, methods in left:
        if row.name not in running:  # says why
            yield from paper.measure(row, methods, **size._asdict(), progress=lambda *_: None)
    with bar(stderr) as status:
        task = status.add_task(name, total=len(cells))
        for records in share(cell, cells, workers):
            status.advance(task)
            for record in records:
                whole = "absent" in record and record["attack"] is None
                if not (whole and record["row"] in absent):
                    yield record
                if whole:
                    absent.add(record["row"])


def _stored(name: str) -> dict[tuple[str, str], Record]:
    """What ``benchmarks/results`` has of a paper, by row and attack."""
    return {(record["row"], record["attack"]): record for record in read(RESULTS / f"{name}.jsonl")}


def _done(
    paper: Paper,
    row: Any,
    method: Any,
    size: Size,
    workers: int,
    stored: Mapping[tuple[str, str], Record],
) -> Record | None:
    """What this code made of the attack on the row in the same way; empty where the row has it not."""
    assert paper.wanted is not None
    wanted, record = paper.wanted(row, method, *size), stored.get((row.name, method.name))
    if wanted is None:
        return {}
    if record is None or (record.get("sources"), record.get("workers")) != (sources(), workers):
        return None
    return record if Specification.from_json(record["specification"]) == wanted else None


def _read(files: Sequence[Path], paper: Paper) -> Iterator[Record]:
    assert paper.finished is not None
    try:
        for file in files:
            yield from paper.finished(file, paper.rows)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from error


def _write(name: str, record: dict[str, Any]) -> None:
    """Replace one row and attack among the stored ones, in the paper's order, and render all of them."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}.jsonl"
    stored = _stored(name) | {(record["row"], record["attack"]): record}
    paper = PAPERS[name]
    order = [(row.name, method.name) for row in paper.rows for method in paper.methods]
    ordered = [stored[key] for key in order if key in stored]
    beside = file.with_suffix(".part")
    beside.write_text("".join(json.dumps(r) + "\n" for r in ordered), encoding="utf-8")
    os.replace(beside, file)
    (RESULTS / f"{name}.md").write_text(paper.document(paper.rows, ordered), encoding="utf-8")


def _table(paper: Paper, rows: Sequence[Any], records: Sequence[Record]) -> Group:
    """The same lines as the page's, without intervals: a table below each line that is a title alone, with the columns
    that have an entry in it."""
    parts, lines = list[RenderableType](), list[Sequence[str]]()
    for title, *cells in paper.lines(rows, records):
        if any(cells):
            lines.append((title, *cells))
            continue
        parts += _part(paper.head, lines)
        parts.append(Text(title.replace("**", ""), style="bold"))
        lines = []
    return Group(*parts, *_part(paper.head, lines))


def _part(head: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[Table]:
    if not lines:
        return
    table = Table(box=SIMPLE_HEAD, padding=0)
    shown = [place for place in range(len(head)) if not place or any(line[place] for line in lines)]
    for place in shown:
        table.add_column(head[place], justify="right" if place else "left", min_width=None if place else 16)
    for line in lines:
        table.add_row(*(line[place] for place in shown))
    yield table


if __name__ == "__main__":
    app()
