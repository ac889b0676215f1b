"""The census on a trained GCN with raw 0/1 columns: ``python -m benchmarks.studies.trained_layers``.

Training makes nodes light the same units, so that the gradients of the convolutions span fewer dimensions than the rows
that entered them; raw columns hide more than normalised ones. The model is the one that people build from PyTorch
Geometric: two GCN layers with biases, ReLU after each, the mean over nodes, two linear layers, trained by Adam on other
molecules of Tox21.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from benchmarks.lib.page import markdown
from benchmarks.lib.records import Kept, Record, Records
from benchmarks.lib.recovered import COLUMNS, cells, recovered
from jgleak.audit.experiment import run
from jgleak.audit.record import result_record
from jgleak.audit.setup import Setup, prepare, stream_key, training_graphs
from jgleak.audit.specification import Specification
from jgleak.federated.train import train
from jgleak.gnn import MLP, Pooled

COMMON = Specification(
    dataset="tox21",
    attack="census",
    prior="molecule",
    normalise=False,
    bias=True,
    readout="pooled",
    last_activation=True,
)

HEAD = 64
"""Width of the first linear layer of the readout."""

ABOUT = """\
Written by `python -m benchmarks.studies.trained_layers --write`; do not edit. The census on molecules of Tox21 of any
size (seed 19, on which nothing was developed), their number of atoms unknown, ranked by chemistry (`--prior molecule`),
the atoms as raw 0/1 columns; the model is two GCN layers, the mean over nodes, and two linear layers, after so many
epochs of training on other molecules. `random` is told the number of atoms and sees no gradient. *Exact*: the first
graph listed is the molecule; *in set*: it is listed; *unique*: certified to be the only one; *wrong*: of these, those
beside another truth. Rates in percent with 95 % intervals. One process, beside other work on both cores:
where time ran out, more would have been found."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    width: Annotated[str, typer.Option(help="Widths of the convolutions, by commas.")] = "128,300",
    epochs: Annotated[str, typer.Option(help="Epochs of training, by commas.")] = "1,3,5,20,60",
    graphs: Annotated[int, typer.Option(min=1, help="Molecules of each.")] = 50,
    seed: Annotated[int, typer.Option(help="Draws the molecules and the first weights.")] = 19,
    attack: Annotated[str, typer.Option(help="'census', or 'random', told the number of atoms.")] = COMMON.attack,
    max_n: Annotated[int | None, typer.Option(help="Most atoms looked for.")] = COMMON.max_n,
    time_limit: Annotated[float, typer.Option(help="Seconds a molecule.")] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="One line a molecule instead of one a model.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Into results/trained_layers.jsonl and .md.")] = False,
) -> None:
    """One JSON line a width and number of epochs, or one a molecule."""
    kept = Kept("trained_layers", {"attack": None, "width": None, "epochs": None}, document, write=write)
    for wide in map(int, width.split(",")):
        for number in map(int, epochs.split(",")):
            told = () if attack == COMMON.attack else ("n",)
            about: dict[str, Any] = {"attack": attack, "know": told, "hidden": wide, "graphs": graphs, "seed": seed}
            specification = dataclasses.replace(COMMON, **about, max_n=max_n, time_limit=time_limit)
            setup = trained(specification, number)
            clients = list[Record]()
            for result in run(specification, setup):
                clients.append(result_record(result, specification))
                if json:
                    Records().say({"width": wide, "epochs": number, **_said(clients[-1])})
            kept.put(summary(specification, number, clients, setup.training), say=not json)


def trained(specification: Specification, epochs: int) -> Setup:
    """The clients, and a model after so many epochs on molecules that are none of them."""
    setup = prepare(specification)
    model = setup.model.clone(readout=Pooled("mean", MLP((HEAD, setup.dataset.classes))))
    params, losses = model.initial(key=stream_key(specification, 0)), list[float]()
    if epochs:
        public = training_graphs(dataclasses.replace(specification, train=epochs), setup.dataset, model)
        space, seed = setup.dataset.space, specification.seed
        params, losses = train(model, params, public, space, loss=setup.loss, epochs=epochs, seed=seed)
    return setup._replace(model=model, params=params, training=tuple(losses))


def _said(client: Record) -> Record:
    """What there is to know of one molecule."""
    certificate, info = client["certificate"] or {}, client["info"]
    return {
        "name": client["name"],
        "atoms": client["n_nodes"],
        "exact": client["exact"],
        "in_set": client["truth_in_set"],
        "status": certificate.get("status"),
        "listed": certificate.get("size"),
        "stop": client["stop"],
        "reason": info.get("reason"),
        "seconds": round(client["seconds"], 1),
        **{name: info.get(name) for name in ("attempts", "nodes", "blocks", "null", "residual")},
        "facts": sorted(client["facts"]),
    }


def summary(specification: Specification, epochs: int, clients: Sequence[Record], losses: Sequence[float]) -> Record:
    """Of all clients of one model."""
    about: Record = {"attack": specification.attack, "width": specification.hidden, "epochs": epochs}
    about |= {name: getattr(specification, name) for name in ("graphs", "seed", "max_n", "time_limit")}
    return about | recovered(clients, losses)


def document(lines: Sequence[Record]) -> str:
    """The page."""
    rows = [[f"`{line['attack']}`", str(line["width"]), str(line["epochs"]), *cells(line)] for line in lines]
    return (
        f"# Trained models with raw columns\n\n{ABOUT}\n\n{markdown(('attack', 'width', 'epochs', *COLUMNS), rows)}\n"
    )


if __name__ == "__main__":
    app()
