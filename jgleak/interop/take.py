"""From named arrays to the tree of ``GNN``: the role of each array, and the shape in which it is stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from jgleak.federated.observation import unflatten
from jgleak.gnn import Params
from jgleak.interop.arrays import Arrays
from jgleak.interop.inside import bias_role, inside_of, kernel_role
from jgleak.interop.layers import GAT, GIN, GINE, BatchNorm, Conv, Embeddings, Linear, NamedLayer, Residual
from jgleak.interop.plan import ForwardPlan

COUNTER = "num_batches_tracked"
"""An array of batch normalisations that no forward pass in evaluation mode reads."""

STATISTICS = ("mean", "variance")
"""Roles of a batch normalisation's arrays that no gradient trains."""

GRAPH_NORM = (
    "GraphNorm, which normalises over all nodes of a graph together and is not read here; build the model with "
    "LayerNorm (in PyTorch Geometric mode='node') or BatchNorm, which are"
)
NORMALISATION = "a normalisation: write BatchNorm({0!r}) or LayerNorm({0!r}) after its convolution"
INSIDE = (
    "a normalisation inside {1!r}: put BatchNorm({0!r}) or LayerNorm({0!r}) into its inside=[..], behind the linear "
    "map that it follows (behind the last one: with its whole name into the list, after {1!r})"
)
HINTS = (
    (("lin_edge", "att_edge"), "attention to edge features, which is not read here; GINE is the layer that sees them"),
    (("lin_dst",), "a convolution between two kinds of nodes; the graphs here have one kind"),
    (("lin_rel", "lin_root"), "a convolution with a map for a node and one for its neighbours: write GraphConv"),
    (("lin_key", "lin_query"), "a convolution that is none of those here"),
    (("att",), "GATv2, which scores attention otherwise than GAT: write GATv2"),
    (("lin.bias",), "a bias added before nodes are mixed; the models here add it after"),
)
"""What an array that no layer uses shows about the model, by a part of its name."""


@dataclasses.dataclass(frozen=True)
class WeightSlot:
    """One array of ``GNN``.

    Attributes:
      path: its path in the tree.
      names: its names outside; several arrays are stacked.
      layer: the layer that it belongs to.
    """

    path: str
    names: tuple[str, ...]
    layer: NamedLayer

    @property
    def name(self) -> str:
        """The first array's name."""
        return self.names[0]

    @property
    def role(self) -> str:
        """The last part of the path: ``kernel``, ``bias``, .."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def embeds(self) -> bool:
        """True where its arrays are embedding tables, with one row for each value."""
        tables = isinstance(self.layer, GINE) and self.layer.tables and self.role == "edge_kernel"
        return isinstance(self.layer, Embeddings) or bool(tables)

    @property
    def still(self) -> bool:
        """True where no gradient trains it."""
        return isinstance(self.layer, BatchNorm) and self.role in STATISTICS


def slots(plan: ForwardPlan, state: Arrays) -> list[WeightSlot]:
    """Every array that the plan's layers use, by its names in ``state``.

    Raises:
      ValueError: an array is missing or left over; the message states what that shows about the model.
    """
    out = []
    if isinstance(plan.encoder, Embeddings):
        out.append(WeightSlot("encoder/linear/kernel", tables_of(plan.encoder, state), plan.encoder))
    elif plan.encoder is not None:
        out += _of(plan.encoder, "encoder/linear", state)
    for number, layer in enumerate(plan.layers):
        out += _convolution(layer.conv, f"layers_{number}/conv", state)
        if layer.norm is not None:
            out += _of(layer.norm, f"layers_{number}/norm", state)
        if isinstance(layer.residual, Residual):
            out += _of(layer.residual, f"layers_{number}/residual/linear", state)
    for number, layer in enumerate(plan.linears):
        out += _of(layer, f"readout/mlp/linears_{number}", state, ())
    used = [name for slot in out for name in slot.names]
    for name in used:
        if used.count(name) > 1:
            raise ValueError(
                f"layers: two of them use {name!r}; shared weights have one gradient, which cannot be split"
            )
    for name in state:
        if name not in used and not name.endswith(COUNTER):
            raise ValueError(f"state: {name!r} belongs to no layer of the list{_hint(name, state, plan)}")
    return out


def _convolution(layer: Conv, path: str, state: Arrays) -> list[WeightSlot]:
    tables = _edge_tables(layer, path, state)
    roles = {role for role in layer.patterns if not (tables and role.startswith("edge_"))}
    if not isinstance(layer, GIN) or not layer.inside:
        return [*_of(layer, path, state, roles=roles), *tables]
    inside, own = inside_of(layer), {role for role in roles if role not in GIN.patterns or role == "eps"}
    out = [*_of(layer, path, state, roles=own), *tables]
    for place, linear in enumerate(inside.maps):
        roles = {"kernel": kernel_role(place, len(inside.maps)), "bias": bias_role(place, len(inside.maps))}
        out += [dataclasses.replace(s, path=f"{path}/{roles[s.role]}") for s in _of(linear, path, state)]
    for place, norm in enumerate(inside.norms):
        out += _of(norm, f"{path}/norms_{place}", state)
    return out


def _edge_tables(layer: Conv, path: str, state: Arrays) -> list[WeightSlot]:
    """The embeddings of an edge's attributes, where the layer has such."""
    if not isinstance(layer, GINE) or not layer.tables:
        return []
    if isinstance(layer.tables, str):
        raise ValueError(f"layers: {layer.name!r} has the tables {layer.tables!r}; give their names as a list")
    names = tables_of(Embeddings(layer.name, tables=layer.tables), state, f"a table of edges of {layer.name!r}")
    return [WeightSlot(f"{path}/edge_kernel", names, layer)]


