"""Whether a reconstruction's label is the client's."""

from __future__ import annotations

import numpy as np

from jgleak.graph import Graph


def same_label(truth: Graph, graph: Graph, *, tolerance: float = 0.0) -> bool | None:
    """True when the labels are the same: of several tasks all of them, and missing ones at the same places.

    None where there is nothing to compare: one of the labels is unknown, or they are labels of nodes, whose order
    two graphs need not share.

    Args:
      truth: the client's graph.
      graph: a reconstruction.
      tolerance: largest difference of two targets that still count as equal, relative to the true one where that is
        larger than 1; targets recovered in floating point need one. Classes, whole numbers on both sides, have none.
    """
    known, read = truth.y, graph.y
    if known is None or read is None or np.ndim(known) == 1 or np.ndim(read) == 1:
        return None
    mine, other = (np.atleast_2d(np.asarray(y, np.float64)) for y in (known, read))
    if mine.shape != other.shape:
        return False
    classes = all(np.issubdtype(np.asarray(y).dtype, np.integer) for y in (known, read))
    tolerance = 0.0 if classes else tolerance
    missing, apart = np.isnan(mine), np.abs(mine - other) > tolerance * np.maximum(1.0, np.abs(mine))
    return bool(np.array_equal(missing, np.isnan(other)) and not np.any(apart & ~missing))
