"""A stranger's parameters and gradients as an ``Observation``: the same function of the graph, in our words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, Num

from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation, flatten
from jgleak.gnn import (
    CONVOLUTIONS,
    GNN,
    MLP,
    Convolution,
    GATConv,
    GINConv,
    Layer,
    NodeMLP,
    NodeScores,
    Params,
    Pooled,
    Readout,
    SAGEConv,
)
from jgleak.interop.arrays import Arrays, by_name
from jgleak.interop.graphs import dense
from jgleak.interop.layers import GAT, GIN, Conv, Step
from jgleak.interop.plan import ForwardPlan, plan
from jgleak.interop.take import WeightSlot, epsilons_of, heads_of, slots, tree

Example = tuple[Num[np.ndarray, "n m"], Int[np.ndarray, "2 e"], Float[np.ndarray, "..."]]
"""A public graph of any kind and what the model says of it: input rows, edge list, output."""

EQUAL = 1e-4
"""Most that the bridge's output for an example may differ, relative to the largest entry."""


def from_arrays(
    state: Any,
    gradients: Any,
    layers: Sequence[Step],
    *,
    loss: str | Loss,
    batch_size: int = 1,
    reduction: str = "mean",
    example: Example | None = None,
) -> Observation:
    """The observation of a server that sent ``state`` and got ``gradients`` back.

    Args:
      state: the parameters at which the gradient was taken, by name (``by_name`` says what may hold them). Buffers of
        layers that the list names are welcome.
      gradients: of every parameter, under the same names.
      layers: the forward pass, step by step; see ``jgleak.interop.layers`` and ``plan``.
      loss: a ``Loss``, or its text (``bce``, ``ce``, ``mse``, ``masked_bce``). ``bce`` on one output becomes ``ce`` on
        two: with logits ``(0, z)`` the softmax is the sigmoid, and every gradient but the last layer's first column is
        the same.
      batch_size: number of graphs whose losses were averaged.
      reduction: how: ``mean``, or ``sum`` (the gradient is then divided by the batch, and under ``bce`` and a masked
        loss by outputs: a sum over the labels that are present is a mean over all).
      example: a check that is worth its line: the bridge's output for this graph must be the model's. What no name
        shows (where an activation stands, a transposed square, an edge weight) shows there.

    Raises:
      ValueError: a description that does not fit the arrays, a part that no attack here handles, gradients of another
        model, values that are not finite, or an output that differs. Every message says what, why, and what instead.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction: losses of a batch come as 'mean' or 'sum', got {reduction!r}")
    weights, slopes = by_name(state), by_name(gradients)
    architecture = plan(layers)
    _finite("state", weights)
    _finite("gradient", slopes)
    places = slots(architecture, weights)
    _same_names(places, weights, slopes)
    params = tree(places, weights, gradient=False)
    update = tree(places, slopes, gradient=True)
    model = _model(architecture, places, params, weights)
    _check_shapes(places, params, model)
    loss = Loss.of(loss)
    if reduction == "sum":
        count = batch_size * (model.outputs if loss.masked or loss.name == "bce" else 1)
        update = jax.tree.map(lambda leaf: leaf / np.asarray(count, leaf.dtype), update)
        loss = dataclasses.replace(loss, over="all") if loss.masked else loss
    if loss.name == "bce" and model.outputs == 1:
        loss, (model, params, update) = dataclasses.replace(loss, name="ce"), _two_outputs(model, params, update)
    observation = Observation(model, params, update, str(loss), batch_size=batch_size)
    if example is not None:
        _check_example(observation, example)
    return observation


def _finite(what: str, arrays: Arrays) -> None:
    if not arrays:
        raise ValueError(f"{what}: there is no array; give a dict of arrays by name")
    for name, array in arrays.items():
        if not np.all(np.isfinite(array.astype(np.float64))):
            raise ValueError(
                f"{what}: {name!r} holds NaN or infinite values, from which nothing follows; take another round's, and "
                "check the client's loss and learning rate"
            )


def _same_names(places: Sequence[WeightSlot], weights: Arrays, slopes: Arrays) -> None:
    known = {slot.name for slot in places}
    for name, slope in slopes.items():
        if name not in known:
            raise ValueError(f"gradient: {name!r} is no parameter of this state; it is a gradient of another model")
        if slope.shape != weights[name].shape:
            raise ValueError(
                f"gradient: {name!r} has shape {slope.shape}, the parameter {weights[name].shape}; it is a gradient of "
                "another model"
            )


def _model(plan: ForwardPlan, places: Sequence[WeightSlot], params: Params, weights: Arrays) -> GNN:
    """The architecture with the sizes that the arrays have."""
    parts = [params[f"layers_{i}"]["conv"] for i in range(len(plan.convs))]
    _alike(plan, parts)
    heads = iter(heads_of(places, weights))
    epsilons = epsilons_of(places, weights)
    convs = [
        _convolution(step, part, heads, epsilons.get(step.name, 0.0))
        for step, part in zip(plan.convs, parts, strict=True)
    ]
    if plan.convs[0].kind == GATConv.kind:
        _attention(convs)
    acts = [plan.act if i < len(convs) - 1 or plan.last_act else "identity" for i in range(len(convs))]
    linears = [params["readout"]["mlp"][f"linears_{i}"]["kernel"] for i in range(len(plan.linears))]
    mlp = MLP(tuple(kernel.shape[1] for kernel in linears), plan.readout_act)
    readouts: dict[str, Readout] = {
        NodeScores.kind: NodeScores(convs[-1].features),
        NodeMLP.kind: NodeMLP(mlp=mlp, per_node=plan.per_node, see_input=plan.see_input),
        Pooled.kind: Pooled(pooling=plan.pooling, mlp=mlp),
    }
    return GNN(
        in_features=convs[0].taps[0].of(parts[0]).shape[0],
        layers=tuple(Layer(conv=conv, act=act) for conv, act in zip(convs, acts, strict=True)),
        readout=readouts[plan.readout],
    )


def _alike(plan: ForwardPlan, parts: Sequence[Params]) -> None:
    """Raise ``ValueError`` where some convolutions have an array that others lack."""
    biased = ["bias" in part for part in parts]
    if len(set(biased)) > 1 or any("inner_bias" in part and "bias" not in part for part in parts):
        raise ValueError("state: some convolutions have a bias and some have none; give all of them one, or none")
    if plan.convs[0].kind == GINConv.kind and any(("inner_bias" in part) != ("bias" in part) for part in parts):
        raise ValueError(
            "state: one of GIN's two linear maps has a bias and one has none; give both of them one, or none"
        )
    if len({"residual_kernel" in part for part in parts}) > 1:
        raise ValueError(
            "state: some convolutions have a residual map and some have none; one or the other is supported"
        )


def _convolution(step: Conv, part: Params, heads: Iterator[int], epsilon: float) -> Convolution:
    last = {GINConv.kind: "out_kernel", SAGEConv.kind: "self_kernel"}.get(step.kind, "kernel")
    width, bias = part[last].shape[1], "bias" in part
    if isinstance(step, GAT):
        own, count = "residual_kernel" in part, next(heads)
        features = width if step.concat else width // count
        slope = step.negative_slope
        return GATConv(features, bias, count, concatenate=step.concat, negative_slope=slope, residual=own)
    if isinstance(step, GIN):
        return GINConv(width, bias, epsilon=epsilon, inner=step.act)
    return CONVOLUTIONS[step.kind](features=width, bias=bias)


def _attention(convs: Sequence[Convolution]) -> None:
    gats = [conv for conv in convs if isinstance(conv, GATConv)]
    heads, slopes = [conv.heads for conv in gats], {conv.negative_slope for conv in gats}
    if len(set(heads[:-1])) > 1 or len(slopes) > 1 or not all(conv.concatenate for conv in gats[:-1]):
        raise ValueError(
            "layers: every GAT layer but the last must concatenate the same number of heads, and all share one "
            f"negative slope; these have {heads} heads"
        )


def _check_shapes(places: Sequence[WeightSlot], params: Params, model: GNN) -> None:
    """Every array fits its neighbours; in the stranger's names, which ``Observation`` does not know."""
    expected = {k: v.shape for k, v in flatten(jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))).items()}
    got = {path: np.shape(leaf) for path, leaf in flatten(params).items()}
    for slot in places:
        if slot.role != "eps" and got[slot.path] != expected.get(slot.path):
            raise ValueError(
                f"state: {slot.name!r} is {got[slot.path]} as (in, out), and {expected.get(slot.path)} would fit what "
                "comes before it; check the order of the layers, 'concat', 'mean' and 'input'"
            )


