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


class Looks(Clock):
    """A clock that ends after so many looks at it as it has seconds."""

    looks = 0

    @property
    def left(self) -> float:
        """The looks that are left."""
        object.__setattr__(self, "looks", self.looks + 1)
        return self.seconds - self.looks

    def part(self, share: float) -> Clock:
        """Of looks no part is taken."""
        return self


HELD = Held(0.0, 0.5)
"""Half a second is left, for ever."""
