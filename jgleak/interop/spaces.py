"""``--features``: the public feature space of an observation that was saved without one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jgleak.features import FeatureSpace

MOLECULES, BONDED = "molecules", "molecules+bonds"

NUMBERS = "numbers"
"""After the name of a library's atom features: the model takes the integers themselves."""


LIBRARIES = ("pyg", "ogb")
"""Libraries whose atom features have a name."""

BONDS = "+bonds"
"""After that name: with the classes of usual bonds."""


NAMES = (
    *(MOLECULES, BONDED, *LIBRARIES),
    *(library + rest for library in LIBRARIES for rest in (BONDS, f":{NUMBERS}", f"{BONDS}:{NUMBERS}")),
)
"""The names that need no data set."""


def names_schema(text: str) -> bool:
    """True where a text of ``feature_space`` is the path of a schema file, not a name."""
    word, _, name = text.partition(":")
    libraries = (*LIBRARIES, *(library + BONDS for library in LIBRARIES))
    return word not in (MOLECULES, BONDED) and not (word in libraries and name in ("", NUMBERS))


def feature_space(text: str) -> FeatureSpace:
    """The space that a text names.

    ``molecules``: GRAIN's atom features, raw. ``molecules:tox21``: the same, normalised with the statistics of that
    data set, which are public. ``molecules+bonds``, and with a data set: the same with four bond types as edge classes.
    ``pyg``, ``ogb``: the atom features of PyTorch Geometric's ``from_smiles`` and of OGB, looked up in embeddings;
    ``pyg:numbers``, ``ogb:numbers``: the integers themselves. ``pyg+bonds``, ``ogb+bonds``: with the classes of
    ``jgleak.features.ogb_bonds``. Anything else: a schema file (``jgleak.interop.read_schema``).

    Raises:
      ValueError: a data set without atoms, or a file that does not describe features.
    """
    from jgleak.datasets import MOLECULE_SPACE, load, with_bonds
    from jgleak.features import ogb_atoms, ogb_bonds, pyg_atoms, pyg_bonds
    from jgleak.interop.schema import read_schema

    if names_schema(text):
        return read_schema(text)
    word, _, name = text.partition(":")
    atoms: Mapping[str, Callable[..., FeatureSpace]] = dict(zip(LIBRARIES, (pyg_atoms, ogb_atoms), strict=True))
    bonds: Mapping[str, Callable[[], Mapping[str, Any]]] = dict(zip(LIBRARIES, (pyg_bonds, ogb_bonds), strict=True))
    if (library := word.removesuffix(BONDS)) in atoms:
        space = atoms[library](numbers=bool(name))
        return dataclasses.replace(space, edge_classes=tuple(bonds[library]())) if word.endswith(BONDS) else space
    if not name:
        return with_bonds(MOLECULE_SPACE) if word == BONDED else MOLECULE_SPACE
    space = load(name, bonds=word == BONDED).space
    if space.features != MOLECULE_SPACE.features:
        raise ValueError(f"features: the nodes of {name!r} are not atoms; give molecules:tox21 or a schema file")
    return space
