"""Atom features of other libraries by name: nine columns of integers, each a place in a list of values.

The lists are those of the libraries' documentation: ``torch_geometric.utils.from_smiles`` (PyTorch Geometric 2.8), and
``ogb.utils.features`` (OGB 1.3), whose last place is ``misc`` in most columns. Their degree counts hydrogens, and is no
number of neighbours in the graph: it is called ``total_degree`` here, and the space states no degree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jgleak.features.feature import number, onehot
from jgleak.features.space import FeatureSpace

MISC = "misc"
"""OGB's value for all that its lists lack."""

CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
SHAPES = ("CHI_TETRAHEDRAL", "CHI_ALLENE", "CHI_SQUAREPLANAR", "CHI_TRIGONALBIPYRAMIDAL", "CHI_OCTAHEDRAL")
HYBRIDS = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
FLAG = (0, 1)

PYG: Mapping[str, Sequence[str | int]] = {
    "atomic_number": range(119),
    "chirality": (*CHIRALITY, *SHAPES),
    "total_degree": range(11),
    "formal_charge": range(-5, 7),
    "hydrogens": range(9),
    "radical_electrons": range(5),
    "hybridization": ("UNSPECIFIED", "S", *HYBRIDS, "OTHER"),
    "aromatic": FLAG,
    "in_ring": FLAG,
}
"""The columns of ``from_smiles`` in their order."""

OGB: Mapping[str, Sequence[str | int]] = {
    "atomic_number": (*range(1, 119), MISC),
    "chirality": (*CHIRALITY, MISC),
    "total_degree": (*range(11), MISC),
    "formal_charge": (*range(-5, 6), MISC),
    "hydrogens": (*range(9), MISC),
    "radical_electrons": (*range(5), MISC),
    "hybridization": (*HYBRIDS, MISC),
    "aromatic": FLAG,
    "in_ring": FLAG,
}
"""The columns of OGB's molecules in their order."""


def pyg_atoms(*, numbers: bool = False) -> FeatureSpace:
    """The atom features of PyTorch Geometric's ``from_smiles``.

    Args:
      numbers: the model is shown the integers themselves (``x.float()``); otherwise it looks them up in embeddings, one
        table a column, which is a linear map of one-hot columns.
    """
    return _space(PYG, numbers)


def ogb_atoms(*, numbers: bool = False) -> FeatureSpace:
    """The atom features of OGB's molecules, as its ``AtomEncoder`` looks them up; ``numbers`` as in ``pyg_atoms``."""
    return _space(OGB, numbers)


def _space(columns: Mapping[str, Sequence[str | int]], numbers: bool) -> FeatureSpace:
    if numbers:  # a column holds the place, not the value: another name, since others read values by these
        return FeatureSpace(tuple(number(f"{name}_code", range(len(values))) for name, values in columns.items()))
    return FeatureSpace(tuple(onehot(name, tuple(values)) for name, values in columns.items()))
