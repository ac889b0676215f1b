"""``jgleak list``: every name that users type."""

from __future__ import annotations

import typer

from jgleak.audit.specification import ENCODERS, KNOWABLE
from jgleak.names.attacks import ATTACKS
from jgleak.names.datasets import RATING_SETS, TASKS
from jgleak.names.defenses import COMBINED, DEFENSES
from jgleak.names.deployed import DEPLOYED
from jgleak.names.parts import ACTIVATIONS, CONVOLUTIONS, JUMPS, NORMS, READOUTS, RESIDUALS


def show_list() -> None:
    """List the attacks, defences, data sets, parts of models, deployed models and what an attacker may know."""
    sections = {
        "attacks": {name: named.summary for name, named in ATTACKS.items()},
        "defences": {name: named.summary for name, named in DEFENSES.items()} | COMBINED,
        "data sets": {name: ", ".join(tasks) for name, tasks in TASKS.items()} | {"tu:NAME": "any other TUDataset"},
        "deployed models": {name: named.summary for name, named in DEPLOYED.items()},
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
