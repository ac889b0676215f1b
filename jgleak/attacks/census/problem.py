"""What every stage of the census works on: one update, what is known, and how to reckon with it."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Int

from jgleak.attacks.census.arithmetic import Arithmetic, arithmetic_of
from jgleak.attacks.census.settings import DEFAULTS, CensusLimits, CensusSettings, CensusTolerances
from jgleak.attacks.distance import Fit
from jgleak.attacks.node_order import KnownRows
from jgleak.federated.observation import Knowledge, Observation


@dataclasses.dataclass(frozen=True)
class CensusProblem:
    """One client's update and the attacker's side.

    Attributes:
      observation: what the server saw.
      knowledge: what the attacker knows.
      settings: tolerances and limits.
      arithmetic: how to reckon with an exact gradient, or one under noise.
      fit: which gradient distances are those of the graph that was seen.
    """

    observation: Observation
    knowledge: Knowledge
    settings: CensusSettings
    arithmetic: Arithmetic
    fit: Fit

    @staticmethod
    def of(observation: Observation, knowledge: Knowledge, settings: CensusSettings = DEFAULTS) -> CensusProblem:
        """The problem of an update."""
        noise = knowledge.noise
        return CensusProblem(
            observation, knowledge, settings, arithmetic_of(noise, settings), Fit.of(observation, noise)
        )

    @property
    def tolerances(self) -> CensusTolerances:
        """Those of the settings."""
        return self.settings.tolerances

    @property
    def limits(self) -> CensusLimits:
        """Those of the settings."""
        return self.settings.limits

    @property
    def sizes(self) -> range:
        """The numbers of nodes that are possible, the smallest first."""
        n, most = self.knowledge.n, self.knowledge.max_n
        return range(1, most + 1) if n is None else range(n, n + 1)

    @property
    def most_nodes(self) -> int:
        """The largest of them."""
        return self.sizes[-1]

    @property
    def absolute(self) -> bool:
        """The update shows numbers of nodes (sum pooling), not shares."""
        return self.observation.model.readout.counts_nodes

    def known_rows(self, codes: Int[np.ndarray, "K G"]) -> tuple[Int[np.ndarray, " K"], Int[np.ndarray, " F"]] | None:
        """Which of the known feature rows each of ``codes`` is, and how many nodes have each; None: none are known."""
        known = KnownRows.of(self.knowledge)
        return None if known is None else (known.index(codes), known.counts)
