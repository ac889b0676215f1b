"""Vectors of single graphs where some units switched, against those that the row space was made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches import switched
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.switched import AGREED, ALIKE, BITS, CONTRARY, LIT, Shown, _distinct, _fitted
from tests.clocks import HELD

from .test_quadrics import aligned, space

UNITS = np.arange(40)


def one_direction(lit: np.ndarray, off: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """A row space of one graph, whose entries are ``W`` where it is lit, and a share ``off`` of ``W`` beside that."""
    outgoing = np.where(UNITS % 3 == 0, -1.0, 1.0)[:, None]
    return (lit + off)[:, None] * outgoing, outgoing


def head_of(rank: int, directions: int, units: int) -> HeadGradient:
    """A gradient of this rank that shows so many units."""
    head = object.__new__(HeadGradient)
    head.__dict__.update(values=np.zeros(rank), directions=np.eye(directions), units=np.arange(units))
    head.__dict__["at_units"] = lambda some: (np.zeros((some.size, rank)), np.zeros((some.size, directions)))
    return head


@pytest.mark.parametrize("directions", [1, 2])
def test_vectors_of_graphs_are_among_those_that_most_units_agree_with(directions: int) -> None:
    """Two of eighty units show half of what they should; each vector says which units are lit."""
    rows, outgoing, sought = space(3, 80, directions, 0.2)
    truth = np.abs(rows @ sought.T) > 1e-9
    rows[[70, 75]] *= 0.5
    found = _distinct(switched._vectors(rows, outgoing, HELD))
    assert aligned(np.array([one.vector for one in found]), sought).min() > 1 - 1e-3
    for own, lit in zip(sought, truth.T, strict=True):
        near = max(found, key=lambda one: abs(float(one.vector @ own)))
        assert np.mean(near.lit[:70] == lit[:70]) == 1.0 and near.agree >= 1 - 2 / 80
    assert [one.agree for one in found] == sorted((one.agree for one in found), reverse=True)
    assert not list(switched._vectors(rows, outgoing, Clock(0.0, 0.0)))


@pytest.mark.parametrize(("dark", "shown"), [(40 - int(LIT * 40), True), (40 - int(LIT * 40) + 1, False)])
def test_a_vector_lights_some_units(dark: int, shown: bool) -> None:
    lit = (UNITS >= dark).astype(float)
    found = _fitted(*one_direction(lit), np.ones(2))
    assert (found is not None) is shown
    if found is not None:
        assert found.lit.tolist() == (lit > 0).tolist() and found.agree == 1.0 and abs(found.vector) == [1.0]


@pytest.mark.parametrize(("contrary", "shown"), [(int((1 - AGREED) * 40), True), (int((1 - AGREED) * 40) + 1, False)])
def test_most_units_agree_with_a_vector(contrary: int, shown: bool) -> None:
    """The others are half lit; where a vector is shown they do not move it."""
    off = np.where(UNITS < contrary, 0.5, 0.0)
    found = _fitted(*one_direction((UNITS >= 20).astype(float), off), np.ones(2))
    assert (found is not None) is shown
    if found is not None:
        assert found.agree == pytest.approx(1 - contrary / 40) and found.lit[20:].all() and not found.lit[10:20].any()


def test_a_vector_without_direction_of_labels_is_no_graphs() -> None:
    lit = (UNITS >= 20).astype(float)
    assert _fitted(*one_direction(lit), np.array([1.0, 0.5 * switched.FLOOR])) is None
    for length in (1e-3, 1e3):
        assert _fitted(*one_direction(lit), np.array([length, length])) is not None, "of any length"
    assert _fitted(*one_direction(lit), np.array([-1.0, -1.0])) is not None, "of either sign"
    assert _fitted(*one_direction(lit), np.array([1.0, -1.0])) is None


def test_of_one_direction_the_first_vector_is_kept_and_the_surest_comes_first() -> None:
    lit, turned = np.ones(3, bool), np.arccos(ALIKE)
    angles, agree = [0.0, 0.9 * turned, 1.1 * turned, np.pi], [0.8, 1.0, 0.9, 1.0]
    some = [Shown(np.array([np.cos(a), np.sin(a)]), lit, share) for a, share in zip(angles, agree, strict=True)]
    assert [one.agree for one in _distinct(iter(some))] == [0.9, 0.8]


@pytest.mark.parametrize(
    ("rank", "directions", "units", "tried"),
    [
        (0, 1, 99, False),
        (1, 1, 3, True),
        (1, 1, 2, False),
        (2, 1, 6, True),
        (2, 1, 5, False),
        (BITS, 1, 99, True),
        (BITS + 1, 1, 99, False),
        (BITS - 1, 2, 99, True),
        (BITS - 1, 3, 99, False),
    ],
)
def test_patterns_are_few_and_units_thrice_their_bits(
    rank: int, directions: int, units: int, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    monkeypatch.setattr(switched, "_vectors", lambda *_: asked.append(1) or iter(()))
    assert switched.pooled_rows(head_of(rank, directions, units), HELD) is None and bool(asked) is tried


def test_rows_are_contradicted_by_units_that_they_light_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a unit whose input is near zero, beside the row's own largest, nothing is sure; the worse row counts."""
    entering = np.array([[100.0, 50.0, -50.0, 0.5, -0.5, 2.0, 2.0, 2.0, 2.0, 2.0], [1.0, 0.5, -0.5, *[0.02] * 7]])
    shown = [np.array([1, 1, 0, 0, 1, 0, 1, 1, 1, 1], bool), np.array([1, 0, 0, 1, 1, 1, 1, 1, 1, 0], bool)]
    units, rows = np.arange(10) + 1, np.eye(2)
    first = {"kernel": np.c_[[7.0, 7.0], entering - 0.25], "bias": np.full(11, 0.25)}
    head = object.__new__(HeadGradient)
    readout = SimpleNamespace(first=lambda weights: weights)
    head.__dict__.update(observation=SimpleNamespace(model=SimpleNamespace(readout=readout)), implied=lambda _: rows)
    monkeypatch.setattr(HeadGradient, "weights", property(lambda _: first))
    chosen = [Shown(np.eye(2)[k], lit, 1.0) for k, lit in enumerate(shown)]
    found, contrary = switched._rows(head, chosen, units)
    assert found is rows and contrary == pytest.approx(0.2)
    _, contrary = switched._rows(head, [chosen[0], chosen[1]._replace(lit=entering[1] > 0)], units)
    assert contrary == pytest.approx(0.1)
    head.__dict__["implied"] = lambda _: None
    assert switched._rows(head, chosen, units) == (None, np.inf)


