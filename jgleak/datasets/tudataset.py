"""Any classification set in the layout of TUDataset (a folder ``NAME`` with ``NAME_A.txt`` and its companions)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from jaxtyping import Int, Num

from jgleak.datasets.dataset import Dataset
from jgleak.datasets.fit import fit
from jgleak.datasets.locate import Remote, Source, locate
from jgleak.datasets.table import read_table
from jgleak.datasets.tally import Tally
from jgleak.features import Feature, FeatureSpace, onehot, real
from jgleak.graph import Graph

_HOST = "https://www.chrsmrrs.com/graphkerneldatasets/"


def tudataset(name: str, *, degree: bool = False, path: str | Path | None = None) -> Dataset:
    """One set of the TUDataset collection.

    Features: one one-hot feature a column of node labels, then one real feature a column of node attributes, then,
    with ``degree``, the one-hot node degree. A set with neither labels nor attributes gets the degree as its only
    feature, whatever ``degree`` says. Edge labels and edge attributes are not read. Graph labels become classes
    ``0..C-1`` in increasing order. Direction, self-loops and repeated rows of ``A`` are dropped.
    Graphs without nodes are left out and counted.

    Args:
      name: the official name, for example ``MUTAG`` or ``PTC_MR``.
      degree: add the one-hot degree feature.
      path: the folder ``NAME``, or a folder that holds it; see ``locate``.

    Raises:
      ValueError: a malformed name, or a file that breaks the format (file and line are named).

    Source: Morris et al., "TUDataset: A collection of benchmark datasets for learning with graphs", ICML 2020
    workshop GRL+.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name):
        raise ValueError(f"name: {name!r} is not a TUDataset name (letters, digits and . _ + - only)")
    files = [f"{name}_{part}.txt" for part in ("A", "graph_indicator", "graph_labels")]
    source = Source(name, f"tudataset/{name}", (Remote(f"{_HOST}{name}.zip"),), tuple(files))
    folder = locate(source, path=path)
    adjacency, indicator, labels = (folder / file for file in files)

    ys = _nonempty(read_table(labels, np.int64, columns=1), labels)[:, 0]
    owner = _nonempty(read_table(indicator, np.int64, columns=1), indicator)[:, 0] - 1
    _in_range(owner, ys.size, indicator, "graph id")
    pairs = read_table(adjacency, np.int64, columns=2) - 1
    _in_range(pairs, owner.size, adjacency, "node id")
    crossing = np.flatnonzero(owner[pairs[:, 0]] != owner[pairs[:, 1]])
    if crossing.size:
        u, v = pairs[crossing[0]] + 1
        raise ValueError(f"{adjacency.name}, line {crossing[0] + 1}: nodes {u} and {v} lie in different graphs")

    features, x = _features(folder, name, owner.size)
    if degree or not features:
        counts = _degrees(pairs, owner.size)
        features.append(onehot("degree", range(int(counts.max()) + 1)))
        x = np.concatenate([x, counts[:, None]], axis=1)
    schema = FeatureSpace(tuple(features), "degree" if features[-1].name == "degree" else None)
    x = x.astype(np.int32) if schema.discrete else x
    graphs, tally = _split(name, x, pairs, owner, ys)
    classes = int(np.unique(ys).size)
    return Dataset(
        name=name.lower(),
        graphs=graphs,
        space=fit(schema, graphs),
        task="binary" if classes == 2 else "multiclass",
        classes=classes,
        report=tally.report(ys.size, len(graphs)),
    )


def _nonempty(table: np.ndarray, file: Path) -> np.ndarray:
    if table.size == 0:
        raise ValueError(f"{file.name}: is empty")
    return table


def _in_range(ids: np.ndarray, size: int, file: Path, what: str) -> None:
    bad = np.argwhere((ids < 0) | (ids >= size))
    if bad.size:
        raise ValueError(f"{file.name}, line {bad[0][0] + 1}: {what} {ids[tuple(bad[0])] + 1} is outside 1..{size}")


def _features(folder: Path, name: str, nodes: int) -> tuple[list[Feature], Num[np.ndarray, "nodes G"]]:
    """One-hot node labels, then real node attributes, where the files exist."""
    features: list[Feature] = []
    columns: list[np.ndarray] = [np.zeros((nodes, 0))]
    labels, attributes = (folder / f"{name}_node_{part}.txt" for part in ("labels", "attributes"))
    if labels.is_file():
        table = _one_row_a_node(read_table(labels, np.int64), nodes, labels)
        for g, column in enumerate(table.T):
            values, codes = np.unique(column, return_inverse=True)
            features.append(onehot("label" if table.shape[1] == 1 else f"label_{g}", values.tolist()))
            columns.append(codes.reshape(-1, 1))
    if attributes.is_file():
        table = _one_row_a_node(read_table(attributes, np.float64), nodes, attributes)
        features += [real(f"attribute_{g}") for g in range(table.shape[1])]
        columns.append(table)
    return features, np.concatenate(columns, axis=1)


def _one_row_a_node(table: np.ndarray, nodes: int, file: Path) -> np.ndarray:
    if table.shape[0] != nodes:
        raise ValueError(f"{file.name}: has {table.shape[0]} lines for {nodes} nodes")
    return table


def _simple(pairs: np.ndarray) -> np.ndarray:
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    return np.unique(pairs, axis=0)


def _degrees(pairs: Int[np.ndarray, "rows 2"], nodes: int) -> Int[np.ndarray, " nodes"]:
    return np.bincount(_simple(pairs).ravel(), minlength=nodes)


def _split(name: str, x: np.ndarray, pairs: np.ndarray, owner: np.ndarray, ys: np.ndarray) -> tuple[list[Graph], Tally]:
    """One Graph an id; nodes keep the file's order."""
    edges = _simple(pairs)
    edges = edges[np.argsort(owner[edges[:, 0]], kind="stable")]
    nodes = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=ys.size)
    first = np.r_[0, np.cumsum(sizes)]
    place = np.empty_like(nodes)
    place[nodes] = np.arange(nodes.size) - first[owner[nodes]]
    cuts = np.r_[0, np.cumsum(np.bincount(owner[edges[:, 0]], minlength=ys.size))]
    classes = np.unique(ys, return_inverse=True)[1].reshape(-1)
    graphs, tally = [], Tally()
    for i in range(ys.size):
        if sizes[i] == 0:
            tally.drop("no nodes", f"graph {i + 1}")
            continue
        own = place[edges[cuts[i] : cuts[i + 1]]]
        graphs.append(Graph(x[nodes[first[i] : first[i + 1]]], own, int(classes[i]), f"{name} {i + 1}"))
    return graphs, tally
