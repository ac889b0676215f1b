"""Defended clients, FedAvg clients, and training under a defence."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from models import some_params

from jgleak.defenses import parse
from jgleak.federated import LocalTraining, Observation, fedavg, fedsgd, load, rounds, save
from jgleak.federated.client import client_keys, gradients
from jgleak.federated.rounds import TrainingPlan, accuracy, federate, outputs
from jgleak.gnn import GNN, Flattened, GCNConv, Layer
from jgleak.graph import Graph, GraphBatch

KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def client(world: Any) -> dict[str, Any]:
    model = world.model()
    return {"model": model, "params": world.params(model), "graphs": [world.graph(6, 1)], "space": world.space}


def entries(observation: Observation) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(observation.update)])


def test_the_update_is_the_defended_gradient(client: dict[str, Any]) -> None:
    plain = entries(fedsgd(**client, loss="bce"))
    noisy = entries(fedsgd(**client, loss="bce", defense=parse("gaussian:0.01"), key=KEY)) - plain
    assert noisy.std() == pytest.approx(0.01, rel=0.2)
    clipped = entries(fedsgd(**client, loss="bce", defense=parse("clip:0.001"), key=KEY))
    np.testing.assert_allclose(clipped, plain * 0.001 / np.linalg.norm(plain), rtol=1e-4, atol=1e-9)


def test_activation_noise_vanishes_with_its_size_and_hits_the_loss_inside(client: dict[str, Any]) -> None:
    plain = entries(fedsgd(**client, loss="bce"))
    gaps = [
        np.linalg.norm(entries(fedsgd(**client, loss="bce", defense=parse(f"activations:{s}"), key=KEY)) - plain)
        for s in (1e-3, 1e-2, 1e-1)
    ]
    assert 0 < gaps[0] < gaps[1] < gaps[2]
    assert gaps[0] == pytest.approx(gaps[1] / 10, rel=0.3)  # to first order


def test_a_local_step_disturbs_layers_under_its_own_key(client: dict[str, Any]) -> None:
    noise = parse("activations:0.1")
    sent = fedavg(**client, loss="bce", local=LocalTraining(0.1), defense=noise, key=KEY)
    inside: Any = client_keys(client["model"], noise, KEY)[0]
    batch, own = GraphBatch.from_graphs(client["graphs"], client["space"]), jax.random.fold_in(inside, 0)
    alone = gradients(client["model"], client["params"], batch, loss="bce", defense=noise, key=own)
    wanted = np.concatenate([np.asarray(leaf, np.float64)[0].ravel() for leaf in jax.tree.leaves(alone)])
    np.testing.assert_allclose(entries(sent), wanted, rtol=1e-4, atol=1e-7)


def test_a_local_client_needs_labels_and_gets_the_slots_of_its_readout(client: dict[str, Any], world: Any) -> None:
    graph = client["graphs"][0]
    with pytest.raises(ValueError, match="a graph has no label y, so it has no gradient"):
        fedavg(**{**client, "graphs": [Graph(graph.x, graph.edges)]}, loss="bce", local=LocalTraining(0.1))
    model = GNN(world.space.width, (Layer(GCNConv(3), "tanh"),), Flattened(6, 2))
    fitting = {"model": model, "params": some_params(model), "graphs": [graph], "space": world.space}
    one, whole = fedavg(**fitting, loss="bce", local=LocalTraining(0.1)), fedsgd(**fitting, loss="bce")
    np.testing.assert_allclose(entries(one), entries(whole), rtol=1e-5, atol=1e-8)


def test_padding_nodes_stay_silent_under_activation_noise(client: dict[str, Any]) -> None:
    """The same key gives the same noise to the nodes that are there only if padding is masked afterwards."""
    sent = fedsgd(**client, loss="bce", defense=parse("activations:1"), key=KEY)
    assert np.isfinite(entries(sent)).all()
    states = client["model"].apply(
        {"params": client["params"]},
        *(jnp.zeros((4, client["space"].width)), jnp.zeros((4, 4)), jnp.arange(4) < 2),
        parse("activations:1").disturb(key=KEY),
        method="states",
    )
    assert all(np.all(np.asarray(state)[2:] == 0) for state in states) and np.any(np.asarray(states[-1])[:2] != 0)


def test_a_defence_needs_a_key(client: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give key="):
        fedsgd(**client, loss="bce", defense=parse("gaussian:1"))


def test_one_local_step_is_fedsgd(client: dict[str, Any]) -> None:
    one = fedavg(**client, loss="bce", local=LocalTraining(0.1))
    assert one.protocol == "fedavg" and one.local == LocalTraining(0.1, steps=1)
    np.testing.assert_allclose(entries(one), entries(fedsgd(**client, loss="bce")), rtol=1e-5, atol=1e-8)


def test_local_steps_are_gradient_descent(client: dict[str, Any]) -> None:
    """Three steps by hand, one gradient after another."""
    weights, rate = client["params"], 0.2
    for _ in range(3):
        slope = fedsgd(**{**client, "params": weights}, loss="bce").update
        weights = jax.tree.map(lambda w, g: w - rate * g, weights, slope)
    moved = jax.tree.map(lambda before, after: (before - after) / (3 * rate), client["params"], weights)
    expected = np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(moved)])
    found = entries(fedavg(**client, loss="bce", local=LocalTraining(rate, steps=3)))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_a_fedavg_observation_comes_back_from_its_file(client: dict[str, Any], tmp_path: Path) -> None:
    sent = fedavg(**client, loss="bce", local=LocalTraining(0.05, steps=2))
    save(tmp_path / "o.safetensors", sent, client["space"])
    back, _ = load(tmp_path / "o.safetensors")
    assert (back.protocol, back.local) == ("fedavg", sent.local)


def test_rounds_of_clients_that_hold_everything_are_steps_of_adam(world: Any) -> None:
    """Each of two clients has all graphs, so that the mean of their updates is the mean gradient. The readout has
    slots for six nodes."""
    model = GNN(world.space.width, (Layer(GCNConv(8), "tanh"),), Flattened(6, 2))
    graphs, plan = [world.graph(5, 0), world.graph(6, 1)], TrainingPlan(rounds=3, clients=2, batch=2, rate=0.02)
    start = some_params(model)
    trained = federate(model, start, graphs, world.space, loss="ce", plan=plan, key=KEY)
    weights: Any = jax.tree.map(jnp.asarray, start)
    adam = optax.adam(0.02)
    memory = adam.init(weights)
    for _ in range(3):
        change, memory = adam.update(fedsgd(model, weights, graphs, world.space, loss="ce").update, memory)
        weights = optax.apply_updates(weights, change)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), trained, weights)
    loud = {"defense": parse("activations:100"), "plan": plan, "key": KEY}
    noisy = federate(model, start, graphs, world.space, loss="ce", **loud)
    assert max(jax.tree.leaves(jax.tree.map(lambda a, b: float(np.abs(a - b).max()), noisy, trained))) > 0.01
    told = np.asarray(outputs(model, trained, GraphBatch.from_graphs(graphs, world.space, slots=6)))
    right = told.argmax(axis=1) == [graph.y for graph in graphs]
    assert accuracy(model, trained, graphs, world.space) == np.mean(right)


def test_an_impossible_plan_is_refused(world: Any) -> None:
    model, graphs = world.model(), [world.graph(5, 0), world.graph(6, 1)]
    for fields in ({"rounds": 0}, {"clients": 0}, {"batch": 0}, {"rate": 0.0}, {"rate": np.inf}, {"rate": np.nan}):
        plan = TrainingPlan()._replace(**fields)
        with pytest.raises(ValueError, match="plan: rounds, clients and batch from 1 and a rate above 0"):
            federate(model, {}, graphs, world.space, loss="ce", plan=plan, key=KEY)
    with pytest.raises(ValueError, match="graphs: a client holds 3, but there are only 2"):
        federate(model, {}, graphs, world.space, loss="ce", plan=TrainingPlan(batch=3), key=KEY)
    with pytest.raises(ValueError, match="a graph has no label y"):
        federate(model, {}, [Graph(graphs[0].x, graphs[0].edges)], world.space, loss="ce", plan=TrainingPlan(), key=KEY)


@pytest.mark.parametrize(
    ("logits", "labels", "share"),
    [
        ([[0.1, 0.2, 0.0], [3.0, 1.0, 2.0], [-1.0, -3.0, -2.0]], [1, 0, 2], 2 / 3),
        ([[0.5], [-0.5], [0.0], [2.0]], [1, 0, 1, 1], 3 / 4),  # one output: class 1 above 0
        ([[1.0, -1.0], [1.0, 1.0]], [[[1.0, np.nan]], [[0.0, 1.0]]], 2 / 3),
    ],
)
def test_accuracy_is_the_share_that_is_right(
    logits: Any, labels: Any, share: float, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "outputs", lambda model, params, graphs: jnp.asarray(logits))
    graphs = [dataclasses.replace(world.graph(4, 0), y=np.asarray(y) if np.ndim(y) else y) for y in labels]
    assert accuracy(world.model(), {}, graphs, world.space) == pytest.approx(share)


def test_federated_training_learns_and_noise_spoils_it(world: Any) -> None:
    """The label says whether any node is red: easy to learn, impossible under overwhelming noise."""
    model = world.model(readout="pooled", readout_widths=(), hidden=8)
    graphs = []
    for seed in range(80):
        g = world.graph(5, seed)
        graphs.append(Graph(g.x, g.edges, int((g.x[:, 0] == 0).any())))
    train, test = graphs[:60], graphs[60:]
    start, plan = world.params(model), TrainingPlan(rounds=150, clients=16, batch=1, rate=0.02)
    trained = federate(model, start, train, world.space, loss="ce", plan=plan, key=KEY)
    chance = max(np.mean([g.y for g in test]), 1 - np.mean([g.y for g in test]))
    assert accuracy(model, trained, test, world.space) > chance
    spoilt = federate(
        model, start, train, world.space, loss="ce", plan=plan, key=KEY, defense=parse("clip:0.1+gaussian:10")
    )
    assert accuracy(model, spoilt, train, world.space) < accuracy(model, trained, train, world.space)


@pytest.mark.parametrize("given", ["clip:1", None, parse("clip:1").steps[0]])
def test_what_is_no_defence_is_named(client: dict[str, Any], given: Any) -> None:
    with pytest.raises(TypeError, match="defense: expected a Defense, got .*parse"):
        inspect.unwrap(client_keys)(client["model"], given, None)
