"""Linear maps that can be looked into: the rows that enter them, and the derivative at what comes out.

The gradient of a kernel ``W`` behind ``Z = X W`` is ``X^T (dL/dZ)``: a product of two thin matrices, as many rows high
as there are nodes. A comparison of gradients need not form the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from flax import linen as nn
from jaxtyping import Array, Float

ROWS = "intermediates"
"""Collection in which every linear map leaves its incoming rows, under its kernel's name, when it is mutable."""

PROBES = "probes"
"""Collection of what is added to the outcome, under the kernel's name, when it is given: zeros, for derivatives."""


class Tap(NamedTuple):
    """A linear map inside a part, at which the rows that enter it leak.

    The columns of ``dL/dW = X^T dL/dZ`` lie in the span of the rows ``X`` (GRAIN, Theorem 5.1).

    Attributes:
      path: where the kernel lies in the part's parameters.
      rows: ``own``: every node's own incoming row; ``mixed``: the rows after the mixing; ``hidden``: rows inside.
    """

    path: tuple[str, ...]
    rows: Literal["own", "mixed", "hidden"]

    def of(self, tree: Mapping[str, Any]) -> Any:
        """The kernel, or its gradient, in a tree like the part's parameters."""
        for name in self.path:
            tree = tree[name]
        return tree

    def inside(self, name: str) -> Tap:
        """The same, seen from the part that holds this one under ``name``."""
        return Tap((name, *self.path), self.rows)


def apply_kernel(module: nn.Module, name: str, kernel: Any, rows: Float[Array, "... F"]) -> Float[Array, "... D"]:
    """``rows @ kernel`` for the parameter ``name`` of ``module``."""
    module.sow(ROWS, name, rows, init_fn=lambda: rows, reduce_fn=lambda _, now: now)
    out = rows @ kernel
    return out + module.get_variable(PROBES, name) if module.has_variable(PROBES, name) else out
