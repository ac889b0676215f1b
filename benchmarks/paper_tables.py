"""A paper's printed numbers beside ours: ``python benchmarks/paper_tables.py grain``."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import comparison
import fedgnn_measure
import fedgnn_page
import fedgnn_rows
import soft_measure
import soft_page
import utility
from defense_rows import DEFENSES
from fedgig_rows import FEDGIG
from glg_rows import GLG
from grain_rows import ROWS
from graphdlg_rows import GRAPHDLG
from jgleak.audit.specification import Specification
from jgleak.cli.status import spinner
from machine import sources
from measure import finished, measure, wanted
from methods import METHODS
from page import HEAD, document, mean, results
from workers import share

RESULTS = Path(__file__).resolve().parent / "results"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Record = dict[str, Any]


class Named(Protocol):
    """What ``--rows`` and ``--attacks`` choose."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...


N = TypeVar("N", bound=Named)


Wanted = Callable[[Any, Any, int | None, float], Specification | None]
"""From a row, an attack, the number of clients and the seconds for each."""


class Size(NamedTuple):
    """How much is measured: clients a row (None for the paper's), and seconds for each."""

    graphs: int | None
    time_limit: float


class Paper(NamedTuple):
    """A paper's rows, the attacks beside them, how a row is measured and read, and how all of it is shown.

    Attributes:
      rows: of its tables.
      methods: attacks.
      measure: runs a row; ``measure.measure``.
      finished: reads a finished run; None where only running is supported.
      wanted: the specification that a row's run of an attack has, None where it is not run there; None in all where no
        stored result says enough to be told from another.
      head: titles of the columns.
      lines: the table, without intervals.
      document: the page.
    """

    rows: Sequence[Any]
    methods: Sequence[Any]
    measure: Callable[..., Iterator[Record]]
    finished: Callable[[Path, Sequence[Any]], Iterator[Record]] | None
    wanted: Wanted | None
    head: Sequence[str]
    lines: Callable[[Sequence[Any], Sequence[Record]], Sequence[Sequence[str]]]
    document: Callable[[Sequence[Any], Sequence[Record]], str]


def _soft(
    table: comparison.Table,
    measure: Callable[..., Iterator[Record]] = soft_measure.measure,
    wanted: Wanted = soft_measure.wanted,
) -> Paper:
    return Paper(
        rows=table.rows,
        methods=table.methods,
        measure=partial(measure, table),
        finished=None,
        wanted=wanted,
        head=soft_page.head(table),
        lines=lambda rows, records: soft_page.lines(dataclasses.replace(table, rows=rows), records, soft_page.mean),
        document=lambda rows, records: soft_page.document(dataclasses.replace(table, rows=rows), records),
    )


PAPERS = {
    "grain": Paper(ROWS, METHODS, measure, finished, wanted, HEAD, partial(results, show=mean), document),
    "glg": _soft(GLG),
    "fedgig": _soft(FEDGIG),
    "graphdlg": _soft(GRAPHDLG),
    "defenses": _soft(DEFENSES, utility.measure, utility.wanted),
    "fedgnn": Paper(
        rows=fedgnn_rows.ROWS,
        methods=fedgnn_rows.METHODS,
        measure=fedgnn_measure.measure,
        finished=None,
        wanted=None,
        head=fedgnn_page.HEAD,
        lines=fedgnn_page.lines,
        document=fedgnn_page.document,
    ),
}
"""Papers by the name that users type."""


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
    chosen = _chosen({row.name: row for row in paper.rows}, rows, "--rows")
    methods = _chosen({method.name: method for method in paper.methods}, attacks, "--attacks")
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
    if files and paper.finished is None:
        raise typer.BadParameter(f"only grain's runs are read from files; run {name}", param_hint="--from")
    if resume and (files or paper.wanted is None):
        raise typer.BadParameter(f"{'files are read' if files else name + ' is run'} whole", param_hint="--resume")
    stderr, records = Console(stderr=True), []
    stored, digest = _stored(name) if resume else {}, sources()
    size = Size(graphs, time_limit)
    try:
        for record in _read(files, paper) if files else _run(name, chosen, methods, size, stored, workers, stderr):
            taken_over = "sources" in record
            if not (taken_over or files or "absent" in record):
                record = record | {"sources": digest}
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
    except BrokenProcessPool:
        stderr.print("a worker died (out of memory?); what was finished follows; try fewer workers", markup=False)
        raise typer.Exit(1) from None
    finally:
        if records:
            Console(stderr=json_lines).print(_table(paper, chosen, records))


def _chosen(known: dict[str, N], names: str | None, option: str) -> list[N]:
    wanted = list(known) if names is None else [part.strip() for part in names.split(",") if part.strip()]
    for name in wanted:
        if name not in known:
            raise typer.BadParameter(f"there is no {name!r}; choose of {', '.join(known)}", param_hint=option)
    return [known[name] for name in wanted]


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
        done = {m.name: _done(paper, row, m, size, stored) for m in methods} if stored else {}
        yield from (record for record in done.values() if record)
        if open_ := [method for method in methods if done.get(method.name) is None]:
            left.append((row, open_))
    if workers > 1:
        yield from _shared(name, left, size, workers, stderr)
        return
    for row, open_ in left:
        with spinner(stderr, row.title) as status:

            def progress(attack: str, done: int, total: int, title: str = row.title) -> None:
                status.update(status.task_ids[0], description=f"{title}: {attack} {done}/{total}")

            yield from paper.measure(row, open_, **size._asdict(), progress=progress)


def _shared(
    name: str, left: Sequence[tuple[Any, Sequence[Any]]], size: Size, workers: int, stderr: Console
) -> Iterator[Record]:
    cells = [(name, row.name, method.name, size) for row, methods in left for method in methods]
    with spinner(stderr, name) as status:
        for done, records in enumerate(share(cell, cells, workers), start=1):
            status.update(status.task_ids[0], description=f"{name}: {done} of {len(cells)} cells")
            yield from records


def cell(name: str, row: str, method: str, size: Size) -> list[Record]:
    """The records of one attack on one row of a paper; empty where the row has it not."""
    paper = PAPERS[name]
    (one,), (by,) = [r for r in paper.rows if r.name == row], [m for m in paper.methods if m.name == method]
    if paper.wanted is not None and paper.wanted(one, by, *size) is None:
        return []
    return list(paper.measure(one, [by], **size._asdict(), progress=lambda *_: None))


def _stored(name: str) -> dict[tuple[str, str], Record]:
    """What ``benchmarks/results`` has of a paper, by row and attack."""
    file = RESULTS / f"{name}.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {(record["row"], record["attack"]): record for record in map(json.loads, lines)}


def _done(
    paper: Paper,
    row: Any,
    method: Any,
    size: Size,
    stored: Mapping[tuple[str, str], Record],
) -> Record | None:
    """What this code made of the attack on the row, with the same specification; empty where the row has it not."""
    assert paper.wanted is not None
    wanted, record = paper.wanted(row, method, *size), stored.get((row.name, method.name))
    if wanted is None:
        return {}
    if record is None or record.get("sources") != sources():
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


def _table(paper: Paper, rows: Sequence[Any], records: Sequence[Record]) -> Table:
    """The same lines as the page's, without intervals."""
    table = Table(box=SIMPLE_HEAD, padding=0)
    for column in paper.head:
        table.add_column(column, justify="right" if column else "left")
    for title, *cells in paper.lines(rows, records):
        table.add_row(title.replace("**", ""), *cells)
    return table


if __name__ == "__main__":
    app()
