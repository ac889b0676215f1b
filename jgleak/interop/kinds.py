"""Which layer of PyTorch Geometric arrays belong to, by their names and their numbers of axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jgleak.interop.arrays import Arrays
from jgleak.interop.layers import (
    GAT,
    GCN,
    GIN,
    GINE,
    LE,
    SAGE,
    WORDS,
    BatchNorm,
    GATv2,
    GraphConv,
    LayerNorm,
    Linear,
    NamedLayer,
)
from jgleak.interop.take import COUNTER

KINDS: tuple[type[NamedLayer], ...] = (GCN, GAT, GATv2, LE, SAGE, GraphConv, GIN, GINE, BatchNorm, LayerNorm, Linear)
"""Layers that can be distinguished by their arrays. Embedding tables cannot: they look like a map without a bias."""

WIDE = 2
"""Axes of a matrix."""


def layer_of(name: str, state: Arrays) -> NamedLayer:
    """The layer whose arrays ``state`` has under ``name``, with its default options.

    Raises:
      ValueError: there is no such layer, or its arrays fit no kind, or several.
    """
    prefix = f"{name}."
    own = {key.removeprefix(prefix) for key in state if key.startswith(prefix) and not key.endswith(COUNTER)}
    if not own:
        layers = ", ".join(sorted({key.rpartition(".")[0] for key in state}))
        raise ValueError(
            f"layers: {name!r} is neither one of the words {', '.join(WORDS)}, nor are there arrays called "
            f"'{prefix}..'; there are those of {layers or 'no layer'}"
        )
    axes = {ending: state[prefix + ending].ndim for ending in own}
    found = [kind for kind in KINDS if any(_fits(kind, roles, axes) for roles in _endings(kind))]
    if len(found) != 1:
        raise ValueError(
            f"layers: the arrays of {name!r} ({', '.join(sorted(own))}) do not determine the kind of layer; write it "
            f"as GCN({name!r}) or Linear({name!r}), and list the parts of a model within the model"
        )
    return found[0](name)


def _endings(kind: type[NamedLayer]) -> Iterator[Mapping[str, str]]:
    """PyTorch Geometric's names for the arrays of a layer, by role; some layers have two naming schemes."""
    for place in (0, 1) if kind in (GIN, GINE, BatchNorm) else (0,):
        yield {role: names[min(place, len(names) - 1)] for role, names in kind.patterns.items()}


def _fits(kind: type[NamedLayer], roles: Mapping[str, str], axes: Mapping[str, int]) -> bool:
    """True where these are all the arrays of such a layer, and no others."""
    needed = {ending for role, ending in roles.items() if role not in kind.optional or kind is Linear}
    matrices = {ending for role, ending in roles.items() if role.endswith("kernel")}
    flat = {ending for role, ending in roles.items() if role in ("scale", "bias")}
    shaped = all(axes[e] == WIDE for e in matrices & axes.keys()) and all(axes[e] == 1 for e in flat & axes.keys())
    return shaped and needed <= axes.keys() <= set(roles.values())
