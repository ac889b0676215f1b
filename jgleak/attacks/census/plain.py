"""Which of equally plausible graphs comes first, without any knowledge of the field: the plainer one."""

from __future__ import annotations

import numpy as np
from rdkit import Chem

from jgleak.graph import Graph

RADIUS = 6
"""Surroundings are compared up to this many edges."""


def plainness(graph: Graph) -> tuple[int, int]:
    """Total length of its shortest cycles, then the number of kinds of surroundings its nodes have: smaller is plainer.

    Graphs with the same blocks have equally many edges. Most of them close cycles across the whole graph, which real
    ones seldom do; and real ones repeat their parts.
    """
    return sum(len(ring) for ring in rings(graph)), surroundings(graph)


def rings(graph: Graph) -> list[set[int]]:
    """A smallest set of shortest cycles (RDKit's symmetrised one), as sets of nodes."""
    skeleton = Chem.RWMol()
    for _ in range(graph.n):
        skeleton.AddAtom(Chem.Atom(6))
    for u, v in graph.edges.tolist():
        skeleton.AddBond(u, v, Chem.BondType.SINGLE)
    return [set(ring) for ring in Chem.GetSymmSSSR(skeleton)]


def surroundings(graph: Graph) -> int:
    """Number of different surroundings up to ``RADIUS`` edges (Weisfeiler-Leman colours)."""
    colours = np.unique(graph.x, axis=0, return_inverse=True)[1].ravel().tolist()
    for _ in range(RADIUS):
        seen = [(colours[v], tuple(sorted(colours[u] for u in graph.neighbours[v]))) for v in range(graph.n)]
        numbers = {colour: i for i, colour in enumerate(dict.fromkeys(seen))}
        colours = [numbers[colour] for colour in seen]
    return len(set(colours))
