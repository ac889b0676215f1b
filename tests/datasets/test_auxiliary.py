"""Public graphs of another kind: heterogeneous splits, other data sets, random graphs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jgleak.datasets import auxiliary
from jgleak.features import Feature, FeatureSpace, onehot, real
from jgleak.graph import Graph


def graphs(count: int) -> list[Graph]:
    """Distinct graphs of two classes: rings of every size with one marked node more each."""
    made = []
    for i in range(count):
        n = 3 + i
        x = (np.arange(n) <= i % 3).astype(np.int32)[:, None]
        made.append(Graph(x, np.array([(k, (k + 1) % n) for k in range(n)]), i % 2))
    return made


def test_duplicates_go_whatever_their_node_order() -> None:
    some = graphs(4)
    shuffled = [g.permute(np.random.default_rng(0).permutation(g.n)) for g in some]
    assert auxiliary.distinct([*some, *shuffled]) == some
    other = Graph(1 - some[0].x, some[0].edges)
    assert len(auxiliary.distinct([some[0], other])) == 2


@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
def test_a_split_is_a_partition(alpha: float) -> None:
    some = graphs(40)
    for seed in range(5):
        victims, public = auxiliary.dirichlet_split([*some, *some], alpha, np.random.default_rng(seed))
        assert victims and public
        assert sorted(g.n for g in victims + public) == sorted(g.n for g in some)


def test_small_alpha_separates_classes_and_large_alpha_does_not() -> None:
    some = graphs(40)

    def gap(alpha: float) -> float:
        gaps = []
        for seed in range(20):
            victims, _ = auxiliary.dirichlet_split(some, alpha, np.random.default_rng(seed))
            ones = sum(g.y == 1 for g in victims)
            gaps.append(abs(ones - (len(victims) - ones)) / 20)
        return float(np.mean(gaps))

    assert gap(100.0) < 0.15 < 0.3 < gap(0.05)


def test_split_says_what_it_needs() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="alpha: must be positive"):
        auxiliary.dirichlet_split(graphs(3), 0.0, rng)
    with pytest.raises(ValueError, match="cannot make two parts"):
        auxiliary.dirichlet_split(graphs(1) * 2, 1.0, rng)
    with pytest.raises(ValueError, match="by class"):
        auxiliary.dirichlet_split([dataclasses.replace(g, y=0.5) for g in graphs(3)], 1.0, rng)


ATOMS = FeatureSpace((onehot("element", ("C", "N", "O")),))


def molecule(codes: list[int]) -> Graph:
    return Graph(np.array(codes, np.int32)[:, None], np.array([(i, i + 1) for i in range(len(codes) - 1)]), 1)


def test_values_of_the_same_name_stay_themselves() -> None:
    target = FeatureSpace((onehot("element", ("O", "F", "C", "N")),))
    found = auxiliary.adapted([molecule([0, 0, 1, 2])], ATOMS, target)[0]
    assert found.x.ravel().tolist() == [2, 2, 3, 0] and found.y is None
    assert found.edges.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_other_values_go_by_frequency() -> None:
    target = FeatureSpace((onehot("label", (7, 8)),), mean=np.array([0.2, 0.8]), std=np.array([0.4, 0.4]))
    found = auxiliary.adapted([molecule([1, 1, 1, 0]), molecule([1, 0, 2])], ATOMS, target)
    assert found[0].x.ravel().tolist() == [1, 1, 1, 0] and found[1].x.ravel().tolist() == [1, 0, 0]
    plain = dataclasses.replace(target, mean=None, std=None)
    assert auxiliary.adapted([molecule([1, 1, 0])], ATOMS, plain)[0].x.ravel().tolist() == [0, 0, 1]


def test_degrees_are_the_graphs_own_and_the_rest_follows() -> None:
    target = FeatureSpace(
        (
            onehot("element", ("C", "N", "O")),
            onehot("degree", (0, 1)),
            real("charge"),
            Feature("mass", (12, 14, 16), "onehot", "element", (0, 1, 2)),
        ),
        degree="degree",
    )
    found = auxiliary.adapted([molecule([2, 0, 1])], ATOMS, target)[0]
    np.testing.assert_array_equal(found.x, [[2, 1, 0, 2], [0, 1, 0, 0], [1, 1, 0, 1]])
    target.check(found.x)


@pytest.mark.parametrize(("features", "deviation"), [("normal", 1.0), ("uniform", 3**-0.5)])
def test_random_graphs(features: auxiliary.Draw, deviation: float) -> None:
    made = auxiliary.random_graphs(ATOMS, 200, 0.1, features, [10, 20], np.random.default_rng(0))
    assert {g.n for g in made} == {10, 20}
    density = sum(len(g.edges) for g in made) / sum(g.n * (g.n - 1) / 2 for g in made)
    assert density == pytest.approx(0.1, abs=0.01)
    rows = np.concatenate([g.x for g in made])
    assert rows.shape[1] == ATOMS.width
    assert rows.std() == pytest.approx(deviation, abs=0.05) and abs(rows.mean()) < 0.05


@pytest.mark.usefixtures("unchecked")
def test_random_graphs_say_what_is_wrong() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="features: unknown"):
        auxiliary.random_graphs(ATOMS, 1, 0.1, "gamma", [3], rng)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="density"):
        auxiliary.random_graphs(ATOMS, 1, 1.1, "normal", [3], rng)
    with pytest.raises(ValueError, match="sizes"):
        auxiliary.random_graphs(ATOMS, 1, 0.1, "normal", [], rng)
