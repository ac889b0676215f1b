"""What every graph convolution offers: the dense layer, and the same layer seen from one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.norm import Norm
from jgleak.gnn.precise import Precise
from jgleak.gnn.tap import Tap
from jgleak.reading import shortened

AnyArray = TypeVar("AnyArray", Array, np.ndarray)
"""An array of JAX or of NumPy; a result of the same library comes back."""


FAINT = 1e-6
"""A relaxed degree below this counts as none: its inverse square, in a derivative, would overflow."""


class Stack(NamedTuple):
    """What users chose for a stack of equal layers, where a convolution is made from its name.

    Attributes:
      features: width of the node rows.
      bias: give the convolutions a bias.
      act: activation, for one inside.
      heads: attention heads; None: the convolution's own number.
      edge_classes: number of edge classes; None: the convolution's own number, where it tells some apart.
    """

    features: int
    bias: bool
    act: str
    heads: int | None = None
    edge_classes: int | None = None


class Convolution(Precise):
    """Base of the convolutions; a subclass is one pure map from node rows to pre-activations.

    The width ``F`` of the rows that come in follows from them.

    Attributes:
      features: width ``D`` of the outgoing node rows.
      bias: add a bias to the output.

    Class attributes:
      kind: what users type.
      peels: the pre-activations are ``H W_own + (S H) W_mixed`` with ``S`` from ``mixing``, one of both or both: linear
        in the rows, so that linear algebra leads back to them.
      symmetric: ``S`` is symmetric, and every row passes it.
      trims: the first ``M`` rows of an adjacency are enough for the pre-activations of the first ``M`` nodes.
    """

    features: int
    bias: bool = False

    kind: ClassVar[str] = ""
    peels: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False
    trims: ClassVar[bool] = False

    @property
    def taps(self) -> tuple[Tap, ...]:
        """The linear maps inside, and which rows enter each.

        A map that comes before a linear mixing stands here twice: the mixed rows enter it as well. Where the mixing
        depends on the weights (attention) they do not.
        """
        raise NotImplementedError

    @property
    def edge_classes(self) -> int:
        """Number ``K`` of edge classes that it tells apart; 0: to it, edges are alike."""
        return 0

    @property
    def weighs_by_degree(self) -> bool:
        """True where the term that a neighbour adds depends on the neighbour's own degree."""
        return False

    @nn.nowrap
    def kernel(self, rows: str) -> str | None:
        """The name of the first kernel that such rows enter (``Tap.rows``), where there is one."""
        return next((tap.path[-1] for tap in self.taps if tap.rows == rows), None)

    @property
    def own_kernel(self) -> str | None:
        """The weight of rows that are never mixed, where there is one."""
        return own if (own := self.kernel("own")) != self.kernel("mixed") else None

    @property
    def combined_features(self) -> int:
        """Columns of what ``star_combine`` makes: the output's, or those of the hidden row, where a map is inside."""
        return self.features

    @property
    def inner_norms(self) -> tuple[tuple[str, Norm], ...]:
        """The normalisations inside, of which the first is that of the hidden row, by the names of their parameters."""
        return ()

    @nn.nowrap
    def with_inner_norm(self, change: Callable[[Norm], Norm]) -> Convolution:
        """The convolution with another normalisation inside, where it has one."""
        return self

    @nn.nowrap
    def maps_into(self, norm: str | None) -> tuple[tuple[str, ...], str]:
        """The kernels whose products add up to what enters a norm, and the name of the bias that is added to them.

        ``norm`` is one of ``inner_norms``; None: one behind the convolution. No kernels: something else enters it.
        """
        kernels = (self.own_kernel, self.kernel("mixed")) if self.peels else ()
        return tuple(name for name in kernels if name), "bias"

    @classmethod
    def for_stack(cls, stack: Stack) -> Convolution:
        """The convolution that ``kind`` stands for on the command line and in ``jgleak.gnn.standard``."""
        return cls(stack.features, stack.bias)

    @nn.nowrap
    def placed(self, last: bool) -> Convolution:
        """The same in a stack of equal layers, where the last one may differ."""
        return self

    @nn.nowrap
    def check(self) -> None:
        """Raise ``ValueError`` for an unknown name or an impossible size."""
        check_sizes(features=self.features)

    @nn.nowrap
    def mixing(self, adjacency: Float[AnyArray, "N N"], mask: Bool[AnyArray, " N"]) -> Float[AnyArray, "N N"]:
        """``S``, how much every row takes of every other, where that does not depend on weights.

        NumPy arrays give a NumPy array of their precision, without JAX.

        Raises:
          TypeError: the mixing depends on the weights.
        """
        raise TypeError("the mixing of this convolution depends on its weights")

    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        """Pre-activations of all nodes. ``adjacency`` may be relaxed (entries in [0, 1]); padding rows come out 0.

        It is ``(N, N, K)`` for a convolution that tells ``K`` edge classes apart. One that ``trims`` also takes
        ``(M, N)`` and a mask of ``M`` nodes.
        """
        raise NotImplementedError

    def sent(self, rows: Float[Array, "T F"], classes: Int[Array, " T"]) -> Float[Array, "T S"]:
        """Node rows with what neighbours along edges of the given classes see of them, before any weight."""
        return rows

    def own(self, sent: Float[Array, "... S"]) -> Float[Array, "... F"]:
        """The node rows in ``sent``'s result."""
        return sent

    def project(self, sent: Float[Array, "T S"]) -> Float[Array, "T P"]:
        """What the layer computes of a node on its own, before any mixing, from ``sent``'s result."""
        raise NotImplementedError

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        """A node seen from itself: its own term, and the term each possible neighbour would add.

        The pre-activation of a node is ``star_finish(star_combine(.))`` of the *sum* of its own term and its
        neighbours' terms, for every convolution here. So the embeddings of all candidate blocks around a centre are
        sums over one table. Degrees do not count the self-loop. Rows come in projected (``project``).
        """
        raise NotImplementedError

    def aggregate_terms(
        self,
        centre: Float[Array, " S"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T S"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " F"], Float[Array, "T F"]]:
        """As ``star_terms``, for the mixed row before any weight, from ``sent``'s rows."""
        raise NotImplementedError

    def star_select(self, terms: Float[Array, "T E"], columns: Int[Array, " C"]) -> Float[Array, "A T C"]:
        """What the ``columns`` of the pre-activation depend on: ``A`` numbers for every term and column."""
        return terms[None, :, columns]

    def star_combine(self, total: Float[Array, "A ... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        """Summed, selected terms to ``columns`` of the pre-activation (of the hidden one, where a map is inside)."""
        return self._add_bias(total[0], columns)

    def star_hidden(self, combined: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        """``columns`` of the hidden row that enters the map inside, from those of ``star_combine``'s result."""
        raise NotImplementedError

    def star_finish(self, combined: Float[Array, "... E"]) -> Float[Array, "... D"]:
        """All columns of ``star_combine``'s result to the pre-activation."""
        return combined

    def entering_inner_norms(self, combined: Float[Array, " E"]) -> tuple[Float[Array, " _D"], ...]:
        """The rows that enter ``inner_norms``, from ``star_combine``'s result."""
        return ()

    def _add_bias(
        self, z: Float[Array, "... C"], columns: Int[Array, " C"] | None = None, name: str = "bias"
    ) -> Float[Array, "... C"]:
        if not self.bias:
            return z
        offset = jnp.asarray(self._weight(name))
        return z + (offset if columns is None else offset[columns])

    def _kernel(self, name: str, shape: tuple[int, ...]) -> Float[Array | np.ndarray, "F D"]:
        """A weight, made in ``__call__``."""
        return self.param(name, nn.initializers.xavier_uniform(), shape)

    def _offsets(self, *names: str, width: int | None = None) -> None:
        """The biases, made in ``__call__`` where the layer has them; as wide as the output where nothing is said."""
        for name in names if self.bias else ():
            self.param(name, nn.initializers.zeros_init(), (width or self.features,))

    def _weight(self, name: str) -> Array | np.ndarray:
        """A weight that ``__call__`` made, of the kind that the parameters are."""
        return self.get_variable("params", name)


LARGEST = 2**31 - 1
"""Most that a size can be: XLA counts in 32 bits."""


def check_sizes(**sizes: int | tuple[int, ...]) -> None:
    """Raise ``ValueError`` for a size outside 1..``LARGEST``, or for an empty list of them, by its name."""
    for name, given in sizes.items():
        for size in (given,) if isinstance(given, int) else given or (0,):
            if size < 1:
                raise ValueError(f"{name}: must be at least 1, got {shortened(size)}")
            if size > LARGEST:
                raise ValueError(f"{name}: must be at most {LARGEST}, got {shortened(size)}")


def with_self_loops(adjacency: Float[AnyArray, "N N"], mask: Bool[AnyArray, " N"]) -> Float[AnyArray, "N N"]:
    """``A + I`` on the real nodes."""
    xp = adjacency.__array_namespace__()
    return adjacency + xp.diag(mask.astype(adjacency.dtype))
