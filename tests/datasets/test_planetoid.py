"""CiteSeer: nothing but arrays comes out of a pickle, and the real network has its published size."""

from __future__ import annotations

import collections
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from jgleak.datasets import citeseer


def _write(folder: Path, **changes: object) -> Path:
    """A network of 6 nodes, 4 words, 2 classes: 3 training rows; test ids 3 and 5, so 4 has no row."""
    parts = {
        "allx": sp.csr_matrix(np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]], np.float32)),
        "ally": np.array([[1, 0], [0, 1], [1, 0]], np.int32),
        "tx": sp.csr_matrix(np.array([[0, 0, 1, 1], [1, 1, 0, 0]], np.float32)),
        "ty": np.array([[0, 1], [1, 0]], np.int32),
        "graph": collections.defaultdict(list, {0: [1, 1, 0], 1: [0, 2], 2: [1, 5], 5: [2], 3: [], 4: []}),
    } | changes
    for part in ("x", "y"):
        parts[part] = parts[f"all{part}"]
    for part, value in parts.items():
        content = value if isinstance(value, bytes) else pickle.dumps(value, protocol=3)
        (folder / f"ind.citeseer.{part}").write_bytes(content)
    (folder / "ind.citeseer.test.index").write_text("5\n3\n")
    return folder


def test_rows_land_at_their_ids(tmp_path: Path) -> None:
    network = citeseer(path=_write(tmp_path))
    assert network.x.toarray().tolist() == [
        [1, 0, 0, 1],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [1, 1, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 1, 1],
    ]
    assert network.y.tolist() == [0, 1, 0, 0, -1, 1]
    assert sorted(zip(*network.adjacency.nonzero(), strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 5), (5, 2)]


class _Bomb:
    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.flag),)


def test_code_in_a_pickle_is_refused_before_it_runs(tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    with pytest.raises(ValueError, match=r"ind\.citeseer\.graph: refused.*mkdir is not allowed"):
        citeseer(path=_write(tmp_path, graph=_Bomb(flag)))
    assert not flag.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"graph": b""}, r"ind\.citeseer\.graph: refused or damaged pickle"),
        ({"tx": b"\x80\x02garbage"}, r"ind\.citeseer\.tx: refused or damaged pickle"),
        ({"ally": [1, 2]}, r"ind\.citeseer\.ally: expected an array"),
        ({"ally": np.array([[None, 1]])}, r"ind\.citeseer\.ally: expected an array"),
        ({"graph": {0: [99]}}, r"ind\.citeseer\.graph: entry 0 names 99, which is none of the nodes 0\.\.5"),
        ({"graph": {0: ["a"]}}, r"ind\.citeseer\.graph: entry 0 names 'a', which is none of the nodes"),
        ({"graph": {0: [1.5]}}, r"ind\.citeseer\.graph: entry 0 names 1\.5"),
        ({"graph": {-1: [0]}}, r"ind\.citeseer\.graph: entry -1 names -1"),
        ({"graph": {0: 1}}, "do not fit together"),
        ({"ty": np.array([[0, 1]], np.int32)}, r"ind\.citeseer\.ty has shape \(1, 2\), and \(2, 2\) would fit"),
        ({"ally": np.array([[1, 0], [0, 1]], np.int32)}, r"ind\.citeseer\.ally has shape \(2, 2\), and \(3, 2\)"),
        ({"tx": sp.csr_matrix(np.ones((3, 4), np.float32))}, "do not fit together"),
        ({"tx": sp.csr_matrix(np.full((2, 4), 2, np.float32))}, "features must be 0 or 1"),
    ],
)
def test_damaged_files(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        citeseer(path=_write(tmp_path, **changes))


def test_a_fractional_id_of_a_test_row_is_named_with_its_line(tmp_path: Path) -> None:
    (_write(tmp_path) / "ind.citeseer.test.index").write_text("5\n3.5\n")
    with pytest.raises(ValueError, match=r"ind\.citeseer\.test\.index, line 2: '3\.5' is not an integer"):
        citeseer(path=tmp_path)


def test_real_size(data: Path) -> None:
    network = citeseer(path=data)
    assert network.n == 3327 and network.x.shape == (3327, 3703) and network.classes == 6
    assert network.adjacency.nnz == 2 * 4552
    isolated = np.flatnonzero(network.y < 0)
    assert isolated.size == 15 and network.x[isolated].nnz == 0