def tables_of(layer: Embeddings, state: Mapping[str, np.ndarray], what: str | None = None) -> tuple[str, ...]:
    """The names of the arrays that are embedding tables, in the order of the columns.

    Args:
      layer: names the tables, with or without the array's own ending.
      state: all arrays.
      what: what needs them, for the message; None: the encoder ``layer``.

    Raises:
      ValueError: a table is missing.
    """
    if "kernel" in layer.names:
        return (layer.names["kernel"],)
    endings = layer.patterns["kernel"]
    prefixes = [name.rpartition(".")[0] if name in state else name for name in layer.tables] or [layer.name]
    if not layer.tables and not any(f"{layer.name}.{ending}" in state for ending in endings):
        numbers = range(len(state))
        prefixes = [
            f"{layer.name}.{i}" for i in numbers if any(f"{layer.name}.{i}.{ending}" in state for ending in endings)
        ]
    found = [
        next((f"{prefix}.{ending}" for ending in endings if f"{prefix}.{ending}" in state), None) for prefix in prefixes
    ]
    if not found or None in found:
        missing = prefixes[found.index(None)] if found else f"{layer.name}.0"
        raise ValueError(
            f"state: {what or f'Embeddings({layer.name!r})'} needs {missing + '.weight'!r}, one table for each column "
            f"of integers; there is {', '.join(_near(missing, state)[:8])}"
        )
    return tuple(name for name in found if name)


def _of(
    layer: NamedLayer,
    path: str,
    state: Arrays,
    optional: Sequence[str] | None = None,
    roles: Collection[str] | None = None,
) -> list[WeightSlot]:
    """The arrays of a layer, or those of some of its roles."""
    found = []
    for role, patterns in layer.patterns.items():
        if roles is not None and role not in roles:
            continue
        wanted = [layer.names[role]] if role in layer.names else [f"{layer.name}.{p}" for p in patterns]
        name = next((name for name in wanted if name in state), None)
        if name is not None:
            found.append(WeightSlot(f"{path}/{role}", (name,), layer))
        elif role in layer.names or role not in (layer.optional if optional is None else optional):
            raise ValueError(_missing(layer, role, wanted, state))
    return found


def _near(name: str, state: Mapping[str, np.ndarray]) -> list[str]:
    """The arrays that share the longest beginning of a name, part by part; all where none shares any."""
    while name:
        found = [other for other in state if other.startswith(f"{name}.")]
        if found:
            return found
        name = name.rpartition(".")[0]
    return list(state)


def _missing(layer: NamedLayer, role: str, wanted: Sequence[str], state: Arrays) -> str:
    near = [name for name in state if name.startswith(f"{layer.name}.")] or list(state)
    kind = type(layer).__name__
    if layer.name in state:
        whole = layer.name.rpartition(".")[0]
        return f"state: {layer.name!r} is an array; name the layer that it belongs to: {kind}({whole!r})"
    if isinstance(layer, GINE) and role == "edge_kernel":
        return (
            f"state: {layer.name!r} has no map of edge features ({' or '.join(map(repr, wanted))}): it is a GINEConv "
            "without edge_dim, which adds edge features as they are, or a GIN. Build it with edge_dim=4, the number of "
            f"edge classes, and give it their one-hot rows; or write GIN({layer.name!r})"
        )
    needs = f"state: {kind}({layer.name!r}) needs {' or '.join(map(repr, wanted))}; there is {', '.join(near[:8])}"
    if type(layer) is Linear and role == "bias" and any(name.startswith(f"{layer.name}.") for name in state):
        return f"{needs}. The readout's linear maps have a bias here: build it with bias=True"
    return f"{needs}. Take another kind of layer, or name the array: {kind}({layer.name!r}, names={{{role!r}: ...}})"


