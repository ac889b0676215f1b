"""``jgleak invert`` and ``jgleak verify``: files instead of simulated clients."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from jgleak.audit.specification import Faults, run_faults
from jgleak.cli.options import Json, MaxN, PriorOption, Seconds, Seed, pairs, writable
from jgleak.cli.status import FAILED, NOTHING, mistakes
from jgleak.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jgleak.attacks.attack import Reconstruction
    from jgleak.attacks.facts.fact import Facts
    from jgleak.audit.outcome import Outcome
    from jgleak.features import FeatureSpace
    from jgleak.graph import Graph
    from jgleak.smiles import Smiles

UNKNOWN = "unknown"
"""What ``--batch`` takes beside a number."""


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
    batch: Annotated[
        str | None,
        typer.Option(help="Graphs behind the update, where the file says another number; unknown: read off or tried."),
    ] = None,
    prior: PriorOption = "auto",
    max_n: MaxN = None,
    noise: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the noise on every entry, where the file does not say the right one."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="What the input's columns mean, where the file does not say: molecules (GRAIN's atom features), "
            "molecules+bonds (with bond types), molecules:tox21 (normalised as in that set), or a JSON schema."
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="What the client minimised, where the file says something else (masked_bce)."),
    ] = None,
    clipped: Annotated[
        bool, typer.Option("--clipped", help="The client clipped its update, where the file does not say so.")
    ] = False,
    pruned: Annotated[
        bool, typer.Option("--pruned", help="The client left small entries out, where the file does not say so.")
    ] = False,
    auxiliary: Annotated[
        str | None,
        typer.Option(help="A data set whose graphs are public, for attacks that need some (tox21, tu:MUTAG)."),
    ] = None,
    distinct: Annotated[bool, typer.Option("--distinct", help="Assume that all nodes of a client differ.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for reconstruction.json.")] = None,
    json_lines: Json = False,
) -> None:
    """Attack a saved observation and print the graph it came from.

    Exit status: 0 a graph with the observed gradient was found; 3 there is none, or an approximation alone; 2 the file
    or an option is wrong; 1 the attack broke down; 130 Ctrl-C, 143 SIGTERM.
    """
    with mistakes():
        faults = [text for text, wrong in run_faults(seed, time_limit) if wrong]
        if faults:
            raise Faults(faults)
        out_file = None if out is None else writable(out / "reconstruction.json")
        import dataclasses

        import jax

        from jgleak.attacks.attack import Budget
        from jgleak.attacks.census.batches.unannounced import counted
        from jgleak.attacks.facts.diagnosis import diagnoses
        from jgleak.attacks.facts.fact import Facts
        from jgleak.attacks.facts.registry import facts
        from jgleak.attacks.registry import get_attack
        from jgleak.audit.clients import foreign_graphs
        from jgleak.audit.compilations import compilations
        from jgleak.audit.describe import describe
        from jgleak.audit.outcome import FOUND, PART, outcome
        from jgleak.audit.record import plain
        from jgleak.datasets import load as load_dataset
        from jgleak.federated import Knowledge, load
        from jgleak.interop.spaces import feature_space

        chosen = get_attack(name)
        if options:
            chosen = chosen.configure(dict(pairs(options)))
        given = None if features is None else feature_space(features)
        observation, space = load(file, given)
        marks = {"loss": loss, "scaled": clipped or None, "pruned": pruned or None, "batch_size": _graphs(batch)}
        said = {name: value for name, value in marks.items() if value is not None}
        observation = dataclasses.replace(observation, **said, noise=observation.noise if noise is None else noise)
        noise = observation.noise
        if batch == UNKNOWN and chosen.name != "census":
            raise ValueError(
                f"batch: only census says whether a number of graphs explains an update; give one to {name}"
            )
        if n is None and "n" in chosen.needs:
            several = "" if observation.batch_size == 1 else ", one number for all graphs or one each (--n 9,7)"
            raise ValueError(f"n: {name} needs the number of nodes; give --n{several}")
        if auxiliary is None and "auxiliary" in chosen.needs:
            raise ValueError(f"auxiliary: {name} needs public graphs; name a data set of such (--auxiliary tox21)")
        public: list[Graph] = []
        if auxiliary is not None:
            foreign = load_dataset(auxiliary, max_nodes=max_n, bonds=bool(space.edge_classes))
            public = foreign_graphs(foreign, space)
        known = _sizes(n)
        knowledge = Knowledge(
            space=space,
            n=max(known, default=None),
            sizes=known if len(known) > 1 else (),
            max_n=max_n,
            auxiliary=tuple(public),
            distinct_nodes=distinct,
            prior=prior,
            noise=noise,
        )
        console, shown = Console(stderr=json_lines), Facts({}, {})
        if batch != UNKNOWN:
            shown = facts(observation, space, noise=noise)
            _show_facts(shown, console)
        begun, compiled = time.monotonic(), compilations()
        with Console(stderr=True).status(name):
            given_to = {"key": jax.random.key(seed), "budget": Budget(seconds=time_limit)}
            if batch == UNKNOWN:
                observation, found = counted(chosen, observation, knowledge, **given_to)
                said |= {"batch_size": observation.batch_size}
            else:
                found = chosen(observation, knowledge, **given_to)
        seconds, compiled = time.monotonic() - begun, compilations().since(compiled).seconds
        worth = outcome(observation, found, noise)
        if batch == UNKNOWN and worth.kind == FOUND:  # facts depend on the number of graphs
            shown = facts(observation, space, noise=noise)
            _show_facts(shown, console)
        best = found.graphs if observation.batch_size > 1 else found.graphs[:1]
        why = [] if found.graphs else diagnoses(observation, space, noise=noise)
        molecules = [_molecule(graph, space) for graph in best]
        record = plain(
            {
                "file": str(file),
                "attack": name,
                "outcome": worth.kind,
                "batch_size": observation.batch_size,
                "reason": found.info.get("reason"),
                "hints": worth.hints,
                "facts": shown.to_json(),
                "diagnoses": why,
                "graphs": [describe(g, space) for g in found.graphs],
                "members": [
                    {
                        "graphs": [describe(graph, space) for graph in member.graphs],
                        "certificate": None if member.certificate is None else dataclasses.asdict(member.certificate),
                    }
                    for member in found.members
                ],
                "smiles": [None if m is None else dataclasses.asdict(m) | {"note": m.note} for m in molecules],
                "gradient_distance": found.gradient_distance,
                "stop": found.stop,
                "certificate": None if found.certificate is None else dataclasses.asdict(found.certificate),
                "seconds": seconds,
                "seconds_compiling": compiled,
                "info": found.info,
                "version": __version__,
            }
        )
        if json_lines:
            print(json.dumps(record), flush=True)
        console.print(f"{seconds:.1f} s, of which {compiled:.1f} s compiling")
        if not found.graphs:
            _show_nothing(found, why, worth, console)
        else:
            _show(found, list(zip(best, molecules, strict=True)), space, worth, console)
        if out_file is not None:
            _write(out_file, found, file, given, said)
        raise typer.Exit(0 if worth.kind in (FOUND, PART) else NOTHING)


def _graphs(text: str | None) -> int | None:
    """The number of graphs from text; None where it is unknown, or the file's."""
    if text is None or text == UNKNOWN:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"batch: expected a whole number or {UNKNOWN!r}, got {text!r}") from error


