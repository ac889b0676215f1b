"""The order of the searches: when each begins, what it may spend, and what is said where it finds nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from jgleak.attacks.attack import MORE_CONDITIONS, OUT_OF_TIME, Budget, Clock, Reconstruction
from jgleak.attacks.census import answer, census, one_graph
from jgleak.attacks.census.answer import Answer
from jgleak.attacks.census.arithmetic import Exact
from jgleak.attacks.census.assemble import AnonymitySet
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.certify import Certified
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import Fit
from jgleak.federated import Knowledge, Observation
from tests.clocks import HELD

from .bare_candidates import ENDED, NODES, START, bare, blocks
from .test_without_counts import ALIKE, LEVELS, STATED, found, unsolved

NONE = found(0)
OTHER = dataclasses.replace(LEVELS, nodes=dataclasses.replace(NODES))
"""Levels that began with other nodes than the first."""


class Passing(Clock):
    """A clock that tests move on."""

    gone = 0.0

    @property
    def elapsed(self) -> float:
        """The same for all."""
        return Passing.gone

    def part(self, share: float) -> Clock:
        """As of other clocks."""
        return Passing(0.0, self.elapsed + share * self.left)


class Run:
    """The census where attempts give what is said. What follows them finds nothing, unless a test says so.

    Attributes:
      began: the searches in their order, with the seconds at which each ends.
      unsolved: the attempts from which small graphs get their bounds.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *attempts: Attempted, space: Any = STATED, fit: float | None = None
    ) -> None:
        self.monkeypatch, self.attempts, self.passes = monkeypatch, attempts, [0.0] * len(attempts)
        self.began, self.unsolved = list[tuple[str, float]](), list[Attempted]()
        self.hurried, self.hurries, self.last = [False] * len(attempts), False, 0.0
        self.small, self.searchable, self.results = False, False, {"small": NONE, "random": NONE}
        self.problem = object.__new__(CensusProblem)
        knowledge, seen = Knowledge(space, max_n=9), SimpleNamespace(local=None)
        self.problem.__dict__.update(
            knowledge=knowledge, settings=DEFAULTS, fit=Fit(fit, 10), seen=seen, arithmetic=Exact(DEFAULTS)
        )
        self.candidates = bare()
        self.candidates.start, self.candidates.__dict__["enumerable"] = START, (START,)
        graph = found(1).graphs[0].graph
        certified = Certified((graph,), 1e-7, Certificate("unique", 1, 9, False, 1e-7))
        stubs = {
            "counted": self._counted,
            "taken_again": self._again,
            "small_graphs": self._small,
            "random_search": self._random,
            "searchable": lambda _: self.searchable,
            "may_be_small": lambda _, nodes: self.small and nodes is NODES,
            "unspanned": lambda *_: None,
        }
        for name, stub in stubs.items():
            monkeypatch.setattr(one_graph, name, stub)
        monkeypatch.setattr(CensusCandidates, "__init__", lambda new, _, clock, __: self._begun(new, clock))
        monkeypatch.setattr(census, "_problem", lambda *_: self.problem)
        monkeypatch.setattr(answer, "certify", lambda _, conditions, answer, most, __: certified)
        monkeypatch.setattr(CensusCandidates, "attempts", self._levels)
        monkeypatch.setattr(Budget, "start", lambda budget: Passing(0.0, budget.time_limit))

    def __call__(self, graphs: int = 1) -> Reconstruction:
        """What is answered within a hundred seconds."""
        self.monkeypatch.setattr(Passing, "gone", 0.0)
        observation = object.__new__(Observation)
        observation.__dict__.update(batch_size=graphs)
        knowledge, budget = self.problem.knowledge, Budget(time_limit=100.0)
        return census.run(DEFAULTS, observation, knowledge, key=jax.random.key(0), budget=budget)

    def _begun(self, new: CensusCandidates, clock: Clock) -> None:
        self.began.append(("candidates", round(clock.seconds, 6)))
        new.__dict__.update(self.candidates.__dict__)
        self.candidates = new

    def _levels(self, clock: Clock) -> Iterator[Levels]:
        self.began.append(("attempts", round(clock.seconds, 6)))
        for attempted, gone, hurried in zip(self.attempts, self.passes, self.hurried, strict=True):
            self.candidates.hurried = self.candidates.hurried or hurried
            Passing.gone = max(Passing.gone, gone)
            self.candidates.kept[(len(self.candidates.kept),)] = blocks(1, 5)
            yield attempted.levels

    def _counted(self, _: Any, levels: Levels, __: Any) -> Attempted:
        return next(one for one in self.attempts if one.levels is levels)

    def _again(self, _: Any, candidates: CensusCandidates, attempted: Attempted, clock: Clock) -> Attempted:
        self.began.append(("again", round(clock.seconds, 6)))
        candidates.hurried |= self.hurries
        Passing.gone = max(Passing.gone, self.last)
        return attempted

    def _small(self, _: Any, __: Any, clock: Clock, unsolved: Sequence[Attempted]) -> tuple[Answer, Any]:
        self.began.append(("small", round(clock.seconds, 6)))
        self.unsolved[:] = unsolved
        Passing.gone = max(Passing.gone, self.last)
        return Answer((), self.results["small"], 4), {"enumerated": 7}

    def _random(self, _: Any, __: Any, clock: Clock) -> tuple[Answer, dict[str, Any]]:
        self.began.append(("random", round(clock.seconds, 6)))
        return Answer((), self.results["random"], 4), {"rounds": 3}


