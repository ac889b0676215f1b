"""Lists of graphs of a batch, held against each other: what fits comes first, in the order of the prior."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Reconstruction
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.batches import answers as answers_module
from jgleak.attacks.census.batches.answers import (
    OTHERS,
    TOLD_APART,
    _first,
    beside,
    certified,
    checked,
    cut,
    of_all,
)
from jgleak.attacks.census.batches.joint import each_gradient, fitting, remaining, without
from jgleak.attacks.census.batches.members import Member
from jgleak.attacks.census.batches.parts import Part
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.certificate import Certificate, Status
from jgleak.attacks.distance import MATCH
from jgleak.attacks.span.hops import Nodes
from jgleak.audit.certified import verify, write
from jgleak.federated import Knowledge, Observation, fedsgd, save
from jgleak.gnn import MLP, Pooled
from jgleak.gnn.standard import standard
from jgleak.graph import Graph
from tests.clocks import HELD

from ..test_anonymity import typed

SPACE = typed(2)


def of(kinds: Sequence[int], edges: Sequence[tuple[int, int]], y: int | np.ndarray) -> Graph:
    """Nodes of these kinds; their degrees are features."""
    ends = np.array(edges, np.int64).reshape(-1, 2)
    degrees = np.bincount(ends.ravel(), minlength=len(kinds))
    return Graph(np.c_[np.array(kinds, np.int64), degrees], ends, y)


def ring(nodes: int, y: int) -> Graph:
    """A cycle of equal nodes: under mean pooling all lengths have one gradient."""
    return of([0] * nodes, [(v, (v + 1) % nodes) for v in range(nodes)], y)


def path(kinds: Sequence[int], y: int | np.ndarray) -> Graph:
    return of(kinds, [(v, v + 1) for v in range(len(kinds) - 1)], y)


def test_of_graphs_that_fit_the_likeliest_is_first_whatever_was_guessed_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the other list begins with a wrong graph, none fits, and rounding decides which is nearest: here the last.
    That must not change the order of those that do fit."""

    def rounded(*given: Any) -> list[float]:
        distances = fitting(*given)
        return distances if min(distances) < 1e-5 else [far - 1e-3 * k for k, far in enumerate(distances)]

    monkeypatch.setattr("jgleak.attacks.census.batches.answers.fitting", rounded)
    model = standard(SPACE.width, "gcn", Pooled("mean", MLP((16, 2))), hidden=16, last_act=True)
    params = model.initial(key=jax.random.key(0))
    likely, other, right, wrong = ring(3, 1), ring(7, 1), path((0, 1, 1), 0), path((1, 0), 0)
    observation = fedsgd(model, params, [likely, right], SPACE, loss="bce")
    lists = [(path((1, 1, 1, 0), 1), likely, other), (wrong, right)]
    problem = CensusProblem.of(observation, Knowledge(SPACE), DEFAULTS)
    answers, far = checked(problem, [Reconstruction(graphs, 0.0, "match") for graphs in lists])
    assert far < 1e-5
    assert answers[0].graphs[:2] == (likely, other) and answers[1].graphs[0] is right


def test_a_graph_with_missing_labels_has_the_direction_of_what_the_others_leave(tmp_path: Path) -> None:
    """What one label counts depends on all labels of the batch; a saved batch is verified all the same."""
    model = standard(SPACE.width, "gcn", Pooled("mean", MLP((16, 3))), hidden=16, last_act=True)
    params = model.initial(key=jax.random.key(0))
    rows = ([1.0, np.nan, np.nan], [0.0, 1.0, np.nan], [1.0, 0.0, 1.0])
    kinds = ((0, 1, 1), (1, 0), (0, 0, 1, 1))
    graphs = [path(kind, np.array([row])) for kind, row in zip(kinds, rows, strict=True)]
    observation = fedsgd(model, params, graphs, SPACE, loss="masked_bce")
    each = each_gradient(observation, SPACE, graphs)
    for place, graph in enumerate(graphs):
        left = remaining(observation, without(each, place))
        (own,), (foreign,) = (fitting(left, SPACE, [one]) for one in (graph, graphs[place - 1]))
        assert own < 1e-5 < foreign
    file = tmp_path / "found.json"
    save(tmp_path / "seen.safetensors", observation, SPACE)
    members = tuple(Reconstruction((graph,), 0.0, "match") for graph in graphs)
    write(file, Reconstruction(tuple(graphs), 0.0, "match", members=members), tmp_path / "seen.safetensors")
    assert verify(file).holds
    swapped = (dataclasses.replace(members[0], graphs=(path((0, 0, 0), np.array([rows[0]])),)), *members[1:])
    write(file, Reconstruction(tuple(graphs), 0.0, "match", members=swapped), tmp_path / "seen.safetensors")
    assert not verify(file).holds


