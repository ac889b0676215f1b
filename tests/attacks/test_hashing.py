"""What is learnt from, as a key of a cache."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jgleak.attacks.hashing import HashedByContents


@dataclasses.dataclass(frozen=True, eq=False)
class Lesson(HashedByContents):
    rows: np.ndarray
    more: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Other(HashedByContents):
    rows: np.ndarray
    more: Any = None


def test_lessons_of_the_same_numbers_are_one() -> None:
    """Whatever the arrays that hold them; not lessons of another kind, nor numbers of another shape."""
    lesson = Lesson(np.arange(6.0), {"scale": 2.0})
    again = Lesson(np.arange(6.0), {"scale": 2.0})
    assert lesson == again and hash(lesson) == hash(again) and len({lesson, again}) == 1
    others: tuple[object, ...] = (
        Lesson(np.arange(6.0), {"scale": 3.0}),
        Lesson(np.arange(6.0).reshape(2, 3), {"scale": 2.0}),
        Other(np.arange(6.0), {"scale": 2.0}),
        "lesson",
    )
    for other in others:
        assert lesson != other
