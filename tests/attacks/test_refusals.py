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
from jgleak.gnn import GNN, MLP, BatchNorm, Flattened, GCNConv, Layer, NodeMLP, NodeScores, Pooled
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

CENSUS: dict[str, tuple[GNN, Mapping[str, Any], Mapping[str, Any], str]] = {
    "real features": (GRAPH, {}, {"space": REAL}, "this feature space has real-valued ones"),
    "raw words": (GRAPH, {}, {"space": WORDS}, "words in raw columns do not tell"),
    "frozen, in training mode": (TRAINING.clone(frozen=("readout/mlp/linears_1",)), {}, {}, "train all parts"),
    "frozen readout": (GRAPH.clone(frozen=("readout",)), {}, {}, "from the readout, where readout is frozen"),
    "frozen first layer": (
        GNN(SPACE.width, layers(), BLIND, frozen=("layers_0",)),
        {},
        {},
        "so that feature values cannot be checked",
    ),
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
    for attack, model in (("census", GRAPH), ("census", TRAINING.clone(layers=layers())), ("grain", GRAPH)):
        assert get_attack(attack).unsupported(seen(model, {}), Knowledge(SPACE, n=4)) is None


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
