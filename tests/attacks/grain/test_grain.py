"""Which checks are left out in turn, and what is returned of several searches; the searches themselves are others'."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.grain import candidates as filters
from jgleak.attacks.grain import grain as module
from jgleak.attacks.grain.candidates import GrainCandidates, find_candidates
from jgleak.attacks.grain.grain import LEVELS
from jgleak.attacks.grain.settings import DEFAULTS, GrainLimits, GrainSettings
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.federated import Knowledge, Observation
from tests.clocks import HELD, Ticking

from .test_reconstruct import candidates, unseen


def ran(
    lab: Any, monkeypatch: Any, results: list[Reconstruction | None], **known: Any
) -> tuple[Reconstruction, list[Any]]:
    """What is returned where the searches end so; None: too many neighbourhoods are left without a check."""
    made, asked = candidates([lab.path([0, 1])]), list[Any]()

    def find(*_: Any, levels: tuple[int, ...], grown: Any, **__: Any) -> GrainCandidates | None:
        asked.append(levels)
        return None if results[len(asked) - 1] is None else made

    monkeypatch.setattr(module, "find_nodes", lambda *_, **__: made.nodes)
    monkeypatch.setattr(module, "find_candidates", find)
    monkeypatch.setattr(module, "reconstruct", lambda *_, **__: results[len(asked) - 1])
    observed = unseen(lab, lab.model(layers=2, hidden=4, readout_widths=(3,)))
    return module._run(DEFAULTS, observed, Knowledge(lab.space, **known), Budget()), asked


def found(lab: Any, distance: float | None, stop: str, n: int = 2) -> Reconstruction:
    graphs = () if distance is None else (lab.path([0] * n),)
    return Reconstruction(graphs, distance, stop, info={"nodes": n})


def test_checks_are_left_out_in_turn_until_a_search_matches_or_time_is_up(lab: Any, monkeypatch: Any) -> None:
    far, near, none = found(lab, 0.5, "exhausted"), found(lab, 0.2, "exhausted", 3), found(lab, None, "no candidates")
    cases: list[tuple[list[Reconstruction | None], int, int]] = [
        ([found(lab, 0.0, "match")], 0, 1),
        ([far, found(lab, 0.0, "match", 4)], 1, 2),
        ([far, near, found(lab, 0.3, "exhausted", 4)], 1, 3),
        ([near, far, found(lab, 0.3, "time", 4)], 0, 3),
        ([far, found(lab, 0.3, "time", 4)], 1, 2),
        ([none, None, near], 2, 3),
        ([None, None, near], 2, 3),
        ([far, none, none], 0, 3),
        ([none, none, none], 2, 3),
    ]
    for results, best, number in cases:
        answer, asked = ran(lab, monkeypatch, results)
        wanted = results[best]
        assert wanted is not None and asked == list(LEVELS[:number])
        assert answer.graphs == wanted.graphs and answer.stop == wanted.stop
        assert answer.gradient_distance == wanted.gradient_distance
        assert answer.info["nodes"] == wanted.info["nodes"] and answer.info["seconds"] >= answer.info["seconds_nodes"]
    answer, _ = ran(lab, monkeypatch, [None, None, None])
    assert answer.stop == "no candidates" and answer.graphs == () and answer.info["nodes"] == 2


def test_noise_that_explains_all_and_nodes_beyond_number_are_said(lab: Any, monkeypatch: Any) -> None:
    answer, asked = ran(lab, monkeypatch, [], noise=1e9)
    assert (
        answer.stop == "no information"
        and "noise of deviation 1.0e+09 alone explains the update" in answer.info["reason"]
    )
    assert not asked

    def many(*_: Any, **__: Any) -> Nodes:
        raise TooManyCandidates("so many")

    observed = unseen(lab, lab.model(layers=2, hidden=4, readout_widths=(3,)))
    monkeypatch.setattr(module, "find_nodes", many)
    for clock, stop in ((HELD, "no information"), (Clock(0.0, 0.0), "time")):
        monkeypatch.setattr(Budget, "start", lambda _, clock=clock: clock)
        answer = module._run(DEFAULTS, observed, Knowledge(lab.space), Budget())
        assert (answer.stop, answer.info["reason"], answer.graphs) == (stop, "so many", ())


def test_options_are_recorded_where_they_are_not_the_default(lab: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_run", lambda *_: found(lab, 0.5, "exhausted"))
    observed = unseen(lab, lab.model(layers=2, hidden=4, readout_widths=(3,)))
    wider = GrainSettings(limits=GrainLimits(solver_rounds=31))
    for settings, options in ((DEFAULTS, {}), (wider, {"options": {"solver_rounds": 31}})):
        answer = module.run(settings, observed, Knowledge(lab.space), key=jax.random.key(0), budget=Budget())
        assert answer.info == {"nodes": 2} | options and answer.gradient_distance == 0.5


@pytest.mark.parametrize(
    ("levels", "ones", "twos"), [((1, 2), True, True), ((1,), True, False), ((2,), False, True), ((), False, False)]
)
def test_neighbourhoods_without_a_check_are_kept_where_they_are_few(
    levels: tuple[int, ...], ones: bool, twos: bool, lab: Any, monkeypatch: Any
) -> None:
    made = candidates([lab.path([0, 1, 0])])
    seen: dict[str, Any] = {}

    class Check:
        class subspace:  # noqa: N801 - in the place of an attribute
            rank = 7

    def checks(observation: Observation, knowledge: Knowledge, hop: int, names: Any, tolerances: Any) -> list[Any]:
        return [Check]

    def one_hop(*given: Any, **bounds: Any) -> Any:
        seen["ones"] = bool(given[3])
        return made.ones

    def next_hop(*given: Any, **bounds: Any) -> Any:
        seen["twos"] = bool(given[4])
        return made.twos

    monkeypatch.setattr(filters, "block_checks", checks)
    monkeypatch.setattr(filters, "one_hop", one_hop)
    monkeypatch.setattr(filters, "next_hop", next_hop)
    observed = unseen(lab, lab.model(layers=2, hidden=4, readout_widths=(3,)))

    def asked(
        first: int, second: int, grown: dict[bool, Any] | None = None, clock: Clock = HELD
    ) -> GrainCandidates | None:
        limits = GrainLimits(unchecked_one_hop=first, unchecked_two_hop=second)
        bounds = {"clock": clock, "budget": Budget(), "settings": GrainSettings(limits=limits)}
        return find_candidates(
            observed, Knowledge(lab.space), made.nodes, levels=levels, grown={} if grown is None else grown, **bounds
        )

    few, more = filters.one_hop_count(made.nodes), filters.next_hop_count(made.ones)
    answer = asked(few, more)
    assert answer is not None and seen == {"ones": ones, "twos": twos}
    assert answer.info["levels_checked"] == [level for level, checked in ((1, ones), (2, twos)) if checked]
    assert answer.info["ranks"] == [7 if ones else None, 7 if twos else None]
    assert answer.info["one_hop"] == made.ones.size and answer.info["two_hop"] == made.twos.size
    assert (asked(few - 1, more) is None) is not ones and (asked(few, more - 1) is None) is not twos
    grown = {ones: made.ones}
    seen.clear()
    assert asked(few, more, grown) is not None and "ones" not in seen, "they are grown once"
    assert np.array_equal(answer.nodes.codes, made.nodes.codes)
    ticking = Ticking(0.0, 60.0)
    timed = asked(few, more, clock=ticking)
    assert timed is not None
    seconds = [timed.info[f"seconds_{hop}_hop"] for hop in ("one", "two")]
    assert min(seconds) >= 1.0 and sum(seconds) == ticking.ticks - 1, "what passes behind the first look"


def test_frozen_parts_are_named_with_the_blocks_that_they_hide(lab: Any) -> None:
    """The readout shows the nodes' own rows and 2-hop blocks; those of one hop show in convolutions alone."""
    trained = unseen(lab, lab.model(layers=2, hidden=4, readout_widths=(3,)))
    frozen, shows = trained.model.clone(frozen=("layers_0", "layers_1")), {"readout": trained.update["readout"]}
    seen = Observation(frozen, trained.params, shows, "bce")
    said = module.unsupported(seen, Knowledge(lab.space))
    assert said is not None and "show 1-hop blocks are frozen (layers_0, layers_1)" in said
