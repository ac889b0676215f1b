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
from jgleak.interop.dropouts import dropout_rate
from jgleak.interop.example import Given
from jgleak.interop.forward import Forward, is_live
from jgleak.interop.module import check_dropout
from jgleak.interop.plan import SUBNETWORK
from jgleak.interop.probe import probe_of
from jgleak.interop.take import COUNTER
from jgleak.interop.weights import from_weights, mean_gradient, weights_after
from jgleak.precision import DIGITS, rounds_to

MASKS_UNSEEN = (
    ". Rounds of clients that train with dropout are neither recorded nor guarded: the masks are not in the update. "
    "Which features' values an update shows is what `jgleak check` says (docs/check.md)"
)
"""Added to the message on active dropout. Evaluation mode is no way out: the file would say that there was none."""


@dataclasses.dataclass(frozen=True)
class Rounds:
    """What all rounds of a federation have in common: the model, the loss, and how clients train.

    Attributes:
      model: a live PyTorch module, built as the clients' is and in the mode in which they train it; or the forward pass
        step by step, as for ``from_arrays``.
      loss: what clients minimise.
      local: local training: rate, momentum, weight decay, and the graphs of a step (``loader``). The number of steps
        follows from a client's graphs and ``epochs``, so ``steps`` stays 1.
      epochs: passes of a client over its graphs in a round.
      client: what clients do besides: frozen parts, clipping, pruning, noise.
      example: a check of the description in every round: a function from the sent weights to public graphs with the
        clients' model's output for them (``from_arrays``). A live module is run instead.

    Raises:
      ValueError: ``epochs`` is not a whole number from 1, ``local`` states steps, or the module has active dropout.
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
            _check_dropout(self.model)

    def observation(self, sent: Any, returned: Any, *, graphs: int | np.integer) -> Observation:
        """What the server sees of one client in one round.

        After one step, parameters that were not returned are treated as frozen, since the update does not contain them.

        Args:
          sent: the weights and buffers that the client got, by name (``by_name`` says what may hold them).
          returned: the weights and buffers that it returned.
          graphs: how many graphs it trained on.

        Raises:
          ValueError: no graph; parameters that were not returned after several steps; another number of steps than
            batch normalisation counted; or as for ``from_weights``.
        """
        if not isinstance(graphs, Integral) or graphs < 1:
            raise ValueError(f"graphs: a client trains on a whole number of graphs from 1, got {graphs!r}")
        graphs = int(graphs)  # NumPy's numbers are no int
        before, after = by_name(sent), by_name(returned)
        local = self._local(graphs)
        missing = sorted(before.keys() - after.keys())
        if missing and local.steps > 1:
            raise ValueError(
                f"returned: {missing[0]!r} was not returned, and the other gradients depend on how it changed in the "
                f"{local.steps} local steps; let clients return it, or make one step"
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
        """What a client returns in place of its weights where it defends its update (the mean gradient), and the rounds
        for those who know the defence. Running statistics and parts that are not trained are returned as they were
        sent, and so is a single number that did not change, which is a constant (GIN's ``eps``).

        Args:
          sent: as for ``observation``.
          returned: as for ``observation``.
          graphs: as for ``observation``.
          defense: the defence of the update.
          key: the key of its random numbers.
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
        local = self.local.among(int(graphs))
        return dataclasses.replace(local, steps=self.epochs * local.passes(int(graphs)))


def _check_dropout(model: Any) -> None:
    """Raise ``ValueError`` where a live model has dropout in its current mode, as a module or as a function."""
    check_dropout(model, MASKS_UNSEEN)
    try:
        rate = dropout_rate(model, probe_of(model))
    except ValueError:  # nothing says how wide its rows are, as reading the first round reports
        return
    if rate > 0:
        raise ValueError(
            f"model: dropout is active, since a function of its forward pass masks {rate:.0%} of the entries: "
            f"{SUBNETWORK}{MASKS_UNSEEN}"
        )


def _known(client: Client, defense: Defense, update: Any) -> Client:
    """A client description with the known defence added."""
    sources = [one for one in (client.noise, defense.deviation(update)) if one is not None]
    marks: dict[str, Any] = {"clipped": client.clipped or defense.scales, "pruned": client.pruned or defense.drops}
    found = defense.rounding(update)
    if found is not None and not any(rounds_to(name, found) for name in DIGITS):
        raise ValueError(
            f"defense: {str(defense)!r} rounds each entry by {found:.1e} of it, as none of {', '.join(DIGITS)} does; "
            "defend rounds without it, and attack the observations that fedsgd makes with it"
        )
    rounders = {client.rounded_to, *(name for name in DIGITS if rounds_to(name, found))} - {None}
    marks["rounded_to"] = min(rounders, key=DIGITS.__getitem__, default=None)  # the coarsest
    return dataclasses.replace(client, **marks, noise=math.hypot(*sources) if sources else None)


def _check_counters(before: Arrays, after: Arrays, steps: int) -> None:
    """Raise ``ValueError`` where batch normalisation counted another number of steps than described."""
    for name, array in before.items():
        if name.endswith(COUNTER) and name in after:
            counted = int(np.asarray(after[name])) - int(np.asarray(array))
            if counted not in (0, steps):
                raise ValueError(
                    f"returned: {name!r} went up by {counted}, and the description says {steps} step(s) a round; look "
                    "at the loader, the epochs and the number of graphs"
                )
