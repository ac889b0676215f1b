"""Attacks on twelve tasks with missing labels: exact ones stay exact, matching takes the labels or refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from models import flat, some_params

from jgleak.attacks.attack import Budget
from jgleak.attacks.registry import ATTACKS, get_attack
from jgleak.datasets import load
from jgleak.defenses import parse
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.graph import Graph

TASKS = 12
LOSS = "masked_bce"


def labelled(graph: Graph, seed: int) -> Graph:
    """With random labels, of which a quarter are missing."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=(1, TASKS)).astype(float)
    labels[0, rng.permutation(TASKS)[:3]] = np.nan
    return dataclasses.replace(graph, y=labels)


def attack(name: str, observation: Observation, knowledge: Knowledge, **options: str) -> Any:
    chosen = get_attack(name)
    chosen = chosen.with_options(options) if options else chosen
    return chosen(observation, knowledge, key=jax.random.key(0), budget=Budget(time_limit=60.0))


def same_labels(found: Graph, truth: Graph) -> bool:
    return np.array_equal(found.y, truth.y, equal_nan=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["census", "grain"])
@pytest.mark.parametrize(
    "fields", [{}, {"readout": "pooled", "layers": 3, "last_act": True}], ids=["node_mlp", "pooled"]
)
@pytest.mark.long
def test_exact_attacks_stay_exact(name: str, fields: dict[str, Any], lab: Any) -> None:
    model = lab.model(classes=TASKS, **fields)
    graphs = lab.path([1]), lab.ring([0, 0, 1, 2, 3])
    for seed, graph in enumerate(graphs):
        truth = labelled(graph, seed)
        found = attack(name, lab.observe(model, truth, LOSS), Knowledge(lab.space, max_n=10))
        assert found.stop == "match" and any(one.isomorphic(truth) for one in found.graphs)
        assert all(same_labels(one, truth) for one in found.graphs)
        assert (found.certificate is not None) == (name == "census")


@pytest.mark.parametrize("loss", ["masked_mse", "masked_mae", "masked_bce+pos_weight:" + ",".join(["4"] * TASKS)])
def test_the_census_reads_the_other_losses_of_several_tasks(loss: str, lab: Any) -> None:
    truth, model = labelled(lab.random(6, 3), 1), lab.model(classes=TASKS)
    found = attack("census", lab.observe(model, truth, loss), Knowledge(lab.space, max_n=10))
    assert found.stop == "match" and found.best.isomorphic(truth)
    if loss == "masked_mae":
        assert found.best.y is None
    else:
        np.testing.assert_allclose(found.best.y, truth.y, atol=1e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "defense",
    [*(pytest.param(one, marks=pytest.mark.slow) for one in ("gaussian:1e-5", "clip:0.01")), "clip:0.01+gaussian:1e-8"],
)
@pytest.mark.long
def test_the_census_finds_labels_behind_noise_and_clipping(defense: str, lab: Any) -> None:
    """No task's derivative is exactly zero under noise: labels are those that fit best."""
    truth, model, stated = labelled(lab.random(7, 1), 1), lab.model(classes=TASKS), parse(defense)
    kept: dict[str, Any] = {"loss": LOSS, "defense": stated, "key": jax.random.key(0)}
    observation = fedsgd(model, lab.params(model), [truth], lab.space, **kept)
    knowledge = Knowledge(lab.space, max_n=10, noise=stated.deviation(observation.update))
    found = attack("census", observation, knowledge)
    assert found.stop == "match" and found.best.isomorphic(truth) and same_labels(found.best, truth)


