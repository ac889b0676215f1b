"""The reading side of an audit's folder: the grid's text and its finished units, as plain data."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from jgleak.audit.specification import Specification, current_names

DATABASE = "audit.sqlite"
"""Name of the store in an audit's folder."""

SUFFIXES = {"observations": ".safetensors", "reconstructions": ".json", "truths": ".json"}
"""Folders beside the store, and how their files end."""

FORMAT = "jgleak audit 2"
"""Version of the store, and of what a unit's hash is taken of."""

PLAIN = Specification().to_json() | {"recorded": None}
"""Defaults of fields that a store of an earlier version lacks."""

_UNITS = """
SELECT u.hash, u.cell, u.specification, u.client, u.status, u.reason, u.record, u.device, u.versions, u.seconds,
       u.finished_at
FROM units AS u JOIN cells AS c ON c.cell = u.cell ORDER BY c.position, u.client
"""


class Unit(NamedTuple):
    """One private graph of one cell of the grid, attacked.

    Beside the store lie ``observations/HASH.safetensors`` (what the server saw; of a client with several graphs under
    the first one's hash alone), ``reconstructions/HASH.json`` (which names its observation, as
    ``jgleak.audit.certified`` reads it) and ``truths/HASH.json`` (``x``, ``edges``, ``y``, ``name`` of the private
    graph, where it is known); units that were skipped, or failed before the attack began, have none of them.

    Attributes:
      hash: SHA-256 of the specification, the graph's index and the store's format; the key of the unit.
      cell: the cell's names: ``data``, ``model``, ``attack``, ``defense`` and ``seed``; for a recorded client also
        ``file``.
      specification: as ``Specification.to_json`` gives it.
      client: position of the graph in the data set; with batches of several, those of one client follow each other.
      status: ``done``, ``failed`` (the attack broke down, or there was no update to attack) or ``skipped`` (the attack
        cannot work there).
      reason: for a failure the traceback, or why there was no update; for a skip why the attack cannot work; None where
        the unit is done.
      record: as ``jgleak.audit.record.result_record`` gives it; empty where the attack never began.
      device: the accelerator or processor that ran it, as JAX names it.
      versions: versions of ``jgleak``, ``jax``, ``numpy`` and ``python``, and a digest of jgleak's code.
      seconds: wall-clock time of the attack; of clients side by side each one's share.
      finished_at: ISO 8601, UTC.
    """

    hash: str
    cell: dict[str, str]
    specification: dict[str, Any]
    client: int
    status: str
    reason: str | None
    record: dict[str, Any]
    device: str
    versions: dict[str, str]
    seconds: float
    finished_at: str


class Audit(NamedTuple):
    """The content of an audit's folder.

    Attributes:
      name: the audit's name in its grid.
      grid_text: the TOML that it was started with.
      planned: number of units of the whole grid, the missing ones included.
      units: the finished ones, in the grid's order.
      lost: missing files of finished units, by their path in the folder.
      digests: SHA-256 of the data of every name in the grid, over all of its cells.
    """

    name: str
    grid_text: str
    planned: int
    units: list[Unit]
    lost: tuple[str, ...] = ()
    digests: Mapping[str, str] = {}


def open_audit(folder: Path) -> Audit:
    """Read an audit, finished or not; one that is running may be read too.

    Raises:
      ValueError: the folder holds no store, a corrupt one, or one of another format.
    """
    file = folder / DATABASE
    if not file.is_file():
        what = f"holds no {DATABASE}" if folder.is_dir() else "is no folder" if folder.exists() else "does not exist"
        raise ValueError(f"audit: {folder} {what}; give a folder that `jgleak audit --out` wrote")
    try:
        # A write-ahead log needs a file beside the store even to be read; where none can be made, there must be no log.
        log = file.with_name(f"{DATABASE}-wal")
        how = "mode=ro" if os.access(folder, os.W_OK) or (log.exists() and log.stat().st_size) else "immutable=1"
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?{how}", uri=True)) as store:
            name, text, written = store.execute("SELECT name, text, format FROM grid").fetchone()
            if written != FORMAT:
                raise ValueError(
                    f"audit: {file} has the format {written!r}, this jgleak reads {FORMAT!r}; read it with the version "
                    f"that wrote it"
                )
            planned = store.execute("SELECT coalesce(sum(graphs), 0) FROM cells").fetchone()[0]
            units = [_unit(row) for row in store.execute(_UNITS)]
            digests = _digests(store.execute("SELECT cell, data FROM cells ORDER BY position").fetchall())
    except (sqlite3.Error, json.JSONDecodeError, TypeError) as error:
        raise ValueError(f"audit: {file} is not a readable store of `jgleak audit` ({error})") from error
    return Audit(name, text, planned, units, tuple(_lost(folder, units)), digests)


def _digests(cells: Sequence[tuple[str, str]]) -> dict[str, str]:
    """One digest for each name of data; where cells differ, the digest of all of theirs."""
    found: dict[str, dict[str, None]] = {}
    for cell, digest in cells:
        found.setdefault(json.loads(cell)["data"], {})[digest] = None
    return {
        name: next(iter(many)) if len(many) == 1 else hashlib.sha256("".join(many).encode()).hexdigest()
        for name, many in found.items()
    }


def lost_files(lost: Sequence[str]) -> str:
    """The message about missing files, of which there is at least one."""
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return (
        f"{len(lost)} file(s) of finished units are missing: {lost[0]}{more}. The units' rows and all rates are kept; "
        "restore the files, or audit in another folder"
    )


def _lost(folder: Path, units: Sequence[Unit]) -> Iterator[str]:
    """The missing files of every unit whose attack began."""
    there = {name: {path.name for path in (folder / name).glob("*")} for name in SUFFIXES}
    hashes = {(tuple(unit.cell.items()), unit.client): unit.hash for unit in units}
    for unit in units:
        if not unit.record:
            continue
        first = hashes.get((tuple(unit.cell.items()), unit.client - unit.client % unit.specification["batch_size"]))
        for name, suffix in SUFFIXES.items():
            file = f"{first if name == 'observations' else unit.hash}{suffix}"
            untold = name == "truths" and unit.record.get("n_nodes") is None
            if file not in there[name] and not untold and not (name == "observations" and first != unit.hash):
                yield f"{name}/{file}"


def _unit(row: tuple[Any, ...]) -> Unit:
    unit = Unit(*row)
    return unit._replace(
        cell=json.loads(row[1]),
        specification=PLAIN | current_names(json.loads(row[2])),
        record=json.loads(row[6]),
        versions=json.loads(row[8]),
    )
