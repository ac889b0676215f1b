"""Every change does what its name says, to the part that it names alone, and nothing where there is nothing to do."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.registry import ATTACKS
from jgleak.exposure.changes import CLOSERS, OPENERS, Change, Neighbours
from jgleak.exposure.clients import Clients
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.dropout import dropping
from jgleak.exposure.returned import WHENCE, returned_rounding
from jgleak.federated import LocalTraining
from jgleak.gnn import GNN, BatchNorm, LinearEncoder, Pooled, standard
from jgleak.interop.weights import rounding
from tests.exposure.conftest import SPACE, pooled

LOCAL = LocalTraining(0.1, 12, weight_decay=1e-4, loader=2, shuffled=True, optimiser="adam")
ALL_AT_ONCE = Clients(batch_size=8, local=LOCAL, statistics=False, defense="clip:1", nodes=5)


def normed(model: GNN, training: bool) -> GNN:
    return model.clone(layers=tuple(layer.clone(norm=BatchNorm(training=training)) for layer in model.layers))


HARD = Deployment(normed(dropping(pooled(pooling="max,sum", frozen=("layers_1",)), 0.2), True), SPACE, ALL_AT_ONCE)
PLAIN = Deployment(pooled(), SPACE)
PUSHED = Deployment(pooled(), SPACE, Clients(local=LocalTraining(0.1, 2, momentum=0.9)))
TRAINING = Deployment(normed(pooled(), True), SPACE)


def named(name: str) -> Change:
    return next(change for change in (*OPENERS, *CLOSERS) if change.name.startswith(name))


def same(deployment: Deployment, **clients: Any) -> Clients:
    return dataclasses.replace(deployment.clients, **clients)


WHOLE = {"loader": None, "shuffled": False}
CLIENTS = {
    "no defence": (HARD, {"defense": ""}),
    "running statistics that": (HARD, {"statistics": True}),
    "plain gradient steps": (HARD, {"local": dataclasses.replace(LOCAL, optimiser="sgd")}),
    "one local step": (HARD, {"batch_size": 2, "local": dataclasses.replace(LOCAL, steps=1, **WHOLE)}),
    "one graph": (HARD, {"batch_size": 1, "local": dataclasses.replace(LOCAL, steps=3, **WHOLE)}),
    "running statistics kept": (TRAINING, {"statistics": False}),
    "64 graphs": (PLAIN, {"batch_size": 64}),
    "five local steps": (PLAIN, {"local": LocalTraining(0.01, 5)}),
    "Adam": (PUSHED, {"local": LocalTraining(0.1, 2, optimiser="adam")}),
    "pruning": (PLAIN, {"defense": "prune:0.9"}),
    "noise (gaussian": (PLAIN, {"defense": "gaussian:0.001"}),
    "weights that are returned": (
        PUSHED,
        {"noise": returned_rounding(PUSHED.params, PUSHED.clients.local), "whence": WHENCE},  # type: ignore[arg-type]
    ),
    "no noise in the file": (
        PLAIN.changed(clients=dataclasses.replace(PLAIN.clients, noise=1e-7, whence="rounding")),
        {"noise": None, "whence": ""},
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_clients_change_in_what_is_named(name: str) -> None:
    before, fields = CLIENTS[name]
    after = named(name).make(before)
    assert after.clients == same(before, **fields) and after.model == before.model and after.params is before.params
    assert named(name).make(after) is after, "once is enough"


READOUT = Pooled("max,sum", HARD.model.readout.mlp)  # type: ignore[attr-defined]
MODELS = {
    "all parts trained": (HARD, HARD.model.clone(frozen=())),
    "batch normalisation in evaluation": (HARD, normed(HARD.model, False)),
    "no dropout": (HARD, dropping(HARD.model, 0.0)),
    "no max": (HARD, HARD.model.clone(readout=READOUT.clone(pooling="sum"))),
    "a linear encoder": (PLAIN, PLAIN.model.clone(encoder=LinearEncoder(32))),
    "dropout in training": (PLAIN, dropping(PLAIN.model, 0.1)),
    "the maps of the input": (PLAIN, PLAIN.model.clone(frozen=("layers_0/conv/kernel",))),
    "max pooling": (PLAIN, PLAIN.model.clone(readout=PLAIN.model.readout.clone(pooling="max"))),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_change_in_what_is_named(name: str) -> None:
    before, model = MODELS[name]
    after = named(name).make(before)
    assert after.model == model and after.clients == before.clients
    assert named(name).make(after) is after, "once is enough"
    assert after.answer, "its parameters fit"


def test_every_change_has_a_row_here() -> None:
    assert len(CLIENTS) + len(MODELS) == len(OPENERS) + len(CLOSERS)


def test_rounding_of_returned_weights_is_that_of_weights_that_were_returned() -> None:
    """Beside what ``from_weights`` states of weights that came back, and a closed form."""
    local, rng = LocalTraining(0.01, 5), np.random.default_rng(0)
    assert returned_rounding({"a": np.full(3, 1.5, np.float32)}, local) == pytest.approx(
        2.0**-23 / np.sqrt(12.0) * np.sqrt(5.0) / local.length
    )
    sent = {name: rng.standard_normal((40, 30)).astype(np.float32) for name in ("a", "b")}
    back = {name: array + np.float32(1e-4) for name, array in sent.items()}
    assert returned_rounding(sent, local) == pytest.approx(rounding(sent, back, local), rel=0.05)


@pytest.mark.parametrize(("graphs", "stops"), [(1, False), (2, True)])
def test_rounded_weights_stop_the_census_of_several_graphs(graphs: int, stops: bool) -> None:
    clients = Clients(batch_size=graphs, local=LocalTraining(0.01, 3))
    stopping = Neighbours(Deployment(standard(SPACE.width, hidden=64), SPACE, clients)).stopping(ATTACKS["census"])
    assert ("weights that are returned in 32 bits" in [change.name for change in stopping]) is stops


def test_nothing_is_done_where_there_is_nothing_to_do() -> None:
    assert {change.name for change in OPENERS if change.make(PLAIN) is not PLAIN} == {
        "a linear encoder before the first layer"
    }
    idle = {change.name for change in CLOSERS if change.make(HARD) is HARD}
    assert {"dropout in training", "Adam", "64 graphs an update (or the sum of 64 clients)"} <= idle
    assert named("Adam").make(PLAIN).clients.local == LocalTraining(0.001, optimiser="adam")
    assert named("running statistics kept").make(PLAIN) is PLAIN and named("no max").make(PLAIN) is PLAIN
    by_node = Deployment(standard(SPACE.width, hidden=8), SPACE)
    assert named("max pooling").make(by_node) is by_node
    frozen = named("the maps of the input").make(by_node).model.frozen
    assert set(frozen) == {"layers_0/conv/kernel", "readout/mlp/linears_0"}
