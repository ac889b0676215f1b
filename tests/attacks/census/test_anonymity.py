"""The certificate's set against brute force: all small connected graphs, their whole gradients, and named pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
import pytest
from models import flat

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.distance import gradient_distances
from jgleak.datasets import embedded
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.gnn import GNN, Params
from jgleak.graph import Graph

from .brute import MATCH, Population, small_graphs

COLUMNS = 9
"""Encoded columns of every space here, so that all of them share one model and its compiled functions."""


def typed(kinds: int, seed: int | None = None) -> FeatureSpace:
    """A kind and the degree, one-hot; with a seed normalised by made-up public statistics."""
    space = FeatureSpace((onehot("kind", range(kinds)), onehot("degree", range(COLUMNS - kinds))), degree="degree")
    if seed is None:
        return space
    rng = np.random.default_rng(seed)
    return space.fit([np.c_[rng.integers(kinds, size=300), rng.integers(COLUMNS - kinds, size=300)]])


def weights(model: GNN, seed: int) -> Params:
    """Uniform weights of the usual size, without compiling an initialiser."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))

    def one(leaf: Any) -> np.ndarray:
        bound = np.sqrt(6.0 / sum(leaf.shape)) if len(leaf.shape) == 2 else 0.1
        return rng.uniform(-bound, bound, leaf.shape).astype(np.float32)

    return jax.tree.map(one, shapes)


def ring(kinds: str) -> Graph:
    """A cycle; every degree is 2."""
    n = len(kinds)
    edges = np.array([(i, (i + 1) % n) for i in range(n)])
    return Graph(np.array([("abc".index(kind), 2) for kind in kinds], np.int32), edges, 1)


def forms(graphs: Iterable[Graph]) -> set[tuple[bytes, bytes]]:
    """Graphs up to isomorphism."""
    return {graph.canonical_form() for graph in graphs}


def seen(model: GNN, params: Params, space: FeatureSpace, graph: Graph) -> Observation:
    """One client's round."""
    return fedsgd(model, params, [graph], space, loss="bce")


def census(
    model: GNN, params: Params, space: FeatureSpace, graph: Graph, knowledge: Knowledge | None = None
) -> Reconstruction:
    """What the attack makes of one client (``n`` known by default), in more time than a busy machine needs."""
    knowledge = knowledge or Knowledge(space, n=graph.n)
    return CENSUS(seen(model, params, space, graph), knowledge, key=jax.random.key(0), budget=Budget(time_limit=600))


@dataclasses.dataclass(frozen=True)
class Case:
    """One set of weights and the truths to try: ``shared`` of them must have another graph's gradient."""

    kinds: int
    n: int
    truths: int
    shared: int
    fitted: bool = False
    hidden: int = 64
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.n}-nodes-of-{self.kinds}-kinds-seed-{self.seed}"


CASES = (
    Case(kinds=3, n=2, truths=6, shared=0),
    Case(kinds=2, n=3, truths=10, shared=0),
    Case(kinds=3, n=3, truths=28, shared=0),
    Case(kinds=2, n=4, truths=50, shared=2),
    Case(kinds=3, n=4, truths=70, shared=6, seed=1),
    Case(kinds=2, n=5, truths=24, shared=6, fitted=True),
    Case(kinds=2, n=6, truths=16, shared=8),
)

QUICK = 3
"""Cases of a quick run."""

SWEEP = tuple(
    Case(kinds=kinds, n=n, truths=truths, shared=shared, fitted=seed % 2 == 0, hidden=hidden, seed=seed)
    for seed, hidden in enumerate((64, 128, 300), start=1)
    for kinds, n, truths, shared in ((2, 4, 50, 2), (3, 4, 80, 6), (2, 5, 70, 6), (3, 5, 70, 30), (2, 6, 70, 30))
)


