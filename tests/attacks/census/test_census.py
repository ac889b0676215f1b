"""The census against closed forms and brute force: contributions add up to gradients, assembly finds every graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import combinations, permutations
from typing import Any

import jax
import numpy as np
import pytest
from models import flat, some_params

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census import attempted, receptive_field
from jgleak.attacks.census.arithmetic import Exact
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph, _counts
from jgleak.attacks.census.candidates import CensusCandidates, Levels, _screens
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.equations import equations
from jgleak.attacks.census.growth import Assembly
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.solve import solve
from jgleak.attacks.census.system import Census, Equations, Rules, Solution
from jgleak.attacks.registry import get_attack
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.datasets import load
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.gnn import (
    CONVOLUTIONS,
    GNN,
    MLP,
    AddedRow,
    BatchNorm,
    GATConv,
    GCNConv,
    GINConv,
    Layer,
    LayerNorm,
    LEConv,
    LinearEncoder,
    LinearResidual,
    NodeMLP,
    Pooled,
    Readout,
    SAGEConv,
)
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER


def unfolded(graph: Graph, space: FeatureSpace, hops: int) -> tuple[Nodes, list[Blocks], np.ndarray]:
    """A graph's own feature vectors, blocks of every hop, and how often each top block occurs."""
    codes, entry = np.unique(graph.x, axis=0, return_inverse=True)
    entry = entry.ravel()
    degrees = np.array([graph.degree[np.flatnonzero(entry == t)[0]] for t in range(len(codes))])
    nodes = Nodes(codes, space.encode(codes), degrees)
    kinds, levels = np.arange(len(codes)), []
    counts = np.bincount(entry)
    for _ in range(hops):
        rows = [(int(entry[v]), tuple(sorted(int(entry[u]) for u in graph.neighbours[v]))) for v in range(graph.n)]
        blocks = sorted(set(rows))
        roots = np.array([root for root, _ in blocks])
        kinds = kinds[roots]
        zeros = np.zeros(len(blocks))
        states = zeros[:, None], np.zeros((len(blocks), 0))
        levels.append(Blocks(roots, kinds, tuple(around for _, around in blocks), *states, zeros, 0))
        entry = np.array([blocks.index(row) for row in rows])
        counts = np.bincount(entry)
    return nodes, levels, counts


TRAINING = BatchNorm(training=True)

COMPOSED: dict[str, tuple[tuple[Layer, ...], Readout, dict[str, Any]]] = {
    **{
        kind: ((Layer(conv(24)), Layer(conv(24), "identity")), NodeMLP(MLP((64, 16, 2))), {})
        for kind, conv in CONVOLUTIONS.items()
        if not conv(4).edge_classes  # tests/test_edge_classes.py
    },
    "encoder, layer norm": (
        (Layer(GCNConv(20), norm=LayerNorm()), Layer(GCNConv(24), "identity")),
        Pooled(),
        {"encoder": LinearEncoder(16)},
    ),
    "batch norm, residuals, cat": (
        (Layer(GINConv(20), norm=BatchNorm()), Layer(SAGEConv(20), residual=AddedRow())),
        NodeMLP(MLP((16, 2))),
        {"jump": "cat"},
    ),
    "wide GIN with norms inside": (
        (Layer(GINConv(20, widths=(24, 16), norm=BatchNorm())), Layer(GINConv(20, norm=LayerNorm(), ends_active=True))),
        Pooled(),
        {},
    ),
    "batch norm in training mode": (
        (Layer(GINConv(20), norm=TRAINING), Layer(GINConv(24), norm=TRAINING), Layer(GCNConv(16), norm=TRAINING)),
        Pooled(mlp=MLP((8, 2))),
        {},
    ),
    "batch norm in training mode, inside too, sums": (
        (Layer(GINConv(20, widths=(24, 16), norm=TRAINING), norm=TRAINING), Layer(SAGEConv(20), norm=BatchNorm())),
        Pooled("sum", MLP((16, 2))),
        {},
    ),
    "batch norm in training mode, all nodes' logits": (
        (Layer(GATConv(20), norm=TRAINING, residual=LinearResidual()), Layer(LEConv(20), norm=TRAINING)),
        NodeMLP(MLP((16, 2))),
        {"jump": "cat"},
    ),
    "batch norm in training mode, ends linear": (
        (Layer(GINConv(20), norm=TRAINING), Layer(GCNConv(20), "identity")),
        Pooled(),
        {},
    ),
    "batch norm in training mode, node labels": (
        (Layer(GINConv(20), norm=TRAINING), Layer(GCNConv(20))),
        NodeMLP(MLP((16, 2)), per_node=True),
        {},
    ),
    "mean and sum": ((Layer(GCNConv(20)), Layer(GCNConv(24))), Pooled("mean,sum", MLP((16, 2))), {}),
    "linear residual, max": (
        (Layer(GATConv(20), residual=LinearResidual()), Layer(GCNConv(20))),
        Pooled("sum", MLP((16, 2))),
        {"jump": "max"},
    ),
}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"conv": "gin", "bias": True, "epsilons": (0.3, -0.2)},
        {"conv": "gat", "residual": True, "act": "elu", "readout_act": "relu", "widths": (24, 12), "last_heads": 3},
        {"layers": 3},
        {"per_node": True},
        {"readout": "pooled", "readout_widths": (), "last_act": True},
        {"readout": "pooled", "readout_widths": (16,), "pooling": "sum", "last_act": True},
    ],
    ids=str,
)
def test_contributions_add_up_to_the_gradient(fields: dict[str, Any], lab: Any) -> None:
    _adds_up(lab.model(hidden=24, **fields), lab)


