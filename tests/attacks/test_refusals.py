"""What the exact attacks refuse before they look at the update, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest
from models import some_params

from jgleak import Knowledge, get_attack
from jgleak.features import FeatureSpace, binary, number, onehot, real
from jgleak.federated import Observation
from jgleak.gnn import GNN, MLP, BatchNorm, Flattened, GCNConv, GINEConv, Layer, NodeMLP, NodeScores, Pooled
from jgleak.gnn.tree import at

SPACE = FeatureSpace((onehot("colour", "rgb"), binary("ring")))
REAL = FeatureSpace((onehot("colour", "rgb"), real("charge")))
WORDS = FeatureSpace((*(binary(f"word {k}") for k in range(64)), number("degree", range(4))), degree="degree")


def layers(number: int = 2, **fields: Any) -> tuple[Layer, ...]:
    return tuple(Layer(GCNConv(8, bias=True), **fields) for _ in range(number))


def seen(model: GNN, marks: Mapping[str, Any]) -> Observation:
    """An update that is zero: what is refused does not depend on it."""
    params = some_params(model)
    returned = {
        layer: {norm: {name: at(params, (layer, norm))[name] for name in ("mean", "variance")}}
        for layer, norm in model.norms
    }
    update = jax.tree.map(np.zeros_like, params)
    return Observation(model, params, update, "ce", statistics=returned or None, **marks)


HEAD = NodeMLP(MLP((6, 2)))
POOLED = Pooled("mean", MLP((6, 2)))
GRAPH = GNN(SPACE.width, layers(), HEAD)
BLIND = NodeMLP(MLP((6, 2)), see_input=False)
NODES = NodeMLP(MLP((6, 2)), per_node=True)
TRAINING = GNN(SPACE.width, layers(norm=BatchNorm(training=True)), POOLED)
POOLED_GRAPH = GNN(SPACE.width, layers(), POOLED)

CENSUS: dict[str, tuple[GNN, Mapping[str, Any], Mapping[str, Any], str]] = {
    "real features": (GRAPH, {}, {"space": REAL}, "this feature space has real-valued ones"),
    "raw words": (GRAPH, {}, {"space": WORDS}, "words in raw columns do not tell"),
    "frozen, in training mode": (TRAINING.clone(frozen=("readout/mlp/linears_1",)), {}, {}, "train all parts"),
    "frozen readout": (GRAPH.clone(frozen=("readout",)), {}, {}, "from the readout, where readout is frozen"),
    "frozen first layer": (
        GNN(SPACE.width, layers(), BLIND, frozen=("layers_0",)),
        {},
        {},
        "the weights that take the nodes' own rows are frozen (layers_0)",
    ),
    "own rows in sums alone": (
        GNN(SPACE.width, (Layer(GINEConv(8)), *layers(1)), BLIND),
        {},
        {},
        "no linear map takes the nodes' own rows",
    ),
    "noise, in training mode": (TRAINING, {}, {"noise": 1e-3}, "which noise and pruning change"),
    "pruned, in training mode": (TRAINING, {"pruned": True}, {}, "which noise and pruning change"),
    "frozen first map behind a sum": (POOLED_GRAPH.clone(frozen=("readout/mlp/linears_0",)), {}, {}, "is frozen"),
    "frozen last map of nodes": (GRAPH.clone(frozen=("readout/mlp/linears_1",)), {}, {}, "is frozen"),
    "two graphs with noise": (GRAPH, {"batch_size": 2}, {"noise": 1e-3}, "the update mixes 2 graphs"),
    "maximum": (GNN(SPACE.width, layers(), Pooled("max", MLP((6, 2)))), {}, {}, "a readout that adds up over nodes"),
    "unknown prior": (GRAPH, {}, {"prior": "chemistry"}, "prior"),
    "labels of nodes, clipped": (GNN(SPACE.width, layers(), NODES), {"scaled": True}, {}, "only in its length"),
    "parts": (GRAPH, {}, {"connected": False}, "it assembles connected graphs only"),
}

GRAIN: dict[str, tuple[GNN, Mapping[str, Any], Mapping[str, Any], str]] = {
    "real features": (GRAPH, {}, {"space": REAL}, "this feature space has real-valued ones"),
    "raw words": (GRAPH, {}, {"space": WORDS}, "words in raw columns do not tell"),
    "one layer": (GNN(SPACE.width, layers(1), HEAD), {}, {}, "at least two convolutions"),
    "two layers, pooled": (GNN(SPACE.width, layers(), POOLED), {}, {}, "'pooled' is not one; use readout 'node_mlp'"),
    "two layers, maximum": (
        GNN(SPACE.width, layers(), HEAD, jump="max"),
        {},
        {},
        "does not show the states of 2-hop blocks under jump='max'",
    ),
    "frozen first layer": (GNN(SPACE.width, layers(3), BLIND, frozen=("layers_0",)), {}, {}, "show 0-hop blocks"),
    "frozen layers": (GNN(SPACE.width, layers(3), BLIND, frozen=("layers_1", "layers_2")), {}, {}, "show 2-hop blocks"),
    "flattened": (GNN(SPACE.width, layers(3), Flattened(5)), {}, {}, "depends on the order of nodes"),
    "scores of nodes": (GNN(SPACE.width, layers(3), NodeScores(8)), {}, {}, "'node_scores' is not one; use 'node_mlp'"),
    "labels of nodes, clipped": (GNN(SPACE.width, layers(3), NODES), {"scaled": True}, {}, "only in its length"),
}


@pytest.mark.parametrize(
    ("attack", "case"), [("census", name) for name in CENSUS] + [("grain", name) for name in GRAIN]
)
def test_the_reason_is_named(attack: str, case: str) -> None:
    model, marks, known, said = {"census": CENSUS, "grain": GRAIN}[attack][case]
    space = known.get("space", SPACE)
    model = model.clone(in_features=space.width)
    knowledge = Knowledge(**({"space": space, "n": 4} | dict(known)))
    reason = get_attack(attack).unsupported(seen(model, marks), knowledge)
    assert reason is not None and said in reason


def test_what_is_not_refused() -> None:
    """The plain cases beside those above."""
    labels = GNN(SPACE.width, layers(), NODES)
    for attack, model in (("census", GRAPH), ("census", POOLED_GRAPH), ("census", labels), ("grain", GRAPH)):
        assert get_attack(attack).unsupported(seen(model, {}), Knowledge(SPACE, n=4)) is None


@pytest.mark.parametrize(
    ("model", "marks", "known"),
    [
        (TRAINING, {}, {}),
        (GRAPH, {}, {"noise": 1e-3}),
        (GRAPH, {"pruned": True}, {}),
        (GRAPH, {"scaled": True}, {}),
        (GRAPH, {"batch_size": 2}, {}),
        (GRAPH.clone(frozen=("layers_1",)), {}, {}),
        (GRAPH.clone(frozen=("readout/mlp/linears_0",)), {}, {}),
        (POOLED_GRAPH.clone(frozen=("readout/mlp/linears_1",)), {}, {}),
    ],
    ids=["training", "noise", "pruned", "clipped", "two graphs", "layer frozen", "first map frozen", "last map frozen"],
)
def test_the_census_takes_one_of_what_it_does_not_take_together(
    model: GNN, marks: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    knowledge = Knowledge(**({"space": SPACE, "n": 4} | dict(known)))
    assert get_attack("census").unsupported(seen(model, marks), knowledge) is None


@pytest.mark.parametrize("name", ["census", "grain"])
def test_words_are_refused_only_where_no_gradient_shows_them(name: str) -> None:
    """Not where they are normalised, or stand beside a one-hot feature, or are known, or are searched as others are."""
    attack, whole = get_attack(name), WORDS.fit([np.eye(65, dtype=np.int32)])
    beside = FeatureSpace((*WORDS.features[:-1], onehot("degree", range(4))))
    known = Knowledge(WORDS, features=np.zeros((4, 65), np.int32))
    few = attack.with_options({"word_features": "65"})
    shown = (attack, Knowledge(whole, n=4)), (attack, Knowledge(beside, n=4)), (attack, known), (few, Knowledge(WORDS))
    for one, knowledge in shown:
        observation = seen(GRAPH.clone(in_features=knowledge.space.width), {})
        assert one.unsupported(observation, knowledge) is None
