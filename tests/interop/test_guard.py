"""What a guard lets pass: by what an attack certifies, and of real updates by the census."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Attack, Reconstruction
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.registry import ATTACKS
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, LocalTraining
from jgleak.graph import Graph
from jgleak.interop import GIN, Linear, Rounds
from jgleak.interop.guard import Guard
from tests.interop.conftest import UNCOMPARED
from tests.interop.federation import Weights

pytestmark = UNCOMPARED

GRAPH = Graph(np.zeros((2, 1), np.int64), np.array([[0, 1]]))
SPACE = FeatureSpace((onehot("kind", "abc"),))
MAPS = {"conv1.nn.0": (4, 3), "conv1.nn.2": (4, 4), "out": (1, 4)}
Told = Sequence[tuple[str, int]]
"""Status and size of the certificate of every graph."""


def weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    shapes = {f"{name}.weight": shape for name, shape in MAPS.items()} | {f"{n}.bias": s[:1] for n, s in MAPS.items()}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


SENT, RETURNED = weights(0), weights(1)
ROUNDS = Rounds([GIN("conv1"), "relu", "mean", Linear("out")], "bce", LocalTraining(0.1, loader=8))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """In the place of the census one that answers what it is told, one answer a call; and what it saw."""

    def answers(*each: Told) -> list[Any]:
        seen: list[Any] = []

        def run(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
            members = tuple(
                Reconstruction((GRAPH,), 0.0, "match", certificate=Certificate(status, size, 9, False, 0.0))  # type: ignore[arg-type]
                for status, size in each[len(seen)]
            )
            seen.append(observation)
            if len(members) == 1 and observation.batch_size == 1:
                return members[0]
            return Reconstruction((GRAPH,) * len(members), 0.0, "time", members=members)

        monkeypatch.setitem(ATTACKS, "census", Attack("told", run, several=True))
        return seen

    return answers


def guarded(graphs: int = 1, **changes: Any) -> Any:
    return Guard(ROUNDS, Knowledge(SPACE), **changes).decision(SENT, RETURNED, graphs=graphs)


@pytest.mark.parametrize(
    ("answer", "changes", "action", "smallest"),
    [
        ([("unique", 1)], {}, "dropped", 1),
        ([("k_graphs", 2)], {}, "sent", 2),
        ([("k_graphs", 4)], {"least": 5}, "dropped", 4),
        ([("k_graphs", 5)], {"least": 5}, "sent", 5),
        ([("at_least_k", 1)], {}, "sent", None),
        ([("at_least_k", 1)], {"strict": True}, "dropped", None),
        ([("at_least_k", 3)], {"strict": True}, "sent", None),
        ([], {}, "sent", None),
        ([], {"strict": True}, "dropped", None),
        ([("k_graphs", 9), ("unique", 1)], {"graphs": 2}, "dropped", 1),
        ([("k_graphs", 9), ("k_graphs", 3)], {"graphs": 2}, "sent", 3),
        ([("k_graphs", 9)], {"graphs": 2}, "sent", 9),
        ([("k_graphs", 9)], {"graphs": 2, "strict": True}, "dropped", 9),
    ],
)
def test_the_smallest_certified_set_decides(
    told: Any, answer: Told, changes: dict[str, Any], action: str, smallest: int | None
) -> None:
    """Of a batch the graph that hides least; what is not certified passes unless the guard is strict."""
    told(answer)
    decision = guarded(**changes)
    assert (decision.action, decision.smallest) == (action, smallest)
    assert (decision.leaves is None) == (action == "dropped")
    if action == "sent":
        assert all(decision.leaves[name] is RETURNED[name] for name in RETURNED)
    if decision.smallest is None and action == "sent" and not answer:
        assert "it found none" in decision.reason and "no evidence of safety" in decision.reason
    if answer == [("at_least_k", 1)]:
        assert "in its time: it found graphs but did not exclude all others" in decision.reason


def test_noise_is_attacked_too_by_whoever_knows_it(told: Any) -> None:
    seen = told([("unique", 1)], [("at_least_k", 1)])
    decision = guarded(otherwise="clip:0.5+gaussian:0.25")
    first, second = seen
    assert decision.action == "noised" and decision.smallest == 1
    assert (first.scaled, second.scaled) == (False, True)
    assert second.noise == pytest.approx(0.25, rel=1e-3)
    moved = np.concatenate([(SENT[n] - decision.leaves[n]).ravel() / 0.1 for n in SENT])
    assert np.linalg.norm(moved) == pytest.approx(np.hypot(0.5, 0.25 * np.sqrt(moved.size)), rel=0.3)


def test_noise_that_was_there_before_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The knowledge's number is that of the update before the guard's own noise, which is larger then."""
    seen: list[Any] = []

    def run(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
        certificate = Certificate("unique" if not seen else "at_least_k", 1, 9, False, 0.0)
        seen.append(observation.noise if knowledge.noise is None else knowledge.noise)
        return Reconstruction((GRAPH,), 0.0, "match", certificate=certificate)

    monkeypatch.setitem(ATTACKS, "census", Attack("told", run, several=True))
    decision = Guard(ROUNDS, Knowledge(SPACE, noise=0.3), otherwise="gaussian:0.4").decision(SENT, RETURNED, graphs=1)
    assert decision.action == "noised" and seen == [0.3, pytest.approx(0.5, rel=1e-3)]


def test_what_noise_does_not_hide_is_dropped(told: Any) -> None:
    told([("unique", 1)], [("unique", 1)])
    decision = guarded(otherwise="gaussian:1e-9")
    assert decision.action == "dropped" and decision.leaves is None and "under gaussian:1e-09" in decision.reason


def test_noise_differs_between_rounds(told: Any) -> None:
    """Nobody who knows the code can draw it again."""
    told([("unique", 1)], [], [("unique", 1)], [])
    one, other = (guarded(otherwise="gaussian:1").leaves["out.bias"] for _ in range(2))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"least": 1}, "least: a whole number from 2"),
        ({"time_limit": 0.0}, "time_limit: an attack needs some time"),
        ({"otherwise": "noise:1"}, "unknown 'noise'"),
        ({"otherwise": "activations:1"}, "acts on activations or on each graph's gradient, which are past"),
        ({"otherwise": "clip-graph:1+gaussian:1"}, "acts on activations or on each graph's gradient, which are past"),
        ({"otherwise": "clip-inf:0.1"}, "no attack here has a model of what clip-inf:0.1 does"),
        ({"otherwise": "clip-inf:0.1+gaussian:1"}, "no attack here has a model of what clip-inf:0.1 does"),
        ({"otherwise": "prune:0.9"}, "no attack here has a model of what prune:0.9 does"),
        ({"otherwise": "gaussian:1+clip:1"}, "model of what clip:1.0 does .*, as there is noise before it"),
        ({"otherwise": "clip:1", "knowledge": Knowledge(SPACE, noise=1.0)}, ", as there is noise before it"),
    ],
)
def test_mistakes_are_named_before_a_round(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Guard(ROUNDS, **{"knowledge": Knowledge(SPACE), **change})


def test_an_update_that_cannot_be_attacked_is_not_let_pass() -> None:
    """The error reaches the caller, who must not send then."""
    with pytest.raises(ValueError, match="'out.bias' did not come back|lacks|holds NaN"):
        guard = Guard(ROUNDS, Knowledge(SPACE))
        guard.decision(SENT, {**RETURNED, "out.bias": RETURNED["out.bias"] * np.nan}, graphs=1)
