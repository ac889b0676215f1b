"""MoleculeNet: Tox21, ClinTox, BBBP (binary tasks) and FreeSolv (regression), from their official CSV files."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import math
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from jgleak.datasets.dataset import Dataset
from jgleak.datasets.fit import fit
from jgleak.datasets.locate import Remote, Source, locate
from jgleak.datasets.molecules import MOLECULE_SPACE, MoleculeError, molecule_graph, with_bonds
from jgleak.datasets.tally import Tally
from jgleak.graph import Graph

_HOST = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/"


@dataclasses.dataclass(frozen=True)
class MoleculeTable:
    """One CSV file of molecules.

    Attributes:
      source: where the file is.
      tasks: its label columns, the default one first.
      regression: True when labels are numbers, False when they are 0 or 1.
    """

    source: Source
    tasks: tuple[str, ...]
    regression: bool = False


def _source(name: str, file: str, sha256: str | None = None) -> Source:
    return Source(name, f"moleculenet/{file}", (Remote(_HOST + file, sha256),))


TABLES: Mapping[str, MoleculeTable] = {
    "tox21": MoleculeTable(
        _source("Tox21", "tox21.csv.gz", "45d09792492ce049039dd24aa27b07fc79ce20c573187d4d90bcd178c0c0d360"),
        ("NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma")
        + ("SR-ARE", "SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53"),
    ),
    "clintox": MoleculeTable(
        _source("ClinTox", "clintox.csv.gz", "2ee7050a830fe9ae7a8218e6577fa6f54284947034ff904b6d8204e993a297cc"),
        ("FDA_APPROVED", "CT_TOX"),
    ),
    "bbbp": MoleculeTable(_source("BBBP", "BBBP.csv"), ("p_np",)),
    "freesolv": MoleculeTable(
        _source("FreeSolv", "SAMPL.csv", "ab5895d914ee87cb563bd7b9611e869527bba45bec6b014d34dc495a0f9dcb72"),
        ("expt",),
        regression=True,
    ),
}
"""The tables by catalogue name."""


def moleculenet(name: str, *, task: str | None = None, path: str | Path | None = None, bonds: bool = False) -> Dataset:
    """The molecules of one table that have a label for ``task``.

    Binary tasks have ``y`` in {0, 1} and 2 classes; FreeSolv has ``y`` in kcal/mol and one output. Left out and counted
    are rows with a missing label, a SMILES string already seen, or one that ``molecule_graph`` refuses.
    The normalisation of the space is fitted on the graphs that are returned.

    Args:
      name: a key of ``TABLES``.
      task: a label column; by default the file's first.
      path: the file, or a folder that holds it; see ``locate``.
      bonds: give every edge its bond type as its class.

    Raises:
      ValueError: unknown name or task, or the file is not the table it should be.

    Source: Wu et al., "MoleculeNet: a benchmark for molecular machine learning", Chemical Science 9, 2018.
    """
    if name not in TABLES:
        raise ValueError(f"name: no MoleculeNet table {name!r}; known are {', '.join(TABLES)}")
    table = TABLES[name]
    column = table.tasks[0] if task is None else task
    if column not in table.tasks:
        raise ValueError(f"task: {name} has no task {task!r}; choose one of {', '.join(table.tasks)}")
    rows = _rows(locate(table.source, path=path), ("smiles", column))
    labelled = ((row["smiles"], _label(row[column], table, i)) for i, row in enumerate(rows, start=2))
    graphs, tally = molecules(labelled, bonds=bonds)
    if not graphs:
        raise ValueError(f"{name}: no row of the file became a graph ({tally.report(len(rows), 0)})")
    return Dataset(
        name=name if len(table.tasks) == 1 else f"{name}/{column}",
        graphs=graphs,
        space=fit(with_bonds(MOLECULE_SPACE) if bonds else MOLECULE_SPACE, graphs),
        task="regression" if table.regression else "binary",
        classes=1 if table.regression else 2,
        report=tally.report(len(rows), len(graphs)),
    )


def molecules(rows: Iterable[tuple[str, int | float | None]], *, bonds: bool = False) -> tuple[list[Graph], Tally]:
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
        with opened(file, "rt", encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
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
