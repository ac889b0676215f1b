"""The Facebook page-page and GitHub developer networks (MUSAE, distributed by SNAP)."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from jgleak.datasets.dataset import LoadReport
from jgleak.datasets.locate import Remote, Source, locate
from jgleak.datasets.network import Network, client_space, undirected
from jgleak.datasets.table import read_table
from jgleak.features import binary

_PARTS = {
    "facebook": ("facebook_large", "musae_facebook", "page_type"),
    "github": ("git_web_ml", "musae_git", "ml_target"),
}

WIDEST = 100_000
"""Most feature columns that are read."""


def musae(name: Literal["facebook", "github"], *, degree: bool = False, path: str | Path | None = None) -> Network:
    """One MUSAE network, with one binary feature a feature id.

    ``facebook``: 22,470 pages, 4,714 features, 4 page types. ``github``: 37,700 developers, 4,005 features, 2 classes.
    Classes are in alphabetical order of their names. Self-loops are dropped. Page and user names are not read in.

    Args:
      name: which network.
      degree: give client subgraphs the one-hot degree as their last feature.
      path: the unpacked folder, or one that holds it; see ``locate``.

    Raises:
      ValueError: unknown name, or a file that breaks the format (it is named).

    Source: Rozemberczki, Allen, Sarkar, "Multi-scale Attributed Node Embedding", Journal of Complex Networks
    9(2), 2021.
    """
    if name not in _PARTS:
        raise ValueError(f"name: no MUSAE network {name!r}; known are {', '.join(_PARTS)}")
    directory, stem, label = _PARTS[name]
    members = tuple(f"{stem}_{part}" for part in ("edges.csv", "features.json", "target.csv"))
    remote = Remote(f"https://snap.stanford.edu/data/{directory}.zip")
    folder = locate(Source(name, f"musae/{directory}", (remote,), members), path=path)
    edges, features, target = (folder / member for member in members)
    y, classes = _classes(target, label)
    x, width = _words(features, y.size)
    pairs = read_table(edges, np.int64, columns=2, header=1)
    bad = np.flatnonzero(((pairs < 0) | (pairs >= y.size)).any(axis=1))
    if bad.size:
        raise ValueError(f"{edges.name}, line {bad[0] + 2}: node ids must lie in 0..{y.size - 1}")
    space = client_space(tuple(binary(f"feature_{k}") for k in range(width)), degree)
    return Network(name, x, undirected(pairs, y.size), y, space, classes, LoadReport(y.size, y.size))


def _classes(file: Path, label: str) -> tuple[np.ndarray, int]:
    """Class of each node (V,) and the number of classes; ids must be exactly 0..V-1."""
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            names = {int(row["id"]): row[label] for row in csv.DictReader(stream)}
    except (KeyError, TypeError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise ValueError(f"{file.name}: expected a CSV file with columns id and {label} ({error!r})") from error
    if not names or sorted(names) != list(range(len(names))):
        raise ValueError(f"{file.name}: ids must be exactly 0..n-1")
    values, codes = np.unique([str(names[i]) for i in range(len(names))], return_inverse=True)
    return codes.reshape(-1).astype(np.int64), values.size


def _words(file: Path, nodes: int) -> tuple[sp.csr_array, int]:
    """Binary features ``(V, F)``, and F, from a JSON object of node id to feature ids."""
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
        rows = [np.unique(np.array(listed.get(str(i), ()), np.int64)) for i in range(nodes)]
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{file.name}: expected a JSON object of node ids to feature ids ({error})") from error
    if len(listed) > nodes:
        raise ValueError(f"{file.name}: lists {len(listed)} nodes, the target file has {nodes}")
    indices = np.concatenate(rows)
    if indices.size == 0 or indices.min() < 0:
        raise ValueError(f"{file.name}: feature ids must be non-negative, and at least one must be there")
    indptr = np.r_[0, np.cumsum([row.size for row in rows])]
    width = int(indices.max()) + 1
    if width > WIDEST:
        raise ValueError(
            f"{file.name}: feature id {width - 1} asks for {width} columns, and these networks have fewer than 5,000; "
            f"at most {WIDEST} are read: number the features from 0"
        )
    return sp.csr_array((np.ones(indices.size, np.int8), indices, indptr), shape=(nodes, width)), width
