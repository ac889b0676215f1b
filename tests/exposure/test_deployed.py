"""What is said to leak of the eight deployed models, beside facts of real clients with molecules."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import optax
import pytest

from jgleak.attacks.facts.registry import facts
from jgleak.datasets import MOLECULE_SPACE, load
from jgleak.exposure.reading import DEPLOYED
from jgleak.exposure.registry import exposure_of
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.graph import Graph

pytestmark = pytest.mark.slow


def labelled(graph: Graph, number: int, tasks: int) -> Graph:
    if tasks == 2:
        return dataclasses.replace(graph, y=number % 2)
    return dataclasses.replace(graph, y=(np.arange(tasks)[None] % 3 == number % 3).astype(float))


def returned(name: str, graphs: list[Graph]) -> Observation:
    """The update of a client of a deployed model, with its dropout and optimiser; with norms in training mode of one
    step on one graph, else of three."""
    deployment = DEPLOYED[name].deployment(MOLECULE_SPACE)
    model, local = deployment.model, deployment.clients.local
    assert local is not None
    optimiser: Any = optax.sgd(local.rate)
    if local.optimiser == "adam":
        optimiser = optax.adamw(local.rate, weight_decay=local.weight_decay)
    state, params, steps = optimiser.init(deployment.params), deployment.params, 1 if model.returns_statistics else 3
    for step in range(steps):
        some, key = graphs[:1] if model.returns_statistics else graphs, jax.random.key(step)
        seen = fedsgd(model, params, some, MOLECULE_SPACE, loss=deployment.loss, key=key)
        change, state = optimiser.update(seen.update, state, params)
        params = jax.device_get(optax.apply_updates(params, change))
    moved = jax.tree.map(lambda a, b: (np.asarray(a) - b) / (local.rate * steps), deployment.params, params)
    first = fedsgd(model, deployment.params, some, MOLECULE_SPACE, loss=deployment.loss, key=jax.random.key(0))
    trained = {"protocol": "fedavg", "local": LocalTraining(local.rate, steps)}
    return dataclasses.replace(first, update=model.trained(moved), **trained)


@pytest.mark.parametrize("name", DEPLOYED)
def test_what_leaks_for_certain_is_found_and_true(name: str) -> None:
    exposure = exposure_of(DEPLOYED[name].deployment(MOLECULE_SPACE))
    outputs = exposure.deployment.model.outputs
    graphs = [labelled(g, k, outputs) for k, g in enumerate(load("embedded", graphs=4, max_nodes=10).graphs)]
    seen = returned(name, graphs)
    found = facts(seen, MOLECULE_SPACE).found
    assert {finding.shown_by for finding in exposure.of("leaks")} >= {"fact:feature_values"}
    rows = np.concatenate([graph.x for graph in graphs[: seen.batch_size]])
    space = MOLECULE_SPACE
    for feature, values in found["feature_values"].value.items():
        column = space.index(feature)
        assert set(values) <= {space.features[column].values[code] for code in rows[:, column]}
    assert len(found["feature_values"].value["atomic_number"]) >= 2
    assert [f.id for f in exposure.of("leaks")] in (["input-rows"], ["embedding-rows"]), "labels of batches may show"
