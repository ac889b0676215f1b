"""Public graphs with the outside model's output for them, by which its description is checked."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Num

from jgleak.federated.client import gradients
from jgleak.federated.loss import Loss, graph_loss
from jgleak.federated.observation import Observation, flatten
from jgleak.gnn import GNN, Params
from jgleak.graph import DenseGraph, GraphBatch
from jgleak.interop.arrays import by_name
from jgleak.interop.graphs import by_class, dense
from jgleak.interop.likely import likely
from jgleak.plural import counted
from jgleak.precision import DIGITS

EQUAL = 1e-4
"""Most that the bridge's output or gradient for an example may differ, relative to the largest entry."""

USUAL = 1e-5
"""Rounding seldom leaves more in 32 bits: above it, a single change that leaves a tenth of it is what the model has."""

ROUNDINGS, CANCELLED = 30.0, 1e-2
"""Where an output is small relative to its terms it may differ by this multiple of the description's own rounding,
since the outside model adds in another order; but by at most this share of the output, so that the check still means
something."""

UNITS = 25.0
"""``EQUAL`` where the outside model computed in 16 bits, in units of the last binary digit: a tenth in bfloat16, a
hundredth in float16. Examples that are computed in 32 bits are compared with ``EQUAL``."""


def _equal(computed: np.ndarray) -> float:
    """The tolerance for numbers of this type."""
    digits = DIGITS.get(computed.dtype.name)
    return EQUAL if digits is None else UNITS * 0.5**digits


@dataclasses.dataclass(frozen=True)
class Example:
    """Public graphs of any kind with the model's output for them; arrays of NumPy, JAX or torch, or lists.

    Attributes:
      rows: input rows of all nodes; integers where the model looks them up in embeddings.
      edges: edge list ``(2, e)`` with both directions, as PyTorch Geometric has it.
      output: the model's output.
      batch: the graph of every node, counted from 0; None: all of them are one graph.
      labels: where given, the gradients must be those of the mean loss of these graphs, and are checked too.
      edge_rows: for models with edge classes, the class of every edge: one-hot rows ``(e, K)``, or numbers; for layers
        that embed attributes of edges, these integers ``(e, t)``.
    """

    rows: Any
    edges: Any
    output: Any
    batch: Any = None
    labels: Any = None
    edge_rows: Any = None

    @classmethod
    def of(cls, given: Given) -> Example:
        """An example from a tuple in the order of the attributes."""
        example = given if isinstance(given, Example) else cls(*given)
        return cls(**{f.name: _array(f.name, getattr(example, f.name)) for f in dataclasses.fields(cls)})


def _array(name: str, part: Any) -> np.ndarray | None:
    """A part of an example as a NumPy array, of lists of numbers too."""
    if part is None:
        return None
    if isinstance(part, list | tuple):
        try:
            part = np.asarray(part)
        except ValueError as error:
            raise ValueError(f"{name}: expected an array, got a list of lists of different lengths") from error
    return by_name({name: part})[name]


Given = Example | tuple[Any, ...]
"""An example, or ``(rows, edges, output)``, ``(rows, edges, output, batch)``, .. in the order of its attributes."""


class OutputDiffersError(ValueError):
    """The description's output for the example is not the model's."""


