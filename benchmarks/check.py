"""README and docs beside the records that their numbers come from: ``python benchmarks/check.py``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parents[1]))  # called by its path, Python looks beside this file alone

from benchmarks.generated_pages import GENERATED, WITHOUT_RECORDS, Generated
from benchmarks.lib.records import RESULTS, Record, read
from benchmarks.papers.missing import Cell, Reason, missing, reasons, stored
from benchmarks.quotes.numbers import KEYS, key
from benchmarks.quotes.passages import checked, pages

ROOT = Path(__file__).parents[1]

NONE = "not recorded"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    write: Annotated[bool, typer.Option("--write", help="Put the records' numbers into the pages.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out pages whose intervals are drawn anew: half a minute.")
    ] = False,
) -> None:
    """Compare every page with its records, name where records come from, and what is not run and why.

    Status 1 where a page differs, a number of a table has neither record nor reason, or an experiment that the papers'
    rows define has neither.
    """
    problems = [*compared(write, quick), *unlisted()]
    cells, wrong = missing(stored(), reasons())
    for line in (*origins(), "", *not_run(cells), ""):
        typer.echo(line)
    for problem in (*problems, *wrong):
        typer.echo(problem, err=True)
    if problems or wrong:
        hint = "what differs was written" if write else "python -m benchmarks.check --write writes what differs"
        typer.echo(f"{len(problems) + len(wrong)} problems; {hint}", err=True)
        raise typer.Exit(1)
    typer.echo("README, docs and results pages have what the records have" + (", as far as --quick looks" * quick))


def compared(write: bool = False, quick: bool = False, root: Path = ROOT) -> list[str]:
    """What differs between pages under ``root`` and the records; ``write`` mends it."""
    problems = []
    for one in GENERATED:
        if not (quick and one.resampled):
            problems += _whole(root, one, write)
    for page in pages():
        text = (root / page.page).read_text(encoding="utf-8")
        right, found = checked(page, text)
        problems += found
        if write and right != text:
            (root / page.page).write_text(right, encoding="utf-8")
    return problems


def _whole(root: Path, one: Generated, write: bool) -> Iterator[str]:
    file, wanted = root / one.page, one.made()
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if text == wanted:
        return
    lines = zip(text.splitlines(), wanted.splitlines(), strict=False)
    first = next((pair for pair in lines if pair[0] != pair[1]), ("the end", "more, or less"))
    yield f"{one.page}: has {first[0]!r}, and what makes it {first[1]!r}, and perhaps more"
    if write:
        file.write_text(wanted, encoding="utf-8")


def unlisted() -> Iterator[str]:
    """Pages of ``results/`` that nothing here knows, and pages of docs/results without a file of quotes."""
    known = {Path(one.page).stem for one in GENERATED} | set(WITHOUT_RECORDS)
    for file in sorted(RESULTS.glob("*.md")):
        if file.stem not in known:
            yield f"benchmarks/results/{file.name}: neither made of records nor in WITHOUT_RECORDS"
    quoted = {page.page for page in pages()}
    for file in (ROOT / "README.md", *sorted((ROOT / "docs" / "results").glob("*.md"))):
        if (name := file.relative_to(ROOT).as_posix()) not in quoted:
            yield f"{name}: no file of benchmarks/quotes says where its numbers come from"


def origins() -> Iterator[str]:
    """A table: file, records, digest of the code, date and command; records of one run share a line."""
    yield f"{'records':<20}{'of them':>8}  {'code':<18}{'date':<14}command; rows"
    for file in sorted(RESULTS.glob("*.jsonl")):
        lines = read(file)
        head = lines[0] if lines and not _named(file.stem, lines[0]) else {}  # one line about all others
        runs: dict[tuple[str, str, str], list[str]] = {}
        for one in lines:
            if one is not head:
                about = head | one
                origin = (about.get("sources") or NONE, about.get("date") or NONE, about.get("command") or NONE)
                runs.setdefault(origin, []).append(key(file.stem, one) if file.stem in KEYS else "")
        for (sources, date, command), names in runs.items():
            yield f"{file.stem:<20}{len(names):>8}  {sources:<18}{date:<14}{command}; {_short(names)}"
    for name, why in WITHOUT_RECORDS.items():
        yield f"{name:<20}{'none':>8}  {why}"


def _named(file: str, one: Record) -> bool:
    return file in KEYS and any(name in one for name in KEYS[file])


def _short(names: Sequence[str]) -> str:
    named = [name for name in names if name]
    return ", ".join(named[:3]) + (f", .., {named[-1]}" if len(named) > 4 else "".join(f", {n}" for n in named[3:]))


def not_run(cells: Mapping[Reason, Sequence[Cell]]) -> Iterator[str]:
    """What the papers' rows define and was not run: how many attacks, on which rows, and why."""
    yield "not run"
    for reason, found in cells.items():
        rows = ", ".join(dict.fromkeys(cell.row for cell in found))
        yield f"{reason.paper:<10}{len(found):>4}  {rows}: {reason.why}"


if __name__ == "__main__":
    app()
