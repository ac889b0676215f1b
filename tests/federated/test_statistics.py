"""Batch normalisation in training mode: against PyTorch and differences, and what the returned statistics tell."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import some_params

from jgleak.attacks.distance import gradient_distances
from jgleak.attacks.registry import get_attack
from jgleak.defenses import Defense
from jgleak.features import FeatureSpace, real
from jgleak.federated import Knowledge, LocalTraining, Observation, fedavg, fedsgd
from jgleak.federated.client import client_keys, mask_key, returned, target_gradient
from jgleak.federated.loss import graph_loss
from jgleak.federated.observation import load, save
from jgleak.federated.statistics import blur, deviation_blur, distance, evaluated, frozen, moved, of_batch
from jgleak.gnn import GNN, MLP, BatchNorm, GCNConv, GINConv, Layer, NodeScores, Pooled
from jgleak.gnn.norm import STATISTICS
from jgleak.graph import DenseGraph, Graph, GraphBatch

TRAINING = BatchNorm(training=True)

ROWS = np.array([[1.0, -2.0], [0.5, 0.25], [3.0, 1.0], [-1.0, 2.0]], np.float32)
KERNEL = np.array([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5]], np.float32)
UPSTREAM = np.array([[1.0, 0.0, 2.0], [-1.0, 1.0, 0.5], [0.25, -2.0, 1.0], [0.0, 1.0, -1.0]], np.float32)
WEIGHTS = {
    "scale": np.array([1.0, 2.0, -0.5], np.float32),
    "bias": np.array([0.0, 0.5, 1.0], np.float32),
    "mean": np.array([0.25, 0.0, -1.0], np.float32),
    "variance": np.array([1.0, 0.5, 2.0], np.float32),
}
TORCH = {
    "out": [
        [-1.579377, -1.358296, 0.333235],
        [-0.130407, 0.827935, 1.035093],
        [0.97081, -1.108441, 0.894721],
        [0.738974, 3.638802, 1.736951],
    ],
    "kernel": [[0.552111, -2.463981, -0.218536], [-0.184039, -3.285287, -0.109213]],
    "scale": [-1.206267, 3.341809, 4.316426],
    "bias": [0.25, 0.0, 2.5],
    "mean": [0.315625, -0.064062, -0.89375],
    "variance": [1.520182, 0.983952, 1.905729],
}
"""``BatchNorm1d(3)`` of PyTorch 2 in training mode behind a linear map: its outcome, the gradients of the sum of the
outcome times ``UPSTREAM``, and its running statistics afterwards."""


def test_training_mode_is_pytorch_s() -> None:
    rows, mask = np.zeros((6, 2), np.float32), np.arange(6) < 4  # two rows of padding
    rows[:4], rows[4:] = ROWS, 7.0

    def out(kernel: Any, weights: Any) -> Any:
        return TRAINING.apply({"params": weights}, rows @ kernel, jnp.asarray(mask), mutable=[STATISTICS])

    found, left = out(jnp.asarray(KERNEL), WEIGHTS)
    kernel, norm = jax.grad(lambda k, w: (UPSTREAM * out(k, w)[0][:4]).sum(), argnums=(0, 1))(
        jnp.asarray(KERNEL), WEIGHTS
    )
    np.testing.assert_allclose(found[:4], TORCH["out"], atol=2e-6)
    np.testing.assert_allclose(kernel, TORCH["kernel"], atol=5e-6)
    for name in ("scale", "bias"):
        np.testing.assert_allclose(norm[name], TORCH[name], atol=5e-6)
    for name in ("mean", "variance"):
        after = 0.9 * WEIGHTS[name] + 0.1 * np.asarray(left[STATISTICS][name])
        np.testing.assert_allclose(after, TORCH[name], atol=2e-6)
        assert not norm[name].any()


def model_of(width: int, norm: BatchNorm = TRAINING) -> GNN:
    first = Layer(GINConv(6, bias=True, inner="tanh", norm=norm), "tanh", norm=norm)
    return GNN(width, (first, Layer(GCNConv(5), "tanh", norm=norm)), Pooled(mlp=MLP((2,))))


def dense_of(graph: Graph, world: Any, kind: Any = np.float32) -> DenseGraph:
    dense = GraphBatch.from_graphs([graph], world.space).dense
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[0], None if leaf.dtype == bool else kind), dense)


@pytest.fixture(scope="module")
def seen(world: Any) -> tuple[GNN, Any, Graph, Any]:
    model = model_of(world.space.width)
    params, graph = some_params(model), world.graph(7, seed=3)
    return model, params, graph, fedsgd(model, params, [graph], world.space, loss="ce")


def test_the_client_s_gradient_is_that_of_central_differences(seen: Any, world: Any) -> None:
    model, params, graph, observation = seen
    with jax.enable_x64(True):
        dense = dense_of(graph, world, np.float64)
        wide = jax.tree.map(lambda w: np.asarray(w, np.float64), params)
        direction = jax.tree.map(lambda w: np.random.default_rng(w.size).normal(size=w.shape), wide)
        value = jax.jit(lambda params: graph_loss(model, params, dense, jnp.asarray(graph.y), "ce"))

        def loss(step: float) -> float:
            return float(value(jax.tree.map(lambda w, d: w + step * d, wide, direction)))

        slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    along = sum(jax.tree.leaves(jax.tree.map(lambda g, d: float((g * d).sum()), observation.update, direction)))
    assert abs(along - slope) < 1e-4 * abs(slope)


def test_the_batch_s_statistics_follow_from_running_ones(seen: Any, world: Any) -> None:
    model, params, graph, observation = seen
    batch = of_batch(model, params, observation.statistics)
    assert list(batch) == list(model.norms) and len(batch) == 3
    dense = dense_of(graph, world)
    still, weights = frozen(model, params, batch, graph.n)
    assert still.of_nodes == "one" and model.of_nodes == "all" and not still.returns_statistics
    states = jax.jit(lambda model, params: model.apply({"params": params}, *dense, method="states"), static_argnums=0)
    for a, b in zip(states(model, params), states(still, weights), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=2e-5)
    assert distance(model, params, observation.statistics, dense) < 1e-5
    other = dense_of(world.graph(7, seed=4), world)
    assert distance(model, params, observation.statistics, other) > 1e-2


def test_rounding_moves_a_deviation_by_no_more_than_is_said(world: Any) -> None:
    model = GNN(world.space.width, (Layer(GCNConv(40), norm=TRAINING),), Pooled(mlp=MLP((2,))))
    params, said, worst = some_params(model, seed=5), [], []
    for seed in range(20):
        graph = world.graph(3, seed=seed)
        observation = fedsgd(model, params, [graph], world.space, loss="ce")
        dense = dense_of(graph, world)
        loops = np.asarray(dense.adjacency[:3, :3], np.float64) + np.eye(3)
        scale = 1.0 / np.sqrt(loops.sum(axis=1))
        rows = scale[:, None] * loops * scale @ np.asarray(dense.nodes[:3], np.float64)
        true = (rows @ np.asarray(params["layers_0"]["conv"]["kernel"], np.float64)).var(axis=0, ddof=1)
        ((_, seen),) = of_batch(model, params, observation.statistics).values()
        worst.append(float(np.max(np.abs(seen - true) / (2 * (true + 1e-5)))))
        said.append(deviation_blur(model, params, observation.statistics))
    assert np.all(np.array(worst) <= said) and np.median(np.array(said) / worst) < 20


def test_the_gradient_distance_counts_the_statistics(seen: Any, world: Any) -> None:
    model, params, graph, observation = seen
    assert gradient_distances(observation, world.space, [graph])[0][0] < 1e-5
    foreign = moved(model, params, dense_of(world.graph(7, seed=4), world))
    lying = dataclasses.replace(observation, statistics=foreign)
    assert gradient_distances(lying, world.space, [graph])[0][0] > 1e-2


def test_files_carry_statistics(seen: Any, world: Any, tmp_path: Path) -> None:
    observation = seen[-1]
    save(tmp_path / "one.safetensors", observation, world.space)
    again, _ = load(tmp_path / "one.safetensors")
    assert again.model == observation.model
    jax.tree.map(np.testing.assert_array_equal, again.statistics, observation.statistics)


def test_a_fedavg_client_of_one_step_returns_them_too(seen: Any, world: Any) -> None:
    model, params, graph, observation = seen
    one = fedavg(model, params, [graph], world.space, loss="ce", local=LocalTraining(0.1))
    jax.tree.map(np.testing.assert_array_equal, one.statistics, observation.statistics)
    with pytest.raises(ValueError, match="understood in one step"):
        fedavg(model, params, [graph], world.space, loss="ce", local=LocalTraining(0.1, steps=2))


def test_what_is_not_understood_is_refused(seen: Any, world: Any) -> None:
    model, params, graph, observation = seen
    for graphs in ([graph, graph], [world.graph(1, seed=1)]):
        with pytest.raises(ValueError, match="over the nodes of one graph, two at least"):
            fedsgd(model, params, graphs, world.space, loss="ce")
    for several in ({"batch_size": 2}, {"protocol": "fedavg", "local": LocalTraining(0.1, steps=2)}):
        mixed = dataclasses.replace(observation, **several)  # its facts are certain, and no attack reads it
        reason = get_attack("random").refusal(mixed, Knowledge(world.space))
        assert reason is not None and "mixes the nodes of all graphs of a step" in reason
    with pytest.raises(ValueError, match="statistics: lacks tensor 'layers_0/conv/norms_0/mean'"):
        dataclasses.replace(observation, statistics={"layers_0": {"norm": observation.statistics["layers_0"]["norm"]}})
    with pytest.raises(ValueError, match="no norm of this model is in training mode"):
        dataclasses.replace(observation, model=evaluated(model))
    scores = GNN(world.space.width, (Layer(GCNConv(2), norm=TRAINING),), NodeScores(2))
    labelled = world.graph(5, seed=1, node_labels=True)
    with pytest.raises(ValueError, match="are taken in evaluation mode"):
        target_gradient(scores, some_params(scores), [labelled], world.space, loss="ce")
    weights = some_params(scores)
    with pytest.raises(ValueError, match="mixes all nodes of a step, and under 'target_node' these are unknown"):
        Observation(scores, weights, weights, "ce", protocol="target_node")
    with pytest.raises(ValueError, match="momentum: expected a share"):
        model_of(world.space.width, BatchNorm(training=True, momentum=0.0)).check()


@pytest.mark.parametrize(("act", "silent"), [("identity", True), ("relu", False)])
def test_before_a_mean_over_nodes_no_gradient_reaches_the_layers_below(act: str, silent: bool) -> None:
    """The mean of normalised rows is the norm's offset, whatever the graph; the statistics still are the graph's."""
    space = FeatureSpace((real("a"), real("b"), real("c")))
    rng = np.random.default_rng(0)
    first, second = (Graph(rng.normal(size=(6, 3)), np.array([(i, i + 1) for i in range(5)]), 1) for _ in range(2))
    model = GNN(3, (Layer(GCNConv(8)), Layer(GCNConv(8), act, norm=TRAINING)), Pooled())
    params = some_params(model)
    one, other = (fedsgd(model, params, [graph], space, loss="ce") for graph in (first, second))
    largest = max(float(np.abs(model.conv_of(one.update, layer)["kernel"]).max()) for layer in range(2))
    assert largest < 1e-5 if silent else largest > 1e-3
    moved_by = [
        np.abs(a - b).max() for a, b in zip(*map(jax.tree.leaves, (one.statistics, other.statistics)), strict=True)
    ]
    assert max(moved_by) > 1e-3


def test_without_a_key_statistics_are_those_without_dropout(world: Any) -> None:
    """As for an attack that is asked whether it could work, before any client draws its masks."""
    batch = GraphBatch.from_graphs([world.graph(5, 0)], world.space)
    dense = jax.tree.map(lambda leaf: leaf[0], batch.dense)
    for rate in (0.0, 0.5):
        layer = Layer(GCNConv(5), "tanh", norm=TRAINING, dropout=rate)
        model = GNN(world.space.width, (layer,), Pooled(mlp=MLP((2,))))
        params = some_params(model)
        left = returned(model, params, batch, None)
        jax.tree.map(np.testing.assert_array_equal, left, moved(model, params, dense))


def shifted(tree: Any, part: str, by: Any) -> Any:
    """Running statistics of the first layer's norm, with one of them moved."""
    first = tree["layers_0"]
    return {**tree, "layers_0": {**first, "norm": {**first["norm"], part: first["norm"][part] + by}}}


