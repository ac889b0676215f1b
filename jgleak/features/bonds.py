"""Bond attributes of other libraries: three integers, each a place in a list of values (``jgleak.features.atoms``).

The lists are those of ``torch_geometric.utils.from_smiles`` (PyTorch Geometric 2.8) and ``ogb.utils.features`` (OGB
1.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

STEREO = ("STEREONONE", "STEREOZ", "STEREOE")

USUAL = (
    *(("SINGLE", STEREO[0], conjugated) for conjugated in (False, True)),
    *(("DOUBLE", stereo, conjugated) for stereo in STEREO for conjugated in (False, True)),
    *(("TRIPLE", STEREO[0], conjugated) for conjugated in (False, True)),
    ("AROMATIC", STEREO[0], True),
)
"""Bonds of organic molecules: type, stereochemistry, and whether it is conjugated."""

HALVES = ("ONEANDAHALF", "TWOANDAHALF", "THREEANDAHALF", "FOURANDAHALF", "FIVEANDAHALF")

Lists = Mapping[str, Sequence[str]]

OGB: Lists = {
    "type": ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "misc"),
    "stereo": (*STEREO, "STEREOCIS", "STEREOTRANS", "STEREOANY"),
}

PYG: Lists = {
    "type": ("UNSPECIFIED", "SINGLE", "DOUBLE", "TRIPLE", *("QUADRUPLE", "QUINTUPLE", "HEXTUPLE"), *HALVES, "AROMATIC"),
    "stereo": ("STEREONONE", "STEREOANY", "STEREOZ", "STEREOE"),
}
"""As far as ``USUAL`` needs them."""


def ogb_bonds() -> dict[str, tuple[int, int, int]]:
    """OGB's attributes of usual bonds by the name of the edge class, which begins with RDKit's bond type."""
    return _bonds(OGB)


def pyg_bonds() -> dict[str, tuple[int, int, int]]:
    """Attributes of usual bonds, as PyTorch Geometric's ``from_smiles`` gives them, by the name of the edge class."""
    return _bonds(PYG)


def in_another_order(names: Sequence[str], rows: Sequence[Sequence[float]]) -> bool:
    """Whether edge classes of these names, if they are those of ``ogb_bonds`` and ``pyg_bonds``, are shown to a model
    in another order: row ``i`` holds a library's attributes of a bond, one-hot and side by side, but not those of name
    ``i``. Classes of other names, and attributes that are neither library's, cannot be compared.
    """
    if not set(names) <= set(ogb_bonds()) or not all(sum(row) == 3 for row in rows):
        return False
    shown = np.array([np.flatnonzero(row) for row in rows])
    for bonds in (ogb_bonds(), pyg_bonds()):
        wanted = np.array([bonds[name] for name in names])
        # A table begins where the one before it ends, and how many rows it has is not known here.
        places = shown - shown.min(axis=0) + wanted.min(axis=0)
        if np.array_equal(places, wanted):
            return False
        if set(map(tuple, places.tolist())) == set(map(tuple, wanted.tolist())):
            return True
    return False


def _bonds(lists: Lists) -> dict[str, tuple[int, int, int]]:
    return {
        _name(*bond): (lists["type"].index(bond[0]), lists["stereo"].index(bond[1]), int(bond[2])) for bond in USUAL
    }


def _name(kind: str, stereo: str, conjugated: bool) -> str:
    shape = stereo.removeprefix("STEREO").removeprefix("NONE")
    said = kind, shape, "conjugated" * (conjugated and kind != "AROMATIC")
    return " ".join(word for word in said if word)
