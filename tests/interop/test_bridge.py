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
from jgleak.federated import LocalTraining
from jgleak.federated.loss import graph_loss
from jgleak.federated.observation import Observation, flatten, load, save
from jgleak.federated.statistics import moved
from jgleak.graph import DenseGraph
from jgleak.interop import GAT, GCN, GIN, Client, Linear, from_arrays, from_weights
from jgleak.interop.graphs import by_class, dense
from jgleak.precision import DIGITS, TINY, rounding_of
from tests.interop.conftest import HEAD, LAYERS, UNCOMPARED, Stranger

pytestmark = UNCOMPARED


@pytest.fixture(scope="module")
def observed(strangers: dict[str, Stranger]) -> dict[str, Observation]:
    return {name: from_arrays(**one.given) for name, one in strangers.items()}


def recomputed(seen: Observation, one: Stranger) -> tuple[np.ndarray, Any]:
    """Outputs of the observation's own model, and the gradient of their mean loss."""
    graphs, labels = padded(one)

    def value(params: Any) -> Any:
        outputs = jax.vmap(lambda *graph: seen.model.apply({"params": params}, *graph))(*graphs)
        losses = jax.vmap(lambda graph, label: graph_loss(seen.model, params, graph, label, seen.loss))(graphs, labels)
        return losses.mean(), outputs

    compiled = jax.jit(jax.grad(value, has_aux=True), compiler_options={"xla_backend_optimization_level": 0})
    gradient, output = compiled(seen.params)
    return np.asarray(output), gradient


def padded(one: Stranger) -> tuple[DenseGraph, Any]:
    """The graphs of an example, all of six nodes, stacked, and their labels or those of their nodes."""
    rows, edges = one.example.rows, one.example.edges
    if rows.dtype.kind == "i":
        rows = np.concatenate([np.eye(size)[rows[:, i]] for i, size in enumerate((5, 3, 2))], axis=1)
    count = len(rows) // 6
    classes = one.example.edge_rows
    adjacency = dense(edges, len(rows)) if classes is None else by_class(edges, classes, len(rows), classes.shape[1])
    whole = adjacency.reshape(count, 6, count, 6, *adjacency.shape[2:])
    nodes = jnp.asarray(rows.reshape(count, 6, -1), jnp.float32)
    parts = jnp.stack([jnp.asarray(whole[i, :, i]) for i in range(count)])
    labels = one.label if count > 1 else one.label[None]
    return DenseGraph(nodes, parts, jnp.ones((count, 6), bool)), jnp.asarray(labels)


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_and_gradients_are_the_original_s(
    name: str, strangers: dict[str, Stranger], observed: dict[str, Observation]
) -> None:
    one, seen = strangers[name], observed[name]
    output, gradient = recomputed(seen, one)
    wanted = one.example.output
    if name == "gcn":
        assert seen.loss == "bce" and seen.model.outputs == 1, "one output with BCE is kept as it is"
    np.testing.assert_allclose(output.reshape(wanted.shape), wanted, atol=1e-5 * np.abs(wanted).max())
    size = max(np.abs(leaf).max() for leaf in flatten(gradient).values())
    for path, leaf in flatten(seen.update).items():
        np.testing.assert_allclose(leaf, flatten(gradient)[path], atol=1e-5 * size, err_msg=path)


def test_every_part_of_the_house_is_read(observed: dict[str, Observation]) -> None:
    model: Any = observed["composed"].model
    assert [layer.conv.kind for layer in model.layers] == ["gcn", "gatv2", "leconv"]
    assert [layer.norm and layer.norm.kind for layer in model.layers] == ["batch", "layer", None]
    assert [layer.residual and layer.residual.kind for layer in model.layers] == ["add", "linear", None]
    assert (model.encoder.kind, model.jump, model.readout.kind) == ("linear", "cat", "pooled")
    assert not model.layers[0].conv.self_loops and not model.layers[0].conv.normalise


