"""The command line. JAX is imported inside the commands, so that help and mistakes answer at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from jgleak.audit.specification import KNOWABLE, PROTOCOLS, Specification
from jgleak.version import __version__

if TYPE_CHECKING:
    from jgleak.attacks.attack import Reconstruction
    from jgleak.features import FeatureSpace

MISTAKE, FAILED, INTERRUPTED = 2, 1, 130
"""Exit statuses: the user's mistake, an attack that broke down, Ctrl-C."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Audit what the gradients of graph neural networks leak in federated learning.",
)

_Seconds = Annotated[float, typer.Option("--time-limit", help="Seconds an attack may take on one client.")]
_Seed = Annotated[int, typer.Option(help="Seeds the clients, the parameters and the attack.")]
_Prior = Annotated[str, typer.Option(help="How graphs with the same gradient are ranked: none or molecule.")]
_MaxN = Annotated[int, typer.Option(help="Largest client the attacker expects.")]
_Json = Annotated[
    bool, typer.Option("--json", help="JSON lines on standard output, everything else on standard error.")
]


def main() -> None:
    """Entry point of the ``jgleak`` command."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the bare command."""


@app.command()
def attack(
    name: Annotated[str, typer.Argument(help="The attack; see `jgleak list`.")] = "census",
    dataset: Annotated[str, typer.Option(help="The data set; see `jgleak list`.")] = "embedded",
    task: Annotated[str | None, typer.Option(help="What is learnt; by default the data set's first task.")] = None,
    path: Annotated[Path | None, typer.Option(help="Where the data set's files are.")] = None,
    graphs: Annotated[int | None, typer.Option(help="How many clients.")] = None,
    min_nodes: Annotated[int | None, typer.Option(help="Smallest client.")] = None,
    max_nodes: Annotated[int | None, typer.Option(help="Largest client.")] = None,
    model: Annotated[str, typer.Option(help="Convolution: gcn, gat, sage or gin.")] = "gcn",
    layers: Annotated[int, typer.Option(help="Number of convolutions.")] = 2,
    hidden: Annotated[int, typer.Option(help="Width of the convolutions.")] = 300,
    heads: Annotated[int, typer.Option(help="Attention heads (gat).")] = 2,
    activation: Annotated[str, typer.Option(help="relu, gelu, sigmoid or tanh.")] = "relu",
    readout: Annotated[str, typer.Option(help="node_mlp, pooled, flattened or node_scores.")] = "node_mlp",
    pooling: Annotated[str, typer.Option(help="mean, sum or max (pooled readout).")] = "mean",
    last_activation: Annotated[
        bool, typer.Option("--last-activation", help="Apply the activation after the last convolution too.")
    ] = False,
    bias: Annotated[bool, typer.Option("--bias", help="Give the convolutions a bias.")] = False,
    loss: Annotated[str | None, typer.Option(help="bce, ce or mse; by default mse in regression, else bce.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Features as they are in the data, not normalised.")] = False,
    protocol: Annotated[
        str | None, typer.Option(help=f"What clients send: {', '.join(PROTOCOLS)}; by default what the attack reads.")
    ] = None,
    local_steps: Annotated[int, typer.Option(help="Steps of gradient descent on a client (fedavg).")] = 1,
    local_rate: Annotated[float, typer.Option(help="Their learning rate (fedavg).")] = 0.1,
    batch: Annotated[int, typer.Option(help="Graphs of one client, whose update is their mean.")] = 1,
    defense: Annotated[
        str, typer.Option(help="What clients do before anything leaves, as clip:1+gaussian:0.1; see `jgleak list`.")
    ] = "",
    train: Annotated[int, typer.Option(help="Epochs of training on other graphs of the data set first.")] = 0,
    seed: _Seed = 0,
    time_limit: _Seconds = 60.0,
    know: Annotated[
        list[str] | None, typer.Option(help=f"What the attacker is given, by commas: {', '.join(KNOWABLE)}.")
    ] = None,
    auxiliary: Annotated[
        str, typer.Option(help="Public graphs: same, split:1.0, random:0.05:normal, or another data set.")
    ] = "same",
    options: Annotated[
        list[str] | None, typer.Option("--set", help="Options of the attack, as name=value (steps=300).")
    ] = None,
    prior: _Prior = "none",
    max_n: _MaxN = 40,
    node_task: Annotated[bool, typer.Option("--node-task", help="Label nodes instead of graphs.")] = False,
    no_distinct: Annotated[
        bool, typer.Option("--no-distinct", help="Do not assume that the nodes of a network's client differ.")
    ] = False,
    no_degree: Annotated[bool, typer.Option("--no-degree", help="Leave the degree out of the features.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for results.jsonl, observations and pictures.")] = None,
    json_lines: _Json = False,
) -> None:
    """Attack the simulated clients of a data set, and say how much of their graphs came back."""
    stderr, stdout = Console(stderr=True), Console(stderr=json_lines)
    with _mistakes():
        given = _split(know)
        if auxiliary != "same" and not auxiliary.startswith("split:") and "auxiliary" not in given:
            raise ValueError(f"--auxiliary: {auxiliary!r} is given to nobody; add --know auxiliary")
        specification = Specification(
            dataset=dataset,
            task=task,
            path=None if path is None else str(path),
            graphs=graphs,
            min_nodes=min_nodes,
            max_nodes=max_nodes,
            model=model,
            layers=layers,
            hidden=hidden,
            heads=heads,
            activation=activation,
            readout=readout,
            pooling=pooling,
            last_activation=last_activation,
            bias=bias,
            loss=loss,
            normalise=not raw,
            protocol=protocol,
            local_steps=local_steps,
            local_rate=local_rate,
            batch=batch,
            defense=defense,
            train=train,
            seed=seed,
            time_limit=time_limit,
            attack=name,
            know=given,
            auxiliary=auxiliary,
            options=_pairs(options),
            node_task=node_task,
            distinct=not no_distinct,
            degree=not no_degree,
            prior=prior,
            max_n=max_n,
        )
        raise typer.Exit(_audit(specification, out, json_lines, stderr, stdout))


