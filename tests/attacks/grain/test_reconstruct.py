"""The search for a graph without gradients: what is tested, how often, in which order, against every small graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.grain import reconstruct as module
from jgleak.attacks.grain.candidates import GrainCandidates
from jgleak.attacks.grain.reconstruct import Search, _fitting, _sizes, _stages, block_order, reconstruct
from jgleak.attacks.grain.settings import GrainLimits, GrainSettings
from jgleak.attacks.noise import largest
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, Observation
from jgleak.gnn import GNN
from jgleak.graph import Graph
from tests.clocks import HELD, Held

from .test_build import brute, builder, cut

SMALL = FeatureSpace((onehot("colour", "rgb"),))

DEEP = {"layers": 3, "hidden": 4, "readout_widths": (3,)}
"""Under three convolutions every graph is tested, and no cheap test comes before."""


def candidates(graphs: list[Graph]) -> GrainCandidates:
    """All blocks of some graphs."""
    ones, twos = cut(graphs)
    codes = np.array(sorted({tuple(r) for g in graphs for r in g.x.tolist()}), np.int32)
    degrees = {t: len(around) for t, around in zip(ones.roots.tolist(), ones.neighbours, strict=True)}
    nodes = Nodes(codes, codes.astype(float), np.array([degrees[t] for t in range(len(codes))]))
    return GrainCandidates(nodes, ones, twos, {"seconds_two_hop": 0.0})


def unseen(lab: Any, model: GNN) -> Observation:
    """An update of ones, with which no gradient is compared here."""
    shapes = jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))
    params = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), shapes)
    return Observation(model, params, params, "bce")


WORLDS: dict[str, Callable[[Any], list[Graph]]] = {
    "ring of equals": lambda lab: [lab.ring([0] * 4)],
    "ring of two colours": lambda lab: [lab.ring([0, 1, 0, 1])],
    "path and star": lambda lab: [lab.path([0, 1, 0]), lab.graph([0, 1, 1, 1], [(0, 1), (0, 2), (0, 3)])],
    "tadpole": lambda lab: [lab.graph([0, 0, 0, 1, 1], [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])],
    "one and two nodes": lambda lab: [lab.path([0]), lab.path([0, 1]), lab.path([1, 1])],
}


def searched(
    lab: Any, monkeypatch: Any, found: GrainCandidates, distance: Callable[[Graph], float], **known: Any
) -> tuple[Any, list[Graph]]:
    """What the search returns, and the graphs whose gradients it asked for."""
    asked = list[Graph]()

    def distances(observation: Observation, space: Any, graphs: list[Graph], most: float) -> list[tuple[float, int]]:
        asked.extend(graphs)
        return [(distance(graph), 1) for graph in graphs]

    monkeypatch.setattr(module, "gradient_distances", distances)
    model = known.pop("model", lab.model(**DEEP))
    clock = known.pop("clock", HELD)
    settings = known.pop("settings", GrainSettings())
    result = reconstruct(unseen(lab, model), Knowledge(lab.space, **known), found, settings, clock=clock)
    return result, asked


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("known", [{"max_n": 5}, {"n": 4}, {"n": 3}], ids=str)
def test_every_graph_that_blocks_allow_is_tested_once(
    world: str, known: dict[str, int], lab: Any, monkeypatch: Any
) -> None:
    made = candidates(WORLDS[world](lab))
    wanted = set()
    for root in range(made.ones.size):
        wanted |= brute(made.twos, root, 5)
    size = known.get("n")
    wanted = {shape for shape in wanted if size is None or len(shape[0]) == size}
    found, asked = searched(lab, monkeypatch, made, lambda graph: 1.0 / graph.n, **known)
    assert found.stop == "exhausted" and found.info["graphs_tested"] == len(wanted)
    if wanted:  # the nearest, here the largest
        assert len(asked) == len({graph.canonical_form() for graph in asked}) == len(wanted)
        assert found.info["graphs_closed"] >= len(asked)
        assert sorted(graph.n for graph in asked) == sorted(len(shape[0]) for shape in wanted)
        assert found.best.n == max(len(shape[0]) for shape in wanted)
        assert found.gradient_distance == 1.0 / found.best.n and found.best.y == 1


def test_graphs_of_one_distance_are_ranked_by_size_and_small_ones_are_tested_first(lab: Any, monkeypatch: Any) -> None:
    made = candidates([lab.ring([0] * 4)])
    found, asked = searched(lab, monkeypatch, made, lambda graph: 0.5, max_n=6)
    assert found.best.n == 3 and sorted(graph.n for graph in asked) == [3, 4, 5, 6]
    found, asked = searched(lab, monkeypatch, made, lambda graph: 0.0 if graph.n == 4 else 0.5, max_n=6)
    assert found.stop == "match" and found.best.n == 4 and len(found.graphs) == 1
    limits = GrainLimits(size_rounds=(3, 5))
    found, asked = searched(
        lab, monkeypatch, made, lambda graph: 0.5, settings=GrainSettings(limits=limits), max_n=None
    )
    assert [graph.n for graph in asked][0] == 3 and sorted(graph.n for graph in asked) == [3, 4, 5]


def test_a_distance_at_the_bound_is_a_match(lab: Any, monkeypatch: Any) -> None:
    made = candidates([lab.ring([0] * 4)])
    for distance, stop in ((1e-4, "match"), (1.01e-4, "exhausted")):
        assert searched(lab, monkeypatch, made, lambda graph, d=distance: d, n=4)[0].stop == stop


def test_under_two_convolutions_equal_shares_of_blocks_are_tested_once_and_counts_where_nodes_have_labels(
    lab: Any, monkeypatch: Any
) -> None:
    """All rings of one colour have one 2-hop block."""
    made = candidates([lab.ring([0] * 4)])
    shallow = {"layers": 2, "hidden": 4, "readout": "pooled", "readout_widths": (3,)}
    found, asked = searched(lab, monkeypatch, made, lambda graph: 0.5, max_n=6, model=lab.model(**shallow))
    assert [graph.n for graph in asked] == [3] and found.info["graphs_tested"] == 1
    nodes = lab.model(layers=2, hidden=4, readout_widths=(3,), per_node=True)
    found, asked = searched(lab, monkeypatch, made, lambda graph: 0.5, max_n=6, model=nodes)
    assert sorted(graph.n for graph in asked) == [3, 4, 5, 6] and found.info["graphs_tested"] == 4


@pytest.mark.parametrize("world", ["ring of equals", "ring of two colours"])
def test_a_graph_that_was_searched_from_one_node_is_not_built_again_from_another(
    world: str, lab: Any, monkeypatch: Any
) -> None:
    """Nor with more steps than were enough."""
    made = candidates(WORLDS[world](lab))
    found, asked = searched(lab, monkeypatch, made, lambda graph: 0.5, n=4)
    assert [graph.n for graph in asked] == [4] and found.info["graphs_closed"] == found.info["graphs_tested"] == 1


def test_nothing_is_tested_behind_a_match(lab: Any, monkeypatch: Any) -> None:
    """Of two stages that have the same blocks; what passed before the search counts as others' seconds."""

    class Later(Held):
        elapsed = 10.0  # type: ignore[assignment]

    made = candidates([lab.ring([0] * 4)])
    made = dataclasses.replace(made, info={"seconds_one_hop": 1.0, "seconds_two_hop": 2.0})
    monkeypatch.setattr(module, "_stages", lambda search: iter([np.ones(made.twos.size, bool)] * 2))
    found, asked = searched(lab, monkeypatch, made, lambda graph: 0.0, max_n=6, clock=Later(0.0, 0.5))
    assert found.stop == "match" and [graph.n for graph in asked] == [3]
    assert found.info["seconds_search"] == 7.0


