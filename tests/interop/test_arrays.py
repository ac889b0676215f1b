"""Arrays by name out of nested trees, flattened trees, NNX states and files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from safetensors.numpy import save_file

from jgleak.federated.observation import flatten
from jgleak.interop import (
    GCN,
    BatchNorm,
    Embeddings,
    Example,
    LayerNorm,
    Linear,
    by_name,
    edge_arrays,
    from_arrays,
    read_arrays,
)
from jgleak.interop.graphs import dense
from tests.interop.conftest import Stranger

ROWS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
EDGES = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def mixing() -> jax.Array:
    looped = dense(EDGES, 4) + np.eye(4, dtype=np.float32)
    scale = looped.sum(1) ** -0.5
    return jnp.asarray(scale[:, None] * looped * scale)


class LinenConv(linen.Module):
    """A GCN layer as one writes it in linen: a dense map without bias, the mixing, then a bias."""

    width: int

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        mixed = mixing() @ linen.Dense(self.width, use_bias=False, name="lin")(x)
        return mixed + self.param("bias", linen.initializers.normal(0.3), (self.width,))


class LinenModel(linen.Module):
    """Two layers, the mean, one dense map."""

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = linen.relu(LinenConv(5, name="conv1")(x))
        x = linen.relu(LinenConv(5, name="conv2")(x))
        return linen.Dense(2, name="out")(x.mean(axis=0))


class NnxConv(nnx.Module):
    """The same layer in NNX."""

    def __init__(self, inputs: int, width: int, rngs: nnx.Rngs) -> None:
        self.lin = nnx.Linear(inputs, width, use_bias=False, rngs=rngs)
        self.bias = nnx.Param(jnp.full(width, 0.2))

    def __call__(self, x: jax.Array) -> jax.Array:
        return mixing() @ self.lin(x) + self.bias[...]


class NnxModel(nnx.Module):
    """The same model in NNX."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv1, self.conv2 = NnxConv(3, 5, rngs), NnxConv(5, 5, rngs)
        self.out = nnx.Linear(5, 2, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.out(nnx.relu(self.conv2(nnx.relu(self.conv1(x)))).mean(axis=0))


LAYERS = [GCN("conv1"), "relu", GCN("conv2"), "relu", "mean", Linear("out")]


def test_a_linen_model_is_recomputed() -> None:
    model = LinenModel()
    params = jax.jit(model.init)(jax.random.key(0), ROWS)["params"]
    gradient = jax.jit(jax.grad(lambda p: -jax.nn.log_softmax(model.apply({"params": p}, ROWS))[0]))(params)  # type: ignore[index]
    example = ROWS, EDGES, np.asarray(model.apply({"params": params}, ROWS))
    seen = from_arrays(params, gradient, LAYERS, loss="ce", example=example)
    np.testing.assert_array_equal(seen.update["layers_1"]["conv"]["kernel"], gradient["conv2"]["lin"]["kernel"])
    flat = {tuple(k.split("/")): v for k, v in flatten(params).items()}
    assert list(by_name(flat)) == list(by_name(params))


def test_an_nnx_state_is_recomputed() -> None:
    model = NnxModel(nnx.Rngs(0))
    gradient = nnx.grad(lambda m: -jax.nn.log_softmax(m(ROWS))[0])(model)
    example = ROWS, EDGES, np.asarray(model(jnp.asarray(ROWS)))
    seen = from_arrays(nnx.state(model), gradient, LAYERS, loss="ce", example=example)
    pure = from_arrays(
        nnx.to_pure_dict(nnx.state(model)), nnx.to_pure_dict(gradient), LAYERS, loss="ce", example=example
    )
    for path, leaf in flatten(seen.update).items():
        np.testing.assert_array_equal(flatten(pure.update)[path], leaf)


class NormedModel(linen.Module):
    """Two embeddings, a layer with batch normalisation and a residual, one with layer normalisation, the sum."""

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        h = linen.Embed(4, 5, name="element")(x[:, 0]) + linen.Embed(2, 5, name="charge")(x[:, 1])
        h = linen.relu(linen.BatchNorm(use_running_average=True, name="norm1")(LinenConv(5, name="conv1")(h))) + h
        h = linen.tanh(linen.LayerNorm(name="norm2")(LinenConv(5, name="conv2")(h)))
        return linen.Dense(2, name="out")(h.sum(axis=0))


@pytest.mark.long
def test_a_linen_model_with_norms_embeddings_and_a_residual_is_recomputed() -> None:
    model, x = NormedModel(), np.array([[0, 1], [3, 0], [1, 1], [2, 0]])
    trees: Any = jax.jit(model.init)(jax.random.key(0), x)
    statistics = {"norm1": {"mean": jnp.full(5, 0.3), "var": jnp.full(5, 1.7)}}

    def loss(params: Any) -> jax.Array:
        return -jax.nn.log_softmax(model.apply({"params": params, "batch_stats": statistics}, x))[1]  # type: ignore[index]

    params, gradient = trees["params"], jax.grad(loss)(trees["params"])
    output = model.apply({"params": params, "batch_stats": statistics}, x)
    layers = [
        Embeddings("atoms", tables=("element", "charge")),
        *(GCN("conv1"), BatchNorm("norm1"), "relu", "add"),
        *(GCN("conv2"), LayerNorm("norm2", epsilon=1e-6), "tanh", "sum", Linear("out")),
    ]
    state = by_name(params) | by_name(statistics)
    from_arrays(state, gradient, layers, loss="ce", example=Example(x, EDGES, np.asarray(output), None, np.array(1)))


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_files_hold_both_trees(suffix: str, strangers: dict[str, Stranger], tmp_path: Path) -> None:
    one, path = strangers["sage"], tmp_path / f"round.{suffix}"
    arrays = {f"state.{k}": v for k, v in one.state.items()} | {f"gradient/{k}": v for k, v in one.gradient.items()}
    if suffix == "npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    else:
        save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, path)
    state, gradient = read_arrays(path)
    assert state.keys() == one.state.keys() and gradient.keys() == one.gradient.keys()
    from_arrays(state, gradient, one.layers, loss=one.loss, example=one.example)


