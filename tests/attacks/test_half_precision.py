"""Clients that compute in 16 bits: their noise is read off the numbers; what is said of them is exact, or nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.facts.diagnosis import diagnoses
from jgleak.attacks.facts.registry import facts
from jgleak.attacks.registry import get_attack
from jgleak.audit.outcome import FOUND, outcome
from jgleak.features import FeatureSpace
from jgleak.federated import Knowledge, Observation, fedsgd, load, save
from jgleak.federated.loss import graph_loss
from jgleak.gnn import GNN
from jgleak.graph import Graph, GraphBatch
from jgleak.precision import COMPUTED, DIGITS, SINGLE, computed_noise, digits_of, rounding


def computed_in(dtype: Any, model: GNN, params: Any, graph: Graph, space: FeatureSpace) -> Observation:
    """What a client sends that holds everything in 16 bits, from the rows to the gradient."""
    cast = lambda leaf: jnp.asarray(np.asarray(leaf).astype(jnp.dtype(dtype)))  # noqa: E731
    short = jax.tree.map(cast, params)
    one = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[0]), GraphBatch.from_graphs([graph], space))
    shown = one.dense._replace(nodes=cast(one.dense.nodes), adjacency=cast(one.dense.adjacency))
    update = jax.grad(lambda p: graph_loss(model, p, shown, one.labels, "ce"))(short)
    sent, back = (jax.tree.map(np.asarray, tree) for tree in (short, update))
    return Observation(model, sent, back, "ce")


@pytest.fixture(scope="module", params=DIGITS)
def half(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.long
def test_the_noise_is_read_off_the_numbers_where_a_file_states_none(half: str, lab: Any, tmp_path: Path) -> None:
    graph, model = lab.random(6, 1), lab.model(hidden=32, readout_widths=(16,))
    seen = computed_in(half, model, lab.params(model), graph, lab.space)
    wide = dataclasses.replace(seen, update=jax.tree.map(lambda leaf: leaf.astype(np.float32), seen.update))
    wanted = COMPUTED * rounding(seen.update, DIGITS[half])
    for sent in (seen, wide):  # in 32 bits they use no more of them
        save(tmp_path / "seen", sent, lab.space)
        assert load(tmp_path / "seen")[0].noise == pytest.approx(wanted)
    save(tmp_path / "stated", dataclasses.replace(seen, noise=1e-3), lab.space)
    assert load(tmp_path / "stated")[0].noise == 1e-3
    single = lab.observe(model, graph, "ce")
    save(tmp_path / "single", single, lab.space)
    assert load(tmp_path / "single")[0].noise is None and digits_of(single.update) == SINGLE
    assert computed_noise(jax.tree.map(np.zeros_like, seen.update)) is None


@pytest.mark.long
def test_what_is_said_of_a_client_in_16_bits_is_exact_or_nothing(half: str, lab: Any, tmp_path: Path) -> None:
    graph, model = lab.random(6, 1), lab.model(hidden=32, readout_widths=(16,))
    params = lab.params(model)
    save(tmp_path / "seen", computed_in(half, model, params, graph, lab.space), lab.space)
    seen, space = load(tmp_path / "seen")
    single = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), seen.params)
    whole = fedsgd(model, single, [graph], space, loss="ce")
    errors = jax.tree.map(lambda a, b: np.sqrt(np.mean(np.square(a - b))), seen.update, whole.update)
    computed, rounded = max(jax.tree.leaves(errors)), rounding(seen.update, DIGITS[half])
    assert 0.4 * rounded < computed < 2 * COMPUTED * rounded
    said = {name: fact.value for name, fact in facts(seen, space).found.items()}
    kinds = {tuple(row) for row in graph.x}
    assert said.get("label", graph.y) == graph.y and said.get("different_nodes", 1) <= len(kinds)
    for name, values in said.get("feature_values", {}).items():
        column = [feature.name for feature in space.features].index(name)
        assert set(values) <= {space.features[column].values[code] for code in graph.x[:, column]}
    assert said.keys() <= {"label", "different_nodes", "feature_values"}
    assert not any("columns" in sentence for sentence in diagnoses(seen, space))
    known = Knowledge(space, max_n=8, noise=seen.noise)
    found = get_attack("census")(seen, Knowledge(space, max_n=8), key=jax.random.key(0), budget=Budget(time_limit=2))
    listed = [one.canonical_form() for one in found.graphs]
    if outcome(seen, found, known).kind == FOUND and found.certificate is not None:
        assert graph.canonical_form() in listed
    if found.certificate is not None and found.certificate.status == "unique":
        assert listed == [graph.canonical_form()]


@pytest.mark.long
def test_rows_that_16_bits_cannot_hold_are_no_sign_of_raw_columns(half: str, lab: Any) -> None:
    """They are zero because they are small; in 32 bits a row of zeros says that columns are raw."""
    model = lab.model(hidden=32, readout_widths=(16,))
    seen = computed_in(half, model, lab.params(model), lab.random(6, 1), lab.space)
    conv = {"kernel": seen.update["layers_0"]["conv"]["kernel"].copy()}
    conv["kernel"][0] = 0
    seen = dataclasses.replace(seen, update={**seen.update, "layers_0": {"conv": conv}})
    single = dataclasses.replace(seen, update=jax.tree.map(lambda leaf: leaf.astype(np.float32) / 3, seen.update))
    assert not any("exactly zero" in sentence for sentence in diagnoses(seen, lab.space))
    assert any("exactly zero" in sentence for sentence in diagnoses(single, lab.space))
