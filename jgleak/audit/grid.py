"""Grids of experiments: a TOML file of data, models, attacks, defences and seeds, and the cells of their product."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jgleak.audit.entries import AXES, entry_faults, label
from jgleak.audit.specification import Faults, Specification
from jgleak.reading import parsed_toml

SETTINGS: Mapping[str, type] = {"name": str, "seeds": list, "time_limit": float, "skip_impossible": bool}
"""What stands at the top of a grid, beside the tables."""


class Cell(NamedTuple):
    """One experiment of a grid.

    Attributes:
      label: what people call it: ``data``, ``model``, ``attack``, ``defense`` and ``seed``.
      specification: what runs.
      place: the entries it was put together from, for messages: ``attack[0], model[0], data[0], defense[1]``.
    """

    label: dict[str, str]
    specification: Specification
    place: str


@dataclasses.dataclass(frozen=True)
class Grid:
    """An audit before it runs.

    Attributes:
      name: of the audit.
      text: the TOML.
      cells: the product of data, models, seeds, defences and attacks, in this order, attacks running fastest.
      skip_impossible: cells whose attack cannot work there are skipped; otherwise they are faults.
    """

    name: str
    text: str
    cells: tuple[Cell, ...]
    skip_impossible: bool = False


def read_grid(text: str) -> Grid:
    """The grid of a TOML text: ``[[data]]`` and ``[[attack]]`` tables, perhaps ``[[model]]`` and ``[[defense]]``.

    Every entry gives fields of ``Specification`` (``AXES`` says which) and perhaps a ``name``; what it leaves out has
    the specification's default. Nothing is loaded: what data and models have to say is found by ``plan``.

    Raises:
      Faults: all mistakes that show in the text, each with its place.
    """
    try:
        document = parsed_toml(text)
    except ValueError as error:
        raise Faults([str(error)]) from error
    faults = list(_setting_faults(document))
    entries: dict[str, list[dict[str, Any]]] = {}
    for axis in AXES:
        tables = document.get(axis, [{}] if axis in ("model", "defense") else [])
        if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
            faults.append(f"{axis}: at least one [[{axis}]] table is needed")
            tables = []
        for number, table in enumerate(tables):
            faults += [f"{axis}[{number}]{fault}" for fault in entry_faults(axis, table)]
        entries[axis] = tables
    if not faults:
        faults += [fault for axis, tables in entries.items() for fault in _namesakes(axis, tables)]
    if faults:
        raise Faults(faults)
    cells, impossible = _product(document, entries)
    if impossible:
        raise Faults(impossible)
    return Grid(document.get("name", "audit"), text, tuple(cells), document.get("skip_impossible", False))


def _setting_faults(document: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(document.keys() - SETTINGS.keys() - AXES.keys()):
        yield f"{key}: unknown; a grid has {', '.join((*SETTINGS, *(f'[[{axis}]]' for axis in AXES)))}"
    name, limit = document.get("name", "audit"), document.get("time_limit", 60.0)
    if not isinstance(name, str) or not name.strip():
        yield f"name: expected some text, got {name!r}"
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < math.inf:
        yield f"time_limit: expected a positive number of seconds, got {limit!r}"
    if not isinstance(document.get("skip_impossible", False), bool):
        yield f"skip_impossible: expected true or false, got {document['skip_impossible']!r}"
    seeds = document.get("seeds", [0])
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds):
        yield f"seeds: expected a list of whole numbers in 0..2**32 - 1, as [0, 1], got {seeds!r}"
    elif len(set(seeds)) < len(seeds):
        yield f"seeds: every seed once, got {seeds!r}"


def _namesakes(axis: str, tables: list[dict[str, Any]]) -> Iterator[str]:
    """Entries that are called the same."""
    seen: dict[str, int] = {}
    for number, table in enumerate(tables):
        name = label(axis, table)
        first = seen.setdefault(name, number)
        if first < number:
            yield f"{axis}[{number}].name: {axis}[{first}] is called {name!r} too; give each a name of its own"


def _product(document: Mapping[str, Any], entries: Mapping[str, list[dict[str, Any]]]) -> tuple[list[Cell], list[str]]:
    """All cells, and which combinations contradict themselves or come twice."""
    order = ("data", "model", "seed", "defense", "attack")
    axes: dict[str, list[Any]] = {**entries, "seed": document.get("seeds", [0])}
    cells: list[Cell] = []
    faults: list[str] = []
    seen: dict[Specification, str] = {}
    for numbers in itertools.product(*(range(len(axes[axis])) for axis in order)):
        chosen = {axis: axes[axis][number] for axis, number in zip(order, numbers, strict=True)}
        places = [f"{axis}[{number}]" for axis, number in zip(order, numbers, strict=True) if axis != "seed"]
        place = ", ".join(reversed(places))
        try:
            specification = _specification(chosen, document.get("time_limit", 60.0))
        except Faults as error:
            faults += [f"{place}: {fault}" for fault in error.faults if chosen["seed"] == axes["seed"][0]]
            continue
        first = seen.setdefault(specification, place)
        if first != place:
            faults.append(f"{place}: the same experiment as {first}; leave one out")
        labels = {axis: label(axis, chosen[axis]) for axis in ("data", "model", "attack", "defense")}
        cells.append(Cell({**labels, "seed": str(chosen["seed"])}, specification, place))
    return cells, faults


def _specification(chosen: Mapping[str, Any], time_limit: float) -> Specification:
    fields: dict[str, Any] = {"time_limit": time_limit, "seed": chosen["seed"]}
    for axis in AXES:
        fields |= {key: value for key, value in chosen[axis].items() if key != "name"}
    fields["options"] = tuple(fields.get("options", {}).items())
    rounded = {
        name: float(fields[name])
        for name in ("time_limit", "local_rate", "local_momentum", "local_decay")
        if name in fields
    }
    return Specification(**{**fields, **rounded})
