"""How a forward pass is written down: convolutions and linear maps by name, and words for everything between them.

``[GCN("conv1"), "relu", GCN("conv2"), "relu", "mean", Linear("lin1"), "relu", Linear("lin2")]`` is a whole model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedLayer:
    """A layer with arrays of its own.

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
      edge_weights: the forward pass gives it edge weights; refused, since no attack here looks for them.
    """

    edge_weights: bool = False
    kind: ClassVar[str]


class GCN(Conv):
    """``GCNConv`` as it comes: self-loops added, symmetric normalisation, the bias after the mixing."""

    kind = "gcn"
    patterns = {"kernel": ("lin.weight", "weight", "lin.kernel", "kernel"), "bias": ("bias",)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GAT(Conv):
    """``GATConv`` with self-loops and without edge features; heads are read off the arrays.

    Attributes:
      concat: heads side by side, rather than averaged.
      negative_slope: of the leaky ReLU in the attention score.
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


class SAGE(Conv):
    """``SAGEConv`` with the mean of the neighbours and a weight for the node itself (``root_weight``)."""

    kind = "sage"
    patterns = {
        "neighbour_kernel": ("lin_l.weight", "lin_l.kernel", "neighbour_kernel"),
        "self_kernel": ("lin_r.weight", "lin_r.kernel", "self_kernel"),
        "bias": ("lin_l.bias", "bias"),
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class GIN(Conv):
    """``GINConv`` around ``Linear, activation, Linear`` of one width; ``eps`` is read where it is stored.

    Attributes:
      act: the activation between the two linear maps.
      eps: weight of the node itself, where no array says.
    """

    act: str = "relu"
    eps: float = 0.0
    kind = "gin"
    patterns = {
        "kernel": ("nn.0.weight", "nn.lins.0.weight", "nn.layers.0.kernel", "kernel"),
        "inner_bias": ("nn.0.bias", "nn.lins.0.bias", "nn.layers.0.bias", "inner_bias"),
        "out_kernel": ("nn.2.weight", "nn.lins.1.weight", "nn.layers.2.kernel", "out_kernel"),
        "bias": ("nn.2.bias", "nn.lins.1.bias", "nn.layers.2.bias", "bias"),
        "eps": ("eps",),
    }
    optional = ("inner_bias", "bias", "eps")


class Linear(NamedLayer):
    """``torch.nn.Linear``, ``flax.linen.Dense`` or ``nnx.Linear``, with a bias."""

    patterns = {"kernel": ("weight", "kernel"), "bias": ("bias",)}
    optional = ()


POOLS = ("mean", "sum")
INPUT = "input"
"""Word for: put the node's input row beside its state (``[X | H]``, GRAIN's readout)."""

Step = NamedLayer | str
