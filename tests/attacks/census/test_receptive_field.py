"""GCNs that end linear, told rows and public neighbourhoods, against brute force over whole gradients."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

import jax
import numpy as np
import pytest
from models import flat

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.census.candidates import KNOWN_ROWS
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.public_blocks import CONDITION
from jgleak.attacks.census.receptive_field import ends_linear, hops
from jgleak.attacks.distance import gradient_distances
from jgleak.attacks.grain.grain import GRAIN
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.gnn import GNN, MLP, AddedRow, BatchNorm, GCNConv, Layer, LayerNorm, NodeMLP, Pooled, Readout, SAGEConv
from jgleak.graph import Graph

from .brute import MATCH, Population, small_graphs
from .test_anonymity import typed, weights


def pooled(space: FeatureSpace, **fields: Any) -> GNN:
    """FedGIG's architecture, with biases so that few graphs come close by chance."""
    return flat(**({"in_features": space.width, "hidden": 64, "readout": "pooled", "readout_widths": ()} | fields))


def attacked(observation: Observation, knowledge: Knowledge, **options: Any) -> Reconstruction:
    return CENSUS.with_options(options)(observation, knowledge, key=jax.random.key(0), budget=Budget(time_limit=600))


def star_counts(graph: Graph) -> tuple[Any, ...]:
    """The 1-hop blocks, as a multiset."""
    rows = [tuple(row) for row in graph.x.tolist()]
    pairs = zip(rows, graph.neighbours, strict=True)
    return tuple(sorted((row, tuple(sorted(rows[u] for u in near))) for row, near in pairs))


@pytest.mark.parametrize("pooling", ["mean", pytest.param("sum", marks=pytest.mark.slow)])
@pytest.mark.long
def test_a_linear_end_hides_all_but_the_blocks_below(pooling: str) -> None:
    """Graphs with the same 1-hop blocks have one gradient under two layers, and not under an activation at the end."""
    space = typed(2)
    alike: dict[Any, list[Graph]] = defaultdict(list)
    for graph in small_graphs(6, space):
        alike[star_counts(graph)].append(graph)
    several = [graphs for graphs in alike.values() if len(graphs) > 1]
    assert len(several) > 20
    told_apart = 0
    for graphs in several[::12]:
        for last_act in (False, True):
            model = pooled(space, pooling=pooling, last_act=last_act, bias=True)
            assert ends_linear(model) is not last_act and hops(model) == 1 + last_act
            seen = fedsgd(model, weights(model, 0), [dataclasses.replace(graphs[0], y=1)], space, loss="bce")
            distances = [distance for distance, _ in gradient_distances(seen, space, graphs[1:])]
            if last_act:
                told_apart += max(distances) > 100 * MATCH
            else:
                assert max(distances) < 1e-6
    assert told_apart > 0


@pytest.mark.parametrize(
    ("last", "jump", "linear"),
    [
        (Layer(GCNConv(4), "identity"), "last", True),
        (Layer(GCNConv(4, self_loops=False, bias=True), "identity"), "last", True),
        (Layer(GCNConv(4), "identity", norm=LayerNorm()), "last", False),
        (Layer(GCNConv(4), "identity", residual=AddedRow()), "last", False),
        (Layer(GCNConv(4), "identity"), "sum", False),
        (Layer(SAGEConv(4), "identity"), "last", False),
    ],
)
def test_what_ends_linear(last: Layer, jump: str, linear: bool) -> None:
    model = GNN(3, (Layer(GCNConv(4), norm=BatchNorm()), last), Pooled(), jump=jump)
    assert ends_linear(model) is linear and hops(model) == 2 - linear


@pytest.mark.parametrize("readout", [Pooled(), NodeMLP(MLP((4, 2)))])
def test_one_layer_and_what_is_not_added_up_end_in_no_hop_less(readout: Readout) -> None:
    """A single layer's blocks have a hop; behind an activation of each node the last hop shows."""
    last = Layer(GCNConv(4), "identity")
    layers = (last,) if isinstance(readout, Pooled) else (Layer(GCNConv(4)), last)
    model = GNN(3, layers, readout)
    assert not ends_linear(model) and hops(model) == len(layers)


@pytest.mark.parametrize(
    ("layers", "pooling", "last_act"),
    [
        (2, "mean", False),
        pytest.param(2, "sum", False, marks=pytest.mark.slow),
        pytest.param(3, "mean", False, marks=pytest.mark.slow),
        pytest.param(2, "mean", True, marks=pytest.mark.slow),
    ],
)
def test_the_set_among_graphs_of_told_rows_is_that_of_brute_force(layers: int, pooling: str, last_act: bool) -> None:
    space = typed(2)
    model = pooled(space, layers=layers, pooling=pooling, last_act=last_act, bias=True)
    params = weights(model, 3)
    population = Population(model, params, space, small_graphs(5, space))
    rng = np.random.default_rng(0)
    alike = population.shared(1)
    several, silent = 0, 0
    for place in [*rng.choice(alike, min(6, len(alike)), replace=False), *rng.choice(len(population.graphs), 6)]:
        truth = population.graphs[place]
        client = dataclasses.replace(truth.permute(rng.permutation(truth.n)), y=1)
        wanted = population.explaining(int(place), 1)
        if wanted.beyond < 5 * MATCH:  # brute force itself does not tell
            continue
        rows = np.sort(truth.x.view([("", truth.x.dtype)] * truth.x.shape[1]).ravel())
        names = {
            population.graphs[i].canonical_form()
            for i in wanted.places
            if np.array_equal(np.sort(population.graphs[i].x.view(rows.dtype).ravel()), rows)
        }
        found = attacked(fedsgd(model, params, [client], space, loss="bce"), Knowledge(space, features=client.x))
        if not found.graphs:  # a singular adjacency can spoil every check: then nothing is claimed
            silent += 1
            continue
        assert {graph.canonical_form() for graph in found.graphs} == names
        assert found.certificate is not None and found.certificate.n_known
        assert found.certificate.status == ("unique" if len(names) == 1 else "k_graphs")
        assert found.best is not None
        np.testing.assert_array_equal(found.best.x, client.x)
        several += len(names) > 1
    assert silent <= 4 and (several > 0 or last_act)


