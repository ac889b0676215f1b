"""Molecules as other libraries describe their atoms."""

from __future__ import annotations

import numpy as np
from rdkit import Chem

from jgleak.features import FeatureSpace
from jgleak.graph import Graph


def described(text: str, space: FeatureSpace) -> Graph:
    """A molecule as both libraries describe it: places in the lists, the last one for what a list lacks."""
    mol = Chem.MolFromSmiles(text)
    rows = [
        (
            *(atom.GetAtomicNum(), str(atom.GetChiralTag()), atom.GetTotalDegree(), atom.GetFormalCharge()),
            *(atom.GetTotalNumHs(), atom.GetNumRadicalElectrons(), str(atom.GetHybridization())),
            *(int(atom.GetIsAromatic()), int(atom.IsInRing())),
        )
        for atom in mol.GetAtoms()
    ]
    lists = [list(feature.values) for feature in space.features]
    codes = [[lists[g].index(v) if v in lists[g] else len(lists[g]) - 1 for g, v in enumerate(row)] for row in rows]
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    return Graph(np.array(codes, np.int32), np.array(bonds, np.int64).reshape(-1, 2), 0, name=text)
