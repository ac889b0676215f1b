"""Options of the exact attacks: they change what they say, are recorded, and unknown ones are refused."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import jax
import pytest

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import CensusSettings
from jgleak.attacks.grain.grain import GRAIN
from jgleak.attacks.grain.settings import GrainSettings
from jgleak.attacks.span.check import SpanCheck
from jgleak.federated import Knowledge
from jgleak.graph import Graph


def attacked(attack: Attack, lab: Any, graph: Graph, **knowledge: Any) -> Reconstruction:
    known = Knowledge(lab.space, **knowledge)
    return attack(lab.observe(lab.model(), graph), known, key=jax.random.key(0), budget=Budget(time_limit=60))


def leaves(settings: Any) -> list[str]:
    """The name of every option."""
    names = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        names += leaves(value) if dataclasses.is_dataclass(value) else [field.name]
    return names


def test_a_list_that_is_full_ends_the_search_and_the_certificate_says_so(lab: Any) -> None:
    ring = lab.ring([0, 1, 2])
    whole = attacked(CENSUS, lab, ring, max_n=6)
    assert whole.certificate is not None and (whole.certificate.status, len(whole.graphs)) == ("k_graphs", 2)
    assert "options" not in whole.info
    one = attacked(CENSUS.with_options({"listed": "1"}), lab, ring, max_n=6)
    assert one.certificate is not None and (one.certificate.status, len(one.graphs)) == ("at_least_k", 1)
    assert one.info["options"] == {"listed": 1}


def test_without_a_bound_larger_graphs_are_looked_for_while_none_is_found(lab: Any) -> None:
    """The triangle has a cover of six nodes. It is not looked for once the triangle is found, and the certificate says
    how far was looked; where two nodes are the last round, nothing is found."""
    ring = lab.ring([0, 1, 2])
    for rounds, most, status in (("2,4,8", 4, "unique"), ("8,3,2", 3, "unique"), ("2,6", 6, "k_graphs")):
        found = attacked(CENSUS.with_options({"size_rounds": rounds}), lab, ring)
        assert found.best is not None and found.best.isomorphic(ring) and found.certificate is not None
        assert (found.certificate.n_max, found.certificate.status) == (most, status)
    assert not attacked(CENSUS.with_options({"size_rounds": "2"}), lab, ring).graphs
    bounded = attacked(CENSUS.with_options({"size_rounds": "2"}), lab, ring, max_n=3).certificate
    assert bounded is not None and (bounded.n_max, bounded.status) == (3, "unique")


def test_no_attempt_begins_once_the_time_is_up(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even its checks are prepared: each takes a decomposition of a gradient."""
    problem = CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1, 2])), Knowledge(lab.space, n=3))
    candidates, prepared = CensusCandidates(problem, Budget(time_limit=1e6).start(), Budget()), list[str]()

    def at(site: Any, **_: Any) -> None:
        prepared.append(site.name)

    monkeypatch.setattr(SpanCheck, "at", at)
    assert list(candidates.attempts(Budget(time_limit=1e-9).start())) == [] and prepared == []


def test_no_residual_is_small_enough_for_a_tolerance_of_nothing(lab: Any) -> None:
    """Nor is any graph found where every true block is taken to be missing."""
    found = attacked(
        CENSUS.with_options({"missing_residual": "1e-12", "enumerated_nodes": "0"}), lab, lab.path([0, 1, 2]), n=3
    )
    assert not found.graphs and found.stop == "missing blocks"


def test_options_of_the_span_checks_are_options_of_both_attacks(lab: Any) -> None:
    """A rank that no gap shows clearly enough leaves no input check."""
    graph = lab.random(7, 3)
    for attack in (CENSUS, GRAIN):
        assert attacked(attack, lab, graph, n=7).stop == "match"
        strict = attacked(attack.with_options({"rank_gap": "1e12"}), lab, graph, n=7)
        assert strict.stop == "no information" and "show no rank" in strict.info["reason"]
        assert strict.info["options"] == {"rank_gap": 1e12}


def test_options_add_up(lab: Any) -> None:
    attack = GRAIN.with_options({"step_rounds": "10,100"}).with_options({"filtering_share": "0.5"})
    found = attacked(attack, lab, lab.path([0, 1, 2]), n=3)
    assert found.stop == "match" and found.info["options"] == {"step_rounds": (10, 100), "filtering_share": 0.5}


@pytest.mark.parametrize("attack", [CENSUS, GRAIN], ids=["census", "grain"])
def test_unknown_options_are_refused(attack: Attack) -> None:
    with pytest.raises(ValueError, match="option 'rank_gaps': unknown; did you mean 'rank_gap'"):
        attack.with_options({"rank_gaps": "3"})
    with pytest.raises(ValueError, match="option 'passing_blocks': expected a whole number from 1, got '0'"):
        attack.with_options({"passing_blocks": "0"})


@pytest.mark.parametrize("settings", [CensusSettings(), GrainSettings()], ids=["census", "grain"])
def test_every_option_has_a_name_of_its_own_and_says_what_it_is(settings: Any) -> None:
    assert max(Counter(leaves(settings)).values()) == 1

    def described(value: Any) -> None:
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if dataclasses.is_dataclass(inner):
                described(inner)
            else:
                assert f"\n      {field.name}: " in (type(value).__doc__ or ""), field.name

    described(settings)
