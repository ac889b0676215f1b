"""Clocks of tests."""

from __future__ import annotations

from jgleak.attacks.attack import Clock


class Held(Clock):
    """A clock that stands still: a search that ends while there is any time left does not pass."""

    @property
    def left(self) -> float:
        """Always the same."""
        return self.seconds

    def part(self, share: float) -> Clock:
        """Of what does not pass every part is the whole."""
        return self


class Ticking(Clock):
    """A clock that every look moves on by a second."""

    ticks = 0

    @property
    def elapsed(self) -> float:
        """The looks at it, this one too."""
        object.__setattr__(self, "ticks", self.ticks + 1)
        return float(self.ticks)


HELD = Held(0.0, 0.5)
"""Half a second is left, for ever."""
