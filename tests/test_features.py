"""The public feature schema: codes to columns and back, statistics, and what they exclude."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.features import Feature, FeatureSpace, binary, combinations, number, onehot, real

ELEMENT = onehot("element", ("C", "N", "O"))
MASS = Feature("mass", (12.011, 14.007, 15.999), determined_by="element", mapping=(0, 1, 2))
MIXED = FeatureSpace(
    (ELEMENT, MASS, onehot("degree", (0, 1, 2, 3)), binary("aromatic"), real("charge")), degree="degree"
)


@st.composite
def schemas(draw: st.DrawFn) -> FeatureSpace:
    kinds = draw(st.lists(st.sampled_from(("onehot", "binary", "number", "real")), min_size=1, max_size=5))
    numbers = st.lists(st.integers(-200, 200), min_size=1, max_size=5, unique=True)
    makers = {
        "binary": binary,
        "real": real,
        "onehot": lambda name: onehot(name, range(draw(st.integers(1, 5)))),
        "number": lambda name: number(name, draw(numbers)),
    }
    return FeatureSpace(tuple(makers[kind](f"f{i}") for i, kind in enumerate(kinds)))


def entries(space: FeatureSpace, rng: np.random.Generator, n: int) -> np.ndarray:
    """Random node features of a schema."""
    columns = [rng.integers(len(f.values), size=n) if f.values else rng.normal(3.0, 10.0, n) for f in space.features]
    x = np.stack(columns, axis=1)
    return x.astype(np.int32) if space.discrete else x


def columns(space: FeatureSpace, x: np.ndarray) -> np.ndarray:
    """Unnormalised columns, one entry at a time."""
    rows = []
    for row in x:
        cells: list[float] = []
        for f, value in zip(space.features, row, strict=True):
            shown = f.numbers[int(value)] if f.kind == "number" else float(value)
            cells += [float(k == value) for k in range(len(f.values))] if f.kind == "onehot" else [shown]
        rows.append(cells)
    return np.array(rows)


@given(space=schemas(), seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12), fitted=st.booleans())
@settings(max_examples=80, deadline=None)
def test_decoding_inverts_encoding(space: FeatureSpace, seed: int, n: int, fitted: bool) -> None:
    x = entries(space, np.random.default_rng(seed), n)
    space = space.fit([x]) if fitted else space
    encoded = space.encode(x)
    assert encoded.shape == (n, space.width) and encoded.dtype == np.float32
    decoded = space.decode(encoded)
    if space.discrete:
        assert decoded.dtype == np.int32
        np.testing.assert_array_equal(decoded, x)
    else:
        np.testing.assert_allclose(decoded, x, rtol=1e-5, atol=1e-4)


def test_decoding_takes_the_nearest_entry() -> None:
    space = FeatureSpace((ELEMENT, binary("aromatic")))
    soft = np.array([[0.2, 0.5, 0.4, 0.51], [-3.0, -2.0, -1.0, 0.49]])
    np.testing.assert_array_equal(space.decode(soft), [[1, 1], [2, 0]])


@given(space=schemas(), seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(0, 6), min_size=1, max_size=6))
@settings(max_examples=80, deadline=None)
def test_fitted_statistics_are_those_of_all_nodes(space: FeatureSpace, seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    xs = [entries(space, rng, n) for n in [*sizes, 1]]
    fitted, raw = space.fit(xs), columns(space, np.concatenate(xs))
    assert fitted.mean is not None and fitted.std is not None
    np.testing.assert_allclose(fitted.mean, raw.mean(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fitted.std, raw.std(0), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(fitted.std == 0, np.ptp(raw, axis=0) == 0)
    assert space.mean is None, "fit returns a new space"


@pytest.mark.parametrize(("centre", "spread"), [(1e7, 1e-2), (0.0, 1e-9), (-3.0, 1.0)])
def test_statistics_survive_large_means_and_small_units(centre: float, spread: float) -> None:
    rng = np.random.default_rng(0)
    x = centre + spread * rng.normal(size=(400, 1))
    fitted = FeatureSpace((real("length"),)).fit(np.split(x, 50))
    np.testing.assert_allclose(fitted.std, x.std(0), rtol=1e-6)  # type: ignore[arg-type]


def test_normalised_columns_have_zero_mean_and_unit_deviation() -> None:
    rng = np.random.default_rng(1)
    x = entries(MIXED, rng, 500)
    encoded = MIXED.fit([x]).encode(x)
    np.testing.assert_allclose(encoded.mean(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(encoded.std(0), 1.0, atol=1e-5)


def test_columns_without_deviation_become_zero() -> None:
    space = FeatureSpace((ELEMENT, real("charge")))
    fitted = space.fit([np.array([[0, 2.5], [1, 2.5]])])
    unseen = fitted.encode(np.array([[0, 2.5], [1, 99.0], [2, 2.5]]))
    np.testing.assert_array_equal(unseen[:, 2:], 0.0)
    assert np.all(unseen[:2, 0] != 0)


def test_fit_refuses_no_nodes() -> None:
    with pytest.raises(ValueError, match="xs: cannot fit statistics on no nodes"):
        MIXED.fit([np.zeros((0, 5))])


def test_layout() -> None:
    assert MIXED.width == 3 + 3 + 4 + 1 + 1
    assert MIXED.offsets == (0, 3, 6, 10, 11)
    assert not MIXED.discrete and MIXED.without("charge").discrete
    assert MIXED.index("aromatic") == 3
    with pytest.raises(KeyError, match=r"no feature 'colour'; this space has \['element', 'mass'"):
        MIXED.index("colour")


def test_possible_codes_are_those_the_statistics_show() -> None:
    space = FeatureSpace((ELEMENT, binary("aromatic"), binary("ring")))
    np.testing.assert_array_equal(space.possible(0), [0, 1, 2])
    fitted = space.fit([np.array([[0, 1, 0], [2, 1, 1]])])
    np.testing.assert_array_equal(fitted.possible(0), [0, 2])
    np.testing.assert_array_equal(fitted.possible(1), [1])
    np.testing.assert_array_equal(fitted.possible(2), [0, 1])
    assert combinations(fitted) == 2 * 1 * 2
    raw = FeatureSpace((ELEMENT, binary("ring")), mean=np.r_[np.zeros(3), 0.4], std=np.r_[1.0, 1.0, 0.0, 0.5])
    np.testing.assert_array_equal(raw.possible(0), [0, 1])


def test_combinations_leave_determined_features_out() -> None:
    assert combinations(FeatureSpace((ELEMENT, MASS))) == 3
    assert combinations(FeatureSpace((ELEMENT, MASS, binary("aromatic")))) == 6
    assert combinations(MIXED) == math.inf


def test_degrees_are_values_not_codes() -> None:
    space = FeatureSpace((onehot("degree", (1, 2, 4)), binary("aromatic")), degree="degree")
    np.testing.assert_array_equal(space.degrees(np.array([[2, 0], [0, 1]])), [4, 1])  # type: ignore[arg-type]
    assert space.without("degree").degrees(np.array([[0], [1]])) is None


def test_without_drops_one_feature_and_keeps_the_rest() -> None:
    x = entries(MIXED, np.random.default_rng(2), 30)
    fitted = MIXED.fit([x])
    for g, f in enumerate(MIXED.features):
        rest = fitted.without(f.name)
        assert [r.name for r in rest.features] == [o.name for o in MIXED.features if o.name != f.name]
        start = MIXED.offsets[g]
        kept = np.delete(fitted.encode(x), np.s_[start : start + f.columns], axis=1)
        np.testing.assert_array_equal(rest.encode(np.delete(x, g, axis=1)), kept)
        assert rest.degree == (None if f.name == "degree" else "degree")
    assert fitted.without("element").features[0].determined_by is None, "nothing is left to determine the mass"
    with pytest.raises(ValueError, match="at least one feature"):
        FeatureSpace((ELEMENT,)).without("element")


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_json_round_trip_is_exact(seed: int) -> None:
    fitted = MIXED.fit([entries(MIXED, np.random.default_rng(seed), 9)])
    back = FeatureSpace.from_json(json.loads(json.dumps(fitted.to_json())))
    assert back.features == fitted.features and back.degree == fitted.degree
    np.testing.assert_array_equal(back.mean, fitted.mean)  # type: ignore[arg-type]
    np.testing.assert_array_equal(back.std, fitted.std)  # type: ignore[arg-type]
    bare = FeatureSpace.from_json(json.loads(json.dumps(MIXED.to_json())))
    assert bare.mean is None and bare.features == MIXED.features


@pytest.mark.usefixtures("unchecked")
def test_numpy_values_become_plain_ones() -> None:
    space = FeatureSpace((onehot("degree", np.arange(3)),), degree="degree")  # type: ignore[arg-type]
    assert FeatureSpace.from_json(json.loads(json.dumps(space.to_json()))).features == space.features


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("degree"),
        lambda d: d["features"][0].pop("kind"),
        lambda d: d.update(features=7),
        lambda d: d["features"][0].update(kind="twohot"),
        lambda d: d.update(mean=[0.0]),
        lambda d: d.update(features=[]),
    ],
    ids=["no degree", "no kind", "not a list", "unknown kind", "short mean", "no features"],
)
@pytest.mark.usefixtures("unchecked")
def test_a_malformed_description_is_refused(spoil: Any) -> None:
    data = json.loads(json.dumps(MIXED.to_json()))
    spoil(data)
    with pytest.raises(ValueError, match=r"feature space: malformed|features: |mean"):
        FeatureSpace.from_json(data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FeatureSpace(()), "at least one feature"),
        (lambda: FeatureSpace((ELEMENT, ELEMENT)), "names must be unique"),
        (lambda: FeatureSpace((onehot("a", ()),)), "'a' is one-hot but lists no values"),
        (lambda: FeatureSpace((Feature("a", (0,), "binary"),)), "exactly two values"),
        (lambda: Feature("a", (0,), "ordinal"), "unknown kind 'ordinal'"),  # type: ignore[arg-type]
        (lambda: FeatureSpace((MASS,)), "'mass' is determined by the unknown feature 'element'"),
        (
            lambda: FeatureSpace((ELEMENT, Feature("m", (1, 2), determined_by="element", mapping=(0, 1)))),
            r"mapping of 'm' needs one code in 0\.\.1 for each of the 3 values of 'element'",
        ),
        (
            lambda: FeatureSpace((ELEMENT, Feature("m", (1, 2), determined_by="element", mapping=(0, 1, 2)))),
            "mapping of 'm' needs one code",
        ),
        (
            lambda: FeatureSpace((Feature("m", (1, 2), determined_by="m", mapping=(0, 1)),)),
            "must be determined by a free discrete feature",
        ),
        (
            lambda: FeatureSpace((ELEMENT,), degree="element"),
            "'element' must be a one-hot or number feature whose values",
        ),
        (lambda: FeatureSpace((ELEMENT,), degree="rank"), "no feature is called 'rank'; give one of element, or none"),
        (lambda: FeatureSpace((ELEMENT,), degree="elemnt"), "did you mean 'element'"),
        (lambda: FeatureSpace((ELEMENT,), mean=np.zeros(3)), "give both or neither"),
        (
            lambda: FeatureSpace((ELEMENT,), mean=np.zeros(2), std=np.ones(2)),
            "mean: give 3 numbers, one for each column of the features, got 2",
        ),
        (
            lambda: FeatureSpace((ELEMENT,), mean=np.zeros(3), std=np.array([1, 1, np.nan])),
            "std: nan for column 2; give finite numbers of 0 or more",
        ),
        (
            lambda: FeatureSpace((ELEMENT,), mean=np.zeros(3), std=np.array([1, 1, -1.0])),
            "std: -1 for column 2; give finite numbers of 0 or more",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_an_impossible_schema_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[0, 0, 0, 0]], r"expected shape \(n, 5\)"),
        ([[0, 0, 0, 0, np.nan]], "NaN or infinite"),
        ([[0, 0, 0, 0, 1.0], [3, 0, 0, 0, 1.0]], r"node 1 has code 3.0 for 'element', outside 0\.\.2"),
        ([[0, 0, -1, 0, 1.0]], "node 0 has code -1.0 for 'degree'"),
        ([[0, 0, 0, 2, 1.0]], "for 'aromatic'"),
        ([[0.5, 0, 0, 0, 1.0]], "node 0 has code 0.5 for 'element'"),
    ],
)
def test_entries_outside_the_schema_are_refused(x: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MIXED.encode(np.array(x))


def test_a_number_that_never_varies_is_known() -> None:
    space = FeatureSpace((number("charge", (-1, 0, 2)), number("element", (6, 7))))
    x = np.array([[2, 0], [2, 1]])
    fitted = space.fit([x])
    assert fitted.possible(0).tolist() == [2] and fitted.possible(1).tolist() == [0, 1]
    assert combinations(fitted) == 2.0 and combinations(space) == 6.0