def test_embeddings_are_a_linear_map_of_one_hot_rows(
    strangers: dict[str, Stranger], observed: dict[str, Observation]
) -> None:
    """The tables lie under each other, in the order of the columns, and so do their gradients."""
    one, seen = strangers["embedded"], observed["embedded"]
    assert seen.model.in_features == 5 + 3 + 2
    for tree, arrays in ((seen.params, one.state), (seen.update, one.gradient)):
        tables = [arrays[f"encoder.tables.{i}.weight"] for i in range(3)]
        np.testing.assert_array_equal(tree["encoder"]["linear"]["kernel"], np.concatenate(tables))


def test_running_statistics_are_read_and_nothing_trains_them(
    strangers: dict[str, Stranger], observed: dict[str, Observation]
) -> None:
    one, seen = strangers["composed"], observed["composed"]
    norm = seen.params["layers_0"]["norm"]
    np.testing.assert_array_equal(norm["mean"], one.state["norm1.running_mean"])
    np.testing.assert_array_equal(norm["variance"], one.state["norm1.running_var"])
    assert not np.any(seen.update["layers_0"]["norm"]["mean"]) and np.any(seen.update["layers_0"]["norm"]["scale"])
    trained = {**one.given, "gradients": {**one.gradient, "norm1.running_mean": np.ones(4, np.float32)}}
    with pytest.raises(ValueError, match="'norm1.running_mean' moved: .* training mode, .*Have clients call .eval"):
        from_arrays(**trained)


def test_a_gradient_of_training_mode_is_not_taken_for_one_of_evaluation_mode(strangers: dict[str, Stranger]) -> None:
    """What is added before a norm has a gradient of zero then; behind a layer and inside one."""
    for name, bias, norm in (
        ("composed", "conv1.bias", "layers_0/norm"),
        ("sums", "convs.2.nn.0.bias", "layers_2/conv"),
    ):
        one = strangers[name]
        slope = one.gradient[bias]
        for change, message in ((0.0, "it is zero: the norm was in training"), (1.1, "it is different: the run")):
            gradients = {**one.gradient, bias: np.float32(change) * slope}
            with pytest.raises(ValueError, match=f"gradient: .* the batch normalisation '{norm}.*{message}"):
                from_arrays(**{**one.given, "gradients": gradients})
        from_arrays(**{**one.given, "gradients": {**one.gradient, bias: 0 * slope}, "client": Client(noise=1e-3)})


@pytest.mark.parametrize("name", DIGITS)
def test_a_client_that_rounds_what_it_sends_has_less_noise_than_one_that_computes_in_16_bits(
    name: str, strangers: dict[str, Stranger]
) -> None:
    one = strangers["composed"]
    given = {**one.given, "gradients": {k: v.astype(name) for k, v in one.gradient.items()}}
    computed, rounded, noisy = (
        from_arrays(**{**given, "client": client})
        for client in (Client(), Client(rounded_to=name), Client(rounded_to=name, noise=0.1))
    )
    assert computed.rounding is None and computed.noise is not None and computed.noise > 1e-5
    assert rounded.rounding == rounding_of(name) == noisy.rounding
    assert rounded.noise == TINY[name] and noisy.noise == 0.1
    with pytest.raises(ValueError, match="rounded_to: expected one of float16, bfloat16, got 'float8'"):
        from_arrays(**{**given, "client": Client(rounded_to="float8")})


def test_running_statistics_of_training_mode_come_back(
    strangers: dict[str, Stranger], observed: dict[str, Observation]
) -> None:
    """They are where one step of the momentum leads from what was sent, with the unbiased variance."""
    one, seen, name = strangers["training"], observed["training"], "convs.0.nn.1.running_mean"
    wanted = moved(seen.model, seen.params, DenseGraph(*(part[0] for part in padded(one)[0])))
    for path, leaf in flatten(wanted).items():
        np.testing.assert_allclose(flatten(seen.statistics)[path], leaf, rtol=1e-5, err_msg=path)
    weights = {k: v - np.float32(0.1) * one.gradient[k] for k, v in one.state.items() if k in one.gradient}
    again = from_weights(
        one.state, weights | one.returned, one.layers, client=Client(local=LocalTraining(0.1)), loss=one.loss
    )
    np.testing.assert_array_equal(flatten(again.statistics)["layers_0/conv/norms_0/mean"], one.returned[name])
    changes: list[tuple[dict[str, Any], str]] = [
        ({"client": Client(buffers=one.state)}, f"buffers: '{name}' did not move, .* a copy, since state_dict"),
        ({"client": Client(buffers={})}, f"buffers: lacks '{name}'"),
    ]
    for change, message in changes:
        with pytest.raises(ValueError, match=message):
            from_arrays(**{**one.given, **change})


