"""An output of the outside model is compared as finely as rounding allows, and no more finely."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.federated import Observation
from jgleak.gnn import GNN, MLP, GCNConv, Layer, LayerNorm, Pooled
from jgleak.interop.example import EQUAL, USUAL, Example, OutputDiffersError, check_example

ROWS = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
EDGES = np.array([(v, v + 1) for v in range(5)]).T
BOTH = np.concatenate([EDGES, EDGES[::-1]], axis=1)
"""Both directions, as PyTorch Geometric has edges."""


def output(model: GNN, params: Any) -> np.ndarray:
    """What the model says of the graph, in 64 bits."""
    with jax.enable_x64(True):
        whole = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
        adjacency = np.zeros((6, 6))
        adjacency[tuple(BOTH)] = 1.0
        given = jnp.asarray(ROWS, np.float64), jnp.asarray(adjacency), jnp.ones(6, bool)
        return np.asarray(model.apply({"params": whole}, *given))


def seen(size: float, act: str = "relu") -> Observation:
    """A regression whose output for the graph has this size, while its terms are tens."""
    model = GNN(5, (Layer(GCNConv(64, bias=True), act),), Pooled("sum", MLP((32, 1))))
    params = jax.tree.map(lambda leaf: np.asarray(leaf) * np.float32(6), model.initial(key=jax.random.key(0)))
    bias = params["readout"]["mlp"]["linears_1"]["bias"]
    params["readout"]["mlp"]["linears_1"]["bias"] = (bias - output(model, params) + size).astype(np.float32)
    update = jax.tree.map(np.zeros_like, params)
    return Observation(model, params, update, "mse")


@pytest.mark.parametrize("size", [1e3, 0.002])
def test_an_output_that_cancels_is_compared_up_to_the_rounding_of_its_terms(size: float) -> None:
    observed = seen(size)
    wanted = output(observed.model, observed.params)[None]
    check_example(observed, Example(ROWS, BOTH, wanted.astype(np.float32)))
    for off in (0.1 * max(size, 0.1), 1.0):
        with pytest.raises(OutputDiffersError, match="differs from the model's"):
            check_example(observed, Example(ROWS, BOTH, wanted + off))


def test_lists_of_numbers_are_arrays() -> None:
    from_lists = Example.of(Example(ROWS.tolist(), BOTH.tolist(), [[0.0]], labels=[1]))
    for given, taken in ((ROWS, from_lists.rows), (BOTH, from_lists.edges), (np.zeros((1, 1)), from_lists.output)):
        np.testing.assert_allclose(taken, given)
    assert from_lists.batch is None and from_lists.labels.tolist() == [1]
    with pytest.raises(ValueError, match="rows: expected an array, got a list of lists of different lengths"):
        Example.of(([[1.0, 2.0], [1.0]], BOTH, [0.5]))
    with pytest.raises(ValueError, match="arrays: 'labels' holds"):
        Example.of((ROWS, BOTH, [0.5], None, ["toxic"]))


def test_an_output_that_is_lost_in_rounding_shows_nothing() -> None:
    """However much rounding explains, an example has to show two digits."""
    observed = seen(1e-5)
    wanted = output(observed.model, observed.params)[None]
    with pytest.raises(OutputDiffersError):
        check_example(observed, Example(ROWS, BOTH, wanted + 2e-5))


def test_another_activation_is_found_where_the_output_is_small() -> None:
    observed = seen(0.002)
    other = dataclasses.replace(observed, model=seen(0.002, "gelu").model)
    wanted = output(other.model, observed.params)[None]
    with pytest.raises(OutputDiffersError):
        check_example(observed, Example(ROWS, BOTH, wanted))


@pytest.mark.long
@pytest.mark.parametrize("change", ["gelu_tanh", "epsilon", "transposed"])
def test_a_small_difference_is_refused_where_one_change_explains_it(change: str) -> None:
    """Within the tolerance, but more than rounding leaves."""
    act, norm = ("gelu", None) if change == "gelu_tanh" else ("relu", LayerNorm(epsilon=1e-5))
    model = GNN(5, (Layer(GCNConv(16), act, norm=norm), Layer(GCNConv(16), act)), Pooled("mean", MLP((1,))))
    params = jax.tree.map(np.asarray, model.initial(key=jax.random.key(0)))
    theirs, weights, said = model, params, "epsilon=1e-06 in the normalisation after convolution 1"
    if change == "gelu_tanh":
        theirs = model.clone(layers=tuple(layer.clone(act="gelu_tanh") for layer in model.layers))
        said = "'gelu_tanh' after every convolution"
    elif change == "transposed":
        second = params["layers_1"]["conv"]["kernel"]
        weights = params | {"layers_1": {"conv": {"kernel": second.T}}}
        said = "the square kernels of convolution 2 transposed"
    else:
        theirs = model.clone(layers=(model.layers[0].clone(norm=LayerNorm(epsilon=1e-6)), model.layers[1]))
    seen = Observation(model, params, jax.tree.map(np.zeros_like, params), "mse")
    wanted, ours = output(theirs, weights)[None], output(model, params)[None]
    small = change == "transposed" or USUAL < np.abs(wanted - ours).max() / np.abs(wanted).max() < EQUAL
    assert small, "the case means something"
    with pytest.raises(OutputDiffersError, match=f"with {said}"):
        check_example(seen, Example(ROWS, BOTH, wanted))
    check_example(seen, Example(ROWS, BOTH, ours * (1 - 3e-5)))  # no single change explains it


@pytest.mark.long
def test_an_explanation_holds_for_every_graph_of_the_example() -> None:
    """And nothing explains a small difference of 16 bits, or one that no change makes."""
    model = GNN(5, (Layer(GCNConv(16)), Layer(GCNConv(8))), Pooled("mean", MLP((1,))))
    params = jax.tree.map(np.asarray, model.initial(key=jax.random.key(0)))
    seen = Observation(model, params, jax.tree.map(np.zeros_like, params), "mse", batch_size=2)
    one = output(model, params)
    rows, edges = np.concatenate([ROWS, ROWS]), np.concatenate([BOTH, BOTH + 6], axis=1)
    batch = np.repeat([0, 1], 6)
    check_example(seen, Example(rows, edges, np.stack([one, one * (1 + 3e-5)]), batch))
    with pytest.raises(OutputDiffersError, match="look for an activation in another place"):
        check_example(seen, Example(rows, edges, np.stack([one, one * 1.33]), batch))
    other = model.clone(layers=tuple(layer.clone(act="gelu") for layer in model.layers))
    gelu = dataclasses.replace(seen, model=other)
    near = output(model.clone(layers=tuple(layer.clone(act="gelu_tanh") for layer in model.layers)), params)
    with pytest.raises(OutputDiffersError, match="'gelu_tanh'"):
        check_example(gelu, Example(rows, edges, np.stack([near, near]), batch))
    check_example(gelu, Example(rows, edges, np.stack([near, near]).astype(np.float16), batch))