def _packed(method: bytes) -> bytes:
    """An archive that names another way of packing."""
    stream, arrays = io.BytesIO(), dict[str, Any]({"state.a": np.ones(2)})
    np.savez(stream, **arrays)
    content, entry = bytearray(stream.getvalue()), stream.getvalue().rindex(b"PK\x01\x02")
    content[entry + 10 : entry + 12] = method
    return bytes(content)


def test_a_file_of_something_else_is_explained(tmp_path: Path) -> None:
    good: Any = np.ones(2, np.float32)
    objects: Any = np.array([{}], object)
    for name, write, message in (
        ("a.npz", lambda p: np.savez(p, **{"conv1.bias": good}), "'conv1.bias' has no prefix 'state.' or 'gradient.'"),
        ("b.npz", lambda p: np.savez(p, **{"state.bias": good}), "no array is called 'gradient.<name>'"),
        ("c.npz", lambda p: p.write_bytes(b"nonsense"), "cannot be read as .npz"),
        ("empty.npz", lambda p: p.write_bytes(b""), "cannot be read as .npz"),
        ("method.npz", lambda p: p.write_bytes(_packed(b"\x63\x00")), "cannot be read as .npz"),
        ("d.npz", lambda p: np.savez(p, **{"state.a": objects}), "cannot be read as .npz"),
        ("e.safetensors", lambda p: p.write_bytes(b"nonsense"), "cannot be read as .safetensors"),
        ("f.pt", lambda p: p.write_bytes(b""), "come as .safetensors or .npz, this is .pt"),
    ):
        write(tmp_path / name)
        with pytest.raises(ValueError, match=message):
            read_arrays(tmp_path / name)
    with pytest.raises(ValueError, match="cannot be read"):
        read_arrays(tmp_path / "nowhere.npz")


def test_none_is_left_out_and_names_are_unique() -> None:
    assert by_name({"a": {"b": np.ones(1), "c": None}, "d": [np.zeros(2)]}).keys() == {"a.b", "d.0"}
    with pytest.raises(ValueError, match="'a.b' occurs twice"):
        by_name({"a": {"b": np.ones(1)}, "a.b": np.ones(1)})


def test_edges_come_in_both_directions(strangers: dict[str, Any]) -> None:
    from jgleak.datasets import load

    data = load("embedded", graphs=2, max_nodes=8)
    for graph in data.graphs:
        x, edges = edge_arrays(graph, data.space)
        assert x.shape == (graph.n, data.space.width) and edges.shape == (2, 2 * len(graph.edges))
        np.testing.assert_array_equal(dense(edges, graph.n), graph.adjacency)


ORDERS = {
    "relu(norm(conv)) + x": lambda x, conv, norm: jax.nn.relu(norm(conv(x))) + x,
    "relu(norm(conv) + x)": lambda x, conv, norm: jax.nn.relu(norm(conv(x)) + x),
    "norm(relu(conv)) + x": lambda x, conv, norm: norm(jax.nn.relu(conv(x))) + x,
}


class Ordered(linen.Module):
    """A dense map, and a layer whose normalisation and residual stand in one of several orders."""

    order: str

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = linen.Dense(5, name="enter")(x)
        x = ORDERS[self.order](x, LinenConv(5, name="conv1"), linen.LayerNorm(epsilon=1e-5, name="norm1"))
        return linen.Dense(2, name="out")(x.mean(axis=0))


@pytest.mark.parametrize("order", ORDERS)
def test_another_order_of_norm_and_residual_is_refused_and_never_silently_wrong(order: str) -> None:
    """The list can say one order; of a model with another one the output differs."""
    model = Ordered(order)
    params = model.init(jax.random.key(0), ROWS)["params"]
    gradient = jax.tree.map(jnp.zeros_like, params)
    layers = [Linear("enter"), GCN("conv1"), LayerNorm("norm1"), "relu", "add", "mean", Linear("out")]
    given = {"loss": "ce", "example": (ROWS, EDGES, np.asarray(model.apply({"params": params}, ROWS)))}
    if order == "relu(norm(conv)) + x":
        assert from_arrays(params, gradient, layers, **given).model.layers[0].residual is not None
        return
    with pytest.raises(ValueError, match="the description's output differs from the model's .* a row that is added"):
        from_arrays(params, gradient, layers, **given)
    norm = layers[2]
    for written in (["relu", norm, "add"], [norm, "add", "relu"], ["add", norm, "relu"]):
        with pytest.raises(ValueError, match="order here is|a residual comes last"):
            from_arrays(params, gradient, [*layers[:2], *written, *layers[5:]], **given)
