"""From the list of steps to the architecture: which parts of ``GNN`` a written-down forward pass needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jgleak.gnn import ACTIVATIONS
from jgleak.interop.layers import GIN, INPUT, POOLS, Conv, Linear, NamedLayer, Step

REFUSED = {
    "dropout": "with dropout the gradient is that of one random subnetwork, which nobody can recompute; take gradients "
    "after model.eval(), and leave the word out",
    "batch_norm": "batch normalisation mixes a batch's graphs and keeps statistics of private data; attack a model "
    "without normalisation layers",
    "max": "a hard maximum is not additive over nodes; attack a model that pools by mean or sum",
    "softmax": "the losses here take logits; end the list with the last linear map",
}
"""Words that a forward pass may have and the bridge does not take, and why."""


@dataclasses.dataclass(frozen=True)
class ForwardPlan:
    """The parts of a model, in the words of ``GNN``.

    Attributes:
      convs: the convolutions in order, all of one kind.
      linears: the readout's linear maps.
      act, last_act: the convolutions' activation, and whether it follows the last one too.
      readout_act: the activation between linear maps.
      readout: ``pooled``, ``node_mlp`` or ``node_scores``.
      pooling, per_node, see_input: as in ``GNN``.
    """

    convs: tuple[Conv, ...]
    linears: tuple[Linear, ...]
    act: str
    last_act: bool
    readout_act: str
    readout: str
    pooling: str = "mean"
    per_node: bool = False
    see_input: bool = False


def plan(steps: Sequence[Step]) -> ForwardPlan:
    """The architecture of a forward pass.

    It is convolutions with one activation between them (and perhaps after the last), then one of: a pool and linear
    maps; linear maps on every node (with ``"input"`` before them on ``[X | H]``) and perhaps ``"mean"`` of the logits;
    nothing, where the last convolution gives the class scores of nodes.

    Raises:
      ValueError: naming the step that does not fit, why, and what would.
    """
    _known(steps)
    first = next((i for i, step in enumerate(steps) if isinstance(step, Linear) or step in (*POOLS, INPUT)), len(steps))
    convs, acts = _alternate(steps[:first], Conv, "convolution")
    inner = {conv.act for conv in convs if isinstance(conv, GIN)}
    act = _one("convolutions", inner | set(acts)) or "relu"
    shared = {"convs": tuple(convs), "act": act, "last_act": len(acts) == len(convs)}
    head = list(steps[first:])
    if not head:
        if shared["last_act"]:
            raise ValueError("layers: an activation ends the list; the last convolution's rows are to be class scores")
        return ForwardPlan(**shared, linears=(), readout_act=act, readout="node_scores", per_node=True)
    pooled, see_input = head[0] in POOLS, head[0] == INPUT
    pooling = str(head[0]) if pooled else "mean"
    maps = head[1:] if pooled or see_input else head
    averaged = bool(maps) and maps[-1] == "mean" and not pooled
    linears, between = _alternate(maps[:-1] if averaged else maps, Linear, "linear map")
    if len(between) == len(linears):
        raise ValueError(
            "layers: an activation follows the last linear map; the losses here take logits, so leave it out"
        )
    return ForwardPlan(
        **shared,
        linears=tuple(linears),
        readout_act=_one("readout", set(between)) or act,
        readout="pooled" if pooled else "node_mlp",
        pooling=pooling,
        per_node=not pooled and not averaged,
        see_input=see_input,
    )


def _known(steps: Sequence[Step]) -> None:
    words = (*ACTIVATIONS, *POOLS, INPUT)
    for step in steps:
        if isinstance(step, Conv) and step.edge_weights:
            raise ValueError(
                f"layers: {step.name!r} is given edge weights; the attacks look for edges that are there or not, so "
                "attack a model that is called without edge_weight"
            )
        if isinstance(step, NamedLayer) or step in words:
            continue
        if step in REFUSED:
            raise ValueError(f"layers: {step!r}: {REFUSED[step]}")
        raise ValueError(f"layers: {step!r} is neither a layer nor one of the words {', '.join(words)}")


def _alternate(steps: Sequence[Step], kind: type[NamedLayer], what: str) -> tuple[list, list[str]]:
    """Layers of one kind with an activation after each, the last perhaps without."""
    layers, acts = [], []
    for number, step in enumerate(steps):
        if isinstance(step, kind):
            if len(acts) < len(layers):
                raise ValueError(
                    f"layers: no activation stands before {step.name!r}; two of a {what} in a row are not taken"
                )
            layers.append(step)
        elif isinstance(step, str) and step in ACTIVATIONS and len(acts) < len(layers):
            acts.append(step)
        else:
            place = "at the beginning" if number == 0 else f"after {_called(steps[number - 1])!r}"
            raise ValueError(
                f"layers: {_called(step)!r}, {place}, stands where a {what} or its activation was expected"
            )
    if not layers:
        raise ValueError(f"layers: there is no {what}; write the forward pass down, step by step")
    if len({type(layer) for layer in layers}) > 1:
        raise ValueError("layers: convolutions of several kinds; the models here have one kind throughout")
    return layers, acts


def _called(step: Step) -> str:
    return step.name if isinstance(step, NamedLayer) else step


def _one(what: str, acts: set[str]) -> str | None:
    if len(acts) > 1:
        raise ValueError(f"layers: the {what} use several activations ({', '.join(sorted(acts))}); one is supported")
    return next(iter(acts), None)
