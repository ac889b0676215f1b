"""What an attack is, what it returns, and the one list of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Array, Float
from threadpoolctl import threadpool_limits

from jgleak.attacks.certificate import Certificate
from jgleak.federated.observation import Knowledge, Observation
from jgleak.graph import Graph


@dataclasses.dataclass(frozen=True)
class Reconstruction:
    """What an attack found.

    Attributes:
      graphs: candidate graphs, best first; empty when nothing was found.
      gradient_distance: ``|g - g*| / |g*|`` of the first graph's gradient against the observed one, over all
        parameters (0 is a perfect match), or None when no graph was found.
      stop: why the attack ended: ``match``, ``exhausted``, ``time``, ``no candidates``, ``done``.
      adjacency: soft adjacency ``(n, n)`` where the attack has one.
      features: soft encoded features ``(n, m)`` where the attack has them.
      certificate: what is known about other graphs with the same gradient, where the attack looks for them.
      info: counts and seconds by stage, for people and benchmarks.
    """

    graphs: tuple[Graph, ...]
    gradient_distance: float | None
    stop: str
    adjacency: Float[np.ndarray, "n n"] | None = None
    features: Float[np.ndarray, "n m"] | None = None
    certificate: Certificate | None = None
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def best(self) -> Graph | None:
        """The top-ranked graph."""
        return self.graphs[0] if self.graphs else None


@dataclasses.dataclass(frozen=True)
class Budget:
    """The bounds of a search. It stops cleanly at either and returns what it has.

    Attributes:
      seconds: wall-clock limit of one attack.
      candidates: most blocks checked for one centre.
      blocks: most blocks of one hop that are kept.
    """

    seconds: float = 60.0
    candidates: int = 1_000_000_000
    blocks: int = 100_000

    def start(self) -> Clock:
        """Begin counting."""
        return Clock(time.monotonic(), self.seconds)


@dataclasses.dataclass(frozen=True)
class Clock:
    """A running wall-clock budget."""

    begun: float
    seconds: float

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float:
        """Seconds until the limit (negative when past it)."""
        return self.seconds - self.elapsed

    def part(self, share: float) -> Clock:
        """A clock that ends when ``share`` of the time left is spent."""
        return Clock(self.begun, self.elapsed + share * self.left)


class Run(Protocol):
    """An attack's entry: everything it may look at is in its arguments."""

    def __call__(
        self, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget
    ) -> Reconstruction: ...


@dataclasses.dataclass(frozen=True)
class Attack:
    """An entry of the registry.

    Attributes:
      name: what users type.
      summary: one line, with the source.
      run: the attack.
      unsupported: returns why (and what instead) when the attack cannot work on this observation, else None.
    """

    name: str
    summary: str
    run: Run
    unsupported: Callable[[Observation, Knowledge], str | None] = lambda observation, knowledge: None

    def __call__(
        self, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget | None = None
    ) -> Reconstruction:
        """Check the needs, then run.

        Raises:
          ValueError: the attack cannot work here, with the reason and what to do instead.
        """
        if observation.model.in_features != knowledge.space.width:
            raise ValueError(
                f"knowledge: the feature space has {knowledge.space.width} columns, the observed model takes "
                f"{observation.model.in_features}; give the feature space this model was trained with"
            )
        reason = self.unsupported(observation, knowledge)
        if reason is not None:
            raise ValueError(f"attack {self.name!r} cannot run here: {reason}")
        observation = dataclasses.replace(observation, update=jax.tree.map(np.asarray, observation.update))
        with threadpool_limits(1, "blas"):  # the host's matrices are small: more threads only wait for each other
            return self.run(observation, knowledge, key=key, budget=budget or Budget())