def attempted(graphs: int = 0, levels: Levels = LEVELS, solved: bool = True, exhausted: bool = True) -> Attempted:
    """An attempt with so many graphs, whose blocks explain the gradient or not; each has levels of its own."""
    (one,) = unsolved(dataclasses.replace(levels), solved=solved)
    return dataclasses.replace(one, found=found(graphs, exhausted))


def test_the_first_attempt_with_graphs_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks that were checked until then are counted."""
    some = Run(monkeypatch, attempted(), attempted(2), attempted(1))
    made = some()
    assert made.stop == "match" and some.began == [("candidates", 90.0), ("attempts", 90.0), ("again", 90.0)]
    facts = {"nodes": 3, "blocks": 1, "residual": 0.0, "null": 1, "censuses": 1, "partials": 10}
    assert made.info == {"attempts": 2, "candidates": 10, **facts, "seconds": 0.0}


@pytest.mark.parametrize(
    ("hurried", "gone", "hurries", "last", "exhausted", "reason"),
    [
        (True, 0.0, False, 0.0, False, OUT_OF_TIME),
        (True, 0.0, False, 0.0, True, None),
        (False, 63.5, False, 0.0, False, OUT_OF_TIME),
        (False, 62.5, False, 0.0, False, None),
        (False, 0.0, False, 89.5, False, None),
        (False, 0.0, False, 90.5, False, OUT_OF_TIME),
        (False, 0.0, True, 0.0, False, OUT_OF_TIME),
        (False, 0.0, True, 0.0, True, MORE_CONDITIONS),
    ],
    ids=[
        "a part",
        "a part, of no importance",
        "counting",
        "just in time",
        "again in time",
        "again too late",
        "under fewer conditions",
        "with more of them",
    ],
)
def test_the_part_of_the_time_that_ended_is_told(
    hurried: bool,
    gone: float,
    hurries: bool,
    last: float,
    exhausted: bool,
    reason: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small graphs might follow, so that attempts have 63 seconds, and what is looked for again has 90."""
    some = Run(monkeypatch, attempted(1, exhausted=exhausted))
    some.small, some.hurries, some.last = True, hurries, last
    some.hurried, some.passes = [hurried], [gone]
    made = some()
    assert made.info.get("reason") == reason and not some.unsolved


