"""Models in observation files of format 1 (jgleak 0.1): one flat record, and parameters of other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jgleak.gnn import (
    GNN,
    MLP,
    Convolution,
    DotProduct,
    Flattened,
    GATConv,
    GCNConv,
    GINConv,
    Layer,
    NodeMLP,
    NodeScores,
    Params,
    Pooled,
    Readout,
    SAGEConv,
)
from jgleak.reading import typed_fields

DEFAULTS: dict[str, Any] = {
    "classes": 2,
    "conv": "gcn",
    "layers": 2,
    "hidden": 300,
    "act": "relu",
    "last_act": False,
    "bias": False,
    "heads": 2,
    "readout": "node_mlp",
    "readout_widths": (300, 64),
    "pooling": "mean",
    "per_node": False,
    "see_input": True,
    "slots": 0,
    "widths": (),
    "last_heads": None,
    "last_concatenate": False,
    "negative_slope": 0.2,
    "residual": False,
    "epsilons": (),
    "readout_act": None,
}
"""The record's fields but ``in_features``, with what they were where a file leaves them out."""

TYPES = {name: type(value).__name__ for name, value in {"in_features": 1, **DEFAULTS}.items()} | {
    "readout_widths": "tuple[int, ...]",
    "widths": "tuple[int, ...]",
    "last_heads": "int | None",
    "epsilons": "tuple[float, ...]",
    "readout_act": "str | None",
}
"""What they hold."""


def model_of(data: Any) -> GNN:
    """The composition that a record described.

    Raises:
      ValueError: unknown fields, or words and sizes that no model had.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"model: expected fields by name, got {data!r}")
    unknown = sorted(set(data) - {"in_features", *DEFAULTS})
    if unknown:
        raise ValueError(f"model: unknown fields {unknown}; known ones are {sorted({'in_features', *DEFAULTS})}")
    given = {**DEFAULTS, **typed_fields(data, TYPES, "model")}
    layers, pooling = given["layers"], given["pooling"]
    if not set(pooling.split(",")) <= {"mean", "sum", "max"}:
        raise ValueError(f"model.pooling: unknown {pooling!r}; files of format 1 have mean, sum, max")
    if layers < 1 or layers > 1_000:
        raise ValueError(f"model: expected between 1 and 1,000 layers, got {layers}")
    last = given["classes"] if given["readout"] == "node_scores" else None
    widths = list(given["widths"]) or [given["hidden"]] * layers
    widths[-1] = last or widths[-1]
    if len(widths) != layers:
        raise ValueError(f"widths: expected one entry for each of {layers} layers or none")
    convs = [_convolution(given, i, width) for i, width in enumerate(widths)]
    acts = [given["act"] if i < layers - 1 or given["last_act"] else "identity" for i in range(layers)]
    stack = tuple(Layer(conv=conv, act=act) for conv, act in zip(convs, acts, strict=True))
    return GNN(in_features=given["in_features"], layers=stack, readout=_readout(given))


def _convolution(given: Mapping[str, Any], layer: int, width: int) -> Convolution:
    shared: dict[str, Any] = {"features": width, "bias": given["bias"]}
    last = layer == given["layers"] - 1
    if given["conv"] == "gat":
        heads = given["last_heads"] if last and given["last_heads"] is not None else given["heads"]
        beside, slope = given["last_concatenate"] or not last, given["negative_slope"]
        return GATConv(**shared, heads=heads, concatenate=beside, negative_slope=slope, residual=given["residual"])
    if given["conv"] == "gin":
        epsilon = given["epsilons"][layer] if given["epsilons"] else 0.0
        return GINConv(**shared, inner=given["act"], epsilon=epsilon)
    kinds: dict[str, type[Convolution]] = {"gcn": GCNConv, "sage": SAGEConv}
    if given["conv"] not in kinds:
        raise ValueError(f"conv: unknown {given['conv']!r}; files of format 1 have gcn, gat, sage or gin")
    return kinds[given["conv"]](**shared)


def _readout(given: Mapping[str, Any]) -> Readout:
    mlp = MLP((*given["readout_widths"], given["classes"]), given["readout_act"] or given["act"])
    kinds: dict[str, Readout] = {
        "node_mlp": NodeMLP(mlp=mlp, per_node=given["per_node"], see_input=given["see_input"]),
        "pooled": Pooled(pooling=given["pooling"], mlp=mlp),
        "flattened": Flattened(size=given["slots"], classes=given["classes"]),
        "node_scores": NodeScores(given["classes"]),
        "dot": DotProduct(),
    }
    if given["readout"] not in kinds:
        raise ValueError(f"readout: unknown {given['readout']!r}; files of format 1 have {', '.join(kinds)}")
    return kinds[given["readout"]]


def tree_of(tree: Params) -> Params:
    """A tree of parameters or gradients under the names of today."""
    if not isinstance(tree, Mapping):
        return tree
    found: dict[str, Any] = {}
    for name, part in tree.items():
        if name.startswith("conv_"):
            found[f"layers_{name.removeprefix('conv_')}"] = {"conv": part}
        elif name == "head" and isinstance(part, Mapping):
            maps = {k: v for k, v in part.items() if k.startswith("linears_")}
            rest = {k: v for k, v in part.items() if k not in maps}
            found["readout"] = rest | ({"mlp": maps} if maps else {})
        else:
            found[name] = part
    return found