@pytest.mark.parametrize(
    ("status", "number", "expected"),
    [("k_graphs", 1, "unique"), ("k_graphs", 2, "k_graphs"), ("at_least_k", 1, "at_least_k")],
)
def test_the_first_graphs_of_a_list_have_a_certificate_of_that_many(
    status: Status, number: int, expected: Status
) -> None:
    graphs = tuple(path([0] * n, 1) for n in (2, 3, 4))
    whole = Reconstruction(graphs, 0.0, "match", certificate=Certificate(status, 3, 9, False, 1e-6, ("a condition",)))
    first = _first(whole, number)
    assert first.graphs == graphs[:number]
    assert first.certificate == Certificate(expected, number, 9, False, 1e-6, ("a condition",))
    bare = _first(dataclasses.replace(whole, certificate=None), number)
    assert bare.graphs == graphs[:number] and bare.certificate is None


def test_what_is_cut_claims_nothing_beside_its_list() -> None:
    whole = Reconstruction((path([0, 1], 1),), 0.0, "match", certificate=Certificate("unique", 1, 9, True, 1e-6))
    assert cut(whole).certificate == Certificate("at_least_k", 1, 9, True, 1e-6)
    assert cut(whole).graphs == whole.graphs
    assert cut(dataclasses.replace(whole, certificate=None)).certificate is None


def listed(*graphs: Graph, **fields: Any) -> Reconstruction:
    """Graphs that are all that there are, unless ``fields`` say another thing."""
    status = "unique" if len(graphs) == 1 else "k_graphs"
    certificate = Certificate(
        **({"status": status, "size": len(graphs), "n_max": 9, "n_known": True, "residual": 1e-7} | fields)
    )
    return Reconstruction(graphs, 0.0, "match", certificate=certificate)


@pytest.mark.parametrize(
    ("lists", "status", "size"),
    [
        ([listed(ring(3, 1)), listed(ring(4, 1))], "unique", 1),
        ([listed(ring(3, 1)), listed(ring(4, 1), ring(5, 1))], "k_graphs", 2),
        ([listed(ring(3, 1), ring(6, 1)), listed(*(ring(n, 0) for n in (3, 4, 5)))], "k_graphs", 6),
        ([listed(ring(3, 1), ring(6, 1)), listed(ring(3, 1), ring(4, 1))], "at_least_k", 1),
        ([listed(ring(3, 1)), listed(ring(3, 1))], "unique", 1),
        ([listed(ring(3, 1)), listed(ring(4, 1), ring(5, 1), status="at_least_k")], "at_least_k", 2),
    ],
    ids=["one", "two", "products", "shared graphs are not counted", "equal graphs are one batch", "an open list"],
)
def test_a_batch_is_any_choice_of_its_lists(lists: list[Reconstruction], status: Status, size: int) -> None:
    certificate = of_all(lists, 0.25)
    assert (certificate.status, certificate.size, certificate.residual) == (status, size, 0.25)
    assert (certificate.n_max, certificate.n_known, certificate.conditions) == (9, True, ())


def test_a_batch_assumes_what_any_of_its_lists_does_once() -> None:
    lists = [
        listed(ring(3, 1), conditions=("a", "b"), n_max=7),
        listed(ring(4, 1), conditions=("b", "c"), n_max=12, n_known=False),
        Reconstruction((ring(5, 1),), 0.0, "match"),
    ]
    certificate = of_all(lists, 0.0)
    assert certificate.conditions == ("a", "b", "c") and (certificate.n_max, certificate.n_known) == (12, False)


def test_graphs_beside_others_assume_those() -> None:
    """Of a batch every graph does, of one graph this one, and of none there is no answer."""
    one, bare = listed(ring(3, 1), conditions=("a",)), Reconstruction((ring(4, 1),), 0.0, "match")
    (alone,) = beside(one)
    assert alone.graphs == one.graphs and alone.certificate is not None
    assert alone.certificate.conditions == ("a", OTHERS)
    assert beside(Reconstruction((), None, "time")) == []
    batch = Reconstruction((ring(3, 1), ring(4, 1)), 0.0, "match", members=(one, bare))
    assert beside(batch) == [alone, bare]