def test_a_linear_map_before_a_mean_is_taken_after_it(strangers: dict[str, Stranger]) -> None:
    """The mean of mapped rows is the mapped mean: the same function, with the same gradients."""
    convs = [GCN("conv1"), "relu", GCN("conv2"), "relu"]
    before = [*convs, Linear("lin1"), "mean", Linear("lin2")]
    after = [*convs, "mean", Linear("lin1"), "identity", Linear("lin2")]
    one, other = (from_arrays(**{**strangers["gcn"].given, "layers": layers}) for layers in (before, after))
    assert one.model == other.model


@pytest.mark.parametrize("name", ["gcn", "sage"])
def test_a_sum_over_a_batch_is_divided(name: str, strangers: dict[str, Stranger]) -> None:
    """BCE's mean runs over the outputs too: of one here."""
    given = {**strangers[name].given, "batch_size": 3}
    mean = from_arrays(**given)
    given["gradients"] = {k: 3 * v for k, v in given["gradients"].items()}
    total = from_arrays(**given, reduction="sum")
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
    total = from_arrays(**{**given, "batch_size": 3, "reduction": "sum"})
    assert total.loss == "masked_bce+over:all"
    for path, leaf in flatten(total.update).items():
        np.testing.assert_allclose(3 * leaf, flatten(seen.update)[path], rtol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_the_example_confirms_every_model_and_its_gradient(name: str, strangers: dict[str, Stranger]) -> None:
    """Of mini-batches too, and of rows of integers."""
    from_arrays(**strangers[name].given, example=strangers[name].example)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "wrong", "reason"),
    [
        ("gcn", [GCN("conv1"), "relu", GCN("conv2"), "mean", *HEAD], "with 'relu' after convolution 2"),
        ("gcn", [GCN("conv1"), "gelu", GCN("conv2"), "relu", "mean", *HEAD], "with 'relu' after convolution 1"),
        ("gcn", [GCN("conv1"), "relu", GCN("conv2"), "relu", "sum", *HEAD], "with the pool 'mean' it"),
        ("gcn", [GCN("conv1", normalise=False), *LAYERS["gcn"][1:]], "with self_loops=True, normalise=True after"),
        ("gcn", [*LAYERS["gcn"][:4], "add", *LAYERS["gcn"][4:]], "with no 'add' after convolution 2"),
        ("gcn", [*LAYERS["gcn"][:4], "jump_max", *LAYERS["gcn"][4:]], "with no jumping knowledge it"),
        ("gin", [GIN("conv1", act="tanh"), *LAYERS["gin"][1:]], "with act='relu' inside after convolution 1"),
        (
            "composed",
            [step for step in LAYERS["composed"] if step != "add"],
            r"with 'add' \(a residual\) after conv.* 1",
        ),
        ("gcn", [GCN("conv1"), "gelu", GCN("conv2"), "gelu", "mean", *HEAD], "with 'relu' after every convolution it"),
        ("gcn", [GCN("conv1"), "gelu", GCN("conv2"), "elu", "sum", *HEAD], "look for an activation in another place"),
        ("gat_residual", [GAT("conv1"), "elu", GAT("conv2", concat=False)], "look for"),  # the slope
    ],
)
def test_the_example_finds_what_no_name_shows(
    name: str, wrong: list[Any], reason: str, strangers: dict[str, Stranger]
) -> None:
    one = strangers[name]
    with pytest.raises(ValueError, match=f"the description's output differs from the model's by .*{reason}"):
        from_arrays(**{**one.given, "layers": wrong}, example=one.example)


