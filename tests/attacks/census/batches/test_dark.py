"""Pooled rows of graphs of several steps, from the units that each leaves dark, against the model at each step."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from jaxtyping import Float

from jgleak.attacks.attack import Budget
from jgleak.attacks.census.batches import dark, masks
from jgleak.attacks.census.batches.first_pooled import _of_first_step
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.passes import Passes
from jgleak.attacks.closed_form.pooled_embedding import pooled_embedding
from jgleak.federated import LocalTraining, Observation, fedavg, fedsgd
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER

RATE = 0.2


def graphs(lab: Any) -> list[Graph]:
    return [
        lab.path([0, 1, 1, 2, 0], y=1),
        lab.ring([1, 3, 2, 0], y=0),
        lab.path([2, 0, 3, 1], y=1),
        lab.path([3, 0, 0, 1, 2], y=1),
    ]


def returned(lab: Any, some: list[Graph], loader: int, lit: float = 0.0) -> tuple[Observation, list[np.ndarray]]:
    """The update as that of one gradient, and the pooled row of every graph at the weights of its step.

    ``lit``: what is added to the biases of the first map behind pooling.
    """
    model = lab.model(readout="pooled", readout_widths=(256,), last_act=True)
    weights = jax.tree.map(np.asarray, lab.params(model))
    weights["readout"]["mlp"]["linears_0"]["bias"] = weights["readout"]["mlp"]["linears_0"]["bias"] + np.float32(lit)
    local = LocalTraining(RATE, -(-len(some) // loader), loader=loader)
    seen, rows = fedavg(model, weights, some, lab.space, loss="bce", local=local), list[np.ndarray]()
    for first in range(0, len(some), loader):
        step = some[first : first + loader]
        rows += [
            np.asarray(pooled_embedding(model, fedsgd(model, weights, [graph], lab.space, loss="bce").update), float)
            for graph in step
        ]
        slope = fedsgd(model, weights, step, lab.space, loss="bce").update
        weights = jax.tree.map(lambda w, g: w - RATE * np.asarray(g), weights, slope)
    return Passes.of(seen).seen, rows


def off(found: Float[np.ndarray, "k P"], rows: list[np.ndarray]) -> Float[np.ndarray, "k B"]:
    """How far each row that was found is from each of some others, relative to these."""
    return np.linalg.norm(found[:, None] - np.array(rows), axis=2) / np.linalg.norm(rows, axis=1)


@pytest.mark.parametrize("loader", [1, 2])
def test_every_row_comes_back_at_the_weights_of_its_own_step(loader: int, lab: Any) -> None:
    """At a rate that moves the last map's weights so far that its entries name no graph of a later step."""
    seen, rows = returned(lab, graphs(lab), loader)
    head = HeadGradient.of(seen)
    found = dark.pooled_rows(head, FOREVER)
    assert found is not None and head.rank == 4
    assert sorted(off(found, rows).argmin(axis=1)) == [0, 1, 2, 3] and off(found, rows).min(axis=1).max() < 1e-4
    first = _of_first_step(head, found, loader)
    assert sorted(off(first, rows).argmin(axis=1)) == list(range(loader)), (
        "only these fit the weights of the first step"
    )
    assert len(_of_first_step(head, found, 4)) == loader
    assert masks.pooled_rows(head, FOREVER) is None


