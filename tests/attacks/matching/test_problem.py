"""What gradient matching makes of an observation and of what is known beside it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from jgleak import Knowledge
from jgleak.attacks.matching import problem as module
from jgleak.attacks.matching.dlg import RECIPE
from jgleak.attacks.matching.objectives import Guess, gradients
from jgleak.attacks.matching.problem import _shares, mask_keys, normalisation, pose, reach, steps_made
from jgleak.attacks.matching.recipe import relaxed
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.federated.client import target_gradient
from jgleak.federated.factors import Outer
from jgleak.gnn import (
    GNN,
    MLP,
    GCNConv,
    GraphNorm,
    Layer,
    LayerNorm,
    LinearResidual,
    NodeMLP,
    NodeScores,
    Pooled,
    SAGEConv,
)
from jgleak.graph import Graph


def seen(lab: Any, *graphs: Graph) -> Any:
    model = GNN(lab.space.width, (Layer(GCNConv(4)),), Pooled())
    return fedsgd(model, lab.params(model), graphs, lab.space, loss="ce")


def test_known_edges_give_the_columns_that_state_degrees(lab: Any) -> None:
    """Also of a node without neighbours, whose degree is the schema's first value."""
    graph = lab.graph([0, 1, 2, 1, 3], [(0, 1), (1, 2), (1, 3)], 1)
    setting, problem = pose(seen(lab, graph), Knowledge(lab.space, adjacency=graph.adjacency), infer=False)
    assert (graph.degree == 0).any() and lab.space.degree_codes(np.array([0]))[0] == 0
    assert setting.degree_column is not None and problem.degrees is not None
    start, width = setting.degree_column, problem.degrees.shape[-1]
    np.testing.assert_array_equal(problem.degrees[0, : graph.n], lab.space.encode(graph.x)[:, start : start + width])
    assert not problem.degrees[0, graph.n :].any() and problem.nodes is None


def test_degrees_that_the_schema_lacks_or_features_say_are_not_stated(lab: Any) -> None:
    hub = lab.space.features[lab.space.index(lab.space.degree)].values[-1] + 1
    star = np.zeros((hub + 1, hub + 1))
    star[0, 1:] = star[1:, 0] = 1.0
    graph = lab.random(hub + 1, 1)
    setting, problem = pose(seen(lab, graph), Knowledge(lab.space, adjacency=star), infer=False)
    assert problem.degrees is None and setting.degree_column is None
    known = Knowledge(lab.space, adjacency=graph.adjacency, features=graph.x)
    setting, problem = pose(seen(lab, graph), known, infer=False)
    assert problem.degrees is None and problem.nodes is not None
    np.testing.assert_array_equal(problem.nodes[0, : graph.n], lab.space.encode(graph.x))


def test_the_number_of_nodes_has_to_follow(lab: Any) -> None:
    graph = lab.random(5, 1)
    with pytest.raises(ValueError, match=r"give Knowledge\(n=...\)"):
        pose(seen(lab, graph), Knowledge(lab.space), infer=False)
    flat = lab.model(hidden=4, readout="flattened", slots=4)
    observed = lab.observe(flat, lab.random(4, 1))
    with pytest.raises(ValueError, match="has 4 node slots, fewer than the 5 nodes given"):
        pose(observed, Knowledge(lab.space, n=5), infer=False)


def test_raw_columns_become_encoded_ones(lab: Any) -> None:
    """``(raw - mean) * scale``; a column that never varies says nothing."""
    width = lab.space.width
    mean, std = np.linspace(0.0, 1.0, width), np.linspace(0.0, 2.0, width)
    graph = lab.random(6, 2)
    for space in (lab.space, dataclasses.replace(lab.space, mean=mean, std=std)):
        shift, scale = normalisation(space)
        raw = dataclasses.replace(space, mean=None, std=None).encode(graph.x)
        np.testing.assert_allclose((raw - shift) * scale, space.encode(graph.x), atol=1e-6)


