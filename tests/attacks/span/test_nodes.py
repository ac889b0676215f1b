"""The node filter against brute force: every feature vector of small schemas, one by one."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import some_params

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span import levels
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.leak_points import LeakPoint
from jgleak.attacks.span.levels import (
    _blank,
    block_checks,
    find_nodes,
    input_site,
    input_subspace,
    most_rows,
    with_degrees,
)
from jgleak.attacks.span.margin import NoiseMargin, RoundingMargin
from jgleak.attacks.span.nodes import TooManyCandidates, _deviations, _FeatureGroup, _value, passing_nodes
from jgleak.attacks.span.settings import SpanLimits, SpanTolerances
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import Feature, FeatureSpace, binary, onehot
from jgleak.federated import Knowledge, fedsgd
from jgleak.gnn import GINEConv, Layer
from jgleak.gnn.gine import one_hot_rows
from jgleak.graph import Graph
from tests.clocks import HELD


@st.composite
def spaces(draw: st.DrawFn) -> FeatureSpace:
    """One-hot and binary features, perhaps a determined one, perhaps normalised (some values never seen)."""
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=4))
    features: list[Feature] = [onehot(f"f{g}", range(size)) for g, size in enumerate(sizes)]
    if draw(st.booleans()):
        features.insert(draw(st.integers(0, len(features))), binary("flag"))
    if draw(st.booleans()):
        mapping = tuple(draw(st.lists(st.integers(0, 2), min_size=sizes[0], max_size=sizes[0])))
        features.append(Feature("led", ("a", "b", "c"), "onehot", "f0", mapping))
    space = FeatureSpace(tuple(features))
    if draw(st.booleans()):
        seen = np.array(everything(space))
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        space = space.fit([seen[rng.choice(len(seen), min(len(seen), 12))]])
    return space


def everything(space: FeatureSpace) -> list[tuple[int, ...]]:
    """Every feature vector that the schema and its public statistics allow."""
    free = [g for g, f in enumerate(space.features) if f.determined_by is None]
    out = []
    for choice in product(*(space.possible(g).tolist() for g in free)):
        codes = dict(zip(free, choice, strict=True))
        for g, f in enumerate(space.features):
            if f.determined_by is not None:
                codes[g] = f.mapping[codes[space.index(f.determined_by)]]
        out.append(tuple(codes[g] for g in range(len(space.features))))
    return out


@settings(max_examples=120, deadline=None)
@given(spaces(), st.integers(1, 8), st.integers(0, 2**31))
def test_the_filter_is_brute_force(space: FeatureSpace, nodes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    every = np.array(everything(space))
    truth = every[rng.choice(len(every), nodes)]
    rows = space.encode(truth)
    assume(np.any(rows))
    subspace = Subspace.of_gradient(rows.T @ rng.normal(size=(nodes, 30)).astype(np.float32))
    assume(subspace.informative)
    found = passing_nodes(space, subspace)
    inside = every[subspace.distances(space.encode(every)) <= subspace.tolerance]
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, inside.tolist()))
    visible = truth[np.any(rows != 0, axis=1)]
    assert {*map(tuple, visible.tolist())} <= {*map(tuple, found.tolist())}


def test_a_span_that_says_nothing_is_refused() -> None:
    space = FeatureSpace((onehot("a", range(3)), onehot("b", range(2))))
    for gradient in (np.zeros((5, 4)), np.random.default_rng(0).normal(size=(5, 9))):
        with pytest.raises(TooManyCandidates, match="says nothing"):
            passing_nodes(space, Subspace.of_gradient(gradient))


def test_too_many_partial_vectors_are_refused() -> None:
    space = FeatureSpace(tuple(onehot(f"f{g}", range(4)) for g in range(6)))
    rng = np.random.default_rng(0)
    rows = space.encode(rng.integers(4, size=(18, 6)))
    with pytest.raises(TooManyCandidates, match="partial"):
        passing_nodes(
            space, Subspace.of_gradient(rows.T @ rng.normal(size=(18, 40))), limits=SpanLimits(partial_rows=20)
        )


def test_as_many_partial_vectors_are_checked_as_the_limit_says() -> None:
    """And as many may survive; a search ends with its clock, and not before."""
    space = FeatureSpace((onehot("a", range(4)),))
    span = Subspace.of_gradient(np.outer([0.0, 1.0, 0.0, 0.0], np.ones(5)))
    limits = SpanLimits(partial_checks=4, partial_rows=1)
    assert passing_nodes(space, span, clock=HELD, limits=limits).tolist() == [[1]]
    with pytest.raises(TooManyCandidates, match="time ran out with 1 partial"):
        passing_nodes(space, span, clock=Clock(0.0, 0.0))
    with pytest.raises(TooManyCandidates, match="4 partial feature vectors to check"):
        passing_nodes(space, span, limits=SpanLimits(partial_checks=3))
    bit = FeatureSpace((binary("a"), binary("b")))
    with pytest.raises(TooManyCandidates, match="2 partial feature vectors to check"):
        passing_nodes(bit, Subspace.of_gradient(np.outer([0.0, 1.0], np.ones(5))), limits=SpanLimits(partial_checks=1))


def test_the_feature_that_excludes_most_comes_first() -> None:
    """Beside one that may have all of its values, of three others only one value occurs."""
    space = FeatureSpace(tuple(onehot(f"f{g}", range(4)) for g in range(4)))
    truth = np.array([[value, 0, 1, 2] for value in range(4)])
    gradient = space.encode(truth).T @ np.random.default_rng(0).normal(size=(4, 30))
    found = passing_nodes(space, Subspace.of_gradient(gradient), limits=SpanLimits(partial_checks=4))
    assert sorted(found.tolist()) == truth.tolist()


def test_a_feature_that_excludes_nothing_comes_last() -> None:
    """Three bits have all of their values, and of another feature with four values one occurs."""
    space = FeatureSpace((binary("a"), binary("b"), binary("c"), onehot("f", range(4))))
    truth = np.array([[*bits, 2] for bits in product((0, 1), repeat=3)])
    gradient = space.encode(truth).T @ np.random.default_rng(0).normal(size=(8, 30))
    found = passing_nodes(space, Subspace.of_gradient(gradient), limits=SpanLimits(partial_checks=8))
    assert sorted(found.tolist()) == truth.tolist()


def test_the_unit_of_the_gradient_does_not_matter() -> None:
    """A part of a row may be off by a share of its own length."""
    space = FeatureSpace(tuple(onehot(f"f{g}", range(4)) for g in range(4)))
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=(5, 4))
    gradient = (space.encode(truth).T @ rng.normal(size=(5, 30))).astype(np.float32)
    found = [passing_nodes(space, Subspace.of_gradient(unit * gradient.astype(float))) for unit in (1e-9, 1.0, 1e9)]
    assert {*map(tuple, truth.tolist())} <= {*map(tuple, found[0].tolist())} and len(found[0]) < 4**4
    assert sorted(found[0].tolist()) == sorted(found[1].tolist()) == sorted(found[2].tolist())


def test_under_noise_all_relations_of_the_span_are_tested_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as its columns less its rank; no more of some columns than of all."""
    space = FeatureSpace((onehot("a", range(4)), onehot("b", range(3)), onehot("c", range(5))))
    rng = np.random.default_rng(0)
    truth = np.stack([rng.integers(k, size=4) for k in (4, 3, 5)], axis=1)
    span = Subspace.of_gradient(space.encode(truth).T @ rng.normal(size=(4, 30)), noise=1e-4)
    partial, numbers = NoiseMargin.partial, list[int]()

    def counted(margin: NoiseMargin, before: Any, residual: Any, relations: int, deviation: Any) -> Any:
        numbers.append(relations)
        return partial(margin, before, residual, relations, deviation)

    monkeypatch.setattr(NoiseMargin, "partial", counted)
    found = passing_nodes(space, span)
    assert {*map(tuple, truth.tolist())} <= {*map(tuple, found.tolist())}
    assert span.rank == 4 and numbers == sorted(numbers) and numbers[-1] == 12 - 4


