"""The census on batch normalisation in training mode: exact, with the number of nodes or without, or refused."""

from __future__ import annotations

import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from jgleak import Budget, Knowledge, get_attack
from jgleak.attacks.census import number_of_nodes as counting
from jgleak.attacks.census.number_of_nodes import EXPLAINED, FITS, number_of_nodes
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.small_numbers import TRIED
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.datasets import load
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import fedsgd
from jgleak.federated.statistics import deviation_blur
from jgleak.gnn import GNN, MLP, BatchNorm, GCNConv, GINConv, GraphNorm, Layer, Pooled
from jgleak.graph import Graph
from tests.clocks import HELD

NORM = BatchNorm(training=True)
DATA = load("embedded")


def gin(width: int = 48, **inside: Any) -> tuple[Layer, ...]:
    return tuple(Layer(GINConv(width, bias=True, **inside), norm=NORM) for _ in range(2))


MODELS = {
    "behind GIN": gin(),
    "behind GIN, and inside the second": (gin()[0], Layer(GINConv(48, widths=(96,), norm=NORM), norm=NORM)),
    "behind a wide GCN": (Layer(GCNConv(DATA.space.width), norm=NORM), Layer(GCNConv(40))),
}


@functools.cache
def observed(name: str, layers: tuple[Layer, ...], pooling: str = "mean") -> tuple[Any, Any]:
    model = GNN(DATA.space.width, layers, Pooled(pooling, MLP((16, 2))))
    graph = next(graph for graph in DATA.graphs if graph.name.startswith(name))
    return graph, fedsgd(model, model.initial(key=jax.random.key(0)), [graph], DATA.space, loss="ce")


def attacked(observation: Any, n: int | None, attack: Any = None) -> Any:
    return (attack or get_attack("census"))(
        observation, Knowledge(DATA.space, n=n, max_n=20), key=jax.random.key(1), budget=Budget(time_limit=120)
    )


@pytest.mark.parametrize(
    ("model", "pooling"), [("behind GIN, and inside the second", "sum"), ("behind a wide GCN", "mean")]
)
@pytest.mark.long
def test_the_graph_is_found_and_no_other(model: str, pooling: str) -> None:
    graph, observation = observed("indole", MODELS[model], pooling)
    found = attacked(observation, graph.n)
    assert found.best.isomorphic(graph) and found.certificate.status == "unique"
    assert found.gradient_distance < 1e-4
    assert "the returned running statistics are those of this graph alone" in found.certificate.conditions


@pytest.mark.long
def test_the_rounding_of_statistics_is_allowed_for() -> None:
    # few nodes: in some columns the deviation, which rows are divided by, is so small that rounding moves it
    graph, observation = observed("phenol", MODELS["behind GIN"])
    strict = get_attack("census").with_options({"statistics_margin": 1e-6, "enumerated_nodes": 0})
    assert not attacked(observation, graph.n, strict).graphs
    found = attacked(observation, graph.n)
    assert found.best.isomorphic(graph) and found.certificate.status == "unique"


@pytest.mark.long
def test_the_number_of_nodes_follows_from_the_statistics() -> None:
    graph, observation = observed("indole", gin())
    found = attacked(observation, None)
    assert found.best.isomorphic(graph) and found.certificate.status == "unique"
    assert found.gradient_distance < 1e-4
    assert any(f"the graph has {graph.n} nodes" in said for said in found.certificate.conditions)


@pytest.mark.long
def test_where_the_first_layer_has_no_norm_the_number_is_asked_for_or_tried() -> None:
    graph, observation = observed("indole", (Layer(GINConv(48)), gin()[0]))
    tries_none = get_attack("census").with_options({"enumerated_nodes": 0})
    assert "set it (--n)" in attacked(observation, None, tries_none).info["reason"]
    assert attacked(observation, graph.n).best.isomorphic(graph)
    tried = attacked(observation, None)
    assert tried.best.isomorphic(graph) and tried.certificate.status == "at_least_k"
    assert TRIED.format(graph.n) in tried.certificate.conditions


def test_tolerances_allow_for_the_rounding_of_statistics() -> None:
    """Of rows, and of residuals as much as the deviation may be off, between what an exact update has and the most."""
    graph, observation = observed("indole", gin())
    exact, knowledge = DEFAULTS.tolerances, Knowledge(DATA.space, n=graph.n)
    assert observation.statistics is not None
    off = deviation_blur(observation.model, observation.params, observation.statistics)
    least, most = exact.missing_residual, exact.statistics_residual
    for wanted, margin in ((least, 0.0), ((least + most) / 2, (least + most) / 2 / off), (most, 2 * most / off)):
        settings = dataclasses.replace(DEFAULTS, tolerances=dataclasses.replace(exact, statistics_margin=margin))
        made = CensusProblem.of(observation, knowledge, settings).tolerances
        assert made.missing_residual == made.census_residual == pytest.approx(wanted)
        assert made.span.row_least == exact.span.statistics_row > exact.span.row_least


