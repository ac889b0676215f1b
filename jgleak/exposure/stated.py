"""Options about clients, which replace what a model's description states."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jgleak.exposure.clients import Clients
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.dropout import dropping
from jgleak.federated.local_training import LocalTraining

RATE = 0.01
"""The learning rate of local steps where none is given; no finding depends on it."""


@dataclasses.dataclass(frozen=True)
class Stated:
    """The options that were given.

    Attributes:
      clients: fields of ``Clients`` except ``local``.
      local: fields of ``LocalTraining``; 0 ``steps`` mean one gradient, and a ``loader`` of 0 takes all graphs.
      dropout: rate after every activation in training; None: the model's own.
    """

    clients: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    local: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dropout: float | None = None

    def over(self, deployment: Deployment) -> Deployment:
        """The deployment with these options.

        Raises:
          ValueError: numbers that do not fit each other, as for ``Clients`` and ``LocalTraining``.
        """
        model = deployment.model if self.dropout is None else dropping(deployment.model, self.dropout)
        clients = dataclasses.replace(deployment.clients, **{**self.clients, "local": self._local(deployment.clients)})
        return dataclasses.replace(deployment, model=model, clients=clients)

    def _local(self, clients: Clients) -> LocalTraining | None:
        said = dict(self.local)
        if said.get("loader") == 0:
            said["loader"] = None
        if said.get("steps") == 0:
            if said.keys() > {"steps"}:
                raise ValueError(
                    "local_steps: 0 is one gradient, which has no rate, momentum, decay, loader or optimiser"
                )
            return None
        if clients.local is None and not said:
            return None
        return dataclasses.replace(clients.local or LocalTraining(RATE), **said)
