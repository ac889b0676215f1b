"""From named arrays to the tree of ``GNN``: which array plays which role, and in which shape it is stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jgleak.federated.observation import unflatten
from jgleak.gnn import Params
from jgleak.interop.arrays import Arrays
from jgleak.interop.layers import GAT, GIN, NamedLayer
from jgleak.interop.plan import ForwardPlan

NORMALISED = ("running_mean", "running_var", "num_batches_tracked")
NORMALISATION = "normalisation that the models here lack; attack a model without normalisation layers"
HINTS = (
    (("lin_edge", "att_edge"), "edge features, which no attack here looks for; attack a model without them"),
    (("lin_dst",), "a convolution between two kinds of nodes; the graphs here have one kind"),
    (("lin_rel", "lin_root", "lin_key", "lin_query"), "a convolution that is none of GCN, GAT, SAGE and GIN"),
    (("att",), "GATv2, which scores attention otherwise; attack a GATConv"),
    (("lin.bias",), "a bias added before nodes are mixed; the models here add it after"),
)
"""What an array that no layer uses gives away, by a piece of its name."""


@dataclasses.dataclass(frozen=True)
class WeightSlot:
    """One array: its path in ``GNN``'s tree, its name outside, and what its layer says about it."""

    path: str
    name: str
    layer: NamedLayer

    @property
    def role(self) -> str:
        """The last part of the path: ``kernel``, ``bias``, .."""
        return self.path.rsplit("/", 1)[-1]


def slots(plan: ForwardPlan, state: Arrays) -> list[WeightSlot]:
    """Every array that the plan's layers use, by the names they have in ``state``.

    Raises:
      ValueError: an array is missing, or one is left over; with what that says about the model.
    """
    for name in state:
        if name.rsplit(".", 1)[-1] in NORMALISED:
            raise ValueError(
                f"state: {name!r} is batch normalisation: it mixes a batch's graphs and keeps statistics of private "
                "data; attack a model without normalisation layers"
            )
    out = []
    for number, layer in enumerate(plan.convs):
        out += _of(layer, f"layers_{number}/conv", state)
    for number, layer in enumerate(plan.linears):
        out += _of(layer, f"readout/mlp/linears_{number}", state)
    used = [slot.name for slot in out]
    for name in used:
        if used.count(name) > 1:
            raise ValueError(
                f"layers: two of them use {name!r}; shared weights have one gradient, which cannot be split"
            )
    for name in state:
        if name not in used:
            raise ValueError(f"state: {name!r} belongs to no layer of the list{_hint(name, state)}")
    return out


def _of(layer: NamedLayer, path: str, state: Arrays) -> list[WeightSlot]:
    found = []
    for role, patterns in layer.patterns.items():
        wanted = [layer.names[role]] if role in layer.names else [f"{layer.name}.{p}" for p in patterns]
        name = next((name for name in wanted if name in state), None)
        if name is not None:
            found.append(WeightSlot(f"{path}/{role}", name, layer))
        elif role in layer.names or role not in layer.optional:
            near = [name for name in state if name.startswith(f"{layer.name}.")] or list(state)
            kind = type(layer).__name__
            raise ValueError(
                f"state: {kind}({layer.name!r}) needs {' or '.join(map(repr, wanted))}; there is "
                f"{', '.join(near[:8])}. Take another kind of layer, or name the array: {kind}({layer.name!r}, "
                f"names={{{role!r}: ...}})"
            )
    return found


def _hint(name: str, state: Arrays) -> str:
    parts = name.split(".")
    for pieces, what in HINTS:
        if any(piece in parts or name.endswith("." + piece) for piece in pieces):
            return f": it belongs to {what}"
    prefix = name.removesuffix(".weight").removesuffix(".bias")
    scale = state.get(f"{prefix}.weight")
    if prefix != name and scale is not None and scale.ndim == 1:
        return f": it belongs to {NORMALISATION}"
    return "; write every layer of the forward pass down (convolutions: GCN, GAT, SAGE, GIN), or give its model alone"


def heads_of(slots: Sequence[WeightSlot], state: Arrays) -> list[int]:
    """Attention heads of every GAT layer, by its scoring vectors ``(1, heads, width)``."""
    return [_scores(state[s.name], s.name).shape[0] for s in slots if isinstance(s.layer, GAT) and s.role == "source"]


def tree(slots: Sequence[WeightSlot], arrays: Arrays, *, gradient: bool) -> Params:
    """The arrays in ``GNN``'s tree: kernels ``(in, out)``, scores ``(heads, width)``.

    Raises:
      ValueError: an array is missing, or has an impossible number of axes.
    """
    what = "gradient" if gradient else "state"
    found = {}
    for slot in slots:
        if slot.role == "eps":
            continue
        if slot.name not in arrays:
            raise ValueError(
                f"{what}: {slot.name!r} is missing; the gradient of every parameter is needed, so freeze none of them "
                "and dump them after the backward pass of the loss"
            )
        found[slot.path] = _stored(slot, arrays[slot.name])
        if slot.role == "residual_kernel" and isinstance(slot.layer, GAT) and not slot.layer.concat:
            source = next(s.name for s in slots if s.layer is slot.layer and s.role == "source")
            width = _scores(arrays[source], source).shape[1]
            found[slot.path] = _one_map(found[slot.path], width, gradient=gradient)
    return unflatten(found)


def _one_map(kernel: np.ndarray, width: int, *, gradient: bool) -> np.ndarray:
    """A residual map a head, where heads are averaged, as one map: their mean, and the sum of their gradients."""
    heads = kernel.reshape(kernel.shape[0], -1, width) if kernel.shape[1] % width == 0 else kernel[:, None]
    return heads.sum(axis=1) if gradient else heads.mean(axis=1)


def _stored(slot: WeightSlot, array: np.ndarray) -> np.ndarray:
    if slot.role in ("source", "target"):
        return _scores(array, slot.name)
    axes = 1 if slot.role.endswith("bias") else 2
    if array.ndim != axes:
        raise ValueError(f"{slot.name!r}: expected {axes} axes for a {slot.role}, got shape {array.shape}")
    return array.T if axes == 2 and slot.name.rsplit(".", 1)[-1] == "weight" else array


def _scores(array: np.ndarray, name: str) -> np.ndarray:
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[0] != 1):
        raise ValueError(f"{name!r}: expected one vector a head (1, heads, width), got shape {array.shape}")
    return array.reshape(array.shape[-2:])


def epsilons_of(slots: Sequence[WeightSlot], state: Arrays) -> dict[str, float]:
    """GIN's weight of a node itself by the name of the layer, where an array or the layer says it."""
    said = {slot.layer.name: slot.layer.eps for slot in slots if isinstance(slot.layer, GIN)}
    return said | {slot.layer.name: float(state[slot.name].reshape(-1)[0]) for slot in slots if slot.role == "eps"}
