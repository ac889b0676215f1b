"""The plan of a grid, after data and models are loaded: how many units, what cannot run, how long it may take."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jgleak.audit.grid import Cell, Grid
from jgleak.audit.outcome import ended_by_time
from jgleak.audit.recorded.client import Refused, file_digest, recorded_client
from jgleak.audit.round import refusal
from jgleak.audit.setup import data_digest, training_graphs
from jgleak.audit.shared import common, shared_setup
from jgleak.audit.specification import Faults, Specification
from jgleak.audit.units import attempt

PROBE = 10.0
"""Time limit of a dry run's attack on one client."""


class Planned(NamedTuple):
    """A cell and its plan.

    Attributes:
      cell: of the grid.
      graphs: number of private graphs, each a unit.
      data: digest of all graphs and of the feature space (``data_digest``).
      impossible: why the attack cannot work there, or None.
    """

    cell: Cell
    graphs: int
    data: str
    impossible: str | None = None


def plan(grid: Grid) -> tuple[Planned, ...]:
    """Load every data set, make every model (untrained), count the graphs to train it on, and ask every attack whether
    it can work there.

    Observation files do not affect each other: one that an attack refuses is skipped, one that cannot be read fails
    when it is attacked.

    Raises:
      Faults: all missing or insufficient data, models that do not fit and, unless the grid skips them, attacks that
        cannot work; each with its places in the grid.
    """
    planned: list[Planned] = []
    faults: list[tuple[str, str]] = []
    digests: dict[Specification, str | Exception] = {}
    for cell in grid.cells:
        specification = cell.specification
        if specification.recorded is not None:
            reason = _refused(specification)
            planned.append(Planned(cell, specification.batch_size, file_digest(specification), reason))
            continue
        alike = common(dataclasses.replace(specification, train=min(specification.train, 1)))
        if alike not in digests:
            digests[alike] = _digest(alike)
        data = digests[alike]
        if isinstance(data, Exception):
            faults.append((cell.place, str(data.args[0] if isinstance(data, KeyError) else data)))
            continue
        untrained = dataclasses.replace(specification, train=0)
        setup = shared_setup(untrained)
        reason = refusal(untrained, setup)
        planned.append(Planned(cell, len(setup.dataset.graphs), data, reason))
        if reason is not None and not grid.skip_impossible:
            faults.append((cell.place, f"attack {specification.attack!r} cannot run here: {reason}"))
    if faults:
        raise Faults(_grouped(faults))
    return tuple(planned)


def _refused(specification: Specification) -> str | None:
    """Why the attack refuses an observation file. One that cannot be read is no reason to leave it out: it fails."""
    try:
        recorded_client(specification)
    except Refused as error:
        return str(error)
    except Exception:  # any defect of the file is reported when it is attacked
        return None
    return None


def _digest(specification: Specification) -> str | Exception:
    """The digest of the clients' and the training graphs, or why there is no setup."""
    try:
        setup = shared_setup(dataclasses.replace(specification, train=0))
        graphs = training_graphs(specification, setup.dataset, setup.model)
    except (ValueError, KeyError, OSError) as error:
        return error
    return data_digest(setup._replace(trained_on=tuple(graphs)))


def _grouped(faults: Iterable[tuple[str, str]]) -> list[str]:
    """One line for each fault, with its first place and the number of others."""
    places: dict[str, list[str]] = {}
    for place, fault in faults:
        where = places.setdefault(fault, [])
        if place not in where:
            where.append(place)
    more = {fault: f" (and {len(where) - 1} more such cells)" for fault, where in places.items() if len(where) > 1}
    return [f"{where[0]}{more.get(fault, '')}: {fault}" for fault, where in places.items()]


def longest(planned: Sequence[Planned], left: Mapping[int, int]) -> float:
    """Seconds after which every client has reached its time limit; ``left`` is the number of units of each cell."""
    return sum(
        _clients(planned[position], count) * planned[position].cell.specification.time_limit
        for position, count in left.items()
    )


def _clients(one: Planned, units: int) -> int:
    return -(-units // one.cell.specification.batch_size)


def timed(planned: Sequence[Planned], left: Mapping[int, int]) -> float:
    """Seconds that the units left may take, by an attack with a limit of ``PROBE`` seconds on one client each.

    Every pair of attack and model is timed on every data set, on its first seed and defence, and with untrained
    weights. Compilation counts, and so do all runs of an attack that it cut short, so the estimate tends to be too
    large; no client counts with more than the limit. An attack that ran out of the probe's time counts with its full
    limit, and one that failed with its own time.
    """
    seconds: dict[tuple[str, ...], float] = {}
    total = 0.0
    for position, count in left.items():
        label, specification, _ = planned[position].cell
        kind = label["data"], label["model"], label["attack"]
        if kind not in seconds:
            brief = min(PROBE, specification.time_limit)
            probe = dataclasses.replace(specification, train=0, time_limit=brief)
            begun = time.monotonic()
            outcomes = attempt(probe, [0], min(specification.batch_size, planned[position].graphs), None)
            spent = time.monotonic() - begun
            out_of_time = any(_ended_by_time(outcome.record) for outcome in outcomes)
            most = specification.time_limit
            seconds[kind] = (most if out_of_time else min(spent, most)) / len(outcomes)
        total += count * seconds[kind]
    return total


def _ended_by_time(record: Mapping[str, Any]) -> bool:
    """The time limit ended the attack with this record; one that never began has none."""
    return bool(record) and ended_by_time(record["stop"], record["info"].get("reason"))
