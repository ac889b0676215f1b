"""What the bridge does not take: one sentence each, with what, why and what instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jgleak.interop import GAT, GCN, GIN, GINE, SAGE, BatchNorm, Embeddings, LayerNorm, Linear, from_arrays
from tests.interop.conftest import HEAD, UNCOMPARED, Stranger

pytestmark = UNCOMPARED

Change = Callable[[dict[str, Any]], Any]


def put(tree: str, name: str, value: Any) -> Change:
    return lambda given: given[tree].__setitem__(name, value)


def drop(tree: str, name: str) -> Change:
    return lambda given: given[tree].pop(name)


def both(name: str, value: Any) -> Change:
    """The same array in both trees; None is as good as absent."""
    return lambda given: [given[tree].__setitem__(name, value) for tree in ("state", "gradients")]


def say(*layers: Any) -> Change:
    return lambda given: given.update(layers=[*layers])


VECTOR = np.ones(6, np.float32)


def graph_norm(given: dict[str, Any]) -> None:
    given["state"] |= {f"norm.{part}": VECTOR for part in ("bias", "weight", "mean_scale")}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("gcn", say(GCN("conv1"), "relu", "dropout", GCN("conv2"), "mean", *HEAD), "'dropout': .* after model.eval"),
        ("gcn", say(GCN("conv1"), "batch_norm", "relu", GCN("conv2"), "mean", *HEAD), r"name it, BatchNorm\('..'\)"),
        ("gcn", put("state", "norm.running_mean", VECTOR), r"'norm.running_mean' belongs .* write BatchNorm\('norm'\)"),
        ("gcn", put("state", "norm.weight", VECTOR), r"'norm.weight' belongs .* write .* LayerNorm\('norm'\)"),
        (
            "gcn",
            graph_norm,
            "'norm.bias' belongs .* GraphNorm, which normalises over all nodes .*LayerNorm .* or BatchNorm",
        ),
        (
            "gin",
            say(GINE("conv1"), "relu", GIN("conv2"), "relu", "mean", *HEAD),
            "'conv1' has no map of edge features .* without edge_dim, .* Build it with edge_dim=4",
        ),
        ("gcn", put("gradients", "norm.num_batches_tracked", np.array(3)), "moved: .* training mode, .*eval"),
        ("gcn", put("state", "conv1.lin_edge.weight", np.ones((6, 2))), "attention to edge features, which is not"),
        ("gcn", put("state", "conv1.lin.bias", VECTOR), "a bias added before nodes are mixed"),
        ("gcn", put("state", "conv3.lin.weight", np.ones((6, 6))), "'conv3.lin.weight' belongs to no layer"),
        ("gcn", say(GCN("conv1", edge_weights=True), "relu"), "'conv1' is given edge weights; .*called without"),
        (
            "gcn",
            say("conv3", "relu"),
            r"'conv3' is neither one of the words relu.* nor are .*; there are those of conv1",
        ),
        (
            "gin",
            say("conv1.nn", "relu"),
            r"arrays of 'conv1.nn' \(0.bias, .*\) do not determine the kind of layer; write it",
        ),
        ("gcn", say("add", GCN("conv1"), "relu", "mean", *HEAD), "'add' stands before the first convolution"),
        ("gcn", say(Linear("lin"), "relu", GCN("conv1")), "'relu' stands between the encoder 'lin' and the first conv"),
        (
            "gcn",
            say(GCN("conv1"), "relu", LayerNorm("n"), GCN("conv2")),
            "'n', after 'relu', does not follow a conv.*order",
        ),
        ("gcn", say(GCN("conv1"), "add", "relu", GCN("conv2")), r"'relu', after 'add', .* h \+ relu\(conv\(h\)\), not"),
        (
            "gcn",
            say(GCN("conv1"), "relu", Linear("l"), GCN("conv2")),
            "'conv2' is a convolution, after 'l'; linear maps",
        ),
        (
            "gcn",
            say(GCN("conv1"), "relu", "mean", Linear("l"), BatchNorm("b")),
            "'b', after 'l', is a normalisation in the",
        ),
        ("gcn", say(GCN("conv1"), "relu", Linear("l"), "sum", Linear("m")), "'l' stands before the pool 'sum' and 'm'"),
        ("gcn", say(GCN("conv1"), "relu", GCN("conv2"), "jump_cat"), "'jump_cat' ends the list; class scores"),
        (
            "gcn",
            say(GCN("conv1"), "relu", "add", GCN("conv2"), "relu", "mean", *HEAD),
            "adds rows of 5 columns to 6; .*Resid",
        ),
        (
            "gcn",
            say(Embeddings("atoms"), GCN("conv1"), "relu", "mean", *HEAD),
            "needs 'atoms.0.weight', one table for each column",
        ),
        ("gcn", say(SAGE("conv1"), "relu", SAGE("conv2"), "relu", "mean", *HEAD), r"SAGE\('conv1'\) needs 'conv1.lin"),
        ("gcn", say(GCN("conv1"), GCN("conv2"), "mean", *HEAD), "no activation stands before 'conv2'"),
        (
            "gcn",
            say(GCN("conv1"), "relu", GCN("conv2"), "relu", "mean", *HEAD, "tanh", Linear("l")),
            r"several act.* \(relu, tanh\)",
        ),
        ("gcn", say(GCN("conv1"), "relu", GCN("conv2"), "max", *HEAD), "'max': a hard maximum is not additive"),
        ("gcn", say(GCN("conv1"), "relu", GCN("conv2"), "mean", *HEAD, "sigmoid"), "an activation follows the last"),
        ("gcn", say(GCN("conv1"), "relu", GCN("conv2"), "mean"), "there is no linear map"),
        ("gcn", say("mean", *HEAD), "there is no convolution"),
        ("gcn", say(GCN("conv1"), "relu", GCN("conv1"), "relu", "mean", *HEAD), "two of them use 'conv1.lin.weight'"),
        ("gcn", say(GCN("conv2"), "relu", GCN("conv1"), "relu", "mean", *HEAD), "'conv1.lin.weight' is .* would fit"),
        ("gcn", drop("state", "conv1.lin.weight"), "needs 'conv1.lin.weight' or .*; there is conv1.bias"),
        ("gcn", drop("gradients", "conv1.bias"), "gradient: 'conv1.bias' is missing; .*name those that are not"),
        (
            "gcn",
            put("gradients", "conv9.bias", VECTOR),
            "'conv9.bias' is not a parameter of this state; .*another model",
        ),
        ("gcn", put("gradients", "conv1.bias", np.ones(7)), r"shape \(7,\), the parameter \(6,\); .*another model"),
        ("gcn", put("state", "conv1.bias", np.full(6, np.nan)), "state: 'conv1.bias' holds NaN or infinite values"),
        ("gcn", put("gradients", "lin1.bias", np.full(4, np.inf)), "gradient: 'lin1.bias' holds NaN or infinite"),
        ("gcn", both("conv1.lin.weight", np.ones(6)), "expected 2 axes for a kernel, got shape"),
        ("gcn", put("state", "conv1.bias", "words"), "'conv1.bias' holds <U5, not numbers"),
        ("gcn", lambda given: given.update(gradients={}), "gradient: there is no array"),
        ("gcn", lambda given: given.update(reduction="max"), "reduction: .*'mean' or 'sum', got 'max'"),
        ("gcn", lambda given: given.update(loss="hinge"), "loss: unknown 'hinge'"),
        ("gat", say(GAT("conv1"), "relu", GAT("conv2"), "relu", "mean", *HEAD), "check the order of the layers"),
        ("gat", both("conv1.att_src", np.ones((2, 2, 3))), r"one vector a head \(1, heads, width\)"),
        ("gat", both("lin2.bias", None), "needs 'lin2.bias'; .*build it with bias=True"),
        ("gin", both("conv1.nn.0.bias", None), "'conv1' has no inner_bias, and its other maps have one"),
        (
            "gin",
            say(GIN("conv1", inside=[Linear("nn.0"), BatchNorm("n"), "relu", Linear("m"), "relu", Linear("nn.2")])),
            "1 normalisations inside 'conv1', which has 3 linear maps; here every map but the last has one",
        ),
        (
            "gin",
            say(GIN("conv1", inside=["relu", Linear("nn.0")])),
            "'relu', at the beginning inside 'conv1', does",
        ),
        (
            "gin",
            say(GIN("conv1", inside=[Linear("nn.0"), "relu", Linear("nn.2"), "elu"])),
            "inside 'conv1', .* are 'relu', 'elu'; here they are one",
        ),
        ("gin", put("state", "conv1.lin.weight", np.ones((6, 2))), "a map of edge features: write GINE"),
        ("gcn_scores", say(GCN("conv1"), "sigmoid", GCN("conv2"), "sigmoid"), "an activation ends the list"),
    ],
)
def test_a_model_that_no_attack_handles_is_refused(
    name: str, change: Change, message: str, strangers: dict[str, Stranger]
) -> None:
    given = strangers[name].given
    change(given)
    with pytest.raises(ValueError, match=message) as caught:
        from_arrays(**given)
    assert "\n" not in str(caught.value)


def test_a_role_that_a_layer_lacks_is_named() -> None:
    with pytest.raises(ValueError, match="'lin1' has no array 'weight'; its roles are kernel, bias"):
        Linear("lin1", names={"weight": "lin1.weight"})


def test_transposed_matrices_are_asked_about() -> None:
    rows, wide = np.ones((5, 7), np.float32), np.ones(7, np.float32)
    layers = [GCN("conv1"), "relu", "mean", Linear("out")]

    def refused(first: np.ndarray, bias: np.ndarray, out: np.ndarray) -> str:
        state = {"conv1.kernel": first, "conv1.bias": bias, "out.kernel": out, "out.bias": np.ones(1, np.float32)}
        with pytest.raises(ValueError, match="^state: ") as caught:
            from_arrays(state, {name: np.zeros_like(part) for name, part in state.items()}, layers, loss="bce")
        return str(caught.value)

    said = refused(rows.T, wide, wide[:, None])
    assert "'conv1.bias' has the shape (7,), and (5,) would fit the matrix before it; is that matrix transposed" in said
    said = refused(rows, wide, wide[None])
    assert "'out.kernel' is (1, 7) as (in, out)" in said and "it looks transposed ('kernel' is (in, out)" in said
    assert "transposed" not in refused(rows, wide, np.ones((3, 1), np.float32))
