"""``jgleak attack``: one attack on the clients of one data set."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from jgleak.audit.specification import ENCODERS, KNOWABLE, NORM_MODES, PROTOCOLS, Specification
from jgleak.cli import options as option
from jgleak.cli.progress import bar
from jgleak.cli.status import FAILED, last_words, mistakes, status_of
from jgleak.igraph_alone import import_igraph
from jgleak.plural import counted

if TYPE_CHECKING:
    from jgleak.audit.setup import Setup
    from jgleak.audit.workers import Processes


WRITTEN = (
    "results.jsonl (a line for each graph, and the summary), observations/ (what the server saw), reconstructions/ "
    "(graphs and certificates, for jgleak verify), pictures (NNN.png, one for each graph)"
)
"""What ``--out`` holds."""


def attack(
    name: Annotated[
        str, typer.Argument(help="The attack; see `jgleak list`.", autocompletion=option.attacks)
    ] = "census",
    dataset: Annotated[
        str, option.data(help="The data set; see `jgleak list`.", autocompletion=option.datasets)
    ] = "embedded",
    task: Annotated[
        str | None,
        option.data(help="The task to learn; see `jgleak list`; all: all tasks at once, where there are several."),
    ] = None,
    node_task: Annotated[
        bool,
        option.data("--node-task", help="Label nodes instead of graphs: as in the data set, else by cycles."),
    ] = False,
    path: Annotated[Path | None, option.DATASET_FILES] = None,
    graphs: Annotated[
        int | None,
        option.data(
            help="How many graphs, one a client but for --batch-size; by default all, or 100 of a network or generator."
        ),
    ] = None,
    min_nodes: Annotated[int | None, option.data(help="Fewest nodes of a client's graph.")] = None,
    max_nodes: Annotated[int | None, option.data(help="Most nodes of a client's graph.")] = None,
    bonds: Annotated[bool, option.data("--bonds", help="Distinguish bond types (--model gine).")] = False,
    normalise: Annotated[
        bool, option.data(help="Subtract every feature's mean, and divide by its deviation; without, columns are raw.")
    ] = True,
    degree: Annotated[bool, option.data(help="Keep the degree among the features.")] = True,
    attributes: Annotated[
        bool, option.data(help="Keep the real-valued features; without, labels of nodes stay, or degrees.")
    ] = True,
    model: Annotated[
        str, option.model(help="Convolution, such as gcn; see `jgleak list`.", autocompletion=option.convolutions)
    ] = "gcn",
    layers: Annotated[int, option.model(help="Number of convolutions.")] = 2,
    hidden: Annotated[int, option.model(help="Width of the convolutions.")] = 300,
    heads: Annotated[int, option.model(help="Attention heads (gat, gatv2).")] = 2,
    activation: Annotated[
        str,
        option.model(help="relu, gelu, gelu_tanh, sigmoid, tanh, elu, identity.", autocompletion=option.activations),
    ] = "relu",
    readout: Annotated[
        str, option.model(help="Such as node_mlp or pooled; see `jgleak list`.", autocompletion=option.readouts)
    ] = "node_mlp",
    pooling: Annotated[str, option.model(help="mean, sum or max, or several as mean,sum (pooled readout).")] = "mean",
    head: Annotated[
        int, option.model(help="Width of a map before that of the output (pooled readout); 0 for none.")
    ] = 0,
    norm: Annotated[
        str,
        option.model(help="Normalisation of every layer: none, batch, layer or graph.", autocompletion=option.norms),
    ] = "none",
    norm_mode: Annotated[
        str,
        option.model(
            help="Mode of batch normalisation: eval, or train (the batch's statistics, which clients return too).",
            autocompletion=option.complete(NORM_MODES),
        ),
    ] = "eval",
    residual: Annotated[
        str,
        option.model(
            help="What is added to every layer's output: none, add (its input) or linear (a linear map of its input).",
            autocompletion=option.residuals,
        ),
    ] = "none",
    jump: Annotated[
        str, option.model(help="Layers that the readout sees: last, cat, max or sum.", autocompletion=option.jumps)
    ] = "last",
    encoder: Annotated[
        str,
        option.model(
            help="The encoder before the first layer: rows (none), linear or embedding.",
            autocompletion=option.complete(ENCODERS),
        ),
    ] = "rows",
    dropout: Annotated[float, option.model(help="Share of entries masked after activations; 0 for none.")] = 0.0,
    frozen: Annotated[
        list[str] | None,
        option.model(help="Parts that clients do not train, separated by commas: encoder, layers_0, readout."),
    ] = None,
    last_activation: Annotated[
        bool, option.model("--last-activation", help="Apply the activation after the last convolution too.")
    ] = False,
    bias: Annotated[bool, option.model("--bias", help="Give the convolutions a bias.")] = False,
    loss: Annotated[
        str | None, option.model(help="Loss, such as bce or ce+smoothing:0.1; by default the one for the task.")
    ] = None,
    train: Annotated[int, option.model(help="Epochs of training on other graphs of the data set first.")] = 0,
    protocol: Annotated[
        str | None,
        option.client(
            help=f"What clients send: {', '.join(PROTOCOLS)}; by default one that the attack reads.",
            autocompletion=option.complete(PROTOCOLS),
        ),
    ] = None,
    batch_size: Annotated[int, option.client(help="Graphs of one client, whose update is their mean.")] = 1,
    local_steps: Annotated[int, option.LOCAL_STEPS] = 1,
    local_rate: Annotated[float, option.LOCAL_RATE] = 0.1,
    local_momentum: Annotated[float, option.LOCAL_MOMENTUM] = 0.0,
    local_weight_decay: Annotated[float, option.LOCAL_WEIGHT_DECAY] = 0.0,
    local_loader: Annotated[int, option.LOCAL_LOADER] = 0,
    defense: Annotated[str, option.DEFENSE] = "",
    know: Annotated[
        list[str] | None,
        option.knowledge(
            help=f"What the attacker knows, separated by commas: {', '.join(KNOWABLE)}.",
            autocompletion=option.complete(KNOWABLE),
        ),
    ] = None,
    max_n: option.MaxN = None,
    auxiliary: Annotated[
        str, option.knowledge(help="Public graphs: same, split:1.0, random:0.05:normal, or another data set.")
    ] = "same",
    prior: option.PriorOption = "auto",
    distinct_nodes: Annotated[
        bool, option.knowledge(help="Assume that the nodes of a network's client differ.")
    ] = True,
    options: option.Options = None,
    time_limit: option.Seconds = 60.0,
    seed: option.Seed = 0,
    workers: option.Workers = None,
    out: Annotated[
        Path | None, option.output(help="Folder for results.jsonl, observations, reconstructions and pictures.")
    ] = None,
    json_lines: option.Json = False,
) -> None:
    """Attack the simulated clients of a data set, and report how much of their graphs was rebuilt."""
    stderr, stdout = Console(stderr=True), Console(stderr=json_lines)
    with mistakes():
        given = option.split(know)
        if auxiliary != "same" and not auxiliary.startswith("split:") and "auxiliary" not in given:
            raise ValueError(f"--auxiliary: {auxiliary!r} is given to no attacker; add --know auxiliary")
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
            norm=norm,
            norm_mode=norm_mode,
            residual=residual,
            jump=jump,
            encoder=encoder,
            dropout=dropout,
            frozen=option.split(frozen),
            bonds=bonds,
            last_activation=last_activation,
            bias=bias,
            loss=loss,
            normalise=normalise,
            protocol=protocol,
            local_steps=local_steps,
            local_rate=local_rate,
            local_momentum=local_momentum,
            local_weight_decay=local_weight_decay,
            local_loader=local_loader,
            batch_size=batch_size,
            defense=defense,
            train=train,
            seed=seed,
            time_limit=time_limit,
            attack=name,
            know=given,
            auxiliary=auxiliary,
            options=option.pairs(options),
            node_task=node_task,
            distinct_nodes=distinct_nodes,
            degree=degree,
            attributes=attributes,
            prior=prior,
            max_n=max_n,
        )
        with _others(specification, workers) as started:
            raise typer.Exit(_audit(specification, workers, started, out, json_lines, stderr, stdout))


def _others(specification: Specification, workers: int | None) -> AbstractContextManager[Processes | None]:
    """The processes that share the clients with this one, where the number is known before data are loaded: they start
    while this one imports JAX and loads the data, and are not used if there are few clients."""
    from jgleak.audit.workers import Processes, most
    from jgleak.names.attacks import SEARCHES

    if specification.attack not in SEARCHES or (workers and specification.graphs is None):
        return nullcontext()
    clients = sys.maxsize if specification.graphs is None else -(-specification.graphs // specification.batch_size)
    number = min(workers or most(clients), clients) - 1
    return Processes(number, here=True, module="jgleak.audit.experiment") if number > 0 else nullcontext()


def _audit(
    specification: Specification,
    workers: int | None,
    started: Processes | None,
    out: Path | None,
    json_lines: bool,
    stderr: Console,
    stdout: Console,
) -> int:
    """Run the attack, show and store the results, and return the exit status. The finished clients are summarised
    however the run ends."""
    import_igraph()
    from jgleak.audit.experiment import chunks, run
    from jgleak.audit.record import result_record, summary_record
    from jgleak.audit.table import clients_table, compilation_line, reasons, summary_table

    store, records, status, said = None, [], 0, None
    if out is not None:
        from jgleak.audit.store import Store  # imported here: its drawing library takes long to import

        store = Store(out)

    def interrupted() -> None:
        kept = f"; what has finished is in {out}" if records and out is not None else ""
        again = "another run begins anew (an audit could be resumed)"
        stderr.print(Text(f"interrupted{kept}; {again}"), soft_wrap=True)

    def summarise() -> None:
        if not records:
            return
        records.sort(key=lambda record: record["graph"])
        summary = summary_record(records, specification)
        stdout.print(clients_table(records), summary_table(summary))
        for line in filter(None, (*reasons(records), compilation_line(records))):
            stdout.print(Text(line), soft_wrap=True)
        if json_lines:
            print(json.dumps({"summary": summary}), flush=True)
        if store is not None:
            store.append({"summary": summary})
            stderr.print(Text(f"written to {out}: {WRITTEN}"), soft_wrap=True)

    try:
        setup = _prepared(specification, stderr)
        graphs = len(setup.dataset.graphs)
        side_by_side = len(chunks(specification, graphs)[0])
        several = f", {side_by_side} clients side by side" if side_by_side > 1 else ""
        doing = f"{specification.attack}{several}, {specification.time_limit:g} s a client at most"
        with last_words(interrupted, summarise), bar(stderr, "exact") as progress:
            task = progress.add_task(doing, total=graphs, exact=0)
            for result in run(specification, setup, workers=workers, started=started):
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
                progress.update(task, advance=1, exact=sum(r["exact"] for r in records))
    except KeyboardInterrupt as error:
        status = status_of(error)
        interrupted()
    finally:
        with closing(store) if store is not None else nullcontext():
            summarise()
    return status


def _prepared(specification: Specification, stderr: Console) -> Setup:
    """Prepare data, model and parameters, and report them on standard error."""
    from jgleak.audit.clients import makes_labels_up
    from jgleak.audit.setup import prepare

    with stderr.status("loading" if not specification.train else "loading and training"):
        setup = prepare(specification)
    stderr.print(Text(f"{setup.dataset.name}: {setup.dataset.report}"), soft_wrap=True)
    if makes_labels_up(specification):
        said = f"node labels: not those of {setup.dataset.name}; they say whether a node lies on a cycle"
        stderr.print(Text(said), soft_wrap=True)
    short = len(setup.dataset.graphs) % specification.batch_size
    if short:
        stderr.print(f"batch: the last client has {short} of {specification.batch_size} graphs")
    if setup.training:
        first, last = setup.training[0], setup.training[-1]
        stderr.print(
            f"trained for {counted(specification.train, 'epoch')}: mean loss {first:.4f} in the first, {last:.4f} in "
            "the last"
        )
    return setup
