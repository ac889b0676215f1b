"""Real numbers as plaintexts of a homomorphic scheme: fixed point, and many to a plaintext."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

WIDEST = 62
"""Bits of a slot, so that every sum fits ``int64``."""


@dataclass(frozen=True)
class FixedPoint:
    """Numbers ``v`` with ``|v| <= bound`` as whole ``round(2^fraction v)``, ``s`` of them in one plaintext.

    A plaintext is ``sum_i v_i 2^(w i)`` with signed ``v_i``: sums of plaintexts are sums of every slot, as long as none
    leaves ``-2^(w-1) .. 2^(w-1) - 1``. The slot's width ``w`` holds ``addends`` numbers of the largest size, so sums
    within both limits are exact, and differ from the sum of the ``v`` by at most half a ``step`` an addend.

    Attributes:
      bound: the largest absolute value; what a client clips to.
      fraction: bits behind the point.
      addends: how many clients may be summed.

    Raises:
      ValueError: limits that are not positive, or that need slots of more than 62 bits.
    """

    bound: float = 1.0
    fraction: int = 24
    addends: int = 128

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0 and self.addends >= 1 and self.fraction >= 0):
            raise ValueError(f"fixed point: {self} is empty; bound and addends must be positive, fraction at least 0")
        if self.limit < 1:
            raise ValueError(
                f"fixed point: bound {self.bound} is below half a step; give more bits than {self.fraction}"
            )
        if self.width > WIDEST:
            raise ValueError(
                f"fixed point: {self} needs {self.width} bits a number, of {WIDEST}; lower one of the three"
            )

    @property
    def step(self) -> float:
        """The distance between neighbouring numbers."""
        return 2.0**-self.fraction

    @property
    def limit(self) -> int:
        """The largest whole number of one client."""
        return round(self.bound * 2**self.fraction)

    @property
    def width(self) -> int:
        """Bits of a slot, ``w``."""
        return (self.addends * self.limit).bit_length() + 1

    def slots(self, bits: int) -> int:
        """Numbers in a plaintext below half a modulus of ``bits`` bits."""
        if bits <= self.width:
            raise ValueError(f"fixed point: a key of {bits} bits holds no number of {self.width}; use a longer key")
        return (bits - 1) // self.width

    def encode(self, values: Float[np.ndarray, "*shape"]) -> Int64[np.ndarray, "*shape"]:
        """Whole numbers, rounded to nearest.

        Raises:
          ValueError: a value above ``bound``, or one that is not finite.
        """
        values = np.asarray(values, np.float64)
        largest = np.abs(values).max(initial=0.0)
        if not largest <= self.bound:
            raise ValueError(
                f"gradients: the largest entry is {largest:g}, above the fixed-point bound {self.bound:g}, so a sum "
                "could overflow; clip to the bound, or give FixedPoint a larger one"
            )
        return np.rint(values * 2.0**self.fraction).astype(np.int64)

    def decode(self, whole: Int64[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Inverse of ``encode``, and of sums of what it gives."""
        return whole * self.step

    def pack(self, row: Int64[np.ndarray, " D"], bits: int) -> list[int]:
        """``ceil(D / s)`` signed plaintexts for a modulus of ``bits`` bits."""
        slots, numbers = self.slots(bits), row.tolist()
        parts = (numbers[at : at + slots] for at in range(0, len(numbers), slots))
        return [sum(number << (self.width * slot) for slot, number in enumerate(part)) for part in parts]

    def unpack(self, plaintexts: list[int], columns: int, bits: int) -> Int64[np.ndarray, " D"]:
        """Inverse of ``pack``, and of sums of what it gives.

        Raises:
          ValueError: a slot exceeds ``addends`` numbers of the largest size: something overflowed.
        """
        slots, half, most = self.slots(bits), 1 << (self.width - 1), self.addends * self.limit
        numbers: list[int] = []
        for rest in plaintexts:
            for _ in range(min(slots, columns - len(numbers))):
                number = ((rest + half) & (2 * half - 1)) - half
                rest = (rest - number) >> self.width
                numbers.append(number)
            if rest or max(map(abs, numbers[-slots:])) > most:
                raise ValueError(
                    f"total: a sum exceeds {self.addends} numbers of at most {self.bound:g}: it overflowed, was "
                    "altered, or was encrypted with other limits; give FixedPoint a larger bound or more addends"
                )
        return np.asarray(numbers, np.int64)
