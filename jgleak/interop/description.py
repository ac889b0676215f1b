"""A live PyTorch model as it is built, before any gradient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from jgleak.federated.loss import Loss
from jgleak.gnn import GNN, Params
from jgleak.interop.bridge import Client, observed
from jgleak.interop.convert import is_batch_norm
from jgleak.interop.example import Given


class Description(NamedTuple):
    """What a module says of itself.

    Attributes:
      model: the architecture, without dropout.
      params: its parameters.
      loss: what clients minimise, in the words of a model that has two outputs where the module has one score.
      dropout: the largest rate of its dropout modules that are in training mode; 0: there is none.
    """

    model: GNN
    params: Params
    loss: str
    dropout: float


def described(module: Any, *, loss: str | Loss | None = None, example: Given | None = None) -> Description:
    """The model of a PyTorch Geometric module, read off its forward pass as ``from_pyg`` does.

    Batch normalisation is in the mode in which the module is. What ``F.dropout`` does in a forward pass is not seen,
    and has to be said by whoever knows.

    Args:
      module: as it is built; it stays as it is.
      loss: what clients minimise; None: ``bce`` of one output, of several too.
      example: what its rows are like, as for ``from_pyg``.

    Raises:
      ValueError: a part of the module that is not understood, with its place.
    """
    rates = [_rate(part) for part in module.modules() if part.training]
    state = module.state_dict()
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    frozen = [name for name, _ in module.named_parameters() if name not in trained]
    nothing = {name: np.zeros(tuple(state[name].shape), np.float32) for name in trained}
    given = {"loss": loss or "bce", "batch_size": 1, "reduction": "mean", "example": example}
    with _dropout_off(module):
        seen = observed(state, nothing, module, **given, client=Client(frozen))
    return Description(seen.model, seen.params, seen.loss, max(rates, default=0.0))


def _rate(part: Any) -> float:
    return float(part.p) if "Dropout" in type(part).__name__ else 0.0


@contextmanager
def _dropout_off(module: Any) -> Iterator[None]:
    """All parts but batch normalisation in evaluation mode for a while."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        for part, training in modes:
            part.training = training and is_batch_norm(part)
        yield
    finally:
        for part, training in modes:
            part.training = training