def _hint(name: str, state: Arrays, plan: ForwardPlan) -> str:
    parts = name.split(".")
    if parts[-2:-1] == ["lin"] and any(other.startswith(".".join([*parts[:-2], "nn."])) for other in state):
        return ": it belongs to a GIN with a map of edge features: write GINE"
    for pieces, what in HINTS:
        if any(piece in parts or name.endswith("." + piece) for piece in pieces):
            return f": it belongs to {what}"
    prefix, _, ending = name.rpartition(".")
    if f"{prefix}.mean_scale" in state:
        return f": it belongs to {GRAPH_NORM}"
    scale = state.get(f"{prefix}.weight", state.get(f"{prefix}.scale"))
    if ending in ("running_mean", "running_var", "mean", "var") or (scale is not None and scale.ndim == 1):
        norm = prefix.removesuffix(".module")
        owners = [layer.conv.name for layer in plan.layers if isinstance(layer.conv, GIN)]
        inside = next((owner for owner in owners if norm.startswith(f"{owner}.")), None)
        said = NORMALISATION.format(norm) if inside is None else INSIDE.format(norm[len(inside) + 1 :], inside)
        return f": it belongs to {said}"
    mapped = {f"{prefix}.{other}" for other in ("weight", "kernel")} & state.keys()
    if ending in ("weight", "kernel", "bias") and mapped and parts[-2:-1] != ["lin"]:
        return (
            f"; write every layer of the forward pass down (Linear({prefix!r}) before the first convolution is the "
            f"encoder, Residual({prefix!r}) after an activation is added to the layer), or give its model alone"
        )
    return "; write every layer of the forward pass down (GCN, GAT, SAGE, GIN, ..), or give its model alone"


def heads_of(slots: Sequence[WeightSlot], state: Arrays) -> dict[str, int]:
    """Number of attention heads by the name of the layer, from its scoring vectors ``(1, heads, width)``."""
    scored = [slot for slot in slots if slot.role in ("source", "attention")]
    return {slot.layer.name: _scores(state[slot.name], slot.name).shape[0] for slot in scored}


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
        for name in slot.names:
            if name not in arrays:
                raise ValueError(
                    f"{what}: {name!r} is missing; the gradient of every parameter that is trained is needed: dump "
                    "them after the backward pass of the loss, and name those that are not: client=Client(frozen=[..])"
                )
        found[slot.path] = np.concatenate([_stored(slot, name, arrays[name]) for name in slot.names])
        if slot.role == "residual_kernel" and isinstance(slot.layer, GAT) and not slot.layer.concat:
            source = next(s.name for s in slots if s.layer is slot.layer and s.role == "source")
            width = _scores(arrays[source], source).shape[1]
            found[slot.path] = _one_map(found[slot.path], width, gradient=gradient)
    return unflatten(found)


def _one_map(kernel: np.ndarray, width: int, *, gradient: bool) -> np.ndarray:
    """The residual maps of all heads, where heads are averaged, as one map: their mean, or the sum of their
    gradients."""
    heads = kernel.reshape(kernel.shape[0], -1, width) if kernel.shape[1] % width == 0 else kernel[:, None]
    return heads.sum(axis=1) if gradient else heads.mean(axis=1)


def _stored(slot: WeightSlot, name: str, array: np.ndarray) -> np.ndarray:
    if slot.role in ("source", "target", "attention"):
        return _scores(array, name)
    axes = 1 if "bias" in slot.role or slot.role in ("scale", *STATISTICS) else 2
    if array.ndim != axes:
        raise ValueError(f"{name!r}: expected {axes} axes for a {slot.role}, got shape {array.shape}")
    outward = name.rsplit(".", 1)[-1] == "weight" and not slot.embeds
    return array.T if axes == 2 and outward else array


def _scores(array: np.ndarray, name: str) -> np.ndarray:
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[0] != 1):
        raise ValueError(f"{name!r}: expected one vector a head (1, heads, width), got shape {array.shape}")
    return array.reshape(array.shape[-2:])


def epsilons_of(slots: Sequence[WeightSlot], state: Arrays) -> dict[str, float]:
    """GIN's weight of the node itself by the name of the layer, where an array holds it."""
    return {slot.layer.name: float(state[slot.name].reshape(-1)[0]) for slot in slots if slot.role == "eps"}