def test_features_are_worth_the_relations_that_they_bring_for_their_number_of_values() -> None:
    """Four columns are picked. Of five features the first brings a relation for 2 values, the second two for 16, the
    third one for 8, in a column that is one of the picked ones; the others bring none."""
    rows = [0, 1, 2, 3, 4, 4, 5, 5, 5, 0, 6, 7]
    span = Subspace(np.eye(8)[rows], np.ones(12), RoundingMargin(np.inf))

    def feature(values: int, start: int, columns: int) -> _FeatureGroup:
        own = np.arange(start, start + columns)
        return _FeatureGroup(own, np.ones((values, columns)), np.zeros((values, 1), np.int32))

    features = [feature(*one) for one in ((2, 4, 2), (16, 6, 3), (8, 9, 1), (2, 10, 1), (4, 11, 1))]
    worth = [_value(one, [feature(4, 0, 4)], span) for one in features]
    assert worth == sorted(worth, reverse=True)
    assert _value(features[2], [], span) < _value(features[3], [], span), "it needs the picked one"


@pytest.mark.parametrize("known", [1, 2, 3])
def test_what_noise_does_to_a_part_is_bounded_by_the_worst_whole_row(known: int) -> None:
    """Along one direction, in which all values point the same way, the bound is reached."""
    rng, sizes = np.random.default_rng(0), (2, 4, 3)
    starts = np.cumsum([0, *sizes])
    columns = [np.arange(start, start + size) for start, size in zip(starts, sizes, strict=False)]
    groups = [_FeatureGroup(own, np.eye(own.size), np.zeros((own.size, 3), np.int32)) for own in columns]
    basis, tilt = rng.random((9, 1)), np.array([0.3])
    choices = np.array(list(product(*map(range, sizes[:known]))))
    found = _deviations(groups[:known], groups[known:], choices, basis, tilt)
    whole = [sum(basis[columns[k][value], 0] for k, value in enumerate(row)) for row in product(*map(range, sizes))]
    np.testing.assert_allclose(found, tilt[0] * np.reshape(whole, (len(choices), -1)).max(axis=1))


