"""The embedded molecules are what their table says."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

from jgleak.datasets import embedded


def test_size_and_variety() -> None:
    dataset = embedded()
    assert len(dataset.graphs) >= 60 and not dataset.report.dropped
    sizes = [g.n for g in dataset.graphs]
    assert min(sizes) >= 5 and max(sizes) <= 35 and sum(n >= 26 for n in sizes) >= 10
    canonical = {Chem.CanonSmiles(g.name.split(": ")[1]) for g in dataset.graphs}
    assert len(canonical) == len(dataset.graphs)
    assert sorted({str(g.y) for g in dataset.graphs}) == ["0", "1"] and all(g.connected for g in dataset.graphs)


def test_label_says_aromatic() -> None:
    dataset = embedded()
    aromatic = dataset.space.index("aromatic")
    assert all(g.y == int(g.x[:, aromatic].any()) for g in dataset.graphs)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("caffeine", "C8H10N4O2"),
        ("aspirin", "C9H8O4"),
        ("cholesterol", "C27H46O"),
        ("sildenafil", "C22H30N6O4S"),
        ("methotrexate", "C20H22N8O5"),
        ("tetracycline", "C22H24N2O8"),
        ("simvastatin", "C25H38O5"),
        ("quinine", "C20H24N2O2"),
        ("penicillin G", "C16H18N2O4S"),
        ("morphine", "C17H19NO3"),
    ],
)
def test_formulas(name: str, formula: str) -> None:
    smiles = {g.name.split(": ")[0]: g.name.split(": ")[1] for g in embedded().graphs}[name]
    assert CalcMolFormula(Chem.MolFromSmiles(smiles)) == formula
