"""What a set of explaining graphs proves, and what it assumes."""

from __future__ import annotations

import dataclasses
from typing import Literal

from jgleak.plural import counted

Status = Literal["unique", "k_graphs", "at_least_k"]


@dataclasses.dataclass(frozen=True)
class Certificate:
    """Every listed graph has the observed gradient, and no two are isomorphic.

    ``str`` says it in a sentence; the conditions are counted there, not listed.

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

    def __str__(self) -> str:
        nodes = f"of {self.n_max} nodes" if self.n_known else f"of up to {self.n_max} nodes"
        claims = {
            "unique": f"no other reconstruction {nodes} explains the gradient",
            "k_graphs": f"exactly {counted(self.size, 'reconstruction')} {nodes} explain the gradient",
            "at_least_k": f"{counted(self.size, 'reconstruction')} {nodes} found; others were not excluded",
        }
        more = ", see .conditions" * bool(self.conditions)
        return f"{self.status}: {claims[self.status]} ({counted(len(self.conditions), 'condition')}{more})"
