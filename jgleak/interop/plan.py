"""From the list of steps to the architecture: the parts of ``GNN`` that a forward pass needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jgleak.gnn import ACTIVATIONS
from jgleak.interop.inside import inside_of
from jgleak.interop.layers import (
    ADD,
    GIN,
    INPUT,
    JUMP_WORDS,
    LOG_SOFTMAX,
    POOLS,
    WORDS,
    Conv,
    Embeddings,
    Linear,
    NamedLayer,
    Norm,
    Residual,
    Step,
    called,
)

SUBNETWORK = "with dropout the gradient is that of one random subnetwork, which no exact attack can recompute"

MATCHING = (
    "Gradient matching searches for the masks: call model.eval() after the backward pass and state the rates, as "
    "docs/bring-your-own-model.md shows"
)
"""How to attack the gradient of a model with dropout."""

REFUSED = {
    "dropout": f"{SUBNETWORK}; take gradients after model.eval(), and leave the word out. {MATCHING}",
    "batch_norm": "a batch normalisation has arrays: name it, BatchNorm('..'), or BatchNorm('..', training=True)",
    "layer_norm": "a layer normalisation has arrays: name it, LayerNorm('..')",
    "max": "a hard maximum is not additive over nodes; attack a model that pools by mean or sum",
    "softmax": "the losses here take logits; end the list with the last linear map",
}
"""Words of forward passes that the bridge refuses, and why."""


@dataclasses.dataclass(frozen=True)
class PlannedLayer:
    """A convolution with its normalisation, activation and residual.

    Attributes:
      conv: the convolution.
      norm: between it and the activation; None: none.
      act: the activation; ``identity`` for none.
      residual: what is added after the activation: a linear map, the word ``add`` for the layer's own input, or None.
    """

    conv: Conv
    norm: Norm | None = None
    act: str = "identity"
    residual: Residual | str | None = None


@dataclasses.dataclass(frozen=True)
class ForwardPlan:
    """The parts of a model, named as in ``GNN``.

    Attributes:
      encoder: the encoder before the first layer; None: the rows enter it unchanged.
      layers: the layers in order.
      jump: which layers' states the readout sees.
      linears: the readout's linear maps.
      readout_act: the activation between them.
      readout: ``pooled``, ``node_mlp`` or ``node_scores``.
      pooling, per_node, see_input: as in ``GNN``.
    """

    encoder: Linear | Embeddings | None
    layers: tuple[PlannedLayer, ...]
    jump: str
    linears: tuple[Linear, ...]
    readout_act: str
    readout: str
    pooling: str = "mean"
    per_node: bool = False
    see_input: bool = False


def plan(steps: Sequence[Step]) -> ForwardPlan:
    """The architecture of a forward pass.

    It is a linear map or embeddings, or none; layers, each a convolution, perhaps a normalisation, an activation, and
    perhaps a residual; perhaps jumping knowledge; then one of: a pool and linear maps; linear maps on every node (with
    ``"input"`` before them on ``[X | H]``) and perhaps ``"mean"`` of the logits; nothing, where the last convolution
    gives the class scores of nodes.

    Linear maps before and after a mean are all taken after it: the mean of ``H W + b`` is that of ``H``, mapped.

    Raises:
      ValueError: naming the step that does not fit, why, and what would.
    """
    for step in steps:
        _check_known(step)
    start = next((i for i, step in enumerate(steps) if isinstance(step, Conv)), None)
    if start is None:
        listed = ", ".join(map(repr, map(called, steps))) or "nothing"
        raise ValueError(
            f"layers: there is no convolution among {listed}; write the forward pass down, step by step, from the rows"
        )
    end = next((i for i, step in enumerate(steps) if i > start and _ends_layers(step)), len(steps))
    encoder, layers = _encoder(steps[:start]), _layers(steps[start:end])
    act = next((layer.act for layer in layers if layer.act != "identity"), "relu")
    head = list(steps[end:])
    jump = JUMP_WORDS[str(head.pop(0))] if head and head[0] in JUMP_WORDS else "last"
    shared = {"encoder": encoder, "layers": layers, "jump": jump}
    if not head:
        _check_scores(layers, jump)
        return ForwardPlan(**shared, linears=(), readout_act=act, readout="node_scores", per_node=True)
    head = _pool_first(head)
    pooled, see_input = head[0] in POOLS, head[0] == INPUT
    pooling = str(head[0]) if pooled else "mean"
    maps = head[1:] if pooled or see_input else head
    averaged = bool(maps) and maps[-1] == "mean" and not pooled
    linears, between = _maps(maps[:-1] if averaged else maps, pooling if pooled else None)
    return ForwardPlan(
        **shared,
        linears=linears,
        readout_act=_one_activation(between) or act,
        readout="pooled" if pooled else "node_mlp",
        pooling=pooling,
        per_node=not pooled and not averaged,
        see_input=see_input,
    )


def _check_known(step: Step) -> None:
    if isinstance(step, Conv) and step.edge_weights:
        raise ValueError(
            f"layers: {step.name!r} is given edge weights; the attacks look for edges that are there or not, so "
            "attack a model that is called without edge_weight"
        )
    if isinstance(step, GIN):
        inside_of(step)
    if step == LOG_SOFTMAX:
        raise ValueError(f"layers: {step!r} is the last word of a list, or none")
    if isinstance(step, NamedLayer) or step in WORDS:
        return
    if step in REFUSED:
        raise ValueError(f"layers: {step!r}: {REFUSED[step]}")
    raise ValueError(f"layers: {step!r} is neither a layer nor one of the words {', '.join(WORDS)}")


def _ends_layers(step: Step) -> bool:
    mapped = isinstance(step, Linear | Embeddings) and not isinstance(step, Residual)
    return mapped or step in (*POOLS, INPUT, *JUMP_WORDS)


def _encoder(steps: Sequence[Step]) -> Linear | Embeddings | None:
    if not steps:
        return None
    first, *more = steps
    if not isinstance(first, Linear | Embeddings) or isinstance(first, Residual):
        raise ValueError(
            f"layers: {called(first)!r} stands before the first convolution; there may be one linear map or one sum of "
            "embeddings"
        )
    if more:
        raise ValueError(
            f"layers: {called(more[0])!r} stands between the encoder {first.name!r} and the first convolution; the "
            "encoder here is one linear map, without an activation, a normalisation or a second map after it"
        )
    return first


def _layers(steps: Sequence[Step]) -> tuple[PlannedLayer, ...]:
    layers: list[PlannedLayer] = []
    before: Step | None = None
    for step in steps:
        if step == before == "relu":  # one more changes nothing
            continue
        if isinstance(step, Conv):
            if isinstance(before, Conv | Norm):
                raise ValueError(
                    f"layers: no activation stands before {step.name!r}; where two convolutions follow each other "
                    "without one, say so: 'identity'"
                )
            layers.append(PlannedLayer(step))
        else:
            layers[-1] = _with(layers[-1], step, before)
        before = step
    return tuple(layers)


def _with(layer: PlannedLayer, step: Step, before: Step | None) -> PlannedLayer:
    """The layer with one step more."""
    place = f"layers: {called(step)!r}, after {called(before)!r}, " if before is not None else "layers: "
    if layer.residual is not None:
        raise ValueError(
            f"{place}follows what is added to {layer.conv.name!r}; here a residual comes last: h + relu(conv(h)), not "
            "relu(h + conv(h))"
        )
    if isinstance(step, Norm):
        if not isinstance(before, Conv):
            raise ValueError(
                f"{place}does not follow a convolution; the order here is convolution, normalisation, activation (in "
                "PyTorch Geometric's models act_first=False)"
            )
        return dataclasses.replace(layer, norm=step)
    if isinstance(step, Residual) or step == ADD:
        return dataclasses.replace(layer, residual=step)
    if isinstance(step, str) and isinstance(before, Conv | Norm):
        return dataclasses.replace(layer, act=step)
    raise ValueError(f"{place}stands where the next convolution, a residual or the readout was expected")


def _check_scores(layers: Sequence[PlannedLayer], jump: str) -> None:
    last = layers[-1]
    if last.act != "identity":
        raise ValueError("layers: an activation ends the list; the last convolution's rows are to be class scores")
    if jump != "last" or last.norm is not None:
        what = f"'jump_{jump}'" if jump != "last" else repr(called(last.norm or ""))
        raise ValueError(
            f"layers: {what} ends the list; class scores are the last convolution's rows, or those of a linear map "
            "after it"
        )


def _pool_first(head: list[Step]) -> list[Step]:
    """The readout with a mean that is between two linear maps moved before them."""
    place = next((i for i, step in enumerate(head) if step in POOLS), 0)
    if place == 0 or place == len(head) - 1:
        return head
    maps, pool = head[:place], head[place]
    between = [step for step in maps if not isinstance(step, Linear)]
    if pool != "mean" or any(step != "identity" for step in between):
        raise ValueError(
            f"layers: {called(head[place - 1])!r} stands before the pool {pool!r} and {called(head[place + 1])!r} "
            "after it; the readout here pools before its linear maps, or takes the mean of the logits last"
        )
    spaced = [step for one in maps for step in (one, "identity") if one not in between]
    return [pool, *spaced, *head[place + 1 :]]


def _maps(steps: Sequence[Step], pool: str | None) -> tuple[tuple[Linear, ...], list[str]]:
    """The readout's linear maps, and the activations between them."""
    after = f" after {pool!r}" if pool else ""
    maps: list[Linear] = []
    acts: list[str] = []
    for number, step in enumerate(steps):
        place = f"after {called(steps[number - 1])!r}" if number else "at the beginning of the readout"
        if isinstance(step, Norm):
            raise ValueError(
                f"layers: {step.name!r}, {place}, is a normalisation in the readout, which has none here; put it after "
                "a convolution"
            )
        if isinstance(step, Conv):
            raise ValueError(
                f"layers: {step.name!r} is a convolution, {place}; linear maps and pools stand before the first "
                "convolution or after the last one"
            )
        if isinstance(step, Linear) and not isinstance(step, Residual):
            if len(acts) < len(maps):
                raise ValueError(
                    f"layers: no activation stands before {step.name!r}; where two linear maps follow each other "
                    "without one, say so: 'identity'"
                )
            maps.append(step)
        elif isinstance(step, str) and step in ACTIVATIONS and len(acts) < len(maps):
            acts.append(step)
        else:
            raise ValueError(
                f"layers: {called(step)!r}, {place}, stands where a linear map or its activation was expected"
            )
    if not maps:
        raise ValueError(f"layers: there is no linear map{after}; the logits come out of one, torch.nn.Linear")
    if len(acts) == len(maps):
        raise ValueError(
            "layers: an activation follows the last linear map; the losses here take logits, so leave it out"
        )
    return tuple(maps), acts


def _one_activation(acts: Sequence[str]) -> str | None:
    if len(set(acts)) > 1:
        raise ValueError(
            f"layers: the readout uses several activations ({', '.join(sorted(set(acts)))}); one is supported"
        )
    return next(iter(acts), None)
