"""Edge attributes that a model looks up in embeddings, as OGB's models do, beside arithmetic of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
import pytest
from rdkit import Chem

from jgleak import Budget, Graph, Knowledge, facts, get_attack
from jgleak.features import FeatureSpace, ogb_bonds, pyg_bonds
from jgleak.features.atoms import OGB
from jgleak.features.bonds import other_bonds
from jgleak.interop import GINE, Embeddings, Example, Linear, from_arrays
from jgleak.interop.layers import Step
from jgleak.interop.spaces import feature_space
from jgleak.smiles import smiles
from tests.interop.conftest import UNCOMPARED
from tests.library_atoms import described

SPACE = feature_space("ogb+bonds")
ATOMS = [f"atoms.atom_embedding_list.{i}" for i in range(len(OGB))]
SIZES = [len(values) for values in OGB.values()]
BONDS = {i: [f"convs.{i}.bond_encoder.bond_embedding_list.{k}" for k in range(3)] for i in (0, 1)}
WIDTH = 60


def layers(**beside: Any) -> list[Step]:
    inside = [Linear("mlp.0"), "relu", Linear("mlp.2")]
    classes = tuple(ogb_bonds().values())
    convs = [
        GINE(f"convs.{i}", inside=inside, **{"tables": tuple(BONDS[i]), "classes": classes} | beside) for i in (0, 1)
    ]
    return [Embeddings("atoms", tables=tuple(ATOMS)), convs[0], "relu", convs[1], "relu", "mean", Linear("out")]


def initial() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {f"{name}.weight": (size, WIDTH) for name, size in zip(ATOMS, SIZES, strict=True)}
    for i, names in BONDS.items():
        shapes |= {f"{name}.weight": (size, WIDTH) for name, size in zip(names, (5, 6, 2), strict=True)}
        for part in ("mlp.0", "mlp.2"):
            shapes |= {f"convs.{i}.{part}.weight": (WIDTH, WIDTH), f"convs.{i}.{part}.bias": (WIDTH,)}
    shapes |= {"out.weight": (1, WIDTH), "out.bias": (1,)}
    return {name: (rng.normal(size=s) / np.sqrt(s[-1])).astype(np.float32) for name, s in shapes.items()}


def arrays(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A molecule as OGB gives it: integers of atoms, edges both ways, integers of bonds."""
    whole, molecule = described(text, SPACE), Chem.MolFromSmiles(text)
    types, stereo = ["SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"], ["STEREONONE", "STEREOZ", "STEREOE"]
    bonds = [
        (types.index(str(bond.GetBondType())), stereo.index(str(bond.GetStereo())), int(bond.GetIsConjugated()))
        for bond in map(molecule.GetBondBetweenAtoms, *whole.edges.T.tolist())
    ]
    return np.asarray(whole.x), np.concatenate([whole.edges, whole.edges[:, ::-1]]).T, np.array(bonds + bonds)


def logit(state: Any, x: Any, edges: Any, bonds: Any) -> Any:
    """OGB's GIN with a mean pool, by edge lists."""
    rows: Any = sum(state[f"{name}.weight"][x[:, i]] for i, name in enumerate(ATOMS))
    for i, names in BONDS.items():
        beside = sum(state[f"{name}.weight"][bonds[:, k]] for k, name in enumerate(names))
        mixed = rows.at[edges[1]].add(jax.nn.relu(rows[edges[0]] + beside))
        inner = jax.nn.relu(mixed @ state[f"convs.{i}.mlp.0.weight"].T + state[f"convs.{i}.mlp.0.bias"])
        rows = jax.nn.relu(inner @ state[f"convs.{i}.mlp.2.weight"].T + state[f"convs.{i}.mlp.2.bias"])
    return rows.mean(axis=0) @ state["out.weight"].T + state["out.bias"]


