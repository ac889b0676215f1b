"""A live PyTorch Geometric model: what its modules say of themselves, read by attribute. Torch is not imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
from jgleak.gnn import ACTIVATIONS
from jgleak.interop.bridge import Example, from_arrays
from jgleak.interop.layers import GAT, GCN, GIN, INPUT, POOLS, SAGE, Conv, Linear, NamedLayer, Step
from jgleak.interop.plan import REFUSED

ACTS = {"ReLU": "relu", "GELU": "gelu", "Sigmoid": "sigmoid", "Tanh": "tanh", "ELU": "elu"}
"""Modules that are an activation."""

NORMALISATION = re.compile(r"Norm(\dd)?$")
"""Names of normalisation layers: ``BatchNorm1d``, ``GraphNorm``, .."""

EXPECTED: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "GCNConv": {
        "improved": (False, "self-loops of weight 2"),
        "normalize": (True, "mixing without normalisation"),
        "add_self_loops": (True, "mixing without self-loops"),
        "cached": (False, "a cached normalisation, that of the first graph for all of them"),
    },
    "GATConv": {"edge_dim": (None, "edge features"), "add_self_loops": (True, "attention without self-loops")},
    "SAGEConv": {
        "aggr": ("mean", "another aggregation than the mean"),
        "normalize": (False, "rows scaled to length 1"),
        "project": (False, "a projection before aggregation"),
        "root_weight": (True, "no weight for the node itself"),
    },
    "GINConv": {},
}
"""What the convolutions must be built with, and what another value means."""


def from_pyg(
    model: Any,
    layers: Sequence[Step],
    *,
    loss: str | Loss,
    batch_size: int = 1,
    reduction: str = "mean",
    example: Example | None = None,
    deterministic: bool = False,
) -> Observation:
    """The observation of a PyTorch Geometric model after ``loss.backward()``: its parameters and their ``.grad``.

    Args:
      model: the module.
      layers: the forward pass in order: names of its submodules, and words for what is called as a function
        (``"relu"``, ``"mean"``, ``"sum"``, ``"input"``). A ``Sequential`` stands for its parts.
      deterministic: the model is in training mode, but its forward pass draws nothing (no dropout, ``F.dropout``
        included).
      loss, batch_size, reduction, example: as for ``from_arrays``.

    Raises:
      ValueError: a module that no attack handles, with the reason; a model in training mode; or as for ``from_arrays``.
    """
    modules = dict(model.named_modules())
    _check_mode(modules, model, deterministic)
    steps = [step for word in layers for step in _steps(word, modules)]
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return from_arrays(
        model.state_dict(), gradients, steps, loss=loss, batch_size=batch_size, reduction=reduction, example=example
    )


def _check_mode(modules: Mapping[str, Any], model: Any, deterministic: bool) -> None:
    for name, module in modules.items():
        kind = type(module).__name__
        if NORMALISATION.search(kind):
            raise ValueError(
                f"model: {name!r} is a {kind}, and the models here have no normalisation layers: "
                f"{REFUSED['batch_norm']}"
            )
    for name, module in modules.items():
        kind = type(module).__name__
        dropout = getattr(module, "p", 0.0) if "Dropout" in kind else getattr(module, "dropout", 0.0)
        if module.training and isinstance(dropout, int | float) and dropout > 0:
            raise ValueError(f"model: {name or kind!r} drops out at rate {dropout}: {REFUSED['dropout']}")
    if model.training and not deterministic:
        raise ValueError(
            "model: it is in training mode, where functions such as F.dropout may drop out unseen; take the gradient "
            "after model.eval(), or say deterministic=True where the forward pass draws nothing"
        )


def _steps(word: Step, modules: Mapping[str, Any]) -> list[Step]:
    if isinstance(word, NamedLayer):
        return [word]
    if word not in modules or not word:
        if word in ACTIVATIONS or word in (*POOLS, INPUT, *REFUSED):
            return [word]
        raise ValueError(
            f"layers: the model has no submodule {word!r}; it has {', '.join(name for name in modules if name)}; words "
            f"are {', '.join((*ACTIVATIONS, *POOLS, INPUT))}"
        )
    module, kind = modules[word], type(modules[word]).__name__
    if kind in ("Sequential", "ModuleList"):
        return [step for part, _ in module.named_children() for step in _steps(f"{word}.{part}", modules)]
    if kind in CONVERTED:
        _check_options(word, kind, module)
        return [CONVERTED[kind](word, module)]
    if kind in ACTS:
        _check_activation(word, kind, module)
        return [ACTS[kind]]
    if "Dropout" in kind or kind == "Identity":
        return []
    if kind in ("MeanAggregation", "SumAggregation"):
        return [kind.removesuffix("Aggregation").lower()]
    raise ValueError(
        f"layers: {word!r} is a {kind}, which no model here has; known are {', '.join([*CONVERTED, *ACTS])}, and "
        "words for functions"
    )


def _check_options(name: str, kind: str, module: Any) -> None:
    for option, (wanted, why) in EXPECTED.get(kind, {}).items():
        if getattr(module, option, wanted) != wanted:
            raise ValueError(
                f"model: {name!r} has {option}={getattr(module, option)!r}, that is {why}, which no model here has; "
                f"build it with {option}={wanted!r}"
            )


def _check_activation(name: str, kind: str, module: Any) -> None:
    if (kind == "GELU" and module.approximate != "none") or (kind == "ELU" and module.alpha != 1.0):
        raise ValueError(f"model: {name!r} is a {kind} with options; the plain one is supported")


def _gin(name: str, module: Any) -> Conv:
    parts = [type(part).__name__ for part in module.nn.children()]
    if len(parts) != 3 or parts[0] != "Linear" or parts[1] not in ACTS or parts[2] != "Linear":
        raise ValueError(
            f"model: {name!r} has {', '.join(parts)} inside; the models here have Linear, an activation, Linear"
        )
    return GIN(name, act=ACTS[parts[1]])


CONVERTED: Mapping[str, Callable[[str, Any], NamedLayer]] = {
    "GCNConv": lambda name, module: GCN(name),
    "GATConv": lambda name, module: GAT(name, concat=module.concat, negative_slope=module.negative_slope),
    "SAGEConv": lambda name, module: SAGE(name),
    "GINConv": _gin,
    "Linear": lambda name, module: Linear(name),
}
"""Modules with parameters, and how each is written down."""
