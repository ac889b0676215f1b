"""A reconstructed molecule as SMILES: with its bond types, or where it has none with those that its atoms allow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from rdkit import Chem, rdBase

from jgleak.features import FeatureSpace
from jgleak.features.atoms import MISC
from jgleak.graph import Graph

STATED = ("atomic_number", "hydrogens")
"""Features without which bond orders cannot be inferred."""

CODED = {
    "formal_charge": "whole numbers",
    "aromatic": "0 and 1",
    "hybridization": "RDKit's names, as SP2",
}
"""Features that are read where a schema has them, and the values by which they are; any other value is no statement."""

ELEMENTS = range(1, 119)

ORDERS = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
"""Bond types by their orders."""

STEPS, ASSIGNMENTS = 200_000, 2_000
"""Most partial assignments of bond orders, and most whole ones, that are looked at."""


@dataclasses.dataclass(frozen=True)
class Smiles:
    """What the atoms of a reconstruction say about the molecule.

    Attributes:
      texts: canonical SMILES of every molecule that has these atoms and neighbours, in alphabetical order; without
        stereochemistry. Where there is none, one with single bonds throughout.
      inferred: bond orders are those that the atoms allow, rather than all single.
      complete: no budget ended the search for others.
      known: the graph has bond types, and nothing was inferred.
      unread: the graph has edge classes, but they are not called as RDKit calls bond types, and were not looked at.
      unread_columns: features of ``CODED`` whose values are not coded as they are here, and were not looked at.
    """

    texts: tuple[str, ...]
    inferred: bool
    complete: bool
    known: bool = False
    unread: bool = False
    unread_columns: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """For people: what to think of the bond orders."""
        if not self.unread_columns:
            return self._orders
        columns = " and ".join(f"{name!r} ({CODED[name]})" for name in self.unread_columns)
        return f"{self._orders}; not read, since their values are others: {columns}"

    @property
    def _orders(self) -> str:
        if self.known:
            return "with the bond types of the reconstruction"
        if self.unread:
            return "from the atoms alone: the edge classes are not named as RDKit's bond types (SINGLE, DOUBLE, ..)"
        if not self.inferred:
            return "all bonds drawn single: no bond orders fit these atoms, and the gradient holds none"
        if not self.complete:
            return f"one of {len(self.texts)} or more with these atoms: the search for bond orders was cut short"
        if len(self.texts) > 1:
            return f"one of {len(self.texts)} with these atoms; the gradient holds no bond orders"
        return "the only bond orders that these atoms allow; the gradient holds none"


def bond_types(graph: Graph, space: FeatureSpace) -> list[Chem.BondType] | None:
    """RDKit's bond type of every edge; None where the graph has no edge classes, or they are named otherwise."""
    types = [name.partition(" ")[0] for name in space.edge_classes]  # what follows is said of bonds of this type
    if graph.edge_class is None or any(name not in Chem.BondType.names for name in types):
        return None
    return [Chem.BondType.names[types[k]] for k in graph.edge_class.tolist()]


def smiles(graph: Graph, space: FeatureSpace) -> Smiles | None:
    """The molecules that have these atoms and these neighbours; None where nodes are no atoms with stated hydrogens, or
    of a charge it is only said that it is none of those listed.

    A graph with bond types is one molecule, whether or not RDKit accepts it. For others bond orders are searched for.
    Every heavy atom's valence is its hydrogens plus its bonds; which bonds are double or triple is searched for, atom
    by atom, among RDKit's normal valences for the element (a charged atom counts as its isoelectronic neighbour). A
    molecule is kept when RDKit accepts it and finds the aromatic atoms and hybridisations that the features state.
    Chirality tags depend on an order of neighbours that no gradient has, so stereochemistry is left out.

    Raises:
      ValueError: features outside ``space``.
    """
    space.check(graph.x)
    if any(name not in (f.name for f in space.features) for name in STATED):
        return None
    numbers = _column(graph, space, "atomic_number")
    if numbers is None or not all(number in ELEMENTS for number in numbers):
        return None
    if None in (_stated(graph, space, "formal_charge") or ()):  # one of all others, which may be any
        return None
    found: set[str] = set()
    complete, bonds = True, bond_types(graph, space)
    unknown = tuple(name for name in CODED if _column(graph, space, name) is not None and not _coded(space, name))
    with rdBase.BlockLogs():
        if bonds is not None:
            text = _written(_molecule(graph, space, bonds))
            return Smiles((text,), inferred=False, complete=True, known=True, unread_columns=unknown)
        for orders in _assignments(graph, space, numbers):
            if orders is None:
                complete = False
                break
            text = _fitting(graph, space, orders)
            if text is not None:
                found.add(text)
        unread = graph.edge_class is not None
        if found:
            return Smiles(tuple(sorted(found)), True, complete, unread=unread, unread_columns=unknown)
        plain = Chem.MolToSmiles(_molecule(graph, space, [ORDERS[0]] * len(graph.edges)))
    return Smiles((plain,), False, complete, unread=unread, unread_columns=unknown)


def _column(graph: Graph, space: FeatureSpace, name: str) -> list | None:
    """What every node states for a feature, or None where the space lacks it."""
    place = next((g for g, f in enumerate(space.features) if f.name == name), None)
    if place is None:
        return None
    values = space.features[place].values
    return [values[int(entry)] if values else entry for entry in graph.x[:, place]]


def _coded(space: FeatureSpace, name: str) -> bool:
    """The values of a feature of ``CODED`` are those that are read, but for a last one for all others (OGB's)."""
    values = [value for value in space.features[space.index(name)].values if value != MISC]
    if name == "hybridization":
        return bool(values) and all(str(value) in Chem.HybridizationType.names for value in values)
    if name == "aromatic":
        return set(values) <= {0, 1} and bool(values)
    return all(isinstance(value, int) for value in values)  # a real column holds the numbers themselves


