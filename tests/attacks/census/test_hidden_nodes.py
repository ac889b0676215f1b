"""Feature vectors to begin with where a singular adjacency hides the nodes' rows."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from models import some_params

from jgleak import Budget, Knowledge, get_attack
from jgleak.attacks.attack import Clock
from jgleak.attacks.census import hidden_nodes
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.checks import HIDDEN
from jgleak.attacks.census.hidden_nodes import OCCURRING, PARALLEL, hidden, lines
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.row_rank import shown_rank, spanning, unspanned
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.starts import Start
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Silent
from jgleak.attacks.facts.feature_values import DISPROPORTIONATE
from jgleak.attacks.facts.node_kinds import vectors
from jgleak.attacks.span.hops import one_hop_count
from jgleak.attacks.span.levels import input_subspace
from jgleak.attacks.span.margin import RoundingMargin
from jgleak.attacks.span.subspace import Subspace
from jgleak.datasets import load
from jgleak.datasets.molecules import molecule_graph
from jgleak.features import FeatureSpace, binary, pyg_atoms
from jgleak.federated import Observation, fedsgd
from jgleak.gnn import GNN, MLP, BatchNorm, GCNConv, GINConv, Layer, Pooled, standard
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER
from tests.library_atoms import described

DATA = load("embedded")
RAW = dataclasses.replace(DATA.space, mean=None, std=None)
MODEL = GNN(DATA.space.width, tuple(Layer(GCNConv(64, bias=True), "relu") for _ in range(2)), Pooled(mlp=MLP((16, 2))))
PARAMS = some_params(MODEL)

TREES = ("CC(N)C(=O)O", "CC(O)C(=O)O", "CC(C)C(=O)O", "CC(O)C(C)=O")
"""X2A-BX2: the propagation matrix of a GIN or a GCN is singular."""

LIBRARY = pyg_atoms()
"""Features that state no degree."""

GIN = standard(LIBRARY.width, "gin", Pooled(mlp=MLP((16, 2))), hidden=32, last_act=True, bias=True)
WEIGHTS = some_params(GIN)


BITS = FeatureSpace(tuple(binary(name) for name in "abcdef"))
"""Bits alone: a node may have none of them."""


def seen(smiles: str, space: FeatureSpace = DATA.space) -> tuple[Graph, Observation]:
    """A molecule of six atoms, X2A-BX2, and its gradient."""
    graph = dataclasses.replace(molecule_graph(smiles), y=1)
    return graph, fedsgd(MODEL, PARAMS, [graph], space, loss="ce")


@pytest.mark.parametrize(
    ("smiles", "space"), [("CC(=O)C(C)O", DATA.space), ("CC(=O)C(C)O", RAW), ("NC(=O)C(Cl)Cl", RAW)]
)
def test_a_tree_whose_nodes_are_hidden_is_found(smiles: str, space: FeatureSpace) -> None:
    graph, observation = seen(smiles, space)
    knowledge = Knowledge(space, prior="none")
    span = input_subspace(observation, knowledge)
    rows = knowledge.space.encode(graph.x).astype(float)
    assert not np.any(span.distances(rows) <= span.tolerance), "no node is in the span"
    answer = get_attack("census")(observation, knowledge, key=jax.random.key(1), budget=Budget(time_limit=60))
    certificate = answer.certificate
    assert any(one.isomorphic(graph) for one in answer.graphs)
    assert certificate is not None and OCCURRING in certificate.conditions
    assert (certificate.status == "unique") == (len(answer.graphs) == 1)


def of_one_direction() -> tuple[Graph, Observation]:
    """2,3-dimethylbutane behind a GIN: the mixed rows of both kinds of atoms are multiples of one row."""
    gin = standard(DATA.space.width, "gin", Pooled(mlp=MLP((16, 2))), hidden=32, last_act=True, bias=True)
    graph = dataclasses.replace(molecule_graph("CC(C)C(C)C"), y=1)
    return graph, fedsgd(gin, some_params(gin), [graph], DATA.space, loss="ce")


def test_values_of_mixed_rows_that_are_multiples_of_one_row_are_searched_under_a_condition() -> None:
    graph, observation = of_one_direction()
    span = input_subspace(observation, Knowledge(DATA.space))
    assert span.rank == 1 and not np.any(span.distances(DATA.space.encode(graph.x).astype(float)) <= span.tolerance)
    evidence = Evidence(observation, DATA.space)
    with pytest.raises(Silent, match="multiples of one"):
        vectors(evidence)
    (start,) = hidden(CensusProblem.of(observation, Knowledge(DATA.space)), FOREVER)
    assert start.complete and start.conditions == (OCCURRING, DISPROPORTIONATE)
    np.testing.assert_array_equal(np.unique(start.nodes.codes, axis=0), vectors(evidence, of_one_direction=True))
    free = [g for g, feature in enumerate(DATA.space.features) if feature.determined_by is None]
    assert [np.unique(start.nodes.codes[:, g]).tolist() for g in free] == [
        np.unique(graph.x[:, g]).tolist() for g in free
    ]


@pytest.mark.long
def test_a_tree_whose_mixed_rows_are_multiples_of_one_row_is_found() -> None:
    graph, observation = of_one_direction()
    knowledge, limit = Knowledge(DATA.space, prior="none"), Budget(time_limit=60)
    answer = get_attack("census")(observation, knowledge, key=jax.random.key(1), budget=limit)
    assert any(one.isomorphic(graph) for one in answer.graphs)
    assert answer.certificate is not None and DISPROPORTIONATE in answer.certificate.conditions


@pytest.mark.long
@pytest.mark.parametrize("n", [None, 6], ids=["statistics give n", "n known"])
def test_a_tree_hidden_behind_batch_norm_in_training_mode_is_found(n: int | None) -> None:
    """Before a norm in training mode the derivatives add up to zero, which mixed rows of different sizes survive."""
    layers = tuple(Layer(GINConv(32, bias=True), norm=BatchNorm(training=True)) for _ in range(2))
    model = GNN(DATA.space.width, layers, Pooled(mlp=MLP((16, 2))))
    graph = dataclasses.replace(molecule_graph("CC(C)C(C)C"), y=1)
    observation = fedsgd(model, some_params(model), [graph], DATA.space, loss="ce")
    knowledge, limit = Knowledge(DATA.space, n=n, prior="none"), Budget(time_limit=60)
    answer = get_attack("census")(observation, knowledge, key=jax.random.key(1), budget=limit)
    assert any(one.isomorphic(graph) for one in answer.graphs)
    assert answer.certificate is not None and OCCURRING in answer.certificate.conditions
    told = [condition for condition in answer.certificate.conditions if condition.startswith("the graph has 6 nodes")]
    assert [condition.endswith("have the returned statistics") for condition in told] == ([] if n else [True])


def test_every_vector_of_values_that_occur_is_there_and_no_other() -> None:
    graph, observation = seen("CC(=O)C(C)O", RAW)
    (start,) = hidden(CensusProblem.of(observation, Knowledge(RAW)), FOREVER)
    assert start.complete and start.conditions == (OCCURRING,)
    free = [g for g, feature in enumerate(RAW.features) if feature.determined_by is None]
    values = [set(graph.x[:, g].tolist()) for g in free]
    found = {tuple(row) for row in start.nodes.codes[:, free].tolist()}
    assert len(found) == np.prod([len(one) for one in values])
    assert all(code in one for row in found for code, one in zip(row, values, strict=True))
    assert {tuple(row) for row in graph.x[:, free].tolist()} <= found


def test_all_vectors_are_tried_at_once_where_their_blocks_are_as_few_as_may_be() -> None:
    """With as many neighbours as options say, where no feature states them."""
    _, observation = behind_gin(TREES[0])

    def starts(**limits: int) -> tuple[Start, ...]:
        span = dataclasses.replace(DEFAULTS.limits.span, unknown_degree=2, **limits)
        settings = dataclasses.replace(DEFAULTS, limits=dataclasses.replace(DEFAULTS.limits, span=span))
        return hidden(CensusProblem.of(observation, Knowledge(LIBRARY), settings), FOREVER)

    (whole,) = starts(whole_candidates=10**9)
    number = one_hop_count(whole.nodes)
    assert whole.conditions == (OCCURRING,) and whole.nodes.degrees.max() == 2
    assert [start.conditions for start in starts(whole_candidates=number)] == [(OCCURRING,)]
    assert [start.conditions for start in starts(whole_candidates=number - 1)] == [(OCCURRING, PARALLEL)]


def test_nothing_is_hidden_from_who_knows_the_rows_or_sees_noise() -> None:
    graph, observation = seen("CC(=O)C(C)O", RAW)
    for knows in (Knowledge(RAW, n=graph.n, features=graph.x), Knowledge(RAW, noise=1e-6)):
        assert hidden(CensusProblem.of(observation, knows), FOREVER) == ()


def behind_gin(smiles: str) -> tuple[Graph, Observation]:
    """A molecule as PyTorch Geometric describes it, and its gradient."""
    graph = dataclasses.replace(described(smiles, LIBRARY), y=1)
    return graph, fedsgd(GIN, WEIGHTS, [graph], LIBRARY, loss="ce")


@pytest.mark.parametrize("smiles", TREES)
def test_rows_outside_the_span_lie_on_one_line(smiles: str) -> None:
    """Of all vectors of the values that occur few lie on it, and it is the only one."""
    graph, observation = behind_gin(smiles)
    problem = CensusProblem.of(observation, Knowledge(LIBRARY))
    (start,) = hidden(problem, FOREVER)
    rows = {tuple(row) for row in graph.x.tolist()}
    found = {tuple(row) for row in start.nodes.codes.tolist()}
    assert rows <= found and len(found) <= 2 * len(rows)
    assert start.complete and start.nodes.complete and start.conditions == (OCCURRING, PARALLEL)
    assert start.attempts is HIDDEN, "blocks are checked by mixed rows"
    encoded = LIBRARY.encode(graph.x)
    assert shown_rank(problem, start.nodes) == np.linalg.matrix_rank(encoded)
    mixed = (graph.adjacency + np.eye(graph.n)) @ encoded
    assert np.linalg.matrix_rank(mixed) == np.linalg.matrix_rank(encoded) - 1


@pytest.mark.long
def test_trees_are_found_behind_a_gin_though_no_feature_states_a_degree() -> None:
    for smiles in TREES:
        graph, observation = behind_gin(smiles)
        knowledge, limit = Knowledge(LIBRARY), Budget(time_limit=60)
        answer = get_attack("census")(observation, knowledge, key=jax.random.key(1), budget=limit)
        assert [one.isomorphic(graph) for one in answer.graphs] == [True]
        assert answer.certificate is not None
        assert {OCCURRING, PARALLEL} < set(answer.certificate.conditions)
        assert any(condition.startswith("no node has more than 4") for condition in answer.certificate.conditions)


def test_a_line_that_lacks_a_value_or_a_dimension_cannot_be_all(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, observation = behind_gin(TREES[0])
    span = input_subspace(observation, Knowledge(LIBRARY))
    codes = vectors(Evidence(observation, LIBRARY))
    monkeypatch.setattr(hidden_nodes, "COMPARED", codes.shape[0] + 1)
    (whole,) = lines(codes, LIBRARY, span, FOREVER)
    kept = ~whole | (codes[:, 0] != 7)  # nitrogen: other vectors still have it
    assert np.any(codes[kept, 0] == 7)
    assert lines(codes[kept], LIBRARY, span, FOREVER) == []
    for column, value in ((1, 1), (0, 0)):
        other = codes[:1].copy()
        other[0, column] = value
        assert value not in codes[:, column]
        more = np.concatenate([codes, other])
        assert lines(more, LIBRARY, span, FOREVER) == [], "a value that no vector of the line has"
    repeated = np.repeat(graph.x[:1], 3, axis=0)
    assert lines(repeated, LIBRARY, span, FOREVER) == []
    monkeypatch.setattr(hidden_nodes, "COMPARED", codes.shape[0])
    assert len(lines(codes, LIBRARY, span, FOREVER)) == 1
    monkeypatch.setattr(hidden_nodes, "COMPARED", codes.shape[0] - 1)
    assert lines(codes, LIBRARY, span, FOREVER) == [], "too many to compare"
    assert lines(codes[:1], LIBRARY, Subspace.of_gradient(np.zeros((LIBRARY.width, 2))), FOREVER) == [], "no span"


def test_small_graphs_are_taken_from_hidden_nodes_where_those_that_pass_cannot_be_all() -> None:
    _, observation = behind_gin(TREES[0])
    problem = CensusProblem.of(observation, Knowledge(LIBRARY))
    candidates = CensusCandidates(problem, Budget(time_limit=60).start(), Budget(time_limit=60))
    assert not spanning(problem, candidates.start.nodes)
    assert [start is candidates.hidden[0] for start in candidates.enumerable] == [True]
    _, observation = behind_gin("CCO")
    problem = CensusProblem.of(observation, Knowledge(LIBRARY))
    candidates = CensusCandidates(problem, Budget(time_limit=60).start(), Budget(time_limit=60))
    assert spanning(problem, candidates.start.nodes)
    assert [start is candidates.start for start in candidates.enumerable] == [True]


def test_rows_that_show_as_sums_alone_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows c, b - c, a + c, .. of a tree none is a node's: also where time ended the search."""
    graph, observation = seen("CC(=O)C(C)O", RAW)
    knowledge = Knowledge(RAW)
    problem, limit = CensusProblem.of(observation, knowledge), Budget(time_limit=60)
    passing = CensusCandidates(problem, limit.start(), limit).start.nodes
    rank = np.linalg.matrix_rank((graph.adjacency + np.eye(graph.n)) @ RAW.encode(graph.x))
    said = unspanned(problem, passing)
    assert said is not None and f"convolution 1 has {rank} dimensions" in said and "singular adjacency" in said
    assert "span 0 of them: the features are not as the model was shown them" in said, "which looks the same"
    assert said.index("features are not") < said.index("; or rows of the other nodes") and "did not end" not in said
    cut = unspanned(problem, dataclasses.replace(passing, complete=False))
    assert cut is not None and "span 0 of them: the search for them did not end" in cut, "the likeliest cause first"
    noisy = CensusProblem.of(observation, Knowledge(RAW, noise=1e-6))
    assert unspanned(noisy, passing) is None, "noise may hide them"
    whole = dataclasses.replace(passing, codes=graph.x, rows=RAW.encode(graph.x), degrees=graph.degree)
    assert unspanned(problem, whole) is None
    ended = list[bool]()
    monkeypatch.setattr(CensusCandidates, "attempts", lambda *_: ended.append(True) or ())
    monkeypatch.setattr(Clock, "left", property(lambda _: 0.0 if ended else 1e6))
    found = get_attack("census")(observation, knowledge, key=jax.random.key(1), budget=limit)
    assert found.stop == "time" and found.info["reason"] == said