@pytest.mark.parametrize(
    ("distances", "whole", "expected"),
    [
        ([[1.9, 2.1], [0.0, 1.9]], 0.9, [("unique", 1), ("k_graphs", 2)]),
        ([[1.9, 2.1], [0.0, 2.1]], 0.9, [("at_least_k", 1), ("at_least_k", 1)]),
        ([[1.9, 2.1], [0.0, 1.9]], 1.1, [("at_least_k", 1), ("k_graphs", 2)]),
    ],
    ids=["one list is shorter", "each depends on the other", "together they do not match"],
)
def test_a_list_ends_at_what_fits_where_the_batch_matches_and_no_other_list_changes(
    distances: list[list[float]], whole: float, expected: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distances in units of ``MATCH``: what is left for one of two graphs has twice the rounding."""
    lists = [listed(ring(3, 1), ring(4, 1)), listed(ring(5, 0), ring(6, 0))]
    far = {
        graph: one
        for answer, each in zip(lists, distances, strict=True)
        for graph, one in zip(answer.graphs, each, strict=True)
    }
    module = "jgleak.attacks.census.batches.answers"
    monkeypatch.setattr(f"{module}.each_gradient", lambda _, __, graphs: graphs)
    monkeypatch.setattr(f"{module}.remaining", lambda *given: given)
    monkeypatch.setattr(f"{module}.fitting", lambda _, __, graphs: [MATCH * far[graph] for graph in graphs])
    monkeypatch.setattr(f"{module}.distance", lambda *_: whole * MATCH)
    model = standard(SPACE.width, "gcn", Pooled("mean", MLP((16, 2))), hidden=16, last_act=True)
    params = model.initial(key=jax.random.key(0))
    observation = Observation(model, params, params, "bce", batch_size=2)
    answers, distance = checked(CensusProblem.of(observation, Knowledge(SPACE), DEFAULTS), lists)
    made = [answer.certificate for answer in answers]
    assert [(one.status, one.size) for one in made if one is not None] == expected
    assert [len(answer.graphs) for answer in answers] == [size for _, size in expected] and distance == whole * MATCH


@pytest.mark.parametrize(("second", "first"), [(0.298, 0), (0.2, 1)])
def test_where_none_fits_the_nearest_comes_first_and_of_as_near_ones_the_likeliest(
    second: float, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first graph's distance is 0.3; up to a hundredth another is as near."""
    module, graphs = "jgleak.attacks.census.batches.answers", (ring(3, 1), ring(4, 1), ring(5, 1))
    far = dict(zip(graphs, (0.3, second, 0.9), strict=True))
    monkeypatch.setattr(f"{module}.each_gradient", lambda _, __, graphs: graphs)
    monkeypatch.setattr(f"{module}.remaining", lambda *given: given)
    monkeypatch.setattr(f"{module}.fitting", lambda _, __, graphs: [far[graph] for graph in graphs])
    monkeypatch.setattr(f"{module}.distance", lambda *_: 0.3)
    model = standard(SPACE.width, "gcn", Pooled("mean", MLP((16, 2))), hidden=16, last_act=True)
    params = model.initial(key=jax.random.key(0))
    observation = Observation(model, params, params, "bce", batch_size=2)
    lists = [listed(*graphs), listed(ring(6, 0))]
    answers, _ = checked(CensusProblem.of(observation, Knowledge(SPACE), DEFAULTS), lists)
    assert answers[0].graphs[0] is graphs[first] and answers[0].graphs[2] is graphs[2]


@pytest.mark.parametrize("labels", [(1,), (0, 1), (None,)])
def test_equal_graphs_have_an_answer_each_with_their_label(
    labels: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the conditions of the candidates and of what separates graphs of a batch; of none found there is none."""
    graphs, made = (ring(3, 5), ring(4, 5)), Certificate("k_graphs", 2, 9, True, 1e-7)
    problem = object.__new__(CensusProblem)
    problem.__dict__.update(knowledge=Knowledge(SPACE), settings=DEFAULTS)
    none = np.zeros(0, np.int64)
    levels = Levels(Nodes(np.zeros((0, 1), np.int64), np.zeros((0, 1)), none), (), ("candidates",), complete=True)
    part = Part(np.zeros(1), labels, object.__new__(Observation))
    found = AnonymitySet(tuple(ExplainingGraph(graph, 0.0, graph.canonical_form()) for graph in graphs))
    asked = list[Any]()

    def certify(_: Any, conditions: Any, some: Any, most: int, __: Any) -> SimpleNamespace:
        asked.append((conditions, some, most))
        return SimpleNamespace(graphs=graphs, distance=0.25, certificate=made)

    monkeypatch.setattr(answers_module, "certify", certify)
    monkeypatch.setattr(answers_module, "degrees_assumed", lambda *_: ("degrees",))
    member = Member(problem, part, Attempted(levels, None, found, 7))
    each = list(certified(problem, member, HELD))
    assert asked == [(("candidates", "degrees", TOLD_APART), found, 7)]
    for answer, label in zip(each, labels, strict=True):
        assert [graph.y for graph in answer.graphs] == [5 if label is None else label] * 2
        assert (answer.gradient_distance, answer.stop, answer.certificate) == (0.25, "match", made)
    for nothing in (None, Attempted(levels, None, AnonymitySet(), 7)):
        assert list(certified(problem, Member(problem, part, nothing), HELD)) == []
