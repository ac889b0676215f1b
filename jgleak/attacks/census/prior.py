"""How plausible an explaining graph is. A prior ranks; it never removes a graph from the anonymity set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np
from rdkit import Chem, rdBase

from jgleak.features import FeatureSpace
from jgleak.graph import Graph

THOROUGH = 200
"""Most graphs whose bond orders are worked out; the rest keep the scores of their rings."""

RING_PENALTY = {3: 1.0, 4: 1.0, 5: 0.0, 6: 0.0, 7: 0.5}
"""Surprise at a ring of this size; larger ones count 2 and more."""

MISPLACED, MISMATCH = 10.0, 3.0
"""Surprise at an aromatic atom outside every aromatic ring, and at an atom that RDKit perceives differently."""

Prior = Callable[[Sequence[Graph], FeatureSpace], list[float]]
"""Scores of graphs, smaller is more plausible."""


def no_prior(graphs: Sequence[Graph], space: FeatureSpace) -> list[float]:
    """All graphs alike."""
    return [0.0] * len(graphs)


def molecule_prior(graphs: Sequence[Graph], space: FeatureSpace) -> list[float]:
    """Chemistry: aromatic atoms lie in aromatic rings, odd ring sizes are rare, bond orders and atoms fit together.

    For the most plausible graphs the bond orders are found (every atom's missing valence, as a perfect matching), RDKit
    sanitises the molecule, and its atoms' hydrogens, aromaticity and hybridisation are compared with the features.

    Raises:
      ValueError: the feature space has no ``atomic_number``, ``hydrogens`` and ``aromatic``.
    """
    missing = {"atomic_number", "hydrogens", "aromatic"} - {f.name for f in space.features}
    if missing:
        raise ValueError(f"prior: 'molecule' needs the features {', '.join(sorted(missing))}; use prior 'none'")
    with rdBase.BlockLogs():
        rings = [_ring_score(graph, space) for graph in graphs]
        order = np.argsort(rings, kind="stable")
        scores = [ring + MISMATCH * graph.n for ring, graph in zip(rings, graphs, strict=True)]
        for i in order[:THOROUGH].tolist():
            scores[i] = rings[i] + MISMATCH * _mismatches(graphs[i], space)
    return scores


PRIORS: dict[str, Prior] = {"none": no_prior, "molecule": molecule_prior}
"""By the name that users type."""


def _values(graph: Graph, space: FeatureSpace, name: str, default: int = 0) -> list[int]:
    if name not in {f.name for f in space.features}:
        return [default] * graph.n
    g = space.index(name)
    values = space.features[g].values
    return [int(values[int(code)]) for code in graph.x[:, g]]


def _ring_score(graph: Graph, space: FeatureSpace) -> float:
    skeleton = Chem.RWMol()
    for _ in range(graph.n):
        skeleton.AddAtom(Chem.Atom(6))
    for u, v in graph.edges.tolist():
        skeleton.AddBond(u, v, Chem.BondType.SINGLE)
    rings = [set(ring) for ring in Chem.GetSymmSSSR(skeleton)]
    aromatic = {v for v, flag in enumerate(_values(graph, space, "aromatic")) if flag}
    placed = {v for ring in rings if len(ring) in (5, 6, 7) and ring <= aromatic for v in ring}
    sizes = [RING_PENALTY.get(len(ring), 1.5 + 0.1 * len(ring)) for ring in rings]
    return MISPLACED * len(aromatic - placed) + sum(sizes)


def _mismatches(graph: Graph, space: FeatureSpace) -> int:
    """Atoms whose valence cannot be filled, or that RDKit perceives with other features than the graph states."""
    numbers, charges = _values(graph, space, "atomic_number"), _values(graph, space, "formal_charge")
    hydrogens = _values(graph, space, "hydrogens")
    degrees = graph.degree.tolist()
    missing = [_missing(z, q, h + d) for z, q, h, d in zip(numbers, charges, hydrogens, degrees, strict=True)]
    orders, unfilled = _bond_orders(graph, missing)
    molecule = Chem.RWMol()
    for z, charge, hydrogen in zip(numbers, charges, hydrogens, strict=True):
        atom = Chem.Atom(z)
        atom.SetFormalCharge(charge)
        atom.SetNumExplicitHs(hydrogen)
        atom.SetNoImplicit(True)
        molecule.AddAtom(atom)
    kinds = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
    for (u, v), order in orders.items():
        molecule.AddBond(u, v, kinds[min(order, 2)])
    if Chem.SanitizeMol(molecule, catchErrors=True) != Chem.SanitizeFlags.SANITIZE_NONE:
        return graph.n
    claimed = _values(graph, space, "aromatic")
    different = sum(atom.GetIsAromatic() != bool(flag) for atom, flag in zip(molecule.GetAtoms(), claimed, strict=True))
    if "hybridization" in {f.name for f in space.features}:
        feature = space.features[space.index("hybridization")]
        names = [str(feature.values[int(code)]) for code in graph.x[:, space.index("hybridization")]]
        perceived = [str(atom.GetHybridization()) for atom in molecule.GetAtoms()]
        different += sum(name not in (seen, "OTHER") for name, seen in zip(names, perceived, strict=True))
    return different + unfilled


def _missing(number: int, charge: int, used: int) -> int:
    """Valence an atom has left for double and triple bonds; a charged atom has its isoelectronic neighbour's."""
    neutral = number - charge
    if not 1 <= neutral <= 118:
        return 0
    options = [v for v in Chem.GetPeriodicTable().GetValenceList(neutral) if v >= used]
    return min(options) - used if options else 0


def _bond_orders(graph: Graph, missing: Sequence[int]) -> tuple[dict[tuple[int, int], int], int]:
    """Extra bonds on every edge that use up the missing valences as far as possible, and what stays unfilled."""
    orders = {(u, v): 0 for u, v in graph.edges.tolist()}
    stubs = nx.Graph()
    for u, v in orders:
        stubs.add_edges_from(((u, i), (v, j)) for i in range(missing[u]) for j in range(missing[v]))
    matching = nx.max_weight_matching(stubs, maxcardinality=True)
    for (u, _), (v, _) in matching:
        orders[min(u, v), max(u, v)] += 1
    return orders, sum(missing) - 2 * len(matching)
