"""Several graphs, some a local step: weights of the first step in closed form, and clients whose order nobody knows."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy import linalg

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.census.batches.answers import OTHERS
from jgleak.attacks.census.batches.first_kernel import Head
from jgleak.attacks.census.batches.in_turn import _confirmed
from jgleak.attacks.census.batches.joint import replayed
from jgleak.attacks.census.batches.kernel_weights import kernel_weights
from jgleak.attacks.census.batches.passes import Passes
from jgleak.attacks.census.batches.separate import separated
from jgleak.attacks.census.batches.upstream import Upstream, own_upstreams
from jgleak.attacks.census.batches.weights import Weights
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.moves import Linked
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.search import levels_of
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import MATCH
from jgleak.audit.certified import verify, write
from jgleak.federated import Knowledge, LocalTraining, Observation, fedavg, save
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER

RATE = 0.05


def graphs(lab: Any) -> list[Graph]:
    return [lab.path([0, 1, 1, 2, 0], y=1), lab.ring([1, 3, 2, 0], y=0)]


def returned(lab: Any, some: list[Graph], **fields: Any) -> Observation:
    model = lab.model()
    local = LocalTraining(**({"rate": RATE, "steps": len(some), "loader": 1} | fields))
    return fedavg(model, lab.params(model), some, lab.space, loss="bce", local=local, key=jax.random.key(0))


def attacked(lab: Any, seen: Observation, seconds: float = 60) -> Reconstruction:
    return CENSUS(seen, Knowledge(lab.space, max_n=8), key=jax.random.key(0), budget=Budget(time_limit=seconds))


def counted(lab: Any, seen: Observation, some: list[Graph]) -> tuple[CensusProblem, Levels, np.ndarray]:
    """The update taken for one gradient, and how many nodes of each of some graphs have each of their blocks."""
    problem = CensusProblem.of(dataclasses.replace(seen, protocol="fedsgd", local=None), Knowledge(lab.space))
    codes, kinds = np.unique(np.concatenate([graph.x for graph in some]), axis=0, return_inverse=True)
    whole = np.asarray(linalg.block_diag(*(graph.adjacency for graph in some)), bool)
    levels, counts = levels_of(problem, Linked(whole, kinds.ravel()), codes.astype(np.int32), int(whole.sum(1).max()))
    names, own = _names(levels), list[np.ndarray]()
    for graph in some:
        codes, kinds = np.unique(graph.x, axis=0, return_inverse=True)
        linked = Linked(graph.adjacency.astype(bool), kinds.ravel())
        alone, here = levels_of(problem, linked, codes.astype(np.int32), int(graph.degree.max()))
        known = dict(zip(_names(alone), here.tolist(), strict=True))
        own.append(np.array([known.get(name, 0) for name in names]))
    np.testing.assert_array_equal(np.sum(own, axis=0), counts)
    return problem, levels, np.array(own)


def _names(levels: Levels) -> list[Any]:
    names: list[Any] = [tuple(row) for row in levels.nodes.codes.tolist()]
    for blocks in levels.hops:
        around = zip(blocks.roots.tolist(), blocks.neighbours, strict=True)
        names = [(names[root], tuple(sorted(names[t] for t in neighbours))) for root, neighbours in around]
    return names


@pytest.mark.parametrize("loader", [1, 2])
def test_the_first_step_shows_its_graphs_counts(loader: int, lab: Any) -> None:
    """Whatever graphs come after it: their own rows are beside the span, and show no weights. Those
    of the first step's are what their graphs' sizes, outputs and labels say, also of a block that two of them have."""
    some = [lab.path([0, 1, 1, 2, 0], y=1), lab.path([0, 1, 1, 2, 1], y=0), lab.ring([1, 3, 2, 0], y=0)]
    seen = returned(lab, some, loader=loader, steps=3 if loader == 1 else 2)
    left = Passes.of(seen)
    problem, levels, own = counted(lab, left.seen, some)
    head = Head.of(problem, loader)
    roots = head.roots(problem, levels, FOREVER)
    assert roots is not None
    upstream = Upstream.of(problem.observation)
    found = kernel_weights(head, roots, upstream, FOREVER)
    assert found is not None
    sizes = own.sum(axis=1)
    factors = np.stack(
        [
            own_upstreams(left.seen, row @ roots.logits[:, 0] / n)[g.y]
            for row, n, g in zip(own, sizes, some, strict=True)
        ]
    ) / (3 * sizes[:, None])
    first = own[:loader].any(axis=0)
    wanted = own[:loader].T @ factors[:loader]
    together = np.stack([wanted[found.alike == name].sum(axis=0) for name in found.alike])
    shown = np.isfinite(found.errors).all(axis=1) & np.any(np.abs(found.values) > found.errors, axis=1)
    np.testing.assert_array_equal(shown, first)
    if loader == 2:
        assert (own[:2] > 0).all(axis=0).any(), "blocks of both graphs of the first step"
    off, stated = (found.values @ upstream.rows - together)[first], (found.errors @ np.abs(upstream.rows))[first]
    assert (np.abs(off) <= stated).all() and stated.max() < 1e-4 * np.abs(wanted).max()
    for graph, counts in zip(some[:loader], own, strict=False):
        assert head.lacks(problem, roots, counts, int(graph.y)), "every block takes a dimension away"
        assert not head.lacks(problem, roots, counts, 1 - int(graph.y)), "another label has other weights"
        assert not head.lacks(problem, roots, np.where(counts, counts + np.arange(counts.size), 0), int(graph.y))
    shares = separated(problem, levels, found, FOREVER)
    assert sorted(_alike(found, share.counts).tolist() for share in shares) == sorted(
        _alike(found, counts).tolist() for counts in own[:loader]
    )


def _alike(weights: Weights, counts: np.ndarray) -> np.ndarray:
    return np.bincount(weights.alike, counts, minlength=counts.size).astype(int)


def test_what_pooling_needs_is_said_where_nothing_is_found(lab: Any) -> None:
    """A map of eight units has too few dark ones, whatever the weights are."""
    model, local = lab.model(readout="pooled", readout_widths=(8,), last_act=True), LocalTraining(RATE, 2, loader=1)
    seen = fedavg(model, lab.params(model), graphs(lab), lab.space, loss="bce", local=local)
    reason = attacked(lab, seen).info["reason"]
    assert reason.startswith("no graph of the first step was found. ") and "leave 9 or more dark" in reason
    assert "dark" not in attacked(lab, returned(lab, graphs(lab)), seconds=1e-3).info["reason"]


def test_covers_are_listed_beside_a_graph(lab: Any) -> None:
    """A ring of six in which every node has a twin has the gradient of a triangle under a mean."""
    some = [lab.ring([0, 1, 2, 0, 1, 2], y=1), lab.path([1, 3, 0, 2], y=0)]
    found = attacked(lab, returned(lab, some))
    assert found.stop == "match"
    assert [[graph.n for graph in member.graphs] for member in found.members] == [[3, 6], [4]]
    assert some[0].canonical_form() in {graph.canonical_form() for graph in found.members[0].graphs}
    assert found.members[0].certificate is not None and found.members[0].certificate.size == 2


@pytest.mark.parametrize(("loader", "number"), [(1, 2), (2, 3), pytest.param(2, 4, marks=pytest.mark.slow)])
def test_graphs_of_unknown_order_come_back_and_are_trained_again(
    loader: int, number: int, lab: Any, tmp_path: Path
) -> None:
    """One or two a step, and a last step that may have fewer."""
    some = [*graphs(lab), lab.path([2, 0, 3, 1], y=1), lab.path([3, 0, 0, 1, 2], y=0)][:number]
    seen = returned(lab, some, loader=loader, steps=-(-number // loader), shuffled=True)
    found = attacked(lab, seen)
    lists = [{graph.canonical_form() for graph in member.graphs} for member in found.members]
    assert len(lists) == number and all(any(g.canonical_form() in own for own in lists) for g in some)
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


def test_equal_graphs_of_one_step_come_back_as_copies(lab: Any) -> None:
    """Without one of them the gradient has as many dimensions as with both."""
    first, other = graphs(lab)
    found = attacked(lab, returned(lab, [first, first, other], loader=2, steps=2))
    lists = [{graph.canonical_form() for graph in member.graphs} for member in found.members]
    assert found.stop == "match" and len(lists) == 3
    assert sum(first.canonical_form() in own for own in lists) == 2


def test_momentum_and_weight_decay_are_followed_in_one_pass(lab: Any) -> None:
    """Steps count differently in the update, and the second one's weights follow from the first one's gradient."""
    some = graphs(lab)
    found = attacked(lab, returned(lab, some, momentum=0.9, weight_decay=1e-2))
    assert found.stop == "match" and found.gradient_distance is not None and found.gradient_distance < 1e-6
    for truth, member in zip(some, found.members, strict=True):
        assert truth.canonical_form() in {graph.canonical_form() for graph in member.graphs}


def test_the_order_matters_to_what_is_trained_again(lab: Any) -> None:
    some = graphs(lab)
    seen = returned(lab, some)
    assert replayed(seen, lab.space, some) < 1e-6 < MATCH < replayed(seen, lab.space, some[::-1])


@pytest.mark.long
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
    assert "1 of 2 graphs found" in found.info["reason"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"steps": 3},
            r"2 graphs in 3 local steps of 1: it reads whole passes over the graphs \(a multiple of 2 steps",
        ),
        ({"steps": 4, "shuffled": True}, "2 passes over 2 graphs, each in an order of its own"),
        ({"steps": 34}, "17 passes over the graphs: it reads at most 16"),
        ({"momentum": 0.9, "steps": 4}, "2 passes over 2 graphs with momentum or weight decay"),
    ],
)
def test_other_loaders_are_refused(lab: Any, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        attacked(lab, returned(lab, graphs(lab), **fields))


def returned_pooled(lab: Any, some: list[Graph], fields: dict[str, Any], **training: Any) -> Observation:
    model = lab.model(**({"readout": "pooled", "readout_widths": (256,), "last_act": True} | fields))
    local = LocalTraining(**({"rate": RATE, "steps": len(some), "loader": 1} | training))
    return fedavg(model, lab.params(model), some, lab.space, loss="bce", local=local, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("labels", "fields", "training"),
    [
        pytest.param(
            (1, 0),
            {},
            {"loader": 2, "steps": 2},
            id="two of three a step, equal but for the label",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (1,), {"pooling": "sum"}, {"rate": 0.005, "momentum": 0.9, "weight_decay": 1e-2}, id="momentum, sum"
        ),
    ],
)
@pytest.mark.long
def test_graphs_come_back_behind_pooling(
    labels: tuple[int, ...], fields: dict[str, Any], training: dict[str, Any], lab: Any
) -> None:
    first, other = graphs(lab)
    some = [*(dataclasses.replace(first, y=label) for label in labels), other]
    found = attacked(lab, returned_pooled(lab, some, fields, **training))
    lists = [{(graph.canonical_form(), graph.y) for graph in member.graphs} for member in found.members]
    assert len(lists) == len(some) and all(any((g.canonical_form(), g.y) in own for own in lists) for g in some)
    assert found.stop == "match" and found.gradient_distance is not None and found.gradient_distance < 1e-6
    assert found.certificate is not None and found.certificate.status == "at_least_k"
    for own in (member.certificate for member in found.members):
        assert own is not None and own.status == "at_least_k" and OTHERS in own.conditions


@pytest.mark.parametrize("status", ["unique", "k_graphs", "at_least_k"])
def test_of_graphs_outside_a_list_nothing_is_claimed(status: Any, lab: Any) -> None:
    """Each is trained beside the first ones of the other lists alone, whatever the search for one of them claims."""
    made = Certificate(status, 2, 6, True, 1e-8, ("a condition", OTHERS))
    found = _confirmed(Reconstruction((graphs(lab)[0],), 1e-8, "match", certificate=made), 1e-7)
    assert found.certificate == Certificate("at_least_k", 1, 6, True, 1e-7, ("a condition", OTHERS))
    assert _confirmed(found, None).certificate is None


@pytest.mark.parametrize(
    ("fields", "training", "words"),
    [
        ({}, {"steps": 4}, "2 passes over 2 graphs behind a readout that pools: it reads one pass"),
        ({"act": "gelu"}, {}, "by the units that each leaves dark"),
        ({"readout_widths": ()}, {}, "a readout without a hidden layer"),
        ({"readout": "node_mlp", "readout_widths": ()}, {}, "a readout without a hidden layer"),
        ({"pooling": "mean,sum"}, {}, "it needs one pooling"),
    ],
)
def test_readouts_are_refused_that_show_no_graphs_of_single_steps(
    fields: dict[str, Any], training: dict[str, Any], words: str, lab: Any
) -> None:
    with pytest.raises(ValueError, match=words):
        attacked(lab, returned_pooled(lab, graphs(lab), fields, **training))


def test_a_frozen_first_map_of_the_readout_is_refused(lab: Any) -> None:
    model = lab.model().clone(frozen=("readout/mlp/linears_0",))
    local = LocalTraining(RATE, 2, loader=1)
    seen = fedavg(model, lab.params(model), graphs(lab), lab.space, loss="bce", local=local)
    with pytest.raises(ValueError, match="first map is frozen"):
        attacked(lab, seen)
