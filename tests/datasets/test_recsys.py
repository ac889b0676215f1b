"""The rating sets: small files in the official layouts, their faults, and the published sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from jgleak.datasets import ratings
from jgleak.ratings import Ratings

DOUBAN = "training_test_dataset.mat"
M = np.array([[5.0, 0, 3], [0, 1, 0]])
TRAIN = np.array([[1.0, 0, 0], [0, 1, 0]])


def _write(folder: Path, **changes: np.ndarray | None) -> Path:
    with h5py.File(folder / DOUBAN, "w") as file:
        for key, matrix in ({"M": M, "Otraining": TRAIN, "Otest": (M != 0) - TRAIN} | changes).items():
            if matrix is not None:
                file[key] = matrix.T
    return folder


def test_matrices_come_out_as_matlab_meant_them(tmp_path: Path) -> None:
    _, train, test = ratings("douban", path=_write(tmp_path))
    assert (train.users.tolist(), train.items.tolist(), train.values.tolist()) == ([0, 1], [0, 1], [5.0, 1.0])
    assert (test.users.tolist(), test.items.tolist(), test.values.tolist()) == ([0], [2], [3.0])
    assert (train.n_users, train.n_items, train.levels[-1]) == (2, 3, 5.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Otest": None}, "lacks the matrix Otest; it has M, Otraining"),
        ({"Otest": np.ones((3, 3))}, r"Otest has shape \(3, 3\), M has \(2, 3\)"),
        ({"Otest": (M != 0) * 2.0}, "Otest must hold zeros and ones"),
        ({"Otest": (M != 0) * 1.0}, "exactly one of Otraining and Otest"),
        ({"Otest": np.zeros((2, 3))}, "exactly one of Otraining and Otest"),
        ({"M": M * 1.5}, "every rating must be one of the levels 1..5"),
        ({"M": M + np.array([[0, 0, np.nan], [0, 0, 0]])}, "M must be a matrix of finite numbers"),
        ({"M": np.zeros((2, 2, 2))}, "M must be a matrix"),
        ({"M": np.array(b"words")}, "damaged|could not convert"),
    ],
)
def test_faults_name_the_file(tmp_path: Path, changes: dict[str, np.ndarray | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ratings("douban", path=_write(tmp_path, **changes))


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / DOUBAN).write_bytes(b"MATLAB 5.0 MAT-file")
    with pytest.raises(ValueError, match="not a MATLAB v7.3"):
        ratings("douban", path=tmp_path)
    with pytest.raises(ValueError, match="no rating set 'netflix'; known are flixster"):
        ratings("netflix")


def test_movielens_100k_keeps_its_official_split(tmp_path: Path) -> None:
    (tmp_path / "u1.base").write_text("1\t10\t5\t881250949\n7\t30\t1\t0\n")
    (tmp_path / "u1.test").write_text("1\t20\t3\t0\n")
    _, train, test = ratings("movielens-100k", path=tmp_path)
    assert (train.users.tolist(), train.items.tolist()) == ([0, 1], [0, 2])
    assert (test.users.tolist(), test.items.tolist(), test.values.tolist()) == ([0], [1], [3.0])
    (tmp_path / "u1.test").write_text("1\t20\t3\t0\n1\t10\t4\t0\n")
    with pytest.raises(ValueError, match="u1.base: users, items: a user rated an item twice"):
        ratings("movielens-100k", path=tmp_path)


def test_movielens_10m_holds_out_a_tenth_by_seed(tmp_path: Path) -> None:
    lines = [f"{user}::{item}::{(user + item) % 10 / 2 + 0.5:g}::0" for user in range(1, 11) for item in (3, 9, 27)]
    (tmp_path / "ratings.dat").write_text("\n".join(lines) + "\n")
    _, train, test = ratings("movielens-10m", seed=1, path=tmp_path)
    assert (len(train), len(test), train.n_users, train.n_items) == (27, 3, 10, 3)
    pairs = {(u, i) for part in (train, test) for u, i in zip(part.users.tolist(), part.items.tolist(), strict=True)}
    assert len(pairs) == 30
    assert ratings("movielens-10m", seed=1, path=tmp_path).test.users.tolist() == test.users.tolist()
    (tmp_path / "ratings.dat").write_text("1::2::3\n")
    with pytest.raises(ValueError, match=r"ratings\.dat, line 1: expected 4 entries, found 3"):
        ratings("movielens-10m", path=tmp_path)


@pytest.mark.usefixtures("own_cache")
def test_movielens_says_where_to_get_it() -> None:
    with pytest.raises(FileNotFoundError, match=r"download it yourself from https://grouplens\.org"):
        ratings("movielens-1m")


def test_validation_ratings_come_from_the_given_ones() -> None:
    whole = Ratings(np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5), np.ones(20), 5, 4, (1.0, 2.0))
    rest, held = whole.validation(0.25, np.random.default_rng(0))
    assert (len(rest), len(held)) == (15, 5)
    assert sorted([*rest.users * 4 + rest.items, *held.users * 4 + held.items]) == list(range(20))
    with pytest.raises(ValueError, match="share: 0.01 of 20 ratings"):
        whole.validation(0.01, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: {"users": np.array([0, 5])}, r"users: ids must be integers in 0\.\.1"),
        (lambda: {"items": np.array([0])}, "items: expected one id a rating"),
        (lambda: {"values": np.array([1.0, np.nan])}, "values: every rating must be one of the levels"),
        (lambda: {"items": np.array([1, 1]), "users": np.array([0, 0])}, "rated an item twice"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_impossible_ratings_are_refused(change: Callable[[], dict[str, np.ndarray]], message: str) -> None:
    fields = {"users": np.array([0, 1]), "items": np.array([1, 1]), "values": np.array([1.0, 2.0])} | change()
    with pytest.raises(ValueError, match=message):
        Ratings(**fields, n_users=2, n_items=2, levels=(1.0, 2.0))


@pytest.mark.parametrize(
    ("name", "train", "test"), [("flixster", 23556, 2617), ("douban", 123202, 13689), ("yahoo-music", 4802, 533)]
)
def test_published_sizes(data: Path, name: str, train: int, test: int) -> None:
    split = ratings(name, path=data)
    assert (len(split.train), len(split.test), split.train.n_users, split.train.n_items) == (train, test, 3000, 3000)
