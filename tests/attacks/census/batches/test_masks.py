"""Rows behind a rectified map: which vectors are compared, and what the units that a row lights say of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.census.batches import masks, patterns, quadrics, switched
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.masks import LIT, UNSURE
from tests.clocks import HELD

from .test_quadrics import aligned, space

LARGEST = 100.0


def head_of(rows: np.ndarray, outgoing: np.ndarray, rectified: bool = True) -> HeadGradient:
    """A gradient whose rows and weights at all units are these."""
    head, readout = object.__new__(HeadGradient), SimpleNamespace(masks=rectified)
    observation = SimpleNamespace(model=SimpleNamespace(readout=readout))
    units = np.arange(len(rows))
    head.__dict__.update(rows=rows, values=np.ones(rows.shape[1]), outgoing=outgoing, units=units)
    head.__dict__.update(observation=observation)
    return head


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, np.ndarray]]:
    """The vectors and units that are compared; none of them explains the gradient."""
    asked = list[tuple[np.ndarray, np.ndarray]]()
    monkeypatch.setattr(masks, "_explaining", lambda _, vectors, units, __: asked.append((vectors, units)))
    monkeypatch.setattr(HeadGradient, "moved", property(lambda _: False))
    return asked


def test_vectors_are_coordinates_along_the_rows_of_the_gradient_first_those_in_closed_form(
    compared: list[tuple[np.ndarray, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of length one, whichever units name them; where they explain nothing those of all patterns are compared."""
    rows, outgoing, sought = space(4, 80, 1, 0.2)
    basis, turn = np.linalg.qr(rows)
    ways = list[str]()
    both: dict[str, Any] = {"quadrics": quadrics.vectors, "patterns": patterns.vectors}
    for name, way in both.items():
        told = staticmethod(lambda *given, name=name, way=way: ways.append(name) or way(*given))
        monkeypatch.setattr(getattr(masks, name), "vectors", told)
    assert masks.pooled_rows(head_of(basis, outgoing), HELD) is None and ways == ["quadrics", "patterns"]
    for vectors, units in compared:
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0)
        assert aligned(vectors, sought @ turn.T).min() > 1 - 1e-6
        assert sorted(units) == list(range(80)) and np.linalg.cond(basis[units[:4]]) < 10.0


@pytest.mark.parametrize(
    ("rank", "units", "rectified", "looked"),
    [(1, 5, True, True), (1, 5, False, False), (0, 5, True, False), (3, 4, True, True), (3, 3, True, False)],
)
def test_masks_are_looked_for_where_there_are_more_units_than_dimensions(
    rank: int, units: int, rectified: bool, looked: bool, compared: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (quadrics, patterns):
        monkeypatch.setattr(module, "vectors", staticmethod(lambda *_: iter([])))
    rng = np.random.default_rng(0)
    head = head_of(rng.normal(size=(units, rank)), rng.normal(size=(units, 1)), rectified)
    assert masks.pooled_rows(head, HELD) is None and bool(compared) is looked
    monkeypatch.setattr(HeadGradient, "moved", property(lambda _: True))
    monkeypatch.setattr(switched, "pooled_rows", lambda *_: np.full((1, 2), 7.0))
    found = masks.pooled_rows(head, HELD)
    assert (found is not None) is rectified, "of a path those that most units agree with"


@pytest.mark.parametrize("size", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize(
    ("shown", "entering", "told"),
    [
        (2.0 * LIT, -2.0 * UNSURE * LARGEST, False),
        (0.5 * LIT, -2.0 * UNSURE * LARGEST, True),
        (2.0 * LIT, -0.5 * UNSURE * LARGEST, True),
        (2.0 * LIT, 2.0 * UNSURE * LARGEST, True),
        (-2.0 * LIT, -2.0 * UNSURE * LARGEST, False),
    ],
    ids=["contradicted", "hardly shown", "next to zero", "lit", "of either sign"],
)
def test_a_vector_that_shows_a_unit_lit_contradicts_a_row_that_does_not_light_it(
    shown: float, entering: float, told: bool, size: float
) -> None:
    """Beside its own largest entry, whatever the vector's length, and beside the largest input of all rows."""
    units, rows, bias = np.array([2, 0, 1]), np.eye(2), np.array([0.5, 0.25, -2.0])
    vectors = np.array([[1.0, 0.0], [0.0, size]])
    inputs = np.array([[LARGEST, 50.0, 1.0], [60.0, 50.0, entering]])
    head, along = object.__new__(HeadGradient), np.array([[1.0, 1.0], [1.0, 1.0], [1.0, shown]])
    first = {"kernel": size * np.empty((2, 3)), "bias": size * bias}
    first["kernel"][:, units] = size * (inputs - bias[units])
    placed = np.empty((3, 2))
    placed[units] = along
    readout = SimpleNamespace(first=lambda weights: weights)
    model = SimpleNamespace(readout=readout, readout_of=lambda _: first)
    head.__dict__.update(observation=SimpleNamespace(model=model, params=None), rows=placed, implied=lambda _: rows)
    found = masks._rows(head, vectors, units)
    assert (found is rows) if told else found is None
    head.__dict__["implied"] = lambda _: None
    assert masks._rows(head, vectors, units) is None


def test_units_that_name_vectors_show_all_dimensions(
    compared: list[tuple[np.ndarray, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where most units show one dimension alone."""
    for module in (quadrics, patterns):
        monkeypatch.setattr(module, "vectors", staticmethod(lambda *_: iter([])))
    rows = np.r_[np.outer(np.linspace(1.0, 2.0, 40), [1.0, 0.0, 0.0]), np.eye(3)[1:]]
    assert masks.pooled_rows(head_of(rows, np.ones((42, 1))), HELD) is None
    for _, units in compared:
        assert np.linalg.cond(rows[units[:3]]) < 3.0


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("length", [1e-3, 1.0, 1e3])
def test_guesses_of_any_length_in_coordinates_of_any_unit_become_vectors(unit: float, length: float) -> None:
    rng = np.random.default_rng(0)
    rows, outgoing, sought = space(6, 60, 2, 0.2)
    near = length * (sought + 1e-3 * rng.normal(size=sought.shape))
    found = masks._distinct(unit * rows, outgoing, [*near, *(length * rng.normal(size=(5, 6)))])
    assert found.shape == (6, 6) and aligned(found, sought).min() > 1 - 1e-9
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
