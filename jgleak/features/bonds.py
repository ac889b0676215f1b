"""Bond attributes of other libraries: three integers, each a place in a list of values (``jgleak.features.atoms``).

The lists are those of ``torch_geometric.utils.from_smiles`` (PyTorch Geometric 2.8) and ``ogb.utils.features`` (OGB
1.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from jaxtyping import Int

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


def other_bonds(names: Sequence[str], rows: Sequence[Sequence[float]]) -> bool:
    """Whether edge classes that have names of ``ogb_bonds`` and ``pyg_bonds`` are shown to a model as other bonds, for
    example in another order: the rows hold a library's attributes of usual bonds, one-hot and side by side, but neither
    library's of ``names``. Classes of other names, and other attributes, cannot be compared.
    """
    shown = np.asarray(rows, np.float64)
    if not set(names) <= set(ogb_bonds()) or not np.isin(shown, (0.0, 1.0)).all() or np.any(shown.sum(axis=1) != 3):
        return False
    places, libraries = np.nonzero(shown)[1].reshape(-1, 3), (ogb_bonds(), pyg_bonds())
    for bonds in libraries:
        # The first table begins at the first column, the others anywhere behind it.
        begins = places - np.array([bonds[name] for name in names])
        if not np.ptp(begins, axis=0).any() and begins[0, 0] == 0:
            return False
    return any(_usual(places, bonds) for bonds in libraries)


def _usual(places: Int[np.ndarray, "K 3"], bonds: Mapping[str, tuple[int, int, int]]) -> bool:
    """Whether all are attributes of usual bonds, wherever the second and the third table begin."""
    known = set(bonds.values())
    begins = product(*(range(int(column.min()) + 1) for column in places.T[1:]))
    return any({tuple(row) for row in (places - (0, *begin)).tolist()} <= known for begin in begins)


def _bonds(lists: Lists) -> dict[str, tuple[int, int, int]]:
    return {
        _name(*bond): (lists["type"].index(bond[0]), lists["stereo"].index(bond[1]), int(bond[2])) for bond in USUAL
    }


def _name(kind: str, stereo: str, conjugated: bool) -> str:
    shape = stereo.removeprefix("STEREO").removeprefix("NONE")
    said = kind, shape, "conjugated" * (conjugated and kind != "AROMATIC")
    return " ".join(word for word in said if word)
