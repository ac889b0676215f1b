"""Single functions of the device, against NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jgleak.attacks.closed_form.layers import mixing_of
from jgleak.attacks.span import kernels
from jgleak.attacks.span.kernels import (
    GROUP,
    Probe,
    _compact,
    _passing,
    begin,
    embed,
    inside,
    residuals,
    sent,
    tail_sums,
)
from jgleak.gnn import GCNConv, Layer

SETS = {
    "none": np.zeros(0, int),
    "one": np.array([129]),
    "ends": np.array([0, GROUP - 1, GROUP, 70 * GROUP - 1]),
    "a whole group": np.arange(GROUP, 2 * GROUP),
    "as many groups as are searched": np.arange(GROUP) * GROUP + 5,
    "a group more": np.arange(GROUP + 1) * GROUP + 5,
    "all": np.arange(70 * GROUP),
}


@pytest.mark.parametrize("chosen", SETS.values(), ids=SETS)
def test_set_places_come_first_in_order(chosen: np.ndarray) -> None:
    size = 70 * GROUP
    mask = np.isin(np.arange(size), chosen)
    number, places = _compact(
        jnp.asarray(mask), lambda cell: lax.dynamic_update_slice(jnp.zeros(size, jnp.int32), cell, (0,))
    )
    assert int(number) == chosen.size and np.asarray(places)[: chosen.size].tolist() == chosen.tolist()


@pytest.mark.parametrize("size", [1, 2 * GROUP, 96])
def test_few_places_make_few_groups(size: int) -> None:
    mask = np.random.default_rng(0).random(size) < 0.5
    number, places = _compact(jnp.asarray(mask), lambda cell: cell)
    assert np.asarray(places)[: int(number)].tolist() == np.flatnonzero(mask).tolist()


def test_members_of_a_tail_row_are_summed_up_to_its_width() -> None:
    rng = np.random.default_rng(0)
    table, members = rng.normal(size=(2, 5, 3)), rng.integers(5, size=(4, 7))
    for width in (0, 2, 4):
        wanted = table[:, members[:width]].sum(axis=1).swapaxes(1, 2)
        found = tail_sums(jnp.asarray(table), jnp.asarray(members), jnp.asarray(width))
        assert found.shape == (2, 3, 7)
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_buffer_s_beginning_is_that_of_every_device() -> None:
    buffers = np.arange(24).reshape(2, 2, 6)
    assert np.array_equal(begin(jnp.asarray(buffers), 4), buffers[:, :, :4])


@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_rows_are_inside_up_to_a_share_of_their_length_and_of_their_coordinates(spread: float) -> None:
    """Rows of the first two axes, lifted by nine tenths or eleven tenths of what is allowed; all are scaled."""
    rng = np.random.default_rng(0)
    basis, scale = np.linalg.qr(rng.normal(size=(6, 3)))[0], rng.uniform(0.5, 2.0, 6)
    along = np.array([[3.0, 4.0], [0.5, 0.0], [0.0, 2.0]])
    allowed = np.hypot(1e-2 * np.linalg.norm(along, axis=1), spread * np.linalg.norm(along, axis=1))
    for factor, passes in ((0.9, True), (1.1, False)):
        rows = (along @ basis[:, :2].T + factor * allowed[:, None] * basis[:, 2]) * scale
        given: tuple[Any, ...] = rows, scale, basis[:, :2], np.full(2, spread), np.float64(1e-2)
        found = inside(*(jnp.asarray(part, jnp.float32) for part in given))
        assert found.tolist() == [passes] * 3
    assert bool(inside(*(jnp.asarray(part, jnp.float32) for part in (0.0 * rows, *given[1:]))).all())


@pytest.mark.parametrize(("columns", "vectors"), [(6, 2), (8, 4), (6, 4)])
def test_the_cheap_check_is_a_product_with_null_vectors(
    columns: int, vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one pass or, where it is wide and of whole steps, in several."""
    monkeypatch.setattr(kernels, "TOGETHER", 20)
    monkeypatch.setattr(kernels, "STEP", 4)
    rng, layer = np.random.default_rng(0), Layer(GCNConv(10, bias=True))
    weights = layer.init(jax.random.key(0), jnp.zeros((2, 4)), jnp.ones((2, 2)), jnp.ones(2, bool))["params"]
    prefix, tail = rng.normal(size=(1, 5, columns)), rng.normal(size=(1, columns, 7))
    scale, null = rng.uniform(0.5, 2.0, columns), rng.normal(size=(columns, vectors))
    chosen, residual = np.sort(rng.permutation(10)[:columns]), rng.normal(size=vectors)
    total = prefix[:, :, None] + tail.swapaxes(1, 2)[:, None]
    row = np.asarray(kernels._row(layer, "state", weights, jnp.asarray(total), jnp.asarray(chosen))) * scale
    far = np.linalg.norm(row @ null + residual, axis=2) / np.sqrt(np.sum(row**2, axis=2) + 2.5)
    bound = float(np.sort(far.ravel())[17:19].mean())
    given = chosen, scale, null, bound, residual, 2.5
    probe = Probe(*(jnp.asarray(part, jnp.int32 if i == 0 else jnp.float32) for i, part in enumerate(given)))
    sides = jnp.asarray(prefix, jnp.float32), jnp.asarray(tail, jnp.float32)
    found = _passing((layer, "state"), weights, probe, *sides)
    np.testing.assert_array_equal(found, far <= bound)
    small = probe._replace(scale=1e-3 * probe.scale, residual=1e-3 * probe.residual, length=jnp.float32(2.5e-6))
    np.testing.assert_array_equal(_passing((layer, "state"), weights, small, *sides), found, "whatever the unit")
    nothing = probe._replace(length=jnp.float32(0.0), residual=jnp.zeros(vectors), scale=jnp.zeros(columns))
    assert not _passing((layer, "state"), weights, nothing, *sides).any(), "a row of zeros is in no span"


