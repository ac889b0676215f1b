"""Write ``pyg.safetensors``: real PyTorch Geometric models, an input each, its output, and the gradient of a loss.

Run where torch, torch_geometric and safetensors are installed: ``python tests/interop/make_fixture.py``. The tests read
the file and need none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from safetensors.torch import save_file  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch_geometric.nn import (  # pyright: ignore[reportMissingImports]
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    LayerNorm,
    LEConv,
    SAGEConv,
    global_add_pool,
    global_mean_pool,
)

FEATURES, NODES = 5, 6
TABLES = (5, 3, 2)
"""Values of each column of the models of integers."""
EDGES = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [3, 4], [4, 5]])


class Pooled(nn.Module):
    """Two convolutions with an activation after each, a pool, two linear maps."""

    def __init__(self, first: nn.Module, second: nn.Module, width: int, outputs: int, pool: Any, act: Any) -> None:
        super().__init__()
        self.conv1, self.conv2, self.pool, self.act = first, second, pool, act
        self.lin1, self.lin2 = nn.Linear(width, 4), nn.Linear(4, outputs)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = self.act(self.conv1(x, edge_index))
        x = self.act(self.conv2(x, edge_index))
        x = self.pool(x, torch.zeros(x.shape[0], dtype=torch.long))
        return self.lin2(self.lin1(x).relu())[0]


class Scores(nn.Module):
    """Two convolutions, the second giving class scores of nodes; an activation between only."""

    def __init__(self, first: nn.Module, second: nn.Module, act: Any) -> None:
        super().__init__()
        self.conv1, self.conv2, self.act = first, second, act

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)


class Composed(nn.Module):
    """An encoder, layers of several kinds with norms and residuals, all of whose states are pooled."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.conv1, self.norm1 = encoder, GCNConv(4, 4, normalize=False), nn.BatchNorm1d(4)
        self.conv2, self.norm2, self.skip = GATv2Conv(4, 2, heads=2), LayerNorm(4, mode="node"), nn.Linear(4, 4)
        self.conv3, self.out = LEConv(4, 3), nn.Linear(11, 3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        x = self.encoder(x)
        first = F.dropout(self.norm1(self.conv1(x, edge_index)).relu(), 0.5, self.training) + x
        second = self.skip(first) + F.elu(self.norm2(self.conv2(first, edge_index)))
        third = self.conv3(second, edge_index).tanh()
        return self.out(global_add_pool(torch.cat([first, second, third], dim=-1), batch))


class Stacked(nn.Module):
    """Convolutions with ReLU after each, the mean, a linear map."""

    def __init__(self, *convs: nn.Module) -> None:
        super().__init__()
        self.convs, self.out = nn.ModuleList(convs), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: Any = None) -> torch.Tensor:
        for conv in self.convs:
            x = conv(x, edge_index, *(edge_attr,) if isinstance(conv, GINEConv) else ()).relu()
        return self.out(global_mean_pool(x, torch.zeros(x.shape[0], dtype=torch.long)))[0]


