"""What is said of an answer without a graph, and of one with many."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
import pytest

from jgleak import Reconstruction
from jgleak.attacks.attack import LATE
from jgleak.attacks.census.distinct import DIFFER
from jgleak.attacks.census.small_numbers import TRIED
from jgleak.attacks.certificate import Certificate
from jgleak.audit.outcome import APPROXIMATION, FOUND, PART, outcome
from jgleak.datasets import MOLECULE_SPACE
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, LocalTraining, Observation
from jgleak.gnn import standard
from jgleak.graph import Graph

TOLD = Knowledge(MOLECULE_SPACE)


@pytest.mark.parametrize("stop", ["nothing assembled", "no information", "time"])
def test_numbers_of_local_training_are_named_as_what_to_check(stop: str) -> None:
    """By the names of their fields, and only where the file states such training."""
    model = standard(MOLECULE_SPACE.width, hidden=4)
    params = model.initial(key=jax.random.key(0))
    one = Observation(model, params, params, "bce", batch_size=3)
    steps = dataclasses.replace(one, protocol="fedavg", local=LocalTraining(0.05, 6, loader=1))
    plain, hints = (set(outcome(seen, Reconstruction((), None, stop), TOLD).hints) for seen in (one, steps))
    training, *moved = sorted(hints - plain)
    assert plain < hints and "LocalTraining(rate=0.05, steps=6, loader=1) of batch_size=3" in training
    fast = dataclasses.replace(steps, local=LocalTraining(0.05, 6, 0.9, 0.01))
    assert any(
        "steps=6, loader=None, momentum=0.9, weight_decay=0.01)" in hint
        for hint in outcome(fast, Reconstruction((), None, stop), TOLD).hints
    )
    assert len(moved) == (stop == "nothing assembled") and all("smaller rate or fewer steps" in said for said in moved)
    single = dataclasses.replace(steps, local=LocalTraining(0.05, 1))
    assert not any("fewer steps" in said for said in outcome(single, Reconstruction((), None, stop), TOLD).hints)


def test_what_would_leave_fewer_graphs_of_a_list_is_said() -> None:
    """The size, where graphs of several sizes are listed and it is not known; that nodes differ, where a feature states
    degrees, for which that is used."""
    space = FeatureSpace((onehot("kind", "abc"), onehot("degree", range(4))), degree="degree")
    model = standard(space.width, hidden=4)
    params = model.initial(key=jax.random.key(0))
    seen = Observation(model, params, params, "bce")
    path = np.array([[0, 1], [1, 2]])
    differ, alike = (Graph(np.array([[a, 1], [b, 2], [c, 1]]), path) for a, b, c in ((0, 1, 2), (0, 1, 0)))
    pair = Graph(np.array([[0, 1], [1, 1]]), np.array([[0, 1]]))

    def said(
        *graphs: Graph,
        known: bool = False,
        within: FeatureSpace = space,
        conditions: Any = (),
        info: Any = MappingProxyType({}),
        status: Any = "k_graphs",
    ) -> list[str]:
        certificate = Certificate(status, len(graphs), 40, known, 0.0, conditions)
        found = Reconstruction(graphs, 0.0, "match", certificate=certificate, info=info)
        return list(outcome(seen, found, Knowledge(within)).hints)

    size, names = said(differ, alike, pair)
    assert size.startswith("the 3 graphs have 2 to 3 nodes (1 of them 2):") and "--n or --max-n" in size
    assert names.startswith("in 2 of the 3 no two nodes") and "--distinct-nodes" in names
    assert said(differ, pair) == [size.replace("3 graphs", "2 graphs")], "all nodes differ"
    assert said(differ, alike) == [names.replace("2 of the 3", "1 of the 2")] and not said(pair)
    assert not said(differ, pair, known=True) and not said(differ, alike, conditions=(DIFFER,))
    assert not said(differ, alike, within=dataclasses.replace(space, degree=None))
    assert not said(differ, alike, info={"notes": ["distinct_nodes is not used"]}), "it was asked for"
    (ends,) = said(differ, status="at_least_k")
    assert ends.startswith("the search did not end") and "in 1 of the 1 listed, --distinct-nodes" in ends
    (number,) = said(differ, status="at_least_k", conditions=(TRIED.format(differ.n),))
    assert "do not determine the number of nodes" in number and "--n may close the list" in number
    assert said(differ, alike, status="at_least_k") == [ends.replace("1 of the 1", "1 of the 2")]
    assert not said(alike, status="at_least_k") and not said(differ)
    assert not said(differ, status="at_least_k", conditions=(DIFFER,))


def test_a_gradient_that_is_less_alike_than_rounding_leaves_is_said() -> None:
    model = standard(MOLECULE_SPACE.width, hidden=4)
    params = model.initial(key=jax.random.key(0))
    seen = Observation(model, params, params, "bce")
    graph = Graph(np.zeros((2, len(MOLECULE_SPACE.features)), np.int32), np.array([[0, 1]]))

    def said(distance: float, noise: float | None = None, rounding: float | None = None) -> tuple[str, ...]:
        found = Reconstruction((graph,), distance, "match")
        answer = outcome(dataclasses.replace(seen, rounding=rounding), found, Knowledge(MOLECULE_SPACE, noise=noise))
        assert answer.kind == FOUND
        return answer.hints

    (asked,) = said(8e-5)
    assert asked.startswith("the graph's gradient is 8e-05 from the observed one") and "epsilon" in asked
    assert not said(1e-6) and not said(8e-5, noise=1e-4) and not said(8e-5, rounding=1e-3)


def test_a_number_of_graphs_is_named_where_a_search_for_several_found_none() -> None:
    model = standard(MOLECULE_SPACE.width, hidden=4)
    params = model.initial(key=jax.random.key(0))

    def said(graphs: int, stop: str, counted: bool = False) -> list[str]:
        seen, nothing = Observation(model, params, params, "bce", batch_size=graphs), Reconstruction((), None, stop)
        return [hint for hint in outcome(seen, nothing, TOLD, counted=counted).hints if "batch_size" in hint]

    (asked,) = said(3, "nothing assembled")
    assert asked.startswith("batch_size=3:") and "--batch-size unknown" in asked
    assert not said(3, "nothing assembled", counted=True)
    assert said(1, "nothing assembled")[0].startswith("batch_size=1:")
    assert not said(3, "time") and not said(3, "no information")


def test_more_graphs_than_the_file_tells_of_are_said() -> None:
    """As where the update is a sum over three graphs: each is found three times."""
    model = standard(MOLECULE_SPACE.width, hidden=4)
    params = model.initial(key=jax.random.key(0))
    graph = Graph(np.zeros((2, len(MOLECULE_SPACE.features)), np.int32), np.array([[0, 1]]))
    member = Reconstruction((graph,), None, "match")
    found = Reconstruction((graph,) * 3, None, "nothing assembled", members=(member,) * 3)
    answer = outcome(Observation(model, params, params, "bce"), found, TOLD)
    assert answer.kind == APPROXIMATION and answer.text.startswith("3 graphs with a part of the update each, and")
    assert "batch_size=1" in answer.text and "reduction='sum'" in answer.hints[0]


def test_sizes_that_were_told_and_are_not_found_are_said() -> None:
    model = standard(MOLECULE_SPACE.width, hidden=4)
    params = model.initial(key=jax.random.key(0))
    seen = Observation(model, params, params, "bce", batch_size=3)
    graphs = tuple(Graph(np.zeros((n, len(MOLECULE_SPACE.features)), np.int32), np.zeros((0, 2), int)) for n in (4, 5))
    member = Reconstruction(graphs[:1], None, "match")

    def hints(stop: str = "match", **told: Any) -> tuple[str, ...]:
        found = Reconstruction(graphs, None, stop, members=(member, member))
        answer = outcome(seen, found, Knowledge(MOLECULE_SPACE, **told))
        assert answer.kind == PART
        return answer.hints

    (asked,) = hints(n=5, sizes=(5, 5, 4))
    assert hints() == () and asked.startswith("--n 5,5,4: are these the graphs' numbers of nodes?")
    assert hints(n=5, sizes=(5, 5, 5)) == ("--n 5,5,5 does not name the sizes of all graphs found: it lacks 4",)
    (least,) = hints(max_n=5)
    assert least.startswith("--max-n 5: has no graph of the client more nodes?")
    assert hints("time") == ("the time ran out, compilation included: raise --time-limit",)
    (whole,) = hints(n=5)
    assert whole.startswith("--n 5: has every graph of the client so many nodes?")


def test_more_time_is_advised_after_what_else_stands_in_the_way() -> None:
    model = standard(MOLECULE_SPACE.width, hidden=4)
    params = model.initial(key=jax.random.key(0))
    seen = Observation(model, params, params, "bce")

    def hints(stop: str, reason: str | None, **sizes: Any) -> str:
        info = {} if reason is None else {"reason": reason}
        told = Knowledge(MOLECULE_SPACE, **sizes)
        return " ".join(outcome(seen, Reconstruction((), None, stop, info=info), told).hints)

    alone = hints("time", None)
    assert "raise --time-limit" in alone and alone == hints("time", LATE[0])
    first = "the time ran out, compilation included: raise --time-limit"
    assert alone.startswith(f"{first} the schema states") and "is a different number" in alone
    assert hints("time", "too many blocks").startswith(f"{first}, but first mend the reason that the attack gives")
    for stop in ("nothing assembled", "missing blocks"):
        assert "--n 6,3: are these the graphs' numbers of nodes?" in hints(stop, None, sizes=(6, 3))
        assert "--n 7: has every graph" in hints(stop, None, n=7)
        assert "--max-n 9: has no graph" in hints(stop, None, max_n=9) and "--n 7" in hints(stop, None, n=7, max_n=9)
        assert "--max-n" not in hints(stop, None) and "--n " not in hints(stop, None), "none was given"
    assert "--max-n 9: has no graph" in hints("time", None, max_n=9) and "--n 7: has every graph" in hints(
        "time", None, n=7
    )
