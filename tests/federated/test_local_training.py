"""Local training against loops by hand: momentum, weight decay, loaders, and what a server reads off the weights."""

from __future__ import annotations

import dataclasses
import json
from itertools import permutations
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors import safe_open

from jgleak.attacks.distance import gradient_distances
from jgleak.federated import LocalTraining, fedavg, fedsgd, load, save
from jgleak.federated.local_training import MOST_STEPS
from jgleak.gnn.tree import at

ALL = {field.name for field in dataclasses.fields(LocalTraining)}
WAYS = [(0.0, 0.0), (0.9, 0.0), (0.0, 0.3), (0.9, 0.3)]


@pytest.mark.parametrize(("momentum", "decay"), WAYS)
def test_weights_are_what_is_left_and_what_gradients_moved(momentum: float, decay: float) -> None:
    """PyTorch's step, number by number, at every step on the way."""
    local, rng = LocalTraining(0.2, 6, momentum, decay), np.random.default_rng(0)
    gradients, first = rng.normal(size=6), 0.7
    weight, speed = first, 0.0
    for t in range(7):
        moved = sum(local.response[t - s - 1] * gradients[s] for s in range(t))
        assert weight == pytest.approx(local.kept[t] * first - 0.2 * moved, rel=1e-12)
        if t < 6:
            speed = momentum * speed + gradients[t] + decay * weight
            weight -= 0.2 * speed
    update = (local.kept[-1] * first - weight) / local.length
    assert update == pytest.approx(local.shares @ gradients, rel=1e-12) and local.shares.sum() == pytest.approx(1.0)


def test_plain_steps_count_alike() -> None:
    local = LocalTraining(0.1, 5)
    np.testing.assert_allclose(local.shares, 0.2)
    assert local.length == pytest.approx(0.5) and np.all(local.kept == 1.0)


@pytest.fixture(scope="module")
def client(world: Any) -> dict[str, Any]:
    model = world.model()
    graphs = [world.graph(n, n) for n in (4, 5, 6)]
    return {"model": model, "params": world.params(model), "space": world.space, "graphs": graphs}


def by_hand(client: dict[str, Any], local: LocalTraining, batches: list[tuple[int, ...]], still: str = "") -> Any:
    """The weights after steps on these batches, gradient by gradient; the part ``still`` is left alone."""
    weights, speed = client["params"], jax.tree.map(np.zeros_like, client["params"])
    for batch in batches:
        some = [client["graphs"][i] for i in batch]
        slope = fedsgd(**{**client, "params": weights, "graphs": some}, loss="bce").update
        speed = jax.tree.map(lambda v, g, w: local.momentum * v + g + local.weight_decay * w, speed, slope, weights)
        moved = jax.tree.map(lambda w, v: w - local.rate * v, weights, speed)
        weights = {name: client["params"][name] if name == still else part for name, part in moved.items()}
    return weights


def returned(client: dict[str, Any], local: LocalTraining, update: Any) -> Any:
    """The weights that the server got, from what it reads off them."""
    return jax.tree.map(lambda w, u: local.kept[-1] * w - local.length * u, client["params"], update)


def assert_near(found: Any, wanted: Any) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(("momentum", "decay"), WAYS[1:])
def test_a_client_takes_the_steps_of_its_optimiser(client: dict[str, Any], momentum: float, decay: float) -> None:
    local = LocalTraining(0.1, 4, momentum, decay)
    seen = fedavg(**client, loss="bce", local=local)
    assert_near(returned(client, local, seen.update), by_hand(client, local, [(0, 1, 2)] * 4))


def test_what_is_frozen_does_not_decay(client: dict[str, Any]) -> None:
    frozen = {**client, "model": client["model"].clone(frozen=("layers_0",))}
    local = LocalTraining(0.1, 3, weight_decay=0.5)
    seen = fedavg(**frozen, loss="bce", local=local)
    assert not np.any(at(seen.update, ("layers_0", "conv", "kernel")))
    found, wanted = returned(frozen, local, seen.update), by_hand(client, local, [(0, 1, 2)] * 3, still="layers_0")
    assert_near(found["readout"], wanted["readout"])


def test_a_loader_goes_through_the_graphs_pass_by_pass(client: dict[str, Any]) -> None:
    """Two graphs and then the one that is left, and again; a key shuffles none where they are not shuffled."""
    local = LocalTraining(0.2, 3, loader=2)
    seen = fedavg(**client, loss="bce", local=local, key=jax.random.key(0))
    assert local.passes(3) == 2
    assert_near(returned(client, local, seen.update), by_hand(client, local, [(0, 1), (2,), (0, 1)]))


