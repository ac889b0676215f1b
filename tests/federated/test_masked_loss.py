"""Losses of several tasks with missing labels, and label smoothing: against NumPy, PyTorch and differences."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import expit

from jgleak.federated import Loss, fedavg, fedsgd, load, save
from jgleak.federated.client import gradients
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import MASKED, MEANS, graph_loss, label_loss
from jgleak.federated.rounds import accuracy
from jgleak.graph import Graph, GraphBatch

NAN = np.nan
OUTPUTS = np.array([[0.7, -1.2, 2.5, 0.1], [-0.3, 0.9, -2.0, 1.4]])
LABELS = np.array([[1.0, 0.0, NAN, 1.0], [NAN, 1.0, 0.0, NAN]])
WEIGHTS = (2.0, 0.5, 3.0, 1.5)


@partial(jax.jit, static_argnums=2)
def batch_loss(outputs: Any, labels: Any, loss: Loss) -> Any:
    """The loss of a batch as clients compute it: the mean of its graphs' losses."""
    labels = jnp.asarray(labels)
    return jax.vmap(lambda row, y, w: label_loss(row, y, loss, w))(outputs, labels, loss.entry_weights(labels)).mean()


def by_numpy(outputs: np.ndarray, labels: np.ndarray, loss: Loss) -> float:
    """The same from its definition, entry by entry."""
    total: dict[Any, list[float]] = {}
    graphs, tasks = labels.shape
    for b in range(graphs):
        for t in range(tasks):
            z, y = outputs[b, t], labels[b, t]
            if np.isnan(y):
                value = 0.0
            elif loss.name == "masked_bce":
                weight = loss.pos_weight[t] if loss.pos_weight else 1.0
                value = -weight * y * np.log(expit(z)) - (1 - y) * np.log(expit(-z))
            else:
                value = (z - y) ** 2 if loss.name == "masked_mse" else abs(z - y)
            if not np.isnan(y) or loss.over == "all":
                total.setdefault({"graph": b, "task": t}.get(loss.over), []).append(value)
    means = [float(np.mean(values)) for values in total.values()]
    return sum(means) / {"graph": graphs, "task": tasks}.get(loss.over, 1)


@pytest.mark.parametrize("over", MEANS)
@pytest.mark.parametrize("name", MASKED)
def test_the_closed_form(name: str, over: str) -> None:
    rng = np.random.default_rng(0)
    outputs = rng.normal(scale=2, size=(5, 4))
    labels = rng.integers(2, size=(5, 4)).astype(float)
    labels[rng.random((5, 4)) < 0.4] = NAN
    labels[:, 2] = NAN  # nobody has a label of this task
    for weights in ((), WEIGHTS)[: 2 if name == "masked_bce" else 1]:
        loss = Loss(name, pos_weight=weights, over=over)
        with jax.enable_x64(True):
            found = float(batch_loss(jnp.asarray(outputs), labels, loss))
        assert found == pytest.approx(by_numpy(outputs, labels, loss), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("masked_bce", 0.3557894124144241),  # BCEWithLogitsLoss()(z[m], y[m]) with m = y == y, as OGB has it
        ("masked_bce+over:task", 0.36918222275926527),  # kMoL's MaskedLoss: means of columns, then their mean
        ("masked_bce+over:graph", 0.33549800082660847),
        ("masked_bce+over:all", 0.22236838275901505),
        ("masked_bce+pos_weight:2.0,0.5,3.0,1.5", 0.46675090072566405),
        ("masked_mse", 1.27),
        ("masked_mae", 0.9),
    ],
)
def test_pytorch_s_numbers(text: str, wanted: float) -> None:
    with jax.enable_x64(True):
        assert float(batch_loss(jnp.asarray(OUTPUTS), LABELS, Loss.of(text))) == pytest.approx(wanted, rel=1e-7)


def test_pytorch_s_gradient_with_pos_weight() -> None:
    wanted = [
        [-0.13272489113273353, 0.04629504330019648, 0.0, -0.142506243756318],
        [0.0, -0.028905049737499612, 0.02384058440442351, 0.0],
    ]
    with jax.enable_x64(True):
        found = jax.grad(batch_loss)(jnp.asarray(OUTPUTS), LABELS, Loss("masked_bce", pos_weight=WEIGHTS))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert not found[np.isnan(LABELS)].any()


