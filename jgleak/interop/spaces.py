"""``--features``: the public feature space of an observation that was saved without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jgleak.features import FeatureSpace

MOLECULES, BONDED = "molecules", "molecules+bonds"

NUMBERS = "numbers"
"""Behind the name of a library's atom features: the model is shown the integers themselves."""


def feature_space(text: str) -> FeatureSpace:
    """The space that a text names.

    ``molecules``: GRAIN's atom features, raw. ``molecules:tox21``: the same, normalised with the statistics of that
    data set, which are public. ``molecules+bonds``, and with a data set: the same with four bond types as edge classes.
    ``pyg``, ``ogb``: the atom features of PyTorch Geometric's ``from_smiles`` and of OGB, looked up in embeddings;
    ``pyg:numbers``, ``ogb:numbers``: shown to the model as they are. Anything else: a schema file
    (``jgleak.interop.read_schema``).

    Raises:
      ValueError: a data set without atoms, or a file that does not describe features.
    """
    from jgleak.datasets import MOLECULE_SPACE, load, with_bonds
    from jgleak.features import ogb_atoms, pyg_atoms
    from jgleak.interop.schema import read_schema

    libraries: Mapping[str, Callable[..., FeatureSpace]] = {"pyg": pyg_atoms, "ogb": ogb_atoms}
    word, _, name = text.partition(":")
    if word in libraries and name in ("", NUMBERS):
        return libraries[word](numbers=bool(name))
    if word not in (MOLECULES, BONDED):
        return read_schema(text)
    if not name:
        return with_bonds(MOLECULE_SPACE) if word == BONDED else MOLECULE_SPACE
    space = load(name, bonds=word == BONDED).space
    if space.features != MOLECULE_SPACE.features:
        raise ValueError(f"features: the nodes of {name!r} are not atoms; give molecules:tox21 or a schema file")
    return space
