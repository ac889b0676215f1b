"""Atom features of other libraries by name: their lists, what census and SMILES make of them, and what is not read."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import some_params
from rdkit import Chem

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.registry import get_attack
from jgleak.audit.outcome import outcome
from jgleak.features import FeatureSpace, ogb_atoms, onehot, pyg_atoms
from jgleak.federated import Knowledge, Observation, fedsgd, load, save
from jgleak.gnn import standard
from jgleak.interop.spaces import feature_space
from jgleak.smiles import smiles
from tests.library_atoms import described


def test_the_columns_are_those_of_the_libraries() -> None:
    """Table sizes as documented, and a chiral carbon as OGB describes it: [5, 2, 4, 5, 1, 0, 2, 0, 0]."""
    assert [len(f.values) for f in ogb_atoms().features] == [119, 5, 12, 12, 10, 6, 6, 2, 2]
    assert described("Cl[C@H](/C=C/C)Br", ogb_atoms()).x[1].tolist() == [5, 2, 4, 5, 1, 0, 2, 0, 0]
    assert [len(f.values) for f in pyg_atoms().features] == [119, 9, 11, 12, 9, 5, 8, 2, 2]
    assert described("Cl[C@H](/C=C/C)Br", pyg_atoms()).x[1].tolist() == [6, 2, 4, 5, 1, 0, 4, 0, 0]
    for space in (ogb_atoms(numbers=True), pyg_atoms(numbers=True)):
        assert space.width == 9 and space.degree is None
        np.testing.assert_array_equal(space.encode(np.full((1, 9), 1))[0], np.ones(9))


def test_pytorch_geometric_has_the_same_lists() -> None:
    library = pytest.importorskip("torch_geometric.utils.smiles")
    assert [list(map(str, values)) for values in library.x_map.values()] == [
        [str(bool(value)) if f.name in ("aromatic", "in_ring") else str(value) for value in f.values]
        for f in pyg_atoms().features
    ]


@pytest.mark.parametrize("name", ["pyg", "ogb"])
def test_one_word_names_them(name: str) -> None:
    assert feature_space(name).width == {"pyg": 177, "ogb": 174}[name]
    assert feature_space(f"{name}:numbers").width == 9
    with pytest.raises(ValueError, match="no such file"):
        feature_space(f"{name}:number")


@pytest.mark.slow
def test_a_molecule_of_pytorch_geometric_comes_back_with_its_smiles() -> None:
    space, text = pyg_atoms(), "CC(=O)Nc1ccc(O)cc1"
    graph, model = described(text, space), standard(pyg_atoms().width)
    seen = fedsgd(model, some_params(model), [graph], space, loss="bce")
    found = get_attack("census")(seen, Knowledge(space), key=jax.random.key(1), budget=Budget(time_limit=60))
    assert found.best is not None and found.best.isomorphic(graph)
    written = smiles(found.best, space)
    assert written is not None and written.texts == (text,) and not written.unread_columns


@pytest.mark.parametrize("text", ["CC(=O)[O-]", "C[N+](C)(C)C", "[SiH4]", "OS(=O)(=O)O", "[H][H]", "[Na+]"])
@pytest.mark.parametrize("space", [pyg_atoms(), ogb_atoms()], ids=["pyg", "ogb"])
def test_smiles_of_described_molecules(text: str, space: FeatureSpace) -> None:
    written = smiles(described(text, space), space)
    assert written is not None and Chem.CanonSmiles(text) in written.texts and written.inferred


def test_a_charge_that_is_none_of_those_listed_has_no_smiles() -> None:
    """OGB's last category may be any charge; taken for 0, an ion would be shown as another molecule."""
    space = ogb_atoms()
    graph = described("CC", space)
    place = space.index("formal_charge")
    x = graph.x.copy()
    x[0, place] = list(space.features[place].values).index("misc")
    assert smiles(graph, space) is not None and smiles(dataclasses.replace(graph, x=x), space) is None


def test_columns_of_other_codes_are_named_and_not_believed() -> None:
    """The molecule comes from the columns that are read; codes that mean something else exclude nothing."""
    space = pyg_atoms()
    graph = described("CC(=O)[O-]", space)
    places = {name: space.index(name) for name in ("hybridization", "aromatic")}
    features = list(space.features)
    features[places["hybridization"]] = onehot("hybridization", range(8))
    features[places["aromatic"]] = onehot("aromatic", ("no", "yes"))
    coded = dataclasses.replace(space, features=tuple(features))
    written = smiles(graph, coded)
    assert written is not None and written.texts == ("CC(=O)[O-]",) and written.inferred
    assert set(written.unread_columns) == {"hybridization", "aromatic"}
    assert "'hybridization' (RDKit's names, as SP2)" in written.note
    wrong = graph.x.copy()
    wrong[:, places["hybridization"]] = list(space.features[places["hybridization"]].values).index("SP")
    believed = smiles(dataclasses.replace(graph, x=wrong), space)
    assert believed is not None and not believed.inferred, "our codes are believed, and fit no molecule"


def test_a_schema_that_states_degrees_is_suspected_where_nothing_is_found(tmp_path: Path) -> None:
    """And a space of one-hot columns beside a model that is shown integers is named in words that can be typed."""
    space = pyg_atoms(numbers=True)
    model = standard(space.width, hidden=8)
    params = some_params(model)
    seen = Observation(model, params, jax.tree.map(jnp.zeros_like, params), "bce")
    nothing = Reconstruction((), None, "no candidates")
    stating = dataclasses.replace(space, degree="total_degree_code")
    (hint,) = set(outcome(seen, nothing, Knowledge(stating)).hints) - set(
        outcome(seen, nothing, Knowledge(space)).hints
    )
    assert "'total_degree_code'" in hint and "counts hydrogens" in hint and "--features pyg or ogb" in hint
    save(tmp_path / "seen.safetensors", seen)
    with pytest.raises(ValueError, match="this space has 177 columns, the model takes 9.*pyg:numbers"):
        load(tmp_path / "seen.safetensors", pyg_atoms())


def test_integers_as_they_are_end_with_what_to_do_and_within_the_time() -> None:
    """Nine columns show nine dimensions: nearly all vectors pass, and no search begins."""
    space = pyg_atoms(numbers=True)
    graph, model = described("CC(O)C(=O)O", space), standard(space.width, "gin", hidden=16)
    seen = fedsgd(model, some_params(model), [graph], space, loss="bce")
    begun = time.monotonic()
    found = get_attack("census")(seen, Knowledge(space), key=jax.random.key(1), budget=Budget(time_limit=20))
    assert not found.graphs and found.stop == "no information" and time.monotonic() - begun < 22
    said = found.info["reason"]
    assert "feature vectors pass the checks of nodes, as 9 columns of numbers show 9 dimensions at most" in said
    assert "give a schema with only the values that occur" in said
