"""Pokec, a social network, in the files of FairGNN (``region_job``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from jgleak.datasets.locate import Remote, Source, locate
from jgleak.datasets.network import Network, client_space, undirected
from jgleak.datasets.table import read_table
from jgleak.datasets.tally import Tally
from jgleak.features import Feature, binary, onehot

RARE = 0.01
"""Values less frequent than this share of the users become ``OTHER`` (GRAIN, section 6.1)."""

OTHER = "Other"

Label = Literal["gender", "region", "I_am_working_in_field"]

_HOST = "https://github.com/EnyanDai/FairGNN/raw/main/dataset/pokec/"
_FILES = ("region_job.csv", "region_job_relationship.txt")

POKEC = Source("Pokec", "pokec", tuple(Remote(_HOST + file) for file in _FILES), _FILES)


def pokec(*, label: Label = "gender", degree: bool = True, path: str | Path | None = None) -> Network:
    """Pokec users with discrete features.

    Every column but ``user_id`` and the label is a feature: its values that at least ``RARE`` of the users have, in
    increasing order, then ``OTHER`` for the rest. A column left with one value says nothing and is dropped; the
    network's report counts those columns and the friendships with users who are not in the file. A column of
    0 and 1 is a binary feature, any other one-hot (-1, "not given", is a value like any other). The authors' own
    selection of 36 features is not published, so all columns of the file are used here.

    The label's values become classes in increasing order; -1 stays the unknown class.

    Args:
      label: the column to learn; by default the file's first usable one.
      degree: give client subgraphs the one-hot degree as their last feature.
      path: the folder with the two files, or one that holds it; see ``locate``.

    Raises:
      ValueError: unknown label, or a file that breaks the format (file and line are named).

    Source: Takac, Zabovsky, "Data Analysis in Public Social Networks", 2012; Dai, Wang, "Say No to the Discrimination:
    Learning Fair Graph Neural Networks with Limited Sensitive Attribute Information", WSDM 2021.
    """
    if label not in get_args(Label):
        raise ValueError(f"label: Pokec has no label {label!r}; choose one of {', '.join(get_args(Label))}")
    folder = locate(POKEC, path=path)
    users, friends = (folder / file for file in _FILES)
    with users.open(encoding="utf-8-sig") as stream:
        header = stream.readline().rstrip("\r\n").split(",")
    for needed in ("user_id", label):
        if needed not in header:
            raise ValueError(f"{users.name}, line 1: no column {needed!r}")
    table = read_table(users, np.float64, columns=len(header), header=1)
    ids = table[:, header.index("user_id")].astype(np.int64)
    if ids.size == 0 or np.unique(ids).size != ids.size:
        raise ValueError(f"{users.name}: user_id must be there and distinct")
    tally = Tally()
    described = [pair for pair in zip(header, table.T, strict=True) if pair[0] not in ("user_id", label)]
    features, columns = _varying(described, tally)
    if not features:
        raise ValueError(f"{users.name}: no column varies, so there is no feature")
    pairs, strangers = _friendships(friends, ids)
    tally.drop("friendship outside the file", count=strangers)
    values, y = np.unique(table[:, header.index(label)], return_inverse=True)
    unknown = int(values[0] == -1)
    return Network(
        name="pokec",
        x=sp.csr_array(np.stack(columns, axis=1).astype(np.int32)),
        adjacency=undirected(pairs, ids.size),
        y=y.reshape(-1).astype(np.int64) - unknown,
        space=client_space(tuple(features), degree),
        classes=values.size - unknown,
        report=tally.report(ids.size, ids.size),
    )


def _varying(
    table: Sequence[tuple[str, Float[np.ndarray, " V"]]], tally: Tally
) -> tuple[list[Feature], list[np.ndarray]]:
    """The discrete features of columns, and their codes; those with one value are dropped."""
    features, columns = [], []
    for name, column in table:
        feature, codes = discrete(name, column)
        if len(feature.values) == 1:
            tally.drop("constant column", name)
            continue
        features.append(feature)
        columns.append(codes)
    return features, columns


def discrete(name: str, column: Float[np.ndarray, " V"]) -> tuple[Feature, Int[np.ndarray, " V"]]:
    """A column as a discrete feature and codes ``(V,)``, its rare values merged to ``OTHER`` (the last code)."""
    values, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
    frequent = counts >= RARE * column.size
    recode = np.where(frequent, np.cumsum(frequent) - 1, frequent.sum())
    names: list[str | int | float] = [int(v) if v == int(v) else float(v) for v in values[frequent]]
    if not frequent.all():
        names.append(OTHER)
    feature = binary(name) if names == [0, 1] else onehot(name, names)
    return feature, recode[codes.reshape(-1)]


def _friendships(file: Path, ids: np.ndarray) -> tuple[np.ndarray, int]:
    """Pairs of row numbers, and how many pairs name a user outside the file."""
    listed = read_table(file, np.int64, columns=2, delimiter=None)
    order = np.argsort(ids)
    place = np.searchsorted(ids, listed, sorter=order)
    rows = order[np.minimum(place, ids.size - 1)]
    inside = (ids[rows] == listed).all(axis=1)
    return rows[inside], int(np.count_nonzero(~inside))