def observed(text: str, steps: list[Step]) -> tuple[Any, Graph]:
    state, (x, edges, bonds) = initial(), arrays(text)

    @jax.jit
    def sent(state: dict[str, Any]) -> tuple[Any, Any]:
        def loss(state: dict[str, Any]) -> tuple[Any, Any]:  # of label 1
            output = logit(state, x, edges, bonds)
            return jax.nn.softplus(-output[0]), output

        return jax.grad(loss, has_aux=True)(state)

    slopes, output = jax.tree.map(np.asarray, sent(state))
    seen = from_arrays(state, slopes, steps, loss="bce", example=Example(x, edges, output[None], edge_rows=bonds))
    classes = list(ogb_bonds().values())
    half = edges.shape[1] // 2
    kinds = np.array([classes.index(tuple(row)) for row in bonds[:half].tolist()])
    return seen, Graph(x, edges[:, :half].T, 1, edge_class=kinds)


@pytest.mark.long
def test_a_molecule_of_a_model_that_embeds_bonds_comes_back_with_them() -> None:
    """Single, double and triple bonds, conjugated or not. The example compares the output, so that a wrong reading of
    the tables would be refused."""
    text = "C/C=C/C#N"
    seen, truth = observed(text, layers())
    assert seen.model.edge_classes == len(ogb_bonds()) and "edge_bias" not in seen.params["layers_0"]["conv"]
    found = get_attack("census")(seen, Knowledge(SPACE, max_degree=4), key=jax.random.key(0), budget=Budget(60))
    assert found.best is not None and found.best.isomorphic(truth)
    written = smiles(found.best, SPACE)
    assert written is not None and written.texts == (Chem.CanonSmiles(text.replace("/", "")),)


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"classes": ()}, r"'convs.0' looks 3 attributes of an edge up, in tables of \[5, 6, 2\] rows; say which"),
        ({"classes": ((0, 0, 0), (1, 0, 2))}, r"the edge class \(1, 0, 2\), and tables of \[5, 6, 2\]"),
        ({"classes": ((0, 0, 0), (0, 0, 0))}, "an edge class twice"),
        ({"classes": ((0, 0, 0), (0, 0, 1))}, r"an edge has the attributes \(1, 0, 1\), which are none of the classes"),
        (
            {"tables": ("convs.0.bond_encoder.missing",)},
            "a table of edges of 'convs.0' needs 'convs.0.bond_encoder.missing.weight', .*; "
            "there is convs.0.bond_encoder.bond_embedding_list.0.weight, .*list.2.weight$",
        ),
    ],
)
def test_classes_that_do_not_fit_are_named(beside: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        observed("CC(=O)C=C", layers(**beside))


@pytest.mark.parametrize("classes", [(0, 1, 2), ogb_bonds()])
def test_classes_that_are_no_integers_of_each_are_one_clear_error(classes: Any) -> None:
    steps = layers()
    object.__setattr__(steps[1], "classes", classes)  # past the type check that tests have and users do not
    with pytest.raises(ValueError, match="'convs.0' has edge classes .*; give the integers of each"):
        observed("CC(=O)C=C", steps)


def test_a_name_alone_is_no_list_of_tables() -> None:
    steps = layers()
    object.__setattr__(steps[1], "tables", "convs.0.bond_encoder")
    with pytest.raises(ValueError, match="'convs.0' has the tables 'convs.0.bond_encoder'; give their names as a list"):
        observed("CC(=O)C=C", steps)


def test_tables_may_be_named_as_their_arrays() -> None:
    """A state dict lists ``NAME.weight``; a layer is ``NAME``."""
    named = tuple(f"{name}.weight" for name in BONDS[0])
    seen, same = (
        observed("CC(=O)C=C", [layers()[0], conv, *layers()[2:]])[0] for conv in (layers(tables=named)[1], layers()[1])
    )
    assert jax.tree.all(jax.tree.map(np.array_equal, seen.params, same.params))
    steps = [*layers()[:-1], Linear("out.weight")]
    with pytest.raises(
        ValueError, match=r"'out.weight' is an array; name the layer that it belongs to: Linear\('out'\)"
    ):
        observed("CC(=O)C=C", steps)


@UNCOMPARED
def test_a_normalisation_that_was_left_out_inside_is_put_there() -> None:
    state = initial() | {f"convs.0.mlp.1.{part}": np.ones(WIDTH, np.float32) for part in ("weight", "bias")}
    with pytest.raises(ValueError, match=r"a normalisation inside 'convs.0': put BatchNorm\('mlp.1'\) or LayerNorm"):
        from_arrays(state, state, layers(), loss="bce")


def test_all_layers_have_the_same_classes() -> None:
    """In another order a class would be another bond in another layer, and without an example nothing compares."""
    steps = layers()
    assert isinstance(last := steps[3], GINE)
    steps[3] = dataclasses.replace(last, classes=last.classes[::-1])
    with pytest.raises(ValueError, match="'convs.1' has other edge classes than 'convs.0'"):
        observed("CC(=O)C=C", steps)


def test_classes_other_bonds_than_the_space_are_refused() -> None:
    """They would come back as other bonds, with a matching gradient and a certificate."""
    turned = tuple(ogb_bonds().values())[::-1]
    seen, _ = observed("CC(=O)C=C", layers(classes=turned))
    with pytest.raises(ValueError, match="other bonds than the feature space has, or in another order: SINGLE, SINGLE"):
        facts(seen, SPACE)
    own = dataclasses.replace(SPACE, edge_classes=tuple(f"class {i}" for i in range(len(turned))))
    facts(seen, own)  # of names of one's own nothing is known


@pytest.mark.parametrize("bonds", [ogb_bonds(), pyg_bonds()])
def test_what_is_other_bonds(bonds: dict[str, tuple[int, int, int]]) -> None:
    """As a model has it: one-hot attributes side by side, in tables of any size."""

    def rows(values: Iterable[tuple[int, int, int]]) -> list[list[float]]:
        return [np.concatenate([np.eye(13)[a], np.eye(7)[b], np.eye(2)[c]]).tolist() for a, b, c in values]

    names = list(bonds)
    assert not other_bonds(names, rows(bonds.values()))
    assert not other_bonds(names[2:5], rows(list(bonds.values())[2:5]))
    assert other_bonds(names[::-1], rows(bonds.values()))
    swapped = [names[1], names[0], *names[2:]]
    assert other_bonds(swapped, rows(bonds.values()))
    assert other_bonds(["SINGLE", "DOUBLE"], rows([bonds["SINGLE"], bonds["AROMATIC"]]))
    assert other_bonds(["SINGLE", "DOUBLE", "TRIPLE"], rows([bonds["DOUBLE"], bonds["SINGLE"], bonds["AROMATIC"]]))
    assert not other_bonds(list("abcdefghi"), rows(bonds.values()))  # other names: nothing to compare
    assert not other_bonds(names, rows([(a, b, 1 - c) for a, b, c in bonds.values()]))  # neither library's
    assert not other_bonds(names, np.eye(len(names)).tolist())  # one-hot rows of the classes
    for strange in ([(1.0, 2.0), (2.0, 1.0)], [(1.0, 1.0, 1.0, 0.0), (1.0, 2.0, 0.0, 0.0)], [(3.0,), (3.0,)]):
        assert not other_bonds(names[:2], strange)


def test_the_libraries_name_the_same_bonds() -> None:
    """OGB counts types from single bonds on, PyTorch Geometric from unspecified ones; aromatic is its thirteenth."""
    ogb, pyg = ogb_bonds(), pyg_bonds()
    assert ogb.keys() == pyg.keys() and ogb["SINGLE"] == (0, 0, 0) and pyg["SINGLE"] == (1, 0, 0)
    assert ogb["DOUBLE E conjugated"] == (1, 2, 1) and pyg["DOUBLE E conjugated"] == (2, 3, 1)
    assert ogb["AROMATIC"] == (3, 0, 1) and pyg["AROMATIC"] == (12, 0, 1)
    assert isinstance(SPACE, FeatureSpace) and SPACE.edge_classes == tuple(ogb)
