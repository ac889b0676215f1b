"""Updates whose number of graphs is not given: which numbers are tried, and what is claimed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import pytest

from jgleak.attacks.attack import Attack, Budget, Clock, Reconstruction
from jgleak.attacks.census.batches import unannounced as module
from jgleak.attacks.census.batches.unannounced import FEWEST, Counted, counted
from jgleak.attacks.certificate import Certificate
from jgleak.federated import Knowledge, Observation
from tests.clocks import HELD

SAID = Certificate("unique", 1, 9, True, 1e-7, ("said",))


@pytest.fixture
def run(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Counted | None, list[tuple[int, float]]]]:
    """What comes of an attack that finds some graphs for each number, and which numbers and seconds it was given."""
    seen = lab.observe(lab.model(), lab.path([0, 1, 2]))

    def attacked(numbers: list[int], stops: dict[int, str], clock: Clock = HELD) -> Any:
        asked = list[tuple[int, float]]()

        def one(observation: Observation, knowledge: Knowledge, *, key: Any, budget: Budget) -> Reconstruction:
            number = observation.batch_size
            asked.append((number, budget.time_limit))
            if stops[number] == "refused":
                raise ValueError(f"not {number}")
            graphs = (lab.path([0, 1]),) * min(number, 3)
            member = Reconstruction(graphs[:1], 0.0, "match", certificate=SAID)
            info = {"reason": f"{number} do not fit"}
            return Reconstruction(graphs, 0.5, stops[number], certificate=SAID, info=info, members=(member,))

        monkeypatch.setattr(module, "numbers_of_graphs", lambda *_: iter(numbers))
        monkeypatch.setattr(Budget, "start", lambda _: clock)
        try:
            return counted(Attack("one", one, several=True), seen, Knowledge(lab.space), key=jax.random.key(0)), asked
        except ValueError as error:
            return str(error), asked

    return attacked


def test_the_first_number_that_explains_the_update_is_taken(run: Any) -> None:
    """Each takes half of the half second that is left; certificates say what is assumed."""
    made, asked = run([1, 2, 3, 4], {1: "exhausted", 2: "refused", 3: "match"})
    assert asked == [(1, 0.25), (2, 0.25), (3, 0.25)]
    assert made.observation.batch_size == 3 and made.found.stop == "match"
    for found in (made.found, *made.found.members):
        assert found.certificate == dataclasses.replace(SAID, conditions=("said", FEWEST))


def test_where_none_does_most_graphs_are_a_guess_without_a_certificate(run: Any) -> None:
    made, asked = run([1, 2, 3, 4], dict.fromkeys(range(1, 5), "exhausted"))
    assert len(asked) == 4 and made.observation.batch_size == 3 and len(made.found.graphs) == 3
    assert made.found.certificate is None and [one.certificate for one in made.found.members] == [None]
    assert "is not known" in made.found.info["reason"] and made.found.info["reason"].endswith("; 3 do not fit")


def test_one_number_is_tried_without_time(run: Any) -> None:
    made, asked = run([2, 3], {2: "time"}, Clock(0.0, 0.0))
    assert asked == [(2, 0.0)] and made.observation.batch_size == 2


def test_the_last_refusal_is_told(run: Any) -> None:
    assert run([1, 2], {1: "refused", 2: "refused"}) == ("not 2", [(1, 0.25), (2, 0.25)])
    assert run([], {})[0].startswith("batch_size: no number of graphs explains the update")
