"""Which clients run together, how much memory they take, and why a run ended: the loop's host side, without a run."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.distance import Fit
from jgleak.attacks.matching import loop, run
from jgleak.attacks.matching.dlg import RECIPE, WITH_LABELS
from jgleak.attacks.matching.objectives import cosine
from jgleak.attacks.matching.problem import pose
from jgleak.federated import Knowledge, LocalTraining, Observation
from jgleak.gnn import GNN

ALONE = dataclasses.replace(RECIPE, reduce=None)


def observed(lab: Any, seed: int = 0, **fields: Any) -> Observation:
    model = fields.pop("model", lab.model(layers=1, hidden=4, readout="pooled", readout_widths=(3,)))
    update = jax.tree.map(lambda leaf: np.full(np.shape(leaf), 1.0 + seed, np.float32), lab.params(model))
    return Observation(model, lab.params(model), update, "ce", **fields)


def numbers(model: GNN, params: Any) -> tuple[int, int]:
    """Entries of all parameters, and the widths that rows have on their way."""
    leaves = jax.tree.leaves(params)
    return sum(leaf.size for leaf in leaves), model.in_features + sum(
        sum(leaf.shape) for leaf in leaves if leaf.ndim == 2
    )


@pytest.mark.parametrize("restarts", [1, 3])
@pytest.mark.parametrize("steps", [1, 5])
def test_a_client_takes_its_gradients_and_rows_so_many_times(lab: Any, restarts: int, steps: int) -> None:
    recipe = dataclasses.replace(RECIPE, restarts=restarts)
    one = observed(lab, protocol="fedavg", local=LocalTraining(0.1, steps))
    entries, widths = numbers(one.model, one.params)
    wanted = 4 * 12 * restarts * steps * (entries + 2 * 7 * (8 + widths))
    assert loop._bytes(recipe, one, 7, 8, 2) == wanted
    assert loop._bytes(dataclasses.replace(recipe, replay="none"), one, 7, 8, 2) == wanted / steps


def test_a_search_is_too_large_above_the_limit_and_says_for_what(lab: Any, monkeypatch: Any) -> None:
    drops = lab.model(layers=1, hidden=4, readout="pooled", readout_widths=(3,)).clone(dropout=0.5)
    averaged = dataclasses.replace(RECIPE, masks="averaged", draws=6)
    for recipe, model, draws in ((averaged, drops, 6), (averaged, None, 1), (RECIPE, drops, 1)):
        one = observed(lab, batch_size=2) if model is None else observed(lab, model=model, batch_size=2)
        needed = loop._bytes(recipe, one, 2 * 9, 9, draws)
        for limit, refused in ((needed, False), (needed - 1, True)):
            monkeypatch.setattr(loop, "LARGEST", limit)
            said = loop.too_large(recipe, one, Knowledge(lab.space, n=9))
            assert (said is not None) is refused
            assert said is None or (f", {draws} draws of masks each," in said) is (draws > 1)
    monkeypatch.setattr(loop, "LARGEST", loop._bytes(RECIPE, observed(lab), 0, 0, 1))
    assert loop.too_large(RECIPE, observed(lab), Knowledge(lab.space)) is None, "nothing tells how many nodes it has"


def client(lab: Any, recipe: Any, one: Observation, known: Knowledge) -> Any:
    return loop._Client(one, known, jax.random.key(0), *loop._posed(recipe, one, known, None, jax.random.key(0)))


def test_so_many_clients_run_together_as_fit_into_memory(lab: Any, monkeypatch: Any) -> None:
    made = client(lab, ALONE, observed(lab), Knowledge(lab.space, n=5))
    losses, graphs, slots = made.problem.shares.shape
    one = loop._bytes(ALONE, made.observation, losses * graphs * slots, slots, 1)
    for fit, together in ((0.5, 1), (1.0, 1), (1.99, 1), (2.0, 2), (3.9, 2), (4.0, 4), (9.0, 8)):
        monkeypatch.setattr(loop, "MEMORY", fit * one * (1 + 1e-12))
        assert loop._together(ALONE, made) == together
    averaged = dataclasses.replace(ALONE, masks="averaged", draws=3)
    drops = observed(lab, model=made.observation.model.clone(dropout=0.5))
    masked = client(lab, averaged, drops, Knowledge(lab.space, n=5))
    assert masked.problem.masks.shape == (3, 2)
    needed = loop._bytes(averaged, drops, losses * graphs * slots, slots, 3)
    for fit, together in ((1.9, 1), (2.0, 2)):
        monkeypatch.setattr(loop, "MEMORY", fit * needed * (1 + 1e-12))
        assert loop._together(averaged, masked) == together


def test_clients_of_one_kind_run_together_and_answers_keep_their_order(lab: Any, monkeypatch: Any) -> None:
    """Three sizes that are padded alike, one that is not, one whose edges are known, one of other parameters."""
    runs = list[list[int]]()

    def fake(recipe: Any, clients: Any, budget: Budget, progress: Any, trace: bool) -> list[Reconstruction]:
        runs.append([int(one.knowledge.n) for one in clients])
        return [Reconstruction((), None, "done", info={"n": one.knowledge.n}) for one in clients]

    monkeypatch.setattr(loop, "_run", fake)
    known = [Knowledge(lab.space, n=n) for n in (5, 6, 20)]
    known += [Knowledge(lab.space, adjacency=np.zeros((7, 7))), Knowledge(lab.space, n=8), Knowledge(lab.space, n=4)]
    seen = [observed(lab, seed) for seed in range(6)]
    seen[4] = dataclasses.replace(seen[4], params=jax.tree.map(lambda leaf: leaf + 1, seen[4].params))
    keys = list(jax.random.split(jax.random.key(0), 6))
    monkeypatch.setattr(loop, "_together", lambda *_: 2)
    found = loop.invert_many(ALONE, seen, known, keys=keys, budget=Budget())
    assert [one.info["n"] for one in found] == [5, 6, 20, 7, 8, 4]
    assert sorted(runs) == [[4], [5, 6], [7], [8], [20]]
    runs.clear()
    monkeypatch.setattr(loop, "_together", lambda *_: 8)
    loop.invert_many(ALONE, seen, known, keys=keys, budget=Budget())
    assert sorted(runs) == [[5, 6, 4], [7], [8], [20]]


@pytest.mark.parametrize("noise", [None, 1e-3, 2.0])
def test_what_noise_explains_is_a_value_of_the_squared_objective(lab: Any, noise: float | None) -> None:
    """Of a direction: ``1 - cos² <= e``, and a stretched guess is ``2 (1 - cos)`` away."""
    one = observed(lab)
    setting, _ = pose(one, Knowledge(lab.space, n=5, labels=np.array([1])), infer=False)
    clipped = dataclasses.replace(setting, scaled=True)
    most = 0.0 if noise is None else Fit.of(one, noise).most ** 2
    assert loop._explained(RECIPE, setting, one, noise) == pytest.approx(most)
    stretched = 2 * (1 - math.sqrt(1 - most)) if most < 1 else math.inf
    assert loop._explained(RECIPE, clipped, one, noise) == pytest.approx(stretched)
    assert loop._explained(dataclasses.replace(RECIPE, objective=cosine), setting, one, noise) == 0.0


def test_noise_as_large_as_a_clipped_update_explains_everything(lab: Any, monkeypatch: Any) -> None:
    setting, _ = pose(observed(lab), Knowledge(lab.space, n=5, labels=np.array([1])), infer=False)
    clipped = dataclasses.replace(setting, scaled=True)
    monkeypatch.setattr(loop, "Fit", SimpleNamespace(of=lambda *_: SimpleNamespace(most=1.0)))
    assert loop._explained(RECIPE, setting, observed(lab), 1.0) == 1.0
    assert loop._explained(RECIPE, clipped, observed(lab), 1.0) == math.inf


def test_why_a_run_ended(lab: Any) -> None:
    _, problem = pose(observed(lab), Knowledge(lab.space, n=5), infer=False)
    recipe = dataclasses.replace(WITH_LABELS, steps=100, target=1e-4)

    def stop(values: list[float], steps: list[int], late: bool = False, explained: float = 0.0) -> str:
        one = dataclasses.replace(problem, explained=np.array(explained, np.float32))
        return loop._stop(recipe, one, np.array(values), np.array(steps), late)

    assert stop([1.0, 1.9e-4], [5, 7]) == "converged" == stop([1.9e-4], [100]), "computed again, it may have moved"
    assert stop([2e-4], [7]) == stop([2.1e-4], [7]) == "diverged" and stop([2.1e-4], [7], late=True) == "time"
    assert stop([2.1e-4], [100], late=True) == "steps" and stop([1.0, 1.0], [99, 100]) == "steps"
    assert stop([0.5], [7], explained=0.5) == "converged" == stop([0.504], [7], explained=0.5)
    assert stop([0.506], [7], explained=0.5) == "diverged" and stop([0.5], [100], explained=0.5) == "steps"


def test_rows_that_are_known_are_those_of_all_graphs(lab: Any) -> None:
    assert loop._known_rows(Knowledge(lab.space, n=4)) is None
    one, two = lab.random(3, 1), lab.random(3, 2)
    np.testing.assert_array_equal(loop._known_rows(Knowledge(lab.space, features=one.x)), lab.space.encode(one.x))
    both = loop._known_rows(Knowledge(lab.space, features=np.stack([one.x, two.x])))
    np.testing.assert_array_equal(both, np.concatenate([lab.space.encode(g.x) for g in (one, two)]))


@pytest.mark.parametrize(
    ("clients", "lanes", "restarts", "wanted"),
    [
        (64, 1, 1, 32),
        (64, 1, 5, 4),
        (64, 1, 32, 1),
        (64, 1, 100, 1),
        (64, 4, 1, 16),
        (8, 8, 1, 1),
        (16, 2, 4, 8),
        (2, 2, 1, 1),
    ],
)
def test_a_piece_is_a_power_of_two_of_clients_that_stays_in_a_cores_cache(
    clients: int, lanes: int, restarts: int, wanted: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(run, "lanes", lambda _: lanes)
    assert run.piece(clients, restarts) == wanted
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert run.piece(clients, restarts) == clients // lanes