def _sizes(text: str | None) -> tuple[int, ...]:
    """Numbers of nodes from text, of one graph or of several."""
    try:
        return tuple(int(word) for word in text.split(",")) if text is not None else ()
    except ValueError as error:
        raise ValueError(f"n: expected a whole number, or several with commas (17,13), got {text!r}") from error


def _molecule(graph: Graph, space: FeatureSpace) -> Smiles | None:
    from jgleak.smiles import smiles

    try:
        return smiles(graph, space)
    except (ValueError, TypeError):  # a schema whose values are words: no molecule, but a graph
        return None


def _show_facts(shown: Facts, console: Console) -> None:
    """What is certain before anything is searched; said at once, whatever happens then."""
    if shown.found:
        console.print("what the update shows by itself:")
    for fact in shown.found.values():
        console.print(Text(f"  {fact.line}"), soft_wrap=True)


def _write(
    file: Path, found: Reconstruction, observation: Path, space: FeatureSpace | None, said: Mapping[str, Any]
) -> None:
    from jgleak.audit.certified import write

    try:
        write(file, found, observation, space, said)
    except OSError as error:
        raise ValueError(f"out: cannot write {file} ({error.strerror}); what is printed above is all of it") from error


def _show_nothing(found: Reconstruction, why: Sequence[str], worth: Outcome, console: Console) -> None:
    reason = found.info.get("reason")
    console.print(Text(f"nothing found ({found.stop}){f': {reason}' if reason else ''}"), soft_wrap=True)
    for sentence in why:
        console.print(Text(f"because {sentence}"), soft_wrap=True)
    for hint in worth.hints:
        console.print(Text(hint), soft_wrap=True)
    console.print("that is no evidence of safety: another attack, or the next round, may find the graph")


def _show(
    found: Reconstruction,
    shown: Sequence[tuple[Graph, Smiles | None]],
    space: FeatureSpace,
    worth: Outcome,
    console: Console,
) -> None:
    from jgleak.audit.outcome import PART
    from jgleak.audit.table import certificate_text, graph_table, member_text

    reason = found.info.get("reason")
    if worth.text:
        console.print(Text(worth.text), soft_wrap=True)
    for place, (graph, molecule) in enumerate(shown):
        console.print(graph_table(graph, space))
        if found.members:
            console.print(Text(member_text(found.members[place])), soft_wrap=True)
        if molecule is not None and (not worth.text or found.members):
            fits = f"SMILES {molecule.texts[0]}\n  {molecule.note}"
            console.print(
                Text(fits if molecule.inferred or molecule.known else "no SMILES: no bond orders fit these atoms"),
                soft_wrap=True,
            )
    distance = "unknown" if found.gradient_distance is None else f"{found.gradient_distance:.1e}"
    count = "1 candidate graph" if len(found.graphs) == 1 else f"{len(found.graphs)} candidate graphs, the best shown"
    if found.members or len(shown) > 1:
        count = f"{'some' if worth.kind == PART else 'the'} {len(found.graphs)} graphs of the batch, in no order"
    console.print(Text(f"gradient distance {distance}; {count}; stopped: {found.stop}"))
    for hint in worth.hints:
        console.print(Text(hint), soft_wrap=True)
    if reason:
        console.print(Text(reason), soft_wrap=True)
    if found.certificate is not None:
        console.print(Text(certificate_text(found.certificate, batch=bool(found.members))))


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
