"""Labels, tasks and counts of the molecule tables, on small files and on the real ones."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

from jgleak.datasets import moleculenet


def _clintox(folder: Path, rows: str, header: str = "smiles,FDA_APPROVED,CT_TOX") -> Path:
    file = folder / "clintox.csv.gz"
    file.write_bytes(gzip.compress(f"{header}\n{rows}".encode()))
    return file


def test_everything_left_out_is_counted(tmp_path: Path) -> None:
    rows = "CCO,1,0\nCCO,0,1\nCC,,1\nC1CC,1,0\nCC.O,1,1\n*C,0,0\nc1ccccc1,0,1\n"
    dataset = moleculenet("clintox", path=_clintox(tmp_path, rows))
    assert dataset.name == "clintox/FDA_APPROVED" and dataset.task == "binary" and dataset.classes == 2
    assert [(g.name, g.y) for g in dataset.graphs] == [("CCO", 1), ("c1ccccc1", 0)]
    assert dataset.report.rows == 7 and dataset.report.kept == 2
    assert dataset.report.dropped == {
        "repeated SMILES": 1,
        "missing label": 1,
        "unparsable SMILES": 1,
        "several fragments": 1,
        "atom outside the schema": 1,
    }
    assert dataset.report.examples["several fragments"] == ("CC.O",)
    assert [g.y for g in moleculenet("clintox", task="CT_TOX", path=tmp_path).graphs] == [0, 1, 1]


def test_all_tasks_at_once_are_a_row_with_what_is_missing(tmp_path: Path) -> None:
    rows = "CCO,1,0\nCC,,1\nc1ccccc1,0,\nCCN,,\nCC.O,1,1\n"
    dataset = moleculenet("clintox", task="all", path=_clintox(tmp_path, rows))
    assert dataset.name == "clintox/all" and dataset.task == "binary" and dataset.classes == 2
    assert dataset.tasks == ("FDA_APPROVED", "CT_TOX")
    found = np.concatenate([np.asarray(g.y) for g in dataset.graphs])
    np.testing.assert_array_equal(found, [[1, 0], [np.nan, 1], [0, np.nan]])
    assert dataset.report.dropped == {"missing label": 1, "several fragments": 1}
    assert not moleculenet("clintox", path=tmp_path).tasks
    with pytest.raises(ValueError, match="task: freesolv has no task 'all'; choose one of expt"):
        moleculenet("freesolv", task="all")


def test_statistics_are_those_of_the_graphs(tmp_path: Path) -> None:
    dataset = moleculenet("clintox", path=_clintox(tmp_path, "CCO,1,0\nc1ccccc1,0,1\n"))
    encoded = np.concatenate([dataset.space.encode(g.x) for g in dataset.graphs])
    live = dataset.space.std is not None and dataset.space.std > 0
    np.testing.assert_allclose(encoded.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(encoded.std(axis=0)[live], 1, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ("CCO,2,0\n", "smiles,FDA_APPROVED,CT_TOX", "row 2: label '2' is not 0, 1 or nothing"),
        ("CCO,yes,0\n", "smiles,FDA_APPROVED,CT_TOX", "row 2: label 'yes'"),
        ("CCO\n", "smiles,FDA_APPROVED,CT_TOX", "row 2: too few columns"),
        ("CCO,1,0\n", "molecule,FDA_APPROVED,CT_TOX", "no column 'smiles'"),
        ("C1CC,1,0\n", "smiles,FDA_APPROVED,CT_TOX", "no row of the file became a graph"),
    ],
)
def test_faulty_tables(tmp_path: Path, rows: str, header: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        moleculenet("clintox", path=_clintox(tmp_path, rows, header))


def test_a_table_that_grows_beyond_all_bounds_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more than is read is in it, packed; what fits is read."""
    text = b"smiles,FDA_APPROVED,CT_TOX\n" + b"CCO,1,0\n" * 500
    (tmp_path / "clintox.csv.gz").write_bytes(gzip.compress(text))
    monkeypatch.setattr(sys.modules[moleculenet.__module__], "LARGEST", len(text))
    assert len(moleculenet("clintox", path=tmp_path).graphs) == 1
    monkeypatch.setattr(sys.modules[moleculenet.__module__], "LARGEST", len(text) - 1)
    with pytest.raises(ValueError, match=r"clintox\.csv\.gz: holds more than 0 MiB of text, unpacked"):
        moleculenet("clintox", path=tmp_path)


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20, b"\x1f\x8b"])
def test_damaged_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clintox.csv.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"clintox\.csv\.gz: not a readable CSV file"):
        moleculenet("clintox", path=tmp_path)


def test_unknown_task_and_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="task: clintox has no task 'x'; choose one of FDA_APPROVED, CT_TOX, all"):
        moleculenet("clintox", task="x")
    with pytest.raises(ValueError, match="name: no MoleculeNet table"):
        moleculenet("qm9")


def test_freesolv_is_regression(data: Path) -> None:
    dataset = moleculenet("freesolv", path=data)
    assert dataset.name == "freesolv" and dataset.task == "regression" and dataset.classes == 1
    assert len(dataset.graphs) == dataset.report.rows == 642
    assert all(isinstance(g.y, float) for g in dataset.graphs)


def test_clintox_counts(data: Path) -> None:
    report = moleculenet("clintox", path=data).report
    assert report.rows == 1491 and report.dropped["repeated SMILES"] == 7
    assert report.kept + sum(report.dropped.values()) == report.rows


@pytest.mark.slow
def test_tox21_labels_and_counts(data: Path) -> None:
    dataset = moleculenet("tox21", task="SR-p53", path=data)
    assert dataset.name == "tox21/SR-p53"
    assert dataset.report.rows == 7831 and dataset.report.kept > 6500
    assert 390 <= sum(int(g.y == 1) for g in dataset.graphs) <= 423
    with gzip.open(data / "moleculenet/tox21.csv.gz", "rt") as stream:
        columns = stream.readline().strip().split(",")
        missing = sum(line.split(",")[columns.index("SR-p53")] == "" for line in stream)
    assert dataset.report.dropped["missing label"] == missing


@pytest.mark.slow
def test_tox21_has_twelve_tasks_at_once(data: Path) -> None:
    every, one = moleculenet("tox21", task="all", path=data), moleculenet("tox21", task="SR-p53", path=data)
    assert every.classes == 12 and "missing label" not in every.report.dropped
    column = every.tasks.index("SR-p53")
    known = {g.name: g.y[0, column] for g in every.graphs if not np.isnan(g.y[0, column])}  # type: ignore[index]
    assert known == {g.name: g.y for g in one.graphs} and len(every.graphs) > len(one.graphs)
