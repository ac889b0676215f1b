"""Pokec's columns: rare values, constant columns, the label, strangers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgleak.datasets import pokec
from jgleak.datasets.pokec import OTHER, RARE, discrete


def _write(folder: Path, users: str, friends: str) -> Path:
    (folder / "region_job.csv").write_text(users)
    (folder / "region_job_relationship.txt").write_text(friends)
    return folder


USERS = "user_id,gender,always,sport,AGE\n7,1.0,5,0,20\n3,0.0,5,1,-1\n5,-1,5,1,20\n"


def test_small_network(tmp_path: Path) -> None:
    network = pokec(path=_write(tmp_path, USERS, "7\t3\n3\t7\n5\t3\n5\t99\n"))
    assert [(f.name, f.kind, f.values) for f in network.space.features[:-1]] == [
        ("sport", "binary", (0, 1)),
        ("AGE", "onehot", (-1, 20)),
    ]
    assert network.x.toarray().tolist() == [[0, 1], [1, 0], [1, 1]]
    assert network.y.tolist() == [1, 0, -1] and network.classes == 2
    assert network.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert network.report.dropped == {"constant column": 1, "friendship outside the file": 1}


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=400))
def test_rare_values_and_only_those_become_other(column: list[int]) -> None:
    feature, codes = discrete("c", np.array(column, float))
    for value, code in zip(column, codes.tolist(), strict=True):
        frequent = column.count(value) >= RARE * len(column)
        assert feature.values[code] == (value if frequent else OTHER)
    assert len(set(feature.values)) == len(feature.values)


def test_rare_values_by_example() -> None:
    feature, codes = discrete("c", np.r_[np.zeros(150), np.ones(148), 2, 3])
    assert feature.values == (0, 1, OTHER) and codes[-2:].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (USERS.replace("gender", "sex"), "line 1: no column 'gender'"),
        (USERS.replace("\n3,", "\n7,"), "user_id must be there and distinct"),
        (USERS.replace("-1\n", "x\n"), r"region_job\.csv, line 3: 'x' is not a finite number"),
        (USERS.replace(",20\n", ",20,1\n"), r"region_job\.csv, line 2: expected 5 entries, found 6"),
        ("user_id,gender,a\n1,0,1\n2,1,1\n", "no column varies"),
    ],
)
def test_faults(tmp_path: Path, users: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pokec(path=_write(tmp_path, users, "7\t3\n"))


@pytest.mark.usefixtures("unchecked")
def test_unknown_label() -> None:
    with pytest.raises(ValueError, match="label: Pokec has no label 'AGE'"):
        pokec(label="AGE")  # pyright: ignore[reportArgumentType]


def test_counts_of_the_part(data: Path) -> None:
    network = pokec(path=data)
    assert network.n == 1279 and network.adjacency.nnz == 2 * 3900
    assert np.bincount(network.y).tolist() == [741, 538]
    assert np.count_nonzero(np.diff(network.adjacency.indptr) == 0) == 140
    assert pokec(label="I_am_working_in_field", path=data).y.tolist().count(-1) == 1087
