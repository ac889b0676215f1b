"""The baselines: they use what they are given, stay inside the schema, and repeat themselves."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import flat, some_params

from jgleak.attacks.baselines import EMPTY, FILE_HABIT, MEAN_ADJACENCY, RANDOM, RandomSettings, _empty, random_graph
from jgleak.attacks.registry import ATTACKS, get_attack
from jgleak.features import Feature, FeatureSpace, binary, number, onehot, real
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.graph import Graph

BASELINES = (RANDOM, MEAN_ADJACENCY, FILE_HABIT, EMPTY)
BARE = FeatureSpace(
    (
        onehot("element", ("C", "N", "O")),
        onehot("degree", (0, 1, 2, 3, 4, 5)),
        Feature("mass", (12, 14, 16), "onehot", "element", (0, 1, 2)),
    ),
    degree="degree",
)


def path_graph(elements: list[int]) -> Graph:
    """A path whose nodes state their element, degree and mass."""
    n = len(elements)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    degree = np.bincount(edges.ravel(), minlength=n)
    return Graph(np.stack([elements, degree, elements], axis=1).astype(np.int32), edges, y=1)


TRUTH = path_graph([0, 0, 1, 0, 2])
SPACE = BARE.fit([TRUTH.x])
OTHERS = (path_graph([0, 0]), path_graph([0, 1, 2]), path_graph([2, 2, 2, 2]))


@pytest.fixture(scope="module")
def observation() -> Observation:
    model = flat(in_features=SPACE.width, hidden=6, readout_widths=(5,))
    return fedsgd(model, some_params(model), [TRUTH], SPACE, loss="bce")


@pytest.mark.parametrize("attack", BASELINES, ids=lambda a: a.name)
def test_the_whole_truth_is_returned_when_it_is_known(attack, observation: Observation) -> None:
    knowledge = Knowledge(SPACE, adjacency=TRUTH.adjacency, features=TRUTH.x, labels=np.array([1]), auxiliary=OTHERS)
    found = attack(observation, knowledge, key=jax.random.key(1))
    assert found.best is not None
    assert found.best.isomorphic(TRUTH)
    assert found.best.y == 1
    assert found.gradient_distance == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("attack", BASELINES, ids=lambda a: a.name)
def test_the_closest_label_is_found_when_it_is_unknown(attack, observation: Observation) -> None:
    knowledge = Knowledge(SPACE, adjacency=TRUTH.adjacency, features=TRUTH.x, auxiliary=OTHERS)
    best = attack(observation, knowledge, key=jax.random.key(1)).best
    assert best is not None
    assert best.y == 1


@pytest.mark.parametrize("attack", BASELINES, ids=lambda a: a.name)
def test_a_known_label_is_kept_even_if_another_comes_closer(attack, observation: Observation) -> None:
    knowledge = Knowledge(SPACE, adjacency=TRUTH.adjacency, features=TRUTH.x, labels=np.array([0]), auxiliary=OTHERS)
    best = attack(observation, knowledge, key=jax.random.key(1)).best
    assert best is not None and best.y == 0


@pytest.mark.parametrize("attack", BASELINES, ids=lambda a: a.name)
def test_the_number_of_nodes_and_the_key_are_honoured(attack, observation: Observation) -> None:
    knowledge = Knowledge(SPACE, n=7, auxiliary=OTHERS)
    first, again = (attack(observation, knowledge, key=jax.random.key(3)).best for _ in range(2))
    assert first is not None and again is not None
    assert first.n == 7
    SPACE.check(first.x)
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.edges, again.edges)


@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 8), seed=st.integers(0, 2**31))
def test_random_graphs_are_connected_and_consistent(observation: Observation, n: int, seed: int) -> None:
    best = RANDOM(observation, Knowledge(SPACE, n=n), key=jax.random.key(seed)).best
    assert best is not None
    assert best.n == n
    assert best.connected
    np.testing.assert_array_equal(best.x[:, 2], best.x[:, 0])
    small = best.degree <= 5
    np.testing.assert_array_equal(np.asarray(SPACE.degrees(best.x))[small], best.degree[small])


def test_random_edges_match_the_density_of_known_features(observation: Observation) -> None:
    x = np.array([[0, 3, 0]] * 6, np.int32)
    best = RANDOM(observation, Knowledge(SPACE, features=x), key=jax.random.key(5)).best
    assert best is not None
    assert len(best.edges) == 9
    np.testing.assert_array_equal(best.x, x)


def test_where_nothing_says_how_dense_graphs_are_random_ones_are_trees() -> None:
    """Those that may fall apart have as many edges."""
    space = FeatureSpace((onehot("element", ("C", "N", "O")),))
    model = flat(in_features=3, hidden=6, readout_widths=(5,))
    truth = Graph(np.array([[0], [1]]), np.array([(0, 1)]), y=1)
    seen = fedsgd(model, some_params(model), [truth], space, loss="bce")
    best = RANDOM(seen, Knowledge(space, n=6), key=jax.random.key(5)).best
    assert best is not None and best.n == 6 and best.connected and len(best.edges) == 5
    loose = RANDOM(seen, Knowledge(space, n=6, connected=False), key=jax.random.key(5)).best
    assert loose is not None and len(loose.edges) == 5


def test_mean_adjacency_is_the_mean(observation: Observation) -> None:
    found = MEAN_ADJACENCY(observation, Knowledge(SPACE, auxiliary=OTHERS), key=jax.random.key(0))
    expected = np.array([[0, 3, 0], [3, 0, 2], [0, 2, 0]]) / 3
    assert found.adjacency is not None and found.best is not None
    np.testing.assert_allclose(found.adjacency, expected, rtol=1e-6)
    np.testing.assert_array_equal(found.best.edges, [[0, 1], [1, 2]])


def test_mean_adjacency_needs_auxiliary_graphs(observation: Observation) -> None:
    with pytest.raises(ValueError, match="auxiliary"):
        MEAN_ADJACENCY(observation, Knowledge(SPACE, n=3), key=jax.random.key(0))


def test_public_graphs_of_input_rows_serve_an_attack_that_reads_their_edges_alone(observation: Observation) -> None:
    rows = Knowledge(SPACE, auxiliary=tuple(Graph(SPACE.encode(graph.x), graph.edges) for graph in OTHERS))
    assert "hold rows for the model, not features" in str(FILE_HABIT.refusal(observation, rows))
    assert MEAN_ADJACENCY.refusal(observation, rows) is None
    assert FILE_HABIT.refusal(observation, Knowledge(SPACE, auxiliary=OTHERS)) is None


def test_empty_is_one_most_frequent_node(observation: Observation) -> None:
    best = EMPTY(observation, Knowledge(SPACE), key=jax.random.key(0)).best
    assert best is not None
    assert len(best.edges) == 0
    np.testing.assert_array_equal(best.x, [[0, 2, 0]])


@pytest.mark.parametrize("attack", BASELINES, ids=lambda a: a.name)
def test_a_batch_gets_a_guess_for_every_size(attack) -> None:
    graphs = [path_graph([0, 0, 1, 0, 2]), path_graph([0, 1]), path_graph([2, 0, 0])]
    model = flat(in_features=SPACE.width, hidden=6, readout_widths=(5,))
    seen = fedsgd(model, some_params(model), graphs, SPACE, loss="bce")
    known = Knowledge(SPACE, sizes=(5, 2, 3), labels=np.array([1, 0, 1]), auxiliary=OTHERS)
    found = attack(seen, known, key=jax.random.key(0))
    assert [g.n for g in found.graphs] == [5, 2, 3] and [g.y for g in found.graphs] == [1, 0, 1]
    assert found.gradient_distance is None, "the distance of one graph of three would say nothing"
    unsized = attack(seen, Knowledge(SPACE, auxiliary=OTHERS), key=jax.random.key(0))
    assert len(unsized.graphs) == 3
    if attack in (MEAN_ADJACENCY, FILE_HABIT):
        assert found.adjacency.shape == (3, 5, 5) and not found.adjacency[1, 2:].any()
        alone = attack(seen, Knowledge(SPACE, n=5, auxiliary=OTHERS), key=jax.random.key(0))
        np.testing.assert_allclose(found.adjacency[0], alone.adjacency[0], atol=1e-6)


def test_the_habit_of_files_is_told_where_all_files_have_it(observation: Observation) -> None:
    """Public paths begin with N and end with O; a guess of any size does so too."""
    public = tuple(path_graph([1, *[0] * k, 2]) for k in (1, 2, 3, 4) for _ in range(10))
    found = FILE_HABIT(observation, Knowledge(SPACE, n=5, auxiliary=public), key=jax.random.key(0))
    assert found.best is not None and found.features is not None
    np.testing.assert_array_equal(found.best.x, path_graph([1, 0, 0, 0, 2]).x)
    np.testing.assert_array_equal(found.best.edges, path_graph([0] * 5).edges)
    np.testing.assert_array_equal(found.best.x, SPACE.decode(found.features))
    with pytest.raises(ValueError, match="auxiliary"):
        FILE_HABIT(observation, Knowledge(SPACE, n=5), key=jax.random.key(0))


def test_node_labels_that_are_known_are_used() -> None:
    truth = dataclasses.replace(TRUTH, y=np.array([0, 0, 1, 1, 1]))
    model = flat(in_features=SPACE.width, hidden=6, readout="node_scores")
    observation = fedsgd(model, some_params(model), [truth], SPACE, loss="bce")
    knowledge = Knowledge(SPACE, adjacency=truth.adjacency, features=truth.x, labels=np.array([0, 0, 1, 1, 1]))
    found = EMPTY(observation, knowledge, key=jax.random.key(0))
    assert found.gradient_distance == pytest.approx(0.0, abs=1e-5)
    others = dataclasses.replace(knowledge, labels=np.array([1, 1, 0, 0, 1]))
    best = EMPTY(observation, others, key=jax.random.key(0)).best
    assert best is not None
    np.testing.assert_array_equal(best.y, [1, 1, 0, 0, 1], "though others come closer")  # type: ignore[arg-type]
    alone = EMPTY(observation, Knowledge(SPACE, labels=np.array([0, 1, 1])), key=jax.random.key(0)).best
    assert alone is not None and isinstance(alone.y, np.ndarray)
    assert alone.y.shape == (1,), "labels of three nodes are not those of one"


def test_registry_suggests_the_closest_name() -> None:
    assert get_attack("random") is RANDOM
    assert all(name == attack.name for name, attack in ATTACKS.items())
    with pytest.raises(KeyError, match="did you mean 'random'"):
        get_attack("Randm")


@pytest.mark.parametrize("attack", [MEAN_ADJACENCY, EMPTY], ids=lambda a: a.name)
def test_public_graphs_tell_the_commonest_node_where_the_space_has_no_means(attack, observation: Observation) -> None:
    """Of the public nodes 5 of 9 are of element O (mass 16), and 6 have one neighbour."""
    found = attack(observation, Knowledge(BARE, n=3, auxiliary=OTHERS), key=jax.random.key(0)).best
    assert found is not None
    np.testing.assert_array_equal(found.x, [[2, 1, 2]] * 3)


def test_random_graphs_of_unknown_size_are_as_modest_as_users_say(observation: Observation) -> None:
    small = RANDOM.with_options({"modest_nodes": "1"})
    for seed in range(5):
        found = small(observation, Knowledge(SPACE), key=jax.random.key(seed))
        assert [graph.n for graph in found.graphs] == [1]
    trusting = FILE_HABIT.with_options({"habit_weight": "1e9"})  # all places are the average one
    known = Knowledge(SPACE, n=4, auxiliary=OTHERS)
    rows = trusting(observation, known, key=jax.random.key(0)).features
    assert rows is not None and np.allclose(rows, rows[0], atol=1e-4)
    own = FILE_HABIT(observation, known, key=jax.random.key(0)).features
    assert own is not None and not np.allclose(own, own[0], atol=1e-4)


def drawn(space: FeatureSpace, n: int) -> np.ndarray:
    """Features of ``n`` random nodes without edges."""
    return random_graph(Knowledge(space, adjacency=np.zeros((n, n))), np.random.default_rng(0)).x


COLUMNS = FeatureSpace((real("charge"), binary("ring"), number("hydrogens", (0, 1, 4)), onehot("element", "CNO")))


def test_random_features_follow_the_public_means() -> None:
    """Also where these are rounded."""
    n = 1000
    space = dataclasses.replace(
        COLUMNS, mean=np.array([5.0, 0.2, 1.0, 0.1, 0.6, 0.300001]), std=np.array([3.0, 0.4, 1.0, 0.3, 0.5, 0.46])
    )
    x = drawn(space, n)
    space.check(x)
    assert x[:, 0].mean() == pytest.approx(5.0, abs=0.4) and x[:, 0].std() == pytest.approx(3.0, abs=0.3)
    assert x[:, 1].mean() == pytest.approx(0.2, abs=0.05)
    for column, shares in ((2, [1 / 3] * 3), (3, [0.1, 0.6, 0.3])):
        np.testing.assert_allclose(np.bincount(x[:, column].astype(int), minlength=3) / n, shares, atol=0.06)


def test_random_features_are_uniform_where_the_space_has_no_means() -> None:
    n = 1000
    x = drawn(COLUMNS, n)
    assert x[:, 0].mean() == pytest.approx(0.0, abs=0.15) and x[:, 0].std() == pytest.approx(1.0, abs=0.1)
    assert x[:, 1].mean() == pytest.approx(0.5, abs=0.06)
    for column in (2, 3):
        np.testing.assert_allclose(np.bincount(x[:, column].astype(int), minlength=3) / n, [1 / 3] * 3, atol=0.06)


def test_random_nodes_state_their_degrees_where_the_schema_has_them() -> None:
    """The centre of a star has four neighbours, which this schema does not list: it keeps what was drawn."""
    space = FeatureSpace(
        (onehot("degree", (0, 1, 2)), Feature("twice", (0, 2, 4), "onehot", "degree", (0, 1, 2))), "degree"
    )
    star = np.zeros((5, 5))
    star[0, 1:] = star[1:, 0] = 1
    seen = set[int]()
    for seed in range(12):
        found = random_graph(Knowledge(space, adjacency=star), np.random.default_rng(seed))
        np.testing.assert_array_equal(found.x[1:], [[1, 1]] * 4)
        assert found.x[0, 0] == found.x[0, 1]
        seen.add(int(found.x[0, 0]))
        np.testing.assert_array_equal(found.edges, [[0, v] for v in range(1, 5)])
    assert seen == {0, 1, 2}
    lone = np.diag([1.0, 0.0], 1) + np.diag([1.0, 0.0], -1)
    found = random_graph(Knowledge(space, adjacency=lone, connected=False), np.random.default_rng(0))
    np.testing.assert_array_equal(found.x, [[1, 1], [1, 1], [0, 0]])


def test_random_sizes_reach_from_one_node_to_the_largest() -> None:
    def sizes(**known: Any) -> set[int]:
        rng = np.random.default_rng(0)
        return {random_graph(Knowledge(SPACE, **known), rng, RandomSettings(3)).n for _ in range(40)}

    assert sizes() == {1, 2, 3} and sizes(max_n=2) == {1, 2} and sizes(max_n=9) == {1, 2, 3} and sizes(n=5) == {5}


@pytest.mark.parametrize(("stated", "connected", "edges"), [(1, True, 5), (3, True, 9), (1, False, 3), (0, False, 0)])
def test_random_edges_are_as_many_as_degrees_say_and_a_tree_at_least_where_graphs_are_connected(
    stated: int, connected: bool, edges: int
) -> None:
    x, seen = np.array([[0, stated, 0]] * 6, np.int32), set[bytes]()
    for seed in range(8):
        knowledge = Knowledge(SPACE, features=x, connected=connected)
        found = random_graph(knowledge, np.random.default_rng(seed))
        assert len(found.edges) == edges == len({tuple(edge) for edge in found.edges.tolist()})
        assert found.connected or not connected
        seen.add(found.edges.tobytes())
    assert len(seen) > 1 or edges == 0


def test_edge_classes_are_those_of_public_edges() -> None:
    """Drawn as often as they have them by random graphs, the commonest one by an empty guess with known edges."""
    space = FeatureSpace((onehot("element", "CNO"),), edge_classes=("single", "double", "triple"))
    n = 40
    public = tuple(
        Graph(np.zeros((4, 1), np.int32), np.array([(0, 1), (1, 2), (2, 3)]), edge_class=np.array(classes))
        for classes in ([1, 1, 0], [1, 2, 1])
    )
    known = Knowledge(space, adjacency=1.0 - np.eye(n), auxiliary=public)
    found = random_graph(known, np.random.default_rng(0)).edge_class
    assert found is not None
    np.testing.assert_allclose(np.bincount(found) / len(found), [1 / 6, 4 / 6, 1 / 6], atol=0.05)
    alone = random_graph(dataclasses.replace(known, auxiliary=()), np.random.default_rng(0)).edge_class
    assert alone is not None
    np.testing.assert_allclose(np.bincount(alone) / len(alone), [1 / 3] * 3, atol=0.06)
    for auxiliary, likeliest in ((public, 1), ((), 0)):
        guess = _empty(dataclasses.replace(known, auxiliary=auxiliary)).edge_class
        assert guess is not None
        np.testing.assert_array_equal(guess, [likeliest] * (n * (n - 1) // 2))


def test_a_mean_of_public_graphs_has_their_median_size_and_edges_that_most_of_them_have(
    observation: Observation,
) -> None:
    """Of two graphs of three and of five nodes; an edge that half of them have is none."""
    public = (path_graph([0, 0, 0]), path_graph([0, 0, 0, 0, 0]))
    found = MEAN_ADJACENCY(observation, Knowledge(SPACE, auxiliary=public), key=jax.random.key(0))
    assert found.best is not None and found.best.n == 4 and found.adjacency is not None
    np.testing.assert_array_equal(found.adjacency, np.diag([1, 1, 0.5], 1) + np.diag([1, 1, 0.5], -1))
    np.testing.assert_array_equal(found.best.edges, [[0, 1], [1, 2]])
