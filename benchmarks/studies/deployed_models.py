"""The census on models as federated projects configure them: ``python -m benchmarks.studies.deployed_models``.

Each row is a model of ``ROWS``, at random weights or after training on other molecules; molecules of Tox21 of any
size, their number of atoms unknown, ranked by chemistry. The sample is that of seed 2: the census was changed after a
look at some molecules of seeds 0 and 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from benchmarks.lib.clients import attacked
from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.records import Kept, Record
from benchmarks.lib.recovered import COLUMNS, cells, recovered
from jgleak.audit.setup import prepare, stream_key, training_graphs
from jgleak.audit.specification import Specification
from jgleak.federated.train import train
from jgleak.gnn import GNN, MLP, NodeMLP, Pooled

COMMON = Specification(dataset="tox21", attack="census", prior="molecule", hidden=128, bias=True, seed=2)


class Row(NamedTuple):
    """A model.

    Attributes:
      title: what it is, and whose.
      specification: its parts, as the command line has them.
      changed: what the command line has no word for.
    """

    title: str
    specification: Specification
    changed: Callable[[GNN], GNN] = lambda model: model


def _row(title: str, changed: Callable[[GNN], GNN] = lambda model: model, **fields: Any) -> Row:
    return Row(title, dataclasses.replace(COMMON, **fields), changed)


GIN: Mapping[str, Any] = dict(model="gin", norm="batch", layers=3, hidden=64, readout="pooled", last_activation=True)

LECONV: Mapping[str, Any] = dict(
    model="leconv",
    task="all",
    hidden=96,
    norm="batch",
    residual="linear",
    readout="pooled",
    pooling="sum",
    last_activation=True,
)

ROWS: Mapping[str, Row] = {
    "gatv2": _row("GATv2, 2 x 128", model="gatv2"),
    "gin-batchnorm": _row("GIN + BatchNorm in evaluation mode, 3 x 64 (OpenFGL)", **GIN),
    "gin-batchnorm-train": _row(
        "GIN + BatchNorm in training mode, buffers returned, 3 x 64 (OpenFGL, FedGraph)", norm_mode="train", **GIN
    ),
    "gcn-embeddings": _row(
        "GCN 2 x 64, embeddings, sum pooling, ReLU head (FederatedScope)",
        lambda model: model.clone(readout=Pooled("sum", MLP((64, 2)))),
        hidden=64,
        encoder="embedding",
        normalise=False,
        readout="pooled",
        pooling="sum",
        last_activation=True,
    ),
    "sage": _row(
        "GraphSAGE 2 x 256, a head a node on [x | h] (FedGraphNN)",
        lambda model: model.clone(readout=NodeMLP(MLP((256, 2)))),
        model="sage",
        hidden=256,
    ),
    "gcn-layernorm": _row("GCN 2 x 128, LayerNorm, added rows", norm="layer", residual="add", encoder="linear"),
    "gcn-cat": _row("GCN 2 x 128, jumping knowledge cat", jump="cat"),
    "leconv": _row(
        "LEConv 3 x 96, linear residuals, BatchNorm, 12 tasks, sum pooling alone (kMoL, shortened)", layers=3, **LECONV
    ),
    "leconv-7": _row("LEConv 7 x 96, the same (kMoL)", layers=7, **LECONV),
    "gine": _row("GINE 2 x 128, bond types", model="gine", bonds=True, encoder="linear"),
    "random": _row("`random`, told the size, no gradient", attack="random", know=("n",)),
}

ABOUT = """\
Written by `python -m benchmarks.studies.deployed_models --write`; do not edit. The census on molecules of Tox21 (seed
2, any size), numbers of atoms unknown, ranked by chemistry (`--prior molecule`); so many molecules, and seconds each.
*Exact*: the first graph listed is the molecule, bond types included where the model sees them; *in set*: it is listed;
*unique*: certified to be the only one; *wrong*: of these, those beside another truth. Rates in percent with 95 %
intervals. Three things were added to the census after a look at molecules of other samples (seeds 0 and 1):
the screen by mixed rows (LayerNorm), an attempt without a check of the last hop (GIN in evaluation mode), tolerances
for the rounding of running statistics (GIN in training mode). Of this sample it was known that a bound of 40 atoms,
which went because of ClinTox, lost one molecule. The GIN missed another one of six atoms, a tree of two equal
halves, whose nodes it hides; the search for hidden nodes was mended for such trees after a look at it, and the GIN's
rows were measured again."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rows: Annotated[str, typer.Option(help="By commas.")] = ",".join(ROWS),
    graphs: Annotated[int, typer.Option(min=1, help="Molecules a row.")] = 50,
    epochs: Annotated[str, typer.Option(help="Epochs of training on other molecules, by commas.")] = "0,20",
    time_limit: Annotated[float, typer.Option(help="Seconds a molecule.")] = 60.0,
    write: Annotated[bool, typer.Option("--write", help="Into results/deployed_models.jsonl and .md.")] = False,
) -> None:
    """One JSON line a row and number of epochs; rows that are not asked for keep their records."""
    kept = Kept("deployed_models", {"row": ROWS, "epochs": None}, document, write=write)
    for name in chosen(rows, ROWS, "--rows"):
        for number in map(int, epochs.split(",")):
            kept.put(measured(name, graphs, number, time_limit))


def measured(name: str, graphs: int, epochs: int, time_limit: float) -> Record:
    """One row."""
    row = ROWS[name]
    specification = dataclasses.replace(row.specification, graphs=graphs, time_limit=time_limit)
    setup = prepare(specification)
    model = row.changed(setup.model)
    params, losses = model.initial(key=stream_key(specification, 0)), list[float]()
    if epochs:
        public = training_graphs(dataclasses.replace(specification, train=epochs), setup.dataset, model)
        params, losses = train(model, params, public, setup.dataset.space, loss=setup.loss, epochs=epochs)
    setup = setup._replace(model=model, params=params)
    clients = attacked(specification, setup, name, lambda *_: None)
    about = {"row": name, "epochs": epochs, "graphs": graphs, "time_limit": time_limit}
    return about | recovered(clients, losses)


def document(lines: Sequence[Record]) -> str:
    """The page."""
    rows = [[ROWS[line["row"]].title, str(line["epochs"]), *cells(line)] for line in lines]
    return f"# Models as they are deployed\n\n{ABOUT}\n\n{markdown(('model', 'epochs', *COLUMNS), rows)}\n"


if __name__ == "__main__":
    app()
