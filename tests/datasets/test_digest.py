"""A fingerprint of graphs says whether anything that counts has changed, and nothing else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jgleak.datasets import load
from jgleak.datasets.digest import digest
from jgleak.graph import Graph

GRAPHS = load("embedded", graphs=3, max_nodes=8).graphs


def _first(**change: object) -> list[Graph]:
    return [dataclasses.replace(GRAPHS[0], **change), *GRAPHS[1:]]


def test_names_and_integer_types_do_not_count() -> None:
    assert digest(_first(name="another", x=GRAPHS[0].x.astype(np.int64))) == digest(GRAPHS)


@pytest.mark.parametrize(
    "graphs",
    [
        GRAPHS[:2],
        GRAPHS[::-1],
        _first(x=GRAPHS[0].x[::-1].copy()),
        _first(edges=GRAPHS[0].edges[1:]),
        _first(y=7),
    ],
    ids=["fewer", "reordered", "features", "edges", "label"],
)
def test_everything_else_counts(graphs: list[Graph]) -> None:
    assert digest(graphs) != digest(GRAPHS)


def test_the_ends_of_graphs_count() -> None:
    """The same rows, cut into graphs elsewhere."""
    rows, none = np.arange(3)[:, None], np.zeros((0, 2), np.int64)
    assert digest([Graph(rows[:1], none, 0), Graph(rows[1:], none, 0)]) != digest(
        [Graph(rows[:2], none, 0), Graph(rows[2:], none, 0)]
    )
