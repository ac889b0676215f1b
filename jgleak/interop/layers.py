"""How a forward pass is written: layers with arrays by name, and words for everything between them.

``[GCN("conv1"), "relu", GCN("conv2"), "relu", "mean", Linear("lin1"), "relu", Linear("lin2")]`` is a whole model, and
``[Linear("enter"), SAGE("conv1"), BatchNorm("norm1"), "relu", "add", GIN("conv2"), "jump_cat", "sum", Linear("out")]``
another one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

from jgleak.gnn import ACTIVATIONS
from jgleak.gnn.norm import EPSILON


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedLayer:
    """A layer that has arrays.

    Attributes:
      name: the prefix of its arrays' names.
      names: whole names of single arrays, by role, where they differ from ``patterns``.

    Class attributes:
      patterns: usual endings of every array's name, by role (PyTorch Geometric's first, then flax's). An array called
        ``weight`` is ``(out, in)``, as PyTorch stores it; any other matrix is ``(in, out)``.
      optional: roles that a layer may lack.
    """

    name: str = dataclasses.field(kw_only=False)
    names: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)

    patterns: ClassVar[Mapping[str, tuple[str, ...]]]
    optional: ClassVar[tuple[str, ...]] = ("bias",)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.names) - set(self.patterns))
        if unknown:
            raise ValueError(
                f"layers: {self.name!r} has no array {unknown[0]!r}; its roles are {', '.join(self.patterns)}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conv(NamedLayer):
    """A graph convolution; see its subclasses for what each computes.

    Attributes:
      edge_weights: the forward pass gives it edge weights; refused, since no attack here recovers them.
    """

    edge_weights: bool = False
    kind: ClassVar[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GCN(Conv):
    """``GCNConv`` by default: self-loops added, symmetric normalisation, the bias after the mixing.

    Attributes:
      self_loops: every node takes its own row too.
      normalise: divide by the square roots of both ends' degrees.
    """

    self_loops: bool = True
    normalise: bool = True
    kind = "gcn"
    patterns = {"kernel": ("lin.weight", "weight", "lin.kernel", "kernel"), "bias": ("bias",)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GAT(Conv):
    """``GATConv`` with self-loops and without edge features; the number of heads follows from the arrays.

    Attributes:
      concat: heads side by side, rather than averaged.
      negative_slope: slope of the leaky ReLU in the attention score.
    """

    concat: bool = True
    negative_slope: float = 0.2
    kind = "gat"
    patterns = {
        "kernel": ("lin.weight", "lin_src.weight", "lin.kernel", "kernel"),
        "source": ("att_src", "source"),
        "target": ("att_dst", "target"),
        "residual_kernel": ("res.weight", "residual_kernel"),
        "bias": ("bias",),
    }
    optional = ("bias", "residual_kernel")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GATv2(Conv):
    """``GATv2Conv`` with self-loops, without edge features, and with a separate map for each end.

    Attributes:
      concat, negative_slope: as for ``GAT``.
    """

    concat: bool = True
    negative_slope: float = 0.2
    kind = "gatv2"
    patterns = {
        "source_kernel": ("lin_l.weight", "lin_l.kernel", "source_kernel"),
        "target_kernel": ("lin_r.weight", "lin_r.kernel", "target_kernel"),
        "attention": ("att", "attention"),
        "residual_kernel": ("res.weight", "residual_kernel"),
        "source_bias": ("lin_l.bias", "source_bias"),
        "target_bias": ("lin_r.bias", "target_bias"),
        "bias": ("bias",),
    }
    optional = ("residual_kernel", "source_bias", "target_bias", "bias")


class LE(Conv):
    """``LEConv``: a node's row, and the differences between its neighbours' rows and its own."""

    kind = "leconv"
    patterns = {
        "self_kernel": ("lin3.weight", "lin3.kernel", "self_kernel"),
        "centre_kernel": ("lin2.weight", "lin2.kernel", "centre_kernel"),
        "neighbour_kernel": ("lin1.weight", "lin1.kernel", "neighbour_kernel"),
        "neighbour_bias": ("lin1.bias", "neighbour_bias"),
        "bias": ("lin3.bias", "bias"),
    }
    optional = ("neighbour_bias", "bias")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SAGE(Conv):
    """``SAGEConv`` with a weight for the node itself (``root_weight``).

    Attributes:
      aggregation: aggregation of the neighbours' rows, ``mean`` or ``sum``.
    """

    aggregation: str = "mean"
    kind = "sage"
    patterns = {
        "neighbour_kernel": ("lin_l.weight", "lin_l.kernel", "neighbour_kernel"),
        "self_kernel": ("lin_r.weight", "lin_r.kernel", "self_kernel"),
        "bias": ("lin_l.bias", "bias"),
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphConv(Conv):
    """``GraphConv``: a weight for the node itself and one for its neighbours.

    Attributes:
      aggregation: as for ``SAGE``.
    """

    aggregation: str = "sum"
    kind = "graph"
    patterns = {
        "neighbour_kernel": ("lin_rel.weight", "lin_rel.kernel", "neighbour_kernel"),
        "self_kernel": ("lin_root.weight", "lin_root.kernel", "self_kernel"),
        "bias": ("lin_rel.bias", "bias"),
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class GIN(Conv):
    """``GINConv``, by default around ``Linear, activation, Linear``; ``eps`` is read where it is stored.

    Attributes:
      act: the activation between the two linear maps, where ``inside`` is empty.
      eps: weight of the node itself, where no array holds it.
      inside: the map of a node where it is a different one, step by step, with names relative to the layer's:
        ``GIN("conv1", inside=(Linear("nn.0"), BatchNorm("nn.1"), "relu", Linear("nn.3"), "relu"))``.
    """

    act: str = "relu"
    eps: float = 0.0
    inside: Sequence[Step] = ()
    kind = "gin"
    patterns = {
        "kernel": ("nn.0.weight", "nn.lins.0.weight", "nn.layers.0.kernel", "kernel"),
        "inner_bias": ("nn.0.bias", "nn.lins.0.bias", "nn.layers.0.bias", "inner_bias"),
        "out_kernel": ("nn.2.weight", "nn.lins.1.weight", "nn.layers.2.kernel", "out_kernel"),
        "bias": ("nn.2.bias", "nn.lins.1.bias", "nn.layers.2.bias", "bias"),
        "eps": ("eps",),
    }
    optional = ("inner_bias", "bias", "eps")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "inside", tuple(self.inside))


@dataclasses.dataclass(frozen=True, kw_only=True)
class GINE(GIN):
    """``GINEConv`` with ``edge_dim``: a GIN that adds a map of the edge's class to a neighbour's row, then takes ReLU.

    The edge features are one-hot over the edge classes, in the order of the feature schema's. Or they are integers, and
    a sum of embeddings is added, one for each attribute (OGB's ``BondEncoder``).

    Attributes:
      tables: the embeddings' names in the order of the attributes; empty: the layer has a linear map of one-hot rows.
      classes: the attributes of every edge class, in the order of the feature schema's (``jgleak.features.ogb_bonds``);
        empty: every value of a single table.
    """

    tables: tuple[str, ...] = ()
    classes: tuple[tuple[int, ...], ...] = ()

    kind = "gine"
    patterns = {
        **GIN.patterns,
        "edge_kernel": ("lin.weight", "lin.kernel", "edge_kernel"),
        "edge_bias": ("lin.bias", "edge_bias"),
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Norm(NamedLayer):
    """A normalisation between a convolution and its activation.

    Attributes:
      epsilon: added to the variance; PyTorch's default is 1e-5, flax's is another.
    """

    epsilon: float = EPSILON
    kind: ClassVar[str]
    optional = ()


class LayerNorm(Norm):
    """``torch.nn.LayerNorm`` over a node's own columns; PyTorch Geometric's with ``mode="node"``."""

    kind = "layer"
    patterns = {"scale": ("weight", "scale"), "bias": ("bias",)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchNorm(Norm):
    """``BatchNorm1d``; no gradient reaches its running statistics, which are public.

    Attributes:
      training: the client's was in training mode: it used the batch's statistics, and updated its running ones.
      momentum: share of the batch's statistics in the running ones after a step in training mode, as in PyTorch (flax
        counts the other way round). The batch's variance enters as in PyTorch, unbiased.
    """

    training: bool = False
    momentum: float = 0.1
    kind = "batch"
    patterns = {
        "scale": ("weight", "module.weight", "scale"),
        "bias": ("bias", "module.bias"),
        "mean": ("running_mean", "module.running_mean", "mean"),
        "variance": ("running_var", "module.running_var", "var"),
    }


class Linear(NamedLayer):
    """``torch.nn.Linear``, ``flax.linen.Dense`` or ``nnx.Linear``; after the convolutions with a bias.

    Before the first convolution it is the encoder.
    """

    patterns = {"kernel": ("weight", "kernel"), "bias": ("bias",)}


class Residual(Linear):
    """A linear map of what enters a layer, added after the layer's activation: ``relu(conv(h)) + lin(h)``."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Embeddings(NamedLayer):
    """An encoder of rows of integers: the sum of one ``nn.Embedding`` for each column (OGB's ``AtomEncoder``).

    It is a linear map of the one-hot rows, which are the columns of the feature schema.

    Attributes:
      tables: the embeddings' names in the order of the columns; empty: ``name.0``, ``name.1``, .. as far as they go.
    """

    tables: tuple[str, ...] = ()
    patterns = {"kernel": ("weight", "embedding")}
    optional = ()


POOLS = ("mean", "sum")
INPUT = "input"
"""Word for: put the node's input row beside its state (``[X | H]``, GRAIN's readout)."""

ADD = "add"
"""Word for: add what entered the layer, after its activation (``h + relu(conv(h))``)."""

JUMP_WORDS = {"jump_cat": "cat", "jump_max": "max", "jump_sum": "sum"}
"""Words for how the readout sees the states of all layers, and their names in ``jgleak.gnn.JUMPS``."""

LOG_SOFTMAX = "log_softmax"
"""Last word of a model of log-probabilities, trained by ``nll_loss``: cross-entropy of what comes before."""

WORDS = (*ACTIVATIONS, ADD, *JUMP_WORDS, *POOLS, INPUT, LOG_SOFTMAX)
"""All words of a forward pass."""

Step = NamedLayer | str


def called(step: Step) -> str:
    """The name of a step in messages: the name of its arrays, or the word."""
    return step.name if isinstance(step, NamedLayer) else step