@pytest.mark.long
@pytest.mark.parametrize("name", COMPOSED)
def test_contributions_of_composed_models_add_up(name: str, lab: Any) -> None:
    """Every convolution; encoders, norms, residuals and jumping knowledge."""
    layers, readout, more = COMPOSED[name]
    _adds_up(GNN(lab.space.width, layers, readout, **more), lab)


@pytest.mark.parametrize("layers", [2, 3])
def test_contributions_of_a_node_without_neighbours_are_the_gradient(layers: int, lab: Any) -> None:
    _adds_up(lab.model(hidden=24, layers=layers, bias=True), lab, lab.graph([1], []))


def _adds_up(model: GNN, lab: Any, given: Graph | None = None) -> None:
    graph: Graph = lab.random(7, 3) if given is None else given
    if model.node_level:
        graph = Graph(graph.x, graph.edges, np.arange(7) % 2)
    observation = lab.observe(model, graph)
    nodes, hops, counts = unfolded(graph, lab.space, receptive_field.hops(model))
    problem, levels = (
        CensusProblem.of(observation, Knowledge(lab.space, n=graph.n)),
        Levels(nodes, tuple(hops), (), True),
    )
    system = equations(problem, levels, FOREVER)
    assert system is not None
    solution = solve(problem, levels, system, problem.rounds[0], FOREVER)
    wrong = dataclasses.replace(system, observed=system.observed[::-1].copy())
    assert solve(problem, levels, wrong, problem.rounds[0], FOREVER).null.shape[1] == 0, "nothing is said"
    rounding = 1e-3 if model.returns_statistics else 1e-4  # statistics are known to their last digit before the step
    assert solution.residual < rounding
    if not model.node_level:
        right = system.observed * (1 if model.readout.counts_nodes else graph.n)
        assert np.linalg.norm(system.matrix @ counts - right) < rounding * np.linalg.norm(right)
        found = list(problem.arithmetic.censuses(solution, [graph.n], FOREVER))
        assert any(census is not None and np.array_equal(census.counts, counts) for census in found)


def same_blocks(graph: Graph, space: FeatureSpace) -> Iterator[Graph]:
    """Brute force: every connected graph on the same nodes with the same 2-hop blocks, up to isomorphism."""
    _, levels, counts = unfolded(graph, space, 2)
    key = signature(graph, space)
    seen = set()
    pairs = list(combinations(range(graph.n), 2))
    for edges in combinations(pairs, len(graph.edges)):
        other = Graph(graph.x, np.array(edges, np.int64).reshape(-1, 2))
        if not np.array_equal(other.degree, graph.degree) or signature(other, space) != key:
            continue
        form = other.canonical_form()
        if form not in seen and _connected(other):
            seen.add(form)
            yield other


def signature(graph: Graph, space: FeatureSpace) -> list[Any]:
    rows = [tuple(r) for r in graph.x.tolist()]
    first = [(rows[v], tuple(sorted(rows[u] for u in graph.neighbours[v]))) for v in range(graph.n)]
    return sorted((first[v], tuple(sorted(first[u] for u in graph.neighbours[v]))) for v in range(graph.n))


def _connected(graph: Graph) -> bool:
    reached, stack = {0}, [0]
    while stack:
        for u in graph.neighbours[stack.pop()]:
            if u not in reached:
                reached.add(u)
                stack.append(u)
    return len(reached) == graph.n


def assembled(graph: Graph, space: FeatureSpace) -> set[tuple[bytes, bytes]]:
    nodes, levels, counts = unfolded(graph, space, 2)
    assembly = Assembly(levels[-1], counts, clock=FOREVER, most=10**6)
    made = [
        Graph(nodes.codes[levels[-1].kinds[list(blocks)]], np.array(edges, np.int64).reshape(-1, 2))
        for blocks, edges, _ in assembly.graphs()
    ]
    forms = {g.canonical_form() for g in made}
    assert len(forms) == len(made) and assembly.exhausted
    return forms


