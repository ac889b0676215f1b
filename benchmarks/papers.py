"""The papers whose tables are measured, by the name that users type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from measure import finished, measure, wanted
from methods import METHODS
from page import HEAD, document, mean, results

Record = dict[str, Any]

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


def soft(
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
    "glg": soft(GLG),
    "fedgig": soft(FEDGIG),
    "graphdlg": soft(GRAPHDLG),
    "defenses": soft(DEFENSES, utility.measure, utility.wanted),
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


def cell(name: str, row: str, method: str, size: Size) -> list[Record]:
    """The records of one attack on one row of a paper."""
    paper = PAPERS[name]
    (one,), (by,) = [r for r in paper.rows if r.name == row], [m for m in paper.methods if m.name == method]
    return list(paper.measure(one, [by], **size._asdict(), progress=lambda *_: None))
