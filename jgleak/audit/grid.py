"""Grids of experiments: a TOML file of data, models, attacks, defences and seeds, and the cells of their product."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jgleak.audit.entries import AXES, entry_faults, label
from jgleak.audit.recorded.table import observation_faults, observation_label, recorded_files
from jgleak.audit.specification import RENAMED, Faults, Specification, current_names
from jgleak.reading import parsed_toml, shortened

SETTINGS: Mapping[str, type] = {"name": str, "seeds": list, "time_limit": float, "skip_impossible": bool}
"""The top-level fields of a grid, besides the tables."""

OBSERVATION = "observation"
"""The table of clients that ran, beside ``AXES``."""


class Cell(NamedTuple):
    """One experiment of a grid.

    Attributes:
      label: its names in the grid: ``data``, ``model``, ``attack``, ``defense`` and ``seed``; for a recorded client
        also ``file``.
      specification: what runs.
      place: the entries that it combines, for messages: ``attack[0], model[0], data[0], defense[1]``.
    """

    label: dict[str, str]
    specification: Specification
    place: str


@dataclasses.dataclass(frozen=True)
class Grid:
    """An audit before it runs.

    Attributes:
      name: the audit's name.
      text: the TOML.
      cells: the product of data, models, seeds, defences and attacks, in this order, attacks running fastest; then that
        of observation files, seeds and attacks.
      skip_impossible: cells whose attack cannot work there are skipped; otherwise they are faults.
    """

    name: str
    text: str
    cells: tuple[Cell, ...]
    skip_impossible: bool = False


RECORDED = "as recorded"
"""The name of the model and the defence of an observation file."""


def read_grid(text: str, folder: Path = Path()) -> Grid:
    """The grid of a TOML text: ``[[data]]`` tables, perhaps with ``[[model]]`` and ``[[defense]]``, or
    ``[[observation]]`` tables, or both, and ``[[attack]]`` tables.

    Every entry gives fields of ``Specification`` (listed in ``AXES``) and perhaps a ``name``; other fields have the
    specification's defaults. Nothing is loaded except the headers of observation files: ``plan`` checks data and
    models.

    Args:
      text: the TOML.
      folder: the folder to which paths of observation files are relative.

    Raises:
      Faults: all mistakes in the text, each with its place.

    Warns:
      DeprecationWarning: a field has the name of an earlier version.
    """
    try:
        document = parsed_toml(text)
    except ValueError as error:
        raise Faults([str(error)]) from error
    faults = list(_setting_faults(document))
    recorded = _tables(document, OBSERVATION, [])
    simulated = "data" in document or not recorded
    entries: dict[str, list[dict[str, Any]]] = {}
    old = sorted({key for axis in AXES for table in _tables(document, axis, []) for key in table if key in RENAMED})
    for key in old:
        said = f"{key} is called {RENAMED[key]} in grids since version 0.2; version 0.3 takes that alone"
        warnings.warn(said, DeprecationWarning, stacklevel=2)
    for axis in AXES:
        wanted = axis == "attack" or simulated
        tables = _tables(document, axis, [{}] if axis in ("model", "defense") and simulated else [])
        if wanted and not tables:
            others = " or [[observation]]" if axis == "data" else ""
            faults.append(f"{axis}: at least one [[{axis}]]{others} table is needed")
        if tables and not wanted:
            faults.append(f"{axis}: is of simulated clients; add a [[data]] table, or leave [[{axis}]] out")
        faults += [
            f"{axis}[{number}].{key}: {RENAMED[key]} is given too; leave {key} out, which is its old name"
            for number, table in enumerate(tables)
            for key in RENAMED
            if key in table and RENAMED[key] in table
        ]
        tables = [current_names(table) for table in tables]
        for number, table in enumerate(tables):
            faults += [f"{axis}[{number}]{fault}" for fault in entry_faults(axis, table)]
        entries[axis] = tables
    for number, table in enumerate(recorded):
        faults += [f"{OBSERVATION}[{number}]{fault}" for fault in observation_faults(table, folder)]
    if OBSERVATION in document and not recorded:
        faults.append(f"{OBSERVATION}: expected [[{OBSERVATION}]] tables, got {shortened(document[OBSERVATION])}")
    if not faults:
        faults += [fault for axis in AXES if axis != "data" for fault in _namesakes({axis: entries[axis]})]
        faults += _namesakes({"data": entries["data"], OBSERVATION: recorded})
    if faults:
        raise Faults(faults)
    cells, impossible = _product(document, entries) if simulated else ([], [])
    more, twice = _recorded(document, entries["attack"], recorded, folder)
    cells, impossible = [*cells, *more], [*impossible, *twice]
    if impossible:
        raise Faults(impossible)
    return Grid(document.get("name", "audit"), text, tuple(cells), document.get("skip_impossible", False))


def _tables(document: Mapping[str, Any], name: str, default: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tables of one kind; none where the field holds something else."""
    tables = document.get(name, default)
    return tables if isinstance(tables, list) and all(isinstance(t, dict) for t in tables) else []