def test_label_smoothing() -> None:
    logits, labels = np.array([[0.7, -1.2, 2.5], [-0.3, 0.9, -2.0]]), jnp.array([2, 0])
    with jax.enable_x64(True):
        found = label_loss(jnp.asarray(logits), labels, "ce+smoothing:0.2")
        np.testing.assert_allclose(found, [0.5406388094882799, 1.5380328580566074], rtol=1e-12)  # PyTorch's
        smooth = optax.smooth_labels(jax.nn.one_hot(labels, 3), 0.2)
        np.testing.assert_allclose(found, optax.softmax_cross_entropy(jnp.asarray(logits), smooth), rtol=1e-12)
        towards_half = 0.8 * np.eye(3)[[2, 0]] + 0.2 / 2
        wanted = optax.sigmoid_binary_cross_entropy(jnp.asarray(logits), jnp.asarray(towards_half)).mean(axis=1)
        np.testing.assert_allclose(label_loss(jnp.asarray(logits), labels, "bce+smoothing:0.2"), wanted, rtol=1e-12)


def test_two_outputs_under_smoothed_ce_are_one_under_smoothed_bce() -> None:
    """With logits (0, z) the softmax is the sigmoid, and both smoothings draw towards a half."""
    z, label = jnp.array([0.9]), jnp.array(1)
    both = label_loss(jnp.array([0.0, 0.9]), label, "ce+smoothing:0.3")
    alone = optax.sigmoid_binary_cross_entropy(z, 0.7 + 0.15)
    np.testing.assert_allclose(both, alone[0], rtol=1e-6)


def tasks(world: Any, outputs: int, count: int, name: str = "masked_bce") -> list[Graph]:
    """Graphs with rows of labels, each with some that are missing."""
    rng, found = np.random.default_rng(outputs), []
    for seed in range(count):
        row = rng.integers(2, size=(1, outputs)) + (0.0 if name == "masked_bce" else rng.normal(size=(1, outputs)))
        row[0, rng.permutation(outputs)[: 1 + seed % (outputs - 1)]] = NAN
        found.append(dataclasses.replace(world.graph(5, seed), y=row))
    return found


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("readout", ["node_mlp", "pooled"])
def test_gradients_agree_with_differences_and_missing_tasks_have_none(name: str, readout: str, world: Any) -> None:
    model, graph = world.model(readout=readout, classes=6, act="tanh"), tasks(world, 6, 3, name)[2]
    with jax.enable_x64(True):
        batch = GraphBatch.from_graphs([graph], world.space)
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, np.float64), world.params(model))
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf[0], np.float64 if leaf.dtype == np.float32 else None), batch)
        flat, unravel = ravel_pytree(params)
        loss = jax.jit(lambda p: graph_loss(model, unravel(p), one.dense, one.labels, name))
        gradient = jax.jit(jax.grad(loss))(flat)
        direction = np.random.default_rng(3).normal(size=flat.shape)
        slope = (loss(flat + 1e-6 * direction) - loss(flat - 1e-6 * direction)) / 2e-6
        assert abs(slope - gradient @ direction) < 1e-8 * np.linalg.norm(gradient) * np.linalg.norm(direction)
        last = model.readout.last(model.readout_of(unravel(gradient)))
    missing = np.isnan(np.asarray(graph.y)[0])
    for leaf in (np.atleast_2d(last["bias"]), last["kernel"]):
        assert not leaf[:, missing].any() and np.abs(leaf[:, ~missing]).max(axis=0).min() > 0


@pytest.mark.parametrize("over", MEANS)
def test_a_client_sends_the_gradient_of_its_batch_s_loss(over: str, world: Any) -> None:
    """Of OGB's mean over all present labels too, which is no mean of the graphs' own losses."""
    model, graphs, loss = world.model(classes=4), tasks(world, 4, 3), Loss("masked_bce", over=over)
    params, batch = world.params(model), GraphBatch.from_graphs(graphs, world.space)

    def whole(params: Any) -> Any:
        outputs: Any = jax.vmap(lambda graph: model.apply({"params": params}, *graph))(batch.dense)
        return batch_loss(outputs, batch.labels, loss)

    wanted = jax.jit(jax.grad(whole))(params)
    sent = fedsgd(model, params, graphs, world.space, loss=loss)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), sent.update, wanted)
    assert sent.loss == str(loss)
    trained = fedavg(model, params, graphs, world.space, loss=loss, local=LocalTraining(0.1))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), trained.update, wanted)
    alone = fedsgd(model, params, graphs[:1], world.space, loss=loss).update
    first = jax.tree.map(lambda leaf: leaf[0], gradients(model, params, batch, loss=loss))
    same = all(np.allclose(a, b, rtol=1e-4) for a, b in zip(*map(jax.tree.leaves, (alone, first)), strict=True))
    assert same == (over in ("graph", "all"))


