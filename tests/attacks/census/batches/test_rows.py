"""Pooled rows of the graphs of a batch, from masks and from rays, against the model's own pooling of each graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float
from models import some_params
from scipy import linalg

from jgleak.attacks.attack import Budget
from jgleak.attacks.census.assemble import CUT, AnonymitySet, ExplainingGraph
from jgleak.attacks.census.batches import head as head_module
from jgleak.attacks.census.batches import masks, members, parts, rays
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.joint import distance, each_gradient, remaining, without
from jgleak.attacks.census.batches.number_of_graphs import MOST, numbers_of_graphs
from jgleak.attacks.census.batches.parts import parts_of
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.datasets import embedded
from jgleak.federated import Knowledge, LocalTraining, Observation, fedsgd
from jgleak.federated.loss import label_loss
from jgleak.gnn import GNN, MLP, Pooled
from jgleak.gnn.standard import standard
from jgleak.gnn.tree import put
from jgleak.graph import Graph, GraphBatch
from tests.clocks import HELD as FOREVER

DATA = embedded()
NAMES = ("histamine", "valproic acid", "metformin")
GRAPHS = [graph for graph in DATA.graphs if graph.name.split(":")[0] in NAMES]


def pooled(*widths: int, pooling: str = "mean") -> tuple[GNN, Any]:
    """A model and its weights."""
    model = standard(DATA.space.width, "gcn", Pooled(pooling, MLP(widths)), hidden=64, last_act=True)
    return model, some_params(model)


def seen(model: GNN, params: Any, graphs: list[Graph], loss: str = "ce") -> Observation:
    """The update of a batch."""
    return fedsgd(model, params, graphs, DATA.space, loss=loss)


def own_rows(model: GNN, params: Any, graphs: list[Graph]) -> Float[np.ndarray, "B P"]:
    """What the model itself pools."""
    rows = []
    for graph in graphs:
        dense = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), GraphBatch.from_graphs([graph], DATA.space)).dense
        states = model.apply({"params": params}, *dense, method="states")
        assert isinstance(model.readout, Pooled)
        rows.append(np.asarray(model.readout.pool(states[-1], dense.mask), np.float64))
    return np.array(rows)


def same(found: Float[np.ndarray, "k P"], truth: Float[np.ndarray, "B P"]) -> bool:
    """Equal up to their order, and to rounding."""
    far = np.linalg.norm(found[:, None] - truth[None], axis=2) / np.linalg.norm(truth, axis=1)
    each_once = sorted(far.argmin(axis=1)) == list(range(len(truth)))
    return found.shape == truth.shape and each_once and float(far.min(axis=1).max()) < 1e-4


@pytest.mark.parametrize(("loss", "outputs"), [("ce", 2), ("bce", 2), ("ce", 3)])
def test_masks_show_every_graphs_pooled_row(loss: str, outputs: int) -> None:
    model, params = pooled(64, outputs)
    found = masks.pooled_rows(HeadGradient.of(seen(model, params, GRAPHS, loss)), FOREVER)
    assert found is not None and same(found, own_rows(model, params, GRAPHS))


def test_masks_are_looked_for_behind_a_rectified_map_alone_and_within_the_time() -> None:
    for widths, limit in (((64, 32, 2), 1e6), ((2,), 1e6), ((64, 2), 0.0)):
        model, params = pooled(*widths)
        assert masks.pooled_rows(HeadGradient.of(seen(model, params, GRAPHS)), Budget(time_limit=limit).start()) is None


@pytest.mark.parametrize("pooling", ["mean", pytest.param("sum", marks=pytest.mark.slow), "mean,sum"])
def test_rays_show_every_graphs_pooled_row(pooling: str) -> None:
    """Whatever the head: its depth says nothing of the space of pooled rows."""
    model, params = pooled(64, 32, 2, pooling=pooling)
    observation = seen(model, params, GRAPHS)
    problem = CensusProblem.of(observation, Knowledge(DATA.space, prior="molecule"))
    levels = next(CensusCandidates(problem, FOREVER, Budget()).attempts(FOREVER))
    states = root_states(model, params, levels, FOREVER)
    assert states is not None
    found = rays.pooled_rows(HeadGradient.of(observation), levels, states, DEFAULTS.limits, FOREVER)
    assert same(found, own_rows(model, params, GRAPHS))


def test_a_graphs_part_takes_one_dimension_from_the_gradient() -> None:
    """Wedderburn: and no other length of it, nor another row, does. The rank is that at every size."""
    model, params = pooled(64, 2)
    observation = seen(model, params, GRAPHS)
    head = HeadGradient.of(observation)
    for size, rank in ((1e-6, 3), (1e6, 3), (0.0, 0)):
        update = jax.tree.map(lambda leaf, size=size: size * np.asarray(leaf), observation.update)
        assert HeadGradient.of(dataclasses.replace(observation, update=update)).rank == rank
    one = np.outer(head.columns[:, 0], head.rows[:, 0]).astype(np.float32)
    update = put(observation.update, ("readout", "mlp", "linears_0", "kernel"), one)
    assert HeadGradient.of(dataclasses.replace(observation, update=update)).rank == 1, "the rest is rounding"
    rows = own_rows(model, params, GRAPHS)
    assert head.rank == 3 and head.without(rows[:1]).rank == 2
    assert np.linalg.norm(head.without(rows).kernel) < 1e-5 * np.linalg.norm(head.kernel)
    for row, graph in zip(rows, GRAPHS, strict=True):
        s, outside = head.of_row(row)
        assert outside < 1e-5
        logits = model.apply({"params": params}, jnp.asarray(row, jnp.float32), method=lambda m, x: m.readout.mlp(x))
        wanted = np.asarray(jax.grad(label_loss)(logits, jnp.asarray(graph.y), "ce")) / 3
        np.testing.assert_allclose(head.directions @ s, wanted, rtol=1e-3)
    assert head.of_row(rows.sum(axis=0))[1] > 1e-2


def test_what_is_implied_by_all_rows_is_what_each_alone_says() -> None:
    model, params = pooled(64, 32, 2)
    head, rows = HeadGradient.of(seen(model, params, GRAPHS)), own_rows(*pooled(64, 32, 2), GRAPHS)
    together, rest = head.explained(rows)
    np.testing.assert_allclose(together, [head.of_row(row)[0] for row in rows], rtol=1e-3)
    assert rest.max() < 1e-4 and head.explained(rows[::-1] + rows)[1].max() > 1e-2


@pytest.mark.parametrize("labels", [(1, 1), (0, 1)])
def test_equal_graphs_share_a_row_and_keep_their_labels(labels: tuple[int, int]) -> None:
    model, params = pooled(64, 2)
    graphs = [Graph(GRAPHS[0].x, GRAPHS[0].edges, y) for y in labels] + GRAPHS[1:2]
    head = HeadGradient.of(seen(model, params, graphs, "bce"))
    rows = masks.pooled_rows(head, FOREVER)
    assert rows is not None and len(rows) == 2
    found = sorted(part.labels for part in parts_of(head, rows))
    assert found == sorted([tuple(sorted(labels)), (GRAPHS[1].y,)])


@pytest.mark.parametrize(
    ("own", "seen_", "most", "labels"),
    [
        (([1.0, -1.0], [-0.3, 0.3]), [1.0, -1.0], 3, (0,)),
        (([1.0, -1.0], [-0.3, 0.3]), [1.7, -1.7], 3, (0, 0, 1)),
        (([1.0, -1.0], [-0.3, 0.3]), [1.7, -1.7], 2, None),
        (([1.0, -1.0], [2.0, -2.0]), [2.0, -2.0], 1, (1,)),
        (([1.0, -1.0], [2.0, -2.0]), [2.0, -2.0], 2, None),
        (([1.0, -1.0], [-0.3, 0.3]), [1.0009, -1.0], 1, (0,)),
        (([1.0, -1.0], [-0.3, 0.3]), [1.002, -1.0], 1, None),
    ],
    ids=["one", "three", "too many", "the second", "two choices", "rounding", "none"],
)
def test_labels_are_the_only_ones_whose_gradients_add_up(
    own: tuple[list[float], ...],
    seen_: list[float],
    most: int,
    labels: tuple[int, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, params = pooled(64, 2)
    head = HeadGradient.of(seen(model, params, GRAPHS))
    monkeypatch.setattr(parts, "_labelled", lambda _, __, label: np.array(own[label]))
    row = np.zeros(head.columns.shape[0])
    assert parts._labels(head, row, np.array(seen_), most) == labels
    tried = 0 if labels is None else sum(2 if n == 1 else n + 1 for n in range(1, most + 1))
    if tried:
        monkeypatch.setattr(parts, "MULTISETS", tried)
        assert parts._labels(head, row, np.array(seen_), most) == labels
        monkeypatch.setattr(parts, "MULTISETS", tried - 1)
        assert parts._labels(head, row, np.array(seen_), most) is None, "more than are tried"


def test_a_row_has_as_many_graphs_as_the_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has one at least: of three graphs with two rows two may be equal."""
    model, params = pooled(64, 2)
    head, asked = HeadGradient.of(seen(model, params, GRAPHS)), list[int]()
    monkeypatch.setattr(parts, "_labels", lambda _, __, ___, most: asked.append(most))
    for size in (3, 5):
        larger = dataclasses.replace(head, observation=dataclasses.replace(head.observation, batch_size=size))
        assert parts_of(larger, own_rows(model, params, GRAPHS)) == ()
    assert asked == [1] * 3 + [3] * 3


