"""Options that commands share, the groups in which help shows them, and how their texts are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from jgleak.names import installed
from jgleak.names.attacks import ATTACKS
from jgleak.names.datasets import RATING_SETS, TASKS
from jgleak.names.deployed import DEPLOYED
from jgleak.names.parts import ACTIVATIONS, CONVOLUTIONS, JUMPS, NORMS, READOUTS, RESIDUALS

GROUPS = ("Data", "Model", "Client", "Knowledge", "Attack", "Run", "Output")
"""The groups of options, in the order in which commands have them."""

data, model, client, knowledge, attack, run, output = (partial(typer.Option, rich_help_panel=group) for group in GROUPS)


def complete(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Shell completion from ``names``."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


datasets, ratings, deployed = (complete(names) for names in (TASKS, RATING_SETS, DEPLOYED))
convolutions, readouts, activations, jumps = (complete(n) for n in (CONVOLUTIONS, READOUTS, ACTIVATIONS, JUMPS))
norms, residuals = (complete(("none", *names)) for names in (NORMS, RESIDUALS))


def attacks(incomplete: str) -> list[str]:
    """Shell completion of attacks, those of installed packages included."""
    return complete({**ATTACKS, **installed.installed(installed.ATTACKS)})(incomplete)


DATASET_FILES = data(help="Where the data set's files are.")
LOCAL_STEPS = client(help="Steps of gradient descent on a client between two rounds (fedavg).")
LOCAL_RATE = client(help="Learning rate of the local steps (fedavg).")
LOCAL_MOMENTUM = client(help="Momentum of the local steps (fedavg).")
LOCAL_WEIGHT_DECAY = client(help="Weight decay of the local steps (fedavg).")
LOCAL_LOADER = client(help="Graphs of a local step (fedavg); 0: all of the client's.")
DEFENSE = client(help="Defence that clients apply to the update, such as clip:1+gaussian:0.1; see `jgleak list`.")
"""Options with the same meaning in all commands, whose type or default may differ."""

Options = Annotated[
    list[str] | None, attack("--option", help="An option of the attack, as name=value (steps=300); may be repeated.")
]
Seconds = Annotated[
    float,
    attack(
        "--time-limit",
        help="Seconds an attack may take on one client, compilation included; what has begun to compile is finished.",
    ),
]
Seed = Annotated[int, run(help="Seeds the clients, the parameters and the attack.")]
PriorOption = Annotated[
    str,
    knowledge(
        help="How graphs with the same gradient are ranked: none, plain (structure), molecule (chemistry), or auto: "
        "molecule where the features describe atoms, else plain."
    ),
]
MaxN = Annotated[int | None, knowledge(help="Most nodes of a client's graph, where the attacker knows a bound.")]
Workers = Annotated[
    int | None,
    run(
        min=1,
        help="Processes that share the clients; by default one for each core, up to 4, if there are many clients.",
    ),
]
Json = Annotated[bool, output("--json", help="JSON lines on standard output, everything else on standard error.")]


def split(know: list[str] | None) -> tuple[str, ...]:
    """The values of an option that was given several times, or with commas."""
    return tuple(part.strip() for word in know or () for part in word.split(",") if part.strip())


def pairs(options: list[str] | None) -> tuple[tuple[str, str], ...]:
    """Names and values of ``name=value``."""
    for option in options or ():
        if "=" not in option:
            raise ValueError(f"--option: expected name=value, got {option!r}")
    return tuple((name, value) for name, _, value in (option.partition("=") for option in options or ()))


def writable(path: Path) -> Path:
    """``path``, after its folder was made and found to be writable; raises ``ValueError`` where it is not."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise ValueError(f"out: {path} exists and is not a file; choose another folder")
        there = path.exists() or path.is_symlink()
        path.open("a").close()
        if not there:  # an empty file would look like an answer
            path.unlink()
    except OSError as error:
        raise ValueError(f"out: cannot write {path} ({error.strerror}); choose another folder") from error
    return path
