"""TabLeak's start stands at the public frequencies, and its ensemble at the mean that the gradient speaks for."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import flat, some_params

from jgleak.attacks import relaxations
from jgleak.attacks.matching import starts, tableak
from jgleak.attacks.matching.objectives import Guess, squared
from jgleak.attacks.matching.problem import Problem, Setting, pose
from jgleak.attacks.matching.recipe import gradients, relax_structured
from jgleak.datasets import load
from jgleak.federated import Knowledge, fedsgd


@pytest.fixture(scope="module")
def posed() -> tuple[Setting, Problem, Any]:
    """A molecule of the embedded set in a small model, its labels known."""
    data = load("embedded", max_nodes=8)
    graph = max(data.graphs, key=lambda g: g.n)
    model = flat(in_features=data.space.width, hidden=8, layers=1, readout="pooled", readout_widths=())
    seen = fedsgd(model, some_params(model), [graph], data.space, loss="ce")
    labels = np.atleast_1d(np.asarray(graph.y))
    setting, problem = pose(seen, Knowledge(data.space, n=graph.n, labels=labels), infer=True)
    problem = jax.tree.map(jnp.asarray, problem)
    slots = problem.mask.shape[1]
    nodes = np.zeros((1, slots, data.space.width), np.float32)
    edges = np.zeros((1, slots, slots), np.float32)
    nodes[0, : graph.n], edges[0, : graph.n, : graph.n] = data.space.encode(graph.x), graph.adjacency
    return setting, problem, Guess(jnp.asarray(nodes), jnp.asarray(edges), problem.labels)


@pytest.mark.long
def test_the_start_has_public_frequencies_and_gradients_of_a_clients_length(
    posed: tuple[Setting, Problem, Any],
) -> None:
    setting, problem, _ = posed
    step = jnp.zeros((), int)

    def far(start: starts.Start) -> float:
        guess = relax_structured(setting, problem, start(setting, problem, jax.random.key(1)), step)
        return float(squared(gradients(setting, problem, guess), problem.update))

    assert far(starts.Frequent()) < 0.1 * far(starts.normal)
    still = starts.Frequent(start_spread=0.0)
    rows = still(setting, problem, jax.random.key(1))["nodes"]
    frequencies = np.asarray(relaxations.softmax_features(rows, setting.groups))
    seen = np.asarray(problem.mean) > still.start_rarest
    assert seen.sum() > 10
    np.testing.assert_allclose(frequencies[..., seen], np.broadcast_to(problem.mean, rows.shape)[..., seen], rtol=0.3)


def test_without_public_statistics_the_start_is_even(posed: tuple[Setting, Problem, Any]) -> None:
    setting, problem, _ = posed
    none: Any = np.zeros(np.shape(problem.mean), np.float32)
    bare = dataclasses.replace(problem, mean=none, scale=none + 1)
    rows = starts.Frequent()(setting, bare, jax.random.key(1))["nodes"]
    mixed = np.asarray(relaxations.softmax_features(rows, setting.groups))
    for group in setting.groups:
        columns = mixed[..., group.start : group.start + group.columns]
        even = 0.5 if group.kind == "binary" else 1 / group.columns
        np.testing.assert_allclose(columns.mean(axis=(0, 1)), even, rtol=0.5)


def test_restarts_that_agree_up_to_order_are_averaged_and_others_left_out(posed: tuple[Setting, Problem, Any]) -> None:
    setting, problem, truth = posed
    n, rng = int(np.asarray(problem.mask).sum()), np.random.default_rng(0)

    def blurred(order: Any) -> tuple[Any, Any]:
        nodes, edges = np.array(truth.nodes), np.array(truth.adjacency)
        nodes[0, :n] += 0.2 * rng.normal(size=nodes[0, :n].shape)
        nodes[0, :n], edges[0, :n, :n] = nodes[0, order], edges[0][np.ix_(order, order)]
        return nodes, edges

    def answer(restarts: list[tuple[Any, Any]]) -> Guess:
        all_labels = [truth.labels] * len(restarts)
        parts: Any = [np.stack(part) for part in (*zip(*restarts, strict=True), all_labels)]
        return tableak.Ensemble()(setting, problem, Guess(*parts), np.arange(len(restarts)) / 100)

    def wrong() -> tuple[Any, Any]:
        return 3 * rng.normal(size=truth.nodes.shape).astype(np.float32), 1 - truth.adjacency

    own = np.arange(n)
    same = [blurred(own), *(blurred(rng.permutation(n)) for _ in range(3))]
    assert (
        np.abs(answer([*same, *(wrong() for _ in range(4))]).nodes - truth.nodes)[0, :n].mean()
        < 0.6 * np.abs(same[0][0] - truth.nodes)[0, :n].mean()
    ), "the noise of four restarts averages out once their nodes are matched"
    alone = answer([same[0], *(wrong() for _ in range(7))])
    np.testing.assert_array_equal(alone.nodes, same[0][0])


@pytest.mark.parametrize(
    ("share", "restarts", "wanted"),
    [(0.5, 1, 1), (0.5, 2, 1), (0.5, 3, 2), (0.5, 8, 4), (0.3, 4, 2), (1.0, 7, 4), (1.0, 8, 8)],
)
def test_the_largest_ensemble_is_a_power_of_two_within_its_share(
    share: float, restarts: int, wanted: int, posed: tuple[Setting, Problem, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the best restarts, where it is the nearest; labels are the best one's. Known edges leave nodes their order."""
    setting, problem, truth = posed
    monkeypatch.setattr(tableak, "_distances", lambda setting, problem, guesses: -np.arange(len(guesses.nodes)))
    rng = np.random.default_rng(0)
    values, shapes = np.arange(restarts)[::-1] / 10, [part.shape for part in truth[:3]]
    guesses = Guess(*(rng.normal(size=(restarts, *shape)) for shape in shapes))  # type: ignore[arg-type]
    known = dataclasses.replace(problem, adjacency=truth.adjacency)
    found = tableak.Ensemble(share)(setting, known, guesses, values)
    best = np.argsort(values)[:wanted]
    np.testing.assert_allclose(found.nodes, guesses.nodes[best].mean(axis=0))
    np.testing.assert_allclose(found.adjacency, guesses.adjacency[best].mean(axis=0))
    np.testing.assert_array_equal(found.labels, guesses.labels[best[0]])
