"""How plausible an explaining graph is. A prior ranks; it never removes a graph from the anonymity set.

There are three rankings. ``none`` is arbitrary: a digest decides which graph of a set comes first, so the true graph of
a set of ``k`` comes first at a rate of ``1 / k``. ``plain`` uses structure alone. ``molecule`` uses chemistry, and
``plain`` for ties. ``auto`` stands for ``molecule`` where the features describe atoms, and for ``plain`` elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
from jaxtyping import Bool, Int
from rdkit import Chem, rdBase

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.structure_prior import arbitrary, plainness, rings
from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.smiles import ORDERS, bond_types

RING_PENALTY = {3: 1.0, 4: 1.0, 5: 0.1, 6: 0.0, 7: 0.5}
"""Penalty of a ring of this size; larger ones count 2 and more. All penalties are negative log-likelihoods, roughly."""

FLAT = {5, 13} | {n for first in (7, 15, 33, 51) for n in (first, first + 1, first + 2)}
"""Elements that can be SP2 without a double bond: boron, nitrogen, oxygen, fluorine, and below."""

STRAINED = 2.0
"""Penalty of a ring of three or four with an aromatic bond."""

MISPLACED, MISMATCH = 10.0, 3.0
"""Penalty of an aromatic atom outside every aromatic ring, and of an atom that RDKit perceives differently."""

COVER, CHEAP_RINGS = 1.2, 1.0
"""Penalty for every further multiple of the size of the smallest graph of the set whose ring penalty is below the
second number: a larger graph may be a cover of it."""

EPOXIDE = 0.5
"""Penalty of a ring of three with one atom that is not carbon."""


@dataclasses.dataclass(frozen=True)
class Prior:
    """A ranking of graphs before any gradient is seen.

    Attributes:
      scores: of each graph, smaller is more plausible: a negative log-likelihood, roughly. The third argument is the
        most graphs whose bond orders are computed, the fourth ends the computation.
      ties: a key that sorts graphs of equal scores, smaller comes first.
      usual: which feature codes ``(T, G)`` are common ones, to be tried first where there are too many; None: all.
    """

    scores: Callable[[Sequence[Graph], FeatureSpace, int, Clock], list[float]]
    ties: Callable[[Graph], Any]
    usual: Callable[[Int[np.ndarray, "T G"], FeatureSpace], Bool[np.ndarray, " T"]] | None = None


def no_scores(graphs: Sequence[Graph], space: FeatureSpace, bond_orders: int, clock: Clock) -> list[float]:
    """The same score for all graphs."""
    return [0.0] * len(graphs)


def molecule_scores(
    graphs: Sequence[Graph], space: FeatureSpace, bond_orders: int = 200, clock: Clock | None = None
) -> list[float]:
    """Chemistry: aromatic atoms lie in aromatic rings, odd ring sizes are rare, bond orders and atoms fit together.

    For the ``bond_orders`` most plausible graphs the bond orders are found (every atom's missing valence, as a perfect
    matching), RDKit sanitises the molecule, and its atoms' hydrogens, aromaticity and hybridisation are compared with
    the features.

    Raises:
      ValueError: the feature space has no ``atomic_number``, ``hydrogens`` and ``aromatic``.
    """
    _check(space)
    with rdBase.BlockLogs():
        cyclic = [_ring_score(graph, space) for graph in graphs]
        order = np.argsort(cyclic, kind="stable")
        scores = [score + MISMATCH * graph.n for score, graph in zip(cyclic, graphs, strict=True)]
        for i in order[:bond_orders].tolist():
            if clock is not None and clock.left <= 0:
                break
            scores[i] = cyclic[i] + MISMATCH * _mismatches(graphs[i], space)
    least = min((g.n for g, score in zip(graphs, cyclic, strict=True) if score < CHEAP_RINGS), default=1 << 30)
    covers = [COVER * max(graph.n // least - 1, 0) for graph in graphs]
    return [score + cover for score, cover in zip(scores, covers, strict=True)]


def usual_atoms(codes: Int[np.ndarray, "T G"], space: FeatureSpace) -> Bool[np.ndarray, " T"]:
    """Atoms whose degree, hydrogens and charge fit a valence of their element, and the hybridisation they state.

    Raises:
      ValueError: as for ``molecule_scores``.
    """
    _check(space)
    columns = {
        name: _column(codes, space, name) for name in ("atomic_number", "formal_charge", "hydrogens", "aromatic")
    }
    degrees = space.degrees(codes)
    kinds = _names(codes, space, "hybridization")
    chiral = [name in ("CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW") for name in _names(codes, space, "chirality")]
    rows = zip(
        *columns.values(), [-1] * len(kinds) if degrees is None else degrees.tolist(), kinds, chiral, strict=True
    )
    return np.array([_is_usual(*row) for row in rows], bool)


def _is_usual(number: int, charge: int, hydrogens: int, aromatic: int, degree: int, kind: str, chiral: bool) -> bool:
    """``usual_atoms`` for one atom; ``degree`` is -1 where features do not state it: then all are usual."""
    if degree < 0:
        return True
    if number > 118 or not 1 <= number - charge <= 118:
        return False
    used = degree + hydrogens
    if -1 in Chem.GetPeriodicTable().GetValenceList(number - charge):  # a metal: any valence
        return not aromatic and hydrogens == 0
    spare = _spare(number, charge, used)
    if spare is None or (aromatic and (kind != "SP2" or degree < 2)) or (chiral and (kind != "SP3" or used < 3)):
        return False
    heavy, flat = number > 10, number - charge in FLAT
    if kind == "SP3":
        return spare == 0 or (heavy and degree > 1)
    if kind == "SP2":
        return spare == 1 or (spare == 0 and flat)
    return kind not in ("SP", "S") or spare in (1, 2) or (kind == "S" and spare == 0)


PRIORS: dict[str, Prior] = {
    "none": Prior(no_scores, arbitrary),
    "plain": Prior(no_scores, plainness),
    "molecule": Prior(molecule_scores, plainness, usual_atoms),
}
"""The priors by name."""

NAMES = ("auto", *PRIORS)
"""What ``Knowledge.prior`` may be."""


def resolved(name: str, space: FeatureSpace) -> str:
    """The prior that ``name`` stands for with these features: itself, or what ``auto`` chooses.

    Raises:
      ValueError: an unknown prior, or one that needs other features.
    """
    if name not in NAMES:
        raise ValueError(f"prior {name!r} is unknown; choose one of {', '.join(NAMES)}")
    if name == "auto":
        return "plain" if _missing(space) else "molecule"
    if name == "molecule":
        _check(space)
    return name


def _missing(space: FeatureSpace) -> set[str]:
    """Features that the molecule prior needs and the space lacks."""
    return {"atomic_number", "hydrogens", "aromatic"} - {f.name for f in space.features}


def _check(space: FeatureSpace) -> None:
    missing = _missing(space)
    if missing:
        raise ValueError(
            f"prior: 'molecule' needs the features {', '.join(sorted(missing))}; use prior 'plain', or 'auto'"
        )


def _column(codes: Int[np.ndarray, "T G"], space: FeatureSpace, name: str) -> list[int]:
    """A feature's values as integers; zeros where the space lacks it."""
    if name not in {f.name for f in space.features}:
        return [0] * codes.shape[0]
    g = space.index(name)
    values = space.features[g].values
    return [int(values[int(code)]) for code in codes[:, g]]


