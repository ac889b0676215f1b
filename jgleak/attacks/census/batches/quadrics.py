"""The vectors of single graphs in closed form: they are the common zeros of one quadric a unit.

At every unit ``u`` the entry of a graph's ``d`` is 0 or ``W_u s``: so ``d_u (d_u - W_u s) = 0``. With ``d`` in the row
space, of dimension ``r``, that is one quadratic form in the coordinates ``x`` of ``d`` and in ``s``. A form is a linear
equation for the products ``z_i z_j`` of ``z = (x, s)``, and the products of the ``r`` graphs span its solutions as soon
as there are enough units. Forms times coordinates are equations for products of three, of which there are more than
unknowns even where forms are not enough. The solutions are then spanned by symmetric tensors of rank at most ``r`` that
share their factors: two of their combinations are diagonal in the same basis, and that basis is the graphs' ``x``
(simultaneous diagonalisation; Jennrich's argument, Harshman 1970). The work grows as a power of ``r``; trying every
pattern of lit and dark units grows exponentially (``patterns``).

At units that are lit for all graphs ``d_u = W_u s``: ``c`` of them give ``s`` from ``x``, and the others confirm it
(``lit_by_all``).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy import linalg, sparse

from jgleak.attacks.attack import Clock

DIRECTIONS = 3
"""Most dimensions of ``s`` for which units that are lit for all graphs are searched,"""

DRAWS = 1_000
"""how many choices of units are drawn,"""

AGREES = 1e-3
"""how far an entry may be from what they say, relative to the unit's row,"""

WORST = 50.0
"""the largest condition number of their weights,"""

ENOUGH = 3
"""and how many others have to confirm a choice."""

UNKNOWN = 4_500
"""Most products that are solved for: a symmetric eigenproblem of that size."""

GAP = 100.0
"""How much the first singular value that is not zero exceeds the others, at least."""


def vectors(
    rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], clock: Clock
) -> Float[np.ndarray, "k r"]:
    """Coordinates of the graphs' vectors, up to rounding and length; none where units are too few or too alike.

    Args:
      rows: the row space at every unit, in coordinates that are the entries at the first ``r``.
      outgoing: ``W``, in units of its length.
      clock: no further degree is tried when it has run out.
    """
    rank, common = rows.shape[1], lit_by_all(rows, outgoing, AGREES)
    if common is None:
        forms = np.c_[rows, np.zeros_like(outgoing)], np.c_[rows, -outgoing]
    else:
        rest = rows - outgoing @ common
        told = np.linalg.norm(rest, axis=1) > AGREES * np.linalg.norm(rows, axis=1)
        forms = rows[told], rest[told]
    for degree in (2, 3):
        spanned = _spanned(forms, rank, degree) if clock.left > 0 else None
        if spanned is not None:
            return _shared(spanned)
    return np.zeros((0, rank))


def lit_by_all(
    rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], agrees: float
) -> Float[np.ndarray, "c r"] | None:
    """The map from ``x`` to ``s`` that most units confirm up to ``agrees``, as those do that all graphs light; None
    where no few units do, or ``s`` has too many dimensions."""
    units, size = outgoing.shape
    if size > DIRECTIONS:
        return None
    rng, length = np.random.default_rng(0), np.linalg.norm(rows, axis=1)
    drawn = rng.permuted(np.tile(np.arange(units), (DRAWS, 1)), axis=1)[:, :size]
    best, most = None, size + ENOUGH - 1
    for chosen in drawn:
        if np.linalg.cond(outgoing[chosen]) > WORST:
            continue
        told = np.linalg.solve(outgoing[chosen], rows[chosen])
        agree = np.linalg.norm(rows - outgoing @ told, axis=1) <= agrees * length
        if agree.sum() > most:
            best, most = agree, int(agree.sum())
    return None if best is None else np.linalg.lstsq(outgoing[best], rows[best], rcond=None)[0]


def _spanned(
    forms: tuple[Float[np.ndarray, "U d"], Float[np.ndarray, "U d"]], rank: int, degree: int
) -> Float[np.ndarray, "r r r"] | None:
    """What spans the solutions, in products of two coordinates ``x``; those of three times some vector. None where the
    equations leave more than ``rank`` dimensions, or too many products are unknown."""
    units, wide = forms[0].shape
    products = np.sort(np.indices((wide,) * degree).reshape(degree, -1), axis=0)
    some = products[0] < rank  # no equation has a product of ``s`` alone
    names = np.ravel_multi_index(tuple(products), (wide,) * degree)
    unknown, inverse = np.unique(np.asarray(names)[some], return_inverse=True)
    number, equations = unknown.size, units * wide ** (degree - 2)
    if not rank < number <= min(UNKNOWN, equations + rank):
        return None
    place = np.full(some.size, -1)
    place[some] = inverse
    pairs = np.einsum("ui,uj->uij", *forms)
    pairs = (pairs / np.linalg.norm(pairs, axis=(1, 2), keepdims=True)).reshape(units, -1)
    gram = np.zeros((number, number))
    for at in place.reshape(wide**2, -1).T:  # of every pair of coordinates its product with one more, where degree is 3
        used = np.flatnonzero(at >= 0)
        chosen = sparse.csr_array((np.ones(used.size), (used, at[used])), (wide**2, number))
        own = pairs @ chosen
        gram += own.T @ own
    # eigenvalues of the Gram matrix are the equations' singular values squared, hence the squared gap
    squares, null = linalg.eigh(gram, subset_by_index=(0, rank))
    if squares[rank] <= GAP**2 * max(squares[rank - 1], np.finfo(float).eps * float(np.trace(gram))):
        return None
    inside = place.reshape((wide,) * degree)[(slice(rank),) * degree]
    tensors = np.moveaxis(null[inside, :rank], -1, 0)
    return tensors if degree == 2 else tensors @ np.random.default_rng(1).normal(size=rank)


def _shared(tensors: Float[np.ndarray, "r r r"]) -> Float[np.ndarray, "r r"]:
    """The vectors whose squares all these symmetric matrices are combinations of."""
    rng = np.random.default_rng(0)
    one, other = (np.tensordot(rng.normal(size=len(tensors)), tensors, 1) for _ in range(2))
    # Both are X D X^T with diagonal D. Where one v = t other v, X^T v has a single entry, and so other v is along that
    # column of X.
    return np.real(other @ linalg.eig(one, other)[1]).T
