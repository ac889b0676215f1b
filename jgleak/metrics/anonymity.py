"""Is the truth among the graphs that an attack lists, and how often would a guess among them hit it?"""

from __future__ import annotations

from collections.abc import Sequence

from jgleak.graph import Graph
from jgleak.metrics.exact import exact


def truth_in_set(truth: Graph, graphs: Sequence[Graph], *, tolerance: float = 0.0) -> bool:
    """True when one of ``graphs`` is exactly the truth (see ``exact``)."""
    return any(exact(truth, graph, tolerance=tolerance) for graph in graphs)


def guess_rate(truth: Graph, graphs: Sequence[Graph], *, tolerance: float = 0.0) -> float:
    """How often a graph drawn at random from ``graphs`` is the truth: 1/k where it is one of k, else 0.

    It is what a set gives away without any ranking.
    """
    return 1.0 / len(graphs) if truth_in_set(truth, graphs, tolerance=tolerance) else 0.0
