"""``jgleak audit``: a grid of attacks, models, data, defences and seeds, resumable."""

from __future__ import annotations

import json
import sqlite3
import warnings
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from jgleak.audit.specification import Faults
from jgleak.cli import options as option
from jgleak.cli.progress import bar, doing
from jgleak.cli.status import FAILED, GATE, INTERRUPTED, last_words, mistakes, status_of
from jgleak.plural import counted
from jgleak.reading import check_file, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jgleak.audit.engines import Engine
    from jgleak.audit.gate.criterion import Criterion
    from jgleak.audit.grid import Grid


def audit(
    file: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The grid; see docs/auditing.md.")],
    resume: Annotated[
        bool, option.run("--resume", help="Continue the audit in the folder, if one was begun there.")
    ] = False,
    retry_failed: Annotated[
        bool, option.run("--retry-failed", help="With --resume: run failed units again too.")
    ] = False,
    engine: Annotated[
        str,
        option.run(
            help="local: on this machine; ray: as tasks of a Ray cluster.",
            autocompletion=option.complete(("local", "ray")),
        ),
    ] = "local",
    workers: Annotated[
        int | None, option.run(help="Chunks at a time: processes here (one by default), or Ray's tasks.")
    ] = None,
    dry_run: Annotated[
        bool, option.run("--dry-run", help="Check everything, count the units, estimate the time; run nothing.")
    ] = False,
    out: Annotated[Path | None, option.output(help="Folder for the store and the reconstructions.")] = None,
    fail_on: Annotated[
        list[str] | None,
        option.output(help="Fail (status 4) where a row of the results meets a criterion: unique>0, exact.high>=0.2."),
    ] = None,
    results: Annotated[Path | None, option.output(help="File for all results, as JSON by a published schema.")] = None,
    sarif: Annotated[Path | None, option.output(help="File for the findings, as SARIF 2.1.0.")] = None,
) -> None:
    """Run a grid of attacks, models, data sets, defences and seeds; after an interruption --resume continues it.

    Exit status: 0 all done, and no criterion of --fail-on met; 4 one is met; 1 some attacks failed; 2 a mistake,
    nothing was run; 130 Ctrl-C, 143 SIGTERM.
    """
    with mistakes():
        if engine not in ("local", "ray"):
            raise ValueError(f"engine: unknown {engine!r}; choose one of local, ray")
        if workers is not None and workers < 1:
            raise ValueError(f"workers: a number of processes or of Ray's tasks, from 1, got {workers}")
        if retry_failed and not resume:
            raise ValueError("retry-failed: a new audit has no failed units; add --resume")
        if out is None and not dry_run:
            raise ValueError("out: give a folder for the results with --out, or add --dry-run")
        if dry_run and (results or sarif or fail_on):
            raise ValueError("dry-run: it has no results; leave --results, --sarif and --fail-on out")
        try:
            check_file(file)
        except ValueError as error:
            raise ValueError(f"{error}; give a grid (*.toml, see docs/auditing.md)") from error
        text = read_text(file)

        from jgleak.audit.engines import in_processes, local, on_ray
        from jgleak.audit.gate.criterion import criterion
        from jgleak.audit.grid import read_grid

        criteria = [criterion(one) for one in fail_on or ()]
        files = results, sarif
        for path in files:
            inside = path is not None and out is not None and out.resolve() in path.resolve().parents
            if path is not None and not inside:  # the audit makes its own folder
                option.writable(path)
        try:
            with warnings.catch_warnings(record=True) as old:
                warnings.simplefilter("always", DeprecationWarning)
                grid = read_grid(text, file.parent)
            for one in old:
                typer.echo(f"warning: {file}: {one.message}", err=True)
        except Faults as error:
            raise Faults([f"{file}: {fault}" for fault in error.faults]) from error
        try:
            if dry_run:
                _foresee(grid, out)
            elif out is not None:
                here = local if workers in (None, 1) else in_processes(workers)
                run = on_ray(workers) if engine == "ray" else here
                same = f"jgleak audit {quote(str(file))} --out {quote(str(out))} --resume"
                beside = ", with the other options as before" if fail_on or results or sarif else ""
                said = f"interrupted; what has finished is kept, and this goes on{beside}: {same}"
                with last_words(lambda: typer.echo(said, err=True)):
                    status = _conduct(grid, out, resume, retry_failed, engine, run)
                if status >= INTERRUPTED:
                    typer.echo(said, err=True)
                if status < INTERRUPTED:
                    status = _judged(file, out, criteria, files) or status
                raise typer.Exit(status)
        except sqlite3.Error as error:
            raise ValueError(
                f"out: the store in {out} failed ({error}); --resume goes on from its last unit"
            ) from error


