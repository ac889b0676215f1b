"""What a page of printed numbers beside ours consists of, for papers that measure edges and features."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.lib.clients import More, nothing
from jgleak.audit.specification import Specification


@dataclasses.dataclass(frozen=True)
class Column:
    """One metric.

    Attributes:
      title: what people read.
      path: where the record of a client has it.
      up: larger is better.
    """

    title: str
    path: tuple[str, ...]
    up: bool = True

    def of(self, client: Mapping[str, Any]) -> float | None:
        """The client's value; None where it is undefined."""
        value: Any = client
        for name in self.path:
            value = None if value is None else value.get(name)
        return value


@dataclasses.dataclass(frozen=True)
class Attacker:
    """One line under a row.

    Attributes:
      name: what ``--attacks`` takes.
      title: what people read.
      attack: a name of jgleak's registry.
      know: what it is told beyond what the row says.
      options: of the attack.
      ours: a variant of ours, even where the paper's numbers stand beside it.
    """

    name: str
    title: str
    attack: str
    know: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    ours: bool = False


@dataclasses.dataclass(frozen=True)
class Line:
    """One row of a paper's table.

    Attributes:
      name: what ``--rows`` takes.
      title: what people read.
      source: the table of the paper.
      printed: the paper's numbers by the name of our attacker that stands beside them, and by column title.
      experiment: data, model and what every attacker is told.
      attackers: names of those that are run on it.
      columns: titles of the columns that the table has.
    """

    name: str
    title: str
    source: str
    printed: Mapping[str, Mapping[str, float]]
    experiment: Specification
    attackers: tuple[str, ...]
    columns: tuple[str, ...]

    def specification(self, attacker: Attacker, **size: Any) -> Specification:
        """The experiment of one attacker."""
        know = tuple(dict.fromkeys((*self.experiment.know, *attacker.know)))
        return dataclasses.replace(self.experiment, attack=attacker.attack, know=know, options=attacker.options, **size)


@dataclasses.dataclass(frozen=True)
class Table:
    """A paper's tables: rows, attackers, columns, and the text above them.

    Attributes:
      title: of the page.
      about: the text above the table.
      rows: the experiments.
      methods: everything that is run on some row.
      columns: all metrics.
      against: attackers, and those that each is compared with, client by client.
      more: what columns need of a client and its record lacks.
    """

    title: str
    about: str
    rows: Sequence[Line]
    methods: Sequence[Attacker]
    columns: Sequence[Column]
    against: Sequence[tuple[str, Sequence[str]]] = ()
    more: More = nothing
