"""``jgleak list``: every name that users type."""

from __future__ import annotations

import typer

from jgleak.audit.specification import KNOWABLE


def show_list() -> None:
    """Name the attacks, defences, data sets, parts of models and what an attacker may know."""
    from jgleak.attacks.registry import ATTACKS
    from jgleak.audit.models import ENCODERS
    from jgleak.audit.setup import READOUTS
    from jgleak.datasets import RATING_SETS, names, tasks
    from jgleak.defenses.registry import HYBRID, KINDS
    from jgleak.gnn import ACTIVATIONS, CONVOLUTIONS, JUMPS, NORMS, RESIDUALS

    sections = {
        "attacks": {attack.name: attack.summary for attack in ATTACKS.values()},
        "defences": {kind.name: kind.summary for kind in KINDS.values()}
        | {HYBRID: "Laplace noise of half the variance on activations and on the update each (GraphDLG)"},
        "data sets": {name: ", ".join(tasks(name)) for name in names()} | {"tu:NAME": "any other TUDataset"},
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