@pytest.mark.parametrize("seed", range(12))
def test_assembly_is_brute_force(seed: int, lab: Any) -> None:
    graph = lab.random(5 + seed % 2, seed, extra=seed % 3)
    assert assembled(graph, lab.space) == {g.canonical_form() for g in same_blocks(graph, lab.space)}


def test_the_hexagon_is_found_and_two_triangles_are_not_connected(lab: Any) -> None:
    hexagon = lab.ring([0, 1, 2, 0, 1, 2])
    assert assembled(hexagon, lab.space) == {hexagon.canonical_form()}


def test_a_long_ring_of_two_colours_has_one_graph(lab: Any) -> None:
    ring = lab.ring([0, 1] * 6)
    assert assembled(ring, lab.space) == {ring.canonical_form()}


def test_a_single_node(lab: Any) -> None:
    single = lab.graph([1], [])
    assert assembled(single, lab.space) == {single.canonical_form()}


class Cut(Exact):
    """Ends the search for one number of nodes early, and finds a census twice for the next."""

    def censuses(self, solution: Solution, sizes: Iterable[int], clock: Clock) -> Iterator[Census | None]:
        yield None
        counts = np.ones(solution.columns.size, np.int64)
        yield from [Census(counts, counts.size, 0.0)] * 2


def test_a_census_that_comes_after_a_search_was_cut_is_counted_once(lab: Any) -> None:
    model, truth = lab.model(), lab.path([0, 1, 2])
    problem = CensusProblem.of(Observation(model, lab.params(model), lab.params(model), "bce"), Knowledge(lab.space))
    problem = dataclasses.replace(problem, arithmetic=Cut(problem.settings))
    nodes, hops, _ = unfolded(truth, lab.space, 2)
    columns, shares = np.array([0, 0, 2]), np.full(3, 1 / 3)  # two labels of a node with the first block
    system, rules = Equations(np.eye(3), shares, columns), Rules.of(hops[-1], columns)
    solution = Solution(system, rules, False, 0.0, 1.0, np.arange(3), np.eye(3), shares, shares, np.eye(3))
    cut, counts = _counts(problem, Levels(nodes, tuple(hops), (), complete=True), solution, range(3, 4), FOREVER)
    assert cut is None and counts is not None
    np.testing.assert_array_equal(counts, [2, 0, 1])


@pytest.mark.parametrize("conv", ["gcn", "gin"])
def test_the_truth_is_in_the_set_and_certified(conv: str, lab: Any) -> None:
    model = lab.model(conv=conv)
    for seed in range(3):
        graph = lab.random(8, seed)
        observation = lab.observe(model, graph)
        found = CENSUS(observation, Knowledge(lab.space, n=8), key=jax.random.key(0), budget=Budget(time_limit=30))
        assert found.certificate is not None
        assert any(g.isomorphic(graph) for g in found.graphs)
        assert found.certificate.size == len(found.graphs) and found.certificate.n_known
        if found.certificate.status == "unique":
            assert found.best is not None and found.best.isomorphic(graph)


def test_relabelling_the_client_changes_nothing(lab: Any) -> None:
    graph = lab.random(8, 4)
    order = np.random.default_rng(0).permutation(8)
    model, known = lab.model(), Knowledge(lab.space, n=8)
    sets = [
        CENSUS(lab.observe(model, g), known, key=jax.random.key(0), budget=Budget(time_limit=30)).graphs
        for g in (graph, graph.permute(order))
    ]
    assert {g.canonical_form() for g in sets[0]} == {g.canonical_form() for g in sets[1]}


def test_canonical_forms_tell_isomorphism(lab: Any) -> None:
    graph = lab.graph([0, 1, 0, 1], [(0, 1), (1, 2), (2, 3)])
    other = lab.graph([0, 0, 1, 1], [(0, 1), (1, 2), (2, 3)])
    for order in permutations(range(4)):
        assert graph.permute(np.array(order)).canonical_form() == graph.canonical_form()
    assert other.canonical_form() != graph.canonical_form()
    for kind in (np.int32, np.float32):
        assert dataclasses.replace(graph, x=graph.x.astype(kind)).canonical_form() == graph.canonical_form()
    zeros = [Graph(np.array([[z], [1.0]]), np.array([(0, 1)])).canonical_form() for z in (0.0, -0.0)]
    assert zeros[0] == zeros[1]


def test_one_layer(lab: Any) -> None:
    """Blocks of one hop are the last, and the readout that sees the input checks them."""
    for seed in range(3):
        graph = lab.random(6, seed, extra=0)
        found = CENSUS(
            lab.observe(lab.model(layers=1), graph), Knowledge(lab.space, n=6), key=jax.random.key(0),
            budget=Budget(time_limit=60),
        )  # fmt: skip
        assert found.certificate is not None and graph.canonical_form() in {g.canonical_form() for g in found.graphs}