def test_accuracy_counts_the_labels_that_are_present(world: Any) -> None:
    model, graphs = world.model(classes=4), tasks(world, 4, 5)
    params = world.params(model)
    batch = GraphBatch.from_graphs(graphs, world.space)
    outputs: Any = jax.jit(jax.vmap(lambda graph: model.apply({"params": params}, *graph)))(batch.dense)
    labels: Any = batch.labels
    right = [(z > 0) == y for z, y in zip(np.ravel(outputs), labels.ravel(), strict=True) if not np.isnan(y)]
    assert accuracy(model, params, graphs, world.space) == pytest.approx(np.mean(right))


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (Loss("ce"), "ce"),
        (Loss("ce", smoothing=0.1), "ce+smoothing:0.1"),
        (Loss("masked_bce", pos_weight=(0.1, 1 / 3)), f"masked_bce+pos_weight:0.1,{1 / 3!r}"),
        (Loss("masked_mae", over="task"), "masked_mae+over:task"),
        (Loss("masked_bce", pos_weight=(2.0,), over="all"), "masked_bce+pos_weight:2.0+over:all"),
    ],
)
def test_a_loss_and_its_text(loss: Loss, text: str) -> None:
    assert str(loss) == text and Loss.of(text) == loss == Loss.of(loss) and hash(Loss.of(text)) == hash(loss)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hinge", "loss: unknown 'hinge'; choose one of bce, ce, mse, masked_bce, masked_mse, masked_mae"),
        ("mse+smoothing:0.1", "loss: 'mse' has no option 'smoothing'; bce, ce has it"),
        ("masked_mse+pos_weight:2", "loss: 'masked_mse' has no option 'pos_weight'"),
        ("ce+over:task", "loss: 'ce' has no option 'over'"),
        ("ce+temperature:2", "loss: 'temperature:2' is no option; expected smoothing:NUMBER"),
        ("ce+smoothing", "loss: 'smoothing' is no option"),
        ("ce+smoothing:0.1+smoothing:0.1", "each once"),
        ("ce+smoothing:much", "loss: expected numbers in 'smoothing:much'"),
        ("ce+smoothing:0.1,0.2", "loss: smoothing is one number, got '0.1,0.2'"),
        ("ce+smoothing:1", r"loss: smoothing must lie in 0\.\.1, below 1, got 1.0"),
        ("ce+smoothing:nan", "loss: smoothing must lie in"),
        ("masked_bce+pos_weight:1,-2", "loss: every pos_weight must be positive and finite"),
        ("masked_bce+pos_weight:1,0", "loss: every pos_weight must be positive and finite"),
        ("masked_bce+pos_weight:1,inf", "loss: every pos_weight must be positive and finite"),
        ("masked_bce+over:nodes", "loss: unknown mean over 'nodes'; choose one of batch, graph, task, all"),
    ],
)
def test_a_faulty_text_is_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Loss.of(text)


def test_files_keep_a_loss_with_its_options(world: Any, tmp_path: Any) -> None:
    model = world.model(classes=3)
    loss = "masked_bce+pos_weight:1.5,2.0,0.25+over:task"
    observation = world.observation(model=model, params=world.params(model), update=world.params(model, 1), loss=loss)
    save(tmp_path / "o.safetensors", observation, world.space)
    assert load(tmp_path / "o.safetensors")[0].loss == loss
    with pytest.raises(ValueError, match="2 entries of pos_weight, this model has 3 outputs"):
        dataclasses.replace(observation, loss="masked_bce+pos_weight:1,2")


def test_steps_of_a_masked_loss_take_equally_many_graphs(world: Any) -> None:
    model, graphs = world.model(classes=4), tasks(world, 4, 3)
    with pytest.raises(ValueError, match="local: 3 graphs do not fill steps of 2, and a masked loss counts labels"):
        fedavg(model, world.params(model), graphs, world.space, loss="masked_bce", local=LocalTraining(0.1, loader=2))
