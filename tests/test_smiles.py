"""Bond orders from hydrogens and valences: every embedded molecule comes back as itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from rdkit import Chem

from jgleak import smiles as module
from jgleak.datasets import MOLECULE_SPACE, load, molecule_graph, with_bonds
from jgleak.features import FeatureSpace, onehot
from jgleak.graph import Graph
from jgleak.smiles import smiles


def canonical(text: str) -> str:
    molecule = Chem.MolFromSmiles(text)
    Chem.RemoveStereochemistry(molecule)
    return Chem.MolToSmiles(molecule)


def test_every_embedded_molecule_is_the_only_one_with_its_atoms() -> None:
    data = load("embedded")
    for graph in data.graphs:
        found = smiles(graph, data.space)
        assert found is not None and found.inferred and found.complete
        assert found.texts == (canonical(graph.name.split(": ")[-1]),)


def test_the_order_of_atoms_does_not_matter() -> None:
    graph = molecule_graph("O=C(O)c1ccncc1C#N")
    found = smiles(graph.permute(np.random.default_rng(0).permutation(graph.n)), MOLECULE_SPACE)
    assert found is not None and found.texts == (canonical(graph.name),)


def test_charges_and_higher_valences() -> None:
    for text in ("C[N+](=O)[O-]", "CS(=O)(=O)N", "CP(=O)(O)O", "[NH4+]", "C", "CCl", "C[N+](C)(C)C", "[O-]Cl"):
        found = smiles(molecule_graph(text), MOLECULE_SPACE)
        assert found is not None and found.inferred and canonical(text) in found.texts, text


def test_bond_shift_isomers_are_both_named() -> None:
    """Two 1,2-dimethylcyclooctatetraenes differ by where the double bonds are, and by nothing that atoms state."""
    texts = canonical("CC1=C(C)C=CC=CC=C1"), canonical("CC1=CC=CC=CC=C1C")
    for text in texts:
        found = smiles(molecule_graph(text), MOLECULE_SPACE)
        assert found is not None and found.texts == tuple(sorted(texts)) and "one of 2" in found.note


def test_impossible_atoms_are_drawn_with_single_bonds() -> None:
    graph = molecule_graph("CCO")
    x = graph.x.copy()
    x[0, MOLECULE_SPACE.index("hydrogens")] = 7
    found = smiles(dataclasses.replace(graph, x=x), MOLECULE_SPACE)
    assert found is not None and not found.inferred and found.texts == ("[CH7]CO",)
    assert "all bonds drawn single" in found.note


def test_a_budget_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ASSIGNMENTS", 1)
    found = smiles(molecule_graph("c1ccc2ccccc2c1"), MOLECULE_SPACE)
    assert found is not None and not found.complete and found.texts == ("c1ccc2ccccc2c1",)
    assert "cut short" in found.note


def test_other_nodes_are_no_atoms() -> None:
    graph = Graph(np.zeros((2, 1), int), np.array([[0, 1]]))
    assert smiles(graph, FeatureSpace((onehot("colour", ("red", "green")),))) is None
    assert smiles(graph, FeatureSpace((onehot("atomic_number", (6, 7)),))) is None


def test_edge_classes_that_are_no_bond_types_are_said_not_to_be_looked_at() -> None:
    ethene = molecule_graph("C=C", bonds=True)
    named = dataclasses.replace(with_bonds(MOLECULE_SPACE), edge_classes=("one", "two", "three", "ring"))
    found = smiles(ethene, named)
    assert found is not None and found.unread and "not named as RDKit's bond types" in found.note
