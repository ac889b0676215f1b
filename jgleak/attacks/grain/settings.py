"""GRAIN's tolerances and the limits of its searches. Sizes that affect speed alone stay beside the code."""

from __future__ import annotations

import dataclasses

from jgleak.attacks.node_order import ORDER, OrderSettings
from jgleak.attacks.options import choice
from jgleak.attacks.span.settings import LIMITS, TOLERANCES, SpanLimits, SpanTolerances


@dataclasses.dataclass(frozen=True)
class GrainTolerances:
    """Which differences count as none.

    Attributes:
      mean_rows: how far the mean of a graph's last hidden rows may be from the one that the gradient shows (relative).
      asked_residual: where shares of blocks explain that mean up to this relative residual, these blocks are tried
        first.
      asked_share: smallest share of a block that counts as one of these.
      span: those of the span checks.
    """

    mean_rows: float = 1e-2
    asked_residual: float = 1e-3
    asked_share: float = 1e-4
    span: SpanTolerances = TOLERANCES


@dataclasses.dataclass(frozen=True)
class GrainLimits:
    """Where the searches end, beside the user's budget.

    Attributes:
      filtering_share: largest part of the time left that filtering one hop may take; the rest is for the search for the
        graph.
      unchecked_one_hop: most 1-hop neighbourhoods to keep unchecked, where the checked ones do not give the graph.
      unchecked_two_hop: the same for two hops.
      size_rounds: bounds on the number of nodes, tried one after another where the number is unknown; a known bound
        replaces those above it.
      step_rounds: search-tree nodes for one start, raised from round to round, so that no wrong start takes the whole
        time.
      solver_rounds: most steps of non-negative least squares, for each unknown (SciPy's default is 3).
      order: how the likeliest order of nodes is searched for.
      span: those of the span checks.
    """

    filtering_share: float = 0.6
    unchecked_one_hop: int = 500
    unchecked_two_hop: int = 5_000
    size_rounds: tuple[int, ...] = (8, 12, 16, 20, 24, 28, 32, 36, 40, 80, 160, 256)
    step_rounds: tuple[int, ...] = (2_000, 20_000, 200_000, 2_000_000)
    solver_rounds: int = 30
    order: OrderSettings = ORDER
    span: SpanLimits = LIMITS


@dataclasses.dataclass(frozen=True)
class GrainSettings:
    """What users may change (``--option``).

    Attributes:
      tolerances: which differences count as none.
      limits: where the searches end.
      distinct_search: how the graph is found where all nodes differ: ``settled``, node by node, each pruning its
        neighbours' candidates; or ``glued``, block by block, as the paper prints it.
    """

    tolerances: GrainTolerances = GrainTolerances()
    limits: GrainLimits = GrainLimits()
    distinct_search: str = choice(("settled", "glued"), "settled")


DEFAULTS = GrainSettings()
"""The defaults."""