def _stated(graph: Graph, space: FeatureSpace, name: str) -> list | None:
    """What every atom states for a feature of ``CODED``, None for an atom that states nothing; None where the space
    lacks the feature, or codes it otherwise."""
    column = _column(graph, space, name)
    if column is None or not _coded(space, name):
        return None
    return [None if value == MISC else value for value in column]


def _assignments(graph: Graph, space: FeatureSpace, numbers: list[int]) -> Iterator[list[int] | None]:
    """Orders of all bonds that give every atom a normal valence; None at last where a budget ends the search."""
    near = graph.neighbours
    hydrogens = _column(graph, space, "hydrogens") or []
    charges = _stated(graph, space, "formal_charge") or [0] * graph.n
    table = Chem.GetPeriodicTable()
    spare: list[set[int]] = []
    for v, (number, charge) in enumerate(zip(numbers, charges, strict=True)):
        like, bound = number - int(charge), int(hydrogens[v]) + len(near[v])
        valences = table.GetValenceList(like if like in ELEMENTS else number)
        spare.append({valence - bound for valence in valences if valence >= bound})
    if all(spare) and all(near[v] or 0 in spare[v] for v in range(graph.n)):
        budget = [STEPS, ASSIGNMENTS]
        yield from _extended(graph.edges.tolist(), _walk(graph), spare, {}, budget)
        if min(budget) <= 0:
            yield None


def _extended(
    edges: list[list[int]], order: list[int], spare: list[set[int]], chosen: dict[int, int], budget: list[int]
) -> Iterator[list[int]]:
    """Every way to give the bonds of ``order`` that are not ``chosen`` their orders, atoms finished one by one."""
    if len(chosen) == len(order):
        budget[1] -= 1
        yield [1 + chosen[edge] for edge in range(len(edges))]
        return
    edge = order[len(chosen)]
    for more in range(3):
        budget[0] -= 1
        if min(budget) <= 0:
            return
        chosen[edge] = more
        if all(_possible(v, edges, spare[v], chosen) for v in edges[edge]):
            yield from _extended(edges, order, spare, chosen, budget)
        del chosen[edge]


def _possible(atom: int, edges: list[list[int]], spare: set[int], chosen: dict[int, int]) -> bool:
    """Whether the atom's bonds so far leave it a normal valence."""
    own = [edge for edge, pair in enumerate(edges) if atom in pair]
    used = sum(chosen.get(edge, 0) for edge in own)
    return used in spare if all(edge in chosen for edge in own) else used <= max(spare)


def _walk(graph: Graph) -> list[int]:
    """Edges in the order of a walk from atom to atom, so that atoms are finished early."""
    number, near = {tuple(edge): i for i, edge in enumerate(graph.edges.tolist())}, graph.neighbours
    order: dict[int, None] = {}
    seen: set[int] = set()
    stack = list(reversed(range(graph.n)))
    while stack:
        v = stack.pop()
        if v not in seen:
            seen.add(v)
            order |= {number[min(u, v), max(u, v)]: None for u in near[v]}
            stack += [u for u in near[v] if u not in seen]
    return list(order)


def _written(molecule: Chem.RWMol) -> str:
    """Canonical SMILES; of a molecule that RDKit does not accept as well."""
    for bond in molecule.GetBonds():
        if bond.GetBondType() == Chem.BondType.AROMATIC:
            for atom in (bond, bond.GetBeginAtom(), bond.GetEndAtom()):
                atom.SetIsAromatic(True)
    if Chem.SanitizeMol(molecule, catchErrors=True) == Chem.SanitizeFlags.SANITIZE_NONE:
        for atom in molecule.GetAtoms():
            atom.SetNoImplicit(False)
    return Chem.MolToSmiles(molecule)


def _molecule(graph: Graph, space: FeatureSpace, bonds: Sequence[Chem.BondType]) -> Chem.RWMol:
    """Atoms with their charges and hydrogens, and the given bonds; unchecked."""
    columns = [_column(graph, space, name) or [0] * graph.n for name in STATED]
    columns.append(_stated(graph, space, "formal_charge") or [0] * graph.n)
    molecule = Chem.RWMol()
    for number, hydrogens, charge in zip(*columns, strict=True):
        atom = Chem.Atom(int(number))
        atom.SetNoImplicit(True)
        atom.SetNumExplicitHs(int(hydrogens))
        atom.SetFormalCharge(int(charge))
        molecule.AddAtom(atom)
    for (u, v), bond in zip(graph.edges.tolist(), bonds, strict=True):
        molecule.AddBond(u, v, bond)
    return molecule


def _fitting(graph: Graph, space: FeatureSpace, orders: list[int]) -> str | None:
    """Canonical SMILES of a molecule that RDKit accepts and describes as the features do, or None."""
    molecule = _molecule(graph, space, [ORDERS[order - 1] for order in orders])
    if Chem.SanitizeMol(molecule, catchErrors=True) != Chem.SanitizeFlags.SANITIZE_NONE:
        return None
    atoms = [molecule.GetAtomWithIdx(v) for v in range(graph.n)]
    aromatic, hybrid = _stated(graph, space, "aromatic"), _stated(graph, space, "hybridization")
    if aromatic is not None and [int(a.GetIsAromatic()) for a in atoms] != [int(x) for x in aromatic]:
        return None
    listed = space.features[space.index("hybridization")].values if hybrid is not None else ()
    for atom, stated in zip(atoms, hybrid or (), strict=False):
        name = str(atom.GetHybridization())
        if name != stated and (stated is not None or name in listed):
            return None
    for atom in atoms:
        atom.SetNoImplicit(False)
    return Chem.MolToSmiles(molecule)
