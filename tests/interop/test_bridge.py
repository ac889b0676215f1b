"""What PyTorch Geometric computed, computed again from its arrays: outputs and gradients to 1e-5, without torch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.features import FeatureSpace, onehot
from jgleak.federated.loss import graph_loss
from jgleak.federated.observation import Observation, flatten, load, save
from jgleak.graph import DenseGraph
from jgleak.interop import GAT, GCN, from_arrays
from jgleak.interop.graphs import dense
from tests.interop.conftest import HEAD, LAYERS, Stranger


@pytest.fixture(scope="module")
def observed(strangers: dict[str, Stranger]) -> dict[str, Observation]:
    return {name: from_arrays(**one.given) for name, one in strangers.items()}


def recomputed(seen: Observation, one: Stranger) -> tuple[np.ndarray, Any]:
    """Output and gradient of the observation's own model."""
    rows, edges, _ = one.example
    graph = DenseGraph(jnp.asarray(rows), jnp.asarray(dense(edges, len(rows))), jnp.ones(len(rows), bool))

    def value(params: Any) -> Any:
        output = seen.model.apply({"params": params}, *graph)
        return graph_loss(seen.model, params, graph, jnp.asarray(one.label), seen.loss), output

    compiled = jax.jit(jax.grad(value, has_aux=True), compiler_options={"xla_backend_optimization_level": 0})
    gradient, output = compiled(seen.params)
    return np.asarray(output), gradient


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_and_gradients_are_the_original_s(
    name: str, strangers: dict[str, Stranger], observed: dict[str, Observation]
) -> None:
    one, seen = strangers[name], observed[name]
    output, gradient = recomputed(seen, one)
    wanted = one.example[2]
    if name == "gcn":  # one output with BCE: two logits, the first of them zero
        assert seen.loss == "ce" and seen.model.outputs == 2 and output[0] == 0.0
        output = output[1:]
    np.testing.assert_allclose(output, wanted, atol=1e-5 * np.abs(wanted).max())
    size = max(np.abs(leaf).max() for leaf in flatten(gradient).values())
    for path, leaf in flatten(seen.update).items():
        np.testing.assert_allclose(leaf, flatten(gradient)[path], atol=1e-5 * size, err_msg=path)


@pytest.mark.parametrize("name", ["gcn", "sage"])
def test_a_sum_over_a_batch_is_divided(name: str, strangers: dict[str, Stranger]) -> None:
    """BCE's mean runs over the outputs too: of one here."""
    given = strangers[name].given
    mean = from_arrays(**given, batch_size=3)
    given["gradients"] = {k: 3 * v for k, v in given["gradients"].items()}
    total = from_arrays(**given, batch_size=3, reduction="sum")
    for path, leaf in flatten(mean.update).items():
        np.testing.assert_allclose(flatten(total.update)[path], leaf, rtol=1e-6)
    assert mean.batch_size == total.batch_size == 3


def test_tasks_are_taken_with_their_own_outputs(strangers: dict[str, Stranger]) -> None:
    """One output with BCE is one task; a sum over what is present is the mean over all entries, times their number."""
    one = strangers["gcn"]
    given: dict[str, Any] = {**one.given, "loss": "masked_bce"}
    seen = from_arrays(**given)
    assert seen.loss == "masked_bce" and seen.model.outputs == 1
    _, gradient = recomputed(seen, dataclasses.replace(one, label=np.reshape(one.label, 1).astype(np.float32)))
    size = max(np.abs(leaf).max() for leaf in flatten(gradient).values())
    for path, leaf in flatten(seen.update).items():
        np.testing.assert_allclose(leaf, flatten(gradient)[path], atol=1e-5 * size, err_msg=path)
    total = from_arrays(**given, batch_size=3, reduction="sum")
    assert total.loss == "masked_bce+over:all"
    for path, leaf in flatten(total.update).items():
        np.testing.assert_allclose(3 * leaf, flatten(seen.update)[path], rtol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_the_example_confirms_every_model(name: str, strangers: dict[str, Stranger]) -> None:
    from_arrays(**strangers[name].given, example=strangers[name].example)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("gcn", [GCN("conv1"), "relu", GCN("conv2"), "mean", *HEAD]),  # an activation left out
        ("gcn", [GCN("conv1"), "gelu", GCN("conv2"), "gelu", "mean", *HEAD]),
        ("gcn", [GCN("conv1"), "relu", GCN("conv2"), "relu", "sum", *HEAD]),
        ("gat_residual", [GAT("conv1"), "elu", GAT("conv2", concat=False)]),  # the slope
    ],
)
def test_the_example_finds_what_no_name_shows(name: str, wrong: list[Any], strangers: dict[str, Stranger]) -> None:
    one = strangers[name]
    with pytest.raises(ValueError, match="the description's output differs from the model's by"):
        from_arrays(**{**one.given, "layers": wrong}, example=one.example)


def test_the_example_finds_a_square_kernel_the_wrong_way_round(strangers: dict[str, Stranger]) -> None:
    one = strangers["gcn"]
    trees = [
        {k.replace("conv2.lin.weight", "conv2.lin.kernel"): v for k, v in t.items()} for t in (one.state, one.gradient)
    ]
    given = one.given
    given |= {"state": trees[0], "gradients": trees[1]}
    from_arrays(**given)
    with pytest.raises(ValueError, match="the description's output differs"):
        from_arrays(**given, example=one.example)


def test_an_example_must_be_a_simple_graph_of_the_model_s_rows(strangers: dict[str, Stranger]) -> None:
    one = strangers["gcn"]
    rows, edges, output = one.example
    for example, message in (
        ((rows[:, 1:], edges, output), "example: the model takes rows of 5 features"),
        ((rows, edges[:, :3], output), "give both directions"),
        ((rows, edges, np.zeros(7)), "example: the model's output has 7 entries"),
    ):
        with pytest.raises(ValueError, match=message):
            from_arrays(**one.given, example=example)


def test_a_saved_observation_is_the_same(strangers: dict[str, Stranger], tmp_path: Path) -> None:
    seen = from_arrays(**strangers["gin"].given)
    epsilons = [layer.conv.epsilon for layer in seen.model.layers]
    assert epsilons == pytest.approx([0.3, float(strangers["gin"].state["conv2.eps"][0])])
    space = FeatureSpace((onehot("kind", "abcde"),))
    save(tmp_path / "seen", seen)
    again, _ = load(tmp_path / "seen", space)
    assert again.model == seen.model
    for path, leaf in flatten(seen.params).items():
        np.testing.assert_array_equal(flatten(again.params)[path], leaf)
