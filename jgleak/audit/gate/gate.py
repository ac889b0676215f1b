"""Compare the rows of an audit with criteria."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jgleak.audit.gate.criterion import Criterion
from jgleak.audit.gate.quantities import QUANTITIES
from jgleak.audit.report.rows import Row, rows
from jgleak.audit.results import Audit
from jgleak.plural import counted

NOTHING = "no attack that reads updates has ended, and nothing follows from that"


class Breach(NamedTuple):
    """A row that makes the audit fail.

    Attributes:
      row: the results of one data set, model, attack and defence.
      criterion: the criterion that it meets.
      value: the number that meets it.
    """

    row: Row
    criterion: Criterion
    value: float

    @property
    def text(self) -> str:
        """The breach in words."""
        count = len(self.row.done)
        return f"{self.criterion.text}: {number(self.value)} in {self.row.place} ({counted(count, 'attack')})"


class GateResult(NamedTuple):
    """The result of a gate.

    Attributes:
      criteria: the criteria that were given.
      breaches: what fails the gate, criterion by criterion.
      judged: the rows that were compared: all except those of baselines, which read no update.
    """

    criteria: tuple[Criterion, ...]
    breaches: tuple[Breach, ...]
    judged: tuple[Row, ...]

    @property
    def empty(self) -> bool:
        """True where no attack ended in any of these rows."""
        return not any(row.done for row in self.judged)

    @property
    def passes(self) -> bool:
        """True where no criterion is met and some attack ended, or where no criterion was given."""
        return not self.criteria or not (self.breaches or self.empty)

    @property
    def lines(self) -> list[str]:
        """The result in words; empty where no criterion was given."""
        if not self.criteria:
            return []
        if self.passes:
            asked = ", ".join(criterion.text for criterion in self.criteria)
            ended = [row for row in self.judged if row.done]
            tried = f"{counted(len(ended), 'row')} of attacks that ended, baselines not counted"
            others = [f"not judged, since nothing ended: {row.place}" for row in self.judged if not row.done]
            others += [
                f"not judged by {one.text}, since the truth of no client is known: {row.place}"
                for one in self.criteria
                for row in ended
                if not row.told and QUANTITIES[one.quantity].needs_truth
            ]
            return [f"gate passed: {asked} in none of {tried}; that is no proof against others", *others]
        return [f"gate failed: {said}" for said in [b.text for b in self.breaches] or [NOTHING]]


def judge(audit: Audit, criteria: Sequence[Criterion]) -> GateResult:
    """Compare every row, except those of baselines, with every criterion."""
    judged = tuple(row for row in rows(audit) if not row.trivial)
    found = []
    for one in criteria:
        for row in judged:
            value = one.value(row)
            if value is not None and one.met(row):
                found.append(Breach(row, one, value))
    return GateResult(tuple(criteria), tuple(found), judged)


def number(value: float) -> str:
    """A count as it is, a share to three digits."""
    return str(int(value)) if value == int(value) else f"{value:.3f}"