def test_a_row_is_a_graphs_own_gradient_of_the_readout_or_where_no_label_explains_it_nothing() -> None:
    model, params = pooled(64, 2)
    observation = seen(model, params, GRAPHS)
    head, rows = HeadGradient.of(observation), own_rows(model, params, GRAPHS)
    each = each_gradient(observation, DATA.space, GRAPHS)
    for part, own, graph in zip(parts_of(head, rows), each, GRAPHS, strict=True):
        alone = part.observation
        assert (part.labels, alone.batch_size, alone.protocol) == ((graph.y,), 1, "fedsgd")
        assert [name for name in alone.update if alone.model.trains(name)] == ["readout"]
        gaps = jax.tree.map(lambda a, b: np.abs(a - len(GRAPHS) * b).max(), alone.update["readout"], own["readout"])
        assert max(jax.tree.leaves(gaps)) < 1e-6
    assert len(parts_of(head, np.r_[rows[:2], rows[2:] * 1.5])) < 3


def test_parts_of_the_gradient_add_up_and_what_they_leave_is_the_rest() -> None:
    model, params = pooled(64, 2)
    observation = seen(model, params, GRAPHS)
    each = each_gradient(observation, DATA.space, GRAPHS)
    assert distance(observation, each) < 1e-6
    assert distance(observation, without(each, 0)) > 0.1
    two, left, alone = (
        remaining(observation, each[:1]),
        remaining(observation, each[:2]),
        seen(model, params, GRAPHS[2:]),
    )
    second = jax.tree.map(lambda part: 3 / 2 * part, each[1])  # one of two graphs, which was one of three
    for one in (left, remaining(two, [second])):
        assert one.batch_size == 1
        gaps = jax.tree.map(lambda a, b: np.abs(a - b).max(), one.update, alone.update)
        assert max(jax.tree.leaves(gaps)) < 1e-6


