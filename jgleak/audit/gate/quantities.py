"""Numbers of a row of results that criteria may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jgleak.audit.report.rows import Estimate, Row, Value, estimate
from jgleak.audit.results import Unit

COMPLETE = ("unique", "k_graphs")
"""Certificates that state the size of the set; others state a lower bound."""


class Quantity(NamedTuple):
    """A number of a row.

    Attributes:
      meaning: the quantity in words.
      value: the number of a row; None where it is undefined.
      of_unit: where it is a mean over graphs with an interval over clients, what is averaged.
      needs_truth: the number needs the private graph; no row without one meets a criterion on it.
    """

    meaning: str
    value: Callable[[Row], float | None]
    of_unit: Value | None = None
    needs_truth: bool = False


def interval(row: Row, of_unit: Value) -> Estimate | None:
    """The mean of a share over graphs and its 95 % interval over clients, as in reports; None where no unit has it."""
    return estimate(row.done, of_unit, rate=True)


def _rate(meaning: str, of_unit: Value) -> Quantity:
    def mean(row: Row) -> float | None:
        found = interval(row, of_unit)
        return None if found is None else found.mean

    return Quantity(meaning, mean, of_unit, needs_truth=True)


def _field(name: str) -> Value:
    return lambda unit: unit.record[name]


def certificate(unit: Unit) -> Mapping[str, Any] | None:
    """A unit's certificate, as its record has it."""
    return unit.record.get("certificate")


def unique(unit: Unit) -> bool:
    """True where a certificate states that no other graph has this update."""
    found = certificate(unit)
    return found is not None and found["status"] == "unique"


def _smallest(row: Row) -> float | None:
    found = [c for unit in row.done if (c := certificate(unit)) is not None and c["status"] in COMPLETE]
    return min((int(c["size"]) for c in found), default=None)


QUANTITIES: Mapping[str, Quantity] = {
    "unique": Quantity("attacks whose graph is certified to be the only one", lambda row: sum(map(unique, row.done))),
    "wrong": Quantity(
        "attacks whose graph a set that is certified to be complete lacks: a defect, or a condition that did not hold",
        lambda row: row.wrong,
        needs_truth=True,
    ),
    "listed": Quantity(
        "attacks with a certificate", lambda row: sum(certificate(unit) is not None for unit in row.done)
    ),
    "smallest_set": Quantity("graphs in the smallest set that is certified to be complete", _smallest),
    "clients": Quantity("attacks that ended", lambda row: len(row.done)),
    "failed": Quantity("attacks that broke down", lambda row: len(row.of("failed"))),
    "skipped": Quantity("attacks that could not run", lambda row: len(row.of("skipped"))),
    "exact": _rate("share of graphs that came back exactly", _field("exact")),
    "in_set": _rate("share of graphs that are among the listed ones", _field("truth_in_set")),
    "guess": _rate("mean of 1/k where the graph is one of k listed ones, else 0", _field("guess_rate")),
    "gsm0": _rate("mean similarity of nodes", _field("gsm0")),
    "gsm1": _rate("mean similarity of 1-hop neighbourhoods", _field("gsm1")),
    "gsm2": _rate("mean similarity of 2-hop neighbourhoods", _field("gsm2")),
}
"""All quantities by the names that users type; ``.low`` and ``.high`` behind one of those with ``of_unit`` are the ends
of its ``interval``."""