def test_masks_are_drawn_from_keys_that_differ() -> None:
    keys = mask_keys(5, jax.random.key(3))
    assert keys.shape == (5, 2) and len({tuple(key) for key in keys.tolist()}) == 5
    np.testing.assert_array_equal(keys, mask_keys(5, jax.random.key(3)))
    assert not np.array_equal(keys, mask_keys(5, jax.random.key(4)))


def test_shares_of_losses_are_those_of_the_protocol() -> None:
    mask = np.array([[True, True, True, False], [True, False, False, False]])
    mean = [[[1 / 6, 1 / 6, 1 / 6, 0.0], [1 / 2, 0.0, 0.0, 0.0]]]
    np.testing.assert_allclose(_shares("fedsgd", mask), mean, rtol=1e-6)
    np.testing.assert_array_equal(_shares("target_node", mask), [[[0.5, 0, 0, 0], [0.5, 0, 0, 0]]])
    np.testing.assert_array_equal(_shares("node_losses", mask[:1]), np.eye(3, 4)[:, None])


@pytest.mark.parametrize(
    ("local", "graphs", "made"),
    [
        (None, 1, False),
        (LocalTraining(0.1, 1), 1, False),
        (LocalTraining(0.1, 2), 1, True),
        (LocalTraining(0.1, 64), 1, True),
        (LocalTraining(0.1, 65), 1, False),
        (LocalTraining(0.1, 4), 3, True),
        (LocalTraining(0.1, 4, loader=3), 3, True),
        (LocalTraining(0.1, 4, loader=2), 3, False),
    ],
)
def test_steps_are_made_again_where_they_are_several_on_all_graphs(
    local: LocalTraining | None, graphs: int, made: bool, lab: Any
) -> None:
    one = dataclasses.replace(seen(lab, lab.random(4, 1)), batch_size=graphs)
    if local is not None:
        one = dataclasses.replace(one, protocol="fedavg", local=local)
    assert steps_made(one) is (local if made else None)
    setting, _ = pose(one, Knowledge(lab.space, n=4), infer=False)
    assert setting.local is (local if made else None)
    setting, _ = pose(one, Knowledge(lab.space, n=4), infer=False, replay="none")
    assert setting.local is None