@pytest.mark.parametrize("readout", ["node_mlp", pytest.param("pooled", marks=pytest.mark.slow)])
@pytest.mark.long
def test_the_census_certifies_molecules(readout: str) -> None:
    data = load("embedded", max_nodes=12)
    model = flat(
        in_features=data.space.width, hidden=128, classes=TASKS, readout=readout, readout_widths=(64,), last_act=True
    )
    params = some_params(model, seed=2)
    for seed, graph in enumerate(data.graphs[:1]):
        truth = labelled(graph, seed)
        observation = fedsgd(model, params, [truth], data.space, loss=LOSS)
        found = attack("census", observation, Knowledge(data.space))
        assert found.stop == "match" and found.certificate.status in ("unique", "k_graphs")
        assert any(one.isomorphic(truth) for one in found.graphs)
        assert all(same_labels(one, truth) for one in found.graphs)


def small(lab: Any, readout: str = "pooled") -> Any:
    fields = {"readout": "flattened", "slots": 8, "conv": "sage", "act": "sigmoid", "bias": True}
    fields = fields if readout == "flattened" else {"readout": readout, "readout_widths": (), "layers": 1}
    return lab.model(classes=TASKS, hidden=16, **fields)


@pytest.mark.parametrize("name", ["dlg", "tableak", "graphdlg", "empty"])
def test_other_attacks_name_the_labels(name: str, lab: Any) -> None:
    """Where they search for labels otherwise, they take those that the gradient's signs and zeros tell."""
    truth = labelled(lab.random(6, 3), 1)
    public = tuple(lab.random(6, seed) for seed in range(40, 44))
    knowledge = Knowledge(lab.space, n=truth.n, auxiliary=public)
    found = attack(name, lab.observe(small(lab), truth, LOSS), knowledge, **({"steps": "5"} if name != "empty" else {}))
    assert same_labels(found.best, truth) and np.isfinite(found.gradient_distance)
    given = dataclasses.replace(knowledge, labels=labelled(truth, 2).y)
    found = attack(name, lab.observe(small(lab), truth, LOSS), given, **({"steps": "5"} if name != "empty" else {}))
    assert same_labels(found.best, labelled(truth, 2)), "what is known is believed"


def test_the_closed_form_names_the_labels(lab: Any) -> None:
    truth = labelled(lab.random(6, 3), 1)
    found = attack("closed-form", lab.observe(small(lab, "flattened"), truth, LOSS), Knowledge(lab.space))
    assert found.best is not None and same_labels(found.best, truth)


def test_matching_takes_the_labels_of_a_batch(lab: Any) -> None:
    graphs = [labelled(lab.random(6, seed), seed) for seed in (1, 2)]
    model = small(lab)
    observation = fedsgd(model, lab.params(model), graphs, lab.space, loss=LOSS)
    labels = np.concatenate([np.asarray(g.y) for g in graphs])
    found = attack("dlg", observation, Knowledge(lab.space, n=6, labels=labels), steps="5")
    assert all(same_labels(one, graph) for one, graph in zip(found.graphs, graphs, strict=True))
    with pytest.raises(ValueError, match=r"labels: expected a row of 12 tasks for each graph, NaN for missing, got"):
        attack("dlg", observation, Knowledge(lab.space, n=6, labels=np.zeros((2, 3))), steps="5")


@pytest.mark.parametrize(
    ("changes", "noise", "message"),
    [
        ({"batch_size": 2}, None, "the gradient sums over the task labels of several graphs"),
        ({}, 0.1, "noise hides which task labels are missing"),
        ({"loss": "masked_mae"}, None, "on which side of the output a target lies"),
    ],
)
def test_matching_without_labels_is_refused_by_reason(changes: Any, noise: Any, message: str, lab: Any) -> None:
    observation = dataclasses.replace(lab.observe(small(lab), labelled(lab.random(6, 3), 1), LOSS), **changes)
    knowledge = Knowledge(lab.space, n=6, noise=noise, auxiliary=(lab.random(6, 3),))
    matched = [attack for attack in ATTACKS.values() if "fedsgd" in attack.protocols and attack.many is not None]
    for each in matched:
        if each.name not in ("graphdlg", "graphdlg-no-adapter"):
            reason = str(each.refusal(observation, knowledge))
            assert message in reason and "give them (--know labels)" in reason, each.name
