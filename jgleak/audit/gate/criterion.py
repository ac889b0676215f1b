"""Criteria under which an audit fails, as users write them: ``unique>0``, ``exact.high>=0.2``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from jgleak.audit.gate.quantities import QUANTITIES, interval
from jgleak.audit.report.rows import Row
from jgleak.did_you_mean import did_you_mean

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}

GRAMMAR = re.compile(r"\s*(\w+)(?:\.(\w+))?\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*")

End = Literal["mean", "low", "high"]


class Criterion(NamedTuple):
    """A comparison of one of ``QUANTITIES`` with a number.

    Attributes:
      text: the criterion as written.
      quantity: its name.
      end: of a rate, what is compared: its mean, or an end of its 95 % interval.
      comparison: one of ``COMPARISONS``.
      bound: the number.
    """

    text: str
    quantity: str
    end: End
    comparison: str
    bound: float

    def value(self, row: Row) -> float | None:
        """The number of a row that is compared; None where it is undefined."""
        quantity = QUANTITIES[self.quantity]
        if quantity.needs_truth and not row.told:
            return None
        if quantity.of_unit is None:
            return quantity.value(row)
        found = interval(row, quantity.of_unit)
        return None if found is None else getattr(found, self.end)

    def met(self, row: Row) -> bool:
        """True where the row makes the audit fail. An undefined number never does."""
        value = self.value(row)
        return value is not None and COMPARISONS[self.comparison](value, self.bound)


def criterion(text: str) -> Criterion:
    """Read a criterion, such as ``unique>0`` or ``exact.high>=0.2``.

    Raises:
      ValueError: the text is not a criterion; the message states the form and the known names.
    """
    found = GRAMMAR.fullmatch(text)
    if found is None:
        raise ValueError(
            f"fail-on: {text!r} is not a criterion; write NAME OP NUMBER, such as unique>0 or exact.high>=0.2, with OP "
            f"one of {', '.join(COMPARISONS)} and NAME one of {', '.join(QUANTITIES)}"
        )
    name, end, comparison, number = found.groups()
    if name not in QUANTITIES:
        hint = did_you_mean(name, QUANTITIES)
        raise ValueError(f"fail-on: {text!r} names no result; {hint}choose one of {', '.join(QUANTITIES)}")
    rates = [rate for rate, quantity in QUANTITIES.items() if quantity.of_unit is not None]
    if end is not None and (end not in ("low", "high") or name not in rates):
        raise ValueError(
            f"fail-on: {text!r} asks for {name}.{end}; .low and .high are the ends of the interval of a rate "
            f"({', '.join(rates)})"
        )
    try:
        bound = float(number)
    except ValueError as error:
        raise ValueError(f"fail-on: {text!r} compares with {number!r}, which is not a number") from error
    if not math.isfinite(bound):
        raise ValueError(f"fail-on: {text!r} compares with {number!r}; give a finite number")
    if name in rates and not 0.0 <= bound <= 1.0:
        raise ValueError(f"fail-on: {text!r} compares a share with {number}; shares lie in 0..1")
    return Criterion(text.strip(), name, end or "mean", comparison, bound)