def test_only_graphs_of_the_rows_that_are_known_are_tested(lab: Any, monkeypatch: Any) -> None:
    made = candidates([lab.path([0, 0]), lab.path([0, 1]), lab.path([1, 1])])
    for colours in ([0, 0], [0, 1], [1, 1]):
        truth = lab.path(colours)
        found, asked = searched(lab, monkeypatch, made, lambda graph: 0.5, features=truth.x)
        assert [graph.isomorphic(truth) for graph in asked] == [True] and found.best.isomorphic(truth)


def test_without_a_finished_graph_the_largest_part_is_returned(lab: Any, monkeypatch: Any) -> None:
    """No three nodes are a ring of two colours in turn; of all starts the largest part counts."""
    made = candidates([lab.ring([0, 1, 0, 1]), lab.path([2, 3])])
    found, asked = searched(lab, monkeypatch, made, lambda graph: 0.7, n=3)
    parts = []
    for root in made.twos.roots.tolist():
        search = builder(made.ones, made.twos, 3)
        list(search.closures(root))
        assert search.largest is not None
        parts.append(len(search.largest.kinds))
    assert found.best.n == max(parts) > min(parts) and found.info["graphs_tested"] == 0
    assert [graph.n for graph in asked] == [found.best.n] and found.gradient_distance == 0.7 and found.best.y == 1