def _setting_faults(document: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(document.keys() - SETTINGS.keys() - AXES.keys() - {OBSERVATION}):
        yield f"{key}: unknown; a grid has {', '.join((*SETTINGS, *(f'[[{axis}]]' for axis in (*AXES, OBSERVATION))))}"
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


def _namesakes(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Entries with the same name, over kinds of tables that results distinguish by name alone."""
    seen: dict[str, str] = {}
    for axis, entries in tables.items():
        for number, entry in enumerate(entries):
            name, place = observation_label(entry) if axis == OBSERVATION else label(axis, entry), f"{axis}[{number}]"
            first = seen.setdefault(name, place)
            if first != place:
                yield f"{place}.name: {first} is called {name!r} too; give each a name of its own"


def _product(document: Mapping[str, Any], entries: Mapping[str, list[dict[str, Any]]]) -> tuple[list[Cell], list[str]]:
    """All cells, and the combinations that contradict themselves or occur twice."""
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


def _recorded(
    document: Mapping[str, Any],
    attacks: Sequence[Mapping[str, Any]],
    tables: Sequence[Mapping[str, Any]],
    folder: Path,
) -> tuple[list[Cell], list[str]]:
    """A cell for every observation file, seed and attack, and the files that occur twice."""
    cells, faults, seen = list[Cell](), list[str](), dict[Specification, str]()
    for number, table in enumerate(tables):
        for (name, fields), seed in itertools.product(recorded_files(table, folder), document.get("seeds", [0])):
            for place, attack in enumerate(attacks):
                where = f"attack[{place}], {OBSERVATION}[{number}] {name}"
                given = {key: value for key, value in attack.items() if key != "name"}
                specification = _made({**fields, **given, "seed": seed}, document.get("time_limit", 60.0))
                first = seen.setdefault(specification, where)
                if first != where:
                    faults.append(f"{where}: the same experiment as {first}; leave one out")
                said = {"data": observation_label(table), "attack": label("attack", attack), "seed": str(seed)}
                said |= {"model": RECORDED, "defense": RECORDED, "file": name}
                cells.append(Cell(said, specification, where))
    return cells, faults


def _specification(chosen: Mapping[str, Any], time_limit: float) -> Specification:
    fields: dict[str, Any] = {"seed": chosen["seed"]}
    for axis in AXES:
        fields |= {key: value for key, value in chosen[axis].items() if key != "name"}
    return _made(fields, time_limit)


def _made(fields: Mapping[str, Any], time_limit: float) -> Specification:
    """The specification of fields as TOML has them."""
    fields = {"time_limit": time_limit, **fields}
    fields["options"] = tuple(fields.get("options", {}).items())
    rounded = {
        name: float(fields[name])
        for name in ("time_limit", "local_rate", "local_momentum", "local_weight_decay")
        if name in fields
    }
    return Specification(**{**fields, **rounded})