@pytest.mark.parametrize("part", ["mean", "variance"])
def test_distances_are_relative_to_the_batch(part: str, seen: Any, world: Any) -> None:
    """What the running statistics are moved by is a tenth of what the batch's are. The worst norm counts."""
    model, params, graph, observation = seen
    mean, variance = of_batch(model, params, observation.statistics)[("layers_0", "norm")]
    by = np.random.default_rng(0).normal(size=mean.shape)
    moved_by = shifted(observation.statistics, part, (0.1 * by).astype(np.float32))
    wanted = of_batch(model, params, moved_by)[("layers_0", "norm")]
    squares = wanted[0] ** 2 + wanted[1]
    size = np.sqrt(squares) if part == "mean" else squares
    gap = (mean if part == "mean" else variance) - wanted[0 if part == "mean" else 1]
    assert np.linalg.norm(gap) > 0.5 * np.linalg.norm(by)
    found = distance(model, params, moved_by, dense_of(graph, world))
    assert found == pytest.approx(np.linalg.norm(gap) / np.linalg.norm(size), rel=1e-3)


def test_rounding_of_running_statistics_is_told_by_their_digits() -> None:
    """``batch = (after - (1 - m) before) / m``, where either has an error of a float32's last digit."""
    other = BatchNorm(training=True, momentum=0.5)
    model = GNN(3, (Layer(GCNConv(3), norm=TRAINING), Layer(GCNConv(3), norm=other)), Pooled())
    params, rng, returned = some_params(model), np.random.default_rng(0), {}
    for number in range(2):
        norm = params[f"layers_{number}"]["norm"]
        for name, sign in (("mean", -1), ("variance", 1)):
            norm[name] = (sign * rng.uniform(0.5, 2.0, 3)).astype(np.float32)
        after = {name: (norm[name] * rng.uniform(0.8, 1.2, 3)).astype(np.float32) for name in ("mean", "variance")}
        returned[f"layers_{number}"] = {"norm": after}
    digit, worst = float(np.finfo(np.float32).eps), 0.0
    batch, found = of_batch(model, params, returned), blur(model, params, returned)
    for number, momentum in ((0, 0.1), (1, 0.5)):
        path = (f"layers_{number}", "norm")
        for place, name in enumerate(("mean", "variance")):
            before, after = (np.abs(tree[path[0]]["norm"][name].astype(float)) for tree in (params, returned))
            np.testing.assert_allclose(found[path][place], digit * ((before + after) / momentum + after), rtol=1e-6)
        variance = batch[path][1] + model.norms[path].epsilon
        worst = max(worst, float(np.max(found[path][1] / (2 * variance))))
    assert deviation_blur(model, params, returned) == pytest.approx(worst, rel=1e-6)


def test_statistics_are_those_of_the_masks_of_the_gradient(world: Any) -> None:
    """A client of one local step draws them under that step's key."""
    layer = Layer(GCNConv(5), "tanh", norm=TRAINING, dropout=0.5)
    model = GNN(world.space.width, (layer, Layer(GCNConv(4), "tanh", norm=TRAINING)), Pooled(mlp=MLP((2,))))
    params, graph, key = some_params(model), world.graph(6, 0), jax.random.key(4)
    sent = fedavg(model, params, [graph], world.space, loss="bce", local=LocalTraining(0.1), key=key)
    first: Any = client_keys(model, Defense(), key)[0]
    masks = mask_key(jax.random.split(jax.random.fold_in(first, 0), 1)[0])
    dense = dense_of(graph, world)
    wanted = jax.jit(jax.grad(lambda p: graph_loss(model, p, dense, jnp.asarray(graph.y), "bce", masks=masks)))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6), sent.update, wanted)
    of_masks, without = (moved(model, params, dense, own) for own in (masks, None))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), sent.statistics, of_masks)
    assert not np.allclose(of_masks["layers_1"]["norm"]["mean"], without["layers_1"]["norm"]["mean"])