def chosen(population: Population, case: Case, labels: np.ndarray, rng: np.random.Generator) -> list[int]:
    """Truths: up to half share another graph's gradient, up to a quarter have a singular adjacency, the rest random."""
    graphs = population.graphs
    order = rng.permutation(len(graphs)).tolist()
    shared = [set(population.shared(label)) for label in (0, 1)]
    alike = [i for i in order if i in shared[labels[i]]]
    flat = [i for i in order if abs(np.linalg.det(graphs[i].adjacency + np.eye(graphs[i].n))) < 1e-6]
    first = [*alike[: case.truths // 2], *flat[: case.truths // 4], *order]
    return list(dict.fromkeys(first))[: case.truths]


def disagreements(case: Case) -> list[str]:
    """Every truth of a case whose certificate lists other graphs than brute force, in words."""
    space = typed(case.kinds, case.seed if case.fitted else None)
    model = flat(in_features=space.width, hidden=case.hidden, readout_widths=(300, 64))
    params = weights(model, case.seed)
    population = Population(model, params, space, small_graphs(case.n, space))
    assert population.live > 0.8
    rng = np.random.default_rng(case.seed)
    labels = rng.integers(2, size=len(population.graphs))
    truths = chosen(population, case, labels, rng)
    out, shared = [], 0
    for place in truths:
        graph, label = population.graphs[place], int(labels[place])
        wanted = population.explaining(place, label)
        assert wanted.within < 1e-9 and wanted.beyond > 5 * MATCH  # the tolerance decides nothing
        shared += len(wanted.places) > 1
        found = census(model, params, space, dataclasses.replace(graph, y=label))
        status = found.certificate.status if found.certificate else found.stop
        names = {population.graphs[i].canonical_form(): i for i in wanted.places}
        listed = forms(found.graphs)
        right = status == ("unique" if len(names) == 1 else "k_graphs")
        if not right or listed != names.keys():
            missing = [described(population.graphs[i]) for form, i in names.items() if form not in listed]
            extra = [described(g) for g in found.graphs if g.canonical_form() not in names]
            out.append(f"{described(graph)} y={label}: {status}, {missing=}, {extra=}")
    assert len(truths) == case.truths and shared >= case.shared
    return out


def described(graph: Graph) -> str:
    """Kinds and edges in one short line."""
    return f"{''.join('abc'[k] for k in graph.x[:, 0])} {[tuple(edge) for edge in graph.edges.tolist()]}"


@pytest.mark.parametrize("case", CASES[:QUICK], ids=str)
def test_the_set_is_that_of_brute_force(case: Case) -> None:
    assert not disagreements(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES[QUICK:], *SWEEP], ids=str)
def test_the_set_is_that_of_brute_force_everywhere(case: Case) -> None:
    assert not disagreements(case)


@pytest.mark.parametrize(("n", "number"), [(1, 2), (2, 3), (3, 10), (4, 50), (5, 354)])
def test_brute_force_has_every_graph(n: int, number: int) -> None:
    """Connected graphs whose nodes have two kinds: OEIS A054921."""
    assert len(small_graphs(n, typed(2))) == number


def test_four_cycles_of_two_kinds_hide_each_other() -> None:
    """A GCN does not see a centre and an equally connected neighbour change places: aabb and abab have one gradient."""
    space = typed(3)
    model = flat(in_features=COLUMNS, hidden=64, readout_widths=(300, 64))
    params = weights(model, 0)
    paired, alternating = ring("aabb"), ring("abab")
    assert not paired.isomorphic(alternating)
    for truth, other in ((paired, alternating), (alternating, paired)):
        assert gradient_distances(seen(model, params, space, truth), space, [other])[0][0] < 1e-6
        found = census(model, params, space, truth)
        assert found.certificate is not None and found.certificate.status == "k_graphs"
        assert forms(found.graphs) == forms([truth, other])


def test_the_hexagon_hides_its_triangle_and_two_triangles_are_no_client() -> None:
    """abc and abcabc have the same shares of blocks, which is all that a mean shows; two triangles do not connect."""
    space = typed(3)
    model = flat(in_features=COLUMNS, hidden=64, readout_widths=(300, 64))
    params = weights(model, 0)
    triangle, hexagon = ring("abc"), ring("abcabc")
    twice = Graph(np.r_[triangle.x, triangle.x], np.r_[triangle.edges, triangle.edges + 3])
    distances = gradient_distances(seen(model, params, space, hexagon), space, [triangle, twice])
    assert max(distance for distance, _ in distances) < 1e-6
    known = census(model, params, space, hexagon)
    assert known.certificate is not None and known.certificate.status == "unique" and known.certificate.n_known
    assert forms(known.graphs) == forms([hexagon])
    unknown = [census(model, params, space, truth, Knowledge(space, max_n=8)) for truth in (triangle, hexagon)]
    for found in unknown:
        assert found.certificate is not None and found.certificate.status == "k_graphs"
        assert [graph.n for graph in found.graphs] == [3, 6]
        assert forms(found.graphs) == forms([triangle, hexagon])


def test_toluene_hides_its_double_cover() -> None:
    """Two copies whose rings are cut and joined crosswise: the same blocks, twice as often."""
    data = embedded()
    toluene = next(graph for graph in data.graphs if graph.name.startswith("toluene"))
    n, (u, v) = toluene.n, next(edge for edge in toluene.edges.tolist() if min(toluene.degree[edge]) == 2)
    kept = [edge for edge in toluene.edges.tolist() if edge != [u, v]]
    edges = [*kept, *([i + n, j + n] for i, j in kept), [u, v + n], [u + n, v]]
    cover = Graph(np.r_[toluene.x, toluene.x], np.array(edges))
    assert cover.connected and n == 7
    model = flat(in_features=data.space.width, hidden=64, readout_widths=(300, 64))
    params = weights(model, 0)
    assert gradient_distances(seen(model, params, data.space, toluene), data.space, [cover])[0][0] < 1e-6
    both = census(model, params, data.space, toluene, Knowledge(data.space, max_n=14))
    assert both.certificate is not None and both.certificate.status == "k_graphs"
    assert both.best is not None and both.best.isomorphic(toluene)
    assert cover.canonical_form() in forms(both.graphs[1:])
    for knowledge in (Knowledge(data.space, max_n=13), Knowledge(data.space, n=7)):
        alone = census(model, params, data.space, toluene, knowledge)
        assert alone.certificate is not None and alone.certificate.status == "unique"
        assert forms(alone.graphs) == forms([toluene])


@pytest.mark.parametrize("kinds", ["aabb", "abab", "bbaa", "baba"])
def test_twins_under_a_pooled_readout(kinds: str) -> None:
    """The middle nodes of a diamond have one neighbourhood, so its adjacency is singular and hides a direction."""
    space = typed(2)
    edges = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)])
    diamond = Graph(np.c_[["ab".index(kind) for kind in kinds], np.bincount(edges.ravel())].astype(np.int32), edges, 0)
    assert np.linalg.matrix_rank(diamond.adjacency + np.eye(4)) == 3
    model = flat(in_features=COLUMNS, hidden=128, readout="pooled", readout_widths=(), last_act=True)
    found = census(model, weights(model, 0), space, diamond)
    assert diamond.canonical_form() in forms(found.graphs)


@pytest.mark.long
def test_label_and_node_order_change_nothing() -> None:
    space = typed(2)
    model = flat(in_features=COLUMNS, hidden=64, readout_widths=(300, 64))
    params = weights(model, 0)
    population = Population(model, params, space, small_graphs(5, space))
    rng = np.random.default_rng(0)
    for place in [population.shared(0)[0], int(rng.integers(len(population.graphs)))]:
        graph = population.graphs[place]
        sets = []
        for label in (0, 1):
            client = dataclasses.replace(graph.permute(rng.permutation(graph.n)), y=label)
            found = census(model, params, space, client)
            assert all(g.y == label for g in found.graphs)
            sets.append((found.certificate and found.certificate.status, forms(found.graphs)))
        assert sets[0] == sets[1] and graph.canonical_form() in sets[0][1]
