"""Bond attributes of other libraries: three integers, each a place in a list of values (``jgleak.features.atoms``).

The lists are those of ``torch_geometric.utils.from_smiles`` (PyTorch Geometric 2.8) and ``ogb.utils.features`` (OGB
1.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    """Those of PyTorch Geometric's ``from_smiles``."""
    return _bonds(PYG)


def _bonds(lists: Lists) -> dict[str, tuple[int, int, int]]:
    return {
        _name(*bond): (lists["type"].index(bond[0]), lists["stereo"].index(bond[1]), int(bond[2])) for bond in USUAL
    }


def _name(kind: str, stereo: str, conjugated: bool) -> str:
    shape = stereo.removeprefix("STEREO").removeprefix("NONE")
    said = kind, shape, "conjugated" * (conjugated and kind != "AROMATIC")
    return " ".join(word for word in said if word)
