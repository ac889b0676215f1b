"""An audit's store on disk: a row for each finished unit, with its files; a killed process loses no finished unit."""

from __future__ import annotations

import datetime
import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import jax

from jgleak.audit.grid import Cell, Grid
from jgleak.audit.plan import Planned
from jgleak.audit.results import DATABASE, FORMAT, SUFFIXES
from jgleak.audit.units import Outcome, unit_hash, versions
from jgleak.version import __version__

_TABLES = """
CREATE TABLE grid (name TEXT NOT NULL, text TEXT NOT NULL, format TEXT NOT NULL);
CREATE TABLE starts (started_at TEXT NOT NULL, engine TEXT NOT NULL, device TEXT NOT NULL, versions TEXT NOT NULL);
CREATE TABLE cells (
  position INTEGER PRIMARY KEY, cell TEXT NOT NULL UNIQUE, specification TEXT NOT NULL, graphs INTEGER NOT NULL,
  data TEXT NOT NULL, impossible TEXT
);
CREATE TABLE units (
  hash TEXT PRIMARY KEY, cell TEXT NOT NULL REFERENCES cells (cell), specification TEXT NOT NULL,
  client INTEGER NOT NULL, status TEXT NOT NULL CHECK (status IN ('done', 'failed', 'skipped')), reason TEXT,
  record TEXT NOT NULL, device TEXT NOT NULL, versions TEXT NOT NULL, seconds REAL NOT NULL,
  finished_at TEXT NOT NULL
);
"""