def _conduct(grid: Grid, out: Path, resume: bool, retry_failed: bool, engine: str, run: Engine) -> int:
    """Run the remaining units and show the results; returns the exit status."""
    from jgleak.audit.conduct import enter, remaining, unfinished
    from jgleak.audit.grid_table import audit_table
    from jgleak.audit.results import lost_files, open_audit
    from jgleak.audit.table import audit_compilation_line

    stderr = Console(stderr=True)
    with doing(stderr, "looking at data and models"):
        database, planned = enter(grid, out, resume, retry_failed)
    status, finished = 0, database.finished(retry_failed)
    total, broken = sum(p.graphs for p in planned), sum(s == "failed" for s in finished.values())
    stderr.print(Text(f"{grid.name}: {counted(total, 'unit')}, {len(finished)} finished before"))
    if finished and (lost := open_audit(out).lost):
        stderr.print(Text(lost_files(lost)), soft_wrap=True)
    try:
        database.started(engine)
        with bar(stderr, "failed") as progress:
            task = progress.add_task("", total=total, completed=len(finished), failed=broken)
            for chunk, outcomes in run(remaining(planned, finished)):
                cell = planned[chunk.position].cell
                outcomes = unfinished(cell, outcomes, finished)
                database.add(cell, outcomes)
                new = sum(outcome.status == "failed" for outcome in outcomes)
                broken += new
                if new:
                    reason = next(o.reason for o in outcomes if o.status == "failed") or ""
                    stderr.print(Text(f"{_called(cell.label)}: {new} failed: {reason.strip().splitlines()[-1]}"))
                progress.update(task, advance=len(outcomes), failed=broken, description=_called(cell.label))
    except KeyboardInterrupt as error:
        status = status_of(error)
    finally:
        database.close()
    units = open_audit(out).units
    stdout = Console()
    if units:  # none, where it was interrupted before the first ended
        stdout.print(audit_table(units))
    if (compiling := audit_compilation_line([unit.record for unit in units])) is not None:
        stdout.print(Text(compiling), soft_wrap=True)
    return status or (FAILED if any(unit.status == "failed" for unit in units) else 0)


def _judged(specification: Path, out: Path, criteria: Sequence[Criterion], files: Sequence[Path | None]) -> int | None:
    """Write the result files and print the gate's result; returns its exit status where it fails."""
    from jgleak.audit.gate.document import results_document
    from jgleak.audit.gate.gate import judge
    from jgleak.audit.gate.sarif import sarif_document
    from jgleak.audit.results import open_audit

    found = open_audit(out)
    result = judge(found, criteria)
    documents = lambda: results_document(found, result), lambda: sarif_document(specification, result)
    for line in result.lines:
        typer.echo(line, err=True)
    for path, document in zip(files, documents, strict=True):
        if path is not None:
            option.writable(path).write_text(json.dumps(document(), indent=1) + "\n", encoding="utf-8")
    return None if result.passes else GATE


def _called(label: dict[str, str]) -> str:
    return f"{label['attack']} / {label['data']} / {label['model']} / {label['defense']} / seed {label['seed']}"


def _foresee(grid: Grid, out: Path | None) -> None:
    """Print counts and estimated times; for an audit begun in the folder, of the remaining units."""
    from jgleak.audit.conduct import remaining
    from jgleak.audit.grid_table import plan_table, span
    from jgleak.audit.plan import PROBE, longest, plan, timed
    from jgleak.audit.results import DATABASE, open_audit
    from jgleak.audit.units import AGAIN

    stderr, stdout = Console(stderr=True), Console()
    begun = out is not None and (out / DATABASE).is_file()
    finished = {unit.hash: unit.status for unit in open_audit(out).units} if begun and out is not None else {}
    with doing(stderr, "looking at data and models"):
        planned = plan(grid)
    left: dict[int, int] = {}
    for chunk in remaining(planned, finished):
        left[chunk.position] = left.get(chunk.position, 0) + chunk.units
    stdout.print(plan_table(planned, left))
    skipped = sum(p.graphs for p in planned if p.impossible is not None)
    stdout.print(
        f"{counted(sum(p.graphs for p in planned), 'unit')} in {counted(len(planned), 'cell')}: "
        f"{sum(left.values())} to run, {skipped} impossible, {len(finished)} in the store"
    )
    with doing(stderr, f"timing one client of each attack, with a time limit of {PROBE:.0f} s"):
        estimate = timed(planned, left)
    stdout.print(
        f"about {span(estimate)}, by one client of each attack on each model and data set, compilation included"
    )
    stdout.print(
        f"{span(longest(planned, left))} if every attack uses up its time limit; up to {1 + AGAIN} times that where "
        "compilation cuts attacks short, which run again then"
    )
