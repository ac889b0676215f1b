"""Live PyTorch Geometric models; run where torch and torch_geometric are installed."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.registry import get_attack
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, LocalTraining
from jgleak.federated.observation import flatten, load
from jgleak.graph import Graph
from jgleak.interop import (
    GIN,
    BatchNorm,
    Client,
    Example,
    Linear,
    Rounds,
    from_arrays,
    from_pyg,
    from_weights,
    steps_of,
)
from jgleak.precision import DIGITS, computed_noise, digits_of
from tests.interop.conftest import LAYERS, LOSSES, UNCOMPARED
from tests.interop.test_guide import run

pytestmark = UNCOMPARED

torch: Any = pytest.importorskip("torch", reason="torch is not installed: the committed fixture is tested instead")
geometric: Any = pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

WORDS = {
    "gcn": ["conv1", "relu", "conv2", "relu", "mean", "lin1", "relu", "lin2"],
    "gat": ["conv1", "relu", "conv2", "relu", "mean", "lin1", "relu", "lin2"],
    "gat_residual": ["conv1", "elu", "conv2"],
    "sage": ["conv1", "tanh", "conv2", "tanh", "mean", "lin1", "relu", "lin2"],
    "gin": ["conv1", "relu", "conv2", "relu", "mean", "lin1", "relu", "lin2"],
}


def made(name: str) -> tuple[Any, Any, Any]:
    """A model after a backward pass, its example, and its state from before."""
    from tests.interop.make_fixture import cases, inputs_of, loss_of, prepared

    torch.manual_seed(1)
    model, label, loss = cases()[name]
    sent = prepared(name, model)
    inputs = inputs_of(model)
    output = model(**inputs)
    loss_of(output, label, loss).backward()
    rows, edges, more = inputs["x"], inputs["edge_index"], (inputs.get("batch"), label, inputs.get("edge_attr"))
    return model, Example(rows, edges, output, *more), sent


@pytest.mark.parametrize("name", LAYERS)
def test_the_forward_pass_is_read_off_a_live_model(name: str) -> None:
    """With the example and without, it is the list that was written down by hand."""
    model, example, sent = made(name)
    loss = LOSSES.get(name, "ce")
    batch: dict[str, Any] = {"batch_size": 1 if example.batch is None else 2}
    gradients, buffers = {k: p.grad for k, p in model.named_parameters()}, dict(model.named_buffers())
    returned = {k: v.clone() for k, v in buffers.items()}
    wanted = from_arrays(sent, gradients, LAYERS[name], loss=loss, client=Client(buffers=returned), **batch)
    for shown in (example, None):
        seen = from_pyg(model, loss=loss, example=shown, sent=sent, **batch)
        assert seen.model == wanted.model
        for path, leaf in flatten(wanted.statistics or {}).items():
            np.testing.assert_array_equal(flatten(seen.statistics)[path], leaf)
        for path, leaf in flatten(wanted.update).items():
            np.testing.assert_array_equal(flatten(seen.update)[path], leaf)


@pytest.mark.parametrize("name", WORDS)
def test_a_live_model_says_what_its_arrays_say(name: str) -> None:
    model, example, _ = made(name)
    loss = LOSSES.get(name, "ce")
    seen = from_pyg(model, WORDS[name], loss=loss, example=example)
    gradients = {k: p.grad for k, p in model.named_parameters()}
    wanted = from_arrays(model.state_dict(), gradients, LAYERS[name], loss=loss)
    assert seen.model == wanted.model
    for path, leaf in flatten(wanted.update).items():
        np.testing.assert_array_equal(flatten(seen.update)[path], leaf)


def stack(**modules: Any) -> Any:
    """Any modules beside each other; the bridge never calls them."""
    return torch.nn.ModuleDict(modules).eval()


def test_modules_that_no_attack_handles_are_refused() -> None:
    gnn, nn = geometric.nn, torch.nn
    training = stack(conv1=gnn.GCNConv(3, 4), norm=nn.BatchNorm1d(4))
    training["norm"].train()
    inner = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Linear(4, 4))
    acted_first = gnn.MLP([3, 4, 4], act_first=True)
    cases: list[tuple[Any, list[str], str]] = [
        (
            training,
            ["conv1", "norm"],
            "'norm' is a BatchNorm1d in training mode, .* sent=.* after model.eval",
        ),
        (
            stack(norm=gnn.GraphNorm(4)),
            ["norm"],
            "'norm' is a GraphNorm, which normalises over .*build .* BatchNorm or LayerNorm",
        ),
        (
            stack(norm=gnn.LayerNorm(4)),
            ["norm"],
            "LayerNorm with mode='graph', .*build it with mode='node'",
        ),
        (stack(norm=nn.LayerNorm((4, 4))), ["norm"], "'norm' normalises 2 axes together; here it is a node's own"),
        (stack(norm=nn.LayerNorm(4, elementwise_affine=False)), ["norm"], "'norm' is a LayerNorm without 'weight'"),
        (stack(norm=nn.BatchNorm1d(4, affine=False)), ["norm"], "BatchNorm1d without 'weight'; .*affine=True"),
        (stack(norm=nn.BatchNorm1d(4, track_running_stats=False)), ["norm"], "build it with track_running_stats=True"),
        (
            stack(table=nn.Embedding(4, 4, padding_idx=0)),
            ["table"],
            "padding_idx=0, that is a row that is never",
        ),
        (stack(conv1=gnn.GATv2Conv(3, 4, share_weights=True)), ["conv1"], "one map for both ends"),
        (
            stack(jk=gnn.JumpingKnowledge("lstm", 4, 2)),
            ["jk"],
            r"Knowledge\('lstm'\); here it is 'cat' or 'max'",
        ),
        (stack(conv1=gnn.GCNConv(3, 4, improved=True)), ["conv1"], "improved=True, that is self-loops of weight 2"),
        (stack(conv1=gnn.GCNConv(3, 4, cached=True)), ["conv1"], "cached=True"),
        (
            stack(conv1=gnn.GATConv(3, 4, edge_dim=2)),
            ["conv1"],
            "edge_dim=2, that is attention whose .* without edge_attr",
        ),
        (stack(conv1=gnn.SAGEConv(3, 4, aggr="max")), ["conv1"], "aggr='max', that is another aggregation"),
        (stack(conv1=gnn.SAGEConv(3, 4, root_weight=False)), ["conv1"], "no weight for the node itself"),
        (stack(conv1=gnn.GINConv(inner)), ["conv1"], "'silu' of 'conv1.nn.0', .* the activations here are relu"),
        (stack(conv1=gnn.GINConv(acted_first)), ["conv1"], "'nn.norms.0', after 'relu' inside 'conv1', does not"),
        (stack(conv1=gnn.GINConv(nn.Linear(3, 4), aggr="max")), ["conv1"], "GINConv with aggr='max', .* than the sum"),
        (
            stack(conv1=gnn.GINEConv(nn.Linear(3, 4))),
            ["conv1"],
            "GINEConv without edge_dim, .* build it with edge_dim",
        ),
        (stack(conv1=gnn.TransformerConv(3, 4)), ["conv1"], "'conv1' is a TransformerConv, which is not read here"),
        (stack(conv1=gnn.GCNConv(3, 4), act=nn.GELU("tanh")), ["conv1", "act"], "GELU with approximate='tanh'"),
        (stack(conv1=gnn.GCNConv(3, 4)), ["conv2"], "no submodule 'conv2'; it has conv1"),
        (stack(conv1=gnn.GCNConv(3, 4)).train(), ["conv1"], "training mode, where functions such as F.dropout"),
        (
            stack(drop=nn.Dropout(0.5)).train(),
            ["drop"],
            r"'drop' \(rate 0.5\) .*, as F.dropout is then: .*after model.eval",
        ),
        (stack(conv1=gnn.GATConv(3, 4, dropout=0.6)).train(), ["conv1"], r"'conv1' \(rate 0.6\) is in training mode"),
        (stack(conv1=gnn.GCNConv(3, 4)), ["conv1"], "gradient: there is no array"),
    ]
    for model, layers, message in cases:
        with pytest.raises(ValueError, match=message):
            from_pyg(model, layers, loss="ce")


class Written:
    """Forward passes of two convolutions, by what is peculiar about each; made into modules by ``live``."""

    def dropping(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv2(torch.nn.functional.dropout(self.conv1(x, edge_index), 0.5), edge_index)

    def summed_first(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv2((self.conv1(x, edge_index) + x).relu(), edge_index)

    def skipped(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index) + x

    def squashed(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index).softmax(-1)

    def leaky(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv2(torch.nn.functional.leaky_relu(self.conv1(x, edge_index)), edge_index)

    def detached(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv2(self.conv1(x, edge_index).relu().detach(), edge_index)

    def scaled(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv2(self.conv1(x, edge_index).relu() * 0.5, edge_index)

    def turned(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index[:, :4])

    def weighted(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index, torch.ones(edge_index.shape[1]))

    def maximal(self: Any, x: Any, edge_index: Any, batch: Any) -> Any:
        states = self.conv2(self.conv1(x, edge_index).relu(), edge_index)
        return self.out(geometric.nn.global_max_pool(states, batch))

    def attentive(self: Any, x: Any, edge_index: Any, batch: Any) -> Any:
        return self.out(self.pool(self.conv1(x, edge_index), batch))

    def stacked(self: Any, x: Any, edge_index: Any) -> Any:
        first = self.conv1(x, edge_index)
        return torch.stack([first, self.conv2(first, edge_index)]).amax(dim=0)

    def both_pools(self: Any, x: Any, edge_index: Any, batch: Any) -> Any:
        states, pools = self.conv1(x, edge_index), (geometric.nn.global_mean_pool, geometric.nn.global_add_pool)
        return torch.cat([pool(states, batch) for pool in pools], dim=1)

    def paired(self: Any, x: Any, edge_index: Any) -> Any:
        first = self.conv1(x, edge_index)
        return first, self.conv2(first, edge_index)

    def featured(self: Any, x: Any, edge_index: Any, edge_attr: Any) -> Any:
        return self.conv1(x, edge_index)

    def embedded(self: Any, x: Any, edge_index: Any, edge_attr: Any) -> Any:
        return self.bonded(x, edge_index, 2 * edge_attr)

    def failing(self: Any, x: Any, edge_index: Any) -> Any:
        return self.conv1(x[:, :2], edge_index)


def live(forward: Any, **modules: Any) -> Any:
    """A model of two GCN layers of one width and a linear map, in evaluation mode."""
    parts = {"conv1": geometric.nn.GCNConv(4, 4), "conv2": geometric.nn.GCNConv(4, 4), "out": torch.nn.Linear(4, 4)}
    parts["pool"] = geometric.nn.MaxAggregation()
    model = type("Live", (torch.nn.Module,), {"forward": forward})()
    for name, part in (parts | modules).items():
        setattr(model, name, part)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return model.eval()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dropping", r"'dropout' of 'conv1', at test_module.py:\d+, .*: with dropout .* training=self.training"),
        ("summed_first", r"'relu', after 'add', follows what is added to 'conv1'; .* h \+ relu\(conv\(h\)\), not"),
        (
            "skipped",
            r"the sum of 'conv2' and the rows at test_module.py:\d+ is not understood; here what enters",
        ),
        ("squashed", "'softmax' of 'conv2', .* the losses here take logits"),
        ("leaky", "'leaky_relu' of 'conv1', .* the activations here are relu, gelu, sigmoid, tanh, elu"),
        ("attentive", "'pool' is a MaxAggregation, which is not read here; pool the nodes by mean or sum"),
        ("stacked", "'stack' of .*: join the states of all layers by torch.cat, a sum, or JumpingKnowledge"),
        ("detached", "'detach' of relu, .* no gradient passes it"),
        ("scaled", "'mul' of relu, at"),
        ("turned", "'conv2' is not given the edge_index that forward is given, at test_module.py"),
        ("weighted", "'conv2' is given more than rows and edge_index, .*: edge weights or features"),
        ("maximal", r"the maximum over nodes at .*: a hard maximum is not additive"),
        ("both_pools", r"several pools \(mean, sum\) are joined at"),
        ("paired", "its forward returns 2 things, 2 of which are made of the rows"),
        ("featured", "its forward needs 'edge_attr', and no GINEConv"),
        ("embedded", "'bonded' is given other edge features than the one-hot classes .*, at test_module.py"),
        ("failing", r"does not run on a small graph with rows \(7, 4\) .*give an example"),
    ],
)
def test_what_is_not_understood_is_named_with_its_place(name: str, message: str) -> None:
    bonded = {"bonded": geometric.nn.GINEConv(torch.nn.Linear(4, 4), edge_dim=3)} if name == "embedded" else {}
    with pytest.raises(ValueError, match=message):
        from_pyg(live(getattr(Written, name), **bonded), loss="ce")


def test_attention_that_edge_features_enter_is_named() -> None:
    model = live(Written.featured, conv1=geometric.nn.GATv2Conv(4, 4, edge_dim=3))
    with pytest.raises(ValueError, match=r"'conv1' is a GATv2Conv with edge_dim=3, .* GINEConv\(.., edge_dim=K\)"):
        from_pyg(model, loss="ce")


def test_log_probabilities_are_those_of_logits() -> None:
    """``nll_loss`` of them is the cross-entropy of what comes before: same output, same gradients."""

    def forward(self: Any, x: Any, edge_index: Any) -> Any:
        hidden = self.conv1(x, edge_index).relu()
        return torch.nn.functional.log_softmax(self.conv2(hidden, edge_index), dim=1)

    model = live(forward)
    del model.out
    x, edges, labels = torch.randn(4, 4), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([0, 3, 1, 2])
    model.zero_grad()
    output = model(x, edges)
    torch.nn.functional.nll_loss(output, labels).backward()
    for layers in (None, ["conv1", "relu", "conv2", "log_softmax"]):
        seen = from_pyg(model, layers, loss="ce", example=Example(x, edges, output, None, labels))
        assert seen.model.outputs == 4
    with pytest.raises(ValueError, match="'log_softmax' ends the list: cross-entropy; say loss='ce'"):
        from_pyg(model, loss="bce")


def test_a_maximum_and_an_mlp_of_the_readout_read_like_the_rest() -> None:
    """Models of PyTorch Geometric, whole, within another, and called as a function of their data."""
    gnn, nn = geometric.nn, torch.nn

    class Data(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gnn = gnn.GraphSAGE(3, 4, 2, jk="max", norm="batch_norm", dropout=0.5)
            self.head = gnn.MLP([4, 5, 2], norm=None, dropout=0.5)

        def forward(self, data: Any) -> Any:
            return self.head(gnn.global_mean_pool(self.gnn(data.x, data.edge_index), data.batch)).squeeze(-1)

    def said(model: Any) -> list[str]:
        return [step if isinstance(step, str) else step.name for step in steps_of(model.eval())]

    def layer(number: int) -> list[str]:
        return [f"gnn.convs.{number}", f"gnn.norms.{number}", "relu"]

    model = Data()
    head = ["mean", "head.lins.0", "relu", "head.lins.1"]
    assert said(model) == [*layer(0), *layer(1), "jump_max", "gnn.lin", *head]
    sequential = gnn.Sequential(
        "x, edge_index, batch",
        [
            (gnn.LEConv(3, 4), "x, edge_index -> x"),
            nn.ReLU(inplace=True),
            (gnn.global_add_pool, "x, batch -> x"),
            nn.Linear(4, 2),
        ],
    )
    assert said(sequential) == ["module_0", "relu", "sum", "module_3"]
    assert said(gnn.GCN(3, 4, 2, 2, act="elu")) == ["convs.0", "elu", "convs.1"]
    assert said(gnn.GIN(3, 4, 2, 2, jk="cat")) == ["convs.0", "relu", "convs.1", "relu", "jump_cat", "lin"]
    normed = gnn.GIN(3, 4, 2, 2, norm="batch_norm").eval()
    assert said(normed) == ["convs.0", "norms.0", "relu", "convs.1"]
    inside = Linear("nn.lins.0"), BatchNorm("nn.norms.0"), "relu", Linear("nn.lins.1")
    assert steps_of(normed)[0] == GIN("convs.0", inside=inside)
    behind = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
    model = gnn.Sequential("x, edge_index", [(gnn.GINConv(behind), "x, edge_index -> x"), nn.ReLU(), nn.Linear(4, 2)])
    assert said(model) == ["module_0", "module_0.nn.3", "relu", "relu", "module_2"]


def test_a_model_within_a_model_stands_for_its_parts_in_a_list() -> None:
    gnn, nn = geometric.nn, torch.nn
    model = stack(
        atoms=nn.ModuleList([nn.Embedding(5, 4), nn.Embedding(3, 4)]), gnn=gnn.GAT(4, 4, 2), out=nn.Linear(4, 2)
    )
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    seen = from_pyg(model, ["atoms", "gnn", "relu", "mean", "out"], loss="ce")
    assert seen.model.in_features == 8 and [layer.act for layer in seen.model.layers] == ["relu", "relu"]


def residual(self: Any, x: Any, edge_index: Any) -> Any:
    hidden = self.norm(self.conv1(x, edge_index)).relu() + x
    return self.conv2(hidden, edge_index)


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({"norm": torch.nn.Identity()}, "he forward pass has 'add' after 'relu', where the list has GCN('conv2')"),
        (
            {"norm": torch.nn.LayerNorm(4, elementwise_affine=False)},
            "LayerNorm without 'weight'",
        ),
    ],
)
def test_what_a_list_leaves_out_is_named(modules: dict[str, Any], message: str) -> None:
    """Refused where an example shows it, warned of where none does."""
    model = live(residual, **modules)
    del model.out
    x, edges = torch.randn(4, 4), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    with pytest.raises(ValueError, match=re.escape(message)):
        from_pyg(model, ["conv1", "relu", "conv2"], loss="ce", example=(x, edges, model(x, edges)))
    left = "'norm' is a LayerNorm that the list leaves out" if "Layer" in message else message
    with pytest.warns(UserWarning, match=re.escape(left)):
        from_pyg(model, ["conv1", "relu", "conv2"], loss="ce")


def test_tasks_of_a_live_model_under_another_loss_are_refused() -> None:
    """With an example and without: labels 1, missing, 0 of three tasks, which no class has."""
    gnn, nn = geometric.nn, torch.nn
    parts = [(gnn.GCNConv(3, 4), "x, edge_index -> x"), nn.ReLU(), (gnn.global_mean_pool, "x, batch -> x")]
    model = gnn.Sequential("x, edge_index, batch", [*parts, nn.Linear(4, 3)]).eval()
    x, edges, batch = torch.randn(4, 3), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), torch.zeros(4).long()
    output = model(x, edges, batch)
    nn.functional.binary_cross_entropy_with_logits(output[0, [0, 2]], torch.tensor([1.0, 0.0])).backward()
    for example in ((x, edges, output), None):
        for loss in ("ce", "bce", "mse", "masked_mae"):
            with pytest.raises(ValueError, match="^loss: .*(masked_bce|masked_mse|look at the loss)"):
                from_pyg(model, loss=loss, example=example)
    labels = np.array([[1, np.nan, 0]])
    for loss in ("masked_bce", "masked_mse"):
        shown = Example(x, edges, output, None, labels)
        if loss == "masked_bce":
            assert from_pyg(model, loss=loss, example=shown).loss == loss
        else:
            with pytest.raises(ValueError, match="gradient: it differs from that of the example's loss"):
                from_pyg(model, loss=loss, example=shown)


def test_an_encoder_and_a_norm_with_weights_are_named_where_a_list_leaves_them_out() -> None:
    gnn, nn = geometric.nn, torch.nn
    model = stack(enter=nn.Linear(3, 4), conv1=gnn.GCNConv(4, 4), norm=nn.LayerNorm(4), conv2=gnn.GCNConv(4, 2))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with pytest.raises(ValueError, match=r"'enter.weight' belongs to no layer .*Linear\('enter'\) .* is the encoder"):
        from_pyg(model, ["conv1", "norm", "relu", "conv2"], loss="ce")
    with pytest.raises(ValueError, match=r"'norm.weight' belongs to no layer .*LayerNorm\('norm'\) after its conv"):
        from_pyg(model, ["enter", "conv1", "relu", "conv2"], loss="ce")


def test_a_sequential_stands_for_its_parts_and_idle_dropout_is_passed_over() -> None:
    nn = torch.nn
    head = nn.Sequential(nn.Linear(4, 5), nn.ELU(), nn.Dropout(0.5), nn.Linear(5, 2))
    model = stack(conv1=geometric.nn.GCNConv(3, 4), head=head)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    seen = from_pyg(model, ["conv1", "relu", "mean", "head"], loss="ce")
    model = seen.model
    assert (model.readout.mlp.widths[:-1], model.readout.mlp.act) == ((5,), "elu") and model.layers[
        -1
    ].act != "identity"


def test_a_model_that_drops_out_has_no_rounds_to_be_read() -> None:
    """Clients train it in this mode; the recorder says so before the first round."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5))
    with pytest.raises(
        ValueError, match=r"'1' \(rate 0.5\) is in training mode.* neither recorded nor .*check"
    ) as told:
        Rounds(model, "ce", LocalTraining(0.1))
    assert "eval()" not in str(told.value) and "sent=" not in str(told.value), "the file would say: no dropout"
    model[1].p = 0.0
    assert Rounds(model, "ce", LocalTraining(0.1)).epochs == 1


