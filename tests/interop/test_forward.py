"""A forward pass by the names of its arrays, and the warning where nothing compares it with the original."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from jgleak.federated import LocalTraining
from jgleak.interop import Client, from_arrays, from_weights
from jgleak.interop.forward import forward_pass
from jgleak.interop.layers import (
    GAT,
    GCN,
    GIN,
    GINE,
    LE,
    SAGE,
    BatchNorm,
    GATv2,
    GraphConv,
    LayerNorm,
    Linear,
    NamedLayer,
    Step,
)
from tests.interop.conftest import HEAD, Stranger


def named(steps: list[Step]) -> list[Step]:
    """The same list with the names alone."""
    return [step.name if isinstance(step, NamedLayer) else step for step in steps]


@pytest.mark.parametrize("name", ["gcn", "gat", "sage", "gin", "gcn_scores"])
def test_a_name_stands_for_the_layer_that_has_these_arrays(name: str, strangers: dict[str, Stranger]) -> None:
    one = strangers[name]
    given: dict[str, Any] = {**one.given, "layers": named(one.layers)}
    concat = [GAT("conv2", concat=False) if step == "conv2" and name == "gat" else step for step in given["layers"]]
    assert from_arrays(**{**given, "layers": concat}, example=one.example).model == (
        from_arrays(**one.given, example=one.example).model
    )


@pytest.mark.parametrize(
    ("name", "prefix", "kind"),
    [
        ("gat_residual", "conv1", GAT),
        ("composed", "encoder", Linear),
        ("composed", "norm1", BatchNorm),
        ("composed", "norm2", LayerNorm),
        ("composed", "conv1", GCN),
        ("composed", "conv2", GATv2),
        ("composed", "conv3", LE),
        ("bonds", "convs.0", GINE),
        ("sums", "convs.0", GraphConv),
        ("sums", "convs.1", SAGE),
        ("gin", "conv2", GIN),
        ("training", "convs.0.nn.1", BatchNorm),
    ],
)
def test_arrays_tell_the_kinds_apart(
    name: str, prefix: str, kind: type[NamedLayer], strangers: dict[str, Stranger]
) -> None:
    assert forward_pass([prefix], strangers[name].state, None) == [kind(prefix)]


def test_what_several_kinds_look_like_is_not_guessed() -> None:
    """A map without bias looks like a table of embeddings; a scale without its bias, or with more, is no norm here."""
    matrix, row = np.ones((3, 4)), np.ones(4)
    norm = {"n.weight": row, "n.bias": row, "n.mean_scale": row}
    for arrays in ({"n.weight": matrix}, {"n.weight": row}, norm, {"n.lin.weight": matrix, "n.lin.bias": row}):
        with pytest.raises(ValueError, match="the arrays of 'n' .* do not determine the kind of layer; write it as"):
            forward_pass(["n"], arrays, None)


def test_a_description_that_nothing_is_compared_with_is_warned_of_once(strangers: dict[str, Stranger]) -> None:
    one, client = strangers["gcn"], Client(local=LocalTraining(0.1))
    after = {name: weight - np.float32(0.1) * one.gradient[name] for name, weight in one.state.items()}
    with pytest.warns(UserWarning, match="nothing compares jgleak's model with yours.*; give example=") as caught:
        from_arrays(**one.given)
        from_weights(one.state, after, one.layers, loss=one.loss, client=client)
    assert len(caught) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_arrays(**one.given, example=one.example)


def test_layers_by_name_still_end_where_the_model_does(strangers: dict[str, Stranger]) -> None:
    """An option that no array shows is that of a layer as it comes, and the example refuses another one."""
    given: dict[str, Any] = {**strangers["gat_residual"].given, "layers": ["conv1", "elu", GAT("conv2", concat=False)]}
    with pytest.raises(ValueError, match="the description's output differs"):
        from_arrays(**given, example=strangers["gat_residual"].example)  # its slope is 0.1
    assert HEAD[0] == forward_pass(["lin1"], strangers["gcn"].state, None)[0]