def test_shuffled_graphs_are_all_there_in_some_order(client: dict[str, Any]) -> None:
    local = LocalTraining(0.5, 3, loader=1, shuffled=True)
    with pytest.raises(ValueError, match="key: the order of shuffled graphs"):
        fedavg(**client, loss="bce", local=local)
    orders = set()
    for seed in range(4):
        found = returned(client, local, fedavg(**client, loss="bce", local=local, key=jax.random.key(seed)).update)
        near = {}
        for order in permutations(range(3)):
            wanted = by_hand(client, local, [(i,) for i in order])
            gaps = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), found, wanted)
            near[order] = max(jax.tree.leaves(gaps))
        best = min(near, key=lambda order: near[order])
        assert near[best] < 2e-6 < min(far for order, far in near.items() if order != best)
        orders.add(best)
    assert len(orders) > 1


def test_steps_of_adam_are_stated_and_not_simulated(client: dict[str, Any], tmp_path: Path) -> None:
    adam = LocalTraining(1e-3, 1, weight_decay=0.01, optimiser="adam")
    with pytest.raises(ValueError, match="steps of 'sgd' are made here, not of 'adam'"):
        fedavg(**client, loss="bce", local=adam)
    seen = dataclasses.replace(fedavg(**client, loss="bce", local=LocalTraining(1e-3)), local=adam)
    save(tmp_path / "o", seen, client["space"])
    assert load(tmp_path / "o")[0].local == adam
    with pytest.raises(ValueError, match="not of 'adam'"):
        gradient_distances(seen, client["space"], client["graphs"][:1])


def test_a_file_tells_the_optimiser_and_plain_ones_are_as_before(client: dict[str, Any], tmp_path: Path) -> None:
    plain, whole = LocalTraining(0.1, 2), LocalTraining(0.1, 2, 0.9, 1e-4, 1, shuffled=True)
    seen = fedavg(**client, loss="bce", local=plain)
    for local, fields in ((plain, {"rate", "steps"}), (whole, ALL - {"optimiser"})):
        save(tmp_path / "o", dataclasses.replace(seen, local=local), client["space"])
        with safe_open(str(tmp_path / "o"), framework="numpy") as file:
            assert set(json.loads(file.metadata()["jgleak"])["local"]) == fields
        assert load(tmp_path / "o")[0].local == local


@pytest.mark.usefixtures("unchecked")
def test_numbers_of_numpy_are_python_s_as_files_take_them() -> None:
    rate, momentum, decay = np.array([0.5, 0.25, 0.125], np.float32)
    local = LocalTraining(rate, 2, momentum, decay)
    assert LocalTraining(**json.loads(json.dumps(dataclasses.asdict(local)))) == local


def test_a_step_takes_no_more_graphs_than_there_are(client: dict[str, Any], tmp_path: Path) -> None:
    """A file that says so is refused; a client of a federation, which all have one loader, takes all it has."""
    number = len(client["graphs"])
    seen = fedavg(**client, loss="bce", local=LocalTraining(0.1, 2, loader=number + 1))
    assert seen.local == LocalTraining(0.1, 2, loader=number)
    save(tmp_path / "o", seen, client["space"])
    wrong = dataclasses.replace(seen, local=LocalTraining(0.1, 2, loader=number + 1))
    with pytest.raises(ValueError, match=f"loader: a step takes {number + 1} graphs.* batch_size={number};"):
        save(tmp_path / "o", wrong, client["space"])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"momentum": 1.0}, "momentum: it lies in 0..1"),
        ({"momentum": -0.1}, "momentum"),
        ({"weight_decay": -1.0}, "weight_decay: it is finite and not negative"),
        ({"weight_decay": float("nan")}, "weight_decay"),
        ({"weight_decay": 30.0}, "weight_decay: 30 at a rate of 0.1 reverses the weights' signs"),
        ({"optimiser": "lion"}, "optimiser: unknown 'lion'; choose one of sgd, adam"),
        ({"optimiser": "adam", "momentum": 0.9}, "momentum: it is that of 'sgd'"),
        ({"optimiser": "adam", "weight_decay": 30.0}, "weight_decay: 30 at a rate of 0.1 reverses the weights' signs"),
        ({"loader": 0}, "loader: a step takes at least one graph"),
        ({"loader": 1.5}, "loader"),
        ({"weight_decay": float("inf")}, "weight_decay: it is finite"),
        ({"rate": 1.0, "weight_decay": 1.0}, "reverses the weights' signs"),  # nothing is left of the first step
        ({"steps": 0}, "steps: a client makes at least one local step"),
        ({"steps": 1.5}, "in whole numbers"),
        ({"steps": MOST_STEPS + 1}, "steps: attacks repeat every step; at most 10,000, got 10,001"),
        ({"rate": 0.0}, "rate: a client's learning rate lies above 0, got 0.0"),
        ({"rate": float("inf")}, "rate"),
        ({"rate": float("nan")}, "rate"),
    ],
)
def test_an_impossible_optimiser_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LocalTraining(**({"rate": 0.1, "steps": 2} | fields))
    assert LocalTraining(0.1, MOST_STEPS).steps == MOST_STEPS and LocalTraining(0.1).passes(7) == 1