def test_a_function_that_drops_out_has_no_rounds_either() -> None:
    """No module has a rate where the forward pass calls ``F.dropout(.., training=self.training)``."""

    class Dropping(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(torch.nn.functional.dropout(x, 0.25, self.training))

    model = torch.nn.Sequential(torch.nn.Linear(3, 2), Dropping(2, 2))
    with pytest.raises(ValueError, match=r"masks 25% of the entries: .* neither recorded nor guarded"):
        Rounds(model, "ce", LocalTraining(0.1))
    assert Rounds(model.eval(), "ce", LocalTraining(0.1)).epochs == 1


def test_dropout_beside_batch_normalisation_is_told_with_the_way_to_both() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.5))
    with pytest.raises(ValueError, match=r"'2' \(rate 0.5\) is in training mode.*masks.*\.train\(\) again.*sent="):
        from_pyg(model.train(), loss="ce")
    model[1].eval()
    with pytest.raises(ValueError, match=r"'2' \(rate 0.5\) is in training mode") as told:
        from_pyg(model, loss="ce")
    assert "sent=" not in str(told.value)


def test_training_mode_is_taken_where_the_stranger_vouches_for_it() -> None:
    model, example, _ = made("gcn")
    seen = from_pyg(model.train(), WORDS["gcn"], loss="bce", deterministic=True, example=example)
    assert seen.model == from_pyg(model, loss="bce", deterministic=True, example=example).model


