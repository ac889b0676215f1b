"""The small graph on which a live PyTorch model is run once, and the run. Torch is imported only for a model of it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jgleak.interop.convert import check_options, is_leaf
from jgleak.precision import DIGITS


@dataclasses.dataclass(frozen=True)
class Probe:
    """A small graph for a run: rows, edge list, and the graph of every node, as tensors.

    Where the model sees edge classes, also their one-hot rows, or their numbers.
    """

    rows: Any
    edges: Any
    batch: Any
    edge_rows: Any = None


PROBE_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (5, 6))
NODES = 7


def probe_of(model: Any, rows: Any = None, edge_rows: Any = None) -> Probe:
    """A graph of seven nodes with rows that the model takes: like ``rows``, or by its first layer. Its edge classes
    have the form of ``edge_rows``, or are one-hot, where a layer sees them.

    Raises:
      ValueError: their width is unknown.
    """
    import torch  # pyright: ignore[reportMissingImports]

    parameter = next(model.parameters(), None)
    device = "cpu" if parameter is None else parameter.device
    kind = torch.float32 if parameter is None else _whole(parameter.dtype)
    generator = torch.Generator().manual_seed(0)
    if rows is not None:
        rows = torch.as_tensor(rows.astype(np.float32) if np.asarray(rows).dtype.name in DIGITS else rows)
        drawn = torch.randint(len(rows), (NODES,), generator=generator)
        wide = rows.shape[1:]
        taken = rows[drawn.to(rows.device)] if not rows.is_floating_point() else None
        made = torch.randn((NODES, *wide), generator=generator) if taken is None else taken
    else:
        made = _rows(model, generator)
    edges = torch.tensor(PROBE_EDGES, device=device).T
    made = made.to(device)
    made = made.to(kind) if made.is_floating_point() else made
    given = _edge_rows(model, kind, numbers=edge_rows is not None and len(edge_rows.shape) == 1)
    batch = torch.zeros(NODES, dtype=torch.long, device=device)
    both = torch.cat([edges, edges.flip(0)], dim=1)
    return Probe(made, both, batch, None if given is None else given.to(device))


def edge_classes(module: Any) -> int | None:
    """How many edge classes a convolution distinguishes; None where it sees none, or has no map of them."""
    lin = getattr(module, "lin", None) if type(module).__name__ == "GINEConv" else None
    return None if lin is None else lin.weight.shape[1]


def _edge_rows(model: Any, kind: Any, *, numbers: bool) -> Any:
    """The classes of a probe's edges, as numbers or one-hot; None where no layer sees them."""
    import torch  # pyright: ignore[reportMissingImports]

    found = next((count for module in model.modules() if (count := edge_classes(module))), None)
    if found is None:
        return None
    classes = (torch.arange(len(PROBE_EDGES)) % found).repeat(2)
    return classes if numbers else torch.eye(found, dtype=kind)[classes]


def _rows(model: Any, generator: Any) -> Any:
    import torch  # pyright: ignore[reportMissingImports]

    sizes = [module.num_embeddings for module in model.modules() if type(module).__name__ == "Embedding"]
    if sizes:
        columns = [torch.randint(size, (NODES,), generator=generator) for size in sizes]
        return torch.stack(columns, dim=1)
    for module in model.modules():
        width = getattr(module, "in_channels", getattr(module, "in_features", None))
        if is_leaf(module) and isinstance(width, int) and width > 0:
            return torch.randn((NODES, width), generator=generator)
    raise ValueError("model: nothing says how wide its input rows are; give an example=(x, edge_index, output)")


ROWS, EDGES, BATCH = ("x", "rows", "features"), ("edge_index", "edges", "edge_list", "adj"), ("batch", "batch_index")
SIZES, ATTRIBUTES = ("batch_size", "num_graphs", "size"), ("edge_attr", "edge_attributes", "edge_features", "edge_feat")
"""Names of the arguments of a ``forward``: the nodes' rows, the edge list, the graph of every node, the number of
graphs, and the edges' classes. Where no argument has a name for rows, the first one is taken."""


KNOWN = (*EDGES, *BATCH, *SIZES, *ATTRIBUTES)


