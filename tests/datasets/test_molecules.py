"""Atom features against known chemistry, invariance under the way a SMILES is written, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from jgleak.datasets.molecules import MOLECULE_SPACE, MoleculeError, molecule_graph

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def _values(smiles: str, feature: str) -> list[object]:
    index = MOLECULE_SPACE.index(feature)
    return [MOLECULE_SPACE.features[index].values[k] for k in molecule_graph(smiles).x[:, index]]


def test_ethanol_by_hand() -> None:
    g = molecule_graph("CCO")
    assert g.name == "CCO" and g.edges.tolist() == [[0, 1], [1, 2]]
    assert _values("CCO", "atomic_number") == [6, 6, 8]
    assert _values("CCO", "degree") == [1, 2, 1]
    assert _values("CCO", "hydrogens") == [3, 2, 1]
    assert _values("CCO", "mass") == [12.011, 12.011, 15.999]
    assert _values("CCO", "hybridization") == ["SP3", "SP3", "SP3"]


def test_charge_aromaticity_and_chirality() -> None:
    assert _values("C[N+](C)(C)C", "formal_charge") == [0, 1, 0, 0, 0]
    assert _values("c1ccccc1C", "aromatic") == [1] * 6 + [0]
    assert _values("c1ccccc1C", "hybridization")[:6] == ["SP2"] * 6
    one, other = (_values(s, "chirality")[1] for s in ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"))
    assert {one, other} == {"CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW"}


def test_hydrogens_never_become_nodes() -> None:
    heavy, plain = molecule_graph("[2H]C([2H])([2H])O"), molecule_graph("CO")
    assert heavy.n == 2 and np.array_equal(heavy.x, plain.x)


def test_degree_feature_is_the_graph_degree_and_mass_follows_the_element() -> None:
    g = molecule_graph(ASPIRIN)
    degrees = MOLECULE_SPACE.degrees(g.x)
    assert degrees is not None and np.array_equal(degrees, g.degree)
    mass = MOLECULE_SPACE.features[MOLECULE_SPACE.index("mass")]
    element = g.x[:, MOLECULE_SPACE.index(mass.determined_by or "")]
    assert np.array_equal(np.array(mass.mapping)[element], g.x[:, MOLECULE_SPACE.index("mass")])


@given(st.integers(0, 2**31 - 1), st.sampled_from([ASPIRIN, "CN1CCC[C@H]1c1cccnc1", "CC1(C)C2CCC1(C)C(=O)C2"]))
def test_writing_order_does_not_matter(seed: int, smiles: str) -> None:
    molecule = Chem.MolFromSmiles(smiles)
    order = np.random.default_rng(seed).permutation(molecule.GetNumAtoms()).tolist()
    rewritten = Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False, isomericSmiles=False)
    flat = Chem.MolToSmiles(molecule, isomericSmiles=False)
    assert molecule_graph(rewritten).isomorphic(molecule_graph(flat))


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("C1CC", "unparsable SMILES"),
        ("CC(C)(C)(C)C", "unparsable SMILES"),
        ("CCO.[Na+]", "several fragments"),
        ("*CC", "atom outside the schema"),
        ("[C+5]", "atom outside the schema"),
        ("[H][H]", "no heavy atom"),
        ("", "no heavy atom"),
    ],
)
def test_refusals_name_their_reason(smiles: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MoleculeError, match=reason) as error:
        molecule_graph(smiles)
    assert error.value.reason == reason
    assert capfd.readouterr().err == ""


def test_the_log_of_rdkit_is_left_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MoleculeError):
        molecule_graph("C1CC")
    assert Chem.MolFromSmiles("C1CC") is None
    assert "unclosed ring" in capfd.readouterr().err


def test_a_dot_that_a_ring_bond_bridges_is_one_fragment() -> None:
    assert molecule_graph("C1CC.CC1").isomorphic(molecule_graph("CCCCC"))


def test_single_atom() -> None:
    g = molecule_graph("C", 1)
    assert g.n == 1 and g.edges.shape == (0, 2) and g.y == 1
