"""Labels of nodes from the gradients of a readout's maps: as few maps as tell the nodes apart, and counts."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks import node_labels as module
from jgleak.attacks.distance import _dense
from jgleak.attacks.node_labels import node_labels
from jgleak.federated import fedsgd


@pytest.mark.parametrize(("last", "maps"), [(16, 1), (8, 2)])
def test_maps_are_asked_until_nodes_are_told_apart(
    last: int, maps: int, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten different nodes: eight units and a bias do not tell them apart."""
    model = lab.model(classes=2, hidden=32, readout_widths=(40, last), per_node=True)
    labels = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 0])
    truth = dataclasses.replace(lab.path([0, 1, 2, 3, 0, 2, 1, 3, 3, 0]), y=labels)
    observation, own, asked = lab.observe(model, truth), module._output_slopes, list[Any]()
    monkeypatch.setattr(module, "_output_slopes", lambda *given: asked.append(given[-1]) or own(*given))
    graph = _dense(observation, lab.space, truth)
    assert graph is not None
    np.testing.assert_array_equal(node_labels(observation, graph), labels)
    assert asked == list(model.nearest_output[:maps])


@pytest.mark.parametrize("loss", ["ce", "bce"])
def test_one_of_ten_equal_nodes_has_the_class_of_which_the_model_is_sure(loss: str, lab: Any) -> None:
    model = lab.model(classes=3, hidden=8, readout_widths=(6,), per_node=True)
    params = jax.tree.map(np.copy, lab.params(model))
    for leaf in model.readout.last(model.readout_of(params)).values():
        leaf *= 30
    bare = lab.graph([0] * 10, [], np.zeros(10, int))
    graph = _dense(fedsgd(model, params, [bare], lab.space, loss=loss), lab.space, bare)
    assert graph is not None
    outputs = np.asarray(model.apply({"params": params}, *jax.tree.map(jnp.asarray, graph)))[0]
    sure = int(outputs.argmax())
    assert np.sort(outputs)[-1] - np.sort(outputs)[-2] > 3.0
    labels = np.array([sure, *[(sure + 1) % 3] * 9])
    observation = fedsgd(model, params, [dataclasses.replace(bare, y=labels)], lab.space, loss=loss)
    assert sorted(node_labels(observation, graph).tolist()) == sorted(labels.tolist())