def test_a_search_says_why_it_ended(lab: Any, monkeypatch: Any) -> None:
    made = candidates([lab.ring([0] * 4)])
    nothing = dataclasses.replace(made, twos=made.twos.keep(np.zeros(made.twos.size, bool)))
    found, asked = searched(lab, monkeypatch, nothing, lambda graph: 0.5, n=4)
    assert found.stop == "no candidates" and not asked and found.graphs == () and found.gradient_distance is None
    assert found.info["graphs_tested"] == found.info["graphs_closed"] == 0
    found, _ = searched(lab, monkeypatch, nothing, lambda graph: 0.5, n=4, clock=Clock(0.0, 0.0))
    assert found.stop == "time"
    found, asked = searched(lab, monkeypatch, made, lambda graph: 0.5, max_n=6, clock=Clock(0.0, 0.0))
    assert found.stop == "time" and len(asked) == 1, "the first graph is tested, whatever the time"


def test_steps_rise_from_round_to_round_until_all_graphs_were_seen(lab: Any, monkeypatch: Any) -> None:
    made = candidates([lab.graph([0, 0, 0, 1, 1], [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])])
    for rounds, whole in (((3,), False), ((3, 1000), True), ((1000, 3), True), ((3, 4), False)):
        limits = GrainLimits(step_rounds=rounds)
        found, _ = searched(lab, monkeypatch, made, lambda graph: 0.5, n=5, settings=GrainSettings(limits=limits))
        full, _ = searched(lab, monkeypatch, made, lambda graph: 0.5, n=5)
        assert (found.info["graphs_tested"] == full.info["graphs_tested"]) is whole
        assert found.stop == full.stop == "exhausted"


def test_sizes_are_the_rounds_below_a_bound_then_the_bound() -> None:
    limits = GrainLimits(size_rounds=(3, 5, 9))
    assert list(_sizes(Knowledge(SMALL), limits)) == [3, 5, 9]
    assert list(_sizes(Knowledge(SMALL, n=7), limits)) == [7]
    for most, wanted in ((2, [2]), (3, [3]), (4, [3, 4]), (9, [3, 5, 9]), (20, [3, 5, 9, 20])):
        assert list(_sizes(Knowledge(SMALL, max_n=most), limits)) == wanted


def test_blocks_are_ordered_by_the_best_fits_of_their_neighbours() -> None:
    """Against all pairs: a neighbour's best block is one of its kind with the centre's kind around it."""
    rng = np.random.default_rng(0)
    pairs = sorted(
        {(int(r), tuple(sorted(rng.integers(4, size=rng.integers(1, 4)).tolist()))) for r in rng.integers(4, size=14)}
    )
    roots, around = zip(*pairs, strict=True)
    count = len(pairs)
    distances = rng.random(count)
    twos = Blocks(np.array(roots), np.array(roots), around, np.zeros((count, 1)), np.zeros((count, 0)), distances, 0)
    made = GrainCandidates(Nodes(np.zeros((4, 1), int), np.zeros((4, 1)), np.zeros(4, int)), twos, twos, {})
    for k, found in enumerate(block_order(made).tolist()):
        best = [
            min([distances[b] for b in range(count) if roots[b] == other and roots[k] in around[b]], default=np.inf)
            for other in around[k]
        ]
        assert found == pytest.approx(sum(best))


def test_blocks_that_others_do_not_answer_are_left_out() -> None:
    twos = Blocks(
        np.array([0, 0, 1, 2]),
        np.array([0, 0, 1, 2]),
        ((1,), (2,), (0,), (1,)),
        np.zeros((4, 1)),
        np.zeros((4, 0)),
        np.zeros(4),
        0,
    )

    def fitting(*chosen: bool) -> list[bool]:
        return _fitting(twos, np.array(chosen)).tolist()

    assert fitting(True, True, True, True) == [True, False, True, False]
    assert fitting(True, True, False, True) == [False, False, False, False]
    assert fitting(False, True, True, True) == [False, False, False, False]


@pytest.mark.parametrize("noise", [None, 0.01])
def test_the_mean_of_the_last_rows_is_read_and_its_noise_bounded(lab: Any, noise: float | None) -> None:
    """The gradient of the last map is the mean of what enters it times the bias's."""
    model = lab.model(layers=2, hidden=4, readout_widths=(3,))
    rng = np.random.default_rng(0)
    seen, mean, delta = unseen(lab, model), rng.normal(size=3), rng.normal(size=2)
    last = {"kernel": np.outer(mean, delta).astype(np.float32), "bias": delta.astype(np.float32)}
    update = {**seen.update, "readout": {"mlp": {**seen.update["readout"]["mlp"], "linears_1": last}}}
    search = Search(
        dataclasses.replace(seen, update=update), Knowledge(lab.space, noise=noise), rows_of(lab), GrainSettings(), HELD
    )
    assert search.last_rows is not None
    np.testing.assert_allclose(search.last_rows[1], mean, rtol=1e-5)
    length = np.linalg.norm(delta)
    size = np.linalg.norm(np.outer(mean, delta)) / length
    bound = 0.0 if noise is None else noise / length * (largest(3) + size * largest(2))
    assert search.noisy_mean == pytest.approx(bound, rel=1e-5)
    rows = search.last_rows[0]
    assert rows.shape == (search.candidates.twos.size, 3)
    flat = dataclasses.replace(seen, update=jax.tree.map(np.zeros_like, seen.update))
    assert Search(flat, Knowledge(lab.space), rows_of(lab), GrainSettings(), HELD).last_rows is None
    deep = Search(unseen(lab, lab.model(**DEEP)), Knowledge(lab.space), rows_of(lab), GrainSettings(), HELD)
    assert deep.last_rows is None


