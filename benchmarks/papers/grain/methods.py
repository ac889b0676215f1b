"""Which attacks stand beside the paper, what each is told, and which row a finished run belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any

from benchmarks.papers.grain.rivals import LBFGS, NAMES, printed_of
from benchmarks.papers.grain.rows import Row
from jgleak.audit.specification import Specification
from jgleak.datasets.moleculenet import TABLES

MOLECULES = ("embedded", *TABLES)
"""Data sets whose graphs the ranking "molecule" fits."""

FREE = ("task", "path", "graphs", "seed", "time_limit")
"""What two runs of one row may differ in; the page names it."""

OPTIMISER = (("optimiser", "lbfgs"),)
"""What the paper's rivals use on molecules and in its Table 9; the default here is Adam."""

GLUED = (("distinct_search", "glued"),)
"""The paper's search where all nodes differ, which is replaced here by another."""


@dataclasses.dataclass(frozen=True)
class Method:
    """One line under each row of the paper.

    Attributes:
      name: what ``--attacks`` takes.
      title: what people read.
      attack: a name of jgleak's registry.
      know: what it is told beyond what the row says.
      prior: how it ranks graphs with the same gradient. ``plain`` is run on molecules alone: elsewhere it is what
        ``auto`` chooses.
      certifies: it lists all graphs that it cannot tell apart, with a certificate.
      baseline: it never looks at the gradient.
      options: of the attack, where they are not the default.
    """

    name: str
    title: str
    attack: str
    know: tuple[str, ...] = ()
    prior: str = "auto"
    certifies: bool = False
    baseline: bool = False
    options: tuple[tuple[str, str], ...] = ()

    def specification(self, row: Row) -> Specification | None:
        """The row's experiment with this attack; how many graphs and how long is left open. None: not run there."""
        if self.prior == "plain" and row.experiment.dataset not in MOLECULES:
            return None
        if self.name in NAMES + LBFGS and printed_of(row.name, self.name) is None:
            return None
        if self.options == GLUED and (row.experiment.dataset in MOLECULES or not row.experiment.distinct_nodes):
            return None
        know = tuple(dict.fromkeys((*row.experiment.know, *self.know)))
        return dataclasses.replace(
            row.experiment, attack=self.attack, know=know, prior=self.prior, options=self.options
        )


METHODS = (
    Method("grain", "GRAIN, by jgleak", "grain"),
    Method("census", "census, n unknown", "census", certifies=True),
    Method("census-plain", "census, n unknown, ranked by structure", "census", prior="plain", certifies=True),
    Method("census-none", "census, n unknown, not ranked", "census", prior="none", certifies=True),
    Method("census-n", "census, n known", "census", ("n",), certifies=True),
    Method("census-n-plain", "census, n known, ranked by structure", "census", ("n",), "plain", certifies=True),
    Method("census-n-none", "census, n known, not ranked", "census", ("n",), "none", certifies=True),
    Method("dlg", "DLG", "dlg", ("n",)),
    Method("dlg-a", "DLG, told the edges", "dlg", ("n", "adjacency")),
    Method("tableak", "TabLeak", "tableak", ("n",)),
    Method("tableak-a", "TabLeak, told the edges", "tableak", ("n", "adjacency")),
    Method("dlg-lbfgs", "DLG, L-BFGS", "dlg", ("n",), options=OPTIMISER),
    Method("dlg-a-lbfgs", "DLG, L-BFGS, told the edges", "dlg", ("n", "adjacency"), options=OPTIMISER),
    Method("tableak-lbfgs", "TabLeak, L-BFGS", "tableak", ("n",), options=OPTIMISER),
    Method("tableak-a-lbfgs", "TabLeak, L-BFGS, told the edges", "tableak", ("n", "adjacency"), options=OPTIMISER),
    Method("grain-glued", "GRAIN, by the paper's search", "grain", options=GLUED),
    Method("random", "baseline: random", "random", ("n",), baseline=True),
    Method("empty", "baseline: empty", "empty", ("n",), baseline=True),
    Method("mean-adjacency", "baseline: mean-adjacency", "mean-adjacency", ("n", "auxiliary"), baseline=True),
)
"""In the order of the page. The baselines are given more than the attacks, which have to find the number of nodes."""


def identify(specification: Specification, rows: Sequence[Row]) -> tuple[Row, Method]:
    """The row and the method that a run of this specification measures; of rows that differ in the seed alone that of
    its own, or the first.

    Raises:
      ValueError: there is none; the message names the nearest and how it differs.
    """
    known = _known(tuple(rows))
    gaps = [_gap(specification, wanted) for _, _, wanted in known]
    nearest = min(range(len(known)), key=lambda i: (len(gaps[i]), known[i][2].seed != specification.seed))
    row, method, _ = known[nearest]
    if gaps[nearest]:
        gap = "; ".join(f"{name} is {here!r}, there {there!r}" for name, (here, there) in gaps[nearest].items())
        raise ValueError(f"this run belongs to no row; the nearest is {row.name} with {method.name}: {gap}")
    return row, method


@cache
def _known(rows: tuple[Row, ...]) -> list[tuple[Row, Method, Specification]]:
    """Every row with every method that is run on it, and their experiment."""
    pairs = [(row, method, method.specification(row)) for row in rows for method in METHODS]
    return [(row, method, wanted) for row, method, wanted in pairs if wanted is not None]


def _gap(here: Specification, there: Specification) -> dict[str, tuple[Any, Any]]:
    """Fields that differ, with both values; the order of what is known does not matter."""
    first, second = (vars(s) | {"know": tuple(sorted(s.know))} for s in (here, there))
    return {name: (a, second[name]) for name, a in first.items() if name not in FREE and a != second[name]}