def test_a_smaller_size_that_was_cut_short_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for graphs of up to 40 nodes ends early, that for larger ones finds one: it is not the only one."""
    model, params = pooled(64, 2)
    observation = seen(model, params, GRAPHS)
    head, problem = HeadGradient.of(observation), CensusProblem.of(observation, Knowledge(DATA.space, prior="molecule"))
    levels = next(CensusCandidates(problem, FOREVER, Budget()).attempts(FOREVER))
    states, rows = root_states(model, params, levels, FOREVER), masks.pooled_rows(head, FOREVER)
    assert states is not None and rows is not None
    one = ExplainingGraph(GRAPHS[0], 0.0, GRAPHS[0].canonical_form())
    sets = [CUT, AnonymitySet((one,))]
    monkeypatch.setattr(members, "assemble", lambda *given: sets.pop(0))
    before = members.Member.of(problem, parts_of(head, rows)[0])
    assert not before.found.graphs and not before.found.exhausted, "without any search nothing is excluded"
    member = members.taken(before, levels, states, FOREVER)
    assert member.found.graphs == (one,) and not member.found.exhausted


def test_a_ray_is_found_where_the_cone_is_one_line() -> None:
    """Of blocks that occur in one graph alone nothing but their counts is in the cone."""
    model, params = pooled(64, 32, 2)
    observation = seen(model, params, GRAPHS[:1])
    problem = CensusProblem.of(observation, Knowledge(DATA.space, prior="molecule"))
    levels = next(CensusCandidates(problem, FOREVER, Budget()).attempts(FOREVER))
    states = root_states(model, params, levels, FOREVER)
    assert states is not None
    head = HeadGradient.of(observation)
    occurring = rays._occurring(rays._system(head, levels, states), DEFAULTS.limits, FOREVER)
    less = dataclasses.replace(levels, hops=(*levels.hops[:-1], levels.top.keep(occurring)))
    assert rays._null(rays._system(head, less, states[occurring])).shape[1] == 1
    found = rays.pooled_rows(head, less, states[occurring], DEFAULTS.limits, FOREVER)
    assert same(found, own_rows(model, params, GRAPHS[:1]))
    none = dataclasses.replace(levels, hops=(*levels.hops[:-1], levels.top.keep(np.zeros(len(states), bool))))
    assert not len(rays.pooled_rows(head, none, states[:0], DEFAULTS.limits, FOREVER)), "of no blocks, no rows"


@pytest.mark.parametrize(
    ("share", "blur", "kept"),
    [
        (1, 0.0, [True, True, False, False]),
        (2, 0.0, [True, True, True, False]),
        (1, 0.49, [True, True, False, False]),
        (1, 0.5, [True, True, True, True]),
    ],
)
def test_a_block_whose_state_is_more_than_the_pooled_row_allows_occurs_in_no_graph(
    share: int, blur: float, kept: list[bool]
) -> None:
    """Of a mean over two nodes twice the row is allowed; rounding is a share of an entry, and of the largest."""
    states, pooled = np.array([[1.0, 0.0], [4.0, 2.0], [8.0, 4.0], [1.0, 5.0]]), np.array([4.0, 2.0])
    assert members._possible(states, pooled, share, blur).tolist() == kept
    assert members._possible(states - 2.0, pooled, share, blur).all(), "a negative state may cancel another"


CONE = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 1.0, 0.0]]).T
"""Two rays that share a block, and a block that neither has."""


def test_blocks_that_no_vector_of_a_cone_has_are_excluded() -> None:
    """The null space of three equations: one is the shape of the cone, the others leave the last block out."""
    system = linalg.null_space(CONE.T).T
    assert rays._occurring(system, DEFAULTS.limits, FOREVER).tolist() == [True, True, True, False]
    opposed = np.r_[np.c_[system, -system[:, :1]], [[0.0] * 4 + [1.0]]]
    assert rays._occurring(opposed, DEFAULTS.limits, FOREVER).tolist() == [True, True, True, False, False]
    late = rays._occurring(system, DEFAULTS.limits, Budget(time_limit=0.0).start())
    assert late.tolist() == [True] * 4, "without time everything stays"


def test_the_shortest_vector_with_a_block_is_the_ray_that_has_it() -> None:
    """Its own block says which; of what both have the shorter one, in units of that block."""
    null = rays._null(linalg.null_space(CONE.T).T)
    assert null.shape == (4, 2)
    for block, wanted in ((0, [1.0, 0.0, 2.0, 0.0]), (1, [0.0, 1.0, 1 / 3, 0.0]), (2, [0.5, 0.0, 1.0, 0.0])):
        found = rays._shortest(null, block)
        assert found is not None
        np.testing.assert_allclose(found, wanted, atol=1e-9)
        assert found.min() >= 0.0
    assert rays._null(np.zeros((3, 0))).shape == (0, 0)
    line = np.array([[1.0], [-1.0]]) / np.sqrt(2)
    assert rays._shortest(line, 0) is None, "no vector is without a negative count"
    alone = rays._shortest(np.array([[1.0], [1.0]]) / np.sqrt(2), 1)
    assert alone is not None and np.allclose(alone, [1.0, 1.0])


def test_of_a_sum_rows_are_those_of_small_multiples_of_the_rarest_block() -> None:
    """Of a mean there is one; a count of rounding is none."""
    states, ray = np.arange(6.0).reshape(3, 2), np.array([2.0, 4.0, 1e-3])
    model, params = pooled(64, 2)
    observation = seen(model, params, GRAPHS)
    head, total = HeadGradient.of(observation), pooled(64, 2, pooling="sum")[0]
    summed = dataclasses.replace(head, observation=dataclasses.replace(observation, model=total))
    for one, scales in ((head, [1 / 6.001]), (summed, [k / 2.0 for k in range(1, rays.COVERS + 1)])):
        np.testing.assert_allclose(
            rays._rows_of(one, states, ray), [scale * (states.T @ ray) for scale in scales], rtol=1e-12
        )


@pytest.mark.parametrize(
    ("values", "rank"),
    [
        ([1.0, 0.5, 0.4, 1e-3], 3),
        ([1.0, 1e-3, 1e-4, 1e-5], 1),
        ([1.0, 0.9, 0.8, 0.3, 1e-9], 3),
        ([1.0], 1),
        ([1.0, 0.9], 1),
        ([1.0, 1e-8, 1e-9], 1),
    ],
    ids=["three", "one", "no more than graphs", "a single value", "of two", "rounding"],
)
def test_a_path_adds_faint_directions_behind_the_largest_gap(values: list[float], rank: int) -> None:
    model, params = pooled(64, 2)
    assert head_module._largest_gap(np.array(values), seen(model, params, GRAPHS)) == rank


def test_a_row_whose_part_cannot_lower_the_rank_has_none() -> None:
    """One beside the space of pooled rows."""
    model, params = pooled(64, 2)
    head = HeadGradient.of(seen(model, params, GRAPHS))
    beside = np.linalg.svd(head.columns)[0][:, -1]
    assert abs(head.of_row(beside + 0.0)[1]) > 0
    s, outside = dataclasses.replace(head, values=np.full(3, np.inf)).of_row(beside)
    assert outside == np.inf and not s.any()


@pytest.mark.parametrize(
    ("fitting", "explained", "found"),
    [
        ({(0, 1, 2)}, {(0, 1, 2)}, (0, 1, 2)),
        ({(0, 1, 3), (1, 2, 3)}, {(1, 2, 3)}, (1, 2, 3)),
        ({(0, 1, 2), (1, 2, 3)}, {(0, 1, 2), (1, 2, 3)}, None),
        ({(0, 1, 2)}, set(), None),
        (set(), {(0, 1, 2)}, None),
    ],
    ids=["one", "one of two", "two", "not explained", "contradicted"],
)
def test_rows_are_those_of_the_only_choice_of_vectors_that_explains_the_gradient(
    fitting: set[tuple[int, ...]],
    explained: set[tuple[int, ...]],
    found: tuple[int, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three of four vectors, named by their first entries."""
    model, params = pooled(64, 2)
    head, vectors = HeadGradient.of(seen(model, params, GRAPHS)), np.c_[np.arange(4.0), np.zeros((4, 2))]

    def rows(_: Any, chosen: np.ndarray, __: Any) -> np.ndarray | None:
        return chosen if tuple(chosen[:, 0].astype(int).tolist()) in fitting else None

    def rest(_: Any, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        right = tuple(some[:, 0].astype(int).tolist()) in explained
        return some, np.array([0.0, masks.CONSISTENT if right else 1.01 * masks.CONSISTENT, 0.0])

    monkeypatch.setattr(masks, "_rows", rows)
    monkeypatch.setattr(HeadGradient, "explained", rest)
    units = np.arange(5)
    made = masks._explaining(head, vectors, units, FOREVER)
    assert (None if made is None else tuple(made[:, 0].astype(int).tolist())) == found
    assert masks._explaining(head, vectors, units, Budget(time_limit=0.0).start()) is None
    assert masks._explaining(head, vectors[:2], units, FOREVER) is None, "fewer than the gradient has dimensions"
    monkeypatch.setattr(masks, "SUBSETS", 3)
    assert masks._explaining(head, vectors, units, FOREVER) is None, "four choices are too many"
    monkeypatch.setattr(masks, "SUBSETS", 4)
    made = masks._explaining(head, vectors, units, FOREVER)
    assert (made is None) == (found is None)


def test_numbers_of_graphs_begin_at_the_rank_of_a_pooled_rows_gradient() -> None:
    """Where rows are found the labels say how many they are; behind a readout a node nothing does."""
    ended, model = Budget(time_limit=0.0).start(), pooled(64, 2)[0]
    params = some_params(model)
    two = seen(model, params, GRAPHS[:2], "bce")
    assert list(numbers_of_graphs(two, FOREVER)) == [2]
    assert list(numbers_of_graphs(two, ended)) == list(range(2, MOST + 1))
    assert list(numbers_of_graphs(seen(model, params, GRAPHS[:1], "bce"), FOREVER)) == [1]
    several = dataclasses.replace(two, protocol="fedavg", local=LocalTraining(0.05, 2))
    assert list(numbers_of_graphs(several, ended)) == list(range(1, MOST + 1))