EVERYWHERE = np.array(
    [
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [1, 0, 0, 0, 1, 0],
        [1, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, 0, 0],
    ]
)
"""A bit that all nodes have, in each node of X2A-BX2."""

BLANK = np.array(
    [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0],
    ]
)
"""The last node has no bit."""


@pytest.mark.parametrize(
    ("x", "hidden_along"),
    [(EVERYWHERE, [1, 1, -1, -1, 1, 1]), (BLANK, [1, 1, -1, -1, 1, 0])],
    ids=["everywhere", "blank"],
)
def test_every_node_is_on_a_line_whatever_its_bits(x: np.ndarray, hidden_along: list[int]) -> None:
    """A matrix that is singular along one combination of nodes mixes the rows; no gradient shows that a bit is 0."""
    along = np.array(hidden_along) / np.linalg.norm(hidden_along)
    mixed = x.T @ (np.eye(len(x)) - np.outer(along, along))
    basis, values, _ = np.linalg.svd(mixed)
    span = Subspace(basis[:, values > 1e-9], np.ones(BITS.width), RoundingMargin(np.inf))
    assert span.rank == np.linalg.matrix_rank(x) - 1
    codes = np.array(list(itertools.product(*((0, 1) if bit.any() else (0,) for bit in x.T))), np.int32)
    groups = [{tuple(row) for row in codes[group].tolist()} for group in lines(codes, BITS, span, FOREVER)]
    assert any({tuple(row) for row in x.tolist()} <= group for group in groups)
    other = np.eye(6, dtype=np.int32)[np.flatnonzero(~x.any(axis=0))]  # a bit of none of these nodes, that occurs
    beside = np.r_[codes, other]
    found = [{tuple(row) for row in beside[group].tolist()} for group in lines(beside, BITS, span, FOREVER)]
    assert any({tuple(row) for row in x.tolist()} <= group for group in found) == (not other.size)


