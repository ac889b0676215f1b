"""Several graphs, one a local step: shares of the first step in closed form, and clients whose order nobody knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.census.batches import first_graph, first_step
from jgleak.attacks.census.batches.first_kernel import Counts, Fitting, Head, Roots
from jgleak.attacks.census.batches.first_step import first_counts
from jgleak.attacks.census.batches.joint import replayed
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.moves import Linked
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.search import levels_of
from jgleak.attacks.distance import MATCH
from jgleak.attacks.span.subspace import Subspace
from jgleak.audit.certified import verify, write
from jgleak.federated import Knowledge, LocalTraining, Observation, fedavg, save
from jgleak.graph import Graph

FOREVER = Budget(time_limit=1e6).start()
RATE = 0.05


def graphs(lab: Any) -> list[Graph]:
    return [lab.path([0, 1, 1, 2, 0], y=1), lab.ring([1, 3, 2, 0], y=0)]


def returned(lab: Any, some: list[Graph], **fields: Any) -> Observation:
    model = lab.model()
    local = LocalTraining(**({"rate": RATE, "steps": len(some), "loader": 1} | fields))
    return fedavg(model, lab.params(model), some, lab.space, loss="bce", local=local, key=jax.random.key(0))


def attacked(lab: Any, seen: Observation, seconds: float = 60) -> Reconstruction:
    return CENSUS(seen, Knowledge(lab.space, max_n=8), key=jax.random.key(0), budget=Budget(time_limit=seconds))


def test_the_first_step_shows_its_graph_s_counts(lab: Any) -> None:
    """Whatever graph comes after it; that one's own rows are beside the span, and its counts are not there."""
    first, second = graphs(lab)
    seen = dataclasses.replace(returned(lab, [first, second]), protocol="fedsgd", local=None)
    problem = CensusProblem.of(seen, Knowledge(lab.space, n=first.n))
    head = Head.of(problem)

    def own(graph: Graph) -> tuple[Any, np.ndarray, Roots]:
        codes, kinds = np.unique(graph.x, axis=0, return_inverse=True)
        linked = Linked(graph.adjacency.astype(bool), kinds.ravel())
        levels, counts = levels_of(problem, linked, codes.astype(np.int32), int(graph.degree.max()))
        roots = head.roots(problem, levels, FOREVER)
        assert roots is not None
        return levels, counts, roots

    levels, counts, roots = own(first)
    assert roots.off.max() < 1e-5 < 1e-4 < own(second)[2].off.min()
    found = next(first_counts(problem, levels, FOREVER))
    np.testing.assert_array_equal(found.blocks, counts)
    fitting = head.without(problem, roots, Counts(counts, 1))
    assert found.label == first.y and fitting is not None and fitting.alone
    assert fitting.left == head.span.rank - counts.size, "every block takes one dimension away"
    assert head.without(problem, roots, Counts(counts, 0)) is None, "another label gives other shares"
    assert head.without(problem, roots, Counts(counts[::-1].copy() + np.arange(counts.size), 1)) is None


def test_blocks_that_graphs_share_are_told_apart_by_directions_as_faint_as_weights_move(lab: Any) -> None:
    """At the largest gap in the singular values their shares are those of sums of blocks."""
    first, second = lab.path([0, 1, 1, 2, 0], y=1), lab.path([0, 1, 1, 2, 1], y=0)
    seen = dataclasses.replace(returned(lab, [first, second], rate=3e-4), protocol="fedsgd", local=None)
    problem = CensusProblem.of(seen, Knowledge(lab.space, n=first.n))
    codes, kinds = np.unique(first.x, axis=0, return_inverse=True)
    linked = Linked(first.adjacency.astype(bool), kinds.ravel())
    levels, counts = levels_of(problem, linked, codes.astype(np.int32), int(first.degree.max()))
    head = Head.of(problem)
    gap = head._replace(span=Subspace.of_gradient(head.gradient * head.span.scale[:, None]))

    def off(head: Head) -> float:
        roots = head.roots(problem, levels, FOREVER)
        assert roots is not None
        return float(np.abs(first.n * roots.told(problem.observation, counts / first.n, 1) - counts).max())

    assert gap.span.rank < head.span.rank
    assert off(head) < 0.02 < 0.5 < off(gap)


