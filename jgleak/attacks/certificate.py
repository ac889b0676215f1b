"""What a set of explaining graphs proves, and what it takes for granted."""

from __future__ import annotations

import dataclasses
from typing import Literal

Status = Literal["unique", "k_graphs", "at_least_k"]


@dataclasses.dataclass(frozen=True)
class Certificate:
    """Every listed graph has the observed gradient, and no two are isomorphic.

    Attributes:
      status: ``unique``: one graph, the search ended; ``k_graphs``: exactly these; ``at_least_k``:
        others were not excluded, since a budget ended first or not all nodes were looked for.
      size: number of graphs.
      n_max: no graph of more nodes was looked for.
      n_known: the number of nodes was given.
      residual: largest relative gradient distance of a listed graph.
      conditions: what was assumed: a graph that breaks one of them may explain the gradient and be missing.
      noise: deviation of the noise that the update was taken to carry; graphs of near gradients are listed then.
    """

    status: Status
    size: int
    n_max: int
    n_known: bool
    residual: float
    conditions: tuple[str, ...] = ()
    noise: float | None = None
