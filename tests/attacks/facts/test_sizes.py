"""Sizes that were told, beside those that an update shows."""

from __future__ import annotations

from typing import Any

import pytest

from jgleak.attacks.facts.fact import ONE, Fact, Facts
from jgleak.attacks.facts.nodes import AT_MOST
from jgleak.attacks.facts.registry import facts
from jgleak.attacks.facts.sizes import refuted_size
from jgleak.federated import Knowledge

LEAST = Fact("different_nodes", 5, (ONE,), "at least 5 nodes")
SEVEN = Fact("nodes", {"exactly": 7}, (ONE,), "exactly 7 nodes")
SIXES = Fact("nodes", {"multiple_of": 6}, (ONE,), "a multiple of 6").provided(AT_MOST)


@pytest.mark.parametrize(
    ("told", "graphs", "found", "said"),
    [
        ({"n": 4}, 1, [LEAST], "--n 4 contradicts the update: its graph has at least 5 nodes"),
        ({"n": 5}, 1, [LEAST], None),
        ({"max_n": 4}, 1, [LEAST], "--max-n 4 contradicts the update: its graph has at least 5 nodes"),
        ({"max_n": 4}, 2, [LEAST], None),
        ({"n": 2}, 2, [LEAST], "--n 2 contradicts the update: its 2 graphs together have at least 5 nodes"),
        ({"sizes": (3, 1)}, 2, [LEAST], "--n 3,1 contradicts the update: its 2 graphs together have at least 5 nodes"),
        ({"sizes": (3, 2)}, 2, [LEAST], None),
        ({"n": 8}, 1, [SEVEN, LEAST], "--n 8 contradicts the update: its graph has exactly 7 nodes"),
        ({"n": 7}, 1, [SEVEN, LEAST], None),
        ({"max_n": 6}, 1, [SEVEN, LEAST], "--max-n 6 contradicts the update: its graph has exactly 7 nodes"),
        ({"max_n": 8}, 1, [SEVEN, LEAST], None),
        ({"n": 4}, 1, [SEVEN.provided("it rains"), LEAST.provided("it rains")], None),
        ({"n": 7}, 1, [SIXES], "--n 7 contradicts the update: the number of its nodes is a multiple of 6"),
        ({"n": 12}, 1, [SIXES], None),
        ({"max_n": 5}, 1, [SIXES], "--max-n 5 contradicts the update: the number of its nodes is a multiple of 6"),
        ({"max_n": 6}, 1, [SIXES], None),
        ({"n": 1000}, 1, [SIXES], "--n 1000 contradicts the update: the number of its nodes is a multiple of 6"),
        ({"n": 1001}, 1, [SIXES], None),
        ({"n": 7}, 1, [SIXES.provided("it rains")], None),
        ({}, 1, [SEVEN, LEAST], None),
    ],
)
def test_a_size_that_the_update_refutes_is_named(
    lab: Any, told: dict[str, Any], graphs: int, found: list[Fact], said: str | None
) -> None:
    shown = Facts({fact.name: fact for fact in found}, {})
    assert refuted_size(shown, Knowledge(lab.space, **told), graphs) == said


def test_no_true_size_is_refuted(lab: Any) -> None:
    model = lab.model(hidden=32, readout="pooled", readout_widths=())
    for seed in range(10):
        graph = lab.random(3 + seed, seed)
        shown = facts(lab.observe(model, graph), lab.space)
        assert refuted_size(shown, Knowledge(lab.space, n=graph.n), 1) is None
        if shown.found["different_nodes"].value > 1:
            assert refuted_size(shown, Knowledge(lab.space, n=1), 1) is not None