def test_without_any_gradient_nodes_are_those_whose_row_is_zero(lab: Any) -> None:
    """Where a schema has no such node, nothing is known; beside a gradient they are added to those that pass."""
    clock = Budget(time_limit=60).start()
    seen = lab.observe(lab.model(), lab.path([0, 1, 2]))
    silent = dataclasses.replace(seen, update=jax.tree.map(np.zeros_like, seen.update))
    with pytest.raises(TooManyCandidates, match="says nothing"):
        find_nodes(silent, Knowledge(lab.space), clock=clock)
    bits = FeatureSpace(tuple(binary(f"b{g}") for g in range(3)))
    graph = Graph(np.array([[1, 0, 1], [1, 0, 1], [0, 0, 0]]), np.array([(0, 1), (1, 2)]), 1)
    model = lab.model(in_features=3)
    seen = fedsgd(model, lab.params(model), [graph], bits, loss="bce")
    silent = dataclasses.replace(seen, update=jax.tree.map(np.zeros_like, seen.update))
    for one, wanted in ((seen, {*map(tuple, graph.x.tolist())}), (silent, {(0, 0, 0)})):
        found = find_nodes(one, Knowledge(bits, max_n=12), clock=clock)
        assert {*map(tuple, found.codes.tolist())} == wanted
        assert len(np.unique(np.c_[found.codes, found.degrees], axis=0)) == len(found.codes), "each once"
        assert found.complete is (one is seen), "rows of zeros, or no gradient at all"


def test_as_many_vectors_as_the_span_has_dimensions_all_occur(lab: Any) -> None:
    """So do those that are known; not where there are fewer, or nothing states a degree."""
    clock, graph = Budget(time_limit=60).start(), lab.path([0, 1, 2])
    seen = lab.observe(lab.model(), graph)
    found = find_nodes(seen, Knowledge(lab.space), clock=clock)
    assert {*map(tuple, found.codes.tolist())} == {*map(tuple, graph.x.tolist())}
    assert (found.certain, found.complete, found.classes) == (True, True, 1)
    square = find_nodes(lab.observe(lab.model(), lab.path([0, 1, 0, 1])), Knowledge(lab.space), clock=clock)
    assert square.codes.shape[0] == 4 and not square.certain, "any three of two colours and two degrees make the fourth"
    known = find_nodes(seen, Knowledge(lab.space, n=3, features=graph.x), clock=clock)
    assert known.certain and known.complete and known.codes.shape == (3, 3)
    few = with_degrees(seen, Knowledge(lab.space), graph.x, complete=False)
    assert not few.certain and not few.complete
    sure = with_degrees(seen, Knowledge(lab.space), graph.x, certain=True)
    assert sure.certain and sure.complete and sure.classes == 1
    bare = dataclasses.replace(lab.space, degree=None)
    free = with_degrees(seen, Knowledge(bare, n=9), graph.x, certain=True)
    assert not free.certain and sorted({*free.degrees.tolist()}) == [1, 2, 3, 4]
    assert 0 in with_degrees(seen, Knowledge(bare, n=1), graph.x).degrees, "a node alone has no neighbour"
    assert 0 not in with_degrees(seen, Knowledge(bare, n=2), graph.x).degrees, "each of two has the other"
    bonds = seen.model.clone(layers=(Layer(GINEConv(3, edge_rows=one_hot_rows(2))),))
    told = dataclasses.replace(seen, model=bonds, params=some_params(bonds), update=some_params(bonds))
    assert with_degrees(told, Knowledge(lab.space), graph.x).classes == 2
    apart = with_degrees(seen, Knowledge(bare, n=9, connected=False), graph.x)
    assert 0 in apart.degrees, "where graphs may fall apart a node may be alone"


