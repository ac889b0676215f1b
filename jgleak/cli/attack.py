"""``jgleak attack``: one attack on the clients of one data set."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from jgleak.audit.specification import KNOWABLE, PROTOCOLS, Specification
from jgleak.cli.options import Json, MaxN, PriorOption, Seconds, Seed, Workers, pairs, split
from jgleak.cli.status import FAILED, mistakes, status_of

if TYPE_CHECKING:
    from jgleak.audit.setup import Setup


def attack(
    name: Annotated[str, typer.Argument(help="The attack; see `jgleak list`.")] = "census",
    dataset: Annotated[str, typer.Option(help="The data set; see `jgleak list`.")] = "embedded",
    task: Annotated[
        str | None, typer.Option(help="What is learnt; see jgleak list, which also has all at once.")
    ] = None,
    path: Annotated[Path | None, typer.Option(help="Where the data set's files are.")] = None,
    graphs: Annotated[int | None, typer.Option(help="How many clients.")] = None,
    min_nodes: Annotated[int | None, typer.Option(help="Smallest client.")] = None,
    max_nodes: Annotated[int | None, typer.Option(help="Largest client.")] = None,
    model: Annotated[str, typer.Option(help="Convolution, such as gcn; see jgleak list.")] = "gcn",
    layers: Annotated[int, typer.Option(help="Number of convolutions.")] = 2,
    hidden: Annotated[int, typer.Option(help="Width of the convolutions.")] = 300,
    heads: Annotated[int, typer.Option(help="Attention heads (gat, gatv2).")] = 2,
    activation: Annotated[str, typer.Option(help="relu, gelu, sigmoid or tanh.")] = "relu",
    readout: Annotated[str, typer.Option(help="Such as node_mlp or pooled; see jgleak list.")] = "node_mlp",
    pooling: Annotated[str, typer.Option(help="mean, sum or max, or several as mean,sum (pooled readout).")] = "mean",
    head: Annotated[int, typer.Option(help="Width of a map before the output's (pooled readout); 0 for none.")] = 0,
    norm: Annotated[str, typer.Option(help="Of every layer: none, batch, layer or graph.")] = "none",
    norm_mode: Annotated[
        str, typer.Option(help="Of batch normalisation: eval, or train (statistics of the batch, which come back too).")
    ] = "eval",
    residual: Annotated[str, typer.Option(help="Past every layer: none, add or linear.")] = "none",
    jump: Annotated[str, typer.Option(help="Layers that the readout sees: last, cat, max or sum.")] = "last",
    encoder: Annotated[str, typer.Option(help="Before the first layer: rows, linear or embedding.")] = "rows",
    dropout: Annotated[float, typer.Option(help="Share of entries masked after activations; 0 for none.")] = 0.0,
    frozen: Annotated[
        list[str] | None, typer.Option(help="Parts that clients do not train, by commas: encoder, layers_0, readout.")
    ] = None,
    bonds: Annotated[bool, typer.Option("--bonds", help="Tell bond types apart (--model gine).")] = False,
    last_activation: Annotated[
        bool, typer.Option("--last-activation", help="Apply the activation after the last convolution too.")
    ] = False,
    bias: Annotated[bool, typer.Option("--bias", help="Give the convolutions a bias.")] = False,
    loss: Annotated[str | None, typer.Option(help="As bce or ce+smoothing:0.1; by default what fits the task.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Features as they are in the data, not normalised.")] = False,
    protocol: Annotated[
        str | None, typer.Option(help=f"What clients send: {', '.join(PROTOCOLS)}; by default what the attack reads.")
    ] = None,
    local_steps: Annotated[int, typer.Option(help="Steps of gradient descent on a client (fedavg).")] = 1,
    local_rate: Annotated[float, typer.Option(help="Their learning rate (fedavg).")] = 0.1,
    local_momentum: Annotated[float, typer.Option(help="Their momentum (fedavg).")] = 0.0,
    local_decay: Annotated[float, typer.Option(help="Their weight decay (fedavg).")] = 0.0,
    local_loader: Annotated[int, typer.Option(help="Graphs of a step (fedavg); 0: all of the client's.")] = 0,
    batch: Annotated[int, typer.Option(help="Graphs of one client, whose update is their mean.")] = 1,
    defense: Annotated[
        str, typer.Option(help="What clients do before anything leaves, as clip:1+gaussian:0.1; see `jgleak list`.")
    ] = "",
    train: Annotated[int, typer.Option(help="Epochs of training on other graphs of the data set first.")] = 0,
    seed: Seed = 0,
    time_limit: Seconds = 60.0,
    know: Annotated[
        list[str] | None, typer.Option(help=f"What the attacker is given, by commas: {', '.join(KNOWABLE)}.")
    ] = None,
    auxiliary: Annotated[
        str, typer.Option(help="Public graphs: same, split:1.0, random:0.05:normal, or another data set.")
    ] = "same",
    options: Annotated[
        list[str] | None, typer.Option("--set", help="Options of the attack, as name=value (steps=300).")
    ] = None,
    prior: PriorOption = "auto",
    max_n: MaxN = None,
    node_task: Annotated[bool, typer.Option("--node-task", help="Label nodes instead of graphs.")] = False,
    no_distinct: Annotated[
        bool, typer.Option("--no-distinct", help="Do not assume that the nodes of a network's client differ.")
    ] = False,
    no_degree: Annotated[bool, typer.Option("--no-degree", help="Leave the degree out of the features.")] = False,
    no_attributes: Annotated[
        bool,
        typer.Option("--no-attributes", help="Leave the real-valued features out; labels of nodes stay, or degrees."),
    ] = False,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results.jsonl, observations and pictures.")] = None,
    json_lines: Json = False,
) -> None:
    """Attack the simulated clients of a data set, and say how much of their graphs came back."""
    stderr, stdout = Console(stderr=True), Console(stderr=json_lines)
    with mistakes():
        given = split(know)
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
            head=head,
            norm=None if norm == "none" else norm,
            norm_mode=norm_mode,
            residual=None if residual == "none" else residual,
            jump=jump,
            encoder=encoder,
            dropout=dropout,
            frozen=split(frozen),
            bonds=bonds,
            last_activation=last_activation,
            bias=bias,
            loss=loss,
            normalise=not raw,
            protocol=protocol,
            local_steps=local_steps,
            local_rate=local_rate,
            local_momentum=local_momentum,
            local_decay=local_decay,
            local_loader=local_loader,
            batch=batch,
            defense=defense,
            train=train,
            seed=seed,
            time_limit=time_limit,
            attack=name,
            know=given,
            auxiliary=auxiliary,
            options=pairs(options),
            node_task=node_task,
            distinct=not no_distinct,
            degree=not no_degree,
            attributes=not no_attributes,
            prior=prior,
            max_n=max_n,
        )
        raise typer.Exit(_audit(specification, workers, out, json_lines, stderr, stdout))


def _audit(
    specification: Specification,
    workers: int | None,
    out: Path | None,
    json_lines: bool,
    stderr: Console,
    stdout: Console,
) -> int:
    """Run, show and store; the exit status. Whatever ends the run, the finished clients are summarised."""
    from jgleak.audit.experiment import run
    from jgleak.audit.record import result_record, summary_record
    from jgleak.audit.store import Store
    from jgleak.audit.table import clients_table, reasons, summary_table

    store = None if out is None else Store(out)
    records, summary, status, said = [], {}, 0, None
    try:
        setup = _prepared(specification, stderr)
        with _progress(stderr) as progress:
            bar = progress.add_task(specification.attack, total=len(setup.dataset.graphs), exact=0)
            for result in run(specification, setup, workers=workers):
                record = result_record(result, specification)
                records.append(record)
                if json_lines:
                    print(json.dumps(record), flush=True)
                if store is not None:
                    store.add(result, record, setup.dataset.space)
                if result.failure is not None:
                    status = FAILED
                    what = "the attack broke down\n" if result.observation is not None else ""
                    told = what + result.failure if result.failure != said else "the same"
                    stderr.print(Text(f"graph {result.index}: {told}"), soft_wrap=True)
                    said = result.failure
                progress.update(bar, advance=1, exact=sum(r["exact"] for r in records))
    except KeyboardInterrupt as error:
        status = status_of(error)
        stderr.print("interrupted")
    finally:
        if records:
            records.sort(key=lambda record: record["graph"])
            summary = summary_record(records, specification)
            stdout.print(clients_table(records), summary_table(summary))
            for line in reasons(records):
                stdout.print(Text(line), soft_wrap=True)
            if json_lines:
                print(json.dumps({"summary": summary}), flush=True)
        if store is not None:
            with closing(store):
                if records:
                    store.append({"summary": summary})
    return status


def _prepared(specification: Specification, stderr: Console) -> Setup:
    """Data, model and what led to its parameters, with what there is to say of them."""
    from jgleak.audit.setup import prepare

    with stderr.status("loading" if not specification.train else "loading and training"):
        setup = prepare(specification)
    stderr.print(Text(f"{setup.dataset.name}: {setup.dataset.report}"), soft_wrap=True)
    short = len(setup.dataset.graphs) % specification.batch
    if short:
        stderr.print(f"batch: the last client has {short} of {specification.batch} graphs")
    if setup.training:
        first, last = setup.training[0], setup.training[-1]
        stderr.print(
            f"trained {specification.train} epochs: mean loss {first:.4f} in the first, {last:.4f} in the last"
        )
    return setup


def _progress(console: Console) -> Progress:
    counts = TextColumn("{task.fields[exact]} exact")
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        counts,
        TimeElapsedColumn(),
        console=console,
        redirect_stdout=False,
    )
