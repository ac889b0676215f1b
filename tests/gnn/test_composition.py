"""Models as compositions: values that compare, layers with weights of their own, stacks of different parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.gnn import GNN, GATConv, GCNConv, GINConv, Layer, Pooled, SAGEConv, standard

NODES, SLOTS, WIDTH = 5, 7, 3

MIXED = GNN(
    in_features=WIDTH,
    layers=(
        Layer(SAGEConv(4, bias=True), "tanh"),
        Layer(GATConv(6, heads=2)),
        Layer(GINConv(5, epsilon=0.5), "gelu"),
        Layer(GCNConv(4, bias=True), "identity"),
    ),
    readout=Pooled(),
)


def test_equal_compositions_are_one_static_argument(params_of: Any, graph_of: Any) -> None:
    """Two models written alike compile once; one that differs in any part compiles anew."""

    def made(act: str = "relu") -> GNN:
        return GNN(in_features=WIDTH, layers=(Layer(GCNConv(4), act), Layer(GCNConv(4))), readout=Pooled())

    apply: Any = jax.jit(lambda model, params, *graph: model.apply({"params": params}, *graph), static_argnums=0)
    params, graph = params_of(made(), SLOTS, WIDTH, seed=0), graph_of(NODES, SLOTS, WIDTH, seed=0)
    one, other = apply(made(), params, *graph), apply(made(), params, *graph)
    np.testing.assert_array_equal(one, other)
    assert made() == made() and hash(made()) == hash(made()) and apply._cache_size() == 1
    apply(made("tanh"), params, *graph)
    assert made() != made("tanh") and apply._cache_size() == 2


def test_a_layer_that_stands_twice_has_weights_of_its_own_in_either_place() -> None:
    twice = Layer(GCNConv(WIDTH))
    model = GNN(in_features=WIDTH, layers=(twice, twice), readout=Pooled())
    params = model.initial(key=jax.random.key(0))
    first, second = (model.conv_of(params, layer)["kernel"] for layer in range(2))
    assert first.shape == second.shape and not np.array_equal(first, second)


def test_every_width_follows_from_the_parts(params_of: Any) -> None:
    params = params_of(MIXED, SLOTS, WIDTH, seed=0)
    inputs = [layer.taps[0].of(MIXED.layer_of(params, i)).shape for i, layer in enumerate(MIXED.layers)]
    assert inputs == [(3, 4), (4, 6), (6, 5), (5, 4)]
    assert params["readout"]["mlp"]["linears_0"]["kernel"].shape == (4, 2)


@pytest.mark.parametrize("seed", range(3))
def test_a_node_seen_from_itself_has_the_dense_states_in_a_mixed_stack(
    params_of: Any, graph_of: Any, seed: int
) -> None:
    params = params_of(MIXED, SLOTS, WIDTH, seed=seed)
    nodes, adjacency, mask = graph_of(NODES, SLOTS, WIDTH, seed=seed)
    states = MIXED.apply({"params": params}, nodes, adjacency, mask, method="states")
    degrees = adjacency.sum(axis=1)
    for number, layer in enumerate(MIXED.layers):
        weights = MIXED.layer_of(params, number)
        for node in range(NODES):
            star = np.array([node, *np.flatnonzero(adjacency[node])])
            rows, present = states[number][star][None], jnp.ones((1, len(star)), bool)
            along = jnp.zeros((1, len(star)), int)
            (got,) = layer.by(weights, "rooted", rows, degrees[star][None], present, along)
            np.testing.assert_allclose(got, states[number + 1][node], rtol=2e-5, atol=2e-5)


def test_the_standard_model_is_a_composition_like_any_other() -> None:
    assert standard(WIDTH, "gcn", Pooled(), layers=2, hidden=4, act="tanh") == GNN(
        in_features=WIDTH, layers=(Layer(GCNConv(4), "tanh"), Layer(GCNConv(4), "identity")), readout=Pooled()
    )
    gat = standard(WIDTH, GATConv(4, heads=2), Pooled(), layers=2)
    assert [layer.conv.concatenate for layer in gat.layers if isinstance(layer.conv, GATConv)] == [True, False]
    gat = standard(WIDTH, GATConv(4, heads=2, concatenate=False), Pooled(), layers=2)
    assert [layer.conv.concatenate for layer in gat.layers if isinstance(layer.conv, GATConv)] == [False, False]