def test_the_guide_s_ten_lines_work(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mini-batch of two graphs through a model with a norm, a residual and a dropout, of which nothing is written."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            gcn = geometric.nn.GCNConv
            self.conv1, self.norm, self.conv2 = gcn(3, 4), torch.nn.BatchNorm1d(4), gcn(4, 4)
            self.head = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))

        def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
            x = torch.nn.functional.dropout(self.norm(self.conv1(x, edge_index)).relu(), 0.5, self.training)
            x = self.conv2(x, edge_index).relu() + x
            return self.head(geometric.nn.global_add_pool(x, batch))

    edges = torch.tensor([[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]])
    names = {
        "model": Model(),
        "x": torch.randn(5, 3),
        "edge_index": edges,
        "batch": torch.tensor([0, 0, 1, 1, 1]),
        "y": torch.tensor([0.0, 1.0]),
    }
    monkeypatch.chdir(tmp_path)
    seen = run("pyg", **names)["observation"]
    again, _ = load("one.safetensors", FeatureSpace((onehot("kind", "abc"),)))
    assert again.model == seen.model and seen.batch_size == 2
    assert [type(layer.norm).__name__ for layer in seen.model.layers] == ["BatchNorm", "NoneType"]


def test_the_guide_s_lines_on_dropout_work() -> None:
    gnn, nn = geometric.nn, torch.nn
    layers = [(gnn.GCNConv(3, 4), "x, edge_index -> x"), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2)]
    model = gnn.Sequential("x, edge_index", layers).train()
    names = {"model": model, "x": torch.randn(3, 3), "y": torch.tensor([0, 1, 1]), "dataclasses": dataclasses}
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    seen = run("dropout", **names, edge_index=edges, from_pyg=from_pyg, F=torch.nn.functional)["observation"]
    assert seen.model.layers[0].dropout == 0.5 and seen.model.drops
    np.testing.assert_array_equal(seen.update["layers_0"]["conv"]["bias"], model[0].bias.grad.numpy())