def test_the_choice_is_taken_that_fewest_units_contradict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the surest vectors, a few more than there are graphs; none where a tenth of the units contradicts each."""
    number = 2 + switched.BEYOND
    shown = [Shown(np.array([1.0, 0.0]), np.ones(1, bool), 1.0 - 0.01 * k) for k in range(number + 1)]
    monkeypatch.setattr(switched, "_vectors", lambda *_: iter(()))
    monkeypatch.setattr(switched, "_distinct", lambda _: shown)
    for contrary, best in (
        ({(0, 1): 0.09, (1, 3): 0.02, (2, 3): 0.05}, (1, 3)),
        ({(0, number - 1): 0.02, (0, number): 0.01}, (0, number - 1)),
        ({(0, 1): CONTRARY}, None),
        ({(0, 1): 0.99 * CONTRARY}, (0, 1)),
    ):

        def rows(_: Any, chosen: Any, __: Any, contrary: Any = contrary) -> tuple[np.ndarray, float]:
            places = tuple(next(k for k, one in enumerate(shown) if one is other) for other in chosen)
            return np.array([places, places], np.float64), contrary.get(places, 1.0)

        monkeypatch.setattr(switched, "_rows", rows)
        found = switched.pooled_rows(head_of(2, 1, 99), HELD)
        assert (None if found is None else tuple(found[0].tolist())) == best
