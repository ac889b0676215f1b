"""Vectors of single graphs in closed form, against those that the row space was made of, and pattern by pattern."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float

from jgleak.attacks.attack import Budget
from jgleak.attacks.census.batches import masks, patterns, quadrics
from tests.clocks import HELD as FOREVER


def space(
    rank: int, units: int, directions: int, common: float = 0.0
) -> tuple[Float[np.ndarray, "U r"], Float[np.ndarray, "U c"], Float[np.ndarray, "r r"]]:
    """A row space in coordinates that are entries at the first units, ``W``, and the graphs' coordinates.

    ``common``: share of the units that all graphs light; the others each lights by chance.
    """
    rng = np.random.default_rng(rank)
    outgoing = rng.normal(size=(units, directions))
    outgoing /= np.linalg.norm(outgoing, axis=1, keepdims=True)
    lit = (rng.random((units, rank)) < 0.5) | (rng.random((units, 1)) < common)
    lit[np.arange(units), rng.integers(rank, size=units)] = True  # none is dark for all
    lit[:rank] = 1 - np.eye(rank)  # so that the first units fix a vector
    vectors = lit * (outgoing @ rng.normal(size=(directions, rank)))  # (U, r)
    return vectors @ np.linalg.inv(vectors[:rank]), outgoing, vectors[:rank].T


def aligned(found: Float[np.ndarray, "k r"], sought: Float[np.ndarray, "r r"]) -> Float[np.ndarray, " r"]:
    """For each vector that is sought the cosine to the nearest that was found."""
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (found, sought)]
    return np.abs(unit[1] @ unit[0].T).max(axis=1, initial=0.0)


@pytest.mark.parametrize(
    ("rank", "units", "directions", "common"),
    [
        pytest.param(2, 40, 1, 0.0, id="two graphs"),
        pytest.param(10, 120, 1, 0.3, id="one direction"),
        pytest.param(10, 120, 2, 0.3, id="two directions, from units that all light"),
        pytest.param(12, 75, 2, 0.3, id="products of three"),
        pytest.param(8, 200, 6, 0.0, id="many directions"),
    ],
)
def test_the_graphs_vectors_are_found_in_closed_form(rank: int, units: int, directions: int, common: float) -> None:
    rows, outgoing, sought = space(rank, units, directions, common)
    found = quadrics.vectors(rows, outgoing, FOREVER)
    assert found.shape == (rank, rank) and aligned(found, sought).min() > 1 - 1e-6


@pytest.mark.parametrize("unit", [1e-4, 1e4])
def test_the_unit_of_the_coordinates_does_not_matter(unit: float) -> None:
    rows, outgoing, sought = space(10, 120, 2, 0.3)
    assert aligned(quadrics.vectors(unit * rows, outgoing, FOREVER), sought).min() > 1 - 1e-6


@pytest.mark.parametrize(
    ("rank", "units", "common", "products"),
    [pytest.param(10, 120, 0.3, 55, id="units that all light"), pytest.param(6, 32, 0.0, 27, id="hardly enough units")],
)
def test_products_of_two_are_enough_where_units_are(
    rank: int, units: int, common: float, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten coordinates there are 55, and 220 of three; of six and one of the labels 27 with one of the six. Equations
    leave as many dimensions as there are graphs."""
    monkeypatch.setattr(quadrics, "UNKNOWN", products)
    rows, outgoing, sought = space(rank, units, 1, common)
    assert aligned(quadrics.vectors(rows, outgoing, FOREVER), sought).min() > 1 - 1e-6
    monkeypatch.setattr(quadrics, "UNKNOWN", products - 1)
    assert quadrics.vectors(rows, outgoing, FOREVER).shape == (0, rank)


@pytest.mark.parametrize("directions", [1, 2])
def test_a_space_with_a_vector_that_is_no_graphs_has_none_in_closed_form(directions: int) -> None:
    """Of eight vectors seven are graphs': there are too few dimensions of products."""
    rng = np.random.default_rng(0)
    rows, outgoing, sought = space(8, 120, directions, 0.3)
    vectors = rows @ sought.T
    vectors[:, 3] = rng.normal(size=120)
    rows = vectors @ np.linalg.inv(vectors[:8])
    assert quadrics.vectors(rows, outgoing, FOREVER).shape == (0, 8)


def test_of_one_graph_nothing_is_left_to_solve() -> None:
    outgoing = np.random.default_rng(0).normal(size=(30, 1))
    assert quadrics.vectors(outgoing / outgoing[0], outgoing, FOREVER).shape == (0, 1)


@pytest.mark.parametrize("directions", [1, 2, quadrics.DIRECTIONS])
@pytest.mark.parametrize(
    ("beside", "off", "found"),
    [(quadrics.ENOUGH, 0.0, True), (quadrics.ENOUGH - 1, 0.5, True), (quadrics.ENOUGH - 1, 2.0, False)],
)
def test_units_that_all_graphs_light_give_one_map_where_some_confirm_it(
    directions: int, beside: int, off: float, found: bool
) -> None:
    """As many as determine it and ``ENOUGH`` others, of which one may be off by less than ``agrees``; of the rest each
    says another thing, and two have the same weights, which determine nothing."""
    rng, agrees = np.random.default_rng(0), 1e-3
    outgoing, told = rng.normal(size=(16, directions)), rng.normal(size=(directions, 5))
    outgoing[15] = outgoing[14]
    rows, common = rng.normal(size=(16, 5)), directions + beside
    rows[:common] = outgoing[:common] @ told
    beyond = rng.normal(size=5)
    rows[common] = outgoing[common] @ told if off else rows[common]
    rows[common] += off * agrees * np.linalg.norm(rows[common]) * beyond / np.linalg.norm(beyond)
    one = quadrics.lit_by_all(rows, outgoing, agrees)
    assert (one is not None) is found
    if one is not None:
        np.testing.assert_allclose(one, told, atol=10 * off * agrees + 1e-9)


