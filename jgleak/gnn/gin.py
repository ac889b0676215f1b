"""Graph isomorphism network: ``Z = MLP((1 + eps) X_v + sum_{u in N(v)} X_u)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.activation import activation
from jgleak.gnn.convolution import Convolution, Stack, check_sizes
from jgleak.gnn.mix import mix
from jgleak.gnn.norm import Norm
from jgleak.gnn.tap import Tap, apply_kernel


class GINConv(Convolution):
    """GIN layer (Xu et al., ICLR 2019). The first MLP weight is linear, so it is applied before the sum.

    With ``bias`` all linear maps have one; the first is added after the sum.

    Attributes:
      epsilon: weight of the centre, fixed.
      inner: activation between the linear maps.
      widths: of the MLP's maps but the last; none given: one, as wide as the output.
      norm: normalisation between a linear map and the activation behind it; None: none.
      ends_active: the last map has the activation behind it too, before what the layer puts around the convolution.
    """

    kind: ClassVar[str] = "gin"

    epsilon: float = 0.0
    inner: str = "relu"
    widths: tuple[int, ...] = ()
    norm: Norm | None = None
    ends_active: bool = False

    @property
    def inside(self) -> tuple[int, ...]:
        """The widths of all maps but the last."""
        return self.widths or (self.features,)

    @property
    def combined_features(self) -> int:
        return self.inside[0]

    @property
    def inner_norms(self) -> tuple[tuple[str, Norm], ...]:
        return () if self.norm is None else tuple((f"norms_{place}", self.norm) for place, _ in enumerate(self.inside))

    @nn.nowrap
    def with_inner_norm(self, change: Callable[[Norm], Norm]) -> GINConv:
        return self if self.norm is None else self.clone(norm=change(self.norm))

    @nn.nowrap
    def maps_into(self, norm: str | None) -> tuple[tuple[str, ...], str]:
        if norm is None:
            return () if self.ends_active else ("out_kernel",), "bias"
        place = int(norm.removeprefix("norms_"))
        kernel, bias = self._names(place) if place else ("kernel", "inner_bias")
        return (kernel,), bias

    @property
    def taps(self) -> tuple[Tap, ...]:
        hidden = self._names(1)[0] if len(self.inside) > 1 else "out_kernel"
        return Tap(("kernel",), "own"), Tap(("kernel",), "mixed"), Tap((hidden,), "hidden")

    @classmethod
    def for_stack(cls, stack: Stack) -> GINConv:
        return cls(stack.features, stack.bias, inner=stack.act)

    @nn.nowrap
    def check(self) -> None:
        super().check()
        check_sizes(widths=self.inside)
        activation(self.inner)
        if self.norm is not None:
            self.norm.check()

    def setup(self) -> None:
        self.norms = [norm.clone(name=None, parent=None) for _, norm in self.inner_norms]

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        kernel = self._kernel("kernel", (rows.shape[-1], self.inside[0]))
        mapped = apply_kernel(self, "kernel", kernel, rows)
        return self._mapped((1.0 + self.epsilon) * mapped + mix(adjacency, mapped), mask)

    def _mapped(self, total: Float[Array, "N H"], mask: Bool[Array, " N"]) -> Float[Array, "N D"]:
        """The MLP behind its first kernel; makes its weights in ``__call__``."""
        self._offsets("inner_bias", width=self.inside[0])
        hidden = self._add_bias(total, name="inner_bias")
        for place, width in enumerate(self.inside):
            if place:
                name, offset = self._names(place)
                kernel = self._kernel(name, (hidden.shape[-1], width))
                self._offsets(offset, width=width)
                hidden = self._add_bias(apply_kernel(self, name, kernel, hidden), name=offset)
            hidden = activation(self.inner)(self.norms[place](hidden, mask) if self.norms else hidden)
        out_kernel = self._kernel("out_kernel", (hidden.shape[-1], self.features))
        self._offsets("bias")
        out = self._ended(apply_kernel(self, "out_kernel", out_kernel, hidden))
        return jnp.where(mask[:, None], out, 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        return rows @ self._weight("kernel")

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        return (1.0 + self.epsilon) * centre, projected

    def aggregate_terms(
        self,
        centre: Float[Array, " S"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T S"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " F"], Float[Array, "T F"]]:
        return self.star_terms(centre, centre_degree, rows, degrees)  # the sum is linear: with the kernel or without

    def star_combine(self, total: Float[Array, "A ... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        return self._add_bias(total[0], columns, "inner_bias")

    def star_hidden(self, combined: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        return activation(self.inner)(self.norms[0].columns(combined, columns) if self.norms else combined)

    def star_finish(self, combined: Float[Array, "... E"]) -> Float[Array, "... D"]:
        hidden = self._active(len(self.inside) - 1, self._inner(combined)[-1])
        return self._ended(hidden @ self._weight("out_kernel"))

    def entering_inner_norms(self, combined: Float[Array, " E"]) -> tuple[Float[Array, " _D"], ...]:
        return tuple(self._inner(combined)) if self.norms else ()

    def _inner(self, combined: Float[Array, "... E"]) -> list[Float[Array, "... _D"]]:
        """What leaves every map but the last, from what leaves the first."""
        rows = [combined]
        for place in range(1, len(self.inside)):
            name, offset = self._names(place)
            rows.append(self._add_bias(self._active(place - 1, rows[-1]) @ self._weight(name), name=offset))
        return rows

    def _active(self, place: int, rows: Float[Array, "... D"]) -> Float[Array, "... D"]:
        """All columns of what enters the map after map ``place``, from what leaves that one."""
        columns = jnp.arange(rows.shape[-1])
        return activation(self.inner)(self.norms[place].columns(rows, columns) if self.norms else rows)

    @nn.nowrap
    def _names(self, place: int) -> tuple[str, str]:
        """The weight and the bias of a map between the first and the last."""
        return f"inner_kernel_{place}", f"inner_bias_{place}"

    def _ended(self, out: Float[Array, "... D"]) -> Float[Array, "... D"]:
        out = self._add_bias(out)
        return activation(self.inner)(out) if self.ends_active else out
