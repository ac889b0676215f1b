"""``jgleak invert`` and ``jgleak verify``: files instead of simulated clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from jgleak.audit.specification import Faults, run_faults
from jgleak.cli import options as option
from jgleak.cli.inverted import line, show, show_facts, summary_line
from jgleak.cli.progress import bar
from jgleak.cli.status import FAILED, NOTHING, last_words, mistakes, status_of
from jgleak.igraph_alone import import_igraph
from jgleak.reading import namesakes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jgleak.attacks.facts.fact import Facts
    from jgleak.audit.inversion import Asked, Inverted
    from jgleak.features import FeatureSpace
    from jgleak.graph import Graph


def invert(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help="Observations written by jgleak.save.")],
    features: Annotated[
        str | None,
        option.data(
            help="The meaning of the input's columns, where the file does not state it: molecules (GRAIN's atom "
            "features), molecules+bonds (with bond types), molecules:tox21 (normalised as in that set), pyg or ogb "
            "(those libraries' atom features, embedded; ogb+bonds: with bonds; pyg:numbers: as they are), or a JSON "
            "schema."
        ),
    ] = None,
    truth: Annotated[
        Path | None,
        option.data(
            help="The private graphs, to compare with: a folder with NAME.json for NAME.safetensors, or a file."
        ),
    ] = None,
    loss: Annotated[
        str | None,
        option.model(help="What the client minimised, where the file's loss is wrong (masked_bce)."),
    ] = None,
    batch_size: Annotated[
        str | None,
        option.client(help="Graphs behind the update, where the file's number is wrong; unknown: found by the attack."),
    ] = None,
    noise: Annotated[
        float | None,
        option.client(
            help="Standard deviation of the noise on every entry, where the file's value is missing or wrong."
        ),
    ] = None,
    clipped: Annotated[
        bool, option.client("--clipped", help="The client clipped its update, where the file does not state it.")
    ] = False,
    pruned: Annotated[
        bool, option.client("--pruned", help="The client left small entries out, where the file does not state it.")
    ] = False,
    rounded_to: Annotated[
        str | None,
        option.client(help="The type (float16, bfloat16) to which the client rounded what it computed in 32 bits."),
    ] = None,
    n: Annotated[
        str | None,
        option.knowledge(help="Number of nodes, where it is known; of a batch, one for all or one each (9,7)."),
    ] = None,
    max_n: option.MaxN = None,
    auxiliary: Annotated[
        str | None,
        option.knowledge(
            help="A data set whose graphs are public, for attacks that need some (tox21, tu:MUTAG).",
            autocompletion=option.datasets,
        ),
    ] = None,
    prior: option.PriorOption = "auto",
    distinct_nodes: Annotated[
        bool,
        option.knowledge(
            "--distinct-nodes",
            help="Assume that all nodes of a client differ (`census`, where degrees are stated and such a graph fits).",
        ),
    ] = False,
    name: Annotated[
        str, option.attack("--attack", help="The attack; see `jgleak list`.", autocompletion=option.attacks)
    ] = "census",
    options: option.Options = None,
    time_limit: option.Seconds = 60.0,
    seed: option.Seed = 0,
    out: Annotated[
        Path | None, option.output(help="Folder for reconstruction.json; of several files for NAME.json each.")
    ] = None,
    verbose: Annotated[bool, option.output("--verbose", help="Print every condition of a certificate.")] = False,
    json_lines: option.Json = False,
) -> None:
    """Attack saved observations: print the graph behind one file, or a line for each of several.

    Exit status: 0 a graph with the observed gradient, or some graphs of a batch, were found (of several files, for
    each); 3 none was, or only an approximation; 2 the file or an option is wrong; 1 the attack broke down, or one of
    several files failed; 130 Ctrl-C, 143 SIGTERM.
    """
    with mistakes():
        faults = [text for text, wrong in run_faults(seed, time_limit) if wrong]
        if faults:
            raise Faults(faults)
        places = _places(files, out)

        import_igraph()
        from jgleak.attacks.registry import get_attack
        from jgleak.audit.inversion import UNKNOWN, Asked
        from jgleak.interop.spaces import feature_space

        if truth is not None:
            _check_truth(truth, files)

        chosen = get_attack(name)
        if options:
            chosen = chosen.with_options(dict(option.pairs(options)))
        if batch_size == UNKNOWN and chosen.name != "census":
            raise ValueError(f"batch_size: only census can find the number of graphs; give {name} a number")
        if auxiliary is None and "auxiliary" in chosen.needs:
            raise ValueError(f"auxiliary: {name} needs public graphs; name a data set of such (--auxiliary tox21)")
        known = _sizes(n, max_n)
        told = {"n": max(known, default=None), "sizes": known if len(known) > 1 else (), "max_n": max_n}
        asked = Asked(
            attack=chosen,
            seed=seed,
            time_limit=time_limit,
            told=told | {"distinct_nodes": distinct_nodes, "prior": prior},
            public=_public(auxiliary, max_n),
            space=None if features is None else feature_space(features),
            said={
                "loss": loss,
                "scaled": clipped or None,
                "pruned": pruned or None,
                "rounded_to": rounded_to,
                "batch_size": _graphs(batch_size),
                "noise": noise,
            },
            truth=truth,
        )
        if not known and "n" in chosen.needs:
            _ask_sizes(files, asked)
        console = Console(stderr=json_lines)
        if len(files) > 1:
            raise typer.Exit(_several(files, places, asked, json_lines))
        spinner = Console(stderr=True).status(f"{asked.attack.name}, {asked.time_limit:g} s at most")

        def without_spinner(shown: Facts) -> None:
            spinner.stop()  # it writes to another stream, which may be on the same line
            show_facts(shown, console)
            spinner.start()

        with spinner:
            one, record = _one(files[0], asked, without_spinner)
        if json_lines:
            print(json.dumps(record), flush=True)
        show(one, console, verbose)
        if places[0] is not None:
            _write(places[0], one, asked.space)
        raise typer.Exit(_status(record))


def _check_truth(place: Path, files: Sequence[Path]) -> None:
    """Check that one file has a truth, and that no two of several files have the same. Some may have none: the summary
    counts them."""
    from jgleak.audit.recorded.truth import common_truth, truth_file, truth_of

    if len(files) == 1 and truth_of(place, files[0]) is None:
        raise ValueError(f"truth: {place} has none for {files[0].name}; name it {files[0].stem}, or leave --truth out")
    if not place.is_dir():
        truth_file(place, files[0])
    common = common_truth(place, files)
    if common is not None:
        raise ValueError(f"truth: {common}")


def _ask_sizes(files: Sequence[Path], asked: Asked) -> None:
    """Raise the error that the attack needs numbers of nodes and none is given."""
    from jgleak.federated import load

    single = len(files) == 1 and load(files[0], asked.space)[0].batch_size == 1
    several = "" if single else ", one number for all graphs or one each (--n 9,7)"
    raise ValueError(f"n: {asked.attack.name} needs the number of nodes; give --n{several}")


def _one(file: Path, asked: Asked, tell: Callable[[Facts], None]) -> tuple[Inverted, dict[str, Any]]:
    """Attack one file; returns the answer and its record. ``tell`` gets the facts before the attack begins."""
    from jgleak.audit.inversion import invert as attacked
    from jgleak.audit.inversion import inverted_record

    one = attacked(file, asked, tell)
    return one, inverted_record(one, asked.attack.name)


def _several(files: Sequence[Path], places: Sequence[Path | None], asked: Asked, json_lines: bool) -> int:
    """Print a line for each file, even where others fail, and a summary; returns the exit status. Ctrl-C ends the loop
    over files, not the summary."""
    from jgleak.audit.inversion import summary_of

    def tell(said: dict[str, Any], text: str) -> None:
        if json_lines:
            print(json.dumps(said), flush=True)
        typer.echo(text, err=json_lines)

    def fail(file: Path, error: Exception, old: str) -> None:
        reason = " ".join((str(error) or type(error).__name__).split()) + old
        tell({"file": str(file), "error": reason}, f"{file}: failed: {reason}")

    def interrupted() -> None:
        again = f"; to go on, give {left[0]}{' and what follows it' * (len(left) > 1)}" if left else ""
        typer.echo(f"interrupted; what has finished is kept{again}", err=True)

    def summarise() -> None:
        summary = summary_of(records, len(files) - len(left), failed, asked.truth is not None)
        tell({"summary": summary}, summary_line(summary))

    records, failed, status, left = list[dict[str, Any]](), 0, 0, list(files)
    try:
        with last_words(interrupted, summarise), bar(Console(stderr=True)) as progress:
            task = progress.add_task("", total=len(files))
            for file, place in zip(files, places, strict=True):
                progress.update(task, description=f"{file.name}, {asked.time_limit:g} s at most")
                old = f"; {place} is of an earlier run" if place is not None and place.exists() else ""
                try:
                    one, record = _one(file, asked, lambda shown: None)
                    records.append(record)
                    old = ""  # after a failed write the file may hold half of the new answer
                    tell(record, line(record))
                    if place is not None:
                        _write(place, one, asked.space)
                except Exception as error:  # a broken file, a refusal, a full disk, a defect: the other files go on
                    failed += 1
                    fail(file, error, old)
                left.remove(file)
                progress.advance(task)
    except KeyboardInterrupt as error:
        status = status_of(error)
        interrupted()
    summarise()
    return status or (FAILED if failed else max(map(_status, records), default=0))


def _status(record: dict[str, Any]) -> int:
    return 0 if record["outcome"] in ("found", "part") else NOTHING


def _places(files: Sequence[Path], out: Path | None) -> list[Path | None]:
    """Where each file's reconstruction goes."""
    if out is None:
        return [None] * len(files)
    if len(files) == 1:
        return [option.writable(out / "reconstruction.json")]
    both = namesakes(files)
    if both is not None:
        raise ValueError(f"out: {both[0]} and {both[1]} would both be written to {both[0].stem}.json; rename one")
    return [option.writable(out / f"{file.stem}.json") for file in files]