def check_example(
    observation: Observation, example: Example, tables: tuple[int, ...] = (), *, normalised: bool = False
) -> None:
    """Compare the output of the observation's model with that of the outside model.

    Args:
      observation: the observation that the bridge built.
      example: the example, with NumPy arrays.
      tables: number of rows of every embedding table of the encoder; empty: the rows enter unchanged.
      normalised: the outside model's output is log-probabilities.

    Raises:
      ValueError: the example does not fit the model, or is not made of simple graphs.
      OutputDiffersError: the output differs; the message names the part that explains it, where one does.
    """
    model = observation.model
    graphs = _graphs(model, example, tables)
    if model.returns_statistics and graphs.mask.shape[0] > 1:
        raise ValueError(
            f"example: batch normalisation in training mode mixes the {graphs.mask.shape[0]} graphs of a batch; give "
            "one graph"
        )
    wanted = np.asarray(example.output, np.float64)
    raw = np.asarray(outputs(model, observation.params, graphs), np.float64)
    found = np.asarray(jax.nn.log_softmax(raw)) if normalised else raw
    if wanted.size != found.size:
        raise ValueError(_other_size(model, graphs, found.size, wanted.size))
    gap, equal = _gap(found, wanted), _equal(np.asarray(example.output))
    if equal < gap <= CANCELLED:
        equal = max(equal, ROUNDINGS * _rounding(model, observation.params, graphs, raw))
    near, reason = gap <= equal, None
    if not near or (USUAL < gap and equal == EQUAL):
        most = gap / 10.0 if near else equal
        reason = likely(model, observation.params, lambda m, p: _explained(m, p, graphs, wanted, most, normalised))
    if not near or reason is not None:
        raise OutputDiffersError(
            f"example: the description's output differs from the model's by {gap:.1e} of its size; "
            + (
                reason
                or "look for an activation in another place, a row that is added, a normalisation without "
                "weights, dropout, edge weights, or a bias that is added before nodes are mixed"
            )
        )
    if example.labels is not None:
        _check_gradient(observation, graphs, np.asarray(example.labels), wanted.size)


def _other_size(model: GNN, graphs: DenseGraph, found: int, wanted: int) -> str:
    """The message for an example's output with another number of entries than the description's."""
    nodes, many = int(graphs.mask.sum()), graphs.mask.shape[0]
    said = f"example: the model's output has {wanted} entries, the description's {found} for "
    if model.node_level and wanted == model.outputs:
        return f"{said}{nodes} nodes: it pools its nodes; name the pool, 'mean' or 'sum', where it stands"
    if not model.node_level and many == 1 < nodes and wanted == nodes * model.outputs:
        return f"{said}one graph: it labels nodes; leave the pool out, or of {nodes} graphs give their batch vector"
    count = nodes if model.node_level else many
    what = f"{_many(count, model)} with {counted(found // count, 'output')} each"
    return (
        f"{said}{what}; give all that the model returns, as it enters the loss, and for a batch of graphs the "
        "vector with the graph of every node: (x, edge_index, output, batch)"
    )


def _many(count: int, model: GNN) -> str:
    """A number of nodes or graphs, whichever have labels, in words."""
    return counted(count, "node" if model.node_level else "graph")


@partial(jax.jit, static_argnames=("model",))
def outputs(model: GNN, params: Params, graphs: DenseGraph) -> Float[jax.Array, "B ..."]:
    """The model's output for a stack of padded graphs."""
    return jax.vmap(lambda *graph: model.apply({"params": params}, *graph))(*graphs)


def _explained(
    model: GNN, params: Params, graphs: DenseGraph, wanted: Float[np.ndarray, "..."], most: float, normalised: bool
) -> bool:
    """Whether no graph's output differs by more; not compiled, since most models are run on the first graph alone."""
    count = graphs.mask.shape[0]
    for i, ours in enumerate(wanted.reshape(count, -1)):
        one = model.apply({"params": params}, *(part[i] for part in graphs))
        found = np.asarray(jax.nn.log_softmax(one) if normalised else one, np.float64).reshape(-1)
        size = max(float(np.abs(wanted).max()), 1e-6)
        if found.size != ours.size or not np.abs(found - ours).max() <= most * size:
            return False
    return True


def _gap(found: Float[np.ndarray, "..."], wanted: Float[np.ndarray, "..."]) -> float:
    return float(np.abs(found.reshape(-1) - wanted.reshape(-1)).max() / max(np.abs(wanted).max(), 1e-6))


def _rounding(model: GNN, params: Params, graphs: DenseGraph, found: Float[np.ndarray, "B ..."]) -> float:
    """The rounding error of the description's output, relative to its size, by comparison with 64 bits: large where the
    output is small relative to its terms."""
    with jax.enable_x64(True):
        whole: Params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
        rows, edges = (np.asarray(part, np.float64) for part in (graphs.nodes, graphs.adjacency))
        exact = np.asarray(outputs(model, whole, graphs._replace(nodes=rows, adjacency=edges)), np.float64)
    return _gap(found, exact)


