"""SMILES strings to graphs with the eight atom features of GRAIN (section 6.1)."""

from __future__ import annotations

import dataclasses

import numpy as np
from rdkit import Chem, rdBase

from jgleak.features import Feature, FeatureSpace, onehot
from jgleak.graph import Graph

Label = int | float | np.ndarray
"""A class, a number, or a row ``(1, T)`` of several tasks' labels."""

ELEMENTS = tuple(range(1, 101))
CHARGES = tuple(range(-4, 5))
DEGREES = tuple(range(9))
CHIRALITIES = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
HYDROGENS = tuple(range(9))
HYBRIDIZATIONS = ("UNSPECIFIED", "S", "SP", "SP2", "SP3", "SP2D", "SP3D", "SP3D2", "OTHER")

_TABLE = Chem.GetPeriodicTable()

MOLECULE_SPACE = FeatureSpace(
    features=(
        onehot("atomic_number", ELEMENTS),
        onehot("formal_charge", CHARGES),
        onehot("degree", DEGREES),
        onehot("chirality", CHIRALITIES),
        onehot("hydrogens", HYDROGENS),
        Feature(
            name="mass",
            values=tuple(round(_TABLE.GetAtomicWeight(z), 3) for z in ELEMENTS),
            determined_by="atomic_number",
            mapping=tuple(range(len(ELEMENTS))),
        ),
        onehot("aromatic", (0, 1)),
        onehot("hybridization", HYBRIDIZATIONS),
    ),
    degree="degree",
)
"""The schema of heavy atoms: fixed value lists, wider than MoleculeNet needs, without normalisation statistics.

``mass`` is the element's standard atomic weight in u (isotopes are not told apart), so it follows from
``atomic_number``; ``hydrogens`` counts all attached hydrogens; ``degree`` counts heavy neighbours.
"""

_LOWEST = np.array([ELEMENTS[0], CHARGES[0], 0, 0, 0, ELEMENTS[0], 0, 0])
_SIZES = np.array([len(f.values) for f in MOLECULE_SPACE.features])


BONDS = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.AROMATIC)
"""The edge classes of molecules whose bonds are told apart."""


def with_bonds(space: FeatureSpace) -> FeatureSpace:
    """The schema with the bond types as edge classes."""
    return dataclasses.replace(space, edge_classes=tuple(str(bond) for bond in BONDS))


class MoleculeError(ValueError):
    """A SMILES string that does not become a graph.

    Attributes:
      reason: the class of fault, the same text for every molecule of it (used as a key when counting).
    """

    def __init__(self, reason: str, smiles: str, detail: str = "") -> None:
        super().__init__(f"smiles: {reason}{detail}: {smiles!r}")
        self.reason = reason


def molecule_graph(smiles: str, y: Label | None = None, *, bonds: bool = False) -> Graph:
    """The graph of a molecule's heavy atoms, in RDKit's atom order, under ``MOLECULE_SPACE``; named by its SMILES.

    Args:
      smiles: the molecule.
      y: its label.
      bonds: give every edge its bond type as its class (``with_bonds``).

    Raises:
      MoleculeError: (a ``ValueError``) the string is unparsable, has several fragments or no heavy atom, or an atom or
        a bond lies outside the schema.
    """
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is None:
            raise MoleculeError("unparsable SMILES", smiles)
        rows = _rows(molecule)
        if any(row[0] == 1 for row in rows):
            molecule = Chem.RemoveAllHs(molecule)
            rows = _rows(molecule)
    if molecule.GetNumAtoms() == 0:
        raise MoleculeError("no heavy atom", smiles)
    if "." in smiles and len(Chem.GetMolFrags(molecule)) > 1:
        raise MoleculeError("several fragments", smiles)
    edges = np.argwhere(np.triu(Chem.GetAdjacencyMatrix(molecule)))
    classes = _bonds(molecule, edges, smiles) if bonds else None
    return Graph(_codes(rows, smiles), edges, y, smiles, classes)


def _bonds(molecule: Chem.Mol, edges: np.ndarray, smiles: str) -> np.ndarray:
    """The bond type of every edge."""
    found = [molecule.GetBondBetweenAtoms(u, v).GetBondType() for u, v in edges.tolist()]
    other = next((bond for bond in found if bond not in BONDS), None)
    if other is not None:
        raise MoleculeError("bond outside the schema", smiles, f" ({other})")
    return np.array([BONDS.index(bond) for bond in found], np.int64)


def _rows(molecule: Chem.Mol) -> list[tuple[int, ...]]:
    """The eight properties of each atom, as numbers."""
    rows = []
    for i in range(molecule.GetNumAtoms()):
        atom = molecule.GetAtomWithIdx(i)
        element = atom.GetAtomicNum()
        rows.append(
            (
                element,
                atom.GetFormalCharge(),
                atom.GetDegree(),
                int(atom.GetChiralTag()),
                atom.GetTotalNumHs(),
                element,
                int(atom.GetIsAromatic()),
                int(atom.GetHybridization()),
            )
        )
    return rows


def _codes(rows: list[tuple[int, ...]], smiles: str) -> np.ndarray:
    codes = np.array(rows, np.int32) - _LOWEST
    outside = (codes < 0) | (codes >= _SIZES)
    if outside.any():
        node, feature = np.argwhere(outside)[0]
        detail = f" (atom {node}, {MOLECULE_SPACE.features[feature].name} {rows[node][feature]})"
        raise MoleculeError("atom outside the schema", smiles, detail)
    return codes.astype(np.int32)