class Database:
    """The writing side of a store; one process at a time holds a folder.

    A unit's files are on disk, complete and under their final names, before its row is; the rows of a chunk are one
    transaction. Incomplete files of a killed process are overwritten when the unit runs again. ``synchronous=FULL``
    waits for the disk at every commit, so that even a power cut loses no unit that was counted; that takes
    milliseconds, attacks take seconds.

    Raises:
      ValueError: when made, if the folder cannot be written, or another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        held = f"out: another process audits in {folder}; wait for it, or choose another"
        with ExitStack() as opened:  # closed again on failure
            try:
                for name in SUFFIXES:
                    (folder / name).mkdir(parents=True, exist_ok=True)
                lock = opened.enter_context(closing(_connect(folder / "audit.lock")))
                lock.execute("BEGIN EXCLUSIVE")
                self._store = opened.enter_context(closing(_connect(folder / DATABASE)))
                self._store.execute("PRAGMA journal_mode = WAL")
                self._store.execute("PRAGMA synchronous = FULL")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise ValueError(held) from error
                raise ValueError(f"out: cannot write to {folder} ({error}); choose another folder") from error
            except (OSError, sqlite3.DatabaseError) as error:
                raise ValueError(f"out: cannot write to {folder} ({error}); choose another folder") from error
            self._opened = opened.pop_all()

    def grid_text(self) -> str | None:
        """The TOML that the store was begun with; None in a new store.

        Raises:
          ValueError: the store has another format.
        """
        known = self._store.execute("SELECT name FROM sqlite_master WHERE name = 'grid'").fetchone()
        if not known:
            return None
        row = self._store.execute("SELECT text, format FROM grid").fetchone()
        if row is None:
            raise ValueError(f"out: the store in {self.folder} lacks its grid; it is damaged, begin in another folder")
        text, written = row
        if written != FORMAT:
            raise ValueError(
                f"out: {self.folder} holds an audit of the format {written!r}, this jgleak writes {FORMAT!r}; go on "
                f"with the version that began it, or begin again in another folder"
            )
        return text

    def begin(self, grid: Grid, planned: Sequence[Planned]) -> None:
        """Write the grid and its plan, with the units of impossible cells as skipped, in one transaction."""
        self._store.execute("BEGIN IMMEDIATE")
        for statement in filter(str.strip, _TABLES.split(";")):
            self._store.execute(statement)
        self._store.execute("INSERT INTO grid VALUES (?, ?, ?)", (grid.name, grid.text, FORMAT))
        for position, (cell, graphs, data, reason) in enumerate(planned):
            row = (position, _json(cell.label), _json(cell.specification.to_json()), graphs, data, reason)
            self._store.execute("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?)", row)
            if reason is not None:
                device = jax.devices()[0].device_kind
                skips = [Outcome(i, "skipped", reason, {}, device, versions(), 0.0, {}) for i in range(graphs)]
                self._insert(cell, skips)
        self._store.execute("COMMIT")

    def plan(self, grid: Grid) -> tuple[Planned, ...]:
        """The plan that ``begin`` wrote, for the same grid.

        Raises:
          ValueError: this version of jgleak reads other specifications from the grid than the version that began.
        """
        columns = "specification, graphs, data, impossible"
        rows = self._store.execute(f"SELECT {columns} FROM cells ORDER BY position").fetchall()
        before, now = [row[0] for row in rows], [_json(cell.specification.to_json()) for cell in grid.cells]
        if before != now:
            _check_files([json.loads(one) for one in before], [json.loads(one) for one in now], self.folder)
            raise ValueError(
                f"out: {self.folder} was begun by a jgleak whose specifications differ from this one's "
                f"({__version__}); go on with that version, or begin again in another folder"
            )
        return tuple(Planned(cell, *row[1:]) for cell, row in zip(grid.cells, rows, strict=True))

    def started(self, engine: str) -> None:
        """Record that a process begins to work."""
        row = (_now(), engine, jax.devices()[0].device_kind, _json(versions()))
        self._store.execute("INSERT INTO starts VALUES (?, ?, ?, ?)", row)

    def finished(self, retry_failed: bool = False) -> dict[str, str]:
        """The status of every finished unit, by its hash; without failed ones where these are to run again."""
        rows = self._store.execute("SELECT hash, status FROM units")
        return {key: status for key, status in rows if not (retry_failed and status == "failed")}

    def add(self, cell: Cell, outcomes: Sequence[Outcome]) -> None:
        """Store a chunk: the files of all its units, then all its rows at once, replacing older ones.

        Raises:
          ValueError: the folder cannot be written; earlier units are safe.
        """
        try:
            for outcome in outcomes:
                stem = unit_hash(cell.specification, outcome.client)
                for name, content in outcome.files.items():
                    _write(self.folder / name / f"{stem}{SUFFIXES[name]}", content)
            for name in SUFFIXES:
                _sync(self.folder / name)
            self._store.execute("BEGIN IMMEDIATE")
            self._insert(cell, outcomes)
            self._store.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ValueError(
                f"out: cannot write to {self.folder} ({reason}); all units that had finished are safe: make room, and "
                "--resume goes on"
            ) from error

    def _insert(self, cell: Cell, outcomes: Sequence[Outcome]) -> None:
        label, specification = _json(cell.label), _json(cell.specification.to_json())
        rows = [
            (
                *(unit_hash(cell.specification, o.client), label, specification, o.client, o.status, o.reason),
                *(_json(o.record), o.device, _json(o.versions), o.seconds, _now()),
            )
            for o in outcomes
        ]
        self._store.executemany(f"INSERT OR REPLACE INTO units VALUES ({', '.join('?' * 11)})", rows)

    def close(self) -> None:
        """Close the store, so that another process may open the folder."""
        self._opened.close()


def _check_files(before: Sequence[Any], now: Sequence[Any], folder: Path) -> None:
    """Raise ``ValueError`` where observation files were added or removed."""
    old, new = ({one["recorded"]["file"]: None for one in many if one.get("recorded")} for many in (before, now))
    for file in [*old, *new]:
        if (file in old) != (file in new):
            what = "gone; bring it back" if file in old else "new; name the files one by one"
            raise ValueError(
                f"out: {folder} was begun with other observation files: {file} is {what}; or begin again elsewhere"
            )


def _connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, isolation_level=None, timeout=5.0 if file.name == DATABASE else 0.0)


def _write(file: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    part = file.with_name(file.name + ".part")
    with part.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)


def _sync(folder: Path) -> None:
    """Write the names of new files to disk too, where folders can be opened (not on Windows)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
