"""What facts are read from: an update beside the weights it belongs to, and how far it may be trusted to be linear."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from jgleak.attacks.facts.fact import Silent
from jgleak.attacks.noise import deviation
from jgleak.attacks.span.subspace import nonzero
from jgleak.features import FeatureSpace
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import at
from jgleak.precision import digits_of

UNBALANCED = 3e-5
"""Sums over a feature's columns that differ by more than this, relative to what is summed up, are not rounding."""

ALONG = 1e-3
"""Relative distance of a row from a multiple of its weights that rounding explains."""

UNSURE = 100.0
"""What lies within so many times its rounding error is neither zero nor something."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel that nodes' input rows enter, mixed with others' or not, and what came back in its place.

    Attributes:
      gradient: the update, one row a column of the input ``(m, D)``, float64.
      weights: the kernel ``(m, D)``.
      error: what rounding may have changed of an entry ``(m, D)``.
    """

    gradient: Float[np.ndarray, "m D"]
    weights: Float[np.ndarray, "m D"]
    error: Float[np.ndarray, "m D"]

    @cached_property
    def zero(self) -> Bool[np.ndarray, " m"]:
        """Rows that are exactly zero."""
        return ~np.any(self.gradient, axis=1)

    def decayed(self) -> list[float]:
        """Of every row that is a multiple of its weights and no more, the multiple."""
        size = np.linalg.norm(self.gradient, axis=1)
        squares = np.sum(self.weights**2, axis=1)
        usable = ~self.zero & (squares > 0)
        factor = np.where(usable, np.sum(self.gradient * self.weights, axis=1) / np.where(usable, squares, 1.0), 0.0)
        rest = np.linalg.norm(self.gradient - factor[:, None] * self.weights, axis=1)
        rounded = ALONG * size + np.linalg.norm(self.error, axis=1)
        return factor[usable & (rest <= np.minimum(rounded, size / 10))].tolist()


def input_places(model: GNN) -> tuple[tuple[str, ...], ...]:
    """Where in the parameters the kernels lie that every input row enters, mixed or not, before the readout.

    Of messages along edges of several classes, which pass an activation first, there are none.
    """
    if model.encoder.taps:
        places = [("encoder", *tap.path) for tap in model.encoder.taps]
    else:
        layer = model.layers[0]
        linear = ("own",) if layer.conv.edge_classes else ("own", "mixed")
        places = [("layers_0", *tap.path) for tap in layer.taps if tap.rows in linear]
    return tuple(dict.fromkeys(places))


