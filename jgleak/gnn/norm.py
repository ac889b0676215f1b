"""Normalisations of a layer's pre-activations, of all nodes and of one."""

from __future__ import annotations

from typing import ClassVar, Literal

import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.precise import Precise

EPSILON = 1e-5
"""Added to variances, as in the papers' framework."""

STATISTICS = "statistics"
"""Collection in which norms leave the batch's ``mean`` and unbiased ``variance`` when it is mutable."""


class Norm(Precise):
    """Base of the normalisations: a map of the nodes' rows.

    Attributes:
      epsilon: added to the variance.

    Class attributes:
      kind: what users type.
      columnwise: a column of the outcome depends on the same column of the row alone.
      statistics: of its parameters those that no gradient trains.
    """

    epsilon: float = EPSILON

    kind: ClassVar[str] = ""
    columnwise: ClassVar[bool] = False
    statistics: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def in_mode(cls, training: bool) -> Norm:
        """The norm that ``kind`` stands for on the command line; most do the same in both modes."""
        return cls()

    @property
    def of_nodes(self) -> Literal["one", "all"]:
        """Whose rows the outcome of a node depends on."""
        return "one"

    @property
    def returns_statistics(self) -> bool:
        """Training moves its statistics, which the client returns beside the update."""
        return False

    @nn.nowrap
    def check(self) -> None:
        """Raise ``ValueError`` for an impossible number."""

    def __call__(self, rows: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, "N D"]:
        """All nodes' rows; those of padding may be anything."""
        raise NotImplementedError

    def columns(self, rows: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        """The given columns of single nodes' rows; all of them, where the norm is not ``columnwise``.

        Raises:
          TypeError: the outcome depends on all nodes.
        """
        raise TypeError(f"what the norm {self.kind!r} makes of a row here depends on all nodes")

    def _scaled(self, rows: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        scale, bias = (jnp.asarray(self.get_variable("params", name))[columns] for name in ("scale", "bias"))
        return rows * scale + bias

    def _affine(self, width: int) -> Int[Array, " D"]:
        """The trained scale and offset, made in ``__call__``; all columns."""
        self.param("scale", nn.initializers.ones_init(), (width,))
        self.param("bias", nn.initializers.zeros_init(), (width,))
        return jnp.arange(width)


class LayerNorm(Norm):
    """Every row is normalised to mean 0 and variance 1 over its columns, then scaled and shifted (Ba et al., 2016)."""

    kind: ClassVar[str] = "layer"

    @nn.compact
    def __call__(self, rows: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, "N D"]:
        return self.columns(rows, self._affine(rows.shape[-1]))

    def columns(self, rows: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        variance = jnp.square(centred).mean(axis=-1, keepdims=True)
        return self._scaled(centred * lax.rsqrt(variance + self.epsilon), columns)


class BatchNorm(Norm):
    """Every column is normalised by a mean and a variance, then scaled and shifted (Ioffe and Szegedy, 2015).

    In evaluation mode these are running statistics, which lie beside the parameters as ``mean`` and ``variance``. No
    gradient reaches them: an update has zeros in their places. In training mode they are the mean and the biased
    variance over all nodes of the batch, and the client returns running statistics that have moved towards them
    (``jgleak.federated.statistics``).

    Attributes:
      training: training mode.
      momentum: share of the batch's statistics in the running ones after a step in training mode.
    """

    kind: ClassVar[str] = "batch"
    columnwise: ClassVar[bool] = True
    statistics: ClassVar[tuple[str, ...]] = ("mean", "variance")

    training: bool = False
    momentum: float = 0.1

    @classmethod
    def in_mode(cls, training: bool) -> BatchNorm:
        return cls(training=training)

    @property
    def of_nodes(self) -> Literal["one", "all"]:
        return "all" if self.training else "one"

    @property
    def returns_statistics(self) -> bool:
        return self.training

    @nn.nowrap
    def check(self) -> None:
        if not 0 < self.momentum <= 1:
            raise ValueError(f"momentum: expected a share above 0 and up to 1, got {self.momentum}")

    @nn.compact
    def __call__(self, rows: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, "N D"]:
        width = rows.shape[-1]
        self.param("mean", nn.initializers.zeros_init(), (width,))
        self.param("variance", nn.initializers.ones_init(), (width,))
        columns = self._affine(width)
        if not self.training:
            return self.columns(rows, columns)
        nodes, mean, variance = _over_nodes(rows, mask)
        for name, value in (("mean", mean), ("variance", variance * nodes / jnp.maximum(nodes - 1.0, 1.0))):
            self.sow(STATISTICS, name, value, init_fn=lambda value=value: value, reduce_fn=lambda _, now: now)
        return self._scaled((rows - mean) * lax.rsqrt(variance + self.epsilon), columns)

    def columns(self, rows: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        if self.training:
            return super().columns(rows, columns)
        statistics = (self.get_variable("params", name) for name in ("mean", "variance"))
        mean, variance = (lax.stop_gradient(jnp.asarray(one))[columns] for one in statistics)
        return self._scaled((rows - mean) * lax.rsqrt(variance + self.epsilon), columns)


class GraphNorm(Norm):
    """From every column a trained share of its mean over the graph's nodes is subtracted; the rest is divided by its
    root mean square over them, scaled and shifted (Cai et al., ICML 2021). Each graph of a batch has its own
    statistics."""

    kind: ClassVar[str] = "graph"

    @property
    def of_nodes(self) -> Literal["one", "all"]:
        return "all"

    @nn.compact
    def __call__(self, rows: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, "N D"]:
        columns = self._affine(rows.shape[-1])
        _, mean, _ = _over_nodes(rows, mask)
        centred = rows - self.param("share", nn.initializers.ones_init(), (rows.shape[-1],)) * mean
        _, _, square = _over_nodes(centred, mask, around=0.0)
        return self._scaled(centred * lax.rsqrt(square + self.epsilon), columns)


def _over_nodes(
    rows: Float[Array, "N D"], mask: Bool[Array, " N"], around: float | None = None
) -> tuple[Float[Array, ""], Float[Array, " D"], Float[Array, " D"]]:
    """The number of nodes, every column's mean over them, and its mean square from there (or from elsewhere)."""
    weight = mask.astype(rows.dtype)
    nodes = weight.sum()
    mean = weight @ rows / nodes
    return nodes, mean, weight @ jnp.square(rows - (mean if around is None else around)) / nodes
