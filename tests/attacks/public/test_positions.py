"""The habit of files: exact where every public file has it, the overall shares where none says more."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jgleak.attacks.public.positions import position_frequencies
from jgleak.features import Feature, FeatureSpace
from jgleak.graph import Graph

SPACE = FeatureSpace(
    (Feature("kind", ("a", "b", "c")), Feature("flag", (0, 1), kind="binary"), Feature("x", (), "real"))
)


def file(n: int, x: float = 0.0) -> Graph:
    """Begins with ``b``, ends with a flagged ``c``, is ``a`` between."""
    rows = np.zeros((n, 3))
    rows[0, 0], rows[-1, 0], rows[-1, 1], rows[:, 2] = 1, 2, 1, x
    return Graph(rows, np.array([(i, i + 1) for i in range(n - 1)]))


def named(graphs: list[Graph], n: int, slots: int = 8) -> Any:
    return np.asarray(position_frequencies(graphs, SPACE, slots).node_logits(jnp.asarray(n), slots))


def test_first_and_last_places_are_told_for_every_size() -> None:
    graphs = [file(n) for n in (3, 4, 5, 6) for _ in range(10)]
    for n in (4, 6, 7):
        found = named(graphs, n)
        np.testing.assert_array_equal(found[:n, :3].argmax(axis=1), [1, *[0] * (n - 2), 2])
        np.testing.assert_array_equal(found[:n, 3] > 0, [False] * (n - 1) + [True])
        assert not found[n:].any(), "padding says nothing"


def test_places_no_public_graph_has_get_the_overall_shares() -> None:
    graphs = [file(3, x=2.0)] * 5
    found = named(graphs, 20, slots=32)
    np.testing.assert_allclose(np.exp(found[8, :3]), [1 / 3] * 3, rtol=1e-5)
    np.testing.assert_allclose(found[8, 4], 2.0, rtol=1e-5)


def test_rows_that_are_encoded_already_are_taken_as_they_are() -> None:
    graphs = [Graph(SPACE.encode(g.x), g.edges) for g in [file(3), file(5)]]
    np.testing.assert_array_equal(named(graphs, 5), named([file(3), file(5)], 5))


def test_statistics_of_the_space_are_undone() -> None:
    plain = [file(4)] * 6
    raw = np.concatenate([SPACE.encode(g.x) for g in plain])
    space = FeatureSpace(SPACE.features, mean=raw.mean(axis=0), std=raw.std(axis=0))
    with_statistics = position_frequencies(plain, space, 8).node_logits(jnp.asarray(4), 8)
    np.testing.assert_allclose(with_statistics, named(plain, 4), atol=1e-4)


def test_edges_are_told_from_both_ends() -> None:
    """Paths whose first node is also bound to the third, and whose last one to the last but two."""
    graphs = []
    for n in (6, 7, 8, 9) * 10:
        edges = [*((i, i + 1) for i in range(n - 1)), (0, 2), (n - 3, n - 1)]
        graphs.append(Graph(np.zeros((n, 3)), np.array(edges)))
    for n in (6, 8, 11):
        found = np.asarray(position_frequencies(graphs, SPACE, 16).edge_logits(jnp.asarray(n), 16))
        np.testing.assert_array_equal(found, found.T)
        assert not found[n:].any() and not np.diag(found).any()
        wanted = [*((i, i + 1) for i in range(n - 1)), (0, 2), (n - 3, n - 1)]
        assert sorted(map(tuple, np.argwhere(np.triu(found > 0)).tolist())) == sorted(wanted)


def test_no_habit_of_edges_without_pairs() -> None:
    alone = Graph(np.zeros((1, 3)), np.zeros((0, 2), np.int64))
    assert np.isfinite(position_frequencies([alone], SPACE, 4).edge_logits(jnp.asarray(3), 4)).all()


def test_shares_and_probabilities_are_those_of_the_logits() -> None:
    graphs = [file(n) for n in (3, 4, 5, 6) for _ in range(10)]
    found = position_frequencies(graphs, SPACE, 8)
    for n in (4, 8, 11):
        logits = np.asarray(found.node_logits(jnp.asarray(n), 16))[:n]
        shares = np.exp(logits[:, :3]) / np.exp(logits[:, :3]).sum(axis=1, keepdims=True)
        rows = found.rows_of(n, SPACE)
        np.testing.assert_allclose(rows[:, :3], shares, rtol=1e-4)
        np.testing.assert_allclose(rows[:, 3], 1 / (1 + np.exp(-logits[:, 3])), rtol=1e-4)
        edges = found.edges_of(n)
        assert edges.shape == (n, n) and not np.diag(edges).any()
        np.testing.assert_array_equal(edges > 0.5, np.abs(np.subtract.outer(np.arange(n), np.arange(n))) == 1)