def test_counts_that_leave_fewer_dimensions_come_first(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = graphs(lab)
    seen = dataclasses.replace(returned(lab, [first, second]), protocol="fedsgd", local=None)
    problem = CensusProblem.of(seen, Knowledge(lab.space, n=first.n))
    codes, kinds = np.unique(first.x, axis=0, return_inverse=True)
    linked = Linked(first.adjacency.astype(bool), kinds.ravel())
    levels, counts = levels_of(problem, linked, codes.astype(np.int32), int(first.degree.max()))
    others = [counts + 1, counts + 2]
    monkeypatch.setattr(first_step, "cheapest", lambda *_: iter([others[0], counts, others[1]]))
    monkeypatch.setattr(first_step, "_and_again", lambda *given: iter([given[3]]))
    left = {others[0].tobytes(): 7, counts.tobytes(): 4, others[1].tobytes(): 6}
    monkeypatch.setattr(Head, "without", lambda *given: Fitting(given[3], left[given[3].blocks.tobytes()], False))
    found = [int(one.blocks[0]) for one in first_counts(problem, levels, FOREVER)]
    assert found[:3] == [int(counts[0]), int(counts[0]) + 2, int(counts[0]) + 1]


def test_counts_are_looked_for_until_the_time_ends(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time left for one label and one number of nodes, not once for each of all of them."""
    first, second = graphs(lab)
    seen = dataclasses.replace(returned(lab, [first, second]), protocol="fedsgd", local=None)
    problem = CensusProblem.of(seen, Knowledge(lab.space, max_n=12))
    codes, kinds = np.unique(first.x, axis=0, return_inverse=True)
    linked = Linked(first.adjacency.astype(bool), kinds.ravel())
    levels, _ = levels_of(problem, linked, codes.astype(np.int32), int(first.degree.max()))
    asked = list[object]()
    monkeypatch.setattr(first_step, "cheapest", lambda *given: iter([asked.append(given)]))
    clock = Budget(time_limit=100).start()
    head = Head.of(problem).roots(problem, levels, clock)
    monkeypatch.setattr(Head, "roots", lambda *_: head)
    assert not list(first_counts(problem, levels, Budget(time_limit=1e-9).start())) and len(asked) == 1
    asked.clear()
    assert not list(first_counts(problem, levels, FOREVER)) and len(asked) > 1


@pytest.mark.parametrize("times", [1, 2])
def test_covers_are_listed_beside_a_graph(times: int, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring of six in which every node has a twin has the gradient of a triangle under a mean; and whichever counts
    are met first, those of a graph or twice as many, the graph is listed."""

    def met(*given: Any) -> Iterator[Counts]:
        return (Counts(times * one.blocks, one.label) for one in first_counts(*given))

    monkeypatch.setattr(first_graph, "first_counts", met)
    some = [lab.ring([0, 1, 2, 0, 1, 2], y=1), lab.path([1, 3, 0, 2], y=0)]
    found = attacked(lab, returned(lab, some))
    assert found.stop == "match"
    assert [[graph.n for graph in member.graphs] for member in found.members] == [[3, 6], [4]]
    assert some[0].canonical_form() in {graph.canonical_form() for graph in found.members[0].graphs}
    assert found.members[0].certificate is not None and found.members[0].certificate.size == 2


def test_graphs_of_unknown_order_come_back_and_are_trained_again(lab: Any, tmp_path: Path) -> None:
    some = graphs(lab)
    seen = returned(lab, some, shuffled=True)
    found = attacked(lab, seen)
    assert {g.canonical_form() for g in found.graphs} == {g.canonical_form() for g in some}
    assert found.stop == "match" and found.gradient_distance is not None and found.gradient_distance < 1e-6
    assert found.certificate is not None and found.certificate.status == "at_least_k"
    for one in found.members:  # what they are worth was found out by training on all graphs
        assert one.gradient_distance == found.gradient_distance
        assert one.certificate is not None and one.certificate.status == "at_least_k"
        assert one.certificate.residual >= found.gradient_distance > 0.0
    save(tmp_path / "seen", seen, lab.space)
    write(tmp_path / "found.json", found, tmp_path / "seen")
    assert verify(tmp_path / "found.json").holds
    assert seen.local is not None
    save(tmp_path / "seen", dataclasses.replace(seen, local=dataclasses.replace(seen.local, rate=0.01)), lab.space)
    assert not verify(tmp_path / "found.json").holds


def test_the_order_matters_to_what_is_trained_again(lab: Any) -> None:
    some = graphs(lab)
    seen = returned(lab, some)
    assert replayed(seen, lab.space, some) < 1e-6 < MATCH < replayed(seen, lab.space, some[::-1])


def test_nothing_is_certified_of_graphs_that_the_others_do_not_confirm(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last graph is not found: the first one is listed, without a certificate."""
    missing = Reconstruction((), None, "time")
    monkeypatch.setattr("jgleak.attacks.census.census._single", lambda *_: missing)
    first = graphs(lab)[0]
    found = attacked(lab, returned(lab, graphs(lab)), seconds=20)
    (member,) = found.members
    assert member.certificate is None and found.certificate is None and found.gradient_distance is None
    assert first.canonical_form() in {graph.canonical_form() for graph in member.graphs}
    assert "1 of 2 graphs were found" in found.info["reason"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"steps": 3}, "2 graphs in 3 local steps of 1: it reads whole passes over the graphs, one a step"),
        ({"steps": 4, "shuffled": True}, "2 passes over 2 graphs, each in an order of its own"),
        ({"steps": 34}, "17 passes over the graphs: it reads at most 16"),
        ({"momentum": 0.9}, "after plain steps"),
    ],
)
def test_other_loaders_are_refused(lab: Any, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        attacked(lab, returned(lab, graphs(lab), **fields))


def test_a_readout_that_pools_is_refused(lab: Any) -> None:
    model = lab.model(readout="pooled", readout_widths=(32,), last_act=True)
    local = LocalTraining(RATE, 2, loader=1)
    seen = fedavg(model, lab.params(model), graphs(lab), lab.space, loss="bce", local=local)
    with pytest.raises(ValueError, match="a readout per node"):
        attacked(lab, seen)
