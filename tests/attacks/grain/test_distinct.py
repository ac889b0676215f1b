"""The uniqueness heuristic: every completion of what is settled is tested until one matches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.distance import Fit
from jgleak.attacks.grain import distinct as module
from jgleak.attacks.grain.settings import DEFAULTS
from jgleak.attacks.span.distinct import Board
from jgleak.attacks.span.hops import Nodes
from jgleak.federated import Knowledge, Observation
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER
from tests.clocks import Held


def test_without_any_node_there_is_no_candidate(lab: Any, monkeypatch: Any) -> None:
    none = Nodes(np.zeros((0, 3), int), np.zeros((0, lab.space.width)), np.zeros(0, int))
    monkeypatch.setattr(module, "find_nodes", lambda *_, **__: none)
    monkeypatch.setattr(module, "block_checks", lambda *_: [])
    model = lab.model(layers=2, hidden=4, readout_widths=(3,))
    observed = Observation(model, lab.params(model), lab.params(model), "bce")
    found = module.reconstruct_distinct(
        observed, Knowledge(lab.space, distinct_nodes=True), DEFAULTS, clock=FOREVER, budget=Budget()
    )
    assert found.stop == "no candidates" and found.graphs == () and found.info["nodes"] == 0
    assert found.info["settled"] == found.info["one_hop_checked"] == 0


@pytest.mark.parametrize(("met", "stop", "tests"), [(0, "match", 1), (2, "match", 3), (None, "exhausted", 3)])
def test_every_completion_is_tested_until_one_matches(
    met: int | None, stop: str, tests: int, lab: Any, monkeypatch: Any
) -> None:
    """Four nodes of two neighbours are a ring in three ways; the nearest is returned, the first of equals."""
    codes = lab.ring([0, 1, 2, 3]).x.astype(int)
    ring = Nodes(codes, codes.astype(float), np.full(4, 2), certain=True)
    checks = list[Any]()

    def find_nodes(*_: Any, **bounds: Any) -> Nodes:
        assert bounds == {"clock": FOREVER, "tolerances": DEFAULTS.tolerances.span, "limits": DEFAULTS.limits.span}
        return ring

    monkeypatch.setattr(module, "find_nodes", find_nodes)
    monkeypatch.setattr(module, "block_checks", lambda *given: checks.append(given[2:]) or [])
    asked = list[Graph]()

    def distances(observation: Any, space: Any, graphs: list[Graph], most: float) -> list[tuple[float, int]]:
        asked.extend(graphs)
        return [(matching if len(asked) - 1 == met else 0.5 - 0.1 * (len(asked) >= 2), 1)]

    monkeypatch.setattr(module, "gradient_distances", distances)
    model = lab.model(layers=2, hidden=4, readout_widths=(3,))
    observed = Observation(model, lab.params(model), lab.params(model), "bce")
    known, matching = Knowledge(lab.space, distinct_nodes=True), Fit.of(observed, None).most
    found = module.reconstruct_distinct(observed, known, DEFAULTS, clock=FOREVER, budget=Budget())
    assert found.stop == stop and found.info["graphs_tested"] == len(asked) == tests and found.best is not None
    assert found.best.y == 1 and np.array_equal(found.best.edges, asked[1 if met is None else met].edges)
    assert checks == [(1, module.CHECKS, DEFAULTS.tolerances.span)]
    assert found.gradient_distance == (0.4 if met is None else matching)
    monkeypatch.setattr(module, "find_nodes", lambda *_, **__: ring)
    late = module.reconstruct_distinct(observed, known, DEFAULTS, clock=Clock(0.0, 0.0), budget=Budget())
    assert late.stop == ("match" if late.gradient_distance == matching else "time") and late.info["graphs_tested"] == 1


@pytest.mark.parametrize("mixed", [True, False])
def test_mixtures_of_nodes_are_looked_at_where_nothing_matches_without_them(
    mixed: bool, lab: Any, monkeypatch: Any
) -> None:
    """On another board: what was settled without them may be wrong. If there are none, the first search has all of the
    time."""
    asked = list[Board]()

    def settle(board: Board, *_: Any) -> int:
        asked.append(board)
        board.restricted = mixed and board.mixed is not None
        return 10

    codes = np.arange(2)[:, None]
    pair = Nodes(codes, codes.astype(float), np.ones(2, int), certain=True)
    monkeypatch.setattr(module, "find_nodes", lambda *_, **__: pair)
    monkeypatch.setattr(module, "block_checks", lambda *_: [])
    monkeypatch.setattr(module, "settle", settle)
    distances = iter([(0.5, 3), (0.7, 4)])
    monkeypatch.setattr(module, "gradient_distances", lambda *_: [next(distances)])
    model = lab.model(layers=2, hidden=4, readout_widths=(3,))
    observed, known = Observation(model, lab.params(model), lab.params(model), "bce"), Knowledge(lab.space)
    clock = Budget(time_limit=1000.0).start()
    found = module.reconstruct_distinct(observed, known, DEFAULTS, clock=clock, budget=Budget())
    assert found.stop == "exhausted" and found.gradient_distance == 0.5 and found.best is not None and found.best.y == 3
    assert found.info["one_hop_checked"] == 20 and found.info["graphs_tested"] == 1 + mixed
    assert [board.mixed for board in asked] == [frozenset(), None if mixed else frozenset()]
    assert (asked[0] is asked[1]) is not mixed


@pytest.mark.parametrize(("restricted", "seconds"), [(False, [1.0, 1.0, 1.0]), (True, [1.0, 2.0, 2.0])])
def test_the_seconds_of_the_parts_add_up(restricted: bool, seconds: list[float], lab: Any, monkeypatch: Any) -> None:
    """On a clock that is a second later at every look: nodes, neighbourhoods and completions take one each, and the
    last two one more where mixtures of nodes are looked at too."""

    class Ticking(Held):
        @property
        def elapsed(self) -> float:
            looks.append(0)
            return float(len(looks))

    def settle(board: Board, *_: Any) -> int:
        board.restricted = restricted and board.mixed is not None
        return 0

    looks = list[int]()
    codes = np.arange(2)[:, None]
    pair = Nodes(codes, codes.astype(float), np.ones(2, int), certain=True)
    monkeypatch.setattr(module, "find_nodes", lambda *_, **__: pair)
    monkeypatch.setattr(module, "block_checks", lambda *_: [])
    monkeypatch.setattr(module, "settle", settle)
    monkeypatch.setattr(module, "gradient_distances", lambda *_: [(1.0, 0)])
    model = lab.model(layers=2, hidden=4, readout_widths=(3,))
    observed = Observation(model, lab.params(model), lab.params(model), "bce")
    clock, known = Ticking(0.0, 0.5), Knowledge(lab.space, distinct_nodes=True)
    info = module.reconstruct_distinct(observed, known, DEFAULTS, clock=clock, budget=Budget()).info
    assert [info[f"seconds_{part}"] for part in ("nodes", "one_hop", "search")] == seconds


def test_of_two_searches_the_closer_graph_counts_and_how_the_later_one_ended(lab: Any) -> None:
    one, other = lab.path([0, 1]), lab.path([1, 2])
    first = module._Found(one, 0.5, "time", 3)
    for distance, graph in ((0.4, other), (0.5, one), (0.6, one)):
        best = first.or_closer(module._Found(other, distance, "exhausted", 2))
        assert best.graph is graph and best.distance == min(distance, 0.5)
        assert (best.stop, best.tests) == ("exhausted", 5)
    assert first.or_closer(module._Found(None, 0.0, "time", 0)).graph is one
