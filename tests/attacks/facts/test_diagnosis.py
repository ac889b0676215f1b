"""What a file's facts say of why nothing was found, and silence where nothing is wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jgleak.attacks.facts.diagnosis import MOVED, _head, _skipped, _steps, diagnoses
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Silent
from jgleak.attacks.facts.registry import facts
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.gnn import GNN, MLP, AddedRow, GCNConv, Layer, Pooled


def model(width: int, **last: Any) -> GNN:
    layers = Layer(GCNConv(64, bias=True)), Layer(GCNConv(64, bias=True), **last)
    return GNN(width, layers, Pooled("mean", MLP((24, 3))))


@pytest.fixture(scope="module")
def seen(lab: Any) -> Observation:
    return lab.observe(model(lab.bare.width), lab.path((0, 2, 0)), "ce", lab.bare)


def times(factor: float, observed: Observation) -> Observation:
    return dataclasses.replace(observed, update=jax.tree.map(lambda g: np.float32(factor) * g, observed.update))


def test_a_clipped_update_that_says_so_is_no_fault(lab: Any, seen: Observation) -> None:
    assert diagnoses(dataclasses.replace(times(0.5, seen), scaled=True), lab.bare) == []


@pytest.mark.parametrize(
    ("change", "noise"),
    [
        (lambda o: dataclasses.replace(o, batch_size=2), None),
        (lambda o: dataclasses.replace(o, protocol="fedavg", local=LocalTraining(0.1, 3)), None),
        (lambda o: dataclasses.replace(o, update=jax.tree.map(lambda g, w: g + 0.25 * w, o.update, o.params)), None),
        (lambda o: dataclasses.replace(o, model=o.model.clone(dropout=0.5)), None),
        (lambda o: dataclasses.replace(o, pruned=True), None),
        (lambda o: o, 1e-9),
        (lambda o: two_rows(o), None),
        (lambda o: two_negative(o), None),
    ],
)
def test_a_head_is_judged_where_it_is_one_graphs_gradient_and_no_more(
    lab: Any, seen: Observation, change: Any, noise: float | None
) -> None:
    far = times(0.5, seen)
    assert list(_head(Evidence(far, lab.bare)))
    try:
        assert not list(_head(Evidence(change(far), lab.bare, noise)))
    except Silent:
        assert change(far).pruned


def _headed(observed: Observation, place: str, name: str, leaf: np.ndarray) -> Observation:
    mlp = observed.update["readout"]["mlp"]
    changed = mlp | {place: mlp[place] | {name: leaf}}
    return dataclasses.replace(observed, update=observed.update | {"readout": {"mlp": changed}})


def two_rows(observed: Observation) -> Observation:
    kernel = np.array(observed.update["readout"]["mlp"]["linears_0"]["kernel"])
    rng = np.random.default_rng(0)
    further = np.outer(rng.normal(size=kernel.shape[0]), rng.normal(size=kernel.shape[1]))
    return _headed(observed, "linears_0", "kernel", (kernel + np.abs(kernel).max() * further).astype(np.float32))


def two_negative(observed: Observation) -> Observation:
    return _headed(observed, "linears_1", "bias", np.array([-0.2, -0.1, 0.3], np.float32))


def test_nothing_is_wrong_with_an_honest_gradient(lab: Any, seen: Observation) -> None:
    assert diagnoses(seen, lab.bare) == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("0.5 times that of the loss 'ce': clipping", lambda o: times(0.5, o)),
        ("0.002 times that of the loss 'ce': clipping", lambda o: times(0.002, o)),
        ("1.5 times that of the loss 'ce': a loss that is not a mean", lambda o: times(1.5, o)),
        (
            "2 times that of the loss 'ce': the rate is not 0.1 (rate in LocalTraining), or",
            lambda o: dataclasses.replace(times(2.0, o), protocol="fedavg", local=LocalTraining(0.1)),
        ),
        ("give --loss ce", lambda o: dataclasses.replace(o, loss="bce")),
        ("stale", lambda o: dataclasses.replace(o, params=jax.tree.map(lambda w: w + 0.02 * np.sign(w), o.params))),
    ],
)
def test_what_the_file_does_not_mention_is_named(lab: Any, seen: Observation, words: str, change: Any) -> None:
    assert any(words in sentence for sentence in diagnoses(change(seen), lab.bare))


def test_local_steps_are_named_where_they_moved_rows_far(lab: Any, seen: Observation) -> None:
    """A convolution of one kernel entry, so that the share by which it moves a row is that of the entry."""

    def told(moved: float, **fields: Any) -> bool:
        local = LocalTraining(0.1, 3)
        update = jax.tree.map(np.zeros_like, seen.update)
        kernel = seen.params["layers_1"]["conv"]["kernel"]
        change = np.zeros_like(kernel)
        change[2, 0] = moved / local.length * np.linalg.norm(kernel[2])
        update["layers_1"]["conv"]["kernel"] = change
        steps = dataclasses.replace(seen, update=update, protocol="fedavg", local=local, **fields)
        return any(
            "3 local steps of 0.1 a convolution moved rows by" in said for said in _steps(Evidence(steps, lab.bare))
        )

    assert told(1.01 * MOVED) and not told(0.99 * MOVED)
    assert not told(1.01 * MOVED, scaled=True), "the length is not that of the steps"


@pytest.mark.parametrize("rate", [1e-3, 0.1])
def test_adam_that_is_stated_as_plain_steps_is_named(lab: Any, seen: Observation, rate: float) -> None:
    """The first step of optax's Adam, from weights in 32 bits; plain steps of the same client say nothing."""
    for optimiser, named in ((optax.adam(1e-3), True), (optax.sgd(1e-3), False)):
        sent = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), seen.params)
        steps, _ = optimiser.update(jax.tree.map(jnp.asarray, seen.update), optimiser.init(sent), sent)
        back = optax.apply_updates(sent, steps)
        lost = jax.tree.map(lambda a, b: (np.asarray(a, np.float64) - np.asarray(b)) / rate, sent, back)
        for noise in (None, 1e-9 / rate):
            told = diagnoses(dataclasses.replace(seen, update=lost, noise=noise), lab.space)
            assert any("Adam's first step" in sentence for sentence in told) == named, (optimiser, told)
    stated = dataclasses.replace(seen, update=jax.tree.map(np.sign, seen.update))
    stated = dataclasses.replace(stated, protocol="fedavg", local=LocalTraining(rate, optimiser="adam"))
    assert not any("Adam's first step" in sentence for sentence in diagnoses(stated, lab.space)), "it says so itself"


