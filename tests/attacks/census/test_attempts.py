"""Where the first stage begins, and which checks follow each other."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census import candidates as stage
from jgleak.attacks.census.candidates import CensusCandidates, Levels, _name, _screens, _too_many
from jgleak.attacks.census.checks import SPARSE, WEAKEST, Attempt, NamedCheck
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.starts import Start
from jgleak.attacks.span.hops import Nodes
from jgleak.features import FeatureSpace, number, onehot
from jgleak.federated import Knowledge
from jgleak.gnn import GCNConv, GINConv, Layer, LayerNorm
from tests.clocks import HELD

from .bare_candidates import CODES, ENDED, NODES, START, bare, blocks, checks


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks have partners, nodes have nine blocks of one hop, and blocks have as many as they say."""
    monkeypatch.setattr(stage, "one_hop_count", lambda _: 9)
    monkeypatch.setattr(stage, "next_hop_count", lambda some: some.checked)
    monkeypatch.setattr(stage, "reciprocal", lambda some: some)


@pytest.fixture(scope="module")
def problem(lab: Any) -> CensusProblem:
    return CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1, 1, 2, 0])), Knowledge(lab.space, max_n=9))


def test_a_search_begins_with_the_vectors_that_pass(problem: CensusProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a share of the time, and says under which condition; known rows are one of their own."""
    asked = list[dict[str, Any]]()

    def begun(complete: bool, left: float, **known: Any) -> CensusCandidates:
        clock = Clock(time.monotonic(), 1e6 * left)
        nodes = dataclasses.replace(NODES, complete=complete)
        monkeypatch.setattr(stage, "find_nodes", lambda *_, **more: asked.append(more) or nodes)
        knowledge = dataclasses.replace(problem.knowledge, **known)
        return CensusCandidates(dataclasses.replace(problem, knowledge=knowledge), clock, Budget(blocks=7))

    some = begun(True, 1.0)
    span = {"tolerances": problem.tolerances.span, "limits": problem.limits.span}
    assert {name: asked[0][name] for name in span} == span
    assert 0 < asked[0]["clock"].seconds < 1e6 and some.clock.seconds == 1e6 and some.budget.blocks == 7
    assert [said[:23] for said in some.start.conditions] == ["no true node fails the "] and some.start.complete
    hurried = {(done, left): begun(done, left).hurried for done in (True, False) for left in (1.0, 0.0, 1e-6)}
    assert [when for when, so in hurried.items() if so] == [(False, 0.0)]
    known = begun(False, 1.0, n=1, features=np.zeros((1, 3), np.int32))
    assert known.start.conditions == (stage.KNOWN_ROWS,) and not known.start.complete


@pytest.mark.parametrize(
    ("graphs", "readout", "many"), [(1, "pooled", False), (2, "pooled", True), (1, "nodes", False), (2, "nodes", False)]
)
def test_a_batch_of_pooled_rows_has_a_bound_of_its_own(
    graphs: int, readout: str, many: bool, problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the blocks of the last hop: each graph is counted by its row, and others are not."""
    for name, made in (("find_nodes", NODES), ("input_site", None), ("condition_of", "nodes are checked")):
        monkeypatch.setattr(stage, name, lambda *_, made=made, **__: made)
    other, model = object.__new__(CensusProblem), SimpleNamespace(readout=SimpleNamespace(additive=readout))
    seen = SimpleNamespace(batch_size=graphs, model=model)
    other.__dict__.update(vars(problem), observation=seen, seen=seen)
    limits = problem.limits
    wanted = limits.batch_blocks if many else limits.blocks_counted
    assert CensusCandidates(other, HELD, Budget()).most_top == wanted and limits.batch_blocks != limits.blocks_counted


def test_blocks_are_embedded_without_checks(problem: CensusProblem, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    some, codes = bare(), lab.nodes([0, 1], [1, 1])
    some.problem = problem
    nodes = Nodes(codes, lab.space.encode(codes), np.ones(2, np.int64), classes=2)
    search = some._search(nodes, [])
    assert search.layer is problem.observation.model.layers[0] and search.classes == 2 and not search.checks
    assert search.weights is problem.observation.params["layers_0"]
    monkeypatch.setattr(stage, "next_search", lambda *given: (search, given))
    assert some._search(nodes, [blocks(1)]) is search


def chosen(
    some: Any, attempt: Attempt, monkeypatch: pytest.MonkeyPatch, last: int, linear: bool = False
) -> list[list[tuple[str, ...]]]:
    """The names of the checks of every hop, where the model offers all; another gap's have its number."""
    offered = "node", "hidden", "aggregate", "readout"
    points = {hop: [SimpleNamespace(name=name) for name in offered] for hop in range(1, last + 1)}
    monkeypatch.setattr(stage, "leak_points", lambda _, hop: points[hop])
    monkeypatch.setattr(stage.receptive_field, "hops", lambda _: last)
    monkeypatch.setattr(stage.receptive_field, "ends_linear", lambda _: linear)

    def told(sites: Sequence[Any], hop: int, place: int = 0) -> tuple[NamedCheck, ...]:
        return checks(*(f"{hop} {site.name}{place or ''}" for site in sites))

    monkeypatch.setattr(some, "_checks", told)
    return [[tuple(check.name for check in part) for part in one] for one in some._chosen(attempt, NODES)]


def test_every_hop_has_the_checks_of_its_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    some, attempt = bare(3), Attempt(("node", "hidden"), ("readout", "node"))
    some.problem.several = False
    below = [("1 node", "1 hidden"), ("2 node", "2 hidden")]
    assert chosen(some, attempt, monkeypatch, 3) == [[*below, ("3 node", "3 readout")]]
    assert chosen(some, attempt, monkeypatch, 3, True) == [[*below, ("3 readout",)]], "its rank is one"
    some.problem.several = True
    assert len(chosen(some, attempt, monkeypatch, 3)) == 1, "the last hop has a check"
    open_top = chosen(some, Attempt(("node",), ()), monkeypatch, 2)
    assert open_top == [[("1 node",), ()], [("1 node1",), ()], [("1 node2",), ()]]
    assert chosen(some, Attempt((), ()), monkeypatch, 2) == [[(), ()]], "without a check there is no gap"
    some.problem.several = False
    assert chosen(some, Attempt(("node",), ()), monkeypatch, 2) == [[("1 node",), ()]]
    normed = Layer(GCNConv(4), norm=LayerNorm())
    some.problem.observation.model.layers = (Layer(GCNConv(4)), normed)
    screened = chosen(some, Attempt(("node",), ("node",)), monkeypatch, 2)
    assert screened == [[("1 node",), ("2 node", "2 aggregate")]]
    weaker = SimpleNamespace(weaker=lambda hops, lacking, _: iter([hops[lacking:]]))
    some.problem.arithmetic = weaker
    assert chosen(some, Attempt(("node",), ("node",), completed=1), monkeypatch, 2) == [[("2 node", "2 aggregate")]]


def test_attempts_follow_each_other_without_repeating_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usual vectors come first where the last gradient's blocks are looked for; too many vectors are left out."""
    plain, conic = Attempt(("node",), ()), Attempt(("hidden",), (), conic=True)
    start = dataclasses.replace(START, attempts=(plain, conic, plain, Attempt((), ())))
    usual = dataclasses.replace(start, conditions=("usual",))
    some, tried, made = bare(), list[str](), Levels(NODES, (blocks(1),), (), True, start)
    monkeypatch.setattr(Start, "usual", lambda *_: usual)
    monkeypatch.setattr(some, "_starts", lambda: iter([start, dataclasses.replace(start)]))
    monkeypatch.setattr(some, "_chosen", lambda attempt, _: iter([[checks(*attempt.below)]]))
    monkeypatch.setattr(
        some, "_conic", lambda one, _: tried.append(one.conditions[0]) or (made if one is start else None)
    )
    monkeypatch.setattr(some, "_levels", lambda _, hops: tried.append(f"{len(hops[0])} checks") or made)
    assert len(list(some.attempts(HELD))) == 5 and some.too_many is None
    once = ["1 checks", "usual", "nodes as they are", "0 checks"]
    assert tried == 2 * once
    assert list(some.attempts(ENDED)) == [] and tried == 2 * once
    ending = some.attempts(clock := Clock(time.monotonic(), 1e6))
    next(ending)
    object.__setattr__(clock, "seconds", 0.0)
    assert list(ending) == []
    four = Nodes(np.arange(4, dtype=np.int32)[:, None], np.eye(4), np.ones(4, np.int64))
    many = dataclasses.replace(start, nodes=four)
    some.problem.knowledge = Knowledge(FeatureSpace((onehot("a", range(4)),)))
    monkeypatch.setattr(some, "_starts", lambda: iter([many, START]))
    for most, there in ((4, True), (3, False)):
        monkeypatch.setattr(stage, "MOST_NODES", most)
        some.too_many, begun = None, list[bool]()
        monkeypatch.setattr(some, "_levels", lambda one, _, begun=begun: begun.append(one is many) or made)
        list(some.attempts(HELD))
        assert (some.too_many is None) is there and any(begun) is there and not all(begun)


def test_wider_candidates_are_those_of_the_first_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all degrees where only few were tried; with the weakest checks where these leave few."""
    some, asked = bare(weak_blocks=9, weak_candidates=6), list[Any]()
    few = dataclasses.replace(START, some_degrees=True)
    some.start = START
    monkeypatch.setattr(some, "_chosen", lambda attempt, _: iter([attempt]))
    monkeypatch.setattr(some, "_levels", lambda *given, **more: asked.append((*given, more)))
    levels = Levels(NODES, (blocks(1), blocks(2)), (), True, few)
    assert levels.top.size == 2
    some.of_all_degrees(levels)
    some.weakest(levels)
    assert asked == [(START, SPARSE[0], {}), (few, WEAKEST, {"most": 6})]
    for other in (dataclasses.replace(levels, start=None), dataclasses.replace(levels, start=START)):
        some.of_all_degrees(other)
    some.weakest(dataclasses.replace(levels, start=None))
    some.limits = dataclasses.replace(some.limits, weak_blocks=8)
    some.weakest(levels)
    assert len(asked) == 2 and not some.hurried
    some.clock, some.limits = ENDED, dataclasses.replace(some.limits, weak_blocks=9)
    some.of_all_degrees(levels)
    assert some.hurried and some.weakest(levels) is None and len(asked) == 2


def test_small_graphs_are_of_nodes_that_span_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or of the hidden ones, if there are any; and of as many as can be tried."""
    other = dataclasses.replace(START, conditions=("hidden",))
    monkeypatch.setattr(stage, "MOST_NODES", 3)
    for spans, hidden, wanted in ((True, (other,), START), (False, (other,), other), (False, (), START)):
        some = bare()
        some.start, some.__dict__["hidden"] = START, hidden
        monkeypatch.setattr(stage, "spanning", lambda *_, spans=spans: spans)
        assert some.enumerable == (wanted,)
    monkeypatch.setattr(stage, "MOST_NODES", 2)
    del some.__dict__["enumerable"]
    assert some.enumerable == ()


def test_vectors_that_are_too_many_to_try_are_counted() -> None:
    codes = np.array([[0, 0], [0, 1], [1, 1], [1, 1]], np.int32)
    nodes = Nodes(codes, np.zeros((4, 2)), np.array([1, 1, 1, 2]))
    plain = FeatureSpace((onehot("a", range(2)), onehot("b", range(2))))
    assert _too_many(Knowledge(plain), nodes).startswith("3 feature vectors pass the checks of nodes: too many")
    measured = FeatureSpace((number("a", (0.0, 0.5, 1.0)), onehot("b", range(2))))
    assert ", as 1 columns of numbers show 1 dimensions at most: too" in _too_many(Knowledge(measured), nodes)


def test_states_that_need_all_columns_have_a_check_before() -> None:
    """Layer norm; a convolution with a hidden row has that, and without any check there is nothing to screen."""
    normed = Layer(GCNConv(4), norm=LayerNorm())
    assert _screens(normed, {"node"}) == {"aggregate"} and _screens(normed, set()) == set()
    assert _screens(Layer(GCNConv(4)), {"node"}) == set()
    assert _screens(Layer(GINConv(4)), {"node"}) == set()


def test_sets_of_vectors_have_different_names() -> None:
    others = (
        NODES,
        dataclasses.replace(NODES, codes=CODES + 1),
        dataclasses.replace(NODES, degrees=np.full(3, 2)),
        dataclasses.replace(NODES, listed=((0, (1,)),)),
    )
    assert len({_name(one) for one in others}) == 4 and _name(dataclasses.replace(NODES)) == _name(NODES)
