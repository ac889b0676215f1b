"""Feature schemas in JSON: defaults, the round trip, and one sentence for every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jgleak.datasets import load
from jgleak.interop import read_schema

SMALL: dict[str, Any] = {
    "features": [
        {"name": "element", "values": ["C", "N", "O"]},
        {"name": "ring", "kind": "binary"},
        {"name": "degree", "values": [1, 2, 3]},
        {"name": "mass", "values": [12, 14, 16], "determined_by": "element", "mapping": [0, 1, 2]},
    ],
    "degree": "degree",
}


def written(tmp_path: Path, data: Any) -> Path:
    path = tmp_path / "schema.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_a_small_schema_has_defaults(tmp_path: Path) -> None:
    space = read_schema(written(tmp_path, SMALL))
    assert space.width == 3 + 1 + 3 + 3 and space.mean is None and space.degree == "degree"
    assert [f.kind for f in space.features] == ["onehot", "binary", "onehot", "onehot"]
    np.testing.assert_array_equal(space.encode(np.array([[1, 1, 0, 1]])), [[0, 1, 0, 1, 1, 0, 0, 0, 1, 0]])


def test_what_a_space_says_of_itself_is_a_schema(tmp_path: Path) -> None:
    space = load("embedded", graphs=2).space
    again = read_schema(written(tmp_path, space.to_json()))
    assert again.features == space.features and again.degree == space.degree
    np.testing.assert_array_equal(again.mean, space.mean)
    np.testing.assert_array_equal(again.std, space.std)


def test_columns_of_integers_and_of_what_they_determine(tmp_path: Path) -> None:
    """A model that is shown OGB's integers as they are, and the mass beside them; equal masses are one value."""
    listed = [
        {"name": "element", "kind": "number", "size": 3},
        {"name": "charge", "kind": "number", "values": [-1, 0, 1]},
        {"name": "mass", "kind": "number", "values": [12.0, 14.5, 12.0], "determined_by": "element"},
        {"name": "radius", "kind": "real"},
    ]
    space = read_schema(written(tmp_path, {"features": listed, "degree": "element"}))
    assert space.width == 4 and space.features[2].values == (12.0, 14.5) and space.features[2].mapping == (0, 1, 0)
    x = np.array([[2, 0, 0, 0.25], [1, 2, 1, -3.0]])
    np.testing.assert_array_equal(space.encode(x), [[2, -1, 12, 0.25], [1, 1, 14.5, -3]])
    np.testing.assert_array_equal(space.decode(space.encode(x)), x)
    np.testing.assert_array_equal(space.degrees(x), [2, 1])
    again = read_schema(written(tmp_path, space.to_json()))
    assert again.features == space.features


def test_the_tables_of_embeddings_are_sizes(tmp_path: Path) -> None:
    """Of a model that looks integers up, a feature is one-hot, and has as many values as its table has rows."""
    space = read_schema(written(tmp_path, {"features": [{"name": "a", "size": 5}, {"name": "b", "size": 3}]}))
    np.testing.assert_array_equal(space.encode(np.array([[4, 1]])), [[0, 0, 0, 0, 1, 0, 1, 0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": []}, "'features' must be a list of at least one feature"),
        ({"feature": []}, "the schema has the unknown field 'feature'; known are features, degree, mean, std"),
        ({"features": ["C"]}, "feature 0 must be an object with the fields name, values"),
        ({"features": [{"kind": "onehot"}]}, "feature 0 has no 'name'"),
        ({"features": [{"name": "a", "length": 3}]}, "feature 0 has the unknown field 'length'"),
        ({"features": [{"name": "a", "size": 0}]}, "'a': 'size' must be a whole number from 1"),
        ({"features": [{"name": "a", "size": 2, "values": [0, 1]}]}, "'size' .* stands in the place of 'values'"),
        ({"features": [{"name": "a", "kind": "number", "values": ["C"]}]}, "'a' is a number and must list its values"),
        ({"features": [{"name": "a", "kind": "number", "values": [1, 1]}]}, "'values' names one value twice"),
        ({"features": [{"name": "a", "kind": "one-hot"}]}, "'a' has the kind 'one-hot'; choose one of onehot"),
        ({"features": [{"name": "a"}]}, "'a' is one-hot but lists no values"),
        ({"features": [{"name": "a", "values": "abc"}]}, "'a': 'values': expected a list, got 'abc'"),
        ({"features": [{"name": "a", "values": ["b", "b"]}]}, "'values' names one value twice"),
        ({"features": [{"name": "a", "kind": "real", "values": [1]}]}, "a real feature has no 'values'"),
        ({"features": [{"name": "a", "values": [1], "determined_by": 3}]}, "'determined_by' must be the name"),
        ({"features": [{"name": "a", "values": [1], "mapping": "0"}]}, "'a': 'mapping': expected a list, got '0'"),
        ({"features": [{"name": "a", "kind": "real"}] * 2, "degree": None}, "names must be unique; repeated: 'a'"),
        ({"degree": "size"}, "degree: no feature is called 'size'; give one of "),
        ({"degree": 3}, "'degree' must be the name of a feature"),
        ({"mean": [0.0], "std": [1.0]}, "mean: give 10 numbers, one for each column of the features, got 1"),
        ({"mean": [0.0] * 10}, "mean, std: give both or neither"),
        ({"mean": "0", "std": [1.0]}, "'mean': expected a list, got '0'"),
        ({"features": [{"name": "a", "size": 10**12}]}, "'size' must be a whole number from 1 to 1000000"),
        ({"features": [{"name": "a", "kind": "number", "values": [10**400]}]}, r"'values'\[0\]: .* at most 64 bits"),
        ({"mean": [10**400] * 10, "std": [1.0] * 10}, r"'mean'\[0\]: .* at most 64 bits"),
        ({"edge_classes": [1]}, r"'edge_classes'\[0\]: expected a word, got 1"),
    ],
)
def test_mistakes_are_explained(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"features: .*schema.json: .*{message}"):
        read_schema(written(tmp_path, SMALL | change))


def test_files_that_are_no_json_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="schema.json: not JSON"):
        read_schema(written(tmp_path, "{"))
    with pytest.raises(ValueError, match="schema.json: not JSON that can be read: too many brackets"):
        read_schema(written(tmp_path, '{"features":' + "[" * 100_000))
    with pytest.raises(ValueError, match="give 'molecules', 'pyg' or 'ogb'"):
        read_schema(tmp_path / "nowhere.json")
    with pytest.raises(ValueError, match="^features: did you mean 'pyg:numbers'. pyg:number: no such file"):
        read_schema("pyg:number")
    with pytest.raises(ValueError, match="the schema must be an object"):
        read_schema(written(tmp_path, []))
