"""Labels of reconstructions beside the client's."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.graph import Graph
from jgleak.metrics import same_label

GRAPH = Graph(np.zeros((2, 1), int), np.array([[0, 1]]))


def row(*labels: float) -> Any:
    return np.array([labels], np.float32)


@pytest.mark.parametrize(
    ("truth", "read", "tolerance", "same"),
    [
        (1, 1, 0.0, True),
        (1, 0, 0.0, False),
        (1500, 1501, 1e-3, False),
        (1500.0, 1501, 1e-3, True),
        (0.01, 0.0100004, 1e-3, True),
        (0.01, 0.0100004, 0.0, False),
        (1000.0, 1001.1, 1e-3, False),
        (1000.0, 1000.9, 1e-3, True),
        (-1000.0, -999.1, 1e-3, True),
        (0.5, 0.5005, 1e-3, True),
        (0.5, 0.502, 1e-3, False),
        (-1.0, 1.0, 1e-3, False),
        (row(1, np.nan, 0), row(1, np.nan, 0), 0.0, True),
        (row(1, np.nan, 0), row(1, 0, 0), 0.0, False),
        (row(1, 0), row(1, 1), 0.0, False),
        (row(1), 1, 0.0, True),
        (row(np.nan), 1, 0.0, False),
        (1, row(np.nan), 0.0, False),
        (row(1, 0), row(1), 0.0, False),
        (None, 1, 0.0, None),
        (1, None, 0.0, None),
        (np.array([0, 1]), np.array([0, 1]), 0.0, None),
        (0, np.array([0, 1]), 0.0, None),
    ],
)
def test_labels_are_the_same_up_to_a_tolerance_and_none_where_they_cannot_be_compared(
    truth: Any, read: Any, tolerance: float, same: bool | None
) -> None:
    mine, other = (dataclasses.replace(GRAPH, y=y) for y in (truth, read))
    assert same_label(mine, other, tolerance=tolerance) is same
