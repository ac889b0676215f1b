"""Files that jgleak wrote before models were compositions: every convolution under every readout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak import Graph, Observation, fedsgd, load, save
from jgleak.federated.observation import flatten
from jgleak.gnn import DotProduct
from jgleak.gnn.version_1 import model_of

FILES = sorted((Path(__file__).parent / "version_1").glob("*.safetensors"))

X = np.array([[0, 0.5], [1, -1.0], [2, 0.25], [1, 2.0], [0, -0.75]])
EDGES = np.array([(0, 1), (1, 2), (2, 3), (1, 3), (3, 4)])
"""The graph that every file's gradient is of; its label is 1, its nodes' labels are 0, 1, 1, 0, 1."""

EVERY = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def test_every_convolution_is_there_under_every_readout() -> None:
    assert len(FILES) == 4 * 5


@EVERY
def test_the_model_computes_what_it_did(file: Path) -> None:
    seen, space = load(file)
    nodes, adjacency = np.zeros((6, space.width), np.float32), np.zeros((6, 6), np.float32)
    graph = Graph(X, EDGES, 1)
    nodes[:5], adjacency[:5, :5] = space.encode(X), graph.adjacency
    got = seen.model.apply({"params": seen.params}, jnp.asarray(nodes), jnp.asarray(adjacency), jnp.arange(6) < 5)
    wanted = json.loads((file.parent / "outputs.json").read_text())[file.stem]
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-6, atol=1e-6)


@EVERY
def test_a_client_sends_what_it_sent(file: Path) -> None:
    seen, space = load(file)
    label: Any = np.array([0, 1, 1, 0, 1]) if seen.model.node_level else 1
    again = fedsgd(seen.model, seen.params, [Graph(X, EDGES, label)], space, loss="ce")
    assert_equal(seen, again, tolerance=1e-6)


@EVERY
def test_it_is_the_same_in_the_new_format(file: Path, tmp_path: Path) -> None:
    seen, space = load(file)
    save(tmp_path / "again", seen, space)
    again, same = load(tmp_path / "again")
    assert same.to_json() == space.to_json() and again.model == seen.model
    assert_equal(seen, again, tolerance=0.0)


def assert_equal(one: Observation, two: Observation, tolerance: float) -> None:
    for tree, other in ((one.params, two.params), (one.update, two.update)):
        leaves, others = flatten(tree), flatten(other)
        assert leaves.keys() == others.keys()
        scale = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(tree))
        for name, leaf in leaves.items():
            np.testing.assert_allclose(others[name], leaf, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layers": 0}, "between 1 and 1,000 layers, got 0"),
        ({"layers": 10**9}, "between 1 and 1,000 layers, got 1000000000"),
        ({"conv": "gcnn"}, "conv: unknown 'gcnn'; files of format 1 have gcn, gat, sage or gin"),
        ({"readout": "mlp"}, "readout: unknown 'mlp'; files of format 1 have node_mlp, pooled"),
        ({"widths": (3, 4, 5)}, "widths: expected one entry for each of 2 layers"),
        ({"heads": 2.5}, "model.heads: expected a whole number, got 2.5"),
        ({"hidden": 64.0}, "model.hidden: expected a whole number, got 64.0"),
        ({"pooling": "x"}, "model.pooling: unknown 'x'; files of format 1 have mean, sum, max"),
        ({"width": 3}, r"model: unknown fields \['width'\]"),
    ],
)
def test_what_no_model_had_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model_of({"in_features": 4, **fields})


def test_ratings_have_their_readout() -> None:
    assert model_of({"in_features": 4, "readout": "dot"}).readout == DotProduct()