class Atoms(nn.Module):
    """A sum of embeddings, one table a column, as OGB's ``AtomEncoder``."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(size, 4) for size in TABLES])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum(table(x[:, i]) for i, table in enumerate(self.tables))  # type: ignore[return-value]


def mlp(inputs: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width))


def cases() -> dict[str, tuple[nn.Module, torch.Tensor, str]]:
    """Name to model, label and loss."""
    one, zero, nodes = torch.tensor(1), torch.tensor(0), torch.tensor([0, 1, 2, 1, 0, 2])
    pair = torch.tensor([2, 0])
    f = FEATURES
    gat = GATConv(f, 3, heads=2), GATConv(6, 4, heads=3, concat=False)
    slope = {"negative_slope": 0.1, "residual": True}
    elu = GATConv(f, 2, heads=2, **slope), GATConv(4, 3, heads=2, concat=False, **slope)
    gin = GINConv(mlp(f, 5), eps=0.3), GINConv(mlp(5, 5), train_eps=True)
    inner = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ELU(), nn.Linear(3, 4), nn.ELU())
    bonded = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.ReLU(), nn.Linear(3, 4))
    normed = nn.Sequential(nn.Linear(f, 3), nn.BatchNorm1d(3, momentum=0.2), nn.ReLU(), nn.Linear(3, 4))
    return {
        "gcn": (Pooled(GCNConv(f, 6), GCNConv(6, 6), 6, 1, global_mean_pool, F.relu), one, "bce"),
        "gcn_narrowing": (Pooled(GCNConv(f, 6), GCNConv(6, 3), 3, 2, global_add_pool, F.gelu), zero, "ce"),
        "gat": (Pooled(*gat, 4, 2, global_mean_pool, F.relu), one, "bce"),
        "gat_residual": (Scores(*elu, F.elu), nodes, "ce"),
        "sage": (Pooled(SAGEConv(f, 6), SAGEConv(6, 6), 6, 3, global_mean_pool, torch.tanh), zero, "ce"),
        "gin": (Pooled(*gin, 5, 1, global_mean_pool, F.relu), one, "mse"),
        "gcn_scores": (Scores(GCNConv(f, 4, bias=False), GCNConv(4, 3, bias=False), torch.sigmoid), nodes, "ce"),
        "composed": (Composed(nn.Linear(f, 4)), pair, "ce"),
        "embedded": (Composed(Atoms()), pair, "ce"),
        "bonds": (Stacked(GINEConv(mlp(f, 4), edge_dim=3), GINEConv(bonded, eps=0.2, edge_dim=3)), one, "ce"),
        "training": (Stacked(GINConv(normed)), one, "ce"),
        "sums": (Stacked(GraphConv(f, 4), SAGEConv(4, 4, aggr="add"), GINConv(inner)), one, "ce"),
    }


def loss_of(output: torch.Tensor, label: torch.Tensor, name: str) -> torch.Tensor:
    if name == "ce":
        return F.cross_entropy(output, label)
    if name == "mse":
        return F.mse_loss(output, label.float()[None])
    target = label.float()[None] if output.numel() == 1 else F.one_hot(label, output.numel()).float()
    return F.binary_cross_entropy_with_logits(output, target)


def inputs_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Rows, edges, their classes where a layer sees them, and for models of mini-batches the graph of every node: two
    graphs of six nodes."""
    edges = torch.cat([EDGES, EDGES.flip(1)]).T.contiguous()
    if any(isinstance(module, GINEConv) for module in model.modules()):
        classes = torch.eye(3)[torch.arange(len(EDGES)) % 3].repeat(2, 1)
        return {"x": torch.randn(NODES, FEATURES), "edge_index": edges, "edge_attr": classes}
    if not isinstance(model, Composed):
        return {"x": torch.randn(NODES, FEATURES), "edge_index": edges}
    two, batch = torch.cat([edges, edges + NODES], dim=1), torch.arange(2).repeat_interleave(NODES)
    integers = torch.stack([torch.randint(size, (2 * NODES,)) for size in TABLES], dim=1)
    rows = integers if isinstance(model.encoder, Atoms) else torch.randn(2 * NODES, FEATURES)
    return {"x": rows, "edge_index": two, "batch": batch}


def prepared(name: str, model: nn.Module) -> dict[str, torch.Tensor]:
    """Put a model into its mode; the state that is sent to the client."""
    model.eval()
    for module in model.modules():
        if name == "training" and isinstance(module, nn.BatchNorm1d):
            module.train()
    return {k: v.detach().clone() for k, v in model.state_dict().items()}


def main() -> None:
    torch.manual_seed(1)
    tensors = {}
    for name, (model, label, loss) in cases().items():
        for parameter in model.parameters():  # biases start at zero, where their place would not show
            parameter.data += 0.3 * torch.randn_like(parameter)
        for buffer_name, buffer in model.named_buffers():
            if "running" in buffer_name:
                buffer.data = 0.5 + torch.rand_like(buffer)
        sent = prepared(name, model)
        inputs = inputs_of(model)
        tensors |= {f"{name}/{part}": one for part, one in inputs.items()}
        output = model(**inputs)
        loss_of(output, label, loss).backward()
        trees = {"state": sent, "gradient": {k: p.grad for k, p in model.named_parameters()}}
        trees["returned"] = dict(model.named_buffers())
        tensors |= {f"{name}/{part}.{k}": v.detach().clone() for part, tree in trees.items() for k, v in tree.items()}
        tensors |= {f"{name}/output": output.detach(), f"{name}/label": label.clone()}
    save_file(tensors, Path(__file__).parent / "pyg.safetensors")


if __name__ == "__main__":
    main()
