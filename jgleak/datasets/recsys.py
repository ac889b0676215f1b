"""Rating sets: the mgcnn extracts of Flixster, Douban and YahooMusic, MovieLens 100K, 1M and 10M, and a made-up one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from jgleak.datasets.locate import Remote, Source, locate
from jgleak.datasets.synthetic_ratings import SYNTHETIC, synthetic_ratings
from jgleak.datasets.table import read_table
from jgleak.names.datasets import RATING_SETS
from jgleak.ratings import Ratings, RatingSplit

_HALVES = tuple(k / 2 for k in range(1, 11))
_STARS = (1.0, 2.0, 3.0, 4.0, 5.0)
_PERCENT = tuple(float(k) for k in range(1, 101))


class _Matrix(NamedTuple):
    """Where an mgcnn extract lies, its SHA-256 and its levels."""

    file: str
    sha256: str
    levels: tuple[float, ...]


_MATRICES: Mapping[str, _Matrix] = {
    "flixster": _Matrix(
        "flixster/training_test_dataset_10_NNs.mat",
        "8b07e0387edfe7ffdccead2826bb3844ddbd9e6a8ccba264ce81a3b59b273197",
        _HALVES,
    ),
    "douban": _Matrix(
        "douban/training_test_dataset.mat",
        "1f4476321cbfe0f606e7e35d0695ca15447a1b0b2c811df130109b6cb9a067ae",
        _STARS,
    ),
    "yahoo-music": _Matrix(
        "yahoo_music/training_test_dataset_10_NNs.mat",
        "56a80de836537544d0d6ba36fc59937dfe87f738ac5e2a701cc8226faf4f31ec",
        _PERCENT,
    ),
}
_MOVIES: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "movielens-100k": ("ml-100k", _STARS),
    "movielens-1m": ("ml-1m", _STARS),
    "movielens-10m": ("ml-10M100K", _HALVES),
}

TEST_SHARE = 0.1
"""Share of MovieLens 1M and 10M that is held out (van den Berg, Kipf, Welling, "Graph convolutional matrix
completion", 2017, which FedGNN follows)."""


def ratings(name: str, *, seed: int = 0, path: str | Path | None = None) -> RatingSplit:
    """A rating set and its test split.

    Flixster, Douban, YahooMusic: 3,000 users and 3,000 items each, with the split published beside them. MovieLens
    100K: the official ``u1.base`` and ``u1.test``. MovieLens 1M and 10M have no such split: a random tenth is held out.
    Users and items are numbered in the order of their ids. ``synthetic-ratings`` is ``synthetic_ratings(seed=seed)``.

    Args:
      name: one of ``RATING_SETS``.
      seed: draws the test ratings of MovieLens 1M and 10M, and all of the made-up set; of no effect elsewhere.
      path: where the files are; see ``jgleak.datasets.locate``.

    Raises:
      ValueError: an unknown name, or a file that breaks the format (it is named).
      FileNotFoundError: the files are nowhere. MovieLens is not downloaded, since its users have to agree to its terms;
        the message says where it is.

    Source: Monti, Bronstein, Bresson, "Geometric matrix completion with recurrent multi-graph neural networks", NeurIPS
    2017; Harper, Konstan, "The MovieLens datasets", ACM TiiS 5, 2015.
    """
    if name in _MATRICES:
        return _mgcnn(name, _MATRICES[name], path)
    if name in _MOVIES:
        return _movielens(name, seed, path)
    if name == SYNTHETIC:
        return synthetic_ratings(seed=seed)
    raise ValueError(f"name: no rating set {name!r}; known are {', '.join(RATING_SETS)}")


def _mgcnn(name: str, matrix: _Matrix, path: str | Path | None) -> RatingSplit:
    remote = Remote(f"https://raw.githubusercontent.com/fmonti/mgcnn/master/Data/{matrix.file}", matrix.sha256)
    file = locate(Source(name, f"recsys/Data/{matrix.file}", (remote,)), path=path)
    m, train, test = (_dense(file, key) for key in ("M", "Otraining", "Otest"))
    for key, mask in (("Otraining", train), ("Otest", test)):
        if mask.shape != m.shape:
            raise ValueError(f"{file.name}: {key} has shape {mask.shape}, M has {m.shape}")
        if not np.isin(mask, (0.0, 1.0)).all():
            raise ValueError(f"{file.name}: {key} must hold zeros and ones")
    if np.any((train + test > 1) | ((train + test > 0) != (m != 0))):
        raise ValueError(f"{file.name}: every rating of M must lie in exactly one of Otraining and Otest")
    return RatingSplit(name, *(_listed(file, m, mask, matrix.levels) for mask in (train, test)))


def _dense(file: Path, key: Literal["M", "Otraining", "Otest"]) -> Float[np.ndarray, "users items"]:
    """One matrix of a MATLAB v7.3 file; MATLAB stores by column, so HDF5 shows it transposed."""
    import h5py  # here, since graphs' data sets do without it

    try:
        with h5py.File(file) as content:
            if key not in content:
                raise ValueError(f"{file.name}: lacks the matrix {key}; it has {', '.join(content) or 'nothing'}")
            matrix = np.asarray(content[key], np.float64).T
    except (OSError, TypeError) as error:
        raise ValueError(f"{file.name}: not a MATLAB v7.3 (HDF5) file, or damaged ({error})") from error
    if matrix.ndim != 2 or not np.all(np.isfinite(matrix)):
        raise ValueError(f"{file.name}: {key} must be a matrix of finite numbers, got shape {matrix.shape}")
    return matrix


def _listed(
    file: Path,
    m: Float[np.ndarray, "users items"],
    mask: Float[np.ndarray, "users items"],
    levels: tuple[float, ...],
) -> Ratings:
    users, items = np.nonzero(mask)
    return _made(file, users, items, m[users, items], m.shape, levels)


def _movielens(name: str, seed: int, path: str | Path | None) -> RatingSplit:
    folder, levels = _MOVIES[name]
    members = ("u1.base", "u1.test") if name == "movielens-100k" else ("ratings.dat",)
    archive = "ml-10m" if name == "movielens-10m" else folder
    address = f"https://grouplens.org/datasets/movielens/ ({archive}.zip; read its terms of use)"
    found = locate(Source(name, f"recsys/{folder}", (), members, by_hand=address), path=path)
    delimiter = "\t" if len(members) == 2 else "::"
    files = [found / member for member in members]
    tables = [read_table(file, np.float64, columns=4, delimiter=delimiter) for file in files]
    rows = np.concatenate(tables)
    _, users = np.unique(rows[:, 0], return_inverse=True)
    _, items = np.unique(rows[:, 1], return_inverse=True)
    whole = _made(files[0], users, items, rows[:, 2], (int(users.max()) + 1, int(items.max()) + 1), levels)
    if len(tables) == 2:
        tested = np.arange(len(whole)) >= len(tables[0])
        return RatingSplit(name, whole.take(~tested), whole.take(tested))
    return RatingSplit(name, *whole.validation(TEST_SHARE, np.random.default_rng(seed)))


def _made(
    file: Path,
    users: np.ndarray,
    items: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
    levels: tuple[float, ...],
) -> Ratings:
    try:
        return Ratings(users.reshape(-1), items.reshape(-1), values, shape[0], shape[1], levels)
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from error
