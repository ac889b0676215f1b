"""CiteSeer in the Planetoid files, read through an unpickler that can build nothing but arrays."""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from jgleak.datasets.dataset import LoadReport
from jgleak.datasets.locate import Remote, Source, locate
from jgleak.datasets.network import Network, client_space, undirected
from jgleak.datasets.table import read_table
from jgleak.features import binary
from jgleak.reading import shortened

_SUMS = {
    "x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
}
_HOST = "https://github.com/kimiyoung/planetoid/raw/master/data/"

CITESEER = Source(
    "CiteSeer",
    "planetoid",
    tuple(Remote(f"{_HOST}ind.citeseer.{part}", digest) for part, digest in _SUMS.items()),
    tuple(f"ind.citeseer.{part}" for part in _SUMS),
)

_SAFE: dict[tuple[str, str], Any] = {
    (module, name): value
    for modules, name, value in (
        (("numpy.core.multiarray", "numpy._core.multiarray"), "_reconstruct", np.empty(0).__reduce__()[0]),
        (("numpy",), "ndarray", np.ndarray),
        (("numpy",), "dtype", np.dtype),
        (("scipy.sparse.csr", "scipy.sparse._csr"), "csr_matrix", sp.csr_matrix),
        (("collections",), "defaultdict", collections.defaultdict),
        (("__builtin__", "builtins"), "list", list),
    )
    for module in modules
}


class _Unpickler(pickle.Unpickler):
    """Resolves only the names in ``_SAFE``: no file read here can name other code, let alone run it."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _SAFE[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a Planetoid file") from None


def citeseer(*, degree: bool = True, path: str | Path | None = None) -> Network:
    """CiteSeer: 3,327 papers, 3,703 binary words, 6 classes, 4,552 undirected edges.

    The 15 papers without a row in the files are kept as isolated nodes with zero features and an unknown class (-1).
    With ``degree``, client subgraphs get the one-hot degree 0..99 as their last feature (GRAIN, section 6.1).

    Args:
      degree: add the degree feature.
      path: the folder with the eight files ``ind.citeseer.*``, or one that holds it; see ``locate``.

    Raises:
      ValueError: a file is damaged, or its pickle names anything but arrays, lists and sparse matrices.

    Source: Yang, Cohen, Salakhutdinov, "Revisiting Semi-Supervised Learning with Graph Embeddings", ICML 2016.
    """
    folder = locate(CITESEER, path=path)
    words, labels, test_words, test_labels, graph = (
        _read(folder / f"ind.citeseer.{part}") for part in ("allx", "ally", "tx", "ty", "graph")
    )
    test = read_table(folder / "ind.citeseer.test.index", np.int64, columns=1)[:, 0]
    try:
        x, y = _assemble(words, labels, test_words, test_labels, test)
        adjacency = undirected(_pairs(graph, y.size), y.size)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"CiteSeer: the files in {folder} do not fit together ({error})") from error
    features = tuple(binary(f"word_{k}") for k in range(_shape(x)[1]))
    space, report = client_space(features, degree), LoadReport(y.size, y.size)
    return Network("citeseer", x, adjacency, y, space, labels.shape[1], report)


def _pairs(graph: Any, nodes: int) -> Int[np.ndarray, "e 2"]:
    """Every node beside each of those that its entry lists; raises ``ValueError`` naming an entry that is no list of
    nodes."""
    for node, targets in graph.items():
        bad = [one for one in (node, *targets) if not isinstance(one, int | np.integer) or not 0 <= one < nodes]
        if bad:
            raise ValueError(
                f"ind.citeseer.graph: entry {shortened(node)} names {shortened(bad[0])}, which is none of the nodes "
                f"0..{nodes - 1}"
            )
    return np.array([(u, v) for u, targets in graph.items() for v in targets], np.int64).reshape(-1, 2)


def _read(file: Path) -> Any:
    try:
        with file.open("rb") as stream:
            loaded = _Unpickler(stream, encoding="latin1").load()
    except Exception as error:  # unpickling damaged bytes may raise anything; each means the same to the user
        raise ValueError(f"{file.name}: refused or damaged pickle ({error})") from error
    return _plain(loaded, file)


def _plain(loaded: Any, file: Path) -> Any:
    """Rebuild what was unpickled from its plain parts, which checks them."""
    if isinstance(loaded, np.ndarray) and loaded.ndim == 2 and np.issubdtype(loaded.dtype, np.number):
        return loaded
    if isinstance(loaded, dict):
        return dict(loaded)
    if isinstance(loaded, sp.csr_matrix):
        parts = vars(loaded)
        try:
            matrix = sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=parts["_shape"])
            matrix.check_format(full_check=True)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file.name}: malformed sparse matrix ({error})") from error
        return matrix
    raise ValueError(f"{file.name}: expected an array, a sparse matrix or a dict, found {type(loaded).__name__}")


def _assemble(
    words: sp.csr_array, labels: np.ndarray, test_words: sp.csr_array, test_labels: np.ndarray, test: np.ndarray
) -> tuple[sp.csr_array, np.ndarray]:
    """Words ``(V, 3703)`` and classes ``(V,)``, test rows at their ids, ids without a row zero and -1."""
    first = _shape(words)[0]
    for part, rows, classes in (("ally", first, labels), ("ty", _shape(test_words)[0], test_labels)):
        if classes.shape != (rows, labels.shape[1]):
            raise ValueError(f"ind.citeseer.{part} has shape {classes.shape}, and {(rows, labels.shape[1])} would fit")
    nodes = int(test.max()) + 1
    if test.size != _shape(test_words)[0] or test.min() < first or np.unique(test).size != test.size:
        raise ValueError("test.index must hold one new id a row of tx")
    ones, rows = np.ones(test.size, np.int8), test - first
    place = sp.csr_array((ones, (rows, np.arange(test.size))), shape=(nodes - first, test.size))
    x = sp.csr_array(sp.vstack([words, place @ test_words]), dtype=np.int8)
    y = np.full(nodes, -1, np.int64)
    y[:first], y[test] = _classes(labels), _classes(test_labels)
    if not np.all(x.data == 1):
        raise ValueError("features must be 0 or 1")
    return x, y


def _shape(matrix: sp.csr_array) -> tuple[int, int]:
    rows, columns = cast(tuple[int, int], matrix.shape)
    return rows, columns


def _classes(onehot: np.ndarray) -> np.ndarray:
    return np.where(onehot.sum(axis=1) > 0, onehot.argmax(axis=1), -1)
