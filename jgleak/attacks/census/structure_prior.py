"""Rankings of graphs without domain knowledge: by structure alone (``plain``), and an arbitrary one (``none``)."""

from __future__ import annotations

import hashlib

import numpy as np
from rdkit import Chem

from jgleak.graph import Graph

RADIUS = 6
"""Surroundings (rooted neighbourhoods) are compared up to this many hops."""


def plainness(graph: Graph) -> tuple[int, int, int, bytes]:
    """The scores of the ranking ``plain``; graphs with smaller ones come first.

    Of graphs with the same gradient the smaller is the simpler explanation. Graphs with the same blocks have equally
    many edges; most of them have cycles across the whole graph, which real graphs seldom have, and real graphs repeat
    their parts.

    Returns:
      The number of nodes, the total length of the shortest cycles, the number of different surroundings that nodes
      have, and ``arbitrary`` for what is still tied.
    """
    return graph.n, sum(len(ring) for ring in rings(graph)), surroundings(graph), arbitrary(graph)


def arbitrary(graph: Graph) -> bytes:
    """A digest of the canonical form: an arbitrary order that does not depend on the search."""
    return hashlib.blake2b(b"".join(graph.canonical_form()), digest_size=16).digest()


def rings(graph: Graph) -> list[set[int]]:
    """A smallest set of shortest cycles (RDKit's symmetrised one), as sets of nodes."""
    skeleton = Chem.RWMol()
    for _ in range(graph.n):
        skeleton.AddAtom(Chem.Atom(6))
    for u, v in graph.edges.tolist():
        skeleton.AddBond(u, v, Chem.BondType.SINGLE)
    return [set(ring) for ring in Chem.GetSymmSSSR(skeleton)]


def surroundings(graph: Graph) -> int:
    """Number of different rooted neighbourhoods of ``RADIUS`` hops (colour refinement)."""
    colours = np.unique(graph.x, axis=0, return_inverse=True)[1].ravel().tolist()
    neighbours = graph.neighbours
    for _ in range(RADIUS):
        seen = [(colours[v], tuple(sorted(colours[u] for u in neighbours[v]))) for v in range(graph.n)]
        numbers = {colour: i for i, colour in enumerate(dict.fromkeys(seen))}
        colours = [numbers[colour] for colour in seen]
    return len(set(colours))