def test_the_line_of_fewest_vectors_comes_first() -> None:
    """Of two pairs of bits the span has the sums: either pair may be a line, beside the sum of the other."""
    codes = np.zeros((7, 6), np.int32)
    for row, bits in zip(codes, ([2], [3], [2, 3], [2, 4, 5], [4, 5], [4], [5]), strict=True):
        row[bits] = 1
    basis = np.zeros((6, 2))
    basis[2:4, 0] = basis[4:, 1] = np.sqrt(0.5)
    span = Subspace(basis, np.ones(6), RoundingMargin(np.inf))
    found = lines(codes, BITS, span, FOREVER)
    assert [np.flatnonzero(group).tolist() for group in found] == [[2, 4, 5, 6], [0, 1, 2, 3, 4]]


def test_no_line_of_several_is_taken_for_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    _, observation = behind_gin(TREES[0])
    problem = CensusProblem.of(observation, Knowledge(LIBRARY))
    codes = vectors(Evidence(observation, LIBRARY))
    (line,) = lines(codes, LIBRARY, input_subspace(observation, Knowledge(LIBRARY)), FOREVER)
    monkeypatch.setattr(hidden_nodes, "lines", lambda *_: [line, ~line])
    starts = hidden(problem, FOREVER)
    assert len(starts) == 2 and not any(start.complete or start.nodes.complete for start in starts)
    monkeypatch.setattr(hidden_nodes, "lines", lambda *_: [])
    assert hidden(problem, FOREVER) == ()


def test_lines_end_with_their_time_and_are_not_those_of_a_pruned_gradient() -> None:
    _, observation = behind_gin(TREES[0])
    codes = vectors(Evidence(observation, LIBRARY))
    assert lines(codes, LIBRARY, input_subspace(observation, Knowledge(LIBRARY)), Budget(time_limit=1e-9).start()) == []
    pruned = CensusProblem.of(dataclasses.replace(observation, pruned=True), Knowledge(LIBRARY))
    assert hidden(pruned, FOREVER) == ()
