"""How the rounds of a federation are read: one description for every client and every round."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Array

from jgleak.defenses import Defense
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
from jgleak.interop.arrays import Arrays, by_name
from jgleak.interop.bridge import Client, trained_names
from jgleak.interop.example import Given
from jgleak.interop.forward import Forward, is_live
from jgleak.interop.module import check_dropout
from jgleak.interop.take import COUNTER
from jgleak.interop.weights import from_weights, mean_gradient, weights_after


@dataclasses.dataclass(frozen=True)
class Rounds:
    """What every round of a federation has in common: the model, the loss, and how clients train between the weights
    that they get and the weights that they return.

    Attributes:
      model: a live PyTorch module, built as the clients' is and in the mode in which they train it; or the forward pass
        step by step, as for ``from_arrays``.
      loss: what clients minimise.
      local: how: rate, momentum, weight decay, and the graphs of a step (``loader``). How many steps a client makes
        follows from its graphs and ``epochs``, so that ``steps`` stays 1.
      epochs: passes of a client over its graphs in a round.
      client: what clients do besides: frozen parts, clipping, pruning, noise.
      example: a check of the description in every round: from the weights that were sent, as they were given, to public
        graphs and what the clients' model says of them (``from_arrays``). A live module is asked itself.

    Raises:
      ValueError: no whole number of epochs from 1, a number of steps, or a module that drops out.
    """

    model: Forward
    loss: str | Loss
    local: LocalTraining
    epochs: int = 1
    client: Client = Client()
    example: Callable[[Any], Given] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.epochs, int) or self.epochs < 1:
            raise ValueError(f"epochs: a client passes over its graphs a whole number of times, got {self.epochs!r}")
        if self.local.steps != 1:
            raise ValueError(
                f"local: {self.local.steps} steps are stated, and how many a client makes follows from its graphs, the "
                "loader and the epochs; leave steps out (loader=None: all graphs at once, epochs=5: five steps)"
            )
        if is_live(self.model):
            check_dropout(self.model)

    def observation(self, sent: Any, returned: Any, *, graphs: int | np.integer) -> Observation:
        """What the server sees of one client in one round.

        Parameters that did not come back are taken for frozen ones after one step: an update says nothing of them.

        Args:
          sent: the weights and buffers that the client got, by name (``by_name`` says what may hold them).
          returned: those that it gave back.
          graphs: how many graphs it trained on.

        Raises:
          ValueError: no graph; parameters that did not come back after several steps; other steps than the counters of
            batch normalisation say; or as for ``from_weights``.
        """
        if not isinstance(graphs, Integral) or graphs < 1:
            raise ValueError(f"graphs: a client trains on a whole number of graphs from 1, got {graphs!r}")
        graphs = int(graphs)  # NumPy's numbers are no int
        before, after = by_name(sent), by_name(returned)
        local = self._local(graphs)
        missing = sorted(before.keys() - after.keys())
        if missing and local.steps > 1:
            raise ValueError(
                f"returned: {missing[0]!r} did not come back, though it moved in the {local.steps} local steps, and "
                "the other gradients depend on where; let clients return it, or make one step"
            )
        _check_counters(before, after, local.steps)
        frozen = (*self.client.frozen, *(name for name in missing if not name.endswith(COUNTER)))
        client = dataclasses.replace(self.client, frozen=frozen, local=local)
        whole = {name: after.get(name, array) for name, array in before.items()}
        extra = {name: array for name, array in after.items() if name not in before}
        shown = None if self.example is None else self.example(sent)
        given: dict[str, Any] = {"loss": self.loss, "batch_size": graphs, "example": shown}
        return from_weights(before, whole | extra, self.model, **given, client=client)

    def defended(
        self, sent: Any, returned: Any, defense: Defense, *, graphs: int | np.integer, key: Array
    ) -> tuple[Arrays, Rounds]:
        """What a client returns in the place of its weights, where it defends its update (the mean gradient), and how
        those who know the defence read that.

        Running statistics and parts that are not trained come back as they were sent, and so does a single number that
        did not move, which is a constant (GIN's ``eps``).

        Args:
          sent: as for ``observation``.
          returned: as for ``observation``.
          graphs: as for ``observation``.
          defense: what is done to the update.
          key: what it draws from.
        """
        before, after = by_name(sent), by_name(returned)
        local = self._local(graphs)
        trained = [name for name in trained_names(self.model, before) if name not in self.client.frozen]
        moved = [n for n in trained if n in after and (after[n].size > 1 or not np.array_equal(before[n], after[n]))]
        slopes = {name: mean_gradient(before[name], after[name], local) for name in moved}
        kept = {name: before[name] for name in after}
        changed = defense.apply(slopes, key=key)
        left = {name: weights_after(before[name], np.asarray(changed[name]), local) for name in slopes}
        return kept | left, dataclasses.replace(self, client=_known(self.client, defense, changed))

    def _local(self, graphs: int | np.integer) -> LocalTraining:
        return dataclasses.replace(self.local, steps=self.epochs * self.local.passes(int(graphs)))


def _known(client: Client, defense: Defense, update: Any) -> Client:
    """A client of which the defence is known too."""
    sources = [one for one in (client.noise, defense.deviation(update)) if one is not None]
    clipped, pruned = client.clipped or defense.scales, client.pruned or defense.drops
    return dataclasses.replace(client, clipped=clipped, pruned=pruned, noise=math.hypot(*sources) if sources else None)


def _check_counters(before: Arrays, after: Arrays, steps: int) -> None:
    """Raise ``ValueError`` where batch normalisation counted other steps than were described."""
    for name, array in before.items():
        if name.endswith(COUNTER) and name in after:
            counted = int(np.asarray(after[name])) - int(np.asarray(array))
            if counted not in (0, steps):
                raise ValueError(
                    f"returned: {name!r} went up by {counted}, and the description says {steps} step(s) a round; look "
                    "at the loader, the epochs and the number of graphs"
                )
