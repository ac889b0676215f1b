"""A live PyTorch model as it is built, before any gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from jgleak.features import FeatureSpace, onehot
from jgleak.federated.loss import Loss
from jgleak.gnn import GNN, Params
from jgleak.interop.arrays import by_name
from jgleak.interop.bridge import Client, observed
from jgleak.interop.convert import is_batch_norm
from jgleak.interop.dropouts import dropout_rate
from jgleak.interop.example import Example, Given
from jgleak.interop.forward import steps_of
from jgleak.interop.layers import Embeddings
from jgleak.interop.probe import probe_of
from jgleak.interop.take import tables_of


class Description(NamedTuple):
    """A module's architecture and settings.

    Attributes:
      model: the architecture, without dropout.
      params: its parameters.
      loss: what clients minimise.
      dropout: the largest rate of dropout in its forward pass in its current mode, as a module or a function; 0: none.
      tables: number of rows of every embedding table of its encoder; empty: it takes its rows unchanged.
    """

    model: GNN
    params: Params
    loss: str
    dropout: float
    tables: tuple[int, ...] = ()

    def space(self, default: FeatureSpace) -> FeatureSpace:
        """The feature space to use where none is given: one one-hot feature for each embedding table, or else the
        default; with as many edge classes as the model distinguishes, named by number."""
        columns = tuple(onehot(f"column {i}", range(rows)) for i, rows in enumerate(self.tables))
        base = FeatureSpace(columns) if columns else default
        return dataclasses.replace(base, edge_classes=tuple(map(str, range(self.model.edge_classes))))


def described(module: Any, *, loss: str | Loss | None = None, example: Given | None = None) -> Description:
    """The model of a PyTorch Geometric module, read from its forward pass as in ``from_pyg``. Batch normalisation and
    dropout are in the module's current mode.

    Args:
      module: the module, which is not changed.
      loss: what clients minimise; None: ``bce``.
      example: what its rows are like, as for ``from_pyg``.

    Raises:
      ValueError: a part of the module that is not understood, with its place.
    """
    shown = None if example is None else Example.of(example)
    probe = probe_of(module) if shown is None else probe_of(module, shown.rows, shown.edge_rows)
    rate = dropout_rate(module, probe)
    state = module.state_dict()
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    frozen = [name for name, _ in module.named_parameters() if name not in trained]
    nothing = {name: np.zeros(tuple(state[name].shape), np.float32) for name in trained}
    given = {"loss": loss or "bce", "batch_size": 1, "reduction": "mean", "example": example}
    with _dropout_off(module):
        seen = observed(state, nothing, module, **given, client=Client(frozen))
        tables = _tables(module, example)
    return Description(seen.model, seen.params, seen.loss, rate, tables)


def _tables(module: Any, example: Given | None) -> tuple[int, ...]:
    state = by_name(module.state_dict())
    encoders = [step for step in steps_of(module, example) if isinstance(step, Embeddings)]
    return tuple(state[name].shape[0] for encoder in encoders for name in tables_of(encoder, state))


@contextmanager
def _dropout_off(module: Any) -> Iterator[None]:
    """Within this context all parts except batch normalisation are in evaluation mode."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        for part, training in modes:
            part.training = training and is_batch_norm(part)
        yield
    finally:
        for part, training in modes:
            part.training = training