def test_the_guide_s_lines_on_batch_normalisation_in_training_mode_work() -> None:
    """Reading the model moves nothing: what came back is what the client's own pass left."""
    gnn, nn = geometric.nn, torch.nn
    layers = [(gnn.GCNConv(3, 4), "x, edge_index -> x"), gnn.BatchNorm(4), nn.ReLU(), nn.Linear(4, 2)]
    model = gnn.Sequential("x, edge_index", layers).train()
    names = {"model": model, "x": torch.randn(3, 3), "y": torch.tensor([0, 1, 1])}
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    found = run("training", **names, edge_index=edges, from_pyg=from_pyg, F=torch.nn.functional)
    seen, rows = found["observation"], model[0](names["x"], edges)
    mean = seen.statistics["layers_0"]["norm"]["mean"]
    np.testing.assert_allclose(mean, 0.1 * rows.mean(dim=0).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_weights_of_a_norm_in_training_mode_ask_for_the_modules_mode() -> None:
    """A live model has no list in which to write ``BatchNorm(.., training=True)``."""
    gnn, nn = geometric.nn, torch.nn
    layers = [(gnn.GCNConv(3, 4), "x, edge_index -> x"), gnn.BatchNorm(4), nn.ReLU(), nn.Linear(4, 2)]
    model = gnn.Sequential("x, edge_index", layers).train()
    sent = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    step = torch.optim.SGD(model.parameters(), lr=0.5)
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    torch.nn.functional.cross_entropy(model(torch.randn(3, 3), edges), torch.tensor([0, 1, 1])).backward()
    step.step()
    given: dict[str, Any] = {"loss": "ce", "client": Client(local=LocalTraining(0.5))}
    with pytest.raises(ValueError, match=r"moved: .*: pass the model with its norms in training mode") as told:
        from_weights(sent, model.state_dict(), model.eval(), **given)
    assert "BatchNorm(" not in str(told.value)
    model[1].train()
    assert from_weights(sent, model.state_dict(), model, **given).statistics is not None


def test_a_live_module_stands_for_the_forward_pass_of_arrays() -> None:
    """It says its structure; the parameters are those of the state, in whose place its own would be another model's."""
    model, _, _ = made("sage")
    state = {name: tensor.detach().numpy().copy() for name, tensor in model.state_dict().items()}
    gradients = {name: parameter.grad.numpy().copy() for name, parameter in model.named_parameters()}
    wanted = from_pyg(model, loss="ce")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    moved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = from_arrays(state, gradients, model, loss="ce")
        after = {name: weight - np.float32(0.5) * gradients[name] for name, weight in state.items()}
        again = from_weights(state, after, model, loss="ce", client=Client(local=LocalTraining(0.5)))
    assert seen.model == again.model == wanted.model
    for path, leaf in flatten(wanted.update).items():
        np.testing.assert_array_equal(flatten(seen.update)[path], leaf)
        np.testing.assert_allclose(flatten(again.update)[path], leaf, atol=1e-5)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, moved[name]), "reading the model moves nothing"
    smaller = {**state, "lin1.bias": np.zeros(3, np.float32)}
    with pytest.raises(ValueError, match=r"the module's 'lin1.bias' has shape \(4,\), the state's \(3,\)|lin1.bias"):
        from_arrays(smaller, gradients, model, loss="ce")


