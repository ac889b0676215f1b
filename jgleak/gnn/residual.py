"""What passes a layer by: nothing, a node's own row, or a linear map of it."""

from __future__ import annotations

from typing import ClassVar

from flax import linen as nn
from jaxtyping import Array, Float

from jgleak.gnn.mlp import LinearMap
from jgleak.gnn.precise import Precise
from jgleak.gnn.tap import Tap


class Residual(Precise):
    """Base of the residuals: what of a node's incoming row is added to the layer's outcome.

    Class attributes:
      kind: what users type.
    """

    kind: ClassVar[str] = ""

    @property
    def taps(self) -> tuple[Tap, ...]:
        """The linear maps that the nodes' own rows enter."""
        return ()

    def fits(self, entering: int, features: int) -> bool:
        """It can stand around a layer with rows of these widths before and after."""
        return True

    def __call__(self, rows: Float[Array, "N F"], features: int) -> Float[Array, "N D"]:
        """What is added to a layer's outcome of ``features`` columns."""
        raise NotImplementedError


class AddedRow(Residual):
    """``H' = layer(H) + H``; both are of one width."""

    kind: ClassVar[str] = "add"

    def fits(self, entering: int, features: int) -> bool:
        return entering == features

    def __call__(self, rows: Float[Array, "N F"], features: int) -> Float[Array, "N D"]:
        if not self.fits(rows.shape[-1], features):
            raise ValueError(
                f"residual: 'add' needs a layer as wide as what enters it, {rows.shape[-1]}, not {features}; "
                "change the width, or take 'linear'"
            )
        return rows


class LinearResidual(Residual):
    """``H' = layer(H) + H W + b``.

    Attributes:
      bias: add ``b``.
    """

    kind: ClassVar[str] = "linear"

    bias: bool = True

    @property
    def taps(self) -> tuple[Tap, ...]:
        return (Tap(("linear", "kernel"), "own"),)

    @nn.compact
    def __call__(self, rows: Float[Array, "N F"], features: int) -> Float[Array, "N D"]:
        return LinearMap(features, self.bias, name="linear")(rows)
