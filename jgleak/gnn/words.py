"""A model in a line, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jgleak.gnn.model import GNN
from jgleak.plural import counted


def model_words(model: GNN) -> str:
    """The parts of a model: convolutions, norms and the readout by the names of their classes, with widths, the others
    by the names that users choose; and what of them draws or is frozen."""
    layers = model.layers
    residuals = [f"residual {layer.residual.kind}" for layer in layers if layer.residual is not None]
    words = [
        f"{type(model.encoder).__name__} {model.encoder.width(model.in_features)}" if model.encoder.taps else "",
        _joined(f"{type(layer.conv).__name__} {layer.features}" for layer in layers),
        counted(model.depth, "layer"),
        _joined(layer.act for layer in layers),
        _joined(_norms(model)),
        _joined(residuals),
        "" if model.jump == "last" else f"jump {model.jump}",
        " ".join(("readout", type(model.readout).__name__, *_readout(model))),
        f"dropout {_joined(f'{rate:g}' for rate in rates)}" if (rates := sorted(set(_rates(model)))) else "no dropout",
        f"frozen {', '.join(model.frozen)}" if model.frozen else "",
        f"{model.in_features} columns in, {model.outputs} out",
    ]
    return ", ".join(word for word in words if word)


def _joined(words: Iterable[str]) -> str:
    """Every word once."""
    return " and ".join(dict.fromkeys(words))


def _norms(model: GNN) -> Iterator[str]:
    for norm in model.norms.values():
        yield type(norm).__name__ + " in training mode" * norm.returns_statistics


def _readout(model: GNN) -> Iterator[str]:
    """How the readout pools, and the widths of its maps."""
    pooling, mlp = getattr(model.readout, "pooling", None), getattr(model.readout, "mlp", None)
    if pooling is not None:
        yield " and ".join(pooling.split(","))
    if mlp is not None:
        yield "-".join(map(str, mlp.widths))


def _rates(model: GNN) -> Iterator[float]:
    """Rates of dropout, wherever it is."""
    mlp = getattr(model.readout, "mlp", None)
    given = (model.dropout, *(layer.dropout for layer in model.layers), 0.0 if mlp is None else mlp.dropout)
    yield from (rate for rate in given if rate)
