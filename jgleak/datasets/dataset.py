"""What a loader returns: graphs, their public feature space, the task, and a report of what was left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from jgleak.features import FeatureSpace
from jgleak.graph import Graph

Task = Literal["binary", "multiclass", "regression", "node"]


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """How many rows a source had, how many became graphs, and why the others did not.

    Attributes:
      rows: rows (or graphs) in the source.
      kept: graphs returned.
      dropped: reason to count, for example ``{"unparsable SMILES": 2, "several fragments": 7}``.
      examples: reason to the first few offending rows, for people.
    """

    rows: int
    kept: int
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    examples: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        lost = ", ".join(f"{count} {reason}" for reason, count in sorted(self.dropped.items()))
        return f"{self.kept} of {self.rows} rows" + (f" (left out: {lost})" if lost else "")


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Private graphs and what is public about them.

    Attributes:
      name: the catalogue name, with the task where there are several (``tox21/SR-p53``).
      graphs: the graphs, each with its label ``y``.
      space: the public feature space, with normalisation statistics of the whole set, network or generator (``load``).
      task: what is learnt; ``binary`` and ``multiclass`` label graphs, ``node`` labels nodes.
      classes: number of model outputs ``C``: 2 for a binary task, 1 for regression, and one for each of several tasks.
      tasks: the names of several tasks that are learnt at once, where ``y`` is a row of their labels, NaN where one is
        missing; empty where there is one task.
      report: what was dropped and why.
    """

    name: str
    graphs: Sequence[Graph]
    space: FeatureSpace
    task: Task
    classes: int
    report: LoadReport
    tasks: tuple[str, ...] = ()
