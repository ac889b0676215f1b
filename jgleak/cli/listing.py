"""``jgleak list``: every name that users type."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from jgleak.audit.specification import ENCODERS, KNOWABLE
from jgleak.names import installed
from jgleak.names.attacks import ATTACKS
from jgleak.names.datasets import RATING_SETS, TASKS
from jgleak.names.defenses import COMBINED, DEFENSES
from jgleak.names.deployed import DEPLOYED
from jgleak.names.entries import Named
from jgleak.names.parts import ACTIVATIONS, CONVOLUTIONS, JUMPS, NORMS, READOUTS, RESIDUALS


def show_list() -> None:
    """List the attacks, defences, data sets, parts of models, deployed models and what an attacker may know."""
    sections = {
        "attacks": _listed(ATTACKS, installed.ATTACKS),
        "defences": _listed(DEFENSES, installed.DEFENSES) | COMBINED,
        "data sets": {name: ", ".join(tasks) for name, tasks in TASKS.items()} | {"tu:NAME": "any other TUDataset"},
        "deployed models": _listed(DEPLOYED),
    }
    for title, entries in sections.items():
        typer.echo(title)
        for entry, text in entries.items():
            typer.echo(f"  {entry:<24}{text}".rstrip())
    choices = {
        "models": CONVOLUTIONS,
        "readouts": READOUTS,
        "activations": ACTIVATIONS,
        "norms": ("none", *NORMS),
        "residuals": ("none", *RESIDUALS),
        "jumps": JUMPS,
        "encoders": ENCODERS,
        "knowledge": KNOWABLE,
        "ratings": RATING_SETS,
    }
    for title, words in choices.items():
        typer.echo(f"{title:<22}{', '.join(words)}")


def _listed(own: Mapping[str, Named], group: str = "") -> dict[str, str]:
    """What each name stands for; last, where those live that installed packages add."""
    added = {name: f"{home} (installed package)" for name, home in installed.installed(group).items()}
    return {**{name: named.summary for name, named in own.items()}, **{n: t for n, t in added.items() if n not in own}}
