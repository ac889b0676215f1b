"""One span check, prepared for speed: a few coordinates that decide most rejections, then the whole row."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg, special

from jgleak.attacks.span.leak_points import LeakPoint, View
from jgleak.attacks.span.settings import TOLERANCES, SpanTolerances
from jgleak.attacks.span.subspace import Subspace

CHOICES = ((6, 2), (6, 4), (16, 4), (16, 8), (32, 8), (64, 8), (96, 8))
"""Coordinates of the cheap check beside the pivots, and null vectors on them, the cheapest first. The first choice that
rejects enough is taken. A row that is off on all coordinates may pass by accident. They are compiled shapes."""


@dataclasses.dataclass(frozen=True)
class SpanCheck:
    """A subspace and its sparse null vectors.

    A row is ``[fixed | row]``: ``fixed`` is known from the block's centre (the readout sees ``X`` there, a convolution
    sees nothing), ``row`` is what the layer makes of the candidate. Restricted to ``r + s`` coordinates the space keeps
    ``s`` independent null vectors, of which a few reject most candidates from ``r + s`` numbers instead of ``d``.

    The cheap check never rejects a row that the full one accepts: a row ``x = B c + e`` with ``|e| <= tol |x|`` leaves
    a residual of at most ``tol |x|`` on orthonormal null vectors, and ``|x| <= reach |x_chosen|`` where ``reach`` is
    the inverse of the smallest singular value of the basis on the chosen coordinates. In particular a row that is zero
    on them is zero everywhere, and a row of zeros is never accepted.

    Under noise this is a second test at the same rate. A true row leaves a residual on the null vectors that is normal
    with the row's own variance (see ``Subspace``), and that is bounded by the chosen coordinates
    (``NoiseMargin.bound``). Where they bound nothing, everything passes and is confirmed in full.

    Attributes:
      subspace: the span, in scaled coordinates.
      view: which row of a candidate is checked.
      fixed: width of the fixed part.
      columns: the chosen columns of the row ``(C,)``.
      row_scale: what turns the chosen columns of a raw row into scaled ones ``(C,)``.
      row_null: null vectors on those columns ``(C, s)``.
      fixed_scale: the same for the fixed part, 0 where a column was not chosen ``(fixed,)``.
      fixed_null: null vectors on the fixed part ``(fixed, s)``, 0 where a column was not chosen.
      bound: largest residual of an accepted row, relative to the row's chosen coordinates.
    """

    subspace: Subspace
    view: View
    fixed: int
    columns: Int[np.ndarray, " C"]
    row_scale: Float[np.ndarray, " C"]
    row_null: Float[np.ndarray, "C s"]
    fixed_scale: Float[np.ndarray, " fixed"]
    fixed_null: Float[np.ndarray, "fixed s"]
    bound: float

    @staticmethod
    def at(
        site: LeakPoint,
        *,
        most: int | None = None,
        noise: float | None = None,
        tolerances: SpanTolerances = TOLERANCES,
        place: int = 0,
    ) -> SpanCheck | None:
        """The check of one place in the model, or None where its span carries no information (arguments as for
        ``Subspace.of_gradient``)."""
        subspace = Subspace.of_gradient(site.gradient, most=most, noise=noise, tolerances=tolerances, place=place)
        return SpanCheck.of(subspace, view=site.view, fixed=site.fixed) if subspace.informative else None

    @staticmethod
    def of(subspace: Subspace, *, view: View = "state", fixed: int = 0) -> SpanCheck:
        """Choose coordinates, and as few of their null vectors as reject enough."""
        chosen, null, bound = _cheapest(subspace, fixed)
        vectors = null.shape[1]
        inverse = 1.0 / subspace.scale[chosen]
        on_row = chosen >= fixed
        fixed_null, fixed_scale = np.zeros((fixed, vectors)), np.zeros(fixed)
        fixed_null[chosen[~on_row]], fixed_scale[chosen[~on_row]] = null[~on_row], inverse[~on_row]
        return SpanCheck(
            subspace=subspace,
            view=view,
            fixed=fixed,
            columns=chosen[on_row] - fixed,
            row_scale=inverse[on_row],
            row_null=null[on_row],
            fixed_scale=fixed_scale,
            fixed_null=fixed_null,
            bound=bound,
        )

    def loosened(self, factor: float) -> SpanCheck:
        """The same check with a margin ``factor`` times as wide."""
        subspace = dataclasses.replace(self.subspace, margin=self.subspace.margin.loosened(factor))
        return SpanCheck.of(subspace, view=self.view, fixed=self.fixed)

    def distances(self, fixed: Float[np.ndarray, "k fixed"], rows: Float[np.ndarray, "k D"]) -> Float[np.ndarray, " k"]:
        """Relative distance of whole rows from the span, in float64."""
        return self.subspace.distances(np.concatenate([fixed, rows], axis=1))


def _cheapest(subspace: Subspace, fixed: int) -> tuple[Int[np.ndarray, " C"], Float[np.ndarray, "C s"], float]:
    """What ``sparse_null`` returns for the first of ``CHOICES`` that rejects enough, or for the one that rejects most.

    Of a vector without meaning, as likely in any direction, ``s`` of ``C`` coordinates hold a share of the squared
    length that is distributed as Beta(s / 2, (C - s) / 2).
    """
    tried, passing = [], list[float]()
    for extra, vectors in CHOICES:
        chosen, null, bound = sparse_null(subspace, fixed=fixed, extra=extra, vectors=vectors)
        free = min(vectors, chosen.size - subspace.rank)
        share = special.betainc(0.5 * free, 0.5 * (chosen.size - free), min(bound, 1.0) ** 2) if free else 1.0
        tried.append((chosen, null, bound))
        passing.append(float(share))
        if share <= subspace.margin.tolerances.chance_rate:
            break
    return tried[int(np.argmin(passing))]


def sparse_null(
    subspace: Subspace, *, fixed: int, extra: int, vectors: int
) -> tuple[Int[np.ndarray, " C"], Float[np.ndarray, "C s"], float]:
    """Coordinates of a subspace and a few of its null vectors on them.

    Pivoted QR picks ``r`` that fix a row; ``extra`` others are drawn at random from the live ones. (The largest ones
    would not do: they repeat the direction of one rare, huge row, and leave some pivots free of any relation.) The null
    vectors are a random basis of the null space, so that each involves every coordinate.

    Returns:
      The coordinates, orthonormal null vectors on them (columns of zeros where there are fewer), and the largest
      residual of a row within the subspace's tolerance, relative to the row's chosen coordinates.
    """
    rng, rank, tolerances = np.random.default_rng(0), subspace.rank, subspace.margin.tolerances
    pivots = linalg.qr(subspace.basis.T, mode="r", pivoting=True)[-1][:rank]
    rest = rng.permutation(np.setdiff1d(np.arange(fixed, subspace.ambient), pivots))
    size = np.linalg.norm(subspace.basis, axis=1)
    live = size[size > tolerances.dead_unit * size.max()]
    others = rest[np.argsort(size[rest] < tolerances.live_unit * np.median(live), kind="stable")][:extra]
    chosen = np.sort(np.r_[pivots, others])
    left, values, _ = np.linalg.svd(subspace.basis[chosen])
    free = left[:, rank:]
    turn = np.linalg.qr(rng.normal(size=(free.shape[1], free.shape[1])))[0]
    null = np.zeros((chosen.size, vectors))
    null[:, : free.shape[1]] = (free @ turn)[:, :vectors]
    return chosen, null, subspace.margin.bound(subspace.basis[chosen], values[:rank], vectors)