def _names(codes: Int[np.ndarray, "T G"], space: FeatureSpace, name: str) -> list[str]:
    """A feature's values as text; empty where the space lacks it."""
    if name not in {f.name for f in space.features}:
        return [""] * codes.shape[0]
    g = space.index(name)
    return [str(space.features[g].values[int(code)]) for code in codes[:, g]]


def _ring_score(graph: Graph, space: FeatureSpace) -> float:
    found = rings(graph)
    aromatic = {v for v, flag in enumerate(_column(graph.x, space, "aromatic")) if flag}
    placed = {v for ring in found if len(ring) in (5, 6, 7) and ring <= aromatic for v in ring}
    carbon = {v for v, number in enumerate(_column(graph.x, space, "atomic_number")) if number == 6}
    sizes = [
        EPOXIDE if len(ring) == 3 and len(ring & carbon) == 2 else RING_PENALTY.get(len(ring), 1.5 + 0.1 * len(ring))
        for ring in found
    ]
    strained = sum(len(ring) < 5 and len(ring & aromatic) > 1 for ring in found)
    return MISPLACED * len(aromatic - placed) + sum(sizes) + STRAINED * strained


def _mismatches(graph: Graph, space: FeatureSpace) -> int:
    """Atoms whose valence cannot be filled, or that RDKit perceives with other features than the graph states.

    Where the graph has bond types, these are used, and none are computed.
    """
    numbers, charges = _column(graph.x, space, "atomic_number"), _column(graph.x, space, "formal_charge")
    hydrogens = _column(graph.x, space, "hydrogens")
    degrees = graph.degree.tolist()
    bonds, unfilled = bond_types(graph, space), 0
    if bonds is None:
        missing = [_spare(z, q, h + d) or 0 for z, q, h, d in zip(numbers, charges, hydrogens, degrees, strict=True)]
        orders, unfilled = _bond_orders(graph, missing)
        bonds = [ORDERS[min(orders[u, v], 2)] for u, v in graph.edges.tolist()]
    molecule = Chem.RWMol()
    for z, charge, hydrogen in zip(numbers, charges, hydrogens, strict=True):
        atom = Chem.Atom(z)
        atom.SetFormalCharge(charge)
        atom.SetNumExplicitHs(hydrogen)
        atom.SetNoImplicit(True)
        molecule.AddAtom(atom)
    for (u, v), bond in zip(graph.edges.tolist(), bonds, strict=True):
        molecule.AddBond(u, v, bond)  # of an aromatic one its atoms are as well
    if Chem.SanitizeMol(molecule, catchErrors=True) != Chem.SanitizeFlags.SANITIZE_NONE:
        return graph.n
    claimed = _column(graph.x, space, "aromatic")
    different = sum(atom.GetIsAromatic() != bool(flag) for atom, flag in zip(molecule.GetAtoms(), claimed, strict=True))
    if "hybridization" in {f.name for f in space.features}:
        names = _names(graph.x, space, "hybridization")
        perceived = [str(atom.GetHybridization()) for atom in molecule.GetAtoms()]
        different += sum(name not in (seen, "OTHER") for name, seen in zip(names, perceived, strict=True))
    return different + unfilled


@cache
def _spare(number: int, charge: int, used: int) -> int | None:
    """Valence an atom has left for double and triple bonds; None where none of its valences reaches ``used``. A charged
    atom has the valences of the neutral one with as many electrons."""
    neutral = number - charge
    if not 1 <= neutral <= 118:
        return None
    return min((v - used for v in Chem.GetPeriodicTable().GetValenceList(neutral) if v >= used), default=None)


def _bond_orders(graph: Graph, missing: Sequence[int]) -> tuple[dict[tuple[int, int], int], int]:
    """Extra bonds on every edge that use up the missing valences as far as possible, and what stays unfilled."""
    orders = {(u, v): 0 for u, v in graph.edges.tolist()}
    stubs = nx.Graph()
    for u, v in orders:
        stubs.add_edges_from(((u, i), (v, j)) for i in range(missing[u]) for j in range(missing[v]))
    matching = nx.max_weight_matching(stubs)
    for (u, _), (v, _) in matching:
        orders[min(u, v), max(u, v)] += 1
    return orders, sum(missing) - 2 * len(matching)
