"""Forward and gradients of PyTorch Geometric's layers, norms and models, and of what the bridge makes of them.

    python -m benchmarks.studies.pyg_equality    # a table; --graphs 5 for a short run

It needs torch and torch_geometric beside jgleak. Every model gets random weights, is read by ``steps_of``, and is
compared on random graphs (3 to 10 nodes, isolated ones among them): the output, and the gradient of cross-entropy at a
random label.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch_geometric.nn as geometric  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from jgleak.federated.loss import graph_loss
from jgleak.federated.observation import Observation
from jgleak.graph import DenseGraph
from jgleak.interop import Example, from_arrays, steps_of
from jgleak.interop.graphs import by_class, dense

FEATURES, WIDTH, CLASSES, LARGEST, BONDS = 5, 6, 3, 10, 4
TABLES = (5, 3, 2)
"""Values of each integer column of the models with embeddings."""


class Framed(nn.Module):
    """One layer, a norm behind it, ReLU, the mean, a linear map."""

    def __init__(self, conv: nn.Module, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.conv, self.norm, self.out = conv, norm or nn.Identity(), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Any, edge_index: Any, batch: Any, edge_attr: Any = None) -> Any:
        seen = (edge_attr,) if isinstance(self.conv, geometric.GINEConv) else ()
        x = self.norm(self.conv(x, edge_index, *seen)).relu()
        return self.out(geometric.global_mean_pool(x, batch))


class Atoms(nn.Module):
    """A sum of embeddings, as OGB's ``AtomEncoder``."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(size, WIDTH) for size in TABLES])

    def forward(self, x: Any) -> Any:
        return sum(table(x[:, i]) for i, table in enumerate(self.tables))


class Composed(nn.Module):
    """An encoder, layers of several kinds, residuals, jumping knowledge, a sum, two linear maps."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.conv1, self.norm1 = geometric.GCNConv(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)
        self.conv2, self.norm2 = geometric.SAGEConv(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.skip = nn.Linear(WIDTH, WIDTH)
        self.conv3 = geometric.GINConv(mlp(WIDTH))
        self.lin1, self.lin2 = nn.Linear(3 * WIDTH, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
        x = self.encoder(x)
        first = self.norm1(self.conv1(x, edge_index)).relu() + x
        second = nn.functional.elu(self.norm2(self.conv2(first, edge_index))) + self.skip(first)
        third = self.conv3(second, edge_index).tanh()
        pooled = [geometric.global_add_pool(state, batch) for state in (first, second, third)]
        return self.lin2(self.lin1(torch.cat(pooled, dim=1)).relu())


class Whole(nn.Module):
    """A model of PyTorch Geometric within a model for graphs."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.out = inner, nn.Linear(WIDTH, CLASSES)

    def forward(self, data: Any) -> Any:
        return self.out(geometric.global_mean_pool(self.inner(data.x, data.edge_index), data.batch))