def _audit(specification: Specification, out: Path | None, json_lines: bool, stderr: Console, stdout: Console) -> int:
    """Run, show and store; the exit status. Whatever ends the run, the finished clients are summarised."""
    from jgleak.audit.experiment import run
    from jgleak.audit.record import result_record, summary_record
    from jgleak.audit.setup import prepare
    from jgleak.audit.store import Store
    from jgleak.audit.table import clients_table, summary_table

    store = None if out is None else Store(out)
    with stderr.status("loading" if not specification.train else "loading and training"):
        setup = prepare(specification)
    stderr.print(Text(f"{setup.dataset.name}: {setup.dataset.report}"), soft_wrap=True)
    if setup.training:
        first, last = setup.training[0], setup.training[-1]
        stderr.print(
            f"trained {specification.train} epochs: mean loss {first:.4f} in the first, {last:.4f} in the last"
        )
    records, status = [], 0
    try:
        with _progress(stderr) as progress:
            bar = progress.add_task(specification.attack, total=len(setup.dataset.graphs), exact=0)
            for result in run(specification, setup):
                record = result_record(result, specification)
                records.append(record)
                if json_lines:
                    print(json.dumps(record), flush=True)
                if store is not None:
                    store.add(result, record, setup.dataset.space)
                if result.failure is not None:
                    status = FAILED
                    stderr.print(Text(f"graph {result.index}: the attack broke down\n{result.failure}"), soft_wrap=True)
                progress.update(bar, advance=1, exact=sum(r["exact"] for r in records))
    except KeyboardInterrupt:
        status = INTERRUPTED
        stderr.print("interrupted")
    finally:
        if records or status == INTERRUPTED:
            summary = summary_record(records, specification)
            if store is not None:
                store.append({"summary": summary})
            stdout.print(clients_table(records), summary_table(summary))
            if json_lines:
                print(json.dumps({"summary": summary}), flush=True)
        if store is not None:
            store.close()
    return status


