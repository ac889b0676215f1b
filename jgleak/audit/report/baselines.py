"""Whether an attack is better than a guess without the update, compared client by client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jgleak.audit.report.rows import Estimate, Row, Value, estimate, panels
from jgleak.audit.report.tables import MEASURES, Measure
from jgleak.audit.results import Unit

COMPARED = tuple(m for m in MEASURES if m.name in ("GSM-0", "GSM-1", "GSM-2"))
"""Measures in all of which an attack has to be better: similarity of features, of neighbourhoods, and of 2-hop
neighbourhoods."""

FEWEST = 6
"""Of fewer clients all may differ in one direction by chance alone in more than one of 40 audits."""


class Comparison(NamedTuple):
    """One attack compared with the trivial baselines of the same grid.

    Attributes:
      attack: its name in the grid.
      better: rows in which every GSM is clearly higher than every baseline's.
      others: rows in which some GSM is not, though the attack found graphs.
      alone: rows for which no baseline knew as much.
      few: rows that share fewer than ``FEWEST`` clients with some baseline.
      names: the baselines that it was compared with where it is in ``better`` or ``others``.
    """

    attack: str
    better: list[Row]
    others: list[Row]
    alone: list[Row]
    few: list[Row]
    names: set[str]


def comparisons(found: Sequence[Row]) -> list[Comparison]:
    """Every attack that found graphs and shares data, model and defence with a baseline that knew as much.

    "Clearly higher": the 95 % interval of the difference to each such baseline, on the clients that both attacked, lies
    above zero. Measures in which both are perfect are left out, and so are rows in which nothing was found.
    """
    outcomes: dict[str, Comparison] = {}
    for panel in panels(found):
        for row in panel.rows:
            beside = [other for other in panel.rows if other.trivial and other.defense == row.defense and other.done]
            if row.trivial or not beside or not any(unit.record["gsm0"] for unit in row.done):
                continue
            one = outcomes.setdefault(row.attack, Comparison(row.attack, [], [], [], [], set()))
            fair = [other for other in beside if _told(row) <= _told(other)]
            gaps = [_gaps(row, other) for other in fair]
            if not fair:
                one.alone.append(row)
            elif any(gap is None or gap.clients < FEWEST for each in gaps for gap in each):
                one.few.append(row)
            else:
                kind = one.better if all(each and all(_above(gap) for gap in each) for each in gaps) else one.others
                kind.append(row)
                one.names.update(other.attack for other in fair)
    return list(outcomes.values())


def _gaps(row: Row, other: Row) -> list[Estimate | None]:
    """By how much the row is higher, in every measure in which not both are perfect; None where no client has both."""
    measures = [measure for measure in COMPARED if not (_perfect(row, measure) and _perfect(other, measure))]
    return [_gap(row, other, measure.value) for measure in measures]


def _above(gap: Estimate | None) -> bool:
    return gap is not None and gap.low > 0


def _perfect(row: Row, measure: Measure) -> bool:
    return all(measure.value(unit) == 1.0 for unit in row.done)


def _told(row: Row) -> set[str]:
    return set(row.units[0].specification["know"])


def _gap(row: Row, other: Row, value: Value) -> Estimate | None:
    theirs = {_client(unit): value(unit) for unit in other.done}
    ours = {_client(unit): value(unit) for unit in row.done}
    gaps = {
        key: float(our) - float(their)
        for key, our in ours.items()
        if our is not None and (their := theirs.get(key)) is not None
    }
    return estimate(row.done, lambda unit: gaps.get(_client(unit)), rate=False)


def _client(unit: Unit) -> tuple[str, int, str]:
    """A key of one private graph, with its name, since auxiliary graphs may change which graphs are clients."""
    return unit.cell["seed"], unit.client, unit.record["name"]
