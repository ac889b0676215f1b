"""Several passes over a client's graphs: as one pass, up to second order in how far weights move."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.census.batches.joint import each_gradient, replayed, retrained
from jgleak.attacks.census.batches.passes import Passes
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.distance import MATCH
from jgleak.audit.certified import verify, write
from jgleak.federated import Knowledge, LocalTraining, Observation, fedavg, save
from jgleak.federated.client import gradients
from jgleak.federated.descent import descended
from jgleak.gnn import Params
from jgleak.graph import Graph, GraphBatch


def graphs(lab: Any) -> list[Graph]:
    return [lab.path([0, 1, 1, 2, 0], y=1), lab.ring([1, 3, 2, 0], y=0)]


def returned(lab: Any, passes: int, rate: float) -> Observation:
    model, some = lab.model(), graphs(lab)
    local = LocalTraining(rate, passes * len(some), loader=1)
    return fedavg(model, lab.params(model), some, lab.space, loss="bce", local=local)


def off(found: Params, wanted: Params) -> float:
    gaps = jax.tree.map(lambda one, two: np.abs(np.asarray(one, np.float64) - np.asarray(two)).max(), found, wanted)
    return max(jax.tree.leaves(gaps))


def after(lab: Any, seen: Observation, steps: int, some: list[Graph] | None = None) -> Params:
    """The weights after so many of the client's steps."""
    assert seen.local is not None
    if not steps:
        return seen.params
    local = LocalTraining(seen.local.rate, steps, loader=seen.local.loader)
    update = retrained(dataclasses.replace(seen, local=local), lab.space, some or graphs(lab))
    return jax.tree.map(lambda w, g: np.asarray(w) - local.length * np.asarray(g), seen.params, update)


def test_one_pass_is_followed_exactly(lab: Any) -> None:
    seen = returned(lab, 1, 0.05)
    left = Passes.of(seen)
    assert left.size == 2 and len(left.weights) == 1 and left.seen.local is None
    rest = left.without(graphs(lab)[:1], lab.space)
    assert rest.size == 1 and off(rest.weights[0], after(lab, seen, 1)) < 1e-6
    (own,) = each_gradient(rest.seen, lab.space, graphs(lab)[1:])
    assert off(rest.seen.update, own) < 1e-6


def mixed(steps: Params, shares: np.ndarray) -> Params:
    """The sum over the leading axis of every leaf, each entry so many times."""
    return jax.tree.map(lambda leaf: np.tensordot(shares, np.asarray(leaf, np.float64), 1), steps)


@pytest.mark.parametrize("fields", [{"momentum": 0.9}, {"weight_decay": 0.3}, {"momentum": 0.5, "weight_decay": 0.3}])
def test_momentum_and_weight_decay_are_followed_through_three_steps(fields: dict[str, Any], lab: Any) -> None:
    """The weights before every step, and what is left: each step counts ``LocalTraining.shares`` of the update."""
    some = [*graphs(lab), lab.path([2, 0, 3], y=1)]
    model, local = lab.model(), LocalTraining(0.05, 3, loader=1, **fields)
    seen = fedavg(model, lab.params(model), some, lab.space, loss="bce", local=local)
    batch = GraphBatch.from_graphs(some, lab.space, slots=model.readout.slots)

    def slope(weights: Params, number: Any) -> Params:
        return jax.tree.map(lambda leaf: leaf[number], gradients(model, weights, batch, loss="bce"))

    walked = descended(model, seen.params, slope, local.descent, along=True)
    left = Passes.of(seen)
    for step, graph in enumerate(some):
        size, counted = len(some) - step, np.where(np.arange(3) < step, 0.0, local.shares / local.shares[step])
        assert off(left.weights[0], mixed(walked.weights, np.eye(3)[step])) < 1e-6
        assert off(left.seen.update, mixed(walked.slopes, counted / size)) < 3e-6
        if size > 1:
            left = left.without([graph], lab.space)


