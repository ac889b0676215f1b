"""What enters a linear map and the derivative at what comes out give the kernel's gradient, for every model."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import READOUTS, SLOTS, flat
from stars import by_class

from jgleak.federated.factors import Outer, factored_gradients
from jgleak.federated.loss import graph_loss
from jgleak.gnn import CONVOLUTIONS, GNN, standard
from jgleak.gnn.leconv import LEConv
from jgleak.graph import DenseGraph

GRAPHS, WIDTH = 2, 5

ROUND = max(len(CONVOLUTIONS), len(READOUTS))
TURNS = [(list(CONVOLUTIONS)[i % len(CONVOLUTIONS)], list(READOUTS)[i % len(READOUTS)]) for i in range(ROUND)]
MODELS = {
    f"{conv}, {readout}": standard(WIDTH, conv, READOUTS[readout](3, "sigmoid"), hidden=4, bias=True)
    for conv, readout in TURNS
    if not READOUTS[readout](3, "relu").rates
} | {
    "three layers": standard(WIDTH, "sage", READOUTS["flattened"](3, "relu"), layers=3, hidden=4),
}
"""Every convolution and every readout of classes."""


def client(model: GNN) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    mask = np.arange(SLOTS) < np.array([[6], [4]])
    both = mask[:, :, None] & mask[:, None, :] & ~np.eye(SLOTS, dtype=bool)
    edges = rng.random((GRAPHS, SLOTS, SLOTS))
    nodes = np.where(mask[..., None], rng.normal(size=(GRAPHS, SLOTS, WIDTH)), 0.0)
    labels = rng.integers(2, size=(GRAPHS, SLOTS) if model.node_level else GRAPHS)
    edges = jnp.asarray(np.where(both, edges, 0.0), jnp.float32)
    edges = jnp.stack([by_class(one, model.edge_classes) for one in edges])
    return (jnp.asarray(nodes, jnp.float32), edges, jnp.asarray(mask), jnp.asarray(labels))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_factors_are_the_gradient(model: GNN, params_of: Any) -> None:
    params, graphs = params_of(model, SLOTS, WIDTH, seed=0), client(model)
    nodes, edges, mask, labels = graphs
    losses = 3 if model.node_level else 1
    shares = jnp.asarray(np.random.default_rng(1).random((losses, GRAPHS, SLOTS)), jnp.float32) * mask

    def plain(params: Any, share: Any) -> Any:
        one = [
            graph_loss(model, params, graph, labels[g], "ce", share[g] if model.node_level else None)
            for g, graph in enumerate(map(DenseGraph, nodes, edges, mask))
        ]
        return sum(one) if model.node_level else sum(one) / GRAPHS

    wanted = jax.jit(jax.vmap(jax.grad(plain), (None, 0)))(params, shares)
    found = jax.jit(lambda p: factored_gradients(model, p, DenseGraph(*graphs[:3]), labels, "ce", shares))(params)
    for number, layer in enumerate(model.layers):
        assert all(isinstance(tap.of(model.layer_of(found, number)), Outer) for tap in layer.taps)
    heads = jax.tree.leaves(model.readout_of(found), is_leaf=lambda x: isinstance(x, Outer))
    assert sum(isinstance(leaf, Outer) for leaf in heads) == model.readout.maps

    def dense(leaf: Any) -> Any:
        return np.einsum("rf,trd->tfd", *leaf) if isinstance(leaf, Outer) else leaf

    found = jax.tree.map(dense, found, is_leaf=lambda leaf: isinstance(leaf, Outer))
    # LEConv's logits are some 65 apart here, so that the rounding of their sums is 4e-6 of what a softmax makes of them
    near = 1e-5 if isinstance(model.layers[0].conv, LEConv) else 2e-6
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=near, atol=2e-6), found, wanted)


def test_looking_in_changes_nothing() -> None:
    """Without probes and without asking for the rows, the model is what it is; and forward mode works."""
    model = flat(in_features=WIDTH, hidden=4, readout_widths=(6, 3))
    params = model.initial(key=jax.random.key(0))
    assert set(params) == {"layers_0", "layers_1", "readout"}
    nodes, edges, mask, _ = (part[0] for part in client(model))
    out: Any = model.apply({"params": params}, nodes, edges, mask)
    seen, rows = model.apply({"params": params}, nodes, edges, mask, mutable=["intermediates"])
    np.testing.assert_array_equal(out, seen)
    np.testing.assert_array_equal(rows["intermediates"]["layers_0"]["conv"]["kernel"], nodes)
    slope = jax.jvp(lambda a: model.apply({"params": params}, nodes, a, mask), (edges,), (edges,))[1]
    later: Any = model.apply({"params": params}, nodes, 1.001 * edges, mask)
    np.testing.assert_allclose(slope, (later - out) / 1e-3, rtol=2e-2, atol=1e-4)
