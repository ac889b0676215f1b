"""The input of every stage of the census: one update, the attacker's knowledge, and the arithmetic for its noise."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from jgleak.attacks.census.arithmetic import Arithmetic, arithmetic_of
from jgleak.attacks.census.local_path import LocalPath, every_step_whole, midway, moved, straight
from jgleak.attacks.census.settings import DEFAULTS, CensusLimits, CensusSettings, CensusTolerances
from jgleak.attacks.distance import Fit
from jgleak.attacks.node_order import KnownRows
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.federated.statistics import Batch, deviation_blur, frozen, of_batch


@dataclasses.dataclass(frozen=True)
class CensusProblem:
    """One client's update and the attacker's knowledge and settings.

    Attributes:
      observation: what the server saw; of batch normalisation in training mode with the batch's own statistics in the
        parameters and in evaluation mode, so that a node's states follow from its neighbourhood; of several local
        steps at the middle of their path.
      seen: the observation unchanged.
      knowledge: what the attacker knows.
      settings: tolerances and limits; where running statistics were returned the tolerances allow for their rounding,
        and after several local steps for the movement of the rows.
      arithmetic: what the stages do differently for exact and noisy gradients.
      fit: which gradient distances the client's graph may have.
      path: where the gradients were taken: the weights and the update of one step, or those of every local step.
      n_counted: the number of nodes was unknown and was derived from the statistics (``number_of_nodes``).
    """

    observation: Observation
    seen: Observation
    knowledge: Knowledge
    settings: CensusSettings
    arithmetic: Arithmetic
    fit: Fit
    path: LocalPath
    n_counted: bool = False

    @staticmethod
    def of(observation: Observation, knowledge: Knowledge, settings: CensusSettings = DEFAULTS) -> CensusProblem:
        """The problem of an update.

        Raises:
          ValueError: batch normalisation in training mode without running statistics or without a number of nodes.
        """
        tolerances = _blurred(_rounded(settings.tolerances, observation), observation)
        settings = dataclasses.replace(settings, tolerances=tolerances)
        arithmetic, fit = arithmetic_of(observation, knowledge.noise, settings), Fit.of(observation, knowledge.noise)
        here = still(midway(observation), knowledge.n)
        path = straight(observation if moved(observation) else here)
        return CensusProblem(here, observation, knowledge, settings, arithmetic, fit, path)

    @property
    def batch(self) -> Batch:
        """The mean and the unbiased variance of the batch at every norm in training mode."""
        seen = self.seen
        return {} if seen.statistics is None else of_batch(seen.model, seen.params, seen.statistics)

    @property
    def tolerances(self) -> CensusTolerances:
        """The settings' tolerances."""
        return self.settings.tolerances

    @property
    def limits(self) -> CensusLimits:
        """The settings' limits."""
        return self.settings.limits

    @property
    def several(self) -> bool:
        """The client made several local steps."""
        local = self.seen.local
        return local is not None and local.steps > 1

    @property
    def rounds(self) -> list[range]:
        """The numbers of nodes that are tried (``rounds_of``)."""
        return rounds_of(self.knowledge, self.limits)

    @property
    def most_nodes(self) -> int:
        """The largest number of nodes that is tried."""
        return self.rounds[-1][-1]

    @property
    def absolute(self) -> bool:
        """The update shows numbers of nodes (sum pooling), not shares."""
        return self.observation.model.readout.counts_nodes

    def known_rows(self, codes: Int[np.ndarray, "K G"]) -> tuple[Int[np.ndarray, " K"], Int[np.ndarray, " F"]] | None:
        """Which known feature row each of ``codes`` is, and how many nodes have each row; None where no rows are
        known."""
        known = KnownRows.of(self.knowledge)
        return None if known is None else (known.index(codes), known.counts)


def rounds_of(knowledge: Knowledge, limits: CensusLimits) -> list[range]:
    """The possible numbers of nodes in rounds: the later ones are tried while no graph has the gradient. A mean readout
    does not show the number, and without a bound there would be no end of covers of the graphs found."""
    n, most = knowledge.n, knowledge.max_n
    if n is not None:
        return [range(n, n + 1)]
    ends = sorted(set(limits.size_rounds)) if most is None else [most]
    return [range(before + 1, end + 1) for before, end in pairwise((0, *ends))]


def still(observation: Observation, n: int | None) -> Observation:
    """The observation in evaluation mode with the batch's own statistics in the parameters (``CensusProblem``)."""
    if not observation.model.returns_statistics:
        return observation
    if observation.statistics is None or n is None:
        raise ValueError("statistics: in training mode the running statistics and the number of nodes are needed")
    batch = of_batch(observation.model, observation.params, observation.statistics)
    model, params = frozen(observation.model, observation.params, batch, n)
    return dataclasses.replace(observation, model=model, params=params, statistics=None)


def _rounded(tolerances: CensusTolerances, seen: Observation) -> CensusTolerances:
    """Tolerances of rows and residuals that allow for the rounding of running statistics. A norm divides by the batch's
    deviation: where a column has a small deviation, it magnifies the error.
    """
    if seen.statistics is None:
        return tolerances
    blur = tolerances.statistics_margin * deviation_blur(seen.model, seen.params, seen.statistics)
    residual = max(tolerances.missing_residual, min(blur, tolerances.statistics_residual))
    span = dataclasses.replace(tolerances.span, row_least=tolerances.span.statistics_row)
    return dataclasses.replace(tolerances, span=span, missing_residual=residual, census_residual=residual)


def _blurred(tolerances: CensusTolerances, seen: Observation) -> CensusTolerances:
    """Tolerances of spans that allow for the movement of rows along local steps, since checks use the rows midway."""
    if not moved(seen):
        return tolerances
    gap, row = tolerances.moved_gap, tolerances.moved_row
    if seen.batch_size > 1 and every_step_whole(seen):
        # rows of many nodes leave no gap, and directions that are not theirs may pass
        gap, row = 0.0, tolerances.moved_batch_row
    span = dataclasses.replace(tolerances.span, rank_gap=gap, row_most=row)
    return dataclasses.replace(tolerances, span=span)