def test_told_rows_are_a_condition_in_place_of_the_input_check(lab: Any) -> None:
    truth = lab.random(6, 3)
    seen = lab.observe(lab.model(), truth)
    free = attacked(seen, Knowledge(lab.space, n=6))
    told = attacked(seen, Knowledge(lab.space, features=truth.x))
    assert free.certificate is not None and told.certificate is not None
    assert any("true node" in condition for condition in free.certificate.conditions)
    assert not any("true node" in condition for condition in told.certificate.conditions)
    assert KNOWN_ROWS in told.certificate.conditions and KNOWN_ROWS not in free.certificate.conditions
    assert told.best is not None and told.best.isomorphic(truth)


def test_other_rows_may_have_the_same_gradient_and_the_certificate_says_what_it_takes_for_granted() -> None:
    """Two joined nodes of a GCN show the mean of their rows alone: (0,0),(1,1) is (0,1),(1,0)."""
    space = FeatureSpace((onehot("a", range(2)), onehot("b", range(2))))
    model, edge = pooled(space), np.array([(0, 1)])
    truth, other = (Graph(np.array(x, np.int32), edge, 1) for x in ([(0, 0), (1, 1)], [(0, 1), (1, 0)]))
    seen = fedsgd(model, weights(model, 0), [truth], space, loss="bce")
    assert gradient_distances(seen, space, [other])[0][0] < 1e-6
    found = attacked(seen, Knowledge(space, features=truth.x))
    assert found.certificate is not None and found.certificate.status == "unique"
    assert KNOWN_ROWS in found.certificate.conditions


def test_every_listed_graph_has_its_nodes_where_the_told_rows_are() -> None:
    space = typed(2)
    model = pooled(space, bias=True)
    params, rng = weights(model, 3), np.random.default_rng(0)
    population = Population(model, params, space, small_graphs(5, space))
    truth = population.graphs[population.shared(1)[0]]
    client = dataclasses.replace(truth.permute(rng.permutation(truth.n)), y=1)
    found = attacked(fedsgd(model, params, [client], space, loss="bce"), Knowledge(space, features=client.x))
    assert found.graphs
    for graph in found.graphs:
        np.testing.assert_array_equal(graph.x, client.x)


def test_rows_that_are_not_the_clients_explain_nothing(lab: Any) -> None:
    """Neither attack returns a graph of other rows as a match, nor one with the told rows and another gradient."""
    truth = lab.path([0, 1, 2, 0])
    other = lab.path([0, 1, 1, 0])
    seen = lab.observe(lab.model(), truth)
    for attack in (CENSUS, GRAIN):
        found = attack(
            seen, Knowledge(lab.space, features=other.x), key=jax.random.key(0), budget=Budget(time_limit=60)
        )  # fmt: skip
        assert found.stop != "match"
        right = attack(
            seen, Knowledge(lab.space, features=truth.x), key=jax.random.key(0), budget=Budget(time_limit=60)
        )  # fmt: skip
        assert right.stop == "match" and right.best is not None
        np.testing.assert_array_equal(right.best.x, truth.x)
        assert right.best.isomorphic(truth)


def test_public_neighbourhoods_come_first_and_promise_nothing() -> None:
    """Where all neighbourhoods are too many those of public graphs are counted: a set, but no certificate of all."""
    space = FeatureSpace((onehot("kind", range(3)),))
    model = pooled(space, bias=True)
    params = weights(model, 1)

    def chain(kinds: str) -> Graph:
        edges = np.array([(i, i + 1) for i in range(len(kinds) - 1)])
        return Graph(np.array([["abc".index(kind)] for kind in kinds], np.int32), edges, 1)

    truth, public = chain("abcab"), (chain("abcabca"), chain("bcab"))
    seen = fedsgd(model, params, [truth], space, loss="bce")
    known = Knowledge(space, features=truth.x, auxiliary=public, max_degree=2)
    whole = attacked(seen, known)
    assert whole.certificate is not None and CONDITION not in whole.certificate.conditions
    found = attacked(seen, known, blocks_counted=50)
    assert found.certificate is not None and found.certificate.status == "at_least_k"
    assert CONDITION in found.certificate.conditions and found.info["blocks"] < whole.info["blocks"] / 3
    assert truth.canonical_form() in {graph.canonical_form() for graph in found.graphs}
