"""What every set of graphs keeps to, on a few rows in its own format. A new set takes a row of ``FILES``."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jgleak.datasets import Dataset, load, tasks
from jgleak.datasets.digest import digest
from jgleak.datasets.moleculenet import TABLES
from jgleak.datasets.registry import SETS


def molecules(name: str, folder: Path) -> tuple[int, int]:
    """Two molecules, and one row of two fragments."""
    table = TABLES[name]
    rows = [("CCO", "1"), ("c1ccccc1", "0"), ("CC.O", "1")]
    written = io.StringIO()
    csv.writer(written).writerows([("smiles", *table.columns), *((s, *[y] * len(table.columns)) for s, y in rows)])
    file, text = folder / Path(table.source.place).name, written.getvalue().encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    return 3, 2


def tudataset(name: str, folder: Path) -> tuple[int, int]:
    """A path, an edge, and a graph without nodes."""
    parts = {
        "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
        "graph_indicator": "1\n1\n1\n2\n2\n",
        "graph_labels": "-1\n1\n1\n",
        "node_labels": "3\n7\n3\n7\n7\n",
    }
    for part, text in parts.items():
        (folder / f"{name}_{part}.txt").write_text(text)
    return 3, 2


def packaged(folder: Path) -> tuple[int, int]:
    """The embedded molecules lie in the package, and none is left out."""
    text = resources.files("jgleak.datasets").joinpath("embedded.csv").read_text(encoding="utf-8")
    rows = len(list(csv.reader(text.splitlines()))) - 1
    return rows, rows


FILES: dict[str, Callable[[Path], tuple[int, int]]] = {
    "embedded": packaged,
    **{name: partial(molecules, name) for name in TABLES},
    **{name.lower(): partial(tudataset, name) for name in ("MUTAG", "PTC_MR", "ENZYMES", "NCI1", "COIL-RAG")},
}
"""By catalogue name what writes a set's files into a folder; returns how many rows they have, and how many are kept."""


def test_every_set_has_a_row() -> None:
    assert set(FILES) == set(SETS)


@pytest.mark.parametrize("name", FILES)
def test_a_set_keeps_to_the_contract(name: str, tmp_path: Path) -> None:
    rows, kept = FILES[name](tmp_path)
    keeps_to_the_contract(partial(load, name, **({"path": tmp_path} if SETS[name].files else {})), rows, kept)
    for task in tasks(name):
        data = load(name, task=task, path=tmp_path)
        assert data.name in (name, f"{name}/{task}")
        for graph in data.graphs:
            labelled(data, graph.y, graph.n)


def keeps_to_the_contract(loaded: Callable[[], Dataset], rows: int, kept: int) -> None:
    """Every row is kept or counted; graphs fit the public space, whose statistics are theirs; two loads are equal."""
    data = loaded()
    assert (data.report.rows, data.report.kept, len(data.graphs)) == (rows, kept, kept)
    assert sum(data.report.dropped.values()) == rows - kept and set(data.report.examples) == set(data.report.dropped)
    assert str(data.report).startswith(f"{kept} of {rows} rows")
    for graph in data.graphs:
        data.space.check(graph.x)
        stated = data.space.degrees(graph.x)
        assert stated is None or np.array_equal(stated, graph.degree)
        labelled(data, graph.y, graph.n)
    encoded = np.concatenate([data.space.encode(graph.x) for graph in data.graphs])
    assert data.space.std is not None
    np.testing.assert_allclose(encoded.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(encoded.std(axis=0), data.space.std > 0, atol=1e-5)
    again = loaded()
    assert digest(again.space, again.graphs) == digest(data.space, data.graphs)


def labelled(data: Dataset, y: Any, n: int) -> None:
    """A label is what the task says."""
    labels = np.asarray(y)
    if data.tasks:
        assert data.classes == len(data.tasks) and labels.shape == (1, data.classes)
        present = labels[~np.isnan(labels)]
        assert present.size and (data.task == "regression" or set(present.tolist()) <= {0.0, 1.0})
        return
    assert labels.shape == ((n,) if data.task == "node" else ())
    if data.task == "regression":
        assert data.classes == 1 and np.isfinite(labels)
    else:
        assert np.issubdtype(labels.dtype, np.integer) and 0 <= labels.min() and labels.max() < data.classes
