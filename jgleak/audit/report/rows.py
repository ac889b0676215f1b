"""The rows of a report: all results of one data set, model, attack and defence, and estimates over their clients."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from jgleak.audit.results import Audit, Unit
from jgleak.metrics import Interval, intervals
from jgleak.names.attacks import BASELINES

Value = Callable[[Unit], float | None]
"""A number of a unit that ended; None where it is undefined."""


class Row(NamedTuple):
    """Units of equal data, model, attack and defence, as the grid calls them, over all of its seeds."""

    data: str
    model: str
    attack: str
    defense: str
    units: tuple[Unit, ...]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of a row."""
        return self.data, self.model, self.attack, self.defense

    @property
    def done(self) -> list[Unit]:
        """The attacks that ended, over which rates and means are taken."""
        return self.of("done")

    def of(self, status: str) -> list[Unit]:
        """Units of one status."""
        return [unit for unit in self.units if unit.status == status]

    @property
    def batch(self) -> int:
        """Graphs behind one update."""
        return self.units[0].specification["batch_size"]

    @property
    def recorded(self) -> bool:
        """True for real clients, whose updates and training files describe."""
        return self.units[0].specification.get("recorded") is not None

    @property
    def told(self) -> list[Unit]:
        """The attacks that ended on a client whose private graph is known."""
        return [unit for unit in self.done if unit.record["exact"] is not None]

    @property
    def undefended(self) -> bool:
        """The clients are simulated and apply no defence."""
        return not self.recorded and not self.units[0].specification["defense"]

    @property
    def under(self) -> str:
        """The defence in words; a grid's entry may also name other properties of the clients, such as batches."""
        if not self.undefended:
            return self.defense
        return "no defence" if self.defense == "none" else f"{self.defense} (no defence)"

    @property
    def sent(self) -> str:
        """How clients send, as part of a sentence."""
        if not self.undefended:
            return f"under {self.defense}"
        return "without a defence" if self.defense == "none" else f"without a defence ({self.defense})"

    @property
    def place(self) -> str:
        """Data, model, attack and defence in words."""
        return f"{self.data}, {self.model}, {self.attack}, {self.under}"

    @property
    def wrong(self) -> int:
        """Number of clients whose graph is missing from a set that is certified to be complete."""
        certified = [unit.record for unit in self.told if unit.record["certificate"] is not None]
        return sum(r["certificate"]["status"] != "at_least_k" and not r["truth_in_set"] for r in certified)

    @property
    def trivial(self) -> bool:
        """The attack is a baseline that does not read the update."""
        return self.units[0].specification["attack"] in BASELINES


class Panel(NamedTuple):
    """The rows that share data and model, and can be compared with each other."""

    data: str
    model: str
    rows: tuple[Row, ...]


class Estimate(NamedTuple):
    """A mean with its 95 % interval, and the numbers of clients and of private graphs that it is taken over."""

    mean: float
    low: float
    high: float
    clients: int
    graphs: int


def rows(audit: Audit) -> list[Row]:
    """One row for each data set, model, attack and defence, in the grid's order."""
    found: dict[tuple[str, str, str, str], list[Unit]] = {}
    for unit in audit.units:
        cell = unit.cell
        found.setdefault((cell["data"], cell["model"], cell["attack"], cell["defense"]), []).append(unit)
    return [Row(*key, tuple(units)) for key, units in found.items()]


def panels(found: Sequence[Row]) -> list[Panel]:
    """Rows by data and model, in their order."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        groups.setdefault((row.data, row.model), []).append(row)
    return [Panel(*key, tuple(group)) for key, group in groups.items()]


def graphs(units: Sequence[Unit]) -> list[list[Unit]]:
    """Units of one private graph together, one for each seed that drew it.

    Graphs are identified by data and name; where names repeat within one seed they identify nothing, and each unit
    counts as a graph of its own.
    """
    names = [(unit.cell["data"], unit.record["name"]) for unit in units]
    within = [(unit.cell["seed"], *name) for unit, name in zip(units, names, strict=True)]
    return _grouped(units, range(len(units)) if len(set(within)) < len(within) else names)


def clients(units: Sequence[Unit]) -> list[list[Unit]]:
    """Units of one client together: a graph attacked under two seeds is not two independent clients, and no more are
    the graphs behind one update. Batches that several seeds drew are clients of their own, though they may share
    graphs."""
    private = {unit.hash: number for number, group in enumerate(graphs(units)) for unit in group}
    return _grouped(units, [update(unit) if _batched(unit) else private[unit.hash] for unit in units])


def update(unit: Unit) -> tuple[str, str, str | int]:
    """What the graphs behind one update share; the update of an observation file is the same under all seeds."""
    cell = unit.cell
    if "file" in cell:
        return cell["data"], "", cell["file"]
    return cell["data"], cell["seed"], unit.client // unit.specification["batch_size"]


def _batched(unit: Unit) -> bool:
    return unit.specification["batch_size"] > 1


def _grouped(units: Sequence[Unit], keys: Iterable[Hashable]) -> list[list[Unit]]:
    groups: dict[Hashable, list[Unit]] = {}
    for unit, key in zip(units, keys, strict=True):
        groups.setdefault(key, []).append(unit)
    return list(groups.values())


def explained(unit: Unit) -> bool:
    """True where the attack found a graph with the client's gradient; the last iterate of an optimiser is not one."""
    return bool(unit.record.get("graphs")) and unit.record["stop"] == "match"


def estimate(units: Sequence[Unit], value: Value, *, rate: bool) -> Estimate | None:
    """The mean of ``value`` and its 95 % interval over clients; None where no unit has it.

    A graph that several seeds drew has the mean over its seeds; the graphs of a batch are a cluster. Units without the
    value (no reconstruction, or a metric that is undefined there) are left out, so ``graphs`` may be fewer than the
    row's. ``rate``: values lie in [0, 1], and the interval is that of ``jgleak.metrics.rate``, or, where every unit of
    several clients has 0 or 1, that of as many yeses and noes; others have ``jgleak.metrics.clustered``.
    """
    found = {unit.hash: value(unit) for unit in units}
    live = {name: float(number) for name, number in found.items() if number is not None}
    some = [unit for unit in units if unit.hash in live]
    groups = clients(some)
    if not groups:
        return None
    parts = [
        (client, part)
        for client, group in enumerate(groups)
        for part in ([[unit] for unit in group] if _batched(group[0]) else [group])
    ]
    values = tuple(sum(live[unit.hash] for unit in part) / len(part) for _, part in parts)
    yes_or_no = rate and len(groups) > 1 and all(number in (0.0, 1.0) for number in live.values())
    interval = _interval(values, tuple(client for client, _ in parts), rate, yes_or_no)
    return Estimate(interval.mean, interval.low, interval.high, len(groups), len(graphs(some)))


@lru_cache(maxsize=4096)
def _interval(values: tuple[float, ...], clusters: tuple[int, ...], rate: bool, yes_or_no: bool) -> Interval:
    """Cached: page and Markdown need the same intervals, and many rows have equal values."""
    if yes_or_no:
        return intervals.proportion(sum(values) / len(values), clusters)
    return (intervals.rate if rate else intervals.clustered)(values, clusters=clusters)