def test_residuals_are_those_of_a_centre_s_own_term_and_its_neighbours() -> None:
    """On every null vector, beside the length of the columns."""
    rng, layer = np.random.default_rng(0), Layer(GCNConv(10, bias=True))
    weights = {"conv": {"kernel": rng.normal(size=(4, 10)), "bias": rng.normal(size=10)}}
    table, members = rng.normal(size=(1, 5, 6)), rng.integers(5, size=(3, 7))
    scale, null, chosen = rng.uniform(0.5, 2.0, 6), rng.normal(size=(6, 2)), np.arange(1, 7)
    given = jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), (weights, table, scale, null))
    found = residuals((layer, "state"), *given[:2], jnp.asarray(chosen), *given[2:], jnp.asarray(members))
    rows = scale * np.maximum(table[0, 0] + table[0, members].sum(axis=0) + weights["conv"]["bias"][chosen], 0.0)
    np.testing.assert_allclose(found[0], rows @ null, atol=1e-5)
    np.testing.assert_allclose(found[1], np.linalg.norm(rows, axis=1), atol=1e-5)


def test_whole_rows_are_those_of_the_layer_on_the_graph() -> None:
    """On a path of three, of wider states than rows; the ends have a place for a neighbour too many."""
    rng, adjacency = np.random.default_rng(0), np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]], np.float32)
    rows, degrees = rng.normal(size=(3, 5)).astype(np.float32), np.array([1.0, 2, 1], np.float32)
    layer, dense = Layer(GCNConv(9)), (jnp.asarray(rows), jnp.asarray(adjacency), jnp.ones(3, bool))
    weights = layer.init(jax.random.key(0), *dense)
    tables = sent(layer, weights["params"], rows, np.zeros(3, np.int32))
    around = np.array([[1, -1], [0, 2], [1, -1]], np.int32)
    seen, states = embed(layer, ("aggregate", "state"), weights["params"], *tables, degrees, np.arange(3), around)
    np.testing.assert_allclose(seen, mixing_of(layer.conv, adjacency) @ rows, atol=1e-6)
    np.testing.assert_allclose(states, layer.apply(weights, *dense), atol=1e-5)
