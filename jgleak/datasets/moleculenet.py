"""MoleculeNet: Tox21, ClinTox, SIDER, BBBP (binary tasks) and FreeSolv (regression), from their official CSV files."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import math
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float

from jgleak.datasets.dataset import Dataset
from jgleak.datasets.fit import fit
from jgleak.datasets.locate import Remote, Source, locate
from jgleak.datasets.molecules import MOLECULE_SPACE, Label, MoleculeError, molecule_graph, with_bonds
from jgleak.datasets.tally import Tally
from jgleak.graph import Graph
from jgleak.names.datasets import ALL, TASKS

_HOST = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/"

LARGEST = 64 << 20
"""Most bytes of a table, unpacked."""


@dataclasses.dataclass(frozen=True)
class MoleculeTable:
    """One CSV file of molecules.

    Attributes:
      source: where the file is.
      tasks: what can be learnt: each label column, the default one first; where there are several, ``ALL`` at once too.
      regression: True when labels are numbers, False when they are 0 or 1.
    """

    source: Source
    tasks: tuple[str, ...]
    regression: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The label columns."""
        return tuple(task for task in self.tasks if task != ALL)


def _source(name: str, file: str, sha256: str | None = None) -> Source:
    return Source(name, f"moleculenet/{file}", (Remote(_HOST + file, sha256),))


TABLES: Mapping[str, MoleculeTable] = {
    "tox21": MoleculeTable(
        _source("Tox21", "tox21.csv.gz", "45d09792492ce049039dd24aa27b07fc79ce20c573187d4d90bcd178c0c0d360"),
        TASKS["tox21"],
    ),
    "clintox": MoleculeTable(
        _source("ClinTox", "clintox.csv.gz", "2ee7050a830fe9ae7a8218e6577fa6f54284947034ff904b6d8204e993a297cc"),
        TASKS["clintox"],
    ),
    "sider": MoleculeTable(_source("SIDER", "sider.csv.gz"), TASKS["sider"]),
    "bbbp": MoleculeTable(_source("BBBP", "BBBP.csv"), TASKS["bbbp"]),
    "freesolv": MoleculeTable(
        _source("FreeSolv", "SAMPL.csv", "ab5895d914ee87cb563bd7b9611e869527bba45bec6b014d34dc495a0f9dcb72"),
        TASKS["freesolv"],
        regression=True,
    ),
}
"""The tables by catalogue name."""


def moleculenet(name: str, *, task: str | None = None, path: str | Path | None = None, bonds: bool = False) -> Dataset:
    """The molecules of one table that have a label for ``task``, or, for ``all``, for any task.

    Binary tasks have ``y`` in {0, 1} and 2 classes; FreeSolv has ``y`` in kcal/mol and one output. All tasks at once
    have a row ``y (1, T)``, NaN where the file says nothing, and ``T`` outputs. Left out and counted are rows with a
    missing label (of all tasks: with none), a SMILES string already seen, or one that ``molecule_graph`` refuses.
    The normalisation of the space is fitted on the graphs that are returned.

    Args:
      name: a key of ``TABLES``.
      task: a label column, by default the file's first, or ``all``.
      path: the file, or a folder that holds it; see ``locate``.
      bonds: give every edge its bond type as its class.

    Raises:
      ValueError: unknown name or task, or the file is not the table it should be.

    Source: Wu et al., "MoleculeNet: a benchmark for molecular machine learning", Chemical Science 9, 2018.
    """
    if name not in TABLES:
        raise ValueError(f"name: no MoleculeNet table {name!r}; known are {', '.join(TABLES)}")
    table = TABLES[name]
    chosen = table.columns[0] if task is None else task
    if chosen not in table.tasks:
        raise ValueError(f"task: {name} has no task {task!r}; choose one of {', '.join(table.tasks)}")
    columns = table.columns if chosen == ALL else (chosen,)
    rows = _rows(locate(table.source, path=path), ("smiles", *columns))
    labels = ([_label(row[column], table, i) for column in columns] for i, row in enumerate(rows, start=2))
    shaped = (_task_row(label) if chosen == ALL else label[0] for label in labels)
    graphs, tally = molecules(zip((row["smiles"] for row in rows), shaped, strict=True), bonds=bonds)
    if not graphs:
        raise ValueError(f"{name}: no row of the file became a graph ({tally.report(len(rows), 0)})")
    return Dataset(
        name=name if len(table.tasks) == 1 else f"{name}/{chosen}",
        graphs=graphs,
        space=fit(with_bonds(MOLECULE_SPACE) if bonds else MOLECULE_SPACE, graphs),
        task="regression" if table.regression else "binary",
        classes=len(columns) if chosen == ALL else 1 if table.regression else 2,
        report=tally.report(len(rows), len(graphs)),
        tasks=columns if chosen == ALL else (),
    )


def molecules(rows: Iterable[tuple[str, Label | None]], *, bonds: bool = False) -> tuple[list[Graph], Tally]:
    """Graphs of ``(smiles, label)`` rows, with those left out counted by reason (``bonds``: see ``molecule_graph``)."""
    graphs: list[Graph] = []
    tally, seen = Tally(), set()
    for smiles, y in rows:
        if y is None:
            tally.drop("missing label", smiles)
        elif smiles in seen:
            tally.drop("repeated SMILES", smiles)
        else:
            seen.add(smiles)
            try:
                graphs.append(molecule_graph(smiles, y, bonds=bonds))
            except MoleculeError as error:
                tally.drop(error.reason, smiles)
    return graphs, tally


def _rows(file: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rb") as stream:
            content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(
                f"{file.name}: holds more than {LARGEST >> 20} MiB of text, unpacked, and the largest of these tables "
                "has less than one; give the official file"
            )
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"{file.name}, line 1: no column {missing[0]!r}; found {reader.fieldnames}")
        rows = list(reader)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file.name}: not a readable CSV file ({error})") from error
    for i, row in enumerate(rows, start=2):
        if any(row[column] is None for column in columns):
            raise ValueError(f"{file.name}, row {i}: too few columns")
    return rows


def _task_row(labels: list[int | float | None]) -> Float[np.ndarray, "1 T"] | None:
    """The labels of all tasks, NaN where one is missing; None where all are."""
    row = np.array([labels], np.float64)
    return None if np.isnan(row).all() else row


def _label(text: str, table: MoleculeTable, row: int) -> int | float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not (table.regression or value in (0.0, 1.0)):
        expected = "a number" if table.regression else "0, 1 or nothing"
        raise ValueError(f"{table.source.place}, row {row}: label {text!r} is not {expected}")
    return value if table.regression else int(value)