@pytest.mark.parametrize(
    ("small", "searchable", "wanted"),
    [
        (False, False, [("candidates", 90.0), ("attempts", 90.0)]),
        (True, False, [("candidates", 90.0), ("attempts", 63.0), ("small", 90.0)]),
        (False, True, [("candidates", 54.0), ("attempts", 54.0), ("random", 90.0)]),
        (True, True, [("candidates", 54.0), ("attempts", 37.8), ("small", 90.0), ("random", 90.0)]),
    ],
)
def test_time_is_kept_for_the_searches_that_may_follow(
    small: bool, searchable: bool, wanted: list[tuple[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = Run(monkeypatch, attempted())
    some.small, some.searchable = small, searchable
    made = some()
    assert some.began == wanted and made.graphs == ()
    assert made.info.get("enumerated") == (7 if small else None) and made.info.get("rounds") == (
        3 if searchable else None
    )


def test_small_graphs_have_their_bounds_from_attempts_that_explain_the_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the nodes that the search began with: bounds are on the shares of these."""
    some = Run(monkeypatch, attempted(), attempted(solved=False), attempted(levels=OTHER), attempted())
    some.small = True
    some()
    assert [one.levels for one in some.unsolved] == [some.attempts[0].levels, some.attempts[3].levels]


@pytest.mark.parametrize("way", ["small", "random"])
def test_a_graph_that_is_found_without_counts_is_the_answer(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for gone, reason in ((0.0, None), (89.5, None), (90.5, OUT_OF_TIME)):
        some = Run(monkeypatch, attempted())
        some.small = some.searchable = True
        some.results[way], some.last = found(1, exhausted=False), gone
        made = some()
        assert made.stop == "match" and made.info.get("reason") == reason
        assert [name for name, _ in some.began[2:]] == ["small", "random"][: 1 + (way == "random")]


def test_what_was_examined_is_said_where_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stopped the search is what the last attempt lacked; before any there are no candidates."""
    for attempts, stop in (
        ((), "no candidates"),
        ((attempted(),), "nothing assembled"),
        ((attempted(), attempted(solved=False)), "missing blocks"),
    ):
        some = Run(monkeypatch, *attempts)
        made = some()
        assert (made.graphs, made.gradient_distance, made.certificate, made.stop) == ((), None, None, stop)
        assert made.info["attempts"] == len(attempts) and made.info["candidates"] == 5 * len(attempts)
        if not attempts:
            nothing = {"attempts": 0, "candidates": 0, "blocks": 0, "residual": None}
            assert made.info == {**nothing, "seconds": 0.0}
    for gone, stop in ((89.5, "missing blocks"), (90.5, "time")):
        some = Run(monkeypatch, attempted(solved=False))
        some.passes = [gone]
        assert some().stop == stop


def test_the_reason_is_what_is_known_to_be_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many vectors where no attempt was made; dimensions; too many blocks; degrees that are not stated."""
    some = Run(monkeypatch)
    some.candidates.too_many = "too many to try"
    made = some()
    assert (made.stop, made.info["reason"], made.info["attempts"]) == ("no information", "too many to try", 0)
    for attempts in ((), (attempted(),)):
        some = Run(monkeypatch, *attempts)
        some.candidates.too_many = "too many to try" if attempts else None
        assert some().stop != "no information" and "reason" not in some().info
    for solved, given_up, stated, wanted in (
        (False, True, True, "given up"),
        (True, True, True, None),
        (True, True, False, "features state no degree"),
        (False, False, False, "features state no degree"),
        (False, True, False, "given up"),
        (False, False, True, None),
    ):
        some = Run(monkeypatch, attempted(solved=solved), space=STATED if stated else ALIKE)
        some.candidates.given_up = ["given up"] if given_up else []
        reason = some().info.get("reason")
        assert reason is None if wanted is None else str(reason).startswith(wanted)
    monkeypatch.setattr(one_graph, "unspanned", lambda *_: "dimensions")
    assert some().info["reason"] == "dimensions"


def test_noise_that_explains_the_update_leaves_no_information(monkeypatch: pytest.MonkeyPatch) -> None:
    some = Run(monkeypatch, attempted(1), fit=10.0)
    some.problem.__dict__["knowledge"] = Knowledge(STATED, noise=1e-3)
    made = some()
    assert made.stop == "no information" and "1.0e-03 alone explains the update" in made.info["reason"]
    assert not some.began


def test_one_graph_of_a_batch_has_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Any]()
    observation, known = object.__new__(Observation), Knowledge(STATED, n=3)
    key, made = jax.random.key(3), Reconstruction((), None, "missing blocks")
    monkeypatch.setattr(census, "run", lambda *given, **more: asked.append((*given, more)) or made)
    single = census._single, (DEFAULTS, known, key, Budget(60.0, 8, 9), observation)
    assert single[0](*single[1], ENDED).stop == "time" and not asked
    assert single[0](*single[1], HELD) is made
    assert asked == [(DEFAULTS, observation, known, {"key": key, "budget": Budget(HELD.left, 8, 9)})]


def test_a_list_without_graphs_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all nodes differ the search may end without any: then blocks are counted."""
    some = Run(monkeypatch, attempted(1))
    some.problem.__dict__["knowledge"] = Knowledge(STATED, max_n=9, distinct_nodes=True)
    asked = list[float]()
    monkeypatch.setattr(one_graph, "unused", lambda *_: None)
    for result, notes in ((NONE, [one_graph.DROPPED]), (AnonymitySet(exhausted=False), [one_graph.DROPPED])):
        monkeypatch.setattr(
            one_graph, "distinct", lambda _, __, clock, ___, result=result: asked.append(clock.seconds) or ((), result)
        )
        assert some().info["notes"] == notes and some.began[-1][0] == "again"
    assert asked == [pytest.approx(72.0)] * 2


def test_a_complete_list_of_graphs_whose_nodes_differ_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever time is left."""
    some = Run(monkeypatch, attempted(1))
    some.problem.__dict__["knowledge"] = Knowledge(STATED, max_n=9, distinct_nodes=True)

    def distinct(*_: Any) -> tuple[tuple[str, ...], AnonymitySet]:
        Passing.gone = 95.0
        return (), found(1)

    monkeypatch.setattr(one_graph, "distinct", distinct)
    made = some()
    assert made.stop == "match" and "reason" not in made.info and [name for name, _ in some.began] == ["candidates"]


def test_an_open_list_of_graphs_whose_nodes_differ_has_no_reason_for_what_was_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It tells what the time did to the search."""
    for gone, reason in ((0.0, None), (89.5, None), (90.5, OUT_OF_TIME)):
        some = Run(monkeypatch, attempted(solved=False))
        some.problem.__dict__["knowledge"] = Knowledge(STATED, max_n=9, distinct_nodes=True)
        some.candidates.given_up, some.passes = ["given up"], [gone]
        monkeypatch.setattr(one_graph, "distinct", lambda *_: ((), found(1, exhausted=False)))
        made = some()
        assert made.stop == "match" and made.info.get("reason") == reason and made.info["attempts"] == 1


@pytest.mark.parametrize(
    ("steps", "whole", "name"), [(1, False, "reconstructed"), (2, True, "in_steps"), (2, False, "in_turn")]
)
@pytest.mark.parametrize("distinct_nodes", [True, False])
def test_a_batch_is_searched_as_its_steps_are(
    distinct_nodes: bool, steps: int, whole: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its graphs at once, at every step or graph by graph; each graph alone by the census of one."""
    some, asked = Run(monkeypatch), list[Any]()
    some.problem.__dict__["seen"].local = SimpleNamespace(steps=steps)
    some.problem.__dict__["knowledge"] = Knowledge(STATED, distinct_nodes=distinct_nodes)
    found = Reconstruction((), None, "missing blocks", info={"shares": 4})
    monkeypatch.setattr(census, "every_step_whole", lambda _: whole)

    def reconstructed(_: Any, clock: Clock, budget: Budget, single: Any) -> Reconstruction:
        asked.append(("reconstructed", clock.seconds, budget.time_limit))
        assert single(object.__new__(Observation), ENDED).stop == "time"
        return found

    def in_steps(problem: Any, clock: Clock, whole_batch: Any) -> Reconstruction:
        whole_batch(problem, Passing(0.0, 7.0))
        asked.append(("in_steps", clock.seconds))
        return found

    def in_turn(_: Any, clock: Clock, budget: Budget, single: Any) -> Reconstruction:
        asked.append(("in_turn", clock.seconds, budget.time_limit))
        assert single(object.__new__(Observation), ENDED).stop == "time"
        return found

    for stub in (reconstructed, in_steps, in_turn):
        monkeypatch.setattr(census, stub.__name__, stub)
    made = some(graphs=2)
    assert made.info == {"shares": 4, **({"notes": [census.ONE_GRAPH]} if distinct_nodes else {})}
    wanted = {
        "reconstructed": [("reconstructed", 90.0, 100.0)],
        "in_steps": [("reconstructed", 7.0, 100.0), ("in_steps", 90.0)],
        "in_turn": [("in_turn", 90.0, 100.0)],
    }
    assert asked == wanted[name] and not some.began
