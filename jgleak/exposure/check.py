"""``jgleak.check``: what a model and a protocol show by construction."""

from __future__ import annotations

import dataclasses
from typing import Any

from jgleak.exposure.clients import Clients
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.reading import clients_of, of_description
from jgleak.exposure.registry import Exposure, exposure_of
from jgleak.features import FeatureSpace
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN
from jgleak.interop.description import described


def check(model: GNN | Observation | Any, space: FeatureSpace, clients: Clients | None = None) -> Exposure:
    """What a model and a protocol show by construction, without any data (docs/check.md).

    Args:
      model: the architecture; a PyTorch Geometric module, which is traced; or an observation, whose parameters and
        protocol are used and whose update is not.
      space: the public feature space of its input.
      clients: how they train and what they send; None: one gradient of one graph, or as the observation states.

    Raises:
      ValueError: the space or the loss does not fit the model, or a part of the module is not understood.
    """
    if isinstance(model, Observation):
        return exposure_of(Deployment(model.model, space, clients or clients_of(model), model.params))
    if isinstance(model, GNN):
        return exposure_of(Deployment(model, space, clients or Clients()))
    if not hasattr(model, "named_modules"):
        raise ValueError(
            f"model: expected a jgleak.GNN, a PyTorch module or an Observation, got {type(model).__name__}"
        )
    made = of_description(described(model, loss=None if clients is None else clients.loss), space)
    if clients is not None:  # where they state no loss, it is that of the description
        made = made.changed(clients=dataclasses.replace(clients, loss=made.clients.loss))
    return exposure_of(made)