def _graphs(model: GNN, example: Example, tables: tuple[int, ...]) -> DenseGraph:
    """The example's graphs, padded to the largest and stacked; for a node task all of them as one graph."""
    rows = _rows(model, np.asarray(example.rows), tables)
    edges = np.asarray(example.edges)
    adjacency = _adjacency(model, edges, example.edge_rows, len(rows))
    whose = np.zeros(len(rows), np.int64) if example.batch is None or model.node_level else np.asarray(example.batch)
    if whose.shape != (len(rows),):
        raise ValueError(f"example: 'batch' must say one graph for each of {len(rows)} nodes, got shape {whose.shape}")
    if edges.size and np.any(whose[edges[0]] != whose[edges[1]]):
        raise ValueError("example: an edge joins two graphs of the batch; give the batch vector of these nodes")
    parts = [np.flatnonzero(whose == graph) for graph in np.unique(whose)]
    size = max(len(part) for part in parts)
    nodes = np.zeros((len(parts), size, rows.shape[1]), np.float32)
    matrices = np.zeros((len(parts), size, size, *adjacency.shape[2:]), np.float32)
    mask = np.zeros((len(parts), size), bool)
    for i, part in enumerate(parts):
        k = len(part)
        nodes[i, :k], matrices[i, :k, :k], mask[i, :k] = rows[part], adjacency[np.ix_(part, part)], True
    return DenseGraph(jnp.asarray(nodes), jnp.asarray(matrices), jnp.asarray(mask))


def _adjacency(model: GNN, edges: Num[np.ndarray, "2 e"], rows: Any, n: int) -> Float[np.ndarray, "n n *K"]:
    if not model.edge_classes:
        return dense(edges, n)
    if rows is None:
        raise ValueError(
            f"example: the model tells {model.edge_classes} edge classes apart; give those of these edges too: "
            "Example(x, edge_index, output, edge_rows=edge_attr)"
        )
    return by_class(edges, rows, n, model.edge_classes)


def _rows(model: GNN, rows: Num[np.ndarray, "n f"], tables: tuple[int, ...]) -> Float[np.ndarray, "n m"]:
    if tables and (rows.ndim == 1 or rows.shape[1] != model.in_features):
        codes = rows.reshape(len(rows), -1).astype(np.int64)
        if codes.shape[1] != len(tables) or np.any(codes < 0) or np.any(codes >= np.asarray(tables)):
            raise ValueError(
                f"example: the model looks {len(tables)} integers a node up in tables of {list(tables)} rows; got "
                f"shape {rows.shape} and entries from {codes.min()} to {codes.max()}"
            )
        return np.concatenate([np.eye(k, dtype=np.float32)[codes[:, i]] for i, k in enumerate(tables)], axis=1)
    if rows.ndim != 2 or rows.shape[1] != model.in_features:
        raise ValueError(f"example: the model takes rows of {model.in_features} features, got shape {rows.shape}")
    return rows.astype(np.float32)