@pytest.mark.parametrize("n", [None, 1])
def test_a_single_node_that_does_not_state_its_degree(n: int | None, lab: Any) -> None:
    """An edge between two nodes alike has the gradient of one such node: whoever lists the edge must list the node."""
    space = FeatureSpace((onehot("colour", range(4)),))
    node, model = Graph(np.array([[2]], np.int32), np.zeros((0, 2), np.int64), 1), flat(in_features=4, hidden=64)
    observation = fedsgd(model, lab.params(model), [node], space, loss="bce")
    found = CENSUS(observation, Knowledge(space, n=n, max_n=2), key=jax.random.key(0), budget=Budget(time_limit=60))
    assert [graph.n for graph in found.graphs] == ([1, 2] if n is None else [1])
    assert found.certificate is not None and found.certificate.status == ("k_graphs" if n is None else "unique")


def test_what_a_search_under_weaker_conditions_finds_is_kept(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it does not end: a second graph of this gradient refutes the conditions under which one was unique."""
    truth, other = lab.path([0, 1, 2]), lab.path([0, 2, 1])
    observation = lab.observe(lab.model(), truth)
    one, two = (ExplainingGraph(graph, 1e-7, graph.canonical_form()) for graph in (truth, other))
    sets = [AnonymitySet((one,)), AnonymitySet((two, one), exhausted=False)]
    monkeypatch.setattr(attempted, "assemble", lambda *given: sets.pop(0))
    found = CENSUS(observation, Knowledge(lab.space, n=3), key=jax.random.key(0), budget=Budget(time_limit=60))
    assert {g.canonical_form() for g in found.graphs} == {truth.canonical_form(), other.canonical_form()}
    assert found.certificate is not None and found.certificate.status == "at_least_k"


def test_known_edges_are_refused_by_attacks_that_would_not_read_them(lab: Any) -> None:
    """They would certify a graph as the only one that has other edges than those."""
    path = lab.path([0, 1, 2])
    observation = lab.observe(lab.model(readout="node_mlp"), path)
    for attack in (CENSUS, get_attack("grain")):
        said = attack.refusal(observation, Knowledge(lab.space, adjacency=path.adjacency))
        assert said is not None and "does not read known ones" in said
        assert attack.refusal(observation, Knowledge(lab.space, n=3)) is None


def test_a_prior_of_other_features_is_refused_before_the_search(lab: Any) -> None:
    observation = lab.observe(lab.model(), lab.path([0, 1]))
    assert "'molecule' needs the features" in str(CENSUS.refusal(observation, Knowledge(lab.space, prior="molecule")))
    assert CENSUS.refusal(observation, Knowledge(lab.space)) is None


@pytest.mark.parametrize(
    ("layer", "besides"),
    [
        (Layer(GCNConv(4)), set()),
        (Layer(GCNConv(4), norm=BatchNorm()), set()),
        (Layer(GCNConv(4), norm=LayerNorm()), {"aggregate"}),
        (Layer(GINConv(4), norm=LayerNorm()), set()),
    ],
    ids=["columns alone", "columns alone behind a norm", "whole rows", "columns of hidden rows"],
)
def test_mixed_rows_are_demanded_besides_where_others_have_no_columns_alone(layer: Layer, besides: set[str]) -> None:
    assert _screens(layer, {"node", "hidden"}) == besides
    assert _screens(layer, set()) == set(), "without a demand there is nothing to screen for"


def test_a_word_filter_that_was_cut_leaves_no_complete_levels(lab: Any) -> None:
    observation, knowledge = lab.observe(lab.model(), lab.path([0, 1, 2])), Knowledge(lab.space, n=3)
    candidates = CensusCandidates(CensusProblem.of(observation, knowledge), FOREVER, Budget(time_limit=60))
    assert next(candidates.attempts(FOREVER)).complete
    candidates.start = dataclasses.replace(candidates.start, complete=False)
    assert not next(candidates.attempts(FOREVER)).complete


@pytest.mark.parametrize("name", ["glycine", "phenol"])
@pytest.mark.long
def test_a_pooled_gin_is_found_without_the_checks_that_dependent_upstream_rows_spoil(name: str) -> None:
    """Pooling gives every node the same upstream row: the spans of own rows and of the last hop lack dimensions."""
    data = load("embedded")
    graph = next(g for g in data.graphs if g.name.startswith(name))
    model = GNN(data.space.width, tuple(Layer(GINConv(48, bias=True)) for _ in range(3)), Pooled())
    observation = fedsgd(model, some_params(model), [graph], data.space, loss="ce")
    knowledge = Knowledge(data.space, n=graph.n)
    found = CENSUS(observation, knowledge, key=jax.random.key(0), budget=Budget(time_limit=30))
    assert any(one.isomorphic(graph) for one in found.graphs)