def test_the_example_s_labels_find_what_the_output_does_not_show(strangers: dict[str, Stranger]) -> None:
    def refused(one: Stranger, message: str, **change: Any) -> None:
        with pytest.raises(ValueError, match=f"gradient: it differs from that of the example's loss by .*{message}"):
            from_arrays(**{**one.given, **change}, example=one.example)

    scores, sage = strangers["gcn_scores"], strangers["sage"]
    refused(sage, "it is 3 times as long: look at 'reduction'", gradients={k: 3 * v for k, v in sage.gradient.items()})
    frozen = {**sage.gradient, "conv1.lin_l.weight": np.zeros_like(sage.gradient["conv1.lin_l.weight"])}
    refused(sage, "that of 'layers_0/conv/neighbour_kernel' is zero: a detached state", gradients=frozen)
    refused(scores, r"that of the nodes \[1, 4\] alone: a masked loss", gradients=masked(scores, [1, 4]))
    other = dataclasses.replace(scores, example=dataclasses.replace(scores.example, labels=np.zeros(6, np.int64)))
    refused(other, "another loss, other labels or other graphs")


def masked(one: Stranger, nodes: list[int]) -> dict[str, np.ndarray]:
    """The gradient of the mean loss of some of the nodes."""
    seen = from_arrays(**one.given)
    graphs, labels = padded(one)
    graph = DenseGraph(*(part[0] for part in graphs))
    share = jnp.zeros(6).at[jnp.asarray(nodes)].set(1.0 / len(nodes))
    slope = jax.grad(lambda p: graph_loss(seen.model, p, graph, labels[0], seen.loss, share))(seen.params)
    return {f"conv{i + 1}.lin.weight": np.asarray(slope[f"layers_{i}"]["conv"]["kernel"]).T for i in range(2)}


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
    rows, edges, output = one.example.rows, one.example.edges, one.example.output
    for example, message in (
        ((rows[:, 1:], edges, output), "example: the model takes rows of 5 features"),
        ((rows, edges[:, :3], output), "give both directions"),
        ((rows, edges, np.zeros(7)), "has 7 entries, the description's 1 for 1 graph with 1 output each; give all"),
        ((rows, edges, np.zeros(6)), "for one graph: it labels nodes; leave the pool out, or of 6 graphs give"),
        ((rows, edges, np.zeros((6, 2))), "has 12 entries, the description's 1 for 1 graph with 1 output each"),
        ((rows, edges, output, np.zeros(3, int)), "'batch' must say one graph for each of 6 nodes"),
        ((rows, edges, output, np.arange(6)), "an edge joins two graphs of the batch"),
        ((rows, edges, output, None, np.zeros(2, int)), "example: there are 2 labels for 1 graph"),
    ):
        with pytest.raises(ValueError, match=message):
            from_arrays(**one.given, example=example)


def test_an_example_of_a_pooled_model_names_the_pool_that_a_list_lacks(strangers: dict[str, Stranger]) -> None:
    one = strangers["gcn_scores"]
    example = (one.example.rows, one.example.edges, one.example.output.mean(axis=0))
    with pytest.raises(ValueError, match="for 6 nodes: it pools its nodes; name the pool, 'mean' or 'sum'"):
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


def test_a_frozen_parameter_needs_no_gradient(strangers: dict[str, Stranger]) -> None:
    given = strangers["gcn"].given
    names = [name for name in given["gradients"] if name.startswith("conv1.")]
    rest = {name: slope for name, slope in given["gradients"].items() if name not in names}
    seen = from_arrays(**{**given, "gradients": rest, "client": Client(frozen=names)}, example=strangers["gcn"].example)
    assert set(seen.model.frozen) == {"layers_0/conv/kernel", "layers_0/conv/bias"}
    assert not np.any(seen.update["layers_0"]["conv"]["kernel"]) and np.any(seen.update["layers_1"]["conv"]["kernel"])