def test_what_is_known_bounds_every_span(lab: Any) -> None:
    """The most nodes, the noise, and the tolerances; the checks are those that are named."""
    model, graph = lab.model(hidden=32), lab.random(8, 0)
    seen = lab.observe(model, graph)
    rank = input_subspace(seen, Knowledge(lab.space)).rank
    assert input_subspace(seen, Knowledge(lab.space, max_n=rank - 1)).rank < rank
    coarse = SpanTolerances(row_least=1e-3)

    def checks(knowledge: Knowledge, names: tuple[str, ...] = ("node",), **more: Any) -> list[SpanCheck]:
        return block_checks(seen, knowledge, 1, names, **more)

    [check] = checks(Knowledge(lab.space))
    assert [one.view for one in checks(Knowledge(lab.space), ("aggregate", "node"))] == ["state", "aggregate"]
    assert checks(Knowledge(lab.space), ()) == []
    assert all(one.subspace.rank < check.subspace.rank for one in checks(Knowledge(lab.space, max_n=4)))
    noise = 1e-3 * float(np.abs(seen.update["layers_1"]["conv"]["kernel"]).max())
    known = Knowledge(lab.space, noise=noise)
    for one in (*checks(known), SpanCheck.of(input_subspace(seen, known))):
        assert isinstance(one.subspace.margin, NoiseMargin) and one.subspace.margin.deviation == noise
    assert checks(Knowledge(lab.space), tolerances=coarse)[0].subspace.tolerance == 1e-3 > check.subspace.tolerance
    assert input_subspace(seen, Knowledge(lab.space), coarse).tolerance == 1e-3


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_input_rows_are_seen_where_most_dimensions_show(
    order: tuple[int, int], lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not where all of a space is filled, which says nothing."""
    seen, known, rng = lab.observe(lab.model(), lab.path([0, 1, 2])), Knowledge(lab.space), np.random.default_rng(0)
    for ranks, wanted in (((2, 4), 4), ((5, 8), 5)):
        gradients = [rng.normal(size=(8, rank)) @ rng.normal(size=(rank, 30)) for rank in ranks]
        sites = [LeakPoint("node", 0, "state", 0, one, "") for one in gradients]
        monkeypatch.setattr(levels, "leak_points", lambda *_, sites=sites: [sites[place] for place in order])
        site, span = input_site(seen, known), input_subspace(seen, known)
        assert site is sites[ranks.index(wanted)] and span.rank == wanted
    assert most_rows(dataclasses.replace(seen, batch_size=3), Knowledge(lab.space, max_n=4)) == 12
    assert most_rows(seen, known) is None


def test_the_search_of_nodes_keeps_to_its_limits_and_its_clock(lab: Any) -> None:
    """Of a schema without degrees so many are tried as the limits say."""
    seen, forever = lab.observe(lab.model(), lab.path([0, 1, 2])), Budget(time_limit=60).start()
    with pytest.raises(TooManyCandidates, match="to check"):
        find_nodes(seen, Knowledge(lab.space), clock=forever, limits=SpanLimits(partial_checks=2))
    with pytest.raises(TooManyCandidates):
        find_nodes(seen, Knowledge(lab.space), clock=Budget(time_limit=1e-9).start())
    bare = Knowledge(dataclasses.replace(lab.space, degree=None))
    assert find_nodes(seen, bare, clock=forever, limits=SpanLimits(unknown_degree=2)).degrees.max() == 2


def test_one_vector_at_most_has_a_row_of_zeros() -> None:
    """Of bits the one without any; of one-hot features, and of columns that are normalised, there is none."""
    bits = FeatureSpace(tuple(binary(f"b{g}") for g in range(3)))
    assert _blank(bits).tolist() == [[0, 0, 0]]
    assert _blank(FeatureSpace((*bits.features, onehot("kind", "ab")))).shape == (0, 4)
    assert _blank(bits.fit([np.array([[0, 0, 1], [1, 0, 1], [0, 1, 0]])])).shape == (0, 3)


@pytest.mark.parametrize("stated", [True, False])
def test_a_node_has_fewer_neighbours_than_there_are_nodes(stated: bool, lab: Any) -> None:
    """Of at most three nodes none has three neighbours; where nothing bounds them every degree is tried."""
    names = (onehot("kind", "ab"), onehot("degree", range(5))) if stated else (onehot("kind", "ab"),)
    space = FeatureSpace(names, degree="degree" if stated else None)
    codes = np.array(list(product(range(2), range(5))) if stated else [[0], [1]])
    model = lab.model()
    seen = fedsgd(model, lab.params(model), [lab.path([0, 1])], lab.space, loss="bce")
    for most, limit in ((3, 3), (1, 1), (None, 5)):
        found = with_degrees(seen, Knowledge(space, max_n=most), codes)
        assert sorted(zip(found.codes[:, 0].tolist(), found.degrees.tolist(), strict=True)) == list(
            product(range(2), range(limit))
        )
