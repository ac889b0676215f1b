"""The model under attack: a stack of convolutions and a readout, as one pure function of its parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.activation import activation
from jgleak.gnn.convolution import Convolution
from jgleak.gnn.gat import NEGATIVE_SLOPE, GATConv
from jgleak.gnn.gcn import GCNConv
from jgleak.gnn.gin import GINConv
from jgleak.gnn.precise import Precise
from jgleak.gnn.readout import DotProduct, Flattened, NodeMLP, NodeScores, Pooled, Readout
from jgleak.gnn.sage import SAGEConv

CONVOLUTIONS: dict[str, type[Convolution]] = {"gcn": GCNConv, "gat": GATConv, "sage": SAGEConv, "gin": GINConv}
READOUTS = ("node_mlp", "pooled", "flattened", "node_scores", "dot")

Params = Any
"""A pytree of weights, ``{"conv_0": {"kernel": ...}, ..., "readout": {...}}``."""


class GNN(Precise):
    """``H_0 = X``, ``H_{l+1} = act(conv_l(H_l, A))``, then the readout.

    The defaults are GRAIN's model: two GCN layers of width 300, no bias, ReLU between and none after the last, an MLP
    [X | H] -> 300 -> 64 -> C on every node, logits averaged over nodes.

    Attributes:
      in_features: width ``m`` of the encoded node features.
      classes: number of outputs ``C``.
      conv: ``gcn``, ``gat``, ``sage`` or ``gin``.
      layers: number of convolutions ``L``.
      hidden: width ``D`` of every convolution (the last is ``classes`` wide under ``node_scores``).
      act: ``relu``, ``gelu``, ``sigmoid``, ``tanh`` or ``elu``.
      last_act: apply the activation after the last convolution too.
      bias: give the convolutions a bias.
      heads: attention heads (GAT only); hidden layers concatenate, the last one averages.
      widths: width of every convolution, where they differ; empty for ``hidden`` throughout.
      last_heads: heads of the last convolution (GAT only); None for ``heads``.
      last_concatenate: the last convolution concatenates its heads too (GAT only).
      negative_slope: slope of the attention score's leaky ReLU below zero (GAT only).
      residual: every convolution adds a linear map of the node's own row (GAT only).
      epsilons: weight of a node's own row in every layer, as ``1 + epsilon`` (GIN only); empty for zeros.
      readout: ``node_mlp`` (GRAIN), ``pooled`` (GraphDLG, FedGIG), ``flattened`` (GLG, graph task),
        ``node_scores`` (GLG, node task) or ``dot`` (FedGNN).
      readout_widths: hidden widths of the readout's MLP.
      readout_act: its activation; None for ``act``.
      pooling: ``mean``, ``sum`` or ``max`` (pooled readout only).
      per_node: node classification, for ``node_mlp``.
      see_input: ``node_mlp`` sees ``[X | H]`` rather than ``H``.
      slots: node slots of the flattened readout.
    """

    in_features: int
    classes: int = 2
    conv: str = "gcn"
    layers: int = 2
    hidden: int = 300
    act: str = "relu"
    last_act: bool = False
    bias: bool = False
    heads: int = 2
    readout: str = "node_mlp"
    readout_widths: tuple[int, ...] = (300, 64)
    pooling: str = "mean"
    per_node: bool = False
    see_input: bool = True
    slots: int = 0
    widths: tuple[int, ...] = ()
    last_heads: int | None = None
    last_concatenate: bool = False
    negative_slope: float = NEGATIVE_SLOPE
    residual: bool = False
    epsilons: tuple[float, ...] = ()
    readout_act: str | None = None

    def setup(self) -> None:
        self.check()
        for layer in range(self.layers):
            setattr(self, f"conv_{layer}", self.convolution(layer))
        self.head = self._readout()

    @nn.nowrap
    def check(self) -> None:
        """Raise ``ValueError`` for an unknown name or an impossible size."""
        if self.conv not in CONVOLUTIONS:
            raise ValueError(f"conv: unknown {self.conv!r}; choose one of {sorted(CONVOLUTIONS)}")
        if self.readout not in READOUTS:
            raise ValueError(f"readout: unknown {self.readout!r}; choose one of {sorted(READOUTS)}")
        counts = (self.layers, self.hidden, self.classes, self.in_features, self.heads, self.last_heads or 1)
        if min(*counts, *self.widths) < 1:
            raise ValueError("layers, hidden, classes, in_features, heads and widths must be at least 1")
        for field in ("widths", "epsilons"):
            if len(getattr(self, field)) not in (0, self.layers):
                raise ValueError(f"{field}: expected one entry for each of {self.layers} layers or none")
        if self.residual and self.conv != "gat":
            raise ValueError(f"residual: only 'gat' has a residual map here, this model's convolution is {self.conv!r}")
        if self.readout == "flattened" and self.slots < 1:
            raise ValueError("slots: the flattened readout needs the number of node slots it is made for")
        activation(self.act)
        activation(self.readout_act or self.act)

    @nn.nowrap
    def width(self, layer: int) -> int:
        """Width of the rows that enter convolution ``layer`` (``layers`` gives the last states')."""
        if layer == 0:
            return self.in_features
        if layer == self.layers and self.readout == "node_scores":
            return self.classes
        return self.widths[layer - 1] if self.widths else self.hidden

    @nn.nowrap
    def convolution(self, layer: int) -> Convolution:
        """The convolution of one layer, unbound: use it with ``params["conv_<layer>"]``."""
        shared: dict[str, Any] = {
            "in_features": self.width(layer),
            "features": self.width(layer + 1),
            "bias": self.bias,
        }
        if self.conv == "gat":
            last = layer == self.layers - 1
            heads = self.last_heads if last and self.last_heads is not None else self.heads
            beside = self.last_concatenate or not last
            slope, own = self.negative_slope, self.residual
            return GATConv(**shared, heads=heads, concatenate=beside, negative_slope=slope, residual=own)
        if self.conv == "gin":
            return GINConv(**shared, inner=self.act, epsilon=self.epsilons[layer] if self.epsilons else 0.0)
        return CONVOLUTIONS[self.conv](**shared)

    @nn.nowrap
    def apply_layer(self, layer: int, weights: Params, method: str, *arguments: Any) -> Any:
        """A method of one convolution (``project``, ``star_terms``, ..) under its own weights."""
        return self.convolution(layer).apply({"params": weights}, *arguments, method=method)

    @nn.nowrap
    def activate(self, layer: int, z: Float[Array, "... D"]) -> Float[Array, "... D"]:
        """Pre-activations of convolution ``layer`` to states."""
        last = layer == self.layers - 1
        return z if last and not self.last_act else activation(self.act)(z)

    def _readout(self) -> Readout:
        shared: dict[str, Any] = {
            "in_features": self.in_features,
            "state_features": self.width(self.layers),
            "classes": self.classes,
        }
        act = self.readout_act or self.act
        if self.readout == "node_mlp":
            return NodeMLP(
                **shared, per_node=self.per_node, widths=self.readout_widths, act=act, see_input=self.see_input
            )
        if self.readout == "pooled":
            return Pooled(**shared, widths=self.readout_widths, act=act, pooling=self.pooling)
        if self.readout == "flattened":
            return Flattened(**shared, slots=self.slots)
        return NodeScores(**shared, per_node=True) if self.readout == "node_scores" else DotProduct(**shared)

    @property
    def node_level(self) -> bool:
        """True when the output is one row a node (node classification, ratings)."""
        return self.readout in ("node_scores", "dot") or (self.readout == "node_mlp" and self.per_node)

    def states(
        self,
        nodes: Float[Array, "N m"],
        adjacency: Float[Array, "N N"],
        mask: Bool[Array, " N"],
        disturb: Callable[[int, Array], Array] | None = None,
    ) -> list[Float[Array, "N D"]]:
        """``[H_0, H_1, ..., H_L]`` of one padded graph; ``disturb`` maps a layer's number and output to another."""
        out = [nodes]
        for layer in range(self.layers):
            conv = getattr(self, f"conv_{layer}")
            state = self.activate(layer, conv(out[-1], adjacency, mask))
            state = state if disturb is None else disturb(layer, state)
            out.append(jnp.where(mask[:, None], state, 0.0))
        return out

    def node_hidden(
        self, nodes: Float[Array, "N m"], states: Float[Array, "N D"]
    ) -> tuple[Float[Array, "N h"], Float[Array, "N C"]]:
        """Every node's last hidden row and logits under a ``node_mlp`` readout, before any averaging."""
        if not isinstance(self.head, NodeMLP):
            raise ValueError(f"readout: {self.readout!r} has no hidden row a node; use 'node_mlp'")
        return self.head.node_hidden(nodes, states)

    def embed(
        self, nodes: Float[Array, "N m"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, " D"]:
        """The vector that enters the MLP of a ``pooled`` readout."""
        if not isinstance(self.head, Pooled):
            raise ValueError(f"readout: {self.readout!r} does not pool its nodes; use 'pooled'")
        return self.head.pool(self.states(nodes, adjacency, mask)[-1], mask)

    def __call__(
        self,
        nodes: Float[Array, "N m"],
        adjacency: Float[Array, "N N"],
        mask: Bool[Array, " N"],
        disturb: Callable[[int, Array], Array] | None = None,
    ) -> Float[Array, "..."]:
        """Logits ``(C,)`` of one padded graph, ``(N, C)`` for node tasks, ``(N,)`` for ratings.

        ``disturb`` is what a client does to each layer's output (``jgleak.defenses``); an attacker leaves it out.
        """
        return self.head(nodes, self.states(nodes, adjacency, mask, disturb)[-1], mask)

    @nn.nowrap
    def initial(self, *, key: Array) -> Params:
        """Random parameters: Glorot-uniform convolutions, readout uniform in ±1/sqrt(fan_in)."""
        return _initial(self, key)


@partial(jax.jit, static_argnames=("model",))
def _initial(model: GNN, key: Array) -> Params:
    size = model.slots if model.readout == "flattened" else 2
    blank = jnp.zeros((size, model.in_features)), jnp.zeros((size, size)), jnp.ones(size, bool)
    return model.init(key, *blank)["params"]
