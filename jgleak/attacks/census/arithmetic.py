"""Exact gradients and noisy ones: what the stages of the census do differently for each.

An exact gradient is exact up to rounding in float32; every bound follows from the residuals. A noisy one carries
independent noise of known deviation on every entry; every bound is a test at the rate of ``jgleak.attacks.noise``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.checks import Chosen, loosened
from jgleak.attacks.census.settings import CensusSettings
from jgleak.attacks.census.sketch import directions, signs
from jgleak.attacks.census.sphere_decoder import nearest_censuses
from jgleak.attacks.census.system import Census, Equations, Solution
from jgleak.attacks.census.whole_numbers import all_censuses, real_solution
from jgleak.attacks.noise import RATE, described, deviation, largest
from jgleak.federated.observation import Observation
from jgleak.gnn import Params

Reduced = tuple[Float[np.ndarray, "R K"], Float[np.ndarray, " R"]]
"""Equations and rules as one triangle, and its right-hand side, in units of the equations' length."""


@runtime_checkable
class Arithmetic(Protocol):
    """What the stages need, in the order in which they run."""

    def weaker(
        self, checks: list[Chosen], lacking: int, completed: Callable[[], Iterator[list[Chosen]]]
    ) -> Iterator[list[Chosen]]:
        """Choices of checks (of every hop) where the spans below the last hop may lack ``lacking`` dimensions;
        ``completed`` finds these dimensions from what candidates share."""
        ...

    def vectors(self, tree: Params, columns: int) -> Params:
        """The vectors with which weight rows are multiplied to become equations of ``columns`` columns."""
        ...

    def scales(self, sizes: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """The number that each equation is divided by, from the typical size of its entries."""
        ...

    def pooled_scale(self, size: float, observation: Observation) -> float:
        """The same for the pooled state as the gradient shows it, from its typical entry."""
        ...

    def slack(self, observation: Observation, observed: Float[np.ndarray, " M"]) -> float:
        """Length by which something other than independent noise moves the scaled right-hand side."""
        ...

    def rules_weight(self, equations: Equations, most: int) -> float:
        """The weight of one violation of a rule, where the equations have length 1, for graphs of up to ``most``
        nodes."""
        ...

    def limit(self, reduced: Reduced, equations: Equations, exact: Float[np.ndarray, "F K"]) -> float:
        """Largest relative residual of the true counts; 0 where no real counts explain the right-hand side.

        Args:
          reduced: equations and rules.
          equations: the equations alone.
          exact: the rules alone (``Rules.matrix``).
        """
        ...

    def exclusion(self, residual: float, limit: float) -> float:
        """Largest relative residual of an accepted solution, from the residual of the best one and the limit."""
        ...

    def real(self, reduced: Reduced, blur: float) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k q"]]:
        """The smallest real solution and the free directions, from which whole solutions are found.

        Args:
          reduced: equations and rules over the columns that a solution may have.
          blur: how far the residual may move the count of one node.
        """
        ...

    def censuses(self, solution: Solution, sizes: Iterable[int], clock: Clock) -> Iterator[Census | None]:
        """Every census for the given numbers of nodes, smallest first; None where a budget ended a search early."""
        ...

    def conditions(self) -> tuple[str, ...]:
        """What a certificate assumes of the update."""
        ...

    def reason(self, stop: str) -> dict[str, str]:
        """The reason to report for a search that found nothing."""
        ...


@dataclasses.dataclass(frozen=True)
class Exact:
    """Gradients that are exact up to rounding (``Arithmetic``).

    Attributes:
      settings: tolerances and limits.
    """

    settings: CensusSettings

    def weaker(
        self, checks: list[Chosen], lacking: int, completed: Callable[[], Iterator[list[Chosen]]]
    ) -> Iterator[list[Chosen]]:
        """Completed spans."""
        return completed()

    def vectors(self, tree: Params, columns: int) -> Params:
        """Random signs: of an exact gradient, one equation for each row is enough."""
        return signs(tree)

    def scales(self, sizes: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """The sizes: equations become comparable."""
        return sizes

    def pooled_scale(self, size: float, observation: Observation) -> float:
        """The size, or 1 for a pooled state of zeros."""
        return size or 1.0

    def slack(self, observation: Observation, observed: Float[np.ndarray, " M"]) -> float:
        """Zero: rounding is in the tolerances."""
        return 0.0

    def rules_weight(self, equations: Equations, most: int) -> float:
        """As much as all equations."""
        return 1.0

    def limit(self, reduced: Reduced, equations: Equations, exact: Float[np.ndarray, "F K"]) -> float:
        """A tolerance."""
        return self.settings.tolerances.missing_residual

    def exclusion(self, residual: float, limit: float) -> float:
        """What rounding explains beside the best solution."""
        return self.settings.tolerances.excluded_residual + self.settings.tolerances.residual_margin * residual

    def real(self, reduced: Reduced, blur: float) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k q"]]:
        """From a singular value decomposition; with too many unknowns, or far too few equations, all directions are
        free."""
        tolerances, limits, (rows, columns) = self.settings.tolerances, self.settings.limits, reduced[0].shape
        if columns > min(limits.real_blocks, rows + limits.freedom):
            return np.zeros(columns), np.broadcast_to(0.0, (columns, columns))
        return real_solution(*reduced, null=tolerances.null_direction, blur=blur / (tolerances.whole_number / 2))

    def censuses(self, solution: Solution, sizes: Iterable[int], clock: Clock) -> Iterator[Census | None]:
        """Whole points of the space of solutions."""
        return all_censuses(solution, sizes, clock, self.settings.tolerances, self.settings.limits)

    def conditions(self) -> tuple[str, ...]:
        """No condition."""
        return ()

    def reason(self, stop: str) -> dict[str, str]:
        """No reason beyond the search's own."""
        return {}


@dataclasses.dataclass(frozen=True)
class Noisy:
    """Gradients with independent noise on every entry (``Arithmetic``).

    A weight row becomes as many equations as ``system_entries`` allows, its products with orthonormal vectors. Each has
    the noise's own deviation, so a single product of a row of 300 entries would keep about a 300th of the row's
    evidence against a wrong census. Equations are divided by that deviation (and rounding). The upstream gradient is
    itself computed from the noisy update, so it is wrong by some factor, the same in all equations.

    The residual of the true counts is then a chi-square number of as many degrees of freedom as there are equations,
    and falls into two independent parts: the distance of the right-hand side from what any real counts explain, and a
    part among the ``K`` columns. Both are tested at the stated rate (``noise.RATE``), and the second decides which
    whole counts are possible.

    Attributes:
      settings: tolerances and limits.
      deviation: of the noise.
      relative: of what the client rounded off, relative to each entry.
    """

    settings: CensusSettings
    deviation: float
    relative: float = 0.0

    def weaker(
        self, checks: list[Chosen], lacking: int, completed: Callable[[], Iterator[list[Chosen]]]
    ) -> Iterator[list[Chosen]]:
        """Looser checks: the dimensions that a span lacks are below the noise floor."""
        tolerances = self.settings.tolerances
        factor = tolerances.looser_checks if lacking == 1 else tolerances.loosest_checks
        yield [*(loosened(hop, factor) for hop in checks[:-1]), *checks[-1:]]

    def vectors(self, tree: Params, columns: int) -> Params:
        """Orthonormal directions, as many as can be afforded."""
        return directions(tree, columns, self.settings.limits)

    def scales(self, sizes: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """The noise of an equation, with rounding."""
        return np.hypot(self.deviation, np.hypot(self._rounding, self.relative) * sizes)

    def pooled_scale(self, size: float, observation: Observation) -> float:
        """The noise of a weight's column over the bias's entry beside it, with rounding."""
        readout = observation.model.readout
        delta = np.linalg.norm(readout.first(readout_update(observation))["bias"])
        return float(np.hypot(self.deviation / delta, np.hypot(self._rounding, self.relative) * size))

    def slack(self, observation: Observation, observed: Float[np.ndarray, " M"]) -> float:
        """Rounding, and the error of the upstream gradient."""
        model, off = observation.model, self._rounding
        if model.node_level:  # an equation of one entry has that entry's rounding, not its row's
            off += float(np.sqrt(3.0)) * self.relative
        else:
            params, update, readout = model.readout_of(observation.params), readout_update(observation), model.readout
            entries, spread = readout.upstream_spread(params, update)
            part = readout.first if readout.additive == "pooled" else readout.last
            noise = deviation(observation, self.deviation, np.asarray(part(update)["bias"]))
            off += noise * largest(entries) * spread
        return float(off * np.linalg.norm(observed))

    def rules_weight(self, equations: Equations, most: int) -> float:
        """More than noise can leave."""
        noise = largest(equations.observed.size) + equations.slack
        return max(1.0, self.settings.tolerances.rules_weight * most * noise / equations.length)

    def limit(self, reduced: Reduced, equations: Equations, exact: Float[np.ndarray, "F K"]) -> float:
        """From both parts of the residual: the part outside the columns' span, and the part inside. Rules hold without
        error, so every independent rule takes one direction from the fit.
        """
        system, goal = reduced
        slack, weight, number = equations.slack, equations.length, equations.observed.size
        best, _, rank, _ = np.linalg.lstsq(system, goal)
        rest = float(np.linalg.norm(goal - system @ best))
        fitted = int(rank) - int(np.linalg.matrix_rank(exact)) if exact.size else int(rank)
        if number > fitted and rest * weight > largest(number - fitted) + slack:
            return 0.0
        return float(np.hypot(rest, (largest(min(system.shape[1], number)) + slack) / weight))

    def exclusion(self, residual: float, limit: float) -> float:
        """The limit."""
        return limit

    def real(self, reduced: Reduced, blur: float) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k q"]]:
        """Zeros and no free directions: whole counts are found by their distance instead."""
        number = reduced[0].shape[1]
        return np.zeros(number), np.zeros((number, 0))

    def censuses(self, solution: Solution, sizes: Iterable[int], clock: Clock) -> Iterator[Census | None]:
        """Whole points near the best real one."""
        radius = largest(solution.columns.size) + solution.equations.slack
        return nearest_censuses(solution, sizes, clock, radius, self.settings.limits)

    def conditions(self) -> tuple[str, ...]:
        """What the tests assume, and the error that they allow."""
        return (
            f"the update carries {described(self.deviation, self.relative)}, and no test rejects the truth (each does "
            f"at a rate of {RATE:.0e})",
            "every direction of the rows that a span check tests stands above the noise",
        )

    def reason(self, stop: str) -> dict[str, str]:
        """The noise."""
        return {"reason": f"under {described(self.deviation, self.relative)} the search ended with: {stop}"}

    @property
    def _rounding(self) -> float:
        return self.settings.tolerances.equation_rounding


def readout_update(observation: Observation) -> Params:
    """The readout's part of the update."""
    return observation.model.readout_of(observation.update)


def arithmetic_of(observation: Observation, noise: float | None, settings: CensusSettings) -> Arithmetic:
    """For an update with noise of this deviation, or without any."""
    return Exact(settings) if noise is None else Noisy(settings, noise, observation.rounding or 0.0)
