"""Live PyTorch Geometric models; run where torch and torch_geometric are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jgleak.federated.observation import flatten
from jgleak.interop import from_arrays, from_pyg
from tests.interop.conftest import LAYERS, LOSSES

torch: Any = pytest.importorskip("torch", reason="torch is not installed: the committed fixture is tested instead")
geometric: Any = pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

WORDS = {
    "gcn": ["conv1", "relu", "conv2", "relu", "mean", "lin1", "relu", "lin2"],
    "gat": ["conv1", "relu", "conv2", "relu", "mean", "lin1", "relu", "lin2"],
    "gat_residual": ["conv1", "elu", "conv2"],
    "sage": ["conv1", "tanh", "conv2", "tanh", "mean", "lin1", "relu", "lin2"],
    "gin": ["conv1", "relu", "conv2", "relu", "mean", "lin1", "relu", "lin2"],
}


def made(name: str) -> tuple[Any, Any]:
    """A model in evaluation mode after a backward pass, and its example."""
    from tests.interop.make_fixture import EDGES, FEATURES, NODES, cases, loss_of

    torch.manual_seed(1)
    model, label, loss = cases()[name]
    model.eval()
    x, edges = torch.randn(NODES, FEATURES), torch.cat([EDGES, EDGES.flip(1)]).T
    output = model(x, edges)
    loss_of(output, label, loss).backward()
    return model, (x, edges, output)


@pytest.mark.parametrize("name", WORDS)
def test_a_live_model_says_what_its_arrays_say(name: str) -> None:
    model, example = made(name)
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
    model = stack(conv1=gnn.GCNConv(3, 4), norm=nn.BatchNorm1d(4), lin=nn.Linear(4, 2))
    cases: list[tuple[Any, list[str], str]] = [
        (model, ["conv1", "norm", "relu", "mean", "lin"], "'norm' is a BatchNorm1d, .*private data"),
        (stack(conv1=gnn.GCNConv(3, 4, improved=True)), ["conv1"], "improved=True, that is self-loops of weight 2"),
        (stack(conv1=gnn.GCNConv(3, 4, cached=True)), ["conv1"], "cached=True"),
        (stack(conv1=gnn.GATConv(3, 4, edge_dim=2)), ["conv1"], "edge_dim=2, that is edge features"),
        (stack(conv1=gnn.SAGEConv(3, 4, aggr="max")), ["conv1"], "aggr='max', that is another aggregation"),
        (stack(conv1=gnn.SAGEConv(3, 4, root_weight=False)), ["conv1"], "no weight for the node itself"),
        (stack(conv1=gnn.GINConv(nn.Linear(3, 4))), ["conv1"], "the models here have Linear, an activation, Linear"),
        (stack(conv1=gnn.GraphConv(3, 4)), ["conv1"], "'conv1' is a GraphConv, which no model here has"),
        (stack(conv1=gnn.GCNConv(3, 4), act=nn.GELU("tanh")), ["conv1", "act"], "'act' is a GELU with options"),
        (stack(conv1=gnn.GCNConv(3, 4)), ["conv2"], "no submodule 'conv2'; it has conv1"),
        (stack(conv1=gnn.GCNConv(3, 4)).train(), ["conv1"], "training mode, where functions such as F.dropout"),
        (stack(drop=nn.Dropout(0.5)).train(), ["drop"], "'drop' drops out at rate 0.5: .*after model.eval"),
        (stack(conv1=gnn.GATConv(3, 4, dropout=0.6)).train(), ["conv1"], "'conv1' drops out at rate 0.6"),
        (stack(conv1=gnn.GCNConv(3, 4)), ["conv1"], "gradient: there is no array"),
    ]
    for model, layers, message in cases:
        with pytest.raises(ValueError, match=message):
            from_pyg(model, layers, loss="ce")


def test_a_sequential_stands_for_its_parts_and_idle_dropout_is_passed_over() -> None:
    nn = torch.nn
    head = nn.Sequential(nn.Linear(4, 5), nn.ELU(), nn.Dropout(0.5), nn.Linear(5, 2))
    model = stack(conv1=geometric.nn.GCNConv(3, 4), head=head)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    seen = from_pyg(model, ["conv1", "relu", "mean", "head"], loss="ce")
    model = seen.model
    assert (model.readout.mlp.widths[:-1], model.readout.mlp.act) == ((5,), "elu") and model.layers[
        -1
    ].act != "identity"


def test_training_mode_is_taken_where_the_stranger_vouches_for_it() -> None:
    model, example = made("gcn")
    from_pyg(model.train(), WORDS["gcn"], loss="bce", deterministic=True, example=example)
