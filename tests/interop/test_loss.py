"""A loss that the last bias's gradient contradicts is refused, and the right one passes."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from models import some_params

from jgleak.attacks.closed_form.labels import contradiction
from jgleak.datasets import load
from jgleak.federated import LocalTraining, fedsgd
from jgleak.gnn import MLP, Pooled, standard
from jgleak.interop import GCN, Client, Example, Linear, by_name, edge_arrays, from_arrays, from_weights

LABELS = np.array([[0, 1, np.nan, 1, 0, 0]])


@pytest.mark.parametrize("right", ["masked_bce", "ce", "bce", "masked_mae"])
def test_only_what_the_last_bias_allows_passes(right: str) -> None:
    data = load("embedded", graphs=1, max_nodes=8)
    graph = dataclasses.replace(data.graphs[0], y=LABELS if right.startswith("masked") else 2)
    readout = Pooled("mean", MLP((8, 6)))
    model = standard(data.space.width, "gcn", readout, layers=1, hidden=8)
    seen = fedsgd(model, some_params(model), [graph], data.space, loss=right)
    assert contradiction(seen) is None
    wrong = {"masked_bce": {"ce", "bce", "masked_mae"}, "bce": {"ce", "masked_mae"}, "masked_mae": {"ce", "bce"}}
    for name in wrong.get(right, {"masked_mae"}):
        assert contradiction(dataclasses.replace(seen, loss=name)), name


@pytest.fixture(scope="module")
def tasks() -> dict[str, Any]:
    """Arrays, gradients and forward pass of a client with six binary tasks, and its own graph as the example."""
    data = load("embedded", graphs=1, max_nodes=8)
    graph = dataclasses.replace(data.graphs[0], y=LABELS)
    model = standard(data.space.width, "gcn", Pooled("mean", MLP((8, 6))), layers=1, hidden=8)
    params = some_params(model)
    seen = fedsgd(model, params, [graph], data.space, loss="masked_bce")
    inputs = (jnp.asarray(data.space.encode(graph.x)), jnp.asarray(graph.adjacency), jnp.ones(graph.n, bool))
    output = np.asarray(model.apply({"params": params}, *inputs))
    trees = [
        {"conv": tree["layers_0"]["conv"], **{f"lin{i}": tree["readout"]["mlp"][f"linears_{i}"] for i in range(2)}}
        for tree in (seen.params, seen.update)
    ]
    layers = [GCN("conv"), model.layers[0].act, "mean", Linear("lin0"), model.readout.mlp.act, Linear("lin1")]
    example = Example(*edge_arrays(graph, data.space), output)
    return {"state": trees[0], "gradients": trees[1], "layers": layers, "example": example}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("ce", "under 'ce' the last bias's gradient adds up to zero, and here it does not; .* the loss is masked_bce"),
        ("bce", "has 2 negative entries and 1 zeros, which no class has under 'bce'; .* the loss is masked_bce"),
        ("bce+smoothing:0.1", "has 2 negative entries and 1 zeros, which no class has under 'bce.smoothing"),
        ("mse", "'mse' is the squared error of one output, this model has 6 outputs; several tasks take 'masked_mse'"),
        ("masked_mae", "under 'masked_mae' all labels pull alike at the last bias"),
        ("masked_mae+over:all", "under 'masked_mae' all labels pull alike at the last bias"),
    ],
)
def test_tasks_under_the_name_of_another_loss_are_refused(wrong: str, message: str, tasks: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"loss: .*{message}"):
        from_arrays(**tasks, loss=wrong)


def test_the_labels_tell_losses_apart_that_the_last_bias_does_not(tasks: dict[str, Any]) -> None:
    labelled = {**tasks, "example": dataclasses.replace(tasks["example"], labels=LABELS)}
    assert from_arrays(**labelled, loss="masked_bce").loss == "masked_bce"
    from_arrays(**tasks, loss="masked_mse")  # targets may be any numbers
    with pytest.raises(ValueError, match="gradient: it differs from that of the example's loss"):
        from_arrays(**labelled, loss="masked_mse")
    one = {**tasks, "example": dataclasses.replace(tasks["example"], labels=np.array([1]))}
    with pytest.raises(ValueError, match="1 labels for 1 graph of 6 tasks; of one class a graph the loss is 'ce'"):
        from_arrays(**one, loss="masked_bce")


def test_rows_of_labels_are_no_class(tasks: dict[str, Any]) -> None:
    """A gradient of one positive task among six looks like that of a class; its labels do not."""
    gradients = {**tasks["gradients"], "lin1": {**tasks["gradients"]["lin1"], "bias": np.array([1, -3, 1, 1, 2, 1.0])}}
    for labels, seen in ((LABELS, "of which some are missing"), (np.eye(6)[:1], "and none is missing")):
        example = dataclasses.replace(tasks["example"], labels=labels)
        with pytest.raises(ValueError, match=f"loss: under it a graph has one label, .* 6, {seen}; where"):
            from_arrays(**{**tasks, "gradients": gradients, "example": example}, loss="bce")


def test_probabilities_that_are_0_or_1_in_32_bits_contradict_no_loss(tasks: dict[str, Any]) -> None:
    """A confident client: what is left of its last bias's gradient is rounding, and zeros."""

    def bias(*entries: float) -> dict[str, Any]:
        slopes = {**tasks["gradients"]["lin1"], "bias": np.array(entries, np.float32)}
        return {**tasks, "gradients": {**tasks["gradients"], "lin1": slopes}}

    from_arrays(**bias(-2.4e-7, 1.1e-7, 2e-8, 0, 0, 0), loss="ce")
    from_arrays(**bias(-0.5, 0.5, 0, 0, 0, 0), loss="ce")
    from_arrays(**bias(0, 1e-3, 1e-3, 2e-3, 1e-9, 3e-5), loss="bce")
    for entries, loss in (((-0.5, 0.2, 0, 0, 0, 0), "ce"), ((-0.5, 0, 0.1, 0.1, 0.1, 0.1), "bce")):
        with pytest.raises(ValueError, match="^loss: "):
            from_arrays(**bias(*entries), loss=loss)
    with pytest.raises(ValueError, match="has 0 negative entries and 2 zeros"):
        from_arrays(**bias(0, 0, 0.1, 0.1, 0.1, 0.1), loss="bce")


def test_weights_show_a_wrong_loss_too(tasks: dict[str, Any]) -> None:
    """Their rounding is noise that is allowed for; noise above the entries hides what they are."""
    before = by_name(tasks["state"])
    after = {name: weight - np.float32(0.1) * by_name(tasks["gradients"])[name] for name, weight in before.items()}
    given = {"layers": tasks["layers"], "example": tasks["example"]}
    client = Client(local=LocalTraining(0.1))
    for wrong in ("ce", "bce", "masked_mae"):
        with pytest.raises(ValueError, match="^loss: .*(masked_bce|look at the loss)"):
            from_weights(before, after, **given, loss=wrong, client=client)
        assert from_arrays(**tasks, loss=wrong, client=Client(noise=1.0)).loss == wrong
    assert from_weights(before, after, **given, loss="masked_bce", client=client).noise is not None