@pytest.mark.parametrize("kind", ["gcn", "gcn without bias", "sage without bias", "gat", "gin", "mlp"])
def test_a_gradient_of_training_mode_is_not_read_in_evaluation_mode(kind: str) -> None:
    """After training, without ``sent``, with an example of evaluation mode: only the gradient shows it."""
    gnn, nn = geometric.nn, torch.nn
    torch.manual_seed(2)
    inside = [nn.Linear(3, 5, bias=False), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4, bias=False)]
    convs = {
        "gcn": gnn.GCNConv(3, 4),
        "gcn without bias": gnn.GCNConv(3, 4, bias=False),
        "sage without bias": gnn.SAGEConv(3, 4, bias=False),
        "gat": gnn.GATConv(3, 4),
        "gin": gnn.GINConv(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4))),
        "mlp": gnn.GINConv(nn.Sequential(*inside)),
    }
    norm = nn.BatchNorm1d(4) if kind != "mlp" else nn.Identity()
    parts = [(convs[kind], "x, edge_index -> x"), norm, nn.ReLU(), (gnn.global_mean_pool, "x, batch -> x")]
    model = gnn.Sequential("x, edge_index, batch", [*parts, nn.Linear(4, 2)])
    x, batch = torch.randn(5, 3), torch.zeros(5).long()
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
    optimiser, label = torch.optim.SGD(model.parameters(), 0.1), torch.tensor([1])

    def backward() -> None:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x, edges, batch), label).backward()

    for _ in range(3):
        backward()
        optimiser.step()
    sent = {name: value.clone() for name, value in model.state_dict().items()}
    backward()
    assert from_pyg(model, loss="ce", sent=sent, deterministic=True).statistics is not None
    model.eval()
    for example in (None, (x, edges, model(x, edges, batch))):
        with pytest.raises(
            ValueError, match="gradient: in evaluation mode .* it is zero: the norm was in training mode .*sent="
        ):
            from_pyg(model, loss="ce", example=example)
    backward()
    assert from_pyg(model, loss="ce", example=(x, edges, model(x, edges, batch))).statistics is None
    for name, buffer in model.named_buffers():
        if name.endswith("running_var"):
            buffer.mul_(1.5)
    with pytest.raises(ValueError, match="different: the running statistics are not those"):
        from_pyg(model, loss="ce")


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_a_model_in_16_bits_is_read_with_its_noise(half: str) -> None:
    """Without an example it is compared in 32 bits; an example in 16 is compared more coarsely."""
    gnn, nn = geometric.nn, torch.nn
    torch.manual_seed(0)
    parts = [(gnn.SAGEConv(3, 8), "x, edge_index -> x"), nn.BatchNorm1d(8), nn.ReLU()]
    parts += [(gnn.global_mean_pool, "x, batch -> x"), nn.Linear(8, 2)]
    model = gnn.Sequential("x, edge_index, batch", parts).eval().to(getattr(torch, half))
    x, batch = torch.randn(4, 3).to(getattr(torch, half)), torch.zeros(4).long()
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    output, label = model(x, edges, batch), torch.tensor([1])
    nn.functional.cross_entropy(output, label).backward()
    for example in (None, (x, edges, output), Example(x, edges, output, None, label)):
        seen = from_pyg(model, loss="ce", example=example)
        assert seen.noise == computed_noise(seen.update) and digits_of(seen.params) == DIGITS[half]
    with pytest.raises(ValueError, match="the description's output differs"):
        from_pyg(model, loss="ce", example=(x, edges, output + 0.2))


