"""What a finding is."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

Level = Literal["leaks", "open", "closed"]

LEVELS: dict[Level, str] = {
    "leaks": "certain by construction: whoever reads the update knows it",
    "open": "an attack applies, or can look here; whether it succeeds is for an audit to say",
    "closed": "nothing here reads it as the clients train now; that is no proof that nothing can",
}
"""The levels, the gravest first, and what each means."""


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
      shown_by: the fact or the attack that proves it on an update, or refuses: ``fact:feature_values``,
        ``attack:census``.
      details: numbers behind it, in JSON's own types.
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