def test_of_too_many_directions_no_units_are_looked_at() -> None:
    outgoing, size = np.random.default_rng(0).normal(size=(30, quadrics.DIRECTIONS + 1)), quadrics.DIRECTIONS + 1
    assert quadrics.lit_by_all(outgoing @ np.ones((size, 5)), outgoing, 1e-3) is None


def test_rounding_moves_the_vectors_little() -> None:
    rows, outgoing, sought = space(10, 120, 2, 0.3)
    noise = 1e-6 * np.random.default_rng(0).normal(size=rows.shape)
    assert aligned(quadrics.vectors(rows + noise, outgoing, FOREVER), sought).min() > 1 - 1e-3


def test_too_few_units_say_nothing() -> None:
    """Ten graphs have 55 products; 20 units, or 20 times 10 equations for 220 products of three, are not enough."""
    rows, outgoing, _ = space(10, 20, 1, 0.0)
    assert quadrics.vectors(rows, outgoing, FOREVER).shape == (0, 10)
    rows, outgoing, _ = space(10, 120, 2, 0.3)
    assert quadrics.vectors(rows, outgoing, Budget(time_limit=0.0).start()).shape == (0, 10)


def lit_somewhere(rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"]) -> Float[np.ndarray, "k r"]:
    """What patterns name, without vectors of zeros, which fit every space."""
    named = [vector for vector in patterns.vectors(rows, outgoing, FOREVER) if np.linalg.norm(vector) > 1e-6]
    return np.array(named).reshape(-1, rows.shape[1])


@pytest.mark.parametrize("directions", [1, 2])
def test_patterns_name_the_same_vectors(directions: int) -> None:
    rows, outgoing, sought = space(6, 60, directions, 0.2)
    named = lit_somewhere(rows, outgoing)
    assert aligned(named, sought).min() > 1 - 1e-5
    assert directions > 1 or len(np.unique(named, axis=0)) == len(named), "no further units are drawn, so none twice"
    assert aligned(quadrics.vectors(rows, outgoing, FOREVER), sought).min() > 1 - 1e-6


def test_a_pattern_of_one_unit_is_named_and_that_of_none_is_not() -> None:
    """Each of two graphs lights one of the two units that fix a vector; both light a third, where their sum is 2 W."""
    weights = np.random.default_rng(0).normal(size=(12, 1))
    lit = np.array([[1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0]]).T
    vectors = lit * weights
    rows = vectors @ np.linalg.inv(vectors[:2])
    named = np.array(list(patterns.vectors(rows, weights, FOREVER)))
    np.testing.assert_allclose(named, vectors[:2].T, rtol=1e-6)


@pytest.mark.parametrize("directions", [3, patterns.DIRECTIONS])
def test_patterns_have_as_many_directions_as_labels_give(directions: int) -> None:
    """Beyond a bound, each doubles the patterns, and none is tried."""
    rows, outgoing, sought = space(3, 40, directions, 0.0)
    assert aligned(lit_somewhere(rows, outgoing), sought).min() > 1 - 1e-5
    assert not list(patterns.vectors(*space(3, 40, patterns.DIRECTIONS + 1)[:2], FOREVER))


def test_patterns_are_tried_where_they_are_few_and_a_unit_is_left_to_check_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One bit for each of six units; every pattern would pass where there is no other unit."""
    rows, outgoing, sought = space(6, 60, 1, 0.2)
    for bits, tried in ((6, True), (5, False)):
        monkeypatch.setattr(patterns, "BITS", bits)
        named = lit_somewhere(rows, outgoing)
        assert np.all((aligned(named, sought) > 1 - 1e-5) == tried) and (len(named) > 0) == tried
    monkeypatch.undo()
    assert not list(patterns.vectors(rows, outgoing, Budget(time_limit=0.0).start()))
    few, outgoing, sought = space(6, 7, 1, 0.2)
    named = lit_somewhere(few, outgoing)
    assert aligned(named, sought).min() > 1 - 1e-5 and len(named) < 2**6 - 1, "one unit rejects some"
    assert not list(patterns.vectors(few[:6], outgoing[:6], FOREVER))


@pytest.mark.parametrize("directions", [1, 2])
def test_guesses_become_the_vectors_that_they_are_near_to(directions: int) -> None:
    """Each once, of length one, from either sign and any length; what is near to none is left out."""
    rng = np.random.default_rng(0)
    rows, outgoing, sought = space(6, 60, directions, 0.2)
    near = sought + 1e-3 * rng.normal(size=sought.shape)
    found = masks._distinct(rows, outgoing, [*(3.0 * near), *(-0.1 * sought), *rng.normal(size=(5, 6))])
    assert found.shape == (6, 6) and aligned(found, sought).min() > 1 - 1e-9
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    assert aligned(sought, found).min() > 1 - 1e-9
    assert masks._distinct(rows, outgoing, []).shape == (0, 6)