@dataclasses.dataclass(frozen=True)
class Evidence:
    """An observation with what is public about it.

    Attributes:
      observation: what the server saw.
      space: the public feature space.
      noise: deviation of independent noise that was added to every entry; None: none was.
    """

    observation: Observation
    space: FeatureSpace
    noise: float | None = None

    def deviation(self, tensor: Float[np.ndarray, "*shape"]) -> float:
        """Of the noise on an entry of one of the update's tensors; 0 without noise."""
        return 0.0 if self.noise is None else deviation(self.observation, self.noise, tensor)

    @property
    def one_gradient(self) -> bool:
        """The update is a gradient (of the batch's mean loss) at the parameters that were sent."""
        seen = self.observation
        return seen.protocol == "fedsgd" or (seen.protocol == "fedavg" and seen.steps == 1 and not seen.adaptive)

    @property
    def normalised(self) -> bool:
        """Columns were moved by public means, so that an absent value is no zero."""
        return self.space.mean is not None

    @cached_property
    def precision(self) -> float:
        """Relative rounding of the update's entries, by its type or by the bits that are used."""
        return 0.5 ** digits_of(self.observation.update)

    def error(self, update: Float[np.ndarray, "..."], weights: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """What rounding may have changed of entries, about: of sums of products, and of weights before and after."""
        single = 2.0**-24
        local = self.observation.local
        moved = 0.0 if local is None else 2.0 * single * np.abs(weights) / local.length
        tiny = 2.0**-24 if self.precision > single else 0.0
        return max(self.precision, 4 * single) * np.abs(update) + moved + tiny

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every kernel that input rows enter; of their columns, each is a sum over nodes of input rows times factors.

        Convolutions whose messages pass an activation first have none.
        """
        model = self.observation.model
        trees = self.observation.update, self.observation.params
        found = [self.kernel(*(at(tree, place) for tree in trees)) for place in input_places(model)]
        if model.readout.sees_input:
            update, weights = (
                model.readout.first(model.readout_of(tree))["kernel"]
                for tree in (self.observation.update, self.observation.params)
            )
            whole = self.kernel(update, weights)
            rows = slice(0, model.in_features)
            found.append(Kernel(whole.gradient[rows], whole.weights[rows], whole.error[rows]))
        return tuple(found)

    def kernel(self, update: Params, weights: Params) -> Kernel:
        """A tensor of the update beside its weights, as matrices; gradients side by side stand beside each other."""
        seen, kept = np.asarray(update), np.asarray(weights, np.float64)
        if self.observation.gradients is not None:
            kept = np.broadcast_to(kept, seen.shape)
            seen, kept = np.moveaxis(seen, 0, 1), np.moveaxis(kept, 0, 1)  # so that rows lie together
        seen, kept = seen.astype(np.float64, "C").reshape(seen.shape[0], -1), kept.reshape(kept.shape[0], -1)
        return Kernel(seen, kept, self.error(seen, kept))

    @cached_property
    def still(self) -> bool:
        """Some row of a first kernel did not move, so that the update has no noise and no multiple of the weights."""
        moved = [kernel for kernel in self.kernels if not np.all(kernel.zero)]  # others are frozen, which shows nothing
        return any(np.any(kernel.zero & np.any(kernel.weights, axis=1)) for kernel in moved)

    @cached_property
    def looks_normalised(self) -> bool:
        """Columns were normalised, though the schema says nothing of it.

        Then the rows of a feature's absent values are one row times numbers, which rows of values that occur seldom
        are. They are under a nearly linear activation; but rows of raw columns' absent values are zero, and sums over
        features agree (``linear``).
        """
        onehots = [
            slice(start, start + feature.columns)
            for feature, start in zip(self.space.features, self.space.offsets, strict=True)
            if feature.kind == "onehot"
        ]
        absent = any(np.any(kernel.zero[columns]) for kernel in self.kernels for columns in onehots)
        if self.normalised or (self.linear and absent):
            return False
        alike = 0.99 if self.precision > 2.0**-24 else 0.999
        for columns in onehots:
            for kernel in self.kernels:
                rows = kernel.gradient[columns]
                size = np.linalg.norm(rows, axis=1)
                unit = rows[size > 0] / size[size > 0, None]
                parallel = np.sum(np.abs(unit @ unit.T) > alike, axis=1)
                if len(unit) and parallel.max() > max(2, len(unit) / 2):
                    return True
        return False

    @cached_property
    def decay(self) -> float | None:
        """The multiple of the weights in the update (weight decay), 0 for none; None: it cannot be told.

        A row that did not move shows that there is none. Rows that are multiples of their weights, all by one number,
        show it; so do the sums over columns (``balance``) of updates that are linear, and of these alone: of others
        what is nearest to their sums is a multiple too, of something else.
        """
        if self.still:
            return 0.0
        factors = [factor for kernel in self.kernels if kernel.gradient.shape[1] >= 8 for factor in kernel.decayed()]
        if len(factors) > 1:
            middle = float(np.median(factors))
            near = np.abs(np.array(factors) - middle) <= 0.01 * abs(middle)
            if near.mean() > 0.5:
                return middle
        return self.balance[0] if self.balance is not None and self.balance[1] else None

    @cached_property
    def linear(self) -> bool | None:
        """The update of first kernels is ``X^T M`` up to weight decay; None: the schema has no sums to tell by."""
        if self.observation.adaptive:
            return False
        return None if self.balance is None else self.balance[1]

    @property
    def altered(self) -> bool:
        """Weight decay is in the update, or its first rows are not a gradient's, and it may be."""
        return self.linear is False if self.decay is None else self.decay != 0.0

    @property
    def unbalanced(self) -> bool:
        """First kernels' update is not ``X^T M`` with rows ``X`` of this schema, for no reason (Adam, noise, masks) of
        which the file speaks."""
        seen = self.observation
        if seen.adaptive or self.noise is not None or self.looks_normalised or seen.model.masks_input:
            return False
        return self.linear is False

    @property
    def rounded(self) -> bool:
        """Something beside a plain gradient shows, so that a zero may be what quantisation left of an entry."""
        return self.linear is not True or self.precision > 2.0**-24

    @cached_property
    def balance(self) -> tuple[float, bool] | None:
        """Weight decay, and whether the sums over features' columns agree after it is taken off.

        Every node has one value of each feature, so the columns of a one-hot feature add up to the same for all
        features (to zero, where columns are normalised), and so do the rows of ``X^T M``. Adam, signs, noise, pruning
        and quantisation break that, and a multiple of the weights is found and taken off.
        """
        sums = self._sums()
        if sums is None or not self.kernels:
            return None
        gaps, pulls, sizes, errors = [], [], [], []
        for kernel in self.kernels:
            gaps.append((sums @ kernel.gradient).ravel())
            pulls.append((sums @ kernel.weights).ravel())
            sizes.append(float(np.linalg.norm(np.abs(sums) @ np.abs(kernel.gradient))))
            errors.append(float(np.linalg.norm(np.abs(sums) @ kernel.error)))
        gap, pull, size = np.concatenate(gaps), np.concatenate(pulls), float(np.linalg.norm(sizes))
        if size == 0.0:
            return None
        rounding = max(UNBALANCED * size, float(np.linalg.norm(errors)))
        if float(np.linalg.norm(gap)) <= 0.1 * rounding or self.still:
            return 0.0, float(np.linalg.norm(gap)) <= rounding
        factor = float(gap @ pull / max(float(pull @ pull), 1e-300))
        return factor, float(np.linalg.norm(gap - factor * pull)) <= rounding

    def _sums(self) -> Float[np.ndarray, "s m"] | None:
        """What must be zero of every linear update's rows: one row an equation; None: there is none."""
        space, rows = self.space, list[np.ndarray]()
        for feature, start in zip(space.features, space.offsets, strict=True):
            if feature.kind != "onehot":
                continue
            columns, row = np.arange(start, start + feature.columns), np.zeros(space.width)
            if space.mean is None or space.std is None:
                row[columns] = 1.0
            else:
                live = columns[space.std[columns] > 0]
                if not live.size or abs(float(space.mean[live].sum()) - 1.0) > 1e-9:
                    continue
                row[live] = space.std[live]
            rows.append(row)
        if not self.normalised:
            rows = [row - rows[0] for row in rows[1:]]
        return np.stack(rows) if rows else None

    def undecayed(self, kernel: Kernel) -> Kernel:
        """The kernel's update without the multiple of its weights.

        Raises:
          Silent: it is not known.
        """
        if self.decay is None:
            raise Silent("weight decay may be in the update, and nothing shows how much")
        gradient = kernel.gradient - self.decay * kernel.weights
        if self.decay:
            small = np.linalg.norm(gradient, axis=1) <= 4.0 * np.linalg.norm(kernel.error, axis=1)
            gradient[small & (not self.normalised)] = 0.0  # what is left of rows that did nothing but decay
        return dataclasses.replace(kernel, gradient=gradient)

    def linear_rows(self) -> Float[np.ndarray, "m D"]:
        """First kernels' updates side by side, each of size 1: their columns lie in the span of the input rows.

        Raises:
          Silent: the update is not linear in the input rows, or may not be.
        """
        if self.observation.pruned:
            raise Silent("entries of the update were left out, so that its rank is not the gradient's")
        if not self.kernels:
            raise Silent("no linear map takes the nodes' input rows")
        if self.observation.adaptive or (self.linear is False and self.noise is None):
            raise Silent(
                "the rows of the first kernels do not add up as a gradient's do: the feature schema is wrong, or an "
                "adaptive optimiser, noise, pruning or quantisation changed them"
            )
        kernels = [self.undecayed(kernel) for kernel in self.kernels] if self.noise is None else self.kernels
        if self.noise is not None:  # its size is known in these units
            return np.hstack([kernel.gradient for kernel in kernels])
        sizes = [max(float(np.linalg.norm(kernel.gradient)), 1e-300) for kernel in kernels]
        return np.hstack([kernel.gradient / size for kernel, size in zip(kernels, sizes, strict=True)])

    @property
    def relations(self) -> int:
        """How many independent sums over features' columns vanish in a linear update's rows."""
        sums = self._sums()
        return 0 if sums is None else sums.shape[0]

    def rank_at_least(self, matrix: Float[np.ndarray, "d D"], error: Float[np.ndarray, "d D"]) -> int:
        """Rank that a matrix certainly has: singular values above all that rounding or noise has (Weyl).

        Args:
          matrix: as it came.
          error: what rounding may have changed of each entry.
        """
        values = np.linalg.svd(matrix[np.ix_(*nonzero(matrix))], compute_uv=False)
        changed = float(np.linalg.norm(error)) + 1e-5 * float(np.max(values, initial=0.0))
        if self.noise is not None:
            changed += self.deviation(matrix) * (float(np.sqrt(matrix.shape[0]) + np.sqrt(matrix.shape[1])) + 5.0)
        return int(np.sum(values > changed))