def _public(auxiliary: str | None, max_n: int | None) -> Callable[[FeatureSpace], Sequence[Graph]]:
    """The public graphs of a data set in any feature space."""

    def graphs(space: FeatureSpace) -> Sequence[Graph]:
        if auxiliary is None:
            return ()
        from jgleak.audit.clients import foreign_graphs
        from jgleak.datasets import load

        return foreign_graphs(load(auxiliary, max_nodes=max_n, bonds=bool(space.edge_classes)), space)

    return graphs


def _graphs(text: str | None) -> int | str | None:
    """The number of graphs from text, or ``UNKNOWN``; None: the file's number."""
    from jgleak.audit.inversion import UNKNOWN

    if text is None or text == UNKNOWN:
        return text
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"batch_size: expected a whole number or {UNKNOWN!r}, got {text!r}") from error


def _sizes(text: str | None, most: int | None) -> tuple[int, ...]:
    """Numbers of nodes from text, of one graph or of several; each at most ``most``."""
    try:
        sizes = tuple(int(word) for word in text.split(",")) if text is not None else ()
    except ValueError as error:
        raise ValueError(f"n: expected a whole number, or several with commas (17,13), got {text!r}") from error
    if most is not None and max(sizes, default=0) > most:
        raise ValueError(f"n: {max(sizes)} nodes are more than --max-n {most} allows; give one of the two")
    return sizes


def _write(place: Path, one: Inverted, space: FeatureSpace | None) -> None:
    from jgleak.audit.certified import write

    try:
        write(place, one.found, one.file, space, one.said)
    except OSError as error:
        raise ValueError(f"out: cannot write {place} ({error.strerror}); nothing but the text above is kept") from error


def verify(
    file: Annotated[
        Path, typer.Argument(help="A reconstruction written by `jgleak attack --out` or `jgleak invert --out`.")
    ],
) -> None:
    """Check a certificate from scratch: recompute every listed graph's gradient, and compare the graphs."""
    with mistakes():
        from jgleak.audit.certified import verify as check

        with Console(stderr=True).status("computing the gradient of every listed graph"):
            report = check(file)
        typer.echo(report.text)
        raise typer.Exit(0 if report.holds else FAILED)
