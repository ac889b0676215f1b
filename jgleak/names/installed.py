"""What other installed packages add to the names, by entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

T = TypeVar("T")

ATTACKS, DEFENSES = "jgleak.attacks", "jgleak.defenses"
"""The groups of entry points."""


def installed(group: str) -> dict[str, str]:
    """What installed packages add to ``group``, and where each lives (``module:ATTRIBUTE``). Imports none."""
    return {point.name: point.value for point in entry_points(group=group)} if group else {}


def load(group: str, name: str, kind: type[T]) -> T:
    """What an installed package calls ``name``.

    Raises:
      KeyError: no package has that name.
      ValueError: two packages have that name, or it cannot be imported, is of another class, or calls itself another
        name; the message says where it lives.
    """
    homes = sorted({point.value for point in entry_points(group=group, name=name)})
    if not homes:
        raise KeyError(name)
    whose = f"{name!r} is {' and '.join(homes)} in installed packages (entry point of {group!r})"
    if len(homes) > 1:
        raise ValueError(f"{whose}; uninstall all but one")
    try:
        entry = EntryPoint(name, homes[0], group).load()
    except (Exception, SystemExit) as error:  # somebody else's module: anything may be wrong with it
        raise ValueError(f"{whose}, which cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(entry, kind):
        raise ValueError(f"{whose}, of type {type(entry).__name__}; let the entry point name {_a(kind)}")
    called = getattr(entry, "name", name)
    if called != name:
        raise ValueError(f"{whose}, which calls itself {called!r}; give both the same name")
    return entry


def _a(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