@pytest.mark.parametrize("at_once", [True, False])
def test_steps_of_two_graphs_and_a_last_one_of_one_are_followed(at_once: bool, lab: Any) -> None:
    """Whether the graphs of the first step are found together or one after another, in any order: no graph counts more
    than another of its step, though the last step's counts twice as much as each of the first."""
    some = [*graphs(lab), lab.path([2, 0, 3], y=1)]
    model, local = lab.model(), LocalTraining(0.05, 2, loader=2)
    seen = fedavg(model, lab.params(model), some, lab.space, loss="bce", local=local)
    left = Passes.of(seen)
    assert (left.size, left.left) == (3, 2)
    own = each_gradient(left.seen, lab.space, some[:2])
    if at_once:
        rest = left.without(some[:2], lab.space)
    else:
        half = left.without(some[1:2], lab.space)
        assert (half.size, half.left) == (2, 1) and off(half.weights[0], seen.params) == 0.0
        (first,) = each_gradient(half.seen, lab.space, some[:1])
        (other,) = each_gradient(dataclasses.replace(seen, params=after(lab, seen, 1, some)), lab.space, some[2:])
        # one of two graphs of the first step counts half of what the other step's does
        mean = jax.tree.map(lambda a, b: np.asarray(a) + 3.0 * np.asarray(b), first, other)
        assert off(half.seen.update, mean) < 1e-6
        rest = half.without(some[:1], lab.space)
    moved = jax.tree.map(lambda w, a, b: np.asarray(w) - 0.05 * 1.5 * (a + b), seen.params, *own)
    assert (rest.size, rest.left) == (1, 1) and off(rest.weights[0], moved) < 1e-6
    (last,) = each_gradient(rest.seen, lab.space, some[2:])
    assert off(rest.seen.update, last) < 1e-6


def test_every_pass_begins_where_the_last_one_ended_up_to_second_order(lab: Any) -> None:
    """Twice the rate: four times as far off; of what moved that is a small part."""

    def gaps(rate: float) -> tuple[float, float, float]:
        seen = returned(lab, 3, rate)
        left = Passes.of(seen)
        begun = [after(lab, seen, 2 * number) for number in range(3)]
        first = max(off(found, wanted) for found, wanted in zip(left.weights, begun, strict=True))
        rest = left.without(graphs(lab)[:1], lab.space)
        wanted = [after(lab, seen, 2 * number + 1) for number in range(3)]
        second = max(off(found, want) for found, want in zip(rest.weights, wanted, strict=True))
        return first, second, off(begun[0], begun[1])

    near, far = gaps(0.02), gaps(0.04)
    assert far[0] == pytest.approx(4 * near[0], rel=0.3) and far[1] == pytest.approx(4 * near[1], rel=0.3)
    assert near[0] < 0.25 * near[2]


def test_what_the_last_graph_leaves_is_its_mean_gradient(lab: Any) -> None:
    seen, (first, second) = returned(lab, 2, 1e-3), graphs(lab)
    rest = Passes.of(seen).without([first], lab.space)
    problem = rest.problem(Knowledge(lab.space), DEFAULTS)
    assert [point.share for point in problem.path] == [0.5, 0.5]
    own = [each_gradient(dataclasses.replace(rest.seen, params=p.params), lab.space, [second])[0] for p in problem.path]
    mean = jax.tree.map(lambda one, two: (one + two) / 2, *own)
    assert off(rest.seen.update, mean) < 1e-5 < 1e-3 < off(rest.seen.update, Passes.of(seen).seen.update)


def test_graphs_of_several_passes_come_back_and_are_trained_again(lab: Any, tmp_path: Path) -> None:
    seen, some = returned(lab, 3, 1e-3), graphs(lab)
    found = CENSUS(seen, Knowledge(lab.space, max_n=8), key=jax.random.key(0), budget=Budget(time_limit=60))
    path, ring = found.members
    # a ring of four different nodes has the gradient of both others of these nodes
    assert [len([g for g in one.graphs if g.n == truth.n]) for one, truth in zip((path, ring), some, strict=True)] == [
        1,
        3,
    ]
    for truth, member in zip(some, (path, ring), strict=True):
        assert truth.canonical_form() in {graph.canonical_form() for graph in member.graphs}
    assert found.stop == "match" and found.gradient_distance is not None and found.gradient_distance < 1e-6
    assert found.certificate is not None and found.certificate.status == "at_least_k"
    save(tmp_path / "seen", seen, lab.space)
    write(tmp_path / "found.json", found, tmp_path / "seen")
    assert verify(tmp_path / "found.json").holds
    assert seen.local is not None
    other = dataclasses.replace(seen, local=dataclasses.replace(seen.local, rate=0.01))
    save(tmp_path / "seen", other, lab.space)
    assert not verify(tmp_path / "found.json").holds


def test_the_order_of_the_passes_matters_to_what_is_trained_again(lab: Any) -> None:
    seen, some = returned(lab, 2, 0.05), graphs(lab)
    assert replayed(seen, lab.space, some) < 1e-6 < MATCH < replayed(seen, lab.space, some[::-1])