@pytest.mark.parametrize("together", [2, 256])
def test_last_rows_are_those_of_every_block(together: int, lab: Any, monkeypatch: Any) -> None:
    """However many are computed at once."""
    monkeypatch.setattr(module, "HIDDEN", together)
    model, made = lab.model(layers=2, hidden=4, readout_widths=(3,)), rows_of(lab)
    params = lab.params(model)
    states = np.random.default_rng(0).normal(size=(made.twos.size, 4))
    made = dataclasses.replace(made, twos=dataclasses.replace(made.twos, states=states))
    search = Search(
        dataclasses.replace(unseen(lab, model), params=params), Knowledge(lab.space), made, GrainSettings(), HELD
    )
    inputs = made.nodes.rows[made.ones.roots[made.twos.roots]], model.entering(made.twos.below, states)
    rows, entering = (jnp.asarray(part, jnp.float32) for part in inputs)
    wanted = model.apply({"params": params}, rows, entering, method="node_hidden")[0]
    assert search.last_rows is not None and len(wanted) == 3
    np.testing.assert_allclose(search.last_rows[0], wanted, rtol=1e-5, atol=1e-6)


def test_counts_whose_mean_row_is_another_are_not_plausible(lab: Any) -> None:
    model = lab.model(layers=2, hidden=4, readout_widths=(3,))
    search = Search(unseen(lab, model), Knowledge(lab.space), rows_of(lab), GrainSettings(), HELD)
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for off, allowed, plausible in (
        (0.0, 0.0, True),
        (0.99e-2, 0.0, True),
        (1.01e-2, 0.0, False),
        (1.01e-2, 1e-3, True),
        (0.02, 0.0063, True),
        (0.02, 0.0060, False),
    ):
        mean = np.array([0.5, 0.25, 0.25])
        search.last_rows = rows, mean + off * np.linalg.norm(mean) * np.array([0.0, 1.0, -1.0]) / np.sqrt(2)
        search.noisy_mean = allowed
        assert search._plausible(((0, 2), (1, 1), (2, 1))) is plausible, off
    search.last_rows = None
    assert search._plausible(((0, 1),))


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(("off", "first"), [(0.0, True), (0.5e-3, True), (1.5e-3, False)])
def test_blocks_that_explain_the_mean_come_first_where_they_do_to_a_thousandth(
    size: float, off: float, first: bool, lab: Any
) -> None:
    """Shares add up to one; how far they leave the mean is counted by the mean's length."""
    search = Search(unseen(lab, lab.model(**DEEP)), Knowledge(lab.space), rows_of(lab), GrainSettings(), HELD)
    assert search.candidates.twos.size == 3 and [stage.tolist() for stage in _stages(search)] == [[True] * 3]
    rows = size * np.eye(3, 4)
    mean = np.array([0.75, 0.25, 0.0]) @ rows
    mean[3] = off * np.linalg.norm(mean)
    search.last_rows = rows, mean
    stages = [stage.tolist() for stage in _stages(search)]
    assert stages == ([[True, True, False]] if first else []) + [[True] * 3]
    search.last_rows = rows, np.array([0.5, 0.25, 0.25]) @ rows
    assert [stage.tolist() for stage in _stages(search)] == [[True] * 3], "all of them are no selection"
    for share, asked in ((0.9e-4, False), (1.2e-4, True)):
        search.last_rows = rows, np.array([0.75, 0.25 - share, share]) @ rows
        assert (len(list(_stages(search))) == 1) is asked


def rows_of(lab: Any) -> GrainCandidates:
    made = candidates([lab.path([0, 1, 2])])
    rows = lab.space.encode(made.nodes.codes)
    twos = dataclasses.replace(
        made.twos, states=np.zeros((made.twos.size, 4)), below=np.zeros((made.twos.size, lab.space.width))
    )
    return dataclasses.replace(made, nodes=dataclasses.replace(made.nodes, rows=rows), twos=twos)
