"""A module of PyTorch (Geometric) as a step of a forward pass, read by its attributes. Torch is not imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jgleak.interop.layers import (
    GAT,
    GCN,
    JUMP_WORDS,
    LE,
    POOLS,
    SAGE,
    BatchNorm,
    Conv,
    Embeddings,
    GATv2,
    GraphConv,
    LayerNorm,
    Linear,
    NamedLayer,
    Step,
)

ACTS = {"ReLU": "relu", "GELU": "gelu", "Sigmoid": "sigmoid", "Tanh": "tanh", "ELU": "elu"}
"""Modules that are an activation."""

NORMALISATION = re.compile(r"Norm(\dd)?$")
"""Names of normalisation layers: ``BatchNorm1d``, ``GraphNorm``, .."""

NEAREST_NORM = "build the model with BatchNorm or LayerNorm(mode='node'), the normalisations here"
OVER_GRAPHS = ("GraphNorm", "InstanceNorm")
"""Normalisations over all nodes of a graph together."""

EDGES_SCORE = "attention whose scores edge features enter"

INSTEAD = {
    "edge_dim": ", without edge_attr, or take GINEConv(.., edge_dim=K), which sees one class of K on every edge",
    "approximate": "; of GELU approximated by tanh describe the layers, with 'gelu_tanh' among them",
}
"""What else to do about an option that is not supported."""

EXPECTED: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "GCNConv": {
        "improved": (False, "self-loops of weight 2"),
        "cached": (False, "a cached normalisation, that of the first graph for all of them"),
    },
    "GATConv": {"edge_dim": (None, EDGES_SCORE), "add_self_loops": (True, "attention without self-loops")},
    "GATv2Conv": {
        "edge_dim": (None, EDGES_SCORE),
        "add_self_loops": (True, "attention without self-loops"),
        "share_weights": (False, "one map for both ends, whose gradient cannot be split"),
    },
    "SAGEConv": {
        "normalize": (False, "rows scaled to length 1"),
        "project": (False, "a projection before aggregation"),
        "root_weight": (True, "no weight for the node itself"),
    },
    "LayerNorm": {"mode": ("node", "a normalisation over all nodes of a graph together")},
    "BatchNorm": {"allow_single_element": (False, "a single row that is passed over")},
    "Embedding": {
        "padding_idx": (None, "a row that is never trained"),
        "max_norm": (None, "rows that are shortened when they are looked up"),
        "scale_grad_by_freq": (False, "a gradient divided by how often a row occurs"),
    },
    "GELU": {"approximate": ("none", "an approximation")},
    "ELU": {"alpha": (1.0, "another curve")},
}
"""The required options of modules, and what another value means."""


AROUND = ("GINConv", "GINEConv")
"""Convolutions around a separate module that maps each node; ``jgleak.interop.trace`` reads it."""

SUMMING = (*AROUND, "GCNConv", "GATConv", "GATv2Conv", "LEConv")
"""Convolutions that are supported with a sum over the neighbours' rows."""

AGGREGATIONS = {"mean": "mean", "add": "sum", "sum": "sum", "MeanAggregation()": "mean", "SumAggregation()": "sum"}
"""Aggregations of neighbours' rows by their names in PyTorch Geometric."""


def step_of(name: str, module: Any) -> Step:
    """A known module as a step.

    Raises:
      ValueError: naming the module, what it is, and what works.
    """
    kind = type(module).__name__
    check_options(name, kind, module)
    if kind in ACTS:
        return ACTS[kind]
    if kind in CONVERTED:
        return CONVERTED[kind](name, module)
    if kind in POOLED:
        return POOLED[kind]
    if kind == "JumpingKnowledge":
        return jump_word(name, module)
    if NORMALISATION.search(kind):
        over = " normalises over all nodes of a graph together and" if kind in OVER_GRAPHS else ""
        raise ValueError(f"model: {name!r} is a {kind}, which{over} is not read here; {NEAREST_NORM}")
    if kind.endswith("Aggregation"):
        raise ValueError(f"model: {name!r} is a {kind}, which is not read here; pool the nodes by mean or sum")
    known = ", ".join([*CONVERTED, *AROUND, *ACTS])
    raise ValueError(
        f"layers: {name!r} is a {kind}, which is not read here; known are {known}, and words for functions"
    )


def is_leaf(module: Any) -> bool:
    """True where the module is one step, or is refused as one; other modules are read part by part."""
    kind = type(module).__name__
    passes = hasattr(module, "propagate") and hasattr(module, "message")
    pools = kind.endswith("Aggregation") and kind not in POOLED  # mean and sum are recognised by their values
    return passes or pools or kind in (*CONVERTED, *ACTS, "JumpingKnowledge") or is_norm(module)


def is_norm(module: Any) -> bool:
    """True for a normalisation, supported or not."""
    return bool(NORMALISATION.search(type(module).__name__))