def test_an_undeclared_skip_connection_is_named(lab: Any) -> None:
    skipping, plain = model(lab.bare.width, residual=AddedRow()), model(lab.bare.width)
    seen = lab.observe(skipping, lab.path((0, 2, 0)), "ce", lab.bare)
    assert any(
        "skip connection" in sentence for sentence in diagnoses(dataclasses.replace(seen, model=plain), lab.bare)
    )
    assert diagnoses(seen, lab.bare) == []


def test_units_of_zeros_accuse_no_file_that_says_why_they_may_be_zero(lab: Any, seen: Observation) -> None:
    """Pruning makes zeros, noise hides which units are off, and several steps are no gradient of one state."""

    def off(path: tuple[Any, ...], leaf: Any) -> np.ndarray:
        last = path[0].key == "layers_1"
        return np.where(last & (np.arange(leaf.shape[-1]) < 32), 0.0, leaf).astype(np.float32)

    bare = dataclasses.replace(seen, update=jax.tree_util.tree_map_with_path(off, seen.update))

    def accused(**fields: Any) -> bool:
        changed = dataclasses.replace(bare, **fields)
        return bool(list(_skipped(Evidence(changed, lab.bare, changed.noise))))

    assert accused()
    assert not accused(pruned=True)
    assert not accused(noise=1e-6)
    assert not accused(protocol="fedavg", local=LocalTraining(0.1, 3))
    assert accused(protocol="fedavg", local=LocalTraining(0.1, 1))


def test_an_update_of_zeros_and_masked_rows_accuse_neither_loss_nor_optimiser(lab: Any, seen: Observation) -> None:
    assert diagnoses(dataclasses.replace(seen, update=jax.tree.map(np.zeros_like, seen.update)), lab.bare) == []
    masked = seen.model.clone(dropout=0.5)
    path = lab.path((0, 2, 0))
    sent = fedsgd(masked, seen.params, [path], lab.bare, loss="ce", key=jax.random.key(0))
    assert not any("add up" in sentence for sentence in diagnoses(sent, lab.bare))


@pytest.mark.parametrize("frozen", ["layers_0", "layers_1", "readout/mlp/linears_0/kernel"])
def test_frozen_parts_are_no_fault_of_the_file_and_show_no_units(lab: Any, frozen: str) -> None:
    """Their zeros look like raw columns, like a skip connection, and like a head of other parameters."""
    seen = lab.observe(model(lab.space.width).clone(frozen=(frozen,)), lab.path((0, 2, 0)), "ce", lab.space)
    assert diagnoses(seen, lab.space) == []
    shown = facts(seen, lab.space).found.get("units")
    assert shown is None or all(not frozen.startswith(place) for place in shown.value)


def test_a_batch_that_is_declared_as_one_graph_is_no_stale_update(lab: Any) -> None:
    """Its head's gradient is that of no single row, so that no label of one graph need explain it."""
    built = model(lab.bare.width)
    graphs = [lab.path((0, 2, 0), 0), lab.ring((0, 1, 2, 0), 2)]
    both = fedsgd(built, lab.params(built), graphs, lab.bare, loss="ce")
    said = diagnoses(dataclasses.replace(both, batch_size=1), lab.bare)
    assert said and not any("stale" in sentence or "clipping" in sentence for sentence in said)
    assert any("mixes 2 graphs or more" in sentence for sentence in said)