def test_a_vector_that_comes_twice_is_one_graphs(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawings that miss some of a graph's dark units give its vector again, up to rounding."""
    seen, rows = returned(lab, graphs(lab)[:2], 1)
    drawn = dark._vectors

    def twice(*given: Any) -> Any:
        for vector in drawn(*given):
            yield from (vector, -vector)

    monkeypatch.setattr(dark, "_vectors", twice)
    found = dark.pooled_rows(HeadGradient.of(seen), FOREVER)
    assert found is not None and off(found, rows).min(axis=1).max() < 1e-4


def test_more_dimensions_than_graphs_are_not_searched(lab: Any) -> None:
    """Rounding or another protocol: every choice of units would cost the cube of their number."""
    seen, _ = returned(lab, graphs(lab), 1)
    assert dark.pooled_rows(HeadGradient.of(dataclasses.replace(seen, batch_size=3)), FOREVER) is None


def test_a_vector_without_a_lit_unit_is_no_graphs() -> None:
    rows = np.zeros((12, 3))
    rows[:, :2] = np.random.default_rng(0).normal(size=(12, 2))
    assert dark._determined(rows, np.ones((12, 1)), np.ones(12, bool)) is None


def test_a_graph_alone_needs_no_dark_unit(lab: Any) -> None:
    seen, rows = returned(lab, graphs(lab)[:1], 1, lit=2.0)
    found = dark.pooled_rows(HeadGradient.of(seen), FOREVER)
    assert found is not None and off(found, rows).max() < 1e-5


def test_nothing_is_found_where_no_unit_is_dark_or_no_time_is_left(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dark, "DRAWS", 4 * dark.DRAWN)
    for lit, limit, found in ((0.0, 1e6, True), (2.0, 1e6, False), (0.0, 0.0, False)):
        head = HeadGradient.of(returned(lab, graphs(lab)[:3], 1, lit=lit)[0])
        assert (dark.pooled_rows(head, Budget(time_limit=limit).start()) is not None) == found


@pytest.mark.parametrize("directions", [1, 3])
def test_vectors_that_two_graphs_differ_by_are_told_from_graphs(
    directions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one direction of the labels, two graphs' difference is 0 where both are lit, too."""
    rng, units, rank = np.random.default_rng(0), 200, 5
    outgoing = rng.normal(size=(units, directions))
    outgoing /= np.linalg.norm(outgoing, axis=1, keepdims=True)
    lit = rng.random((units, rank)) < 0.6
    vectors = lit * (outgoing @ rng.normal(size=(directions, rank)))
    rows, turned = np.linalg.qr(vectors)
    truth = turned / np.linalg.norm(turned, axis=0)
    monkeypatch.setattr(dark, "DRAWS", 4 * dark.DRAWN)
    found = np.array(list(dark._vectors(rows, outgoing, FOREVER)))
    nearest = np.abs(found @ truth).max(axis=1)
    assert set(np.abs(found @ truth).argmax(axis=1)) == set(range(rank))
    np.testing.assert_allclose(nearest, 1.0, atol=1e-10)


@pytest.mark.parametrize(("second", "determined"), [(1.0, True), (2.0 * dark.ONLY, True), (0.5 * dark.ONLY, False)])
def test_dark_units_determine_a_vector_where_they_leave_no_other(second: float, determined: bool) -> None:
    """Three of the row space: dark units show one direction well and a second one less."""
    rng, vector = np.random.default_rng(0), np.array([0.0, 0.0, 1.0])
    own = np.array([[1.0, 0.0, 0.0], [0.0, second, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    rows, outgoing = np.r_[own, rng.normal(size=(6, 3))], rng.normal(size=(10, 2))
    outgoing[:, 0] = rows @ vector
    hidden = np.arange(10) < 4
    found = dark._determined(rows, outgoing, hidden)
    assert (found is not None) is determined
    if found is not None:
        np.testing.assert_allclose(np.abs(found), vector, atol=1e-9)
    assert dark._determined(rows, outgoing, hidden | True) is None, "all are dark"
    assert dark._determined(rows * ~hidden[:, None], outgoing, hidden) is None, "they show no direction"
    assert dark._determined(rows, outgoing[:, 1:], hidden) is None, "no weights lead there"


@pytest.mark.parametrize("size", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize(("turned", "determined"), [(0.9, True), (1.1, False)])
def test_a_vectors_lit_entries_are_held_against_the_last_map_whatever_their_size(
    size: float, turned: float, determined: bool
) -> None:
    """Two entries that two weights lead to; a third, beside what the weights allow, is the given part of ``NEAR``."""
    own = np.eye(3)[[0, 1, 0, 1]]
    beside = turned * dark.NEAR / np.sqrt(1.0 - (turned * dark.NEAR) ** 2)
    lit = np.c_[np.zeros((3, 2)), [3.0 / 5.0, 4.0 / 5.0, beside]]
    outgoing = np.r_[np.ones((4, 2)), [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]
    found = dark._determined(size * np.r_[own, lit], outgoing, np.arange(7) < 4)
    assert (found is not None) is determined


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_units_that_all_graphs_light_are_told_by_one_map(size: float) -> None:
    """Up to a share of each unit's own row; where no few units agree none is told."""
    rng = np.random.default_rng(0)
    outgoing, told = rng.normal(size=(16, 2)), rng.normal(size=(2, 5))
    rows = rng.normal(size=(16, 5))
    rows[:9] = outgoing[:9] @ told
    rows[[0, 1]] *= 1.0 + 0.5 * dark.ALIKE
    rows *= size * 10.0 ** rng.integers(-1, 2, (16, 1))
    alone = outgoing * (np.linalg.norm(rows, axis=1) / np.linalg.norm(outgoing @ told, axis=1))[:, None]
    outgoing[:9] = alone[:9]
    assert dark._lit_by_all(rows, outgoing).tolist() == [True] * 9 + [False] * 7
    assert not dark._lit_by_all(rng.normal(size=(16, 5)), outgoing).any()
    assert not list(dark._vectors(outgoing @ told, outgoing, FOREVER)), "then none is left that may be dark"


@pytest.mark.parametrize(("beside", "found"), [(dark.MORE, True), (dark.MORE - 1, False)])
def test_a_graph_leaves_so_many_units_dark_beside_those_that_determine_it(
    beside: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three graphs two light all units, so that no other vector of their space is zero at several."""
    rng, units = np.random.default_rng(0), 40
    outgoing = rng.normal(size=(units, 4))
    lit = np.ones((units, 3))
    lit[: 2 + beside, 0] = 0.0
    vectors = lit * (outgoing @ rng.normal(size=(4, 3)))
    rows, turned = np.linalg.qr(vectors)
    monkeypatch.setattr(dark, "DRAWS", 2 * dark.DRAWN)
    named = [one for size in (1e-3, 1.0) for one in dark._vectors(size * rows, outgoing, FOREVER)]
    assert (len(named) > 0) is found and len(named) % 2 == 0, "at every size"
    for one in named:
        assert abs(one @ turned[:, 0]) > (1 - 1e-9) * np.linalg.norm(turned[:, 0])
    few = dark._vectors(rows[: 3 + dark.MORE], outgoing[: 3 + dark.MORE], FOREVER)
    assert (len(list(few)) > 0) is found, "just enough units"
    assert not list(dark._vectors(rows[: 2 + dark.MORE], outgoing[: 2 + dark.MORE], FOREVER))


def test_what_units_must_be_is_said_in_numbers() -> None:
    assert f"must leave {2 + dark.MORE} or more dark" in dark.needed(3)