def is_batch_norm(module: Any) -> bool:
    """True for a batch normalisation."""
    return is_norm(module) and type(module).__name__.startswith("BatchNorm")


def jump_word(name: str, module: Any) -> str:
    """The word for a ``JumpingKnowledge`` module."""
    word = f"jump_{module.mode}"
    if word not in JUMP_WORDS:
        raise ValueError(f"model: {name!r} is JumpingKnowledge({module.mode!r}); here it is 'cat' or 'max'")
    return word


def embeddings_of(name: str, module: Any) -> Embeddings | None:
    """The encoder of a module that has only ``nn.Embedding`` parts (OGB's ``AtomEncoder``), or None."""
    parts = {inner: part for inner, part in module.named_modules() if not list(part.children())}
    if not parts or any(type(part).__name__ != "Embedding" for part in parts.values()):
        return None
    for inner, part in parts.items():
        check_options(f"{name}.{inner}", "Embedding", part)
    return Embeddings(name, tables=tuple(f"{name}.{inner}" if inner else name for inner in parts))


def check_options(name: str, kind: str, module: Any) -> None:
    """Raise ``ValueError`` where a module's options make it a different function from the supported one."""
    if kind in SUMMING:
        _aggregation(name, module)
    for option, (wanted, why) in EXPECTED.get(kind, {}).items():
        value = getattr(module, option, wanted)
        if value != wanted:
            raise ValueError(
                f"model: {name!r} is a {kind} with {option}={value!r}, that is {why}, which is not read here; build "
                f"it with {option}={wanted!r}{INSTEAD.get(option, '')}"
            )


def _aggregation(name: str, module: Any, known: tuple[str, ...] = ("sum",)) -> str:
    found = AGGREGATIONS.get(str(module.aggr))
    if found not in known:
        raise ValueError(
            f"model: {name!r} is a {type(module).__name__} with aggr={module.aggr!r}, that is another aggregation than "
            f"the {' or the '.join(known)} of the neighbours' rows; build it with aggr={known[0]!r}"
        )
    return found


def _gcn(name: str, module: Any) -> Conv:
    loops = bool(module.normalize if module.add_self_loops is None else module.add_self_loops)
    return GCN(name, self_loops=loops and module.normalize, normalise=bool(module.normalize))


def _layer_norm(name: str, module: Any) -> LayerNorm:
    shape = getattr(module, "normalized_shape", (0,))
    if len(shape) != 1:
        raise ValueError(f"model: {name!r} normalises {len(shape)} axes together; here it is a node's own columns")
    _check_affine(name, module, ("weight", "bias"))
    return LayerNorm(name, epsilon=module.eps)


def _batch_norm(name: str, module: Any) -> BatchNorm:
    inner = getattr(module, "module", module)  # PyTorch Geometric's holds PyTorch's
    if inner.running_mean is None:
        raise ValueError(
            f"model: {name!r} keeps no running statistics and mixes a batch's nodes even in evaluation mode; build it "
            "with track_running_stats=True"
        )
    if inner.training and not inner.momentum:
        raise ValueError(
            f"model: {name!r} is in training mode with momentum={inner.momentum}, from which the batch's statistics do "
            "not follow in one step; build it with momentum=0.1, or take the gradient after model.eval()"
        )
    _check_affine(name, inner, ("weight", "bias"))
    if inner.training:
        return BatchNorm(name, epsilon=inner.eps, training=True, momentum=inner.momentum)
    return BatchNorm(name, epsilon=inner.eps)


def _check_affine(name: str, module: Any, parts: tuple[str, ...]) -> None:
    for part in parts:
        if getattr(module, part, None) is None:
            raise ValueError(
                f"model: {name!r} is a {type(module).__name__} without {part!r}; the normalisations here have a scale "
                "and a bias, whose gradient is unknown: build it with affine=True (elementwise_affine=True)"
            )


POOLED = {f"{word.capitalize()}Aggregation": word for word in POOLS}
"""Modules that pool, and the words for them."""

CONVERTED: Mapping[str, Callable[[str, Any], NamedLayer]] = {
    "GCNConv": _gcn,
    "GATConv": lambda name, module: GAT(name, concat=module.concat, negative_slope=module.negative_slope),
    "GATv2Conv": lambda name, module: GATv2(name, concat=module.concat, negative_slope=module.negative_slope),
    "SAGEConv": lambda name, module: SAGE(name, aggregation=_aggregation(name, module, ("mean", "sum"))),
    "GraphConv": lambda name, module: GraphConv(name, aggregation=_aggregation(name, module, ("sum", "mean"))),
    "LEConv": lambda name, module: LE(name),
    "BatchNorm1d": _batch_norm,
    "BatchNorm": _batch_norm,
    "LayerNorm": _layer_norm,
    "Linear": lambda name, module: Linear(name),
    "Embedding": lambda name, module: Embeddings(name, tables=(name,)),
}
"""Modules with parameters, and how each becomes a layer."""