def _two_outputs(model: GNN, params: Params, update: Params) -> tuple[GNN, Params, Params]:
    """One output ``z`` as the logits ``(0, z)``; the loss's derivatives there are ``(-d, d)``."""
    readout = model.readout
    if not isinstance(readout, NodeMLP | Pooled):
        raise ValueError(
            "loss: 'bce' on one score a node has no linear map to widen; give the model two classes and 'ce'"
        )
    mlp = readout.mlp.clone(widths=(*readout.mlp.widths[:-1], 2))

    def wider(tree: Params, factor: float) -> Params:
        maps = tree["readout"]["mlp"]
        last = {k: np.concatenate([factor * v, v], axis=-1) for k, v in maps[mlp.last].items()}
        return {**tree, "readout": {"mlp": {**maps, mlp.last: last}}}

    return model.clone(readout=readout.clone(mlp=mlp)), wider(params, 0.0), wider(update, -1.0)


def _check_example(observation: Observation, example: Example) -> None:
    rows, edges, wanted = (by_name({"example": part})["example"] for part in example)
    model = observation.model
    if rows.ndim != 2 or rows.shape[1] != model.in_features:
        raise ValueError(f"example: the model takes rows of {model.in_features} features, got shape {rows.shape}")
    mask = np.ones(len(rows), bool)
    graph = rows.astype(np.float32), dense(edges, len(rows)), mask
    found = np.asarray(jax.jit(model.apply)({"params": observation.params}, *graph))
    if found.shape[-1] == 2 and wanted.size * 2 == found.size:
        found = found[..., 1:]
    if wanted.size != found.size:
        raise ValueError(f"example: the model's output has {wanted.size} entries, the description's {found.size}")
    gap = float(np.abs(found.reshape(-1) - wanted.reshape(-1)).max() / max(np.abs(wanted).max(), 1e-6))
    if not gap <= EQUAL:
        raise ValueError(
            f"example: the description's output differs from the model's by {gap:.1e} of its size; look for an "
            "activation in another place, dropout, edge weights, or a bias that is added before nodes are mixed"
        )
