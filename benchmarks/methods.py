"""Which attacks stand beside the paper, what each is told, and which row a finished run belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from grain_rows import Row
from jgleak.audit.specification import Specification
from jgleak.datasets.moleculenet import TABLES

MOLECULES = ("embedded", *TABLES)
"""Data sets whose graphs the prior "molecule" can rank."""

FREE = ("task", "path", "graphs", "seed", "time_limit")
"""What two runs of one row may differ in; the page names it."""


@dataclasses.dataclass(frozen=True)
class Method:
    """One line under each row of the paper.

    Attributes:
      name: what ``--attacks`` takes.
      title: what people read.
      attack: a name of jgleak's registry.
      know: what it is told beyond what the row says.
      prior: how it ranks molecules; other graphs are not ranked.
      certifies: it lists all graphs that it cannot tell apart, with a certificate.
      baseline: it never looks at the gradient.
    """

    name: str
    title: str
    attack: str
    know: tuple[str, ...] = ()
    prior: str = "none"
    certifies: bool = False
    baseline: bool = False

    def specification(self, row: Row) -> Specification:
        """The row's experiment with this attack; how many graphs and how long is left open."""
        prior = self.prior if row.experiment.dataset in MOLECULES else "none"
        know = tuple(dict.fromkeys((*row.experiment.know, *self.know)))
        return dataclasses.replace(row.experiment, attack=self.attack, know=know, prior=prior)


METHODS = (
    Method("grain", "GRAIN, by jgleak", "grain"),
    Method("census", "census, n unknown", "census", prior="molecule", certifies=True),
    Method("census-n", "census, n known", "census", ("n",), certifies=True),
    Method("random", "baseline: random", "random", ("n",), baseline=True),
    Method("empty", "baseline: empty", "empty", ("n",), baseline=True),
    Method("mean-adjacency", "baseline: mean-adjacency", "mean-adjacency", ("n", "auxiliary"), baseline=True),
)
"""In the order of the page. The baselines are given more than the attacks, which have to find the number of nodes."""


def identify(specification: Specification, rows: Sequence[Row]) -> tuple[Row, Method]:
    """The row and the method that a run of this specification measures.

    Raises:
      ValueError: there is none; the message names the nearest and how it differs.
    """
    pairs = [(row, method) for row in rows for method in METHODS]
    gaps = [_gap(specification, method.specification(row)) for row, method in pairs]
    nearest = min(range(len(pairs)), key=lambda i: len(gaps[i]))
    row, method = pairs[nearest]
    if gaps[nearest]:
        gap = "; ".join(f"{name} is {here!r}, there {there!r}" for name, (here, there) in gaps[nearest].items())
        raise ValueError(f"this run belongs to no row; the nearest is {row.name} with {method.name}: {gap}")
    return row, method


def _gap(here: Specification, there: Specification) -> dict[str, tuple[Any, Any]]:
    """Fields that differ, with both values; the order of what is known does not matter."""
    first, second = (vars(s) | {"know": tuple(sorted(s.know))} for s in (here, there))
    return {name: (a, second[name]) for name, a in first.items() if name not in FREE and a != second[name]}