def _check_gradient(observation: Observation, graphs: DenseGraph, labels: Num[np.ndarray, "..."], outputs: int) -> None:
    """Raise ``ValueError`` where the update is not the gradient of the mean loss of ``graphs``.

    ``outputs`` is the number of entries of the outside model's output, for all graphs or nodes.
    """
    model, loss = observation.model, Loss.of(observation.loss)
    count = graphs.nodes.shape[1] if model.node_level else graphs.nodes.shape[0]
    rows = labels.size == outputs != count
    missing = labels.dtype.kind == "f" and bool(np.isnan(labels).any())
    if not loss.masked and (rows or missing):
        seen = f"{labels.size // count}, {'of which some are missing' if missing else 'and none is missing'}"
        raise ValueError(
            f"loss: under it a {'node' if model.node_level else 'graph'} has one label, and in the example {seen}; "
            "where the outputs are separate tasks, use 'masked_bce' ('masked_mse', 'masked_mae' for numbers); instead "
            "of one-hot rows give the class's number"
        )
    if labels.size != count * (model.outputs if loss.masked else 1):
        raise ValueError(
            f"example: there are {labels.size} labels for {_many(count, model)}"
            + (f" of {model.outputs} tasks; of one class a graph the loss is 'ce' or 'bce'" if loss.masked else "")
        )
    y = jnp.asarray(labels.reshape(1, -1) if model.node_level else labels.reshape(count, -1)[:, : model.outputs])
    y = y.astype(jnp.float32 if loss.masked or loss.name == "mse" else jnp.int32)
    y = y if loss.masked or model.node_level else y[:, 0]
    shares = None
    if model.node_level:
        shares = np.asarray(_node_gradients(model, observation.params, graphs, y, observation.loss), np.float64)
        found = shares.mean(axis=0)
    else:
        found = np.asarray(_mean_gradient(model, observation.params, graphs, y, observation.loss), np.float64)
    update = model.trained(observation.update)
    wanted = np.concatenate([np.asarray(leaf, np.float64).reshape(-1) for leaf in jax.tree.leaves(update)])
    size = max(np.abs(found).max(), 1e-12)
    gap = float(np.abs(found - wanted).max() / size)
    if gap <= max(_equal(np.asarray(leaf)) for leaf in jax.tree.leaves(update)):
        return
    raise ValueError(
        f"gradient: it differs from that of the example's loss by {gap:.1e} of its size; "
        + _gradient_hint(found, wanted, shares, update, size)
    )


def _gradient_hint(
    found: Float[np.ndarray, " p"],
    wanted: Float[np.ndarray, " p"],
    shares: Float[np.ndarray, "n p"] | None,
    update: Params,
    size: float,
) -> str:
    ratio = float(wanted @ found / (found @ found))
    if np.abs(wanted - ratio * found).max() <= EQUAL * max(abs(ratio), 1.0) * size:
        return f"it is {ratio:.4g} times as long: look at 'reduction', 'batch_size', and weights in the loss"
    if shares is not None:
        weights = np.linalg.lstsq(shares.T, wanted, rcond=None)[0]
        if np.abs(shares.T @ weights - wanted).max() <= EQUAL * size:
            used = np.flatnonzero(np.abs(weights) > 1e-3 * np.abs(weights).max()).tolist()
            return (
                f"it is that of the nodes {used} alone: a masked loss. The losses here run over all nodes of the "
                "graph; give the subgraph whose nodes all have labels"
            )
    leaves, start = flatten(update), 0
    for path in sorted(leaves):
        stop = start + np.size(leaves[path])
        if not np.any(wanted[start:stop]) and np.abs(found[start:stop]).max(initial=0.0) > EQUAL * size:
            return f"that of {path!r} is zero: a detached state or a frozen layer"
        start = stop
    return "it is of another loss, other labels or other graphs than the example's"


@partial(jax.jit, static_argnames=("model", "loss"))
def _mean_gradient(model: GNN, params: Params, graphs: DenseGraph, labels: Any, loss: str) -> Float[jax.Array, " p"]:
    each = gradients(model, params, GraphBatch(*graphs, labels), loss=loss)
    return _flat(jax.tree.map(lambda leaf: leaf.mean(axis=0), each))


@partial(jax.jit, static_argnames=("model", "loss"))
def _node_gradients(model: GNN, params: Params, graphs: DenseGraph, labels: Any, loss: str) -> Float[jax.Array, "n p"]:
    """The gradient of every node's own loss."""
    graph, label = jax.tree.map(lambda part: part[0], (graphs, labels))
    shares = jnp.eye(label.shape[0])
    return jax.vmap(lambda share: _flat(jax.grad(lambda p: graph_loss(model, p, graph, label, loss, share))(params)))(
        shares
    )


def _flat(tree: Params) -> Float[jax.Array, " p"]:
    return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(tree)])