def run(model: Any, probe: Probe, state: Mapping[str, np.ndarray] | None = None) -> Any:
    """The model's output for a graph, by the names of its ``forward``'s arguments; the model is not changed.

    Args:
      model: the module.
      probe: the graph.
      state: parameters and buffers in place of the model's own, with the same shapes; None: its own.

    Raises:
      ValueError: ``forward`` has an argument with an unknown name.
    """
    import torch  # pyright: ignore[reportMissingImports]

    # Copies, since a norm in training mode changes its buffers; 16-bit numbers are run in 32 bits.
    kept = {name: tensor for name, tensor in model.state_dict().items() if state is not None and name in state}
    short = {name: tensor for name, tensor in model.named_parameters() if _whole(tensor.dtype) != tensor.dtype}
    own = {name: tensor.detach().clone() for name, tensor in (short | dict(model.named_buffers())).items()}
    own |= {name: torch.tensor(np.asarray((state or {})[name], np.float64)).to(tensor) for name, tensor in kept.items()}
    own = {name: tensor.to(_whole(tensor.dtype)) for name, tensor in own.items()}
    arguments, keywords = _arguments(model, probe)
    with torch.no_grad():
        return torch.func.functional_call(model, own, arguments, keywords)


def _whole(kind: Any) -> Any:
    """A torch type, or float32 in place of 16-bit types."""
    import torch  # pyright: ignore[reportMissingImports]

    return torch.float32 if kind in (torch.float16, torch.bfloat16) else kind


def _arguments(model: Any, probe: Probe) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a model's call."""
    signature = getattr(getattr(model, "signature", None), "param_dict", None)  # PyTorch Geometric's Sequential
    if signature is not None:
        return tuple(_argument(name, probe, name == _rows_in([*signature])) for name in signature), {}
    parameters = inspect.signature(model.forward).parameters
    needed = [
        p for p in parameters.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    mixes = any(hasattr(module, "propagate") for module in model.modules())
    if len(needed) == 1 and mixes and not {*parameters} & {*EDGES}:
        from torch_geometric.data import Batch, Data  # pyright: ignore[reportMissingImports]

        graph = Batch.from_data_list([Data(x=probe.rows, edge_index=probe.edges)])
        graph.x, graph.edge_index, graph.batch = probe.rows, probe.edges, probe.batch  # the very tensors, not copies
        if probe.edge_rows is not None:
            graph.edge_attr = probe.edge_rows
        return (graph,), {}
    if probe.edge_rows is None and any(p.name in ATTRIBUTES for p in needed):
        for name, module in model.named_modules():
            check_options(name, type(module).__name__, module)  # its message names the convolution that takes them
    rows = _rows_in([p.name for p in needed])
    given = {p.name: _argument(p.name, probe, p.name == rows) for p in needed}
    if "batch" in parameters:
        given["batch"] = probe.batch
    if probe.edge_rows is not None:
        given |= {name: probe.edge_rows for name in ATTRIBUTES if name in parameters}
    return (), given


EMBEDDED = (
    "model: its forward needs {!r}, and no GINEConv(edge_dim=..) of it takes them as they are: edge features that "
    "weigh edges or enter attention are not read. Where each layer embeds them first (OGB's BondEncoder), write the "
    "forward pass down: layers=[.., GINE(.., tables=[..], classes=[..]), ..]. Or build the layers as "
    "GINEConv(.., edge_dim=K), one class for each combination of the attributes, or train without edge features"
)


def _rows_in(names: Sequence[str]) -> str | None:
    """Which argument the nodes' rows are."""
    named = [name for name in names if name in ROWS]
    return next(iter(named or [name for name in names[:1] if name not in KNOWN]), None)


def _argument(name: str, probe: Probe, rows: bool) -> Any:
    if rows:
        return probe.rows
    if name in EDGES:
        return probe.edges
    if name in BATCH:
        return probe.batch
    if name in SIZES:
        return 1
    if name in ATTRIBUTES and probe.edge_rows is not None:
        return probe.edge_rows
    if name in ATTRIBUTES:
        raise ValueError(EMBEDDED.format(name))
    raise ValueError(
        f"model: its forward needs {name!r}, a name that is not known. Known are {', '.join(ROWS)} (or what comes "
        f"first) for the nodes' rows, {', '.join(EDGES)} for the edges, {', '.join(BATCH)} for the graph of every "
        f"node, {', '.join(SIZES)} for the number of graphs and {', '.join(ATTRIBUTES)} for edge classes. Rename it, "
        "where it is one of these; where it can be left out, write the forward pass down: layers=[..]"
    )