@app.command()
def invert(
    file: Annotated[Path, typer.Argument(help="An observation written by jgleak.save.")],
    name: Annotated[str, typer.Option("--attack", help="The attack; see `jgleak list`.")] = "census",
    seed: _Seed = 0,
    time_limit: _Seconds = 60.0,
    n: Annotated[int | None, typer.Option(help="Number of nodes, where it is known.")] = None,
    options: Annotated[
        list[str] | None, typer.Option("--set", help="Options of the attack, as name=value (steps=300).")
    ] = None,
    prior: _Prior = "none",
    max_n: _MaxN = 40,
    noise: Annotated[
        float | None, typer.Option(help="Standard deviation of the noise on every entry, where the client added some.")
    ] = None,
    distinct: Annotated[bool, typer.Option("--distinct", help="Assume that all nodes of a client differ.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for reconstruction.json.")] = None,
    json_lines: _Json = False,
) -> None:
    """Attack a saved observation and print the graph it came from."""
    with _mistakes():
        out_file = None if out is None else _writable(out / "reconstruction.json")
        import dataclasses

        import jax

        from jgleak.attacks.attack import Budget
        from jgleak.attacks.registry import get_attack
        from jgleak.audit.certified import write
        from jgleak.audit.describe import describe
        from jgleak.audit.record import plain
        from jgleak.federated import Knowledge, load

        chosen = get_attack(name)
        if options:
            chosen = chosen.configure(dict(_pairs(options)))
        observation, space = load(file)
        if n is None and "n" in chosen.needs:
            raise ValueError(f"n: {name} needs the number of nodes; give --n")
        knowledge = Knowledge(space=space, n=n, max_nodes=max_n, distinct_nodes=distinct, prior=prior, noise=noise)
        begun = time.monotonic()
        with Console(stderr=True).status(name):
            found = chosen(observation, knowledge, key=jax.random.key(seed), budget=Budget(seconds=time_limit))
        record = plain(
            {
                "file": str(file),
                "attack": name,
                "graphs": [describe(g, space) for g in found.graphs],
                "gradient_distance": found.gradient_distance,
                "stop": found.stop,
                "certificate": None if found.certificate is None else dataclasses.asdict(found.certificate),
                "seconds": time.monotonic() - begun,
                "info": found.info,
                "version": __version__,
            }
        )
        if out_file is not None:
            write(out_file, found, file)
        if json_lines:
            print(json.dumps(record), flush=True)
        _show(found, space, Console(stderr=json_lines))


def _show(found: Reconstruction, space: FeatureSpace, console: Console) -> None:
    from jgleak.audit.table import certificate_text, graph_table

    if found.best is None:
        reason = found.info.get("reason")
        console.print(Text(f"nothing found ({found.stop}){f': {reason}' if reason else ''}"))
        console.print(
            "that is no evidence of safety: noise that clients add needs --noise, other defences other attacks"
        )
        return
    distance = "unknown" if found.gradient_distance is None else f"{found.gradient_distance:.1e}"
    console.print(graph_table(found.best, space))
    count = "1 candidate graph" if len(found.graphs) == 1 else f"{len(found.graphs)} candidate graphs, the best shown"
    console.print(Text(f"gradient distance {distance}; {count}; stopped: {found.stop}"))
    if found.certificate is not None:
        console.print(Text(certificate_text(found.certificate)))


@app.command()
def verify(
    file: Annotated[
        Path, typer.Argument(help="A reconstruction written by `jgleak attack --out` or `jgleak invert --out`.")
    ],
) -> None:
    """Check a certificate from scratch: recompute every listed graph's gradient, and that no two graphs are equal."""
    with _mistakes():
        from jgleak.audit.certified import verify as check

        report = check(file)
        typer.echo(report.text)
        raise typer.Exit(0 if report.holds else FAILED)


@app.command("list")
def show_list() -> None:
    """Name the attacks, defences, data sets, models, readouts, activations and what an attacker may know."""
    from jgleak.attacks.registry import ATTACKS
    from jgleak.audit.setup import READOUTS
    from jgleak.datasets import names, tasks
    from jgleak.defenses.registry import HYBRID, KINDS
    from jgleak.gnn import ACTIVATIONS, CONVOLUTIONS

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
    choices = {"models": CONVOLUTIONS, "readouts": READOUTS, "activations": ACTIVATIONS, "knowledge": KNOWABLE}
    for title, words in choices.items():
        typer.echo(f"{title:<22}{', '.join(words)}")


@contextmanager
def _mistakes() -> Iterator[None]:
    """A user's mistake is one line on standard error and exit status 2."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, KeyError, OSError) as error:
        message = error.args[0] if isinstance(error, KeyError) and error.args else str(error)
        typer.echo("error: " + " ".join(str(message).split()), err=True)
        raise typer.Exit(MISTAKE) from error
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _progress(console: Console) -> Progress:
    counts = TextColumn("{task.fields[exact]} exact")
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        counts,
        TimeElapsedColumn(),
        console=console,
    )


def _split(know: list[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for word in know or () for part in word.split(",") if part.strip())


def _pairs(options: list[str] | None) -> tuple[tuple[str, str], ...]:
    for option in options or ():
        if "=" not in option:
            raise ValueError(f"--set: expected name=value, got {option!r}")
    return tuple((name, value) for name, _, value in (option.partition("=") for option in options or ()))


def _writable(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as error:
        raise ValueError(f"out: cannot write {path} ({error.strerror}); choose another folder") from error
    return path
