"""The numbers of a report: leaks by row, by size, by seed and by size of the anonymity set."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, get_args

from jgleak.attacks.certificate import Status
from jgleak.attacks.facts.registry import FACTS
from jgleak.audit.record import SIZES
from jgleak.audit.report.rows import Estimate, Row, Value, estimate, update
from jgleak.audit.results import Unit


class Measure(NamedTuple):
    """A column of the leak table: its name, what is averaged, and whether it is a rate in [0, 1]."""

    name: str
    value: Value
    rate: bool = True


def _edge_auc(order: str) -> Value:
    return lambda unit: None if unit.record["edges"] is None else unit.record["edges"][order]["auc"]


def _plain(name: str) -> Value:
    return lambda unit: unit.record[name]


def _seconds(unit: Unit) -> float:
    """Of the client: each of its graphs has an equal share."""
    return unit.record["seconds"] * (unit.record.get("batch_size") or 1)


EXACT = Measure("exact", _plain("exact"))
GSM2 = Measure("GSM-2", _plain("gsm2"))

MEASURES = (
    EXACT,
    Measure("truth in set", _plain("truth_in_set")),
    Measure("guess in set", lambda unit: unit.record.get("guess_rate")),  # audits of version 0.1 lack it
    Measure("GSM-0", _plain("gsm0")),
    Measure("GSM-1", _plain("gsm1")),
    GSM2,
    Measure("edge AUC, file order", _edge_auc("file_order")),
    Measure("edge AUC, aligned", _edge_auc("aligned")),
    Measure("gradient distance", _plain("gradient_distance"), rate=False),
    Measure("seconds a client", _seconds, rate=False),
)
"""Columns of the leak table, over the attacks that ended."""

SETS = (("1", 1, 1), ("2", 2, 2), ("3-5", 3, 5), ("6-10", 6, 10), ("11-100", 11, 100), (">100", 101, math.inf))
"""Classes of anonymity sets: name, smallest and largest number of listed graphs."""

STATUSES: tuple[str, ...] = get_args(Status)
"""What a certificate may claim, strongest first."""


class LeakRow(NamedTuple):
    """One row of the leak table: estimates by the names of ``MEASURES``, and the numbers of attacks by status."""

    row: Row
    done: int
    estimates: dict[str, Estimate | None]
    failed: int
    skipped: int


def leaks(found: Sequence[Row]) -> list[LeakRow]:
    """The leak table."""
    return [
        LeakRow(
            row,
            len(row.done),
            {measure.name: _measured(row, measure) for measure in MEASURES},
            len(row.of("failed")),
            len(row.of("skipped")),
        )
        for row in found
    ]


def _measured(row: Row, measure: Measure) -> Estimate | None:
    found = estimate(row.done, measure.value, rate=measure.rate)
    return None if found is None else found._replace(low=max(found.low, 0.0))  # none of them can be negative


def by_size(row: Row, measure: Measure) -> dict[str, Estimate | None]:
    """The measure in each size class of ``jgleak.audit.record.SIZES``; None where no client has that size."""
    return {
        name: estimate([u for u in row.told if low <= u.record["n_nodes"] <= high], measure.value, rate=measure.rate)
        for name, low, high in SIZES
    }


def by_seed(row: Row) -> dict[str, Estimate | None]:
    """The exact rate of each seed, which shows how far seeds differ."""
    seeds = dict.fromkeys(unit.cell["seed"] for unit in row.units)
    return {seed: estimate([u for u in row.done if u.cell["seed"] == seed], EXACT.value, rate=True) for seed in seeds}


class Shown(NamedTuple):
    """Facts that updates of one data set, model and defence show by themselves, whatever the attack.

    Attributes:
      row: the row of these clients.
      clients: number of updates, one a client and seed.
      shares: by fact, the share of them whose update shows it under no condition.
    """

    row: Row
    clients: int
    shares: dict[str, float]


def shown(found: Sequence[Row]) -> list[Shown]:
    """The first row of each data set, model and defence that has facts; audits of earlier versions have none."""
    told: dict[tuple[str, str, str], Shown] = {}
    for row in found:
        given = {update(unit): facts for unit in row.units if (facts := unit.record.get("facts"))}
        if given and (row.data, row.model, row.defense) not in told:
            sure = [[name for name, fact in facts.items() if fact.get("condition") is None] for facts in given.values()]
            shares = {name: sum(name in facts for facts in sure) / len(given) for name in FACTS}
            told[row.data, row.model, row.defense] = Shown(row, len(given), shares)
    return list(told.values())


class Sets(NamedTuple):
    """Anonymity sets of one row, from its certificates.

    Attributes:
      row: where they come from.
      counts: how many certificates of each status have a set in each class of ``SETS``.
      bare: attacks that ended without a certificate.
      wrong: certificates of complete sets (``unique``, ``k_graphs``) that lack the truth.
    """

    row: Row
    counts: dict[str, dict[str, int]]
    bare: int
    wrong: int


def sets(found: Sequence[Row]) -> list[Sets]:
    """One histogram for each row that has a certificate."""
    histograms = []
    for row in found:
        certified = [unit.record for unit in row.done if unit.record["certificate"] is not None]
        if not certified:
            continue
        seen = Counter((r["certificate"]["status"], _set(r["certificate"]["size"])) for r in certified)
        counts = {status: {name: seen[status, name] for name, _, _ in SETS} for status in STATUSES}
        histograms.append(Sets(row, counts, len(row.done) - len(certified), row.wrong))
    return histograms


def _set(size: int) -> str:
    return next((name for name, low, high in SETS if low <= size <= high), SETS[0][0])


def symbols(name: str) -> str:
    """The name of a class as people write it."""
    return name.replace("<=", "≤").replace(">=", "≥").replace("-", "–")
