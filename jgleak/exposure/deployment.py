"""A model with its clients, and the update that one of them would send, as far as it does not depend on data."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from jgleak.attacks.attack import Attack
from jgleak.attacks.baselines import random_graph
from jgleak.exposure.clients import Clients
from jgleak.features import FeatureSpace
from jgleak.federated.fits import check_space
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.loss import check_loss
from jgleak.federated.observation import STATISTICS, Observation
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import at, put

PUBLIC = 3
"""Made-up public graphs, for attacks that need some."""


@dataclasses.dataclass(frozen=True)
class Deployment:
    """What is checked.

    Attributes:
      model: the architecture.
      space: the public feature space of its input.
      clients: how they train, and what they send.
      given: parameters of a round; None: random ones, of which only the shapes matter, and for maps before a norm in
        training mode whether they can be inverted.

    Raises:
      ValueError: the space or the loss does not fit the model.
    """

    model: GNN
    space: FeatureSpace
    clients: Clients = Clients()
    given: Params | None = None

    def __post_init__(self) -> None:
        self.model.check()
        check_space(self.model, self.space)
        check_loss(self.model, self.loss)

    @property
    def loss(self) -> str:
        """What clients minimise."""
        return self.clients.loss or ("bce" if self.model.outputs > 1 else "mse")

    @cached_property
    def params(self) -> Params:
        """The parameters of the round."""
        return _drawn(self.model) if self.given is None else self.given

    def changed(self, **fields: Any) -> Deployment:
        """The same with another model or other clients; the parameters are kept."""
        return dataclasses.replace(self, given=self.params, **fields)

    @cached_property
    def answer(self) -> Observation | str:
        """What the server would see, or why an observation cannot represent it. Gradients are zeros, since refusals of
        attacks depend on shapes and protocol alone; running statistics are random."""
        local, protection = self.clients.local, self.clients.protection
        try:
            return Observation(
                self.model,
                self.params,
                jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), np.float32), self.params),
                self.loss,
                batch_size=self.clients.batch_size,
                protocol="fedsgd" if local is None else "fedavg",
                local=local,
                scaled=protection.scales,
                pruned=protection.drops,
                statistics=self._statistics(),
            )
        except ValueError as error:
            return str(error)

    @property
    def seen(self) -> Observation | None:
        """What the server would see; None where an observation cannot represent it."""
        return self.answer if isinstance(self.answer, Observation) else None

    def _statistics(self) -> Params | None:
        if not (self.model.returns_statistics and self.clients.statistics):
            return None
        found, rng = {}, np.random.default_rng(0)
        for path in (path for path, norm in self.model.norms.items() if norm.returns_statistics):
            size = np.shape(at(self.params, path)["mean"])
            drawn = rng.normal(size=size), rng.uniform(0.5, 1.5, size)
            pairs = zip(STATISTICS, drawn, strict=True)
            found = put(found, path, {name: value.astype(np.float32) for name, value in pairs})
        return found

    @cached_property
    def knowledge(self) -> Knowledge:
        """What the strongest attacker knows: sizes, the defence, and public graphs (random ones here)."""
        bare, rng = Knowledge(self.space, n=self.clients.nodes), np.random.default_rng(0)
        public = tuple(random_graph(bare, rng) for _ in range(PUBLIC))
        seen = self.seen
        noise = None if seen is None else self.clients.protection.deviation(seen.update)
        return dataclasses.replace(bare, auxiliary=public, noise=noise)

    def refusal(self, attack: Attack) -> str | None:
        """Why an attack cannot work on the clients' updates, else None."""
        return self.answer if isinstance(self.answer, str) else attack.refusal(self.answer, self.knowledge)


def _drawn(model: GNN) -> Params:
    """Random weights of the usual size, drawn without compilation."""
    rng = np.random.default_rng(0)

    def leaf(path: tuple[Any, ...], shape: Any) -> Float[np.ndarray, "..."]:
        if path[-1].key in ("scale", "variance"):  # of norms
            return np.ones(shape.shape, np.float32)
        return (rng.normal(size=shape.shape) / np.sqrt(max(shape.shape[:1], default=1))).astype(np.float32)

    return jax.tree.map_with_path(leaf, model.shapes)
