"""Is the truth among the graphs that an attack lists?"""

from __future__ import annotations

from collections.abc import Sequence

from jgleak.graph import Graph
from jgleak.metrics.exact import exact


def truth_in_set(truth: Graph, graphs: Sequence[Graph], *, tolerance: float = 0.0) -> bool:
    """True when one of ``graphs`` is exactly the truth (see ``exact``)."""
    return any(exact(truth, graph, tolerance=tolerance) for graph in graphs)