def test_what_is_missing_is_said() -> None:
    graph, observation = observed("indole", gin())
    census, grain = get_attack("census"), get_attack("grain")
    knowledge = Knowledge(DATA.space, n=graph.n)
    bare = dataclasses.replace(observation, statistics=None)
    assert "no running statistics were returned" in str(census.refusal(bare, knowledge))
    assert "which noise and pruning change" in str(
        census.refusal(observation, dataclasses.replace(knowledge, noise=1e-6))
    )
    assert "a norm depends on all nodes" in str(grain.refusal(observation, knowledge))
    _, narrow = observed("indole", (Layer(GCNConv(40), norm=NORM), Layer(GCNConv(40))))
    assert "hides a direction of the input rows" in str(census.refusal(narrow, knowledge))


def test_graph_norm_is_refused_by_its_name() -> None:
    graph, observation = observed("indole", (Layer(GINConv(48), norm=GraphNorm()), Layer(GINConv(48))))
    knowledge = Knowledge(DATA.space, n=graph.n)
    assert "the norm 'graph' depends on all nodes" in str(get_attack("census").refusal(observation, knowledge))
    assert "a norm depends on all nodes" in str(get_attack("grain").refusal(observation, knowledge))
    assert get_attack("dlg").refusal(observation, knowledge) is None


def test_a_bound_of_one_node_leaves_no_number_that_statistics_tell(lab: Any) -> None:
    """One row has no variance."""
    space = FeatureSpace((onehot("kind", "abc"),))
    model = GNN(3, (Layer(GINConv(16), norm=NORM),), Pooled("mean", MLP((2,))))
    graph = Graph(np.zeros((3, 1), int), np.array([(0, 1), (1, 2)]), 1)
    observation = fedsgd(model, lab.params(model), [graph], space, loss="ce")
    with pytest.raises(ConditionFailed, match="do not determine the number of nodes"):
        number_of_nodes(observation, Knowledge(space, max_n=1), DEFAULTS, Budget(time_limit=60).start(), Budget())


@pytest.mark.parametrize(
    ("misfits", "most", "number"),
    [
        ({4: 1e-4}, 6, 4),
        ({4: EXPLAINED}, 6, 4),
        ({4: 1.01 * EXPLAINED}, 6, None),
        ({4: 1e-4, 5: FITS * 1e-4}, 6, None),
        ({4: 1e-4, 5: 1.01 * FITS * 1e-4}, 6, 4),
        ({2: 1e-4}, 20, 2),
        ({50: 1e-4}, None, 50),
        ({50: 1e-4, 90: 1e-6}, None, 50),
        ({30: 2e-4, 70: 1e-4}, None, 30),
        ({30: 2e-4, 31: 3e-4, 70: 1e-4}, None, None),
    ],
    ids=[
        "one",
        "explained",
        "not explained",
        "two",
        "hardly two",
        "the smallest",
        "the second round",
        "the first round that has any",
        "the better one later",
        "none alone",
    ],
)
def test_the_number_is_the_only_one_whose_misfit_is_small(
    misfits: dict[int, float], most: int | None, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, observation = observed("indole", gin())
    asked, blocks = list[int](), SimpleNamespace(size=1)

    def misfit(*_: Any) -> Any:
        return lambda n: asked.append(n) or misfits.get(n, 1.0)

    monkeypatch.setattr(counting, "_misfit", misfit)
    monkeypatch.setattr(counting, "one_hop", lambda *_, **__: blocks)
    knowledge = Knowledge(DATA.space, max_n=most)

    def found(settings: Any = DEFAULTS) -> int | None:
        try:
            return number_of_nodes(observation, knowledge, settings, HELD, Budget())
        except ConditionFailed as error:
            assert "do not determine the number of nodes" in str(error)
            return None

    assert found() == number and min(asked) == 2
    limits = dataclasses.replace(DEFAULTS.limits, blocks_counted=5)
    for blocks.size in (0, 6):
        assert found(dataclasses.replace(DEFAULTS, limits=limits)) is None, "no blocks, or too many"
    blocks.size = 5
    assert found(dataclasses.replace(DEFAULTS, limits=limits)) == number
