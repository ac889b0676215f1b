"""``jgleak recommender``: a federated recommender trained, defended and attacked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from jgleak.audit.lines import Lines
from jgleak.audit.recommender.specification import (
    EXPANSIONS,
    GRAPHS,
    METHODS,
    SETTINGS,
    RecommenderSpecification,
)
from jgleak.cli import options as option
from jgleak.cli.progress import bar
from jgleak.cli.status import last_words, mistakes, status_of
from jgleak.plural import counted


def recommender(
    dataset: Annotated[
        str, option.data(help="The ratings; see `jgleak list`.", autocompletion=option.ratings)
    ] = "synthetic-ratings",
    path: Annotated[Path | None, option.DATASET_FILES] = None,
    method: Annotated[
        str,
        option.model(help=f"Recommender: {', '.join(METHODS)}.", autocompletion=option.complete(METHODS)),
    ] = "fedgnn",
    network: Annotated[
        str, option.model(help=f"Graph network of FedGNN: {', '.join(GRAPHS)}.", autocompletion=option.complete(GRAPHS))
    ] = "gat",
    settings: Annotated[
        str,
        option.model(help=f"Constants of training: {', '.join(SETTINGS)}.", autocompletion=option.complete(SETTINGS)),
    ] = "tuned",
    epochs: Annotated[int | None, option.model(help="Epochs; by default what the settings say.")] = None,
    neighbours: Annotated[int, option.client(help="Most anonymous neighbours of a user; 0 for none.")] = 16,
    expansion: Annotated[
        str,
        option.client(
            help="Neighbours sent in the clear, fixed (plain) or learnt (trainable), or found by three parties "
            "(encrypted).",
            autocompletion=option.complete(EXPANSIONS),
        ),
    ] = "plain",
    pseudo: Annotated[int, option.client(help="Pseudo items that a client adds; FedGNN's M is 1000.")] = 0,
    defense: Annotated[
        str, option.client(help="Defence that clients apply to updates; FedGNN's is clip-inf:0.1+laplace:0.2828.")
    ] = "",
    attack: Annotated[bool, option.attack("--attack", help="Attack updates at the trained parameters.")] = False,
    rounds: Annotated[
        str, option.attack(help="Numbers of updates of a user that the server has seen, separated by commas.")
    ] = "1,5,20",
    users: Annotated[int, option.attack(help="How many users are attacked.")] = 50,
    options: option.Options = None,
    seed: option.Seed = 0,
    out: Annotated[Path | None, option.output(help="Folder for results.jsonl.")] = None,
    json_lines: option.Json = False,
) -> None:
    """Train a federated recommender, and report what its server learns about its users."""
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
            options=option.pairs(options),
        )
        _audit(specification, out, json_lines)


def _audit(specification: RecommenderSpecification, out: Path | None, json_lines: bool) -> None:
    """Run, show and store; the table of leaks is printed after an interruption too, as far as it is known."""
    from jgleak.audit.recommender.leaks import Attacked, AttackedUsers
    from jgleak.audit.recommender.run import event_record, run
    from jgleak.audit.recommender.setup import prepare
    from jgleak.audit.recommender.table import data_text, epoch_text, errors_table, leaks_table, privacy_text
    from jgleak.audit.recommender.training import Epoch, Learnt, most_epochs

    stderr, stdout = Console(stderr=True, highlight=False), Console(stderr=json_lines)
    setup = prepare(specification)
    leaks: list[AttackedUsers] = []

    def interrupted() -> None:
        kept = f"; what has finished is in {out}" if out is not None else ""
        stderr.print(Text(f"interrupted{kept}; another run begins anew"), soft_wrap=True)

    def tell_leaks() -> None:
        if leaks:
            stdout.print(leaks_table(leaks))

    try:
        with _records(out) as lines, last_words(interrupted, tell_leaks), bar(stderr) as progress:
            task = progress.add_task("training, epoch 1", total=most_epochs(specification, setup))
            stderr.print(data_text(setup), soft_wrap=True, markup=False)
            for event in run(specification, setup):
                record = event_record(event, specification)
                if json_lines:
                    print(json.dumps(record), flush=True)
                if lines is not None:
                    lines.append(record)
                if isinstance(event, Epoch):
                    stderr.print(epoch_text(event), markup=False)
                    progress.update(task, completed=event.epoch, description=f"training, epoch {event.epoch + 1}")
                elif isinstance(event, Learnt):
                    progress.update(task, total=event.epochs, completed=event.epochs)  # patience may have ended it
                    if event.privacy is not None:
                        stderr.print(privacy_text(event.privacy), soft_wrap=True, markup=False)
                    progress.stop()
                    stdout.print(errors_table(event, specification))
                    progress.start()
                elif isinstance(event, Attacked):
                    if event.done == 1:
                        progress.reset(task, total=event.users)
                    told = f"attacking users after {counted(event.rounds, 'update')}: {event.title}"
                    progress.update(task, completed=event.done, description=told)
                else:
                    leaks.append(event)
                    stderr.print(f"attacked: {event.title}, {counted(event.rounds, 'update')}", markup=False)
    except KeyboardInterrupt as error:
        interrupted()
        raise typer.Exit(status_of(error)) from None
    finally:
        tell_leaks()


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
        raise ValueError(f"rounds: expected numbers separated by commas, such as 1,5,20, got {text!r}") from None
