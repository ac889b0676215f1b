"""What stands before the first layer: the node rows themselves, or a map of each of them."""

from __future__ import annotations

from typing import ClassVar

from flax import linen as nn
from jaxtyping import Array, Float

from jgleak.gnn.convolution import check_sizes
from jgleak.gnn.mlp import LinearMap
from jgleak.gnn.precise import Precise
from jgleak.gnn.tap import Tap


class Encoder(Precise):
    """Base of the encoders: ``H_0`` from the node rows ``X``, row by row.

    Class attributes:
      kind: what users type.
    """

    kind: ClassVar[str] = ""

    @nn.nowrap
    def check(self) -> None:
        """Raise ``ValueError`` for an impossible size."""

    @property
    def taps(self) -> tuple[Tap, ...]:
        """The linear maps that the rows enter; empty: the rows go on as they are."""
        return ()

    @nn.nowrap
    def width(self, in_features: int) -> int:
        """That of ``H_0``, from that of ``X``."""
        return in_features

    def __call__(self, rows: Float[Array, "N m"]) -> Float[Array, "N F"]:
        raise NotImplementedError


class Rows(Encoder):
    """``H_0 = X``."""

    kind: ClassVar[str] = "rows"

    def __call__(self, rows: Float[Array, "N m"]) -> Float[Array, "N m"]:
        return rows


class LinearEncoder(Encoder):
    """``H_0 = X W + b``.

    Of one-hot rows without a bias it is a sum of embeddings, one table a feature (OGB's atom encoder): the tables lie
    under each other in ``W``.

    Attributes:
      features: width ``F``.
      bias: add ``b``.
    """

    kind: ClassVar[str] = "linear"

    features: int
    bias: bool = True

    @nn.nowrap
    def check(self) -> None:
        check_sizes(features=self.features)

    @nn.nowrap
    def width(self, in_features: int) -> int:
        return self.features

    def setup(self) -> None:
        self.linear = LinearMap(self.features, self.bias)

    @property
    def taps(self) -> tuple[Tap, ...]:
        return (Tap(("linear", "kernel"), "own"),)

    def __call__(self, rows: Float[Array, "N m"]) -> Float[Array, "N F"]:
        return self.linear(rows)
