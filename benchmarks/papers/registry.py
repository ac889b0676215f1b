"""The papers whose tables are measured, by the name that users type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lib.records import Record
from benchmarks.papers.defenses import utility as defense_utility
from benchmarks.papers.defenses.rows import DEFENSES
from benchmarks.papers.edges import page as edge_page
from benchmarks.papers.edges import records as edge_records
from benchmarks.papers.edges import table as edge_table
from benchmarks.papers.fedgig.rows import FEDGIG
from benchmarks.papers.fedgnn import page as fedgnn_page
from benchmarks.papers.fedgnn import records as fedgnn_records
from benchmarks.papers.fedgnn import rows as fedgnn_rows
from benchmarks.papers.glg.rows import GLG
from benchmarks.papers.grain.methods import METHODS
from benchmarks.papers.grain.page import HEAD, document, mean, results
from benchmarks.papers.grain.records import finished, measure, wanted
from benchmarks.papers.grain.rows import ROWS
from benchmarks.papers.graphdlg.rows import GRAPHDLG
from jgleak.audit.specification import Specification

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
      measure: runs a row; ``grain_records.measure``.
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


def of_edges(
    table: edge_table.Table,
    measure: Callable[..., Iterator[Record]] = edge_records.measure,
    wanted: Wanted = edge_records.wanted,
) -> Paper:
    """A paper whose tables measure edges and features."""
    return Paper(
        rows=table.rows,
        methods=table.methods,
        measure=partial(measure, table),
        finished=None,
        wanted=wanted,
        head=edge_page.head(table),
        lines=lambda rows, records: edge_page.lines(dataclasses.replace(table, rows=rows), records, edge_page.mean),
        document=lambda rows, records: edge_page.document(dataclasses.replace(table, rows=rows), records),
    )


PAPERS = {
    "grain": Paper(ROWS, METHODS, measure, finished, wanted, HEAD, partial(results, show=mean), document),
    "glg": of_edges(GLG),
    "fedgig": of_edges(FEDGIG),
    "graphdlg": of_edges(GRAPHDLG),
    "defenses": of_edges(DEFENSES, defense_utility.measure, defense_utility.wanted),
    "fedgnn": Paper(
        rows=fedgnn_rows.ROWS,
        methods=fedgnn_rows.METHODS,
        measure=fedgnn_records.measure,
        finished=None,
        wanted=None,
        head=fedgnn_page.HEAD,
        lines=fedgnn_page.lines,
        document=fedgnn_page.document,
    ),
}
"""Papers by the name that users type."""


def cell(name: str, row: str, method: str, size: Size) -> list[Record]:
    """The records of one attack on one row of a paper."""
    paper = PAPERS[name]
    (one,), (by,) = [r for r in paper.rows if r.name == row], [m for m in paper.methods if m.name == method]
    return list(paper.measure(one, [by], **size._asdict(), progress=lambda *_: None))
