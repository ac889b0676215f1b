"""Findings and their levels."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

Level = Literal["leaks", "open", "closed"]

LEVELS: dict[Level, str] = {
    "leaks": "certain by construction: whoever reads the update knows it",
    "open": "an attack applies, or may; how often it succeeds is measured by an audit",
    "closed": "no attack here reads it as the clients train now; that is no proof that none can",
}
"""The levels, the most severe first, and what each means."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that a model and a protocol show, or do not show, by construction.

    Attributes:
      id: its name in lists.
      level: one of ``LEVELS``.
      what: what is shown, or closed, in a sentence.
      why: what it follows from.
      instead: the nearest change that would stop it (``leaks``, ``open``) or open it (``closed``); empty: none
        is known.
      shown_by: the fact or the attack that shows it on an update, or refuses: ``fact:feature_values``,
        ``attack:census``.
      details: its numbers, in JSON types.
    """

    id: str
    level: Level
    what: str
    why: str
    instead: str
    shown_by: str
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All fields by name."""
        return dataclasses.asdict(self)
