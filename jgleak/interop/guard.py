"""A client attacks its own update before it leaves, and holds it back where too few graphs explain it."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.registry import get_attack
from jgleak.defenses import parse
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.interop.arrays import Arrays, by_name
from jgleak.interop.rounds import Rounds
from jgleak.renamed import renamed

CENSUS = "census"
"""The attack that certifies how many graphs explain an update."""

Action = Literal["sent", "noised", "dropped"]


@dataclasses.dataclass(frozen=True)
class Decision:
    """A guard's decision about one update.

    Attributes:
      action: ``sent`` as it is, ``noised``, or ``dropped``.
      leaves: the weights that may leave, by name; None where nothing may.
      smallest: size of the smallest complete anonymity set that the attack certified for the original update; None
        where it certified none.
      seconds: time that the guard took.
      reason: a line for the client's own log. The server must not see it.
    """

    action: Action
    leaves: Arrays | None
    smallest: int | None
    seconds: float
    reason: str


@renamed(seconds="time_limit")
@dataclasses.dataclass(frozen=True)
class Guard:
    """Attacks an update by the census, as the server could, and sends it unless the certified anonymity set is too
    small.

    Attributes:
      rounds: how rounds are read.
      knowledge: what the server knows, the public feature space first.
      least: fewest graphs that must explain an update; with fewer it is held back (2: updates certified ``unique``
        are).
      time_limit: seconds an attack may take, compilation included.
      strict: also hold back updates that are not certified to have ``least`` graphs, because the attack did not finish
        in time.
      otherwise: what is done with an update that is held back: empty: it is dropped; or a defence as text for
        ``jgleak.defenses.parse``, after which it is attacked again, and dropped where the set is still too small. The
        defence clips the length, then adds noise: attacks have no model of other defences, and would find nothing.

    Raises:
      ValueError: numbers out of range, an unknown defence, one that acts before there is an update, or one that no
        attack has a model of.
    """

    rounds: Rounds
    knowledge: Knowledge
    least: int = 2
    time_limit: float = 30.0
    strict: bool = False
    otherwise: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.least, int) or self.least < 2:
            raise ValueError(f"least: a whole number from 2, as some graph explains every update; got {self.least!r}")
        if not self.time_limit > 0:
            raise ValueError(f"time_limit: an attack needs some time, got {self.time_limit}")
        steps = parse(self.otherwise).steps
        if any(step.kind.disturb is not None or step.kind.graph is not None for step in steps):
            raise ValueError(
                f"otherwise: {self.otherwise!r} acts on activations or on each graph's gradient, which are past; take "
                "what acts on the update (clip:1+gaussian:0.1)"
            )
        noisy = bool(self.knowledge.noise or self.rounds.client.noise)
        for step in steps:
            # For an attack, entries that were cut, left out or clipped after noise look like another gradient, whatever
            # the graph: that it finds nothing then shows nothing about what the update leaks.
            if step.kind.drops or not (step.kind.scales or step.kind.deviation) or (step.kind.scales and noisy):
                raise ValueError(
                    f"otherwise: no attack here has a model of what {step} does in {self.otherwise!r}"
                    f"{', as there is noise before it' if noisy else ''}, so that all would pass after it; bound the "
                    "length before there is noise, then add noise (clip:1+gaussian:0.1), or drop the update"
                )
            noisy = noisy or step.kind.deviation is not None

    def decision(self, sent: Any, returned: Any, *, graphs: int | np.integer) -> Decision:
        """What may be sent of an update.

        Args:
          sent: as for ``Rounds.observation``.
          returned: as for ``Rounds.observation``.
          graphs: as for ``Rounds.observation``.

        Raises:
          ValueError: the round cannot be read, or the attack cannot run on it. Then nothing is known of the update, and
            the caller must not send it.
        """
        begun = time.monotonic()
        seen = self.rounds.observation(sent, returned, graphs=graphs)
        small, size, reason = self._attacked(seen, self.knowledge)
        action, leaves = ("dropped", None) if small else ("sent", by_name(returned))
        if small and self.otherwise:
            defense = parse(self.otherwise)
            changed, rounds = self._rounds().defended(sent, returned, defense, graphs=graphs, key=_secret())
            # The observation now states all noise; the earlier value would hide what this defence added.
            known = dataclasses.replace(self.knowledge, noise=None)
            small, _, after = self._attacked(rounds.observation(sent, changed, graphs=graphs), known)
            reason = f"{reason}; under {defense}, {after}"
            action, leaves = ("dropped", None) if small else ("noised", changed)
        return Decision(action, leaves, size, time.monotonic() - begun, f"{action}: {reason}")

    def _rounds(self) -> Rounds:
        """The rounds with the noise that ``knowledge`` states in place of their own."""
        if self.knowledge.noise is None:
            return self.rounds
        return dataclasses.replace(
            self.rounds, client=dataclasses.replace(self.rounds.client, noise=self.knowledge.noise)
        )

    def _attacked(self, seen: Observation, knowledge: Knowledge) -> tuple[bool, int | None, str]:
        """Whether an update is held back, the smallest complete set that is certified, and the reason in words."""
        found = get_attack(CENSUS)(seen, knowledge, key=_secret(), budget=Budget(time_limit=self.time_limit))
        ended = [one.size for one in certificates(found) if one.status != "at_least_k"]
        size = min(ended, default=None)
        if size is not None and size < self.least:
            return True, size, f"only {size} graph(s) explain the update, and {self.least} are required"
        open_sets = [one.size for one in certificates(found)]
        left = "it found graphs but did not exclude all others" if found.graphs else f"it found none ({found.stop})"
        enough = len(open_sets) == seen.batch_size and min(open_sets) >= self.least
        if self.strict and not enough:
            return True, size, f"the attack did not certify {self.least} graphs in its time: {left}"
        if enough:
            least = min(open_sets)
            return False, size, f"at least {least} graph{'s explain' if least > 1 else ' explains'} the update"
        return False, size, f"the attack did not finish in its time: {left}; that is no evidence of safety"


def certificates(found: Reconstruction) -> Sequence[Certificate]:
    """The certificates of the graphs of an update, one by one."""
    members = found.members or (found,)
    return [member.certificate for member in members if member.certificate is not None]


def _secret() -> Array:
    """A key from the system's randomness, so that the server cannot draw the same noise."""
    words = jnp.array([secrets.randbits(32), secrets.randbits(32)], jnp.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")
