"""What a pooled row says of its graphs: the gradient at their logits, and the update that is made of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.census.batches import parts as module
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.parts import parts_of, single_update
from jgleak.federated import LocalTraining, Observation


@pytest.fixture(scope="module")
def seen(lab: Any) -> Observation:
    """Of four graphs; nothing is compiled."""
    model = lab.model(hidden=4, readout="pooled", readout_widths=(3,), last_act=True)
    params = lab.params(model)
    return Observation(model, params, params, "bce", 4, protocol="fedavg", local=LocalTraining(0.1, 1))


def head_of(seen: Observation, rank: int = 2) -> HeadGradient:
    head = HeadGradient(seen, np.zeros((4, rank)), np.ones(rank), np.zeros((3, rank)))
    head.__dict__["directions"] = np.array([[0.6], [-0.8]])
    return head


@pytest.mark.parametrize(("number", "sought"), [(2, [[5.0], [6.0]]), (1, [[7.0]])])
def test_where_all_rows_are_known_each_is_what_all_leave_for_it(
    number: int, sought: list[list[float]], seen: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And otherwise what it says alone."""
    given = list[list[float]]()
    monkeypatch.setattr(HeadGradient, "explained", lambda *_: (np.array([[5.0], [6.0]]), np.zeros(2)))
    monkeypatch.setattr(HeadGradient, "of_row", lambda *_: (np.array([7.0]), 0.0))
    monkeypatch.setattr(module, "_part", lambda _, __, s: given.append(s.tolist()))
    assert parts_of(head_of(seen), np.zeros((number, 4))) == () and given == sought


@pytest.mark.parametrize(
    ("loss", "labelled"), [("ce", True), ("bce", True), ("masked_bce", False), ("masked_mse", False)]
)
@pytest.mark.parametrize("found", [(1, 1), None])
def test_a_label_is_sought_where_it_is_a_class(
    loss: str, labelled: bool, found: tuple[int, ...] | None, seen: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among as many graphs as the other rows leave; otherwise a row has what the gradient says, times all graphs."""
    own, asked, made = dataclasses.replace(seen, loss=loss), list[Any](), list[list[float]]()
    row, of_label = np.arange(4.0), np.array([0.5, -0.5])
    monkeypatch.setattr(module, "_labels", lambda _, __, flows, most: asked.append((flows.tolist(), most)) or found)
    monkeypatch.setattr(module, "_labelled", lambda _, __, label: label * of_label)
    monkeypatch.setattr(module, "single_update", lambda one, _, flows: made.append(flows.tolist()) or one)
    flows = 4 * 0.5 * np.array([0.6, -0.8])
    part = module._part(head_of(own), row, np.array([0.5]))
    assert asked == ([(flows.tolist(), 3)] if labelled else [])
    if labelled and found is None:
        assert part is None and not made
        return
    assert part is not None and part.row is row and part.observation is own and not part.moved
    assert part.labels == (found if labelled else (None,))
    np.testing.assert_allclose(made, [of_label if labelled else flows])


@pytest.mark.parametrize(
    ("loss", "scaled", "expected"), [("bce", False, False), ("bce", True, True), ("masked_bce", False, True)]
)
def test_a_rows_update_is_that_of_one_graph_behind_frozen_layers(
    loss: str, scaled: bool, expected: bool, seen: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one gradient; its length says nothing where labels may be missing or the batch's was clipped."""
    observation = dataclasses.replace(seen, loss=loss, scaled=scaled)
    readout = jax.tree.map(np.ones_like, seen.params["readout"])
    monkeypatch.setattr(module, "_readout_gradient", lambda *_: readout)
    made = single_update(observation, np.zeros(4), np.zeros(2))
    assert all(np.all(leaf == 1.0) for leaf in jax.tree.leaves(made.update["readout"]))
    assert (made.batch_size, made.protocol, made.local, made.scaled) == (1, "fedsgd", None, expected)
    assert set(made.model.frozen) == set(seen.params) - {"readout"} != set()