class Normed(nn.Module):
    """GIN's map of a node as FederatedScope writes it: a norm behind every linear map."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(inputs, WIDTH), nn.Linear(WIDTH, WIDTH)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH)])

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu(self.norms[0](self.linears[0](x)))
        return self.norms[1](self.linears[1](nn.functional.dropout(x, 0.5, self.training)))


class Case(NamedTuple):
    """A model and what it is called."""

    name: str
    make: Callable[[], Any]
    integers: bool = False


def mlp(inputs: int) -> nn.Module:
    """GIN's map of a node."""
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def cases() -> Iterator[Case]:
    """Every layer, norm and model that is read."""
    g, f, w = geometric, FEATURES, WIDTH
    convs: dict[str, Callable[[], Any]] = {
        "GCNConv": lambda: g.GCNConv(f, w),
        "GCNConv(bias=False)": lambda: g.GCNConv(f, w, bias=False),
        "GCNConv(add_self_loops=False)": lambda: g.GCNConv(f, w, add_self_loops=False),
        "GCNConv(normalize=False)": lambda: g.GCNConv(f, w, normalize=False),
        "GATConv": lambda: g.GATConv(f, w // 2, heads=2),
        "GATConv(concat=False)": lambda: g.GATConv(f, w, heads=3, concat=False),
        "GATConv(residual=True)": lambda: g.GATConv(f, w // 2, heads=2, residual=True, negative_slope=0.1),
        "GATv2Conv": lambda: g.GATv2Conv(f, w // 2, heads=2),
        "GATv2Conv(concat=False)": lambda: g.GATv2Conv(f, w, heads=3, concat=False),
        "GATv2Conv(residual=True)": lambda: g.GATv2Conv(f, w // 2, heads=2, residual=True),
        "SAGEConv": lambda: g.SAGEConv(f, w),
        "SAGEConv(aggr='add')": lambda: g.SAGEConv(f, w, aggr="add"),
        "GraphConv": lambda: g.GraphConv(f, w),
        "GraphConv(aggr='mean')": lambda: g.GraphConv(f, w, aggr="mean"),
        "GINConv": lambda: g.GINConv(mlp(f), eps=0.3),
        "GINConv(train_eps=True)": lambda: g.GINConv(mlp(f), train_eps=True),
        "GINConv(Linear)": lambda: g.GINConv(nn.Linear(f, w)),
        "GINConv(three maps)": lambda: g.GINConv(nn.Sequential(*mlp(f), nn.ReLU(), nn.Linear(w, w)), eps=0.3),
        "GINConv(BatchNorm1d inside, ReLU at the end)": lambda: g.GINConv(
            nn.Sequential(nn.Linear(f, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(), nn.Linear(4, w), nn.ReLU())
        ),
        "GINConv(LayerNorm inside, BatchNorm1d behind)": lambda: g.GINConv(
            nn.Sequential(nn.Linear(f, 4), nn.LayerNorm(4), nn.ELU(), nn.Linear(4, w), nn.BatchNorm1d(w))
        ),
        "GINConv(MLP)": lambda: g.GINConv(g.MLP([f, 4, 5, w])),
        "GINConv(a module)": lambda: g.GINConv(Normed(f)),
        "LEConv": lambda: g.LEConv(f, w),
        "GINEConv": lambda: g.GINEConv(mlp(f), eps=0.3, edge_dim=BONDS),
        "GINEConv(train_eps=True, MLP)": lambda: g.GINEConv(g.MLP([f, 4, w]), train_eps=True, edge_dim=BONDS),
    }
    norms: dict[str, Callable[[], Any]] = {
        "BatchNorm1d": lambda: nn.BatchNorm1d(w),
        "geometric BatchNorm": lambda: g.BatchNorm(w),
        "torch LayerNorm": lambda: nn.LayerNorm(w),
        "geometric LayerNorm(mode='node')": lambda: g.LayerNorm(w, mode="node"),
    }
    yield from (Case(name, lambda make=make: Framed(make())) for name, make in convs.items())
    yield from (Case(name, lambda make=make: Framed(g.GCNConv(f, w), make())) for name, make in norms.items())
    kinds: dict[str, dict[str, Any]] = {
        "GCN": {},
        "GraphSAGE": {},
        "GIN": {},
        "GAT": {"heads": 2},
        "GAT v2": {"heads": 2, "v2": True},
    }
    for kind, more in kinds.items():
        made = getattr(g, kind.split()[0])
        layer_norm = {"norm": "LayerNorm", "norm_kwargs": {"mode": "node"}}
        for said, options in (
            ("", {}),
            (", jk=last", {"jk": "last"}),
            (", jk=cat, act=elu", {"jk": "cat", "act": "elu"}),
            (", jk=max, norm=BatchNorm", {"jk": "max", "norm": "BatchNorm"}),
            (", norm=LayerNorm", layer_norm),
        ):
            yield Case(
                f"{kind}{said}", lambda made=made, o={**more, **options}: made(f, w, 3, CLASSES, dropout=0.5, **o)
            )
        yield Case(f"{kind}, pooled", lambda made=made, more=more: Whole(made(f, w, 2, w, **more)))
        yield Case(f"{kind}, jk=cat, pooled", lambda made=made, more=more: Whole(made(f, w, 2, w, jk="cat", **more)))
    yield Case("linear encoder, residuals, three layers, cat", lambda: Composed(nn.Linear(f, w)))
    yield Case("embeddings, residuals, three layers, cat", lambda: Composed(Atoms()), integers=True)


def randomised(model: Any) -> Any:
    """The model with weights and running statistics that hide nothing."""
    model.eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    for name, buffer in model.named_buffers():
        if "running" in name:
            buffer.data = 0.5 + torch.rand_like(buffer)
    return model


def drawn(rng: np.random.Generator, *, integers: bool) -> tuple[Any, Any, Any]:
    """Rows, edge list and the edges' one-hot classes of a random graph."""
    n = int(rng.integers(3, LARGEST + 1))
    upper = np.argwhere(np.triu(rng.random((n, n)) < 0.4, 1))
    edges = torch.from_numpy(np.concatenate([upper, upper[:, ::-1]]).T.copy())
    classes = np.random.default_rng(len(upper)).integers(BONDS, size=len(upper))
    bonds = torch.from_numpy(np.tile(np.eye(BONDS, dtype=np.float32)[classes], (2, 1)))
    if integers:
        return torch.from_numpy(np.stack([rng.integers(size, size=n) for size in TABLES], axis=1)), edges, bonds
    return torch.from_numpy(rng.normal(size=(n, FEATURES)).astype(np.float32)), edges, bonds


def called(model: Any, x: Any, edge_index: Any, bonds: Any) -> Any:
    """The model's output, of one graph or of its nodes."""
    batch = torch.zeros(len(x), dtype=torch.long)
    if isinstance(model, Whole):
        from torch_geometric.data import Batch, Data  # pyright: ignore[reportMissingImports]

        return model(Batch.from_data_list([Data(x=x, edge_index=edge_index)]))
    if isinstance(model, Framed):
        return model(x, edge_index, batch, bonds)
    return model(x, edge_index, batch) if isinstance(model, Composed) else model(x, edge_index)


def compared(case: Case, graphs: int) -> tuple[float, float]:
    """The largest relative differences of outputs and of gradients."""
    torch.manual_seed(0)
    rng, model = np.random.default_rng(0), randomised(case.make())
    padded, labels, outputs, seen = [], [], [], list[Observation]()
    steps: Any = None
    for _ in range(graphs):
        x, edges, bonds = drawn(rng, integers=case.integers)
        model.zero_grad()
        output = called(model, x, edges, bonds)
        label = torch.from_numpy(rng.integers(CLASSES, size=len(output)))
        nn.functional.cross_entropy(output, label).backward()
        steps = steps or steps_of(model, Example(x, edges, output, edge_rows=bonds))
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        seen.append(from_arrays(model.state_dict(), gradients, steps, loss="ce"))
        rows, kinds = _encoded(x) if case.integers else x.numpy(), seen[-1].model.edge_classes
        joined = by_class(edges.numpy(), bonds.numpy(), len(x), kinds) if kinds else dense(edges.numpy(), len(x))
        padded.append(_padded(rows, joined))
        outputs.append(output.detach().numpy())
        node_level = seen[-1].model.node_level
        labels.append(np.pad(label.numpy(), (0, LARGEST - len(x))) if node_level else label.numpy()[0])
    stacked = DenseGraph(*(jnp.asarray(np.stack(part)) for part in zip(*padded, strict=True)))
    found, slopes = _ours(seen[0], stacked, labels)
    trimmed = [mine[: len(theirs)].reshape(theirs.shape) for mine, theirs in zip(found, outputs, strict=True)]
    far = max(_relative(mine, theirs) for mine, theirs in zip(trimmed, outputs, strict=True))
    return far, max(_relative(mine, _flat(one.update)) for mine, one in zip(slopes, seen, strict=True))


def _ours(seen: Observation, graphs: DenseGraph, labels: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and gradients of the bridge's model, a row a graph."""
    model, params = seen.model, seen.params

    def one(graph: DenseGraph, label: Any) -> Any:
        slope = jax.grad(lambda p: graph_loss(model, p, graph, label, seen.loss))(params)
        return jnp.atleast_1d(model.apply({"params": params}, *graph)), jnp.concatenate(
            [leaf.reshape(-1) for leaf in jax.tree.leaves(slope)]
        )

    found, slopes = jax.jit(jax.vmap(one))(graphs, jnp.asarray(np.stack(labels)))
    found = np.asarray(found)
    return (found if model.node_level else found[:, None]), np.asarray(slopes)


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(tree)])


def _encoded(x: Any) -> np.ndarray:
    return np.concatenate([np.eye(size, dtype=np.float32)[x[:, i].numpy()] for i, size in enumerate(TABLES)], axis=1)


def _padded(rows: np.ndarray, adjacency: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    more = LARGEST - len(rows)
    mask = np.arange(LARGEST) < len(rows)
    around = ((0, more), (0, more), (0, 0))[: adjacency.ndim]
    return np.pad(rows, ((0, more), (0, 0))), np.pad(adjacency, around), mask


def _relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=50, help="a model")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", "example: nothing compares", UserWarning)  # this study does
    print(f"{'model':<48}{'graphs':>7}{'outputs':>10}{'gradients':>11}")
    for case in (case for case in cases() if given.only in case.name):
        output, gradient = compared(case, given.graphs)
        print(f"{case.name:<48}{given.graphs:>7}{output:>10.1e}{gradient:>11.1e}", flush=True)


if __name__ == "__main__":
    main()
