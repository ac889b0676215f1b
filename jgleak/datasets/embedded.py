"""A small set of well-known molecules that comes with the package: no download, for examples and tests."""

from __future__ import annotations

import csv
import dataclasses
from importlib import resources

from jgleak.datasets.dataset import Dataset
from jgleak.datasets.fit import fit
from jgleak.datasets.moleculenet import molecules
from jgleak.datasets.molecules import MOLECULE_SPACE, with_bonds


def embedded(*, bonds: bool = False) -> Dataset:
    """Well-known small molecules and drugs of 5 to 35 heavy atoms; the label says whether a ring is aromatic.

    Graphs are named "name: SMILES", in the order of ``embedded.csv``. With ``bonds`` edges have their bond types as
    classes.
    """
    text = resources.files("jgleak.datasets").joinpath("embedded.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    graphs, tally = molecules(((row["smiles"], int(row["aromatic"])) for row in rows), bonds=bonds)
    names = {row["smiles"]: row["name"] for row in rows}
    named = [dataclasses.replace(g, name=f"{names[g.name]}: {g.name}") for g in graphs]
    space = fit(with_bonds(MOLECULE_SPACE) if bonds else MOLECULE_SPACE, graphs)
    return Dataset("embedded", named, space, "binary", 2, tally.report(len(rows), len(graphs)))
