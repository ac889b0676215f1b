"""``jgleak recommender``: a federated recommender trained, defended and attacked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from jgleak.audit.lines import Lines
from jgleak.audit.recommender.specification import (
    EXPANSIONS,
    GRAPHS,
    METHODS,
    SETTINGS,
    RecommenderSpecification,
)
from jgleak.cli.options import Json, pairs
from jgleak.cli.status import mistakes, spinner


def recommender(
    dataset: Annotated[str, typer.Option(help="The ratings; see `jgleak list`.")] = "synthetic-ratings",
    network: Annotated[str, typer.Option(help=f"Graph network of FedGNN: {', '.join(GRAPHS)}.")] = "gat",
    method: Annotated[str, typer.Option(help=f"Recommender: {', '.join(METHODS)}.")] = "fedgnn",
    settings: Annotated[str, typer.Option(help=f"Constants of training: {', '.join(SETTINGS)}.")] = "tuned",
    neighbours: Annotated[int, typer.Option(help="Most anonymous neighbours of a user; 0 for none.")] = 16,
    expansion: Annotated[
        str, typer.Option(help=f"How neighbours are found: {' or '.join(EXPANSIONS)} (three parties).")
    ] = "plain",
    defense: Annotated[
        str, typer.Option(help="What clients do to updates; FedGNN's is clip-inf:0.1+laplace:0.2828.")
    ] = "",
    pseudo: Annotated[int, typer.Option(help="Pseudo items a client sends; FedGNN's M is 1000.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Epochs; by default what the settings say.")] = None,
    seed: Annotated[int, typer.Option(help="Seeds everything that is drawn.")] = 0,
    attack: Annotated[bool, typer.Option("--attack", help="Attack updates at the trained parameters.")] = False,
    rounds: Annotated[str, typer.Option(help="Updates of a user that the server has seen, by commas.")] = "1,5,20",
    users: Annotated[int, typer.Option(help="How many users are attacked.")] = 50,
    options: Annotated[
        list[str] | None, typer.Option("--set", help="Options of the attack, as name=value (sweeps=5).")
    ] = None,
    path: Annotated[Path | None, typer.Option(help="Where the data set's files are.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results.jsonl.")] = None,
    json_lines: Json = False,
) -> None:
    """Train a federated recommender, and say what its server learns about its users."""
    with mistakes():
        specification = RecommenderSpecification(
            dataset=dataset,
            network=network,
            method=method,
            settings=settings,
            neighbours=neighbours,
            expansion=expansion,
            defense=defense,
            pseudo=pseudo,
            epochs=epochs,
            seed=seed,
            attack=attack,
            rounds=_numbers(rounds),
            users=users,
            path=None if path is None else str(path),
            options=pairs(options),
        )
        _audit(specification, out, json_lines)


def _audit(specification: RecommenderSpecification, out: Path | None, json_lines: bool) -> None:
    """Run, tell and store; the table of leaks also comes after an interruption, as far as they got."""
    from jgleak.audit.recommender.leaks import Attacked, AttackedUsers
    from jgleak.audit.recommender.run import event_record, run
    from jgleak.audit.recommender.setup import prepare
    from jgleak.audit.recommender.table import data_text, epoch_text, errors_table, leaks_table, privacy_text
    from jgleak.audit.recommender.training import Epoch, Learnt

    stderr, stdout = Console(stderr=True, highlight=False), Console(stderr=json_lines)
    setup = prepare(specification)
    leaks: list[AttackedUsers] = []
    try:
        with _records(out) as lines, spinner(stderr, "training") as progress:
            stderr.print(data_text(setup), soft_wrap=True, markup=False)
            for event in run(specification, setup):
                record = event_record(event, specification)
                if json_lines:
                    print(json.dumps(record), flush=True)
                if lines is not None:
                    lines.append(record)
                if isinstance(event, Epoch):
                    stderr.print(epoch_text(event), markup=False)
                elif isinstance(event, Learnt):
                    if event.privacy is not None:
                        stderr.print(privacy_text(event.privacy), soft_wrap=True, markup=False)
                    progress.stop()
                    stdout.print(errors_table(event, specification))
                    progress.start()
                    progress.update(progress.task_ids[0], description="attacking")
                elif isinstance(event, Attacked):
                    told = f"attacking after {event.rounds} updates: user {event.done} of {event.users}"
                    progress.update(progress.task_ids[0], description=told)
                else:
                    leaks.append(event)
                    stderr.print(f"attacked: {event.title}, {event.rounds} updates", markup=False)
    finally:
        if leaks:
            stdout.print(leaks_table(leaks))


@contextmanager
def _records(folder: Path | None) -> Iterator[Lines | None]:
    """``results.jsonl`` in a folder that holds no earlier run; raises ``ValueError`` where it cannot be written."""
    if folder is None:
        yield None
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lines = Lines(folder)
    except FileExistsError as error:
        raise ValueError(f"out: {folder} holds an earlier run or is a file; choose another folder") from error
    except OSError as error:
        raise ValueError(f"out: cannot write to {folder} ({error.strerror}); choose another folder") from error
    with closing(lines):
        yield lines


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(f"rounds: expected numbers by commas, as 1,5,20, got {text!r}") from None