@pytest.mark.parametrize(("steps", "replay", "wanted"), [(3, "steps", 48), (3, "none", 16), (1, "steps", 16)])
def test_kernels_have_no_higher_rank_than_rows_at_all_steps(
    steps: int, replay: str, wanted: int, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two graphs of eight slots each."""
    asked = list[int]()
    monkeypatch.setattr(module, "compressed", lambda leaf, rows: asked.append(rows) or leaf)
    one = seen(lab, lab.random(4, 1), lab.random(4, 2))
    one = dataclasses.replace(one, protocol="fedavg", local=LocalTraining(0.1, steps))
    pose(one, Knowledge(lab.space, n=4), infer=False, replay=replay)
    assert set(asked) == {wanted}


def test_a_batch_is_padded_graph_by_graph(lab: Any) -> None:
    graphs = [lab.random(3, 1), lab.random(5, 2)]
    x, edges = np.zeros((2, 5, 3), np.int32), np.zeros((2, 5, 5))
    for g, graph in enumerate(graphs):
        x[g, : graph.n], edges[g, : graph.n, : graph.n] = graph.x, graph.adjacency
    known = Knowledge(lab.space, features=x, adjacency=edges, sizes=(3, 5), labels=np.array([1, 0]))
    setting, problem = pose(seen(lab, *graphs), known, infer=False)
    slots = problem.mask.shape[1]
    assert problem.mask.sum(axis=1).tolist() == [3, 5] and slots >= 5 and setting.labels_known
    assert problem.nodes is not None and problem.adjacency is not None
    for g, graph in enumerate(graphs):
        np.testing.assert_array_equal(problem.nodes[g, : graph.n], lab.space.encode(graph.x))
        np.testing.assert_array_equal(problem.adjacency[g, : graph.n, : graph.n], graph.adjacency)
        assert not problem.nodes[g, graph.n :].any() and not problem.adjacency[g, graph.n :].any()
    np.testing.assert_array_equal(problem.labels, [[0.0, 1.0], [1.0, 0.0]])
    assert problem.shares.shape == (1, 2, slots) and problem.prior is None


def test_a_dummy_graph_stands_for_the_clients(lab: Any) -> None:
    """Nothing that is known of the client is used then, but its labels."""
    dummy, graph = lab.ring([0] * 6).adjacency, lab.random(4, 1)
    known = Knowledge(lab.space, adjacency=graph.adjacency, features=graph.x, labels=np.array([1]))
    _, problem = pose(seen(lab, graph), known, infer=False, dummy=dummy)
    assert problem.mask.sum() == 6 and problem.nodes is None and problem.degrees is None
    assert problem.adjacency is not None
    np.testing.assert_array_equal(problem.adjacency[0, :6, :6], dummy)
    np.testing.assert_array_equal(problem.labels, [[0.0, 1.0]])


def test_labels_are_those_that_are_known_or_show_or_are_searched_for(lab: Any) -> None:
    def labels(one: Any, infer: bool = True, **known: Any) -> Any:
        setting, problem = pose(one, Knowledge(lab.space, n=4, **known), infer=infer)
        assert setting.labels_known is (problem.labels is not None)
        return None if problem.labels is None else problem.labels.tolist()

    one, classes = lab.random(4, 1), {0: [[1.0, 0.0]], 1: [[0.0, 1.0]]}
    for y in (0, 1):
        observed = seen(lab, dataclasses.replace(one, y=y))
        assert labels(observed) == classes[y] and labels(observed, infer=False) is None
        assert labels(observed, labels=np.array([1 - y])) == classes[1 - y]
    batch = seen(lab, one, lab.random(4, 2))
    assert labels(batch) is None and labels(batch, labels=np.array([1, 0, 1])) == [[0.0, 1.0], [1.0, 0.0]]
    assert labels(batch, labels=np.array([1])) == [[0.0, 1.0]] * 2, "one label is that of all"


def test_labels_of_nodes_are_padded(lab: Any) -> None:
    graph = lab.random(4, 1)
    model = GNN(lab.space.width, (Layer(GCNConv(3, bias=True)),), NodeScores(3))
    labelled = dataclasses.replace(graph, y=np.array([2, 0, 1, 1]))
    observed = fedsgd(model, lab.params(model), [labelled], lab.space, loss="ce")
    _, problem = pose(observed, Knowledge(lab.space, n=4, labels=labelled.y), infer=False)
    assert problem.labels is not None and problem.labels.shape == (1, problem.mask.shape[1], 3)
    np.testing.assert_array_equal(problem.labels[0, :4], np.eye(3)[labelled.y])
    with pytest.raises(ValueError, match="labels: 3 given for 4 nodes"):
        pose(observed, Knowledge(lab.space, n=4, labels=np.array([0, 1, 2])), infer=False)
    two = dataclasses.replace(observed, batch_size=2)
    _, problem = pose(two, Knowledge(lab.space, n=4, labels=np.array([0, 1, 2, 1])), infer=False)
    assert problem.labels is None, "whose is whose is not known"
    target = dataclasses.replace(observed, protocol="target_node", batch_size=2)
    _, problem = pose(target, Knowledge(lab.space, n=4, labels=np.array([2, 1])), infer=False)
    assert problem.labels is not None
    np.testing.assert_array_equal(problem.labels[:, 0], np.eye(3)[[2, 1]])
    with pytest.raises(ValueError, match="labels: 4 given for the targets of 2 graphs; give one of each"):
        pose(target, Knowledge(lab.space, n=4, labels=np.array([2, 1, 0, 0])), infer=False)


@pytest.mark.parametrize(
    ("loss", "known", "counts"), [("ce", None, False), ("ce", [1], True), ("mse", None, False), ("mse", [0.5], True)]
)
def test_the_length_of_a_clipped_update_counts_where_no_label_absorbs_it(
    loss: str, known: Any, counts: bool, lab: Any
) -> None:
    model = GNN(lab.space.width, (Layer(GCNConv(4)),), Pooled("mean", MLP((1 if loss == "mse" else 2,))))
    shapes = jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))
    ones = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), shapes)
    labels = None if known is None else np.array(known)
    for scaled in (False, True):
        observed = Observation(model, ones, ones, loss, scaled=scaled)
        setting, _ = pose(observed, Knowledge(lab.space, n=4, labels=labels), infer=True)
        assert setting.scaled is (scaled and counts)


def test_columns_of_degrees_that_edges_tell_are_set_whatever_is_searched_for(lab: Any) -> None:
    graph = lab.random(5, 1)
    setting, problem = pose(seen(lab, graph), Knowledge(lab.space, adjacency=graph.adjacency), infer=True)
    slots, width = problem.mask.shape[1], lab.space.width
    variables = {"nodes": jnp.full((1, slots, width), 7.0)}
    shown = np.asarray(relaxed(RECIPE, setting, problem, variables, jnp.asarray(0)).nodes)
    assert setting.degree_column is not None and problem.degrees is not None
    start, stated = setting.degree_column, problem.degrees.shape[-1]
    np.testing.assert_array_equal(shown[..., start : start + stated], problem.degrees)
    others = np.delete(shown[0], np.s_[start : start + stated], axis=1)
    assert np.all(others[: graph.n] == 7.0) and not others[graph.n :].any()


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_states_within_reach_of_the_target_are_made(depth: int, seed: int) -> None:
    """All layers but the last ``k`` see nodes up to ``k`` edges away; those of a smaller number come along."""
    graph = nx.gnp_random_graph(9, 0.2, seed=seed)
    far = nx.single_source_shortest_path_length(graph, 0)
    wanted = [1 + max(node for node, away in far.items() if away < depth - layer) for layer in range(depth)]
    edges = nx.to_numpy_array(graph)
    for stated in (edges, np.triu(edges), np.tril(edges)):
        assert list(reach(stated, depth)) == wanted


def targets(lab: Any, layers: tuple[Layer, ...], edges: np.ndarray | None) -> Any:
    """Two clients' targets, posed with the dummy's edges, and a guess at what stands on these where there are any."""
    model = GNN(lab.space.width, layers, NodeScores(3))
    graphs = [dataclasses.replace(lab.random(5, seed), y=np.array([seed, 0, 1, 2, 0])) for seed in (1, 2)]
    observed = target_gradient(model, lab.params(model), graphs, lab.space, loss="ce")
    setting, problem = pose(observed, Knowledge(lab.space, n=5, labels=np.array([1, 2])), infer=False, dummy=edges)
    if edges is None:
        return setting, problem, None
    given: Any = problem  # whose arrays are NumPy's until a jitted function takes them
    nodes: Any = np.random.default_rng(0).normal(size=(*problem.mask.shape, lab.space.width)).astype(np.float32)
    return setting, problem, Guess(nodes, given.adjacency, given.labels)


WIDE = Layer(SAGEConv(6, bias=True), "tanh", norm=LayerNorm(), residual=LinearResidual())
LAST = Layer(SAGEConv(3), "tanh")


@pytest.mark.parametrize("above", [0, 1, 2])
def test_states_that_no_target_sees_are_left_out_of_its_gradient(above: int, lab: Any) -> None:
    """The gradient is that of all states; only the rows of states in reach enter a kernel."""
    tree = nx.to_numpy_array(nx.balanced_tree(2, 3))
    setting, problem, guess = targets(lab, (*[WIDE] * above, LAST), tree)
    assert setting.trim == (7, 3, 1)[2 - above :] and problem.mask.shape == (2, 15)
    each = jax.jit(gradients, static_argnums=0)
    found, whole = (each(s, problem, guess) for s in (setting, dataclasses.replace(setting, trim=None)))
    first = found["layers_0"]["conv"]["self_kernel"]
    assert isinstance(first, Outer) and len(first.rows) == 2 * setting.trim[0]
    pairs = zip(*(jax.tree.leaves(tree, is_leaf=_outer) for tree in (found, whole)), strict=True)
    for one, other in pairs:
        kernel, same = (leaf.rows.T @ leaf.slopes[0] if _outer(leaf) else leaf for leaf in (one, other))
        assert np.abs(same).max() > 1e-4
        np.testing.assert_allclose(kernel, same, rtol=1e-4, atol=1e-6)


def _outer(leaf: Any) -> bool:
    return isinstance(leaf, Outer)


@pytest.mark.parametrize(
    ("layers", "readout", "parts", "some"),
    [
        ((WIDE, LAST), NodeScores(3), {}, True),
        ((LAST, LAST), NodeScores(3), {"jump": "sum"}, False),
        ((WIDE, Layer(GCNConv(3))), NodeScores(3), {}, False),
        ((Layer(SAGEConv(6), norm=GraphNorm()), LAST), NodeScores(3), {}, False),
        ((Layer(SAGEConv(6), dropout=0.5), LAST), NodeScores(3), {}, False),
        ((WIDE, LAST), NodeMLP(MLP((3,))), {}, False),
    ],
    ids=["plain", "jump", "gcn", "norm of all nodes", "dropout", "readout"],
)
def test_states_are_left_out_only_where_no_other_node_is_seen(
    layers: Any, readout: Any, parts: Any, some: bool
) -> None:
    assert GNN(4, layers, readout, **parts).trims is some


def test_all_states_are_made_where_a_convolution_needs_them(lab: Any) -> None:
    assert targets(lab, (WIDE, Layer(GCNConv(3))), nx.to_numpy_array(nx.balanced_tree(2, 2)))[0].trim is None


@pytest.mark.parametrize(
    ("layers", "trim", "wrong"),
    [
        ((WIDE, LAST), (3,), r"for each of 2 layers, .* \(the graph has 5\), got \(3,\)"),
        ((WIDE, LAST), (3, 2, 1), r"got \(3, 2, 1\)"),
        ((WIDE, LAST), (2, 3), r"none larger than the one before"),
        ((WIDE, LAST), (6, 1), r"none larger than the one before"),
        ((WIDE, Layer(GCNConv(3))), (3, 1), "every state of this model may depend on all nodes; leave trim out"),
    ],
)
def test_a_trim_that_would_give_other_states_is_refused(
    layers: tuple[Layer, ...], trim: tuple[int, ...], wrong: str, lab: Any
) -> None:
    model = GNN(lab.space.width, layers, NodeScores(3))
    graph = lab.random(5, 0)
    given = jnp.asarray(lab.space.encode(graph.x)), jnp.asarray(graph.adjacency), jnp.ones(5, bool)
    with pytest.raises(ValueError, match=f"trim: .*{wrong}"):
        model.apply({"params": lab.params(model)}, *given, trim=trim)


def test_all_states_are_made_of_the_client_s_own_graphs_or_for_the_losses_of_all_nodes(lab: Any) -> None:
    assert targets(lab, (WIDE, LAST), None)[0].trim is None
    model = GNN(lab.space.width, (WIDE, LAST), NodeScores(3))
    observed = Observation(model, lab.params(model), lab.params(model), "ce")
    tree = nx.to_numpy_array(nx.balanced_tree(2, 2))
    assert pose(observed, Knowledge(lab.space, n=5), infer=False, dummy=tree)[0].trim is None
