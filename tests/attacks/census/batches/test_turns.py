"""Graphs of steps that saw some of them: which search is taken for which step, and which of its answers is the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.batches import in_turn as module
from jgleak.attacks.census.batches.answers import OTHERS
from jgleak.attacks.census.batches.first_graph import FoundGraph
from jgleak.attacks.census.batches.in_turn import MOST_PASSES, USUAL_FIRST, in_turn, in_turn_unsupported
from jgleak.attacks.census.batches.passes import Passes
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS, CensusSettings
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import MATCH
from jgleak.federated import LocalTraining, Observation
from tests.clocks import HELD

ENDED = Clock(0.0, 0.0)
MADE = Certificate("unique", 1, 6, True, 1e-8)


def seen_of(graphs: int, additive: str = "nodes") -> Any:
    """What a search of a step asks of an update."""
    return SimpleNamespace(batch_size=graphs, model=SimpleNamespace(readout=SimpleNamespace(additive=additive)))


def problem_of(graphs: int, additive: str = "nodes", settings: CensusSettings = DEFAULTS) -> CensusProblem:
    problem = object.__new__(CensusProblem)
    problem.__dict__.update(seen=seen_of(graphs, additive), knowledge=SimpleNamespace(space=None), settings=settings)
    return problem


def left_of(graphs: int, additive: str = "nodes", passes: int = 1) -> Passes:
    """So many graphs, two of them in the first step."""
    left = object.__new__(Passes)
    left.__dict__.update(seen=seen_of(graphs, additive), weights=({},) * passes, left=2)
    return left


def one(lab: Any, colour: int = 0) -> FoundGraph:
    return FoundGraph.only(Reconstruction((lab.path([colour]),), 0.0, "match", certificate=MADE))


@pytest.mark.parametrize(
    ("tried", "asked", "best", "far"),
    [
        ([(1, None), (2, 0.5), (2, 0.3), (2, 0.4)], 4, 2, 0.3),
        ([(2, 0.5), (2, MATCH), (2, 0.0)], 2, 1, MATCH),
        ([(2, 0.5), (2, 0.5), (1, None)], 3, 0, 0.5),
        ([(1, None), (1, None)], 2, 0, None),
        ([], 0, None, None),
    ],
    ids=["the nearest", "a match ends it", "the first of equal ones", "the first of as many", "nothing"],
)
def test_the_best_are_most_graphs_and_of_all_those_whose_training_is_nearest(
    tried: list[tuple[int, float | None]],
    asked: int,
    best: int | None,
    far: float | None,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of several answers with so many of two graphs and the distance of the update that training on them gives."""
    given = [[one(lab, k % 4) for k in range(number)] for number, _ in tried]
    looked = list[int]()

    def found(*_: Any) -> Iterator[list[FoundGraph]]:
        for place, some in enumerate(given):
            looked.append(place)
            yield some

    def replayed(_: Any, __: Any, graphs: Any) -> float:
        (off,) = (off for some, (_, off) in zip(given, tried, strict=True) if some[0].answer.graphs[0] is graphs[0])
        assert off is not None and len(graphs) == 2
        return off

    monkeypatch.setattr(Passes, "of", staticmethod(lambda _: left_of(2)))
    monkeypatch.setattr(module, "_found", found)
    monkeypatch.setattr(module, "replayed", replayed)
    monkeypatch.setattr(module, "trained_again", lambda _, __, every, firsts, ___: (every, 0.5 * MATCH))
    monkeypatch.setattr(module, "of_trained", lambda *_: MADE)
    for clock, stop in ((HELD, "nothing assembled"), (ENDED, "time")):
        looked.clear()
        answer = in_turn(problem_of(2, "pooled"), clock, Budget(), lambda *_: pytest.fail("no step is taken"))
        if clock is ENDED:
            assert len(looked) == min(1, len(tried)) and answer.stop == stop
            continue
        assert len(looked) == asked and answer.info["graphs"] == 2 and answer.info["found"] == len(answer.members)
        wanted = [] if best is None else [one.answer.graphs[0] for one in given[best]]
        assert [graph is own for graph, own in zip(answer.graphs, wanted, strict=True)] == [True] * len(wanted)
        matched = far is not None and far <= MATCH
        assert answer.gradient_distance == (0.5 * MATCH if matched else far)
        assert answer.stop == ("match" if matched else stop) and answer.certificate == (MADE if matched else None)
        for member in answer.members:
            assert member.gradient_distance == (0.5 * MATCH if matched else None)
            assert (member.certificate is not None) is matched
        says = {0: "no graph of the first step was found. The census tells", 1: "1 of 2 graphs found", 2: "training on"}
        assert matched or answer.info["reason"].startswith(says[len(wanted)])
        assert not matched or "reason" not in answer.info


def test_what_units_must_be_is_said_behind_pooling_alone(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Passes, "of", staticmethod(lambda _: left_of(2)))
    monkeypatch.setattr(module, "_found", lambda *_: iter([]))
    for additive, needed in (("nodes", False), ("pooled", True)):
        answer = in_turn(problem_of(2, additive), HELD, Budget(), lambda *_: pytest.fail("no step is taken"))
        assert ("units of the map behind pooling" in answer.info["reason"]) is needed


