"""A certificate that came out weaker because time ended says so."""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from jgleak.attacks.attack import MORE_CONDITIONS, OUT_OF_TIME, Budget, Reconstruction
from jgleak.attacks.census import attempted, candidates
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.span.ranges import Unsearched
from jgleak.federated import Knowledge

FOREVER = Budget(time_limit=1e6).start()


class Hurry:
    """Seconds that the clock of attacks is fast."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, now = 0.0, time.monotonic
        monkeypatch.setattr("jgleak.attacks.attack.time", SimpleNamespace(monotonic=lambda: now() + self.seconds))


def _answer(lab: Any) -> Reconstruction:
    observation, known = lab.observe(lab.model(), lab.path([0, 1, 2])), Knowledge(lab.space, n=3)
    return CENSUS(observation, known, key=jax.random.key(0), budget=Budget(time_limit=600))


def test_a_certificate_that_time_left_with_more_conditions_says_so(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the time ends before the graphs are looked for again under fewer conditions."""
    calm, hurry, count = _answer(lab), Hurry(monkeypatch), attempted.counted

    def slow(*given: Any) -> Any:
        answer = count(*given)
        hurry.seconds = 1e4
        return answer

    monkeypatch.setattr("jgleak.attacks.census.one_graph.counted", slow)
    late = _answer(lab)
    assert calm.certificate is not None and late.certificate is not None and "reason" not in calm.info
    assert len(late.certificate.conditions) > len(calm.certificate.conditions)
    assert late.info["reason"] == MORE_CONDITIONS


def test_a_part_of_the_time_that_ended_too_early_is_told(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hop whose share of the time ended leaves candidates out, though time is left for what follows."""
    hurry, grow = Hurry(monkeypatch), candidates.one_hop

    def slow(*given: Any, clock: Any, **bounds: Any) -> Any:
        hurry.seconds += clock.left + 1.0
        left = Unsearched(0, (0, 1), (0, 1), 1)
        return dataclasses.replace(grow(*given, clock=FOREVER, **bounds), unsearched=(left,))

    monkeypatch.setattr(candidates, "one_hop", slow)
    found = _answer(lab)
    assert found.certificate is not None and found.certificate.status == "at_least_k"
    assert found.info["reason"] == OUT_OF_TIME and hurry.seconds < 500
