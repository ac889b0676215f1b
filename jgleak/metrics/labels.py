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
      tolerance: largest difference of two targets that still count as equal, in their units. Classes need none; targets
        recovered in floating point do.
    """
    known, read = truth.y, graph.y
    if known is None or read is None or np.ndim(known) == 1 or np.ndim(read) == 1:
        return None
    mine, other = np.asarray(known, np.float64), np.asarray(read, np.float64)
    return mine.shape == other.shape and bool(np.allclose(mine, other, rtol=0.0, atol=tolerance, equal_nan=True))