def test_the_guide_s_lines_on_a_loader_give_an_update_whose_graphs_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model with one output, through local steps that take two of three graphs and the last one."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = geometric.nn.GCNConv(9, 96), geometric.nn.GCNConv(96, 96)
            self.lin1, self.lin2 = torch.nn.Linear(96, 128), torch.nn.Linear(128, 1)

        def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
            h = self.conv2(self.conv1(x, edge_index).relu(), edge_index).relu()
            return geometric.nn.global_mean_pool(self.lin2(self.lin1(h).relu()), batch)

    torch.manual_seed(0)
    space = FeatureSpace((onehot("colour", "abcd"), onehot("degree", range(5))), degree="degree")
    truths = [coloured([0, 1, 1, 2, 0], 1), coloured([1, 3, 2, 0], 0), coloured([2, 0, 3, 3], 1)]
    rows = [torch.from_numpy(space.encode(graph.x)) for graph in truths]
    edges = [torch.from_numpy(np.r_[graph.edges, graph.edges[:, ::-1]].T.copy()) for graph in truths]
    labels = [torch.tensor([float(graph.y)]) for graph in truths]  # type: ignore[arg-type]
    graphs = [geometric.data.Data(x=x, edge_index=e, y=y) for x, e, y in zip(rows, edges, labels, strict=True)]
    monkeypatch.chdir(tmp_path)
    run("loader", model=Net(), graphs=graphs, torch=torch, F=torch.nn.functional)
    seen, _ = load("client.safetensors", space)
    assert (
        seen.loss == "bce" and seen.model.outputs == 1 and seen.local == LocalTraining(0.01, 2, loader=2, shuffled=True)
    )
    found = get_attack("census")(seen, Knowledge(space, max_n=6), key=jax.random.key(0), budget=Budget(time_limit=120))
    assert found.stop == "match" and len(found.members) == 3
    for truth in truths:
        assert any(one.isomorphic(truth) and one.y == truth.y for own in found.members for one in own.graphs)


def coloured(colours: list[int], y: int) -> Graph:
    """A path whose nodes state their colours and degrees."""
    edges = np.array([(v, v + 1) for v in range(len(colours) - 1)])
    return Graph(np.stack([colours, np.bincount(edges.ravel())], axis=1).astype(np.int32), edges, y)