def steps(
    left: Passes,
    patch: pytest.MonkeyPatch,
    ways: dict[str, list[list[FoundGraph]]],
    last: Reconstruction,
    clock: Clock = HELD,
) -> tuple[list[list[Any]], list[Any]]:
    """The graphs of every answer, and what was looked for: how many with which search, and what was taken away.

    Of later steps only a graph that is left alone is found."""
    asked = list[Any]()

    def search(name: str) -> Any:
        def first(here: Any, most: int, *_: Any) -> Iterator[list[FoundGraph]]:
            later = len(asked) > 0
            asked.append((name, here, most))
            yield from () if later else ways[name]

        return first

    def without(self: Passes, graphs: Any, _: Any) -> Passes:
        asked.append(list(graphs))
        return left_of(self.size - len(graphs), self.seen.model.readout.additive or "", len(self.weights))

    for name in ("first_graphs", "first_pooled"):
        patch.setattr(module, name, search(name))
    patch.setattr(Passes, "problem", lambda self, _, settings: settings.limits.usual_first)
    patch.setattr(Passes, "without", without)
    problem = problem_of(left.size)
    found = module._found(problem, left, clock, Budget(), lambda *_: asked.append("single") or last)
    return [[one.answer.graphs[0] for one in some] for some in found], asked


NONE = Reconstruction((), None, "time")


@pytest.mark.parametrize(("additive", "name"), [("nodes", "first_graphs"), ("pooled", "first_pooled")])
def test_graphs_of_the_first_step_are_looked_for_by_what_the_readout_adds_up(
    additive: str, name: str, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of three graphs that two searches find alone, where nothing is found behind them."""
    some = [one(lab), one(lab, 1)]
    found, asked = steps(left_of(3, additive), monkeypatch, {name: [some[:1], some]}, NONE)
    graphs = [each.answer.graphs[0] for each in some]
    assert found == [graphs[:1], graphs]
    assert asked[0] == (name, USUAL_FIRST, 2) and graphs[:1] in asked and graphs in asked


def test_behind_the_first_step_come_the_others_and_the_last_graph_is_searched_alone(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = one(lab), Reconstruction((lab.path([1]),), 0.0, "match", certificate=MADE)
    found, asked = steps(left_of(2), monkeypatch, {"first_graphs": [[first]]}, last)
    graph = first.answer.graphs[0]
    assert found == [[graph, last.graphs[0]]] and asked == [("first_graphs", USUAL_FIRST, 2), [graph], "single"]
    found, asked = steps(left_of(2), monkeypatch, {"first_graphs": [[first]]}, NONE)
    assert found == [[graph]] and asked[-1] == "single", "the first step's alone"
    (alone,) = module._found(problem_of(1), left_of(1), HELD, Budget(), lambda *_: last)
    assert alone[0].answer.certificate is not None and alone[0].answer.certificate.conditions == (OTHERS,)


def test_of_several_passes_the_last_graph_is_one_of_a_step_too(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = steps(left_of(1, passes=2), monkeypatch, {"first_graphs": [[one(lab)]]}, NONE)
    assert len(found) == 1 and asked == [("first_graphs", USUAL_FIRST, 2)]


def test_nothing_is_taken_away_where_none_is_left_or_time_is_over(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both = [one(lab), one(lab, 1)]
    found, asked = steps(left_of(2), monkeypatch, {"first_graphs": [both, both]}, NONE)
    assert len(found) == 2 and len(asked) == 1
    found, asked = steps(left_of(2), monkeypatch, {"first_graphs": [both[:1], both]}, NONE, ENDED)
    assert len(found) == len(asked) == 1, "one answer ends it"


def test_usual_nodes_are_tried_first_no_later_than_elsewhere() -> None:
    limits = dataclasses.replace(DEFAULTS.limits, usual_first=7)
    assert module._usual_first(DEFAULTS).limits == dataclasses.replace(DEFAULTS.limits, usual_first=USUAL_FIRST)
    assert module._usual_first(dataclasses.replace(DEFAULTS, limits=limits)).limits == limits


@pytest.mark.parametrize(
    ("fields", "training", "why"),
    [
        ({}, {"steps": 2}, None),
        ({}, {"steps": 2, "shuffled": True}, None),
        ({}, {"steps": 4, "shuffled": True}, "each in an order of its own"),
        ({}, {"steps": 2 * MOST_PASSES}, None),
        ({}, {"steps": 2 * MOST_PASSES + 2}, "at most 16"),
        ({}, {"steps": 2, "momentum": 0.9, "weight_decay": 0.1}, None),
        ({}, {"steps": 4, "momentum": 0.9}, "with momentum or weight decay"),
        ({}, {"steps": 4, "weight_decay": 0.1}, "with momentum or weight decay"),
        ({"readout_widths": ()}, {"steps": 2}, "without a hidden layer"),
        ({"readout_widths": (8, 8)}, {"steps": 2}, None),
        ({"act": "gelu"}, {"steps": 4}, None),
        ({"readout": "pooled"}, {"steps": 2}, None),
        ({"readout": "pooled"}, {"steps": 4}, "behind a readout that pools"),
        ({"readout": "pooled", "act": "gelu"}, {"steps": 2}, "a map with ReLU and a last map"),
    ],
)
def test_what_it_reads_of_two_graphs_one_a_step(
    fields: dict[str, Any], training: dict[str, Any], why: str | None, lab: Any
) -> None:
    model = lab.model(**({"hidden": 4, "readout_widths": (8,), "last_act": True} | fields))
    params, local = lab.params(model), LocalTraining(0.1, loader=1, **training)
    said = in_turn_unsupported(Observation(model, params, params, "bce", 2, protocol="fedavg", local=local))
    assert said is None if why is None else said is not None and why in said
