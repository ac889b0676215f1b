"""``--features``: the public feature space of an observation that was saved without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jgleak.features import FeatureSpace

MOLECULES, BONDED = "molecules", "molecules+bonds"


def feature_space(text: str) -> FeatureSpace:
    """``molecules``: GRAIN's atom features, raw. ``molecules:tox21``: the same, normalised with the statistics of that
    data set, which are public. ``molecules+bonds``, and with a data set: the same with four bond types as edge classes.
    Anything else: a schema file (``jgleak.interop.read_schema``).

    Raises:
      ValueError: a data set without atoms, or a file that does not describe features.
    """
    from jgleak.datasets import MOLECULE_SPACE, load, with_bonds
    from jgleak.interop import read_schema

    word, _, name = text.partition(":")
    if word not in (MOLECULES, BONDED):
        return read_schema(text)
    if not name:
        return with_bonds(MOLECULE_SPACE) if word == BONDED else MOLECULE_SPACE
    space = load(name, bonds=word == BONDED).space
    if space.features != MOLECULE_SPACE.features:
        raise ValueError(f"features: the nodes of {name!r} are not atoms; give molecules:tox21 or a schema file")
    return space
