"""A fingerprint of data says whether anything that counts has changed, and nothing else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jgleak.datasets import load
from jgleak.datasets.digest import digest
from jgleak.graph import Graph

DATA = load("embedded", graphs=3, max_nodes=8)
GRAPHS, SPACE = DATA.graphs, DATA.space


def _first(**change: object) -> list[Graph]:
    return [dataclasses.replace(GRAPHS[0], **change), *GRAPHS[1:]]


def test_names_integer_types_and_last_digits_do_not_count() -> None:
    assert SPACE.mean is not None
    near = dataclasses.replace(SPACE, mean=SPACE.mean * (1 + 1e-14))
    assert digest(near, _first(name="another", x=GRAPHS[0].x.astype(np.int64))) == digest(SPACE, GRAPHS)


@pytest.mark.parametrize(
    "graphs",
    [
        GRAPHS[:2],
        GRAPHS[::-1],
        _first(x=GRAPHS[0].x[::-1].copy()),
        _first(x=GRAPHS[0].x.astype(np.float64) + 1e-12),
        _first(edges=GRAPHS[0].edges[1:]),
        _first(y=7),
        _first(y=None),
        _first(y=np.zeros(GRAPHS[0].n, np.int64)),
    ],
    ids=["fewer", "reordered", "features", "real features", "edges", "label", "no label", "node labels"],
)
def test_everything_else_counts(graphs: list[Graph]) -> None:
    assert digest(SPACE, graphs) != digest(SPACE, GRAPHS)


def test_the_space_and_its_statistics_count() -> None:
    assert SPACE.mean is not None
    other = dataclasses.replace(SPACE, mean=SPACE.mean + 1e-3)
    assert len({digest(space, GRAPHS) for space in (SPACE, other, SPACE.without("degree"))}) == 3


def test_the_ends_of_graphs_and_of_their_kinds_count() -> None:
    """The same rows, cut into graphs elsewhere; the same graphs, cut into kinds elsewhere."""
    rows, none = np.arange(3)[:, None], np.zeros((0, 2), np.int64)
    one, two = Graph(rows[:1], none, 0), Graph(rows[1:], none, 0)
    assert digest(SPACE, [one, two]) != digest(SPACE, [Graph(rows[:2], none, 0), Graph(rows[2:], none, 0)])
    assert digest(SPACE, [one, two]) != digest(SPACE, [one], [two])
