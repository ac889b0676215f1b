"""Begin an audit, or resume it after any interruption: from the grid to its store."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jgleak.audit.database import Database
from jgleak.audit.engines import Work
from jgleak.audit.experiment import chunks
from jgleak.audit.grid import Cell, Grid
from jgleak.audit.plan import Planned, plan
from jgleak.audit.results import DATABASE, SUFFIXES
from jgleak.audit.units import Outcome, unit_hash
from jgleak.reading import parsed_toml


def enter(grid: Grid, folder: Path, resume: bool, retry_failed: bool = False) -> tuple[Database, tuple[Planned, ...]]:
    """The folder's store, open for writing, and the plan: made now, or read back where the audit was begun before.

    A new plan loads all data and models before the folder is made; a resumed audit loads those that are still needed.

    Raises:
      Faults: as ``plan``.
      ValueError: the folder is in use, holds something else or another grid, or was begun with other data or in another
        format; or, without ``resume``, it holds anything.
    """
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name} if folder.exists() else set()
    if there and DATABASE not in there and not there <= {*SUFFIXES, "audit.lock"}:
        raise ValueError(f"out: {folder} holds no audit, but something else; choose another folder")
    if there and not resume:
        raise ValueError(f"out: {folder} exists already; add --resume to continue its audit, or choose another")
    if DATABASE in there:
        database = Database(folder)
        try:
            text = database.grid_text()
            if text is not None:
                return database, _gone_on(grid, text, database, retry_failed)
        except BaseException:
            database.close()
            raise
        database.close()
    planned = plan(grid)
    database = Database(folder)
    database.begin(grid, planned)
    return database, planned


def _gone_on(grid: Grid, text: str, database: Database, retry_failed: bool) -> tuple[Planned, ...]:
    changed = difference(parsed_toml(text), parsed_toml(grid.text))
    if changed is not None:
        raise ValueError(f"out: {database.folder} was begun with another grid: {changed}; choose another folder")
    planned = database.plan(grid)
    needed = {work.position for work in remaining(planned, database.finished(retry_failed))}
    before = [planned[position] for position in sorted(needed)]
    cells = tuple(cell for cell, *_ in before)
    for old, new in zip(before, plan(dataclasses.replace(grid, cells=cells, skip_impossible=True)), strict=True):
        if old.data != new.data and old.cell.specification.recorded is None:  # a file that changed fails by itself
            changed = f"{old.graphs} clients' graphs there and {new.graphs} here"
            raise ValueError(
                f"out: {database.folder} was begun with other data ({old.cell.place}: "
                f"{changed if old.graphs != new.graphs else 'not the same graphs'}); bring them back, or begin again "
                f"in another folder"
            )
    return planned


def remaining(planned: Sequence[Planned], finished: Mapping[str, str]) -> list[Work]:
    """The chunks with a unit that has no row yet, in the grid's order."""
    work = []
    for position, (cell, graphs, data, impossible) in enumerate(planned):
        if impossible is not None:
            continue
        batch = cell.specification.batch_size
        for firsts in chunks(cell.specification, graphs):
            units = range(firsts[0], min(firsts[-1] + batch, graphs))
            if any(unit_hash(cell.specification, unit) not in finished for unit in units):
                work.append(Work(position, cell.specification, firsts, graphs, data, len(units)))
    return work


def unfinished(cell: Cell, outcomes: Sequence[Outcome], finished: Mapping[str, str]) -> list[Outcome]:
    """The units of a chunk that had no row yet: the chunk ran again as a whole, and finished units are kept."""
    return [outcome for outcome in outcomes if unit_hash(cell.specification, outcome.client) not in finished]


def difference(old: Any, new: Any, place: str = "") -> str | None:
    """The first place where two TOML documents differ, in words, or None."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            where = f"{place}.{key}" if place else key
            if key not in old or key not in new:
                return f"{where} is only {'there' if key in old else 'here'}"
            found = difference(old[key], new[key], where)
            if found is not None:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return next((d for i, (a, b) in pairs if (d := difference(a, b, f"{place}[{i}]")) is not None), None)
    if isinstance(old, list) and isinstance(new, list) and all(isinstance(entry, dict) for entry in (*old, *new)):
        return f"{place} has {len(old)} entries there and {len(new)} here"
    return None if old == new and type(old) is type(new) else f"{place} is {old!r} there and {new!r} here"
