"""From a plan and its arrays to the model: jgleak's parts with the sizes of the arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jgleak.federated.observation import flatten
from jgleak.gnn import (
    CONVOLUTIONS,
    GNN,
    MLP,
    NORMS,
    AddedRow,
    BatchNorm,
    Convolution,
    Encoder,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    Layer,
    LinearEncoder,
    LinearResidual,
    NodeMLP,
    NodeScores,
    Norm,
    Params,
    Pooled,
    Readout,
    Residual,
    Rows,
    SAGEConv,
)
from jgleak.gnn.gine import one_hot_rows
from jgleak.interop import layers as written
from jgleak.interop.arrays import STORED, Arrays
from jgleak.interop.edge_classes import edge_rows_of
from jgleak.interop.inside import bias_role, inside_of, kernel_role
from jgleak.interop.plan import ForwardPlan, PlannedLayer
from jgleak.interop.take import WeightSlot, epsilons_of, heads_of


class Shown(NamedTuple):
    """What arrays show of layers besides their sizes, by the layer's name.

    Attributes:
      heads: number of attention heads.
      epsilons: a GIN's weight of the node itself.
      edge_rows: the attributes of every edge class, one-hot and side by side, where embeddings of them are added.
    """

    heads: Mapping[str, int]
    epsilons: Mapping[str, float]
    edge_rows: Mapping[str, tuple[tuple[float, ...], ...]]


LAST_KERNELS = {
    "sage": "self_kernel",
    "graph": "self_kernel",
    "leconv": "self_kernel",
    "gatv2": "source_kernel",
}
"""The kernel with as many columns as the convolution's output, where it is not called ``kernel``."""


def model_of(plan: ForwardPlan, places: Sequence[WeightSlot], params: Params, weights: Arrays) -> GNN:
    """The architecture of a plan.

    Raises:
      ValueError: arrays that do not fit each other, under their own names.
    """
    shown = Shown(heads_of(places, weights), epsilons_of(places, weights), edge_rows_of(places, weights))
    layers = tuple(_layer(step, params[f"layers_{i}"], shown) for i, step in enumerate(plan.layers))
    linears = [params["readout"]["mlp"][f"linears_{i}"]["kernel"] for i in range(len(plan.linears))]
    mlp = MLP(tuple(kernel.shape[1] for kernel in linears), plan.readout_act)
    states = sum(layer.features for layer in layers) if plan.jump == "cat" else layers[-1].features
    readouts: dict[str, Readout] = {
        NodeScores.kind: NodeScores(states),
        NodeMLP.kind: NodeMLP(mlp=mlp, per_node=plan.per_node, see_input=plan.see_input),
        Pooled.kind: Pooled(pooling=plan.pooling, mlp=mlp),
    }
    encoder, width = Rows(), layers[0].conv.taps[0].of(params["layers_0"]["conv"]).shape[0]
    if plan.encoder is not None:
        encoder, width = _encoder(params["encoder"]["linear"])
    model = GNN(width, layers, readouts[plan.readout], encoder, plan.jump)
    _check_added(plan, model, params)
    _check_shapes(places, params, model)
    return model


def _encoder(part: Params) -> tuple[Encoder, int]:
    rows, features = part["kernel"].shape
    return LinearEncoder(features, "bias" in part), rows


def _layer(step: PlannedLayer, part: Params, shown: Shown) -> Layer:
    residual: Residual | None = None
    if step.residual == written.ADD:
        residual = AddedRow()
    elif step.residual is not None:
        residual = LinearResidual("bias" in part["residual"]["linear"])
    norm = None if step.norm is None else _norm(step.norm)
    return Layer(_convolution(step.conv, part["conv"], shown), step.act, norm, residual)


def _norm(step: written.Norm) -> Norm:
    if isinstance(step, written.BatchNorm):
        return BatchNorm(step.epsilon, training=step.training, momentum=step.momentum)
    return NORMS[step.kind](step.epsilon)


def _convolution(step: written.Conv, part: Params, shown: Shown) -> Convolution:
    _check_biases(step, part)
    if isinstance(step, written.GIN):
        return _gin(step, part, shown)
    width, bias = part[LAST_KERNELS.get(step.kind, "kernel")].shape[1], "bias" in part
    if isinstance(step, written.GAT | written.GATv2):
        attention = GATConv if isinstance(step, written.GAT) else GATv2Conv
        features, own = width if step.concat else width // shown.heads[step.name], "residual_kernel" in part
        options = {"concatenate": step.concat, "negative_slope": step.negative_slope, "residual": own}
        return attention(features, bias, shown.heads[step.name], **options)
    if isinstance(step, written.GCN):
        return GCNConv(width, bias, self_loops=step.self_loops, normalise=step.normalise)
    if isinstance(step, written.SAGE | written.GraphConv):
        conv = SAGEConv if isinstance(step, written.SAGE) else GraphConv
        return conv(width, bias, aggregation=step.aggregation)
    return CONVOLUTIONS[step.kind](features=width, bias=bias)


