"""Counting the rows a loader leaves out, so that none is lost silently."""

from __future__ import annotations

import dataclasses

from jgleak.datasets.dataset import LoadReport

EXAMPLES = 3
"""Offending rows kept a reason, for people to look at."""


@dataclasses.dataclass
class Tally:
    """Reasons and counts while a source is read; ``report`` freezes them.

    Attributes:
      dropped: reason to number of rows.
      examples: reason to the first ``EXAMPLES`` offending rows.
    """

    dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    examples: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @staticmethod
    def resume(report: LoadReport) -> Tally:
        """A tally that goes on from a finished report."""
        return Tally(dict(report.dropped), {reason: list(shown) for reason, shown in report.examples.items()})

    def drop(self, reason: str, example: str = "", count: int = 1) -> None:
        """Count ``count`` rows as left out for ``reason``."""
        if count == 0:
            return
        self.dropped[reason] = self.dropped.get(reason, 0) + count
        shown = self.examples.setdefault(reason, [])
        if example and len(shown) < EXAMPLES:
            shown.append(example)

    def report(self, rows: int, kept: int) -> LoadReport:
        """The report of a source of ``rows`` rows of which ``kept`` became graphs."""
        return LoadReport(rows, kept, self.dropped, {reason: tuple(shown) for reason, shown in self.examples.items()})
