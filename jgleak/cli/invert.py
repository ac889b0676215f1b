"""``jgleak invert`` and ``jgleak verify``: files instead of simulated clients."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from jgleak.cli.options import Json, MaxN, Prior, Seconds, Seed, pairs, writable
from jgleak.cli.status import FAILED, mistakes
from jgleak.version import __version__

if TYPE_CHECKING:
    from jgleak.attacks.attack import Reconstruction
    from jgleak.features import FeatureSpace
    from jgleak.smiles import Smiles


def invert(
    file: Annotated[Path, typer.Argument(help="An observation written by jgleak.save.")],
    name: Annotated[str, typer.Option("--attack", help="The attack; see `jgleak list`.")] = "census",
    seed: Seed = 0,
    time_limit: Seconds = 60.0,
    n: Annotated[
        str | None,
        typer.Option(help="Number of nodes, where it is known; of a batch, one for all or one each (9,7)."),
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--set", help="Options of the attack, as name=value (steps=300).")
    ] = None,
    prior: Prior = "none",
    max_n: MaxN = 40,
    noise: Annotated[
        float | None, typer.Option(help="Standard deviation of the noise on every entry, where the client added some.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="What the input's columns mean, where the file does not say: molecules (GRAIN's atom features), "
            "molecules:tox21 (normalised as in that set), or a JSON schema."
        ),
    ] = None,
    distinct: Annotated[bool, typer.Option("--distinct", help="Assume that all nodes of a client differ.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for reconstruction.json.")] = None,
    json_lines: Json = False,
) -> None:
    """Attack a saved observation and print the graph it came from."""
    with mistakes():
        out_file = None if out is None else writable(out / "reconstruction.json")
        import dataclasses

        import jax

        from jgleak.attacks.attack import Budget
        from jgleak.attacks.registry import get_attack
        from jgleak.audit.certified import write
        from jgleak.audit.describe import describe
        from jgleak.audit.record import plain
        from jgleak.cli.features import feature_space
        from jgleak.federated import Knowledge, load
        from jgleak.smiles import smiles

        chosen = get_attack(name)
        if options:
            chosen = chosen.configure(dict(pairs(options)))
        given = None if features is None else feature_space(features)
        observation, space = load(file, given)
        if n is None and "n" in chosen.needs:
            raise ValueError(f"n: {name} needs the number of nodes; give --n")
        known = _sizes(n)
        knowledge = Knowledge(
            space=space,
            n=max(known, default=None),
            sizes=known if len(known) > 1 else (),
            max_nodes=max_n,
            distinct_nodes=distinct,
            prior=prior,
            noise=noise,
        )
        begun = time.monotonic()
        with Console(stderr=True).status(name):
            found = chosen(observation, knowledge, key=jax.random.key(seed), budget=Budget(seconds=time_limit))
        if out_file is not None:
            write(out_file, found, file, given)
        try:
            molecule = None if found.best is None else smiles(found.best, space)
        except (ValueError, TypeError):  # a schema whose values are words: no molecule, but a graph
            molecule = None
        record = plain(
            {
                "file": str(file),
                "attack": name,
                "graphs": [describe(g, space) for g in found.graphs],
                "smiles": None if molecule is None else dataclasses.asdict(molecule) | {"note": molecule.note},
                "gradient_distance": found.gradient_distance,
                "stop": found.stop,
                "certificate": None if found.certificate is None else dataclasses.asdict(found.certificate),
                "seconds": time.monotonic() - begun,
                "info": found.info,
                "version": __version__,
            }
        )
        if json_lines:
            print(json.dumps(record), flush=True)
        _show(found, molecule, space, observation.batch_size, Console(stderr=json_lines))


def _sizes(text: str | None) -> tuple[int, ...]:
    """Numbers of nodes from text, of one graph or of several."""
    try:
        return tuple(int(word) for word in text.split(",")) if text is not None else ()
    except ValueError as error:
        raise ValueError(f"n: expected a whole number, or several with commas (17,13), got {text!r}") from error


HINTS = {
    "time": "the time ran out, compilation included: raise --time-limit",
    "no candidates": "no node passed the span checks: is --features what the model was shown (raw or normalised), and "
    "is the update as the client computed it? Noise needs --noise, other defences need other attacks; narrow or "
    "untrained models can hide nodes",
}
"""What to try, by why an attack stopped without a graph."""

OTHERWISE = "noise that clients add needs --noise, other defences need other attacks"


def _show(found: Reconstruction, molecule: Smiles | None, space: FeatureSpace, batch: int, console: Console) -> None:
    from jgleak.audit.table import certificate_text, graph_table

    if found.best is None:
        reason = found.info.get("reason")
        console.print(Text(f"nothing found ({found.stop}){f': {reason}' if reason else ''}"))
        console.print(Text(HINTS.get(found.stop, OTHERWISE)))
        console.print("that is no evidence of safety: another attack, or the next round, may find the graph")
        return
    distance = "unknown" if found.gradient_distance is None else f"{found.gradient_distance:.1e}"
    for graph in found.graphs if batch > 1 else [found.best]:
        console.print(graph_table(graph, space))
    count = "1 candidate graph" if len(found.graphs) == 1 else f"{len(found.graphs)} candidate graphs, the best shown"
    count = count if batch == 1 else f"the {len(found.graphs)} graphs of the batch, in no order"
    if molecule is not None:
        console.print(Text(f"SMILES {molecule.texts[0]}\n  {molecule.note}"), soft_wrap=True)
    console.print(Text(f"gradient distance {distance}; {count}; stopped: {found.stop}"))
    if found.certificate is not None:
        console.print(Text(certificate_text(found.certificate)))


def verify(
    file: Annotated[
        Path, typer.Argument(help="A reconstruction written by `jgleak attack --out` or `jgleak invert --out`.")
    ],
) -> None:
    """Check a certificate from scratch: recompute every listed graph's gradient, and that no two graphs are equal."""
    with mistakes():
        from jgleak.audit.certified import verify as check

        report = check(file)
        typer.echo(report.text)
        raise typer.Exit(0 if report.holds else FAILED)
