"""The model under attack: an encoder, layers and a readout, as one pure function of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.convolution import check_sizes
from jgleak.gnn.dropout import check_rate, dropped
from jgleak.gnn.encoder import Encoder, Rows
from jgleak.gnn.jump import JUMPS, Jump
from jgleak.gnn.layer import Layer
from jgleak.gnn.node_mlp import NodeMLP
from jgleak.gnn.norm import Norm
from jgleak.gnn.pooled import Pooled
from jgleak.gnn.precise import Precise
from jgleak.gnn.readout import Readout
from jgleak.gnn.tap import Tap
from jgleak.gnn.tree import at, paths_of, put, without

MOST_ENTRIES = 2**30
"""Most entries of a kernel, which are 4 GiB: what is larger is a mistake, and would end the process."""

Params = Any
"""A pytree of weights: ``{"layers_0": {"conv": {"kernel": ...}}, ..., "readout": {"mlp": {"linears_0": ...}}}``."""


class GNN(Precise):
    """``H_0 = encoder(X)``, ``H_{l+1} = layer_l(H_l, A)``, then the readout of one or several ``H_l`` (``jump``).

    ``jgleak.gnn.standard`` makes the papers' models.

    Frozen and hashable: equal compositions are one static argument of a compiled function.

    Attributes:
      in_features: width ``m`` of the encoded node features; all other widths follow.
      layers: convolutions with what stands around them.
      readout: from the nodes' states to the output.
      encoder: from ``X`` to the first layer's input.
      jump: which layers' states the readout sees, a name of ``JUMPS``.
      dropout: share of entries of the first layer's input that are set to 0 while a client trains.
      frozen: parts that clients do not train, by their paths in the parameters: ``encoder``, ``layers_0``,
        ``layers_1/conv``, ``readout/mlp/linears_0``. An update says nothing of them.
    """

    in_features: int
    layers: tuple[Layer, ...]
    readout: Readout
    encoder: Encoder = Rows()
    jump: str = "last"
    dropout: float = 0.0
    frozen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Flax shares the weights of a module that stands in two places; every layer is to have its own.
        object.__setattr__(self, "layers", tuple(layer.clone(_deep_clone=True) for layer in self.layers))
        super().__post_init__()

    @nn.nowrap
    def check(self) -> None:
        """Raise ``ValueError`` for an unknown name or an impossible size."""
        if not self.layers:
            raise ValueError("layers: a model needs at least one")
        check_sizes(in_features=self.in_features)
        check_rate(self.dropout)
        self.encoder.check()
        for layer in self.layers:
            layer.check()
        classes = sorted({layer.conv.edge_classes for layer in self.layers} - {0})
        if len(classes) > 1:
            raise ValueError(
                f"layers: they tell {' and '.join(map(str, classes))} edge classes apart; give all the same number"
            )
        if self.jump not in JUMPS:
            raise ValueError(f"jump: unknown {self.jump!r}; choose one of {', '.join(JUMPS)}")
        widths = [layer.features for layer in self.layers]
        if max(a * b for a, b in pairwise((self.in_features, *widths))) > MOST_ENTRIES:
            told = " x ".join(map(str, (self.in_features, *widths[:3])))
            raise ValueError(f"features: layers of {told} columns have kernels of over {MOST_ENTRIES} entries")
        if self.jump in ("max", "sum") and len(set(widths)) > 1:
            raise ValueError(f"jump: {self.jump!r} needs layers of one width, these have {widths}; take 'cat'")
        self.readout.check()
        states = sum(widths) if self.jumping.keeps == "all" else widths[-1]
        if self.readout.passes_states and states != self.outputs:
            raise ValueError(f"readout: its {self.outputs} outputs are the last states, which are {states} wide")

    @property
    def depth(self) -> int:
        """Number of layers ``L``."""
        return len(self.layers)

    @property
    def jumping(self) -> Jump:
        """How the layers' states enter the readout."""
        return JUMPS[self.jump]

    @property
    def plain(self) -> bool:
        """A stack of convolutions and activations, whose last states enter the readout."""
        return not self.encoder.taps and self.jumping.keeps == "last" and all(layer.plain for layer in self.layers)

    @property
    def uniform(self) -> bool:
        """All convolutions are one, but for width and bias: they mix nodes in the same way."""
        alike = [layer.conv.clone(features=1, bias=False) for layer in self.layers]
        return all(conv == alike[0] for conv in alike)

    @property
    def drops(self) -> bool:
        """Clients train with dropout somewhere: activations are masked at random, afresh for every graph."""
        return any((self.dropout, self.readout.dropout, *(layer.dropout for layer in self.layers)))

    @property
    def masks_input(self) -> bool:
        """Dropout masks the rows that enter the first weight; elsewhere it stands behind that weight."""
        return bool(self.dropout) and not self.encoder.taps

    @property
    def edge_classes(self) -> int:
        """Number ``K`` of edge classes that its layers tell apart; 0: to them, edges are alike."""
        return max(layer.conv.edge_classes for layer in self.layers)

    @property
    def input_taps(self) -> tuple[Tap, ...]:
        """The first linear maps that the input rows enter, mixed or not; empty where rows are used otherwise too, or
        enter masked."""
        if self.readout.sees_input or self.masks_input:
            return ()
        if self.encoder.taps:
            return tuple(tap.inside("encoder") for tap in self.encoder.taps)
        first = self.layers[0]
        if first.residual is not None and not first.residual.taps:
            return ()
        kept = () if first.conv.edge_classes else ("mixed",)  # messages along edges of several classes are not linear
        return tuple(tap.inside("layers_0") for tap in first.taps if tap.rows in ("own", *kept))

    @property
    def outputs(self) -> int:
        """Number of outputs ``C``: classes, or 1 in regression."""
        return self.readout.outputs

    @property
    def node_level(self) -> bool:
        """True when the output is one row a node (node classification, ratings)."""
        return self.readout.node_level

    @nn.nowrap
    def layer_at(self, params: Params, layer: int) -> tuple[Layer, Any]:
        """One layer, and its parameters."""
        return self.layers[layer], self.layer_of(params, layer)

    @nn.nowrap
    def layer_of(self, tree: Mapping[str, Any], layer: int) -> Any:
        """One layer's part of a tree like the parameters."""
        return tree[f"layers_{layer}"]

    @nn.nowrap
    def conv_of(self, tree: Mapping[str, Any], layer: int) -> Any:
        """One convolution's part of a tree like the parameters."""
        return self.layer_of(tree, layer)["conv"]

    @property
    def norms(self) -> dict[tuple[str, ...], Norm]:
        """All normalisations, by where their parameters lie, in the order in which rows pass them."""
        layers = enumerate(self.layers)
        return {(f"layers_{i}", *path): norm for i, layer in layers for path, norm in layer.norms.items()}

    @property
    def of_nodes(self) -> Literal["one", "all"]:
        """``one``: a node's states follow from its own neighbourhood. ``all``: a norm lets them depend on all nodes."""
        return "all" if any(norm.of_nodes == "all" for norm in self.norms.values()) else "one"

    @property
    def trims(self) -> bool:
        """States of the first nodes are outputs, and can be made without those that they do not depend on."""
        last = self.readout.passes_states and self.jumping.keeps == "last"
        return last and self.of_nodes == "one" and not self.drops and all(layer.conv.trims for layer in self.layers)

    @property
    def returns_statistics(self) -> bool:
        """Clients return running statistics: a norm is in training mode."""
        return any(norm.returns_statistics for norm in self.norms.values())

    @nn.nowrap
    def trained(self, update: Params) -> Params:
        """The update with zeros in the places of statistics and frozen parts, which no gradient trains and no defence
        touches.

        Raises:
          ValueError: as for ``whole``.
        """
        self._check_frozen(update)
        for path, norm in self.norms.items():
            still = {name: jnp.zeros_like(at(update, path)[name]) for name in norm.statistics}
            update = put(update, path, {**at(update, path), **still})
        for path in map(_path, self.frozen):
            update = put(update, path, jax.tree.map(jnp.zeros_like, at(update, path)))
        return update

    @nn.nowrap
    def trains(self, *path: str) -> bool:
        """What lies at ``path`` in the parameters is not frozen, nor is a part of it."""
        return not any(path[: len(part)] == part or part[: len(path)] == path for part in map(_path, self.frozen))

    @nn.nowrap
    def evidence(self, tree: Mapping[str, Any]) -> Any:
        """Of a tree like the parameters what clients train."""
        return without(tree, {_path(part) for part in self.frozen}) if self.frozen else tree

    @nn.nowrap
    def whole(self, update: Mapping[str, Any], params: Params) -> Any:
        """An update, with zeros for frozen parts that it lacks.

        Raises:
          ValueError: a frozen part that the parameters lack, or no part that is trained.
        """
        if not self.frozen:
            return update
        self._check_frozen(params)
        there = set(paths_of(update))
        for path in paths_of(params):
            if path not in there and not self.trains(*path):
                update = put(update, path, np.zeros_like(at(params, path)))
        return update

    @nn.nowrap
    def _check_frozen(self, params: Mapping[str, Any]) -> None:
        known = paths_of(params)
        for part in self.frozen:
            if not any(path[: len(_path(part))] == _path(part) for path in known):
                tops = ", ".join(sorted({path[0] for path in known}))
                raise ValueError(f"frozen: the model has no part {part!r}; it has {tops}, and parts of these (a/b)")
        if not self.evidence(params):
            raise ValueError("frozen: no part is trained, so that there is no gradient; leave one out")

    @nn.nowrap
    def readout_of(self, tree: Mapping[str, Any]) -> Any:
        """The readout's part of a tree like the parameters; empty where it has no weight."""
        return tree.get("readout", {})

    @nn.nowrap
    def output_bias(self, update: Mapping[str, Any]) -> Float[Array | np.ndarray, "... C"] | None:
        """The gradient of the bias that is added to the logits; None where the model adds none, or it is frozen.

        States that are the logits are those of the last convolution, up to an activation: a norm between the bias and
        the logits may turn signs, and jumping knowledge adds other layers' states.
        """
        if self.readout.passes_states:
            if not self.layers[-1].plain or self.jumping.keeps != "last":
                return None
            last, place = self.conv_of(update, self.depth - 1), (f"layers_{self.depth - 1}", "conv")
        else:
            last, place = self.readout.last(self.readout_of(update)), ("readout", *self.readout.last_map)
        return last["bias"] if "bias" in last and self.trains(*place, "bias") else None

    @property
    def nearest_output(self) -> tuple[tuple[str, ...], ...]:
        """Places in the parameters, those whose weights act next to the output first."""
        last = self.readout.last_map
        return (("readout", *last), ("readout",)) if last else ((),)

    def states(
        self,
        nodes: Float[Array, "N m"],
        adjacency: Float[Array, "N N *K"],
        mask: Bool[Array, " N"],
        disturb: Callable[[int, Array], Array] | None = None,
        trim: Sequence[int] | None = None,
    ) -> list[Float[Array, "_N _D"]]:
        """``[H_0, H_1, ..., H_L]`` of one padded graph; ``disturb`` maps a layer's number and output to another.

        ``trim`` says of how many of the first nodes each layer makes the states.

        Raises:
          ValueError: ``trim`` is given to a model that does not ``trims``, or is not one number a layer, none larger
            than the one before.
        """
        if trim is not None:
            self._check_trim((mask.shape[0], *trim))
        out = [dropped(self, self.dropout, self.encoder(nodes))]
        for number, layer in enumerate(self.layers):
            if trim is not None:
                mask, adjacency = mask[: trim[number]], adjacency[: trim[number], : out[-1].shape[0]]
            state = layer(out[-1], adjacency, mask)
            state = state if disturb is None else disturb(number, state)
            out.append(jnp.where(mask[:, None], state, 0.0))
        return out

    @nn.nowrap
    def _check_trim(self, sizes: Sequence[int]) -> None:
        if not self.trims:
            raise ValueError("trim: every state of this model may depend on all nodes; leave trim out")
        if len(sizes) != len(self.layers) + 1 or any(after > before for before, after in pairwise(sizes)):
            raise ValueError(
                f"trim: expected a number of nodes for each of {len(self.layers)} layers, none larger than the one "
                f"before (the graph has {sizes[0]}), got {tuple(sizes[1:])}"
            )

    def encode(self, rows: Float[Array, "T m"]) -> Float[Array, "T F"]:
        """``H_0`` of the given node rows."""
        return self.encoder(rows)

    @nn.nowrap
    def entering(self, below: Float[np.ndarray, "K S"], last: Float[np.ndarray, "K D"]) -> Float[np.ndarray, "K J"]:
        """What enters the readout, from nodes' states after all layers but the last, side by side, and after that."""
        ends = np.cumsum([layer.features for layer in self.layers[:-1]])
        return self.jumping.combine([*np.split(below, ends, axis=1)[:-1], last])

    def node_hidden(
        self, nodes: Float[Array, "N m"], states: Float[Array, "N D"]
    ) -> tuple[Float[Array, "N h"], Float[Array, "N C"]]:
        """Every node's last hidden row and logits under a readout that maps nodes one by one, before any averaging."""
        if not isinstance(self.readout, NodeMLP):
            raise ValueError(f"readout: {self.readout.kind!r} has no hidden row a node; use 'node_mlp'")
        return self.readout.node_hidden(nodes, states)

    def embed(
        self, nodes: Float[Array, "N m"], adjacency: Float[Array, "N N *K"], mask: Bool[Array, " N"]
    ) -> Float[Array, " P"]:
        """The vector that enters the MLP of a ``pooled`` readout."""
        if not isinstance(self.readout, Pooled):
            raise ValueError(f"readout: {self.readout.kind!r} does not pool its nodes; use 'pooled'")
        return self.readout.pool(self.jumping.combine(self.states(nodes, adjacency, mask)[1:]), mask)

    def __call__(
        self,
        nodes: Float[Array, "N m"],
        adjacency: Float[Array, "N N *K"],
        mask: Bool[Array, " N"],
        disturb: Callable[[int, Array], Array] | None = None,
        trim: Sequence[int] | None = None,
    ) -> Float[Array, "..."]:
        """Logits ``(C,)`` of one padded graph, ``(N, C)`` for node tasks, ``(N,)`` for ratings.

        ``adjacency`` is ``(N, N, K)`` where layers tell ``K`` edge classes apart; the others see their sum.
        ``disturb`` is what a client does to each layer's output (``jgleak.defenses``); an attacker leaves it out.
        ``trim`` leaves states out that no wanted output depends on (``states``): logits are those of the first nodes.
        """
        states = self.jumping.combine(self.states(nodes, adjacency, mask, disturb, trim)[1:])
        return self.readout(nodes[: states.shape[0]], states, mask[: states.shape[0]])

    @nn.nowrap
    def initial(self, *, key: Array) -> Params:
        """Random parameters: Glorot-uniform convolutions, readout uniform in ±1/sqrt(fan_in)."""
        self.check()
        return _initial(self, key)

    @property
    def shapes(self) -> Params:
        """The shapes of its parameters: a tree like theirs of ``jax.ShapeDtypeStruct``."""
        self.check()
        return _shapes(self)  # pyright: ignore[reportArgumentType]  # a module is frozen and has a hash


def _path(part: str) -> tuple[str, ...]:
    return tuple(part.split("/"))


@lru_cache(64)
def _shapes(model: GNN) -> Params:
    return jax.eval_shape(partial(_initial, model), jax.random.key(0))


@partial(jax.jit, static_argnames=("model",))
def _initial(model: GNN, key: Array) -> Params:
    size, classes = model.readout.slots or 2, (model.edge_classes,) if model.edge_classes else ()
    blank = jnp.zeros((size, model.in_features)), jnp.zeros((size, size, *classes)), jnp.ones(size, bool)
    return model.init(key, *blank)["params"]
