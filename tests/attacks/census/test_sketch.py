"""A gradient as few numbers: which vectors weight rows are multiplied with, and what comes out."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.sketch import EQUATIONS, FEW, directions, orthonormal, signs, sketch, sketched

RNG = np.random.default_rng(0)
TREE: dict[str, Any] = {
    "bias": RNG.normal(size=5).astype(np.float32),
    "few": RNG.normal(size=(3, 7)).astype(np.float32),
    "many": RNG.normal(size=(FEW, 4)).astype(np.float32),
}


def test_rows_have_signs_of_their_own_and_few_rows_share_several() -> None:
    """About as many equations of a matrix with few rows as of one with many; one sign for a vector."""
    found = signs(TREE)
    assert found["bias"].shape == (1,) and found["many"].shape == (FEW, 4)
    for rows in (3, FEW - 1):
        shared = signs({"few": np.zeros((rows, 7), np.float32)})["few"]
        assert shared.shape[:2] == (1, 7) and EQUATIONS <= rows * shared.shape[2] < EQUATIONS + rows
    for part in found.values():
        assert part.dtype == np.float32 and np.all(np.abs(part) == 1.0)
    assert 0.4 < np.mean(found["few"] > 0) < 0.6 and abs(np.mean(found["many"])) < 0.5


@pytest.mark.parametrize(("most", "few", "many"), [(1, 1, 1), (3, 3, 3), (4, 4, 4), (6, 6, 4), (7, 7, 4), (99, 7, 4)])
def test_orthonormal_vectors_are_no_more_than_a_row_has_entries(most: int, few: int, many: int) -> None:
    found = orthonormal(TREE, most)
    assert found["bias"].tolist() == [1.0]
    for name, width, number in (("few", 7, few), ("many", 4, many)):
        (part,) = found[name]
        assert part.shape == (width, number) and part.dtype == np.float32
        np.testing.assert_allclose(part.T @ part, np.eye(number), atol=1e-6)
        if number == width:
            np.testing.assert_array_equal(part, np.eye(width))


@pytest.mark.parametrize(
    ("entries", "products", "number"),
    [(7 * 350, 10**9, 4), (8 * 350, 10**9, 7), (10**9, 10 * 7 * 350, 4), (10**9, 10 * 8 * 350, 7), (1, 10**9, 1)],
)
def test_directions_are_as_many_as_the_system_may_have(entries: int, products: int, number: int) -> None:
    """Of 35 rows and ten columns: a power of two of each row, by entries and by products of every two columns."""
    limits = dataclasses.replace(DEFAULTS.limits, system_entries=entries, system_products=products)
    assert directions(TREE, 10, limits)["few"].shape == (1, 7, number)


def test_a_sketch_is_the_products_of_rows_and_vectors() -> None:
    found = np.asarray(sketch(TREE, signs(TREE)))
    bias, few, many = np.split(found, [5, found.size - FEW])
    vectors = signs(TREE)
    np.testing.assert_allclose(bias, TREE["bias"] * vectors["bias"])
    np.testing.assert_allclose(few, (TREE["few"] @ vectors["few"][0]).ravel(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(many, np.sum(TREE["many"] * vectors["many"], axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", [2, 99])
def test_a_product_with_a_unit_vector_is_as_large_as_an_entry(most: int) -> None:
    """Its size is that of the row, divided by the square root of the number of entries; with signs it is the row's."""
    vectors, tolerances = orthonormal(TREE, most), DEFAULTS.tolerances
    seen, sizes = sketched(TREE, vectors, tolerances)
    assert seen.dtype == np.float64 and seen.shape == sizes.shape
    np.testing.assert_allclose(seen, np.asarray(sketch(TREE, vectors)))
    few, many = min(most, 7), min(most, 4)
    np.testing.assert_allclose(sizes[5 : 5 + 3 * few], np.repeat(np.linalg.norm(TREE["few"], axis=1) / 7**0.5, few))
    np.testing.assert_allclose(sizes[5 + 3 * few :], np.repeat(np.linalg.norm(TREE["many"], axis=1) / 4**0.5, many))
    signed = sketched({"many": TREE["many"]}, signs({"many": TREE["many"]}), tolerances)[1]
    np.testing.assert_allclose(signed, np.linalg.norm(TREE["many"], axis=1))
