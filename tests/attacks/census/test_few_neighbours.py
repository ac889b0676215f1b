"""Where features state no degree: nodes of few neighbours are tried first, and what is claimed of others."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from models import some_params

from jgleak import Budget, Knowledge, fedsgd, get_attack, standard
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.checks import SPARSE
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.starts import Start
from jgleak.attacks.census.unstated_degrees import degrees_assumed
from jgleak.attacks.span.hops import Nodes, one_hop_count
from jgleak.features import FeatureSpace, onehot
from jgleak.graph import Graph

SPACE = FeatureSpace((onehot("kind", "ab"),))


def start(classes: int = 1) -> Start:
    """Two kinds, each with up to four neighbours."""
    codes, degrees = np.repeat([[0], [1]], 5, axis=0), np.tile(np.arange(5), 2)
    return Start(Nodes(codes, SPACE.encode(codes), degrees, certain=True, classes=classes), ("checked",), complete=True)


def test_nodes_of_few_neighbours_are_a_part_that_says_so() -> None:
    sparse = start().sparse(3)
    assert sparse is not None and sparse.nodes.degrees.tolist() == [0, 1, 2, 3] * 2
    assert not sparse.complete and not sparse.nodes.certain and sparse.some_degrees and sparse.attempts == SPARSE
    assert sparse.conditions[0] == "checked" and "no node has more than 3 neighbours" in sparse.conditions[1]
    assert sparse.sparse(3) is None and sparse.scattered(3, 1 << 20) is None


@pytest.mark.parametrize("classes", [1, 2])
def test_scattered_hubs_are_all_neighbourhoods_with_at_most_one(classes: int) -> None:
    degrees = start(classes).nodes.degrees
    hub = degrees > 3
    around = [classes * t + k for t in np.flatnonzero(degrees) for k in range(classes)]
    wanted = {
        (t, others)
        for t in range(degrees.size)
        for others in itertools.combinations_with_replacement(around, int(degrees[t]))
        if hub[t] + hub[np.array(others, np.int64) // classes].sum() <= 1
    }
    scattered = start(classes).scattered(3, len(wanted))
    assert scattered is not None and scattered.nodes.listed is not None
    assert len(scattered.nodes.listed) == len(wanted) == one_hop_count(scattered.nodes)
    assert set(scattered.nodes.listed) == wanted and not scattered.nodes.certain
    assert start(classes).scattered(3, len(wanted) - 1) is None, "too many"


@pytest.fixture(scope="module")
def problem() -> CensusProblem:
    """A path with one branch, whose three rows leave many neighbourhoods of four."""
    truth = Graph(np.array([0, 0, 1, 0, 2, 1])[:, None], np.array([(0, 1), (1, 2), (2, 3), (3, 4), (1, 5)]), 1)
    space = FeatureSpace((onehot("kind", "abc"),))
    model = standard(space.width, hidden=32)
    seen = fedsgd(model, some_params(model), [truth], space, loss="bce")
    return CensusProblem.of(seen, Knowledge(space, n=truth.n, features=truth.x))


@pytest.mark.long
def test_all_degrees_come_after_few_and_replace_what_these_gave(problem: CensusProblem) -> None:
    budget = Budget(time_limit=60)
    clock = budget.start()
    candidates = CensusCandidates(problem, clock, budget)
    first = next(candidates.attempts(clock))
    limits = problem.limits.span
    assert (
        first.nodes.degrees.max() == 3
        and not first.complete
        and degrees_assumed(problem.knowledge, first, limits) == ()
    )
    whole = candidates.of_all_degrees(first)
    assert whole is not None and whole.nodes.degrees.max() == 4 and whole.complete
    assert degrees_assumed(problem.knowledge, whole, limits)[0].startswith("no node has more than 4 neighbours")
    assert candidates.of_all_degrees(whole) is None, "nothing is wider"


def test_no_condition_on_degrees_where_features_state_them_or_no_node_is_left() -> None:
    knowledge, limits = Knowledge(SPACE), DEFAULTS.limits.span
    levels = Levels(start().nodes, (), (), complete=True)
    assert degrees_assumed(knowledge, levels, limits)[0].startswith("no node has more than 4 neighbours")
    none = Nodes(np.zeros((0, 1), np.int64), np.zeros((0, SPACE.width)), np.zeros(0, np.int64))
    assert degrees_assumed(knowledge, dataclasses.replace(levels, nodes=none), limits) == ()
    stated = FeatureSpace((onehot("kind", "ab"), onehot("degree", range(5))), degree="degree")
    assert degrees_assumed(Knowledge(stated), levels, limits) == ()


def test_what_few_neighbours_gave_is_certified_for_all_degrees_or_not_at_all(problem: CensusProblem) -> None:
    found = get_attack("census")(problem.seen, problem.knowledge, key=jax.random.key(1), budget=Budget(time_limit=60))
    assert found.certificate is not None and found.certificate.status == "unique"
    said = [condition for condition in found.certificate.conditions if "neighbours" in condition]
    assert len(said) == 1 and said[0].startswith("no node has more than 4 neighbours")
    few = {"hop_blocks": "40"}  # neighbourhoods of all degrees are more
    census = get_attack("census").with_options(few)
    found = census(problem.seen, problem.knowledge, key=jax.random.key(1), budget=Budget(time_limit=60))
    assert found.certificate is not None and found.certificate.status == "at_least_k"
    assert any("more were tried only after that" in condition for condition in found.certificate.conditions)


def test_who_finds_nothing_is_told_that_features_state_no_degree(problem: CensusProblem) -> None:
    census = get_attack("census").with_options({"hop_blocks": "1", "replicas": "1", "enumerated_nodes": "0"})
    found = census(problem.seen, problem.knowledge, key=jax.random.key(1), budget=Budget(time_limit=1e-3))
    assert not found.graphs and "nodes of more than 4 neighbours were not searched" in found.info["reason"]


def test_what_was_not_looked_at_is_counted_hop_by_hop(problem: CensusProblem) -> None:
    clock = Budget(time_limit=60).start()
    levels = next(CensusCandidates(problem, clock, Budget(candidates=40)).attempts(clock))
    left = {hop: sum(part.size for part in blocks.unsearched) for hop, blocks in enumerate(levels.hops, start=1)}
    said = [condition for condition in levels.conditions if "not looked at" in condition]
    assert said == [
        f"none of {n} candidates of {hop}-hop blocks that were not looked at occurs" for hop, n in left.items() if n
    ]
    assert said and not levels.complete
