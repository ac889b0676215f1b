"""Activations and readouts in closed form, the model's checks, and its widths."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import flat
from scipy.special import erf, expit, logsumexp

from jgleak.gnn import (
    ACTIVATIONS,
    CONVOLUTIONS,
    GNN,
    MLP,
    Flattened,
    GATConv,
    GCNConv,
    GINConv,
    Layer,
    NodeMLP,
    NodeScores,
    Pooled,
    standard,
)
from jgleak.gnn.activation import activation

WIDTH, SLOTS, NODES = 3, 6, 4


@pytest.mark.parametrize(
    ("name", "closed_form"),
    [
        ("relu", lambda z: np.maximum(z, 0)),
        ("gelu", lambda z: z * (1 + erf(z / np.sqrt(2))) / 2),
        ("sigmoid", expit),
        ("tanh", np.tanh),
        ("gelu_tanh", lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))),
    ],
)
def test_activations(name: str, closed_form: Any) -> None:
    z = np.linspace(-6, 6, 101, dtype=np.float32)
    np.testing.assert_allclose(activation(name)(jnp.asarray(z)), closed_form(z), rtol=1e-5, atol=2e-6)
    assert name in ACTIVATIONS


def test_layers_and_readouts_in_closed_form(params_of: Any, graph_of: Any, quick_jit: Any) -> None:
    """One GCN model's states by hand, then every readout of them."""
    rows, adjacency, mask = graph_of(NODES, SLOTS, WIDTH, seed=0)
    body = {"in_features": WIDTH, "classes": 2, "hidden": 4, "act": "tanh", "bias": True}
    looped = adjacency[:NODES, :NODES] + np.eye(NODES)
    mix = looped / np.sqrt(np.outer(looped.sum(1), looped.sum(1)))

    def output(**readout: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        model = flat(**body, **readout)
        params = params_of(model, SLOTS, WIDTH, seed=1)
        got = quick_jit(model.apply)({"params": params}, rows, adjacency, mask)
        convs = [model.conv_of(params, layer) for layer in range(2)]
        hidden = np.tanh(mix @ rows[:NODES] @ convs[0]["kernel"] + convs[0]["bias"])
        return model.readout_of(params), np.asarray(got), mix @ hidden @ convs[1]["kernel"] + convs[1]["bias"]

    def linear(x: np.ndarray, layer: Any) -> np.ndarray:
        return x @ layer["kernel"] + layer["bias"]

    head, got, states = output(readout_widths=(5, 3))
    seen = np.concatenate([rows[:NODES], states], axis=1)
    per_node = linear(
        np.tanh(linear(np.tanh(linear(seen, head["mlp"]["linears_0"])), head["mlp"]["linears_1"])),
        head["mlp"]["linears_2"],
    )
    np.testing.assert_allclose(got, per_node.mean(0), rtol=1e-4, atol=1e-5)

    head, got, states = output(readout_widths=(5,), per_node=True, see_input=False)
    expected = linear(np.tanh(linear(states, head["mlp"]["linears_0"])), head["mlp"]["linears_1"])
    np.testing.assert_allclose(got[:NODES], expected, rtol=1e-4, atol=1e-5)

    for pooling in ("mean", "sum", "max", "max,sum", "mean,sum,max"):
        head, got, states = output(readout="pooled", readout_widths=(), pooling=pooling)
        pools = {"mean": states.mean(0), "sum": states.sum(0), "max": logsumexp(states, axis=0)}
        row = np.concatenate([pools[part] for part in pooling.split(",")])
        np.testing.assert_allclose(got, linear(row, head["mlp"]["linears_0"]), rtol=1e-4, atol=1e-5)

    head, got, states = output(readout="flattened", slots=SLOTS)
    vector = np.zeros(SLOTS * 4)
    vector[: states.size] = states.ravel()
    np.testing.assert_allclose(got, linear(vector, head["linear"]), rtol=1e-4, atol=1e-5)

    head, got, states = output(readout="node_scores")
    assert not head and got.shape == (SLOTS, 2)
    np.testing.assert_allclose(got[:NODES], states, rtol=1e-4, atol=1e-5)

    head, got, states = output(readout="dot")
    assert not head
    np.testing.assert_allclose(got[:NODES], states @ states[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_states_have_the_announced_widths(conv: str, params_of: Any, graph_of: Any) -> None:
    model = standard(WIDTH, conv, NodeScores(5), layers=3, hidden=4, act="sigmoid")
    params = params_of(model, SLOTS, WIDTH, seed=0)
    graph = graph_of(NODES, SLOTS, WIDTH, seed=0, of=model)
    states = jax.eval_shape(lambda p: model.apply({"params": p}, *graph, method="states"), params)
    widths = [WIDTH, *(layer.features for layer in model.layers)]
    assert [s.shape for s in states] == [(SLOTS, width) for width in widths]  # type: ignore[union-attr]
    assert widths == [WIDTH, 4, 4, 5]
    for number, (layer, width) in enumerate(zip(model.layers, widths, strict=False)):
        alone = params_of(layer, SLOTS, width, seed=0)
        assert jax.tree.map(np.shape, alone) == jax.tree.map(np.shape, model.layer_of(params, number))


def test_padding_has_no_state_even_where_the_activation_of_zero_is_not_zero(
    params_of: Any, graph_of: Any, quick_jit: Any
) -> None:
    model = flat(in_features=WIDTH, hidden=4, act="sigmoid", last_act=True, bias=True, readout="pooled")
    params = params_of(model, SLOTS, WIDTH, seed=0)
    graph = graph_of(NODES, SLOTS, WIDTH, seed=0)
    states = quick_jit(lambda p: model.apply({"params": p}, *graph, method="states"))(params)
    for state in states:
        assert not np.asarray(state)[NODES:].any() and np.asarray(state)[:NODES].any()


def test_initial_parameters_are_seeded_and_bounded() -> None:
    model = flat(in_features=WIDTH, layers=1, hidden=4, readout="pooled", readout_widths=())
    params, again, other = (model.initial(key=jax.random.key(seed)) for seed in (0, 0, 1))
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), params, again))
    assert not np.array_equal(*(model.conv_of(tree, 0)["kernel"] for tree in (params, other)))
    assert abs(params["layers_0"]["conv"]["kernel"]).max() <= np.sqrt(6 / (WIDTH + 4))
    assert abs(params["readout"]["mlp"]["linears_0"]["kernel"]).max() <= 1 / np.sqrt(4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layer": "gcnn"}, "layer: unknown 'gcnn'; choose one of .*'gcn'"),
        ({"act": "swish"}, r"activation: unknown 'swish'; choose one of"),
        ({"layers": 0}, "layers: a model needs at least one, got 0"),
        ({"hidden": 0}, "features: must be at least 1, got 0"),
        ({"readout": NodeMLP(mlp=MLP((5, 0)))}, "widths: must be at least 1, got 0"),
        ({"readout": NodeMLP(mlp=MLP((5, 2), act="swish"))}, r"activation: unknown 'swish'"),
        ({"readout": Flattened(size=0)}, "size: must be at least 1"),
        ({"readout": Pooled(pooling="median")}, "pooling: unknown 'median'; choose one of mean, sum, max"),
        ({"readout": Pooled(pooling="max,sum,max")}, "pooling: 'max,sum,max' names one twice"),
        ({"layer": GATConv(5)}, "features: width 5 is not divisible by 2 heads"),
        ({"layer": GATConv(4, heads=0)}, "heads: must be at least 1"),
        ({"layer": GINConv(4, inner="swish")}, "activation: unknown 'swish'"),
    ],
)
def test_an_impossible_model_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        standard(WIDTH, **fields)


def test_states_that_are_outputs_have_their_width() -> None:
    model = GNN(in_features=WIDTH, layers=(Layer(GCNConv(4)),), readout=NodeScores(3))
    with pytest.raises(ValueError, match="its 3 outputs are the last states, which are 4 wide"):
        model.initial(key=jax.random.key(0))
    assert standard(WIDTH, "sage", NodeScores(3), hidden=4).layers[-1].features == 3


def test_a_flattened_readout_wants_its_number_of_slots(params_of: Any, graph_of: Any) -> None:
    model = flat(in_features=WIDTH, hidden=4, readout="flattened", slots=SLOTS)
    params = params_of(model, SLOTS, WIDTH, seed=0)
    with pytest.raises(ValueError, match=f"made for {SLOTS} node slots, got a batch of 8"):
        model.apply({"params": params}, *graph_of(NODES, 8, WIDTH, seed=0))