def _gin(step: written.GIN, part: Params, shown: Shown) -> Convolution:
    inside, bias, epsilon = inside_of(step), "bias" in part, shown.epsilons.get(step.name, step.eps)
    if len(inside.maps) == 1 and isinstance(step, written.GINE):
        raise ValueError(f"layers: {step.name!r} has one linear map inside; a GINE here has two or more")
    if len(inside.maps) == 1:
        if epsilon:
            raise ValueError(
                f"state: {step.name!r} has one linear map inside and eps={epsilon:.4g}; here such a layer has eps=0 "
                "(it is then a GCN without normalisation), or two linear maps and more"
            )
        return GCNConv(part["kernel"].shape[1], bias, self_loops=True, normalise=False)
    hidden = (len(inside.maps) or 2) - 1
    widths = tuple(part[kernel_role(place, hidden + 1)].shape[1] for place in range(hidden))
    features = part["out_kernel"].shape[1]
    made = GINConv(features, bias) if not isinstance(step, written.GINE) else _gine(step, features, part, shown)
    return made.clone(
        epsilon=epsilon,
        inner=inside.act,
        widths=() if widths == (features,) else widths,
        norm=_norm(inside.norms[0]) if inside.norms else None,
        ends_active=inside.ends_active,
    )


def _gine(step: written.GINE, features: int, part: Params, shown: Shown) -> GINEConv:
    rows = shown.edge_rows.get(step.name) or one_hot_rows(part["edge_kernel"].shape[0])
    return GINEConv(features, "bias" in part, edge_rows=rows, edge_bias="edge_bias" in part)


def _check_biases(step: written.Conv, part: Params) -> None:
    """Raise ``ValueError`` where one map of a convolution has a bias and another has none."""
    wanted = [role for role in step.patterns if role.endswith("bias") and role != "edge_bias"]
    if isinstance(step, written.GIN) and step.inside:
        maps = len(inside_of(step).maps)
        wanted = [bias_role(place, maps) for place in range(maps)]
    missing = [role for role in wanted if role not in part]
    if missing and len(missing) < len(wanted):
        raise ValueError(
            f"state: {step.name!r} has no {missing[0]}, and its other maps have one; give all maps of a convolution a "
            "bias, or none"
        )


def _check_added(plan: ForwardPlan, model: GNN, params: Params) -> None:
    widths = [layer.features for layer in model.layers]
    entering = [params["encoder"]["linear"]["kernel"].shape[1] if plan.encoder else model.in_features, *widths]
    for before, width, step in zip(entering, widths, plan.layers, strict=False):
        if step.residual == written.ADD and before != width:
            raise ValueError(
                f"layers: 'add' after {step.conv.name!r} adds rows of {before} columns to {width}; a residual of "
                "another width is a linear map, Residual('..')"
            )
    if model.jump in ("max", "sum") and len(set(widths)) > 1:
        raise ValueError(f"layers: 'jump_{model.jump}' needs layers of one width, these have {widths}")


def _check_shapes(places: Sequence[WeightSlot], params: Params, model: GNN) -> None:
    """Raise ``ValueError`` where arrays do not fit each other, under their own names, which ``Observation`` lacks."""
    expected = {k: v.shape for k, v in flatten(model.shapes).items()}
    got = {path: np.shape(leaf) for path, leaf in flatten(params).items()}
    for slot in places:
        if slot.role == "eps" or got[slot.path] == expected.get(slot.path):
            continue
        shape, fits = got[slot.path], expected.get(slot.path)
        order = "check the order of the layers, 'concat', 'mean' and 'input'"
        if len(shape) == 1:
            raise ValueError(
                f"state: {slot.name!r} has the shape {shape}, and {fits} would fit the matrix before it; is that "
                f"matrix transposed ({STORED})? If not, {order}"
            )
        looks = fits is not None and shape[-1] == fits[0] != shape[0]
        turned = f"it looks transposed ({STORED}); if it is not, " * looks
        raise ValueError(
            f"state: {slot.name!r} is {shape} as (in, out), and {fits} would fit what comes before it; {turned}{order}"
        )
