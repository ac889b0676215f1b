"""What numbers of few binary digits leave out: the noise of updates that came in 16 bits."""

from __future__ import annotations

import math
from functools import reduce
from operator import or_

import jax
import numpy as np
from jaxtyping import Float, PyTree

DIGITS = {"float16": 11, "bfloat16": 8}
"""Binary digits of the types of 16 bits."""

TINY = {"float16": 2.0**-24 / 12.0**0.5, "bfloat16": 0.0}
"""Deviation of the rounding of numbers too small for all digits, whose spacing is 2^-24 in float16. Those of bfloat16
are too small to matter."""

SINGLE = 24
"""Those of 32 bits, and here of everything longer."""

COMPUTED = 4.0
"""How many times its own rounding a gradient is off that was computed in such numbers, since every operation rounds.

Of 48 gradients that PyTorch Geometric's GCN and GIN (widths 64 and 128, eight molecules) computed in 16 bits on a CPU,
the error of the tensor in which it is largest was 0.1 to 5.4 times the rounding, 1.1 in the median, below 4 in 47.
``benchmarks.studies.half_precision`` measures it for GRAIN's model, and what the attack makes of other factors."""


def digits_of(tree: PyTree) -> int:
    """Binary digits of the numbers in a tree that are not zero, by their type, or by the bits of 32 that are used."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    short = [DIGITS[leaf.dtype.name] for leaf in leaves if leaf.dtype.name in DIGITS and np.any(leaf)]
    if short:
        return min(short)
    with np.errstate(over="ignore"):  # of what is too large for 32 bits no bits are looked at
        bits = [leaf.astype(np.float32, copy=False).view(np.uint32) for leaf in leaves]
    used = reduce(or_, (int(np.bitwise_or.reduce(part, axis=None)) for part in bits), 0)
    return next((digits for digits in sorted(DIGITS.values()) if not used & (2 ** (SINGLE - digits) - 1)), SINGLE)


def rounding(tree: PyTree, digits: int) -> float:
    """Root mean square error of rounding to so many binary digits, uniform within half a unit of the last one, in the
    tensor where it is largest."""

    def one(leaf: Float[np.ndarray, "..."]) -> float:
        halves = np.where(leaf == 0, 0.0, np.ldexp(1.0, np.frexp(leaf)[1] - 1 - digits))
        return float(np.sqrt(np.mean(halves**2) / 3.0))

    return max(one(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(tree))


def rounding_of(name: str) -> float:
    """Root mean square error of rounding to a type of 16 bits, at most, relative to what is rounded.

    Raises:
      ValueError: another type.
    """
    if name not in DIGITS:
        raise ValueError(f"rounded_to: expected one of {', '.join(DIGITS)}, got {name!r}")
    return 2.0 ** -DIGITS[name] / 3.0**0.5


def rounds_to(name: str, rounding: float | None) -> bool:
    """Whether a relative error is that of rounding to a type."""
    return rounding is not None and math.isclose(rounding, rounding_of(name), rel_tol=1e-3)


def smallest_noise(rounding: float) -> float:
    """Deviation that rounding leaves of the smallest numbers, from its relative error; 0 of an unknown type."""
    return next((TINY[name] for name in DIGITS if rounds_to(name, rounding)), 0.0)


def computed_noise(update: PyTree) -> float | None:
    """Deviation of the noise in an update of a client that computes in 16 bits, which its numbers show.

    Sums that nearly cancel are off by far more than their own rounding, so that this is one number for all entries, of
    the tensor where the rounding is largest (``rounding_of``: of a client that computes in more).
    None: they have more bits, or are all zero.
    """
    digits = digits_of(update)
    return None if digits == SINGLE else COMPUTED * rounding(update, digits) or None
