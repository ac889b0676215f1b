"""How a client trains between the parameters that it gets and the update that it sends."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

OPTIMISERS = ("sgd", "adam")
"""Gradient descent, with momentum and weight decay, or Adam (AdamW, where weights decay)."""

MOST_STEPS = 10_000
"""Most local steps of a client."""


class Descent(NamedTuple):
    """The numbers of a step ``v <- momentum v + g + weight_decay w``, ``w <- w - rate v``, and what each step's
    gradient counts in the update ``(E,)``, one in total."""

    rate: Float[Array | np.ndarray, ""]
    momentum: Float[Array | np.ndarray, ""]
    weight_decay: Float[Array | np.ndarray, ""]
    shares: Float[Array | np.ndarray, " E"]


@dataclasses.dataclass(frozen=True)
class LocalTraining:
    """A client's local training: descent on the mean loss of the graphs of each step. The server prescribes it.

    With momentum ``m`` and weight decay ``d`` a step is PyTorch's ``SGD``: ``v <- m v + g + d w``, ``w <- w - rate v``.
    All of it is linear in the gradients ``g_0, .., g_(E-1)`` of the ``E`` steps and in the weights ``w_0`` that the
    client got, so that exactly

        w_t = kept_t w_0 - rate sum_(s<t) response_(t-s) g_s.

    What a server reads off the weights that come back is therefore a mean gradient along the way, in which step ``s``
    counts ``response_(E-s)``: ``update = (kept_E w_0 - w_E) / length``.

    Steps of Adam are ``w <- w - rate (a + d w)``, in the same way linear in their directions ``a`` in place of the
    gradients, since the decay is decoupled (AdamW; Loshchilov and Hutter 2019). The update is then a mean of
    directions, which keeps zeros of gradients and signs that all steps have: the first direction has the signs of its
    gradient's entries, the others follow from quotients of running means, which begin every round at zero.

    Attributes:
      rate: learning rate of a step.
      steps: how many.
      momentum: share of the last step's direction that is kept, from 0 and below 1.
      weight_decay: weight of the weights themselves in a step's direction.
      loader: graphs of a step, which the client goes through pass by pass (the last step of a pass may have fewer);
        None: all of its graphs at every step.
      shuffled: every pass takes the graphs in an order of its own, which the server does not know.
      optimiser: a name of ``OPTIMISERS``.

    Raises:
      ValueError: numbers out of range, less than one step or graph, momentum beside ``adam``, or a rate and a weight
        decay that reverse the weights' signs, so that a step would count less than nothing.
    """

    rate: float
    steps: int = 1
    momentum: float = 0.0
    weight_decay: float = 0.0
    loader: int | None = None
    shuffled: bool = False
    optimiser: str = "sgd"

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps: a client makes at least one local step, in whole numbers, got {self.steps!r}")
        if self.steps > MOST_STEPS:
            raise ValueError(f"steps: attacks repeat every step; at most {MOST_STEPS:,}, got {self.steps:,}")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate: a client's learning rate lies above 0, got {self.rate!r}")
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum: it lies in 0..1, below 1, got {self.momentum!r}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay: it is finite and not negative, got {self.weight_decay!r}")
        if self.loader is not None and (not isinstance(self.loader, int) or self.loader < 1):
            raise ValueError(f"loader: a step takes at least one graph, in whole numbers, got {self.loader!r}")
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser: unknown {self.optimiser!r}; choose one of {', '.join(OPTIMISERS)}")
        if self.optimiser == "adam" and self.momentum:
            raise ValueError("momentum: it is that of 'sgd', and 'adam' has its own; leave it out beside 'adam'")
        for name in ("rate", "momentum", "weight_decay"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.weight_decay and np.any(self.response <= 0):
            raise ValueError(
                f"weight_decay: {self.weight_decay:g} at a rate of {self.rate:g} reverses the weights' signs; take less"
            )

    @cached_property
    def kept(self) -> Float[np.ndarray, " E1"]:
        """What is left of the weights before each step, and after the last, without any gradient ``(E + 1,)``."""
        left, speed = np.ones(self.steps + 1), 0.0
        for t in range(self.steps):
            speed = self.momentum * speed + self.weight_decay * left[t]
            left[t + 1] = left[t] - self.rate * speed
        return left

    @cached_property
    def response(self) -> Float[np.ndarray, " E"]:
        """How far one step's gradient has moved the weights after 1, 2, .. ``E`` steps, its own the first, in units of
        the rate."""
        if not (self.momentum or self.weight_decay):
            return np.ones(self.steps)
        moved, speed = np.zeros(self.steps), 0.0
        for t in range(self.steps):
            speed = 1.0 if t == 0 else self.momentum * speed - self.rate * self.weight_decay * moved[t - 1]
            moved[t] = speed + (moved[t - 1] if t else 0.0)
        return moved

    @property
    def length(self) -> float:
        """What the mean gradient is multiplied with in the weights' change: rate times steps where they are plain."""
        plain = not (self.momentum or self.weight_decay)
        return self.rate * (self.steps if plain else float(self.response.sum()))

    @property
    def shares(self) -> Float[np.ndarray, " E"]:
        """What each step's gradient counts in the mean ``(E,)``."""
        return self.response[::-1] / self.response.sum()

    @property
    def descent(self) -> Descent:
        """The numbers that a compiled step takes, in single precision.

        Raises:
          ValueError: steps of Adam, which are stated and not made.
        """
        if self.optimiser != "sgd":
            raise ValueError(
                f"local: steps of 'sgd' are made here, not of {self.optimiser!r}, which no attack here reads"
            )
        rate, momentum, decay = (np.asarray(one, np.float32) for one in (self.rate, self.momentum, self.weight_decay))
        return Descent(rate, momentum, decay, self.shares.astype(np.float32))

    def among(self, graphs: int) -> LocalTraining:
        """The same training of a client that may have fewer graphs than a step takes: then a step takes all."""
        return self if self.loader is None else dataclasses.replace(self, loader=min(self.loader, graphs))

    def passes(self, graphs: int) -> int:
        """Steps of one pass over so many graphs."""
        return 1 if self.loader is None else -(-graphs // self.loader)
