"""Rows and attacks that are defined and have no record, each with its reason: ``not_run.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from benchmarks.lib.records import RESULTS, Record, read
from benchmarks.papers.defenses.rows import DEFENSES
from benchmarks.papers.fedgig.rows import FEDGIG
from benchmarks.papers.fedgnn import rows as fedgnn_rows
from benchmarks.papers.glg.rows import GLG
from benchmarks.papers.grain import methods as grain_methods
from benchmarks.papers.grain import rows as grain_rows
from benchmarks.papers.graphdlg.rows import GRAPHDLG

FILE = Path(__file__).parent / "not_run.toml"

EDGES = {"glg": GLG, "fedgig": FEDGIG, "graphdlg": GRAPHDLG, "defenses": DEFENSES}

PAPERS = ("grain", *EDGES, "fedgnn")


class Cell(NamedTuple):
    """An attack on a row of a paper."""

    paper: str
    row: str
    attack: str


class Reason(NamedTuple):
    """Why cells are not run: names of rows and attacks with ``*`` for anything."""

    paper: str
    rows: tuple[str, ...]
    attacks: tuple[str, ...]
    why: str

    def covers(self, cell: Cell) -> bool:
        """Whether this is the reason of the cell."""
        return (
            self.paper == cell.paper
            and any(fnmatchcase(cell.row, row) for row in self.rows)
            and any(fnmatchcase(cell.attack, attack) for attack in self.attacks)
        )


def reasons(file: Path = FILE) -> list[Reason]:
    """What ``not_run.toml`` says; of two that cover a cell the first counts."""
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["reason"]
    return [Reason(one["paper"], tuple(one["rows"]), tuple(one.get("attacks", ["*"])), one["why"]) for one in entries]


def defined() -> Iterator[Cell]:
    """Every attack that a row defines."""
    for row in grain_rows.ROWS:
        for method in grain_methods.METHODS:
            if method.specification(row) is not None:
                yield Cell("grain", row.name, method.name)
    for paper, table in EDGES.items():
        for line in table.rows:
            for attacker in line.attackers:
                yield Cell(paper, line.name, attacker)
    for row in fedgnn_rows.ROWS:
        yield Cell("fedgnn", row.name, fedgnn_rows.RMSE.name)
        if fedgnn_rows.watched(row):
            yield Cell("fedgnn", row.name, fedgnn_rows.LEAK.name)
        if fedgnn_rows.repeated(row):
            yield Cell("fedgnn", row.name, fedgnn_rows.SEEDS.name)
        if fedgnn_rows.counted(row):
            yield Cell("fedgnn", row.name, fedgnn_rows.TRAFFIC.name)


def stored() -> dict[str, list[Record]]:
    """The records of all papers."""
    return {paper: read(RESULTS / f"{paper}.jsonl") for paper in PAPERS}


def missing(
    records: Mapping[str, Sequence[Record]], named: Sequence[Reason]
) -> tuple[dict[Reason, list[Cell]], list[str]]:
    """Cells without a record by their reason; and what is wrong: cells without a reason, reasons without a cell."""
    have = {Cell(paper, one["row"], one["attack"]) for paper, lines in records.items() for one in lines}
    found = {reason: list[Cell]() for reason in named}
    problems = []
    for cell in defined():
        if cell in have:
            continue
        reason = next((reason for reason in named if reason.covers(cell)), None)
        if reason is None:
            problems.append(f"{cell.paper}: {cell.row}, {cell.attack}: neither a record nor a reason in {FILE.name}")
        else:
            found[reason].append(cell)
    for reason, cells in found.items():
        if not cells:
            problems.append(
                f"{FILE.name}: nothing is missing of {reason.paper}, {', '.join(reason.rows)}: {reason.why}"
            )
    return found, problems
