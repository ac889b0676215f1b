"""What a problem allows for local steps, the numbers of nodes that are tried, and what batch statistics need."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import some_params

from jgleak.attacks.census.problem import CensusProblem, rounds_of, still
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, LocalTraining, Observation
from jgleak.federated.observation import STATISTICS
from jgleak.federated.statistics import moved
from jgleak.gnn import GNN, MLP, BatchNorm, GCNConv, Layer, Pooled
from jgleak.gnn.tree import at, put
from jgleak.graph import Graph, GraphBatch

SPACE = FeatureSpace((onehot("kind", "abc"),))
MODEL = GNN(3, (Layer(GCNConv(5)),), Pooled("mean", MLP((4, 2))))


def sent(model: GNN = MODEL, local: LocalTraining | None = None, **marks: Any) -> Observation:
    """An update of zeros."""
    zeros: Any = jax.tree.map(lambda s: np.zeros(s.shape), jax.eval_shape(lambda: model.initial(key=jax.random.key(0))))
    return Observation(model, zeros, zeros, "ce", protocol="fedavg" if local else "fedsgd", local=local, **marks)


@pytest.mark.parametrize(
    ("local", "graphs", "row"),
    [
        (None, 2, None),
        (LocalTraining(0.1, 1), 2, None),
        (LocalTraining(0.1, 2), 1, "moved_row"),
        (LocalTraining(0.1, 2, loader=1), 2, "moved_row"),
        (LocalTraining(0.1, 2), 2, "moved_batch_row"),
    ],
    ids=["one gradient", "one step", "one graph", "a graph a step", "all graphs in every step"],
)
def test_spans_allow_for_rows_that_move_along_local_steps(
    local: LocalTraining | None, graphs: int, row: str | None
) -> None:
    """Rows of several graphs leave no gap behind the rank, and are then allowed less."""
    plain, problem = DEFAULTS.tolerances, CensusProblem.of(sent(local=local, batch_size=graphs), Knowledge(SPACE))
    if row is None:
        assert problem.tolerances == plain
        return
    gap = 0.0 if row == "moved_batch_row" else plain.moved_gap
    span = dataclasses.replace(plain.span, rank_gap=gap, row_most=getattr(plain, row))
    assert problem.tolerances == dataclasses.replace(plain, span=span) != plain


@pytest.mark.parametrize(
    ("local", "several"), [(None, False), (LocalTraining(0.1, 1), False), (LocalTraining(0.1, 2), True)]
)
def test_several_steps_are_more_than_one(local: LocalTraining | None, several: bool) -> None:
    assert CensusProblem.of(sent(local=local), Knowledge(SPACE)).several is several


def test_numbers_of_nodes_are_tried_once_each_up_to_the_bound() -> None:
    """One that is known alone; without a bound those of the settings, the smaller ones first."""
    limits = dataclasses.replace(DEFAULTS.limits, size_rounds=(9, 4, 9))
    assert rounds_of(Knowledge(SPACE, n=5), limits) == [range(5, 6)]
    assert rounds_of(Knowledge(SPACE, max_n=5), limits) == [range(1, 6)]
    assert rounds_of(Knowledge(SPACE), limits) == [range(1, 5), range(5, 10)]
    problem = CensusProblem.of(sent(), Knowledge(SPACE), dataclasses.replace(DEFAULTS, limits=limits))
    assert problem.most_nodes == 9


def test_statistics_of_a_batch_need_those_that_returned_and_the_number_of_nodes() -> None:
    assert still(sent(), None).model is MODEL
    norm = MODEL.clone(layers=(Layer(GCNConv(5), norm=BatchNorm(training=True)),))
    seen = sent(norm)
    [path] = norm.norms
    there = {name: at(seen.params, path)[name] for name in STATISTICS}
    for statistics, n in ((None, 5), (put({}, path, there), None)):
        with pytest.raises(ValueError, match="the running statistics and the number of nodes are needed"):
            still(dataclasses.replace(seen, statistics=statistics), n)


def test_with_a_batch_s_own_statistics_evaluation_is_what_training_was() -> None:
    """The client's graph has the same outputs, and every norm is still."""
    model = MODEL.clone(layers=(Layer(GCNConv(5), norm=BatchNorm(training=True)),))
    graph = Graph(np.array([[0], [1], [2], [1]]), np.array([(0, 1), (1, 2), (1, 3)]))
    batch, params = GraphBatch.from_graphs([graph], SPACE).dense, some_params(model)
    dense = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), batch)
    seen = Observation(model, params, params, "ce", statistics=moved(model, params, dense))
    same = still(seen, graph.n)
    assert same.statistics is None and not same.model.returns_statistics and model.returns_statistics
    wanted, found = (one.model.apply({"params": one.params}, *dense) for one in (seen, same))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
