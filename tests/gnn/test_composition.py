"""Models as compositions: values that compare, layers with weights of their own, stacks of different parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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


def seen_both_ways(params: Any, nodes: Any, adjacency: Any, mask: Any, around: Any) -> Any:
    """The dense states of ``MIXED``, and those of every node that is seen from itself, layer by layer."""
    states = MIXED.apply({"params": params}, nodes, adjacency, mask, method="states")
    degrees, along = adjacency.sum(axis=1)[around], jnp.zeros_like(around)
    rooted = [
        layer.by(MIXED.layer_of(params, i), "rooted", states[i][around], degrees, around >= 0, along)
        for i, layer in enumerate(MIXED.layers)
    ]
    return states[1:], rooted


def test_a_node_seen_from_itself_has_the_dense_states_in_a_mixed_stack(
    params_of: Any, graph_of: Any, quick_jit: Any
) -> None:
    both = quick_jit(seen_both_ways)
    for seed in range(3):
        nodes, adjacency, mask = graph_of(NODES, SLOTS, WIDTH, seed=seed)
        around = np.full((NODES, NODES + 1), -1)
        for v in range(NODES):
            star = [v, *np.flatnonzero(adjacency[v])]
            around[v, : len(star)] = star
        dense, rooted = both(params_of(MIXED, SLOTS, WIDTH, seed=seed), nodes, adjacency, mask, around)
        for got, wanted in zip(rooted, dense, strict=True):
            np.testing.assert_allclose(got, wanted[:NODES], rtol=2e-5, atol=2e-5)


def test_the_standard_model_is_a_composition_like_any_other() -> None:
    assert standard(WIDTH, "gcn", Pooled(), layers=2, hidden=4, act="tanh") == GNN(
        in_features=WIDTH, layers=(Layer(GCNConv(4), "tanh"), Layer(GCNConv(4), "identity")), readout=Pooled()
    )
    gat = standard(WIDTH, GATConv(4, heads=2), Pooled(), layers=2)
    assert [layer.conv.concatenate for layer in gat.layers if isinstance(layer.conv, GATConv)] == [True, False]
    gat = standard(WIDTH, GATConv(4, heads=2, concatenate=False), Pooled(), layers=2)
    assert [layer.conv.concatenate for layer in gat.layers if isinstance(layer.conv, GATConv)] == [False, False]
