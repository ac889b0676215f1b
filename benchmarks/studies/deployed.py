"""What deployed configurations leak, and which realistic thing stops it: ``python -m benchmarks.studies.deployed``.

Each model of ``jgleak check`` as its project configures it, then with realistic things taken away, one alone and the
fewest with which the census applies. Where it refuses there is nothing to run, and the reason is the result; where it
applies it attacks clients with molecules of Tox21, at random weights and after training on other molecules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Sequence
from typing import Annotated, NamedTuple

import typer

from benchmarks.lib.clients import attacked
from benchmarks.lib.options import chosen
from benchmarks.lib.page import interval, markdown
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Kept, Record
from benchmarks.lib.recovered import COLUMNS, recovered
from benchmarks.lib.recovered import cells as cells_of
from jgleak.attacks.registry import get_attack
from jgleak.audit.setup import Setup, prepare, stream_key, training_graphs
from jgleak.audit.specification import Specification
from jgleak.exposure.changes import OPENERS, Change, Neighbours
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.reading import DEPLOYED
from jgleak.federated.train import train
from jgleak.metrics import rate

COMMON = Specification(dataset="tox21", attack="census", prior="molecule", min_nodes=4, seed=7)

DATA = {"federatedscope-gcn": {"normalise": False}, "kmol-leconv": {"task": "all"}}
"""How the data differ: embeddings look raw values up, and kMoL learns all twelve tasks."""

EPOCHS = (0, 5, 20)
"""Passes over other molecules before the round, in the place of rounds of training."""

MOST = 16
"""Most graphs behind an update of a cell that is run: batches of 32 end by the clock (docs/batches.md)."""

CONFIGURED, FEWEST, LABORATORY = "as configured", "fewest", "laboratory"
"""Cells of every model beside single changes: the fewest with which the census applies, and these with one local
step."""

EXACT, APPROXIMATE, GUESS = "census", "dlg", "random"
"""Attacks: the two others read the clients of the laboratory as well, and gradient matching also a single graph of
which the census reads no update."""

ADDED = "a linear encoder before the first layer"
"""What opens attacks and takes nothing away."""

STEP, SINGLE = "one local step", "one graph an update"


class Cell(NamedTuple):
    """A deployed model with some things taken away.

    Attributes:
      model: a name of ``DEPLOYED``.
      changes: what is taken away, one after another.
      attack: what reads the updates.
    """

    model: str
    changes: tuple[Change, ...]
    attack: str = EXACT

    @property
    def words(self) -> str:
        """The changes, for people."""
        return "; ".join(change.name for change in self.changes) or CONFIGURED


def cells(model: str, deployment: Deployment) -> dict[str, Cell]:
    """By name: as configured, each realistic thing away that is there, and what the names above stand for."""
    around, census = Neighbours(deployment), get_attack(EXACT)
    found = {f"{model}/{CONFIGURED}": Cell(model, ())}
    for change in OPENERS:
        if change.name != ADDED and around.after((change,)) is not deployment:
            found[f"{model}/{change.name}"] = Cell(model, (change,))
    fewest = around.opening(census)
    laboratory = (*fewest, *(change for change in OPENERS if change.name == STEP and change not in fewest))
    if len(fewest) > 1:
        found[f"{model}/{FEWEST}"] = Cell(model, fewest)
    if around.after(laboratory).clients.steps != around.after(fewest).clients.steps:
        found[f"{model}/{LABORATORY}"] = Cell(model, laboratory)
    found |= {f"{model}/{attack}": Cell(model, laboratory, attack) for attack in (APPROXIMATE, GUESS)}
    single = tuple(change for change in OPENERS if change.name == SINGLE)
    if _refused(around.after(single), EXACT) and not _refused(around.after(single), APPROXIMATE):
        found[f"{model}/{SINGLE}/{APPROXIMATE}"] = Cell(model, single, APPROXIMATE)
    return found


def _refused(deployment: Deployment, attack: str) -> str | None:
    return deployment.refusal(get_attack(attack))


class Sample(NamedTuple):
    """The clients of a cell.

    Attributes:
      specification: of their updates.
      setup: data, model and weights.
    """

    specification: Specification
    setup: Setup


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    models: Annotated[str, typer.Option(help="By commas.")] = ",".join(DEPLOYED),
    clients: Annotated[int, typer.Option(min=1, help="Clients a cell.")] = 20,
    epochs: Annotated[str, typer.Option(help="By commas.")] = ",".join(map(str, EPOCHS)),
    time_limit: Annotated[float, typer.Option(help="Seconds a client.")] = 60.0,
    again: Annotated[bool, typer.Option("--again", help="Also what this code has measured already.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Into results/deployed.jsonl and .md, cell by cell.")] = False,
) -> None:
    """One JSON line a cell and number of epochs; what stands in the records already is not run again."""
    kept = Kept("deployed", {"model": DEPLOYED, "cell": None, "epochs": None}, document, write=write)
    for model in chosen(models, dict(DEPLOYED), "--models"):
        for number in map(int, epochs.split(",")):
            for record in measured(model, number, clients, time_limit, () if again else kept):
                kept.put(record)


def measured(
    model: str,
    epochs: int,
    clients: int,
    time_limit: float,
    done: Container[Record],
) -> Iterator[Record]:
    """The cells of one model, trained for so many epochs, that are not done."""
    space = prepare(dataclasses.replace(COMMON, graphs=1, **DATA.get(model, {}))).dataset.space
    deployment = DEPLOYED[model].deployment(space)
    around = Neighbours(deployment)
    for name, cell in cells(model, deployment).items():
        after = around.after(cell.changes)
        reason = _refused(after, cell.attack)
        about = {"cell": name, "model": model, "changes": cell.words, "attack": cell.attack, "epochs": epochs}
        if about in done:
            continue
        if reason is None and after.clients.batch_size > MOST:
            reason = (
                f"it applies, and is not run: {after.clients.batch_size} graphs behind an update, {MOST} at most here"
            )
        if reason is not None:
            yield {**about, **provenance(), "refused": reason}
            continue
        sample = _sample(cell, after, epochs, clients, time_limit)
        records = attacked(*sample, name, lambda *_: None)
        limits = {"clients": clients, "graphs": len(records), "time_limit": time_limit}
        size = sample.specification.batch_size
        updates = [record["graph"] // size for record in records]
        similar = dataclasses.asdict(rate([record["gsm1"] for record in records], clusters=updates))
        found = recovered(records, sample.setup.training, size=size)
        yield {**about, **limits, **found, "gsm1": similar, "refused": None}


def _sample(cell: Cell, deployment: Deployment, epochs: int, clients: int, time_limit: float) -> Sample:
    """Clients as the deployment has them."""
    plan, local = deployment.clients, deployment.clients.local
    fields = {"graphs": clients * plan.batch_size, "batch_size": plan.batch_size}
    fields |= {"time_limit": time_limit, "train": epochs}
    if local is not None and local.steps > 1:
        fields |= {"protocol": "fedavg", "local_steps": local.steps, "local_rate": local.rate}
        fields |= {
            "local_momentum": local.momentum,
            "local_weight_decay": local.weight_decay,
            "local_loader": local.loader or 0,
        }
    if cell.attack != EXACT:
        fields |= {"attack": cell.attack, "know": ("n",)}
    specification = dataclasses.replace(COMMON, **fields, **DATA.get(cell.model, {}))
    setup = prepare(dataclasses.replace(specification, train=0))
    model = deployment.model
    params, losses = model.initial(key=stream_key(specification, 0)), list[float]()
    if epochs:
        public = training_graphs(specification, setup.dataset, model)
        params, losses = train(model, params, public, setup.dataset.space, loss=setup.loss, epochs=epochs)
    return Sample(specification, setup._replace(model=model, params=params, training=losses))


def document(lines: Sequence[Record]) -> str:
    """The page."""
    rows = [[f"`{x['model']}`", x["changes"], x["attack"], str(x["epochs"]), *_cells(x)] for x in lines]
    titles = ("model", "with", "attack", "epochs", *COLUMNS, "GSM-1")
    return f"# Deployed configurations\n\n{ABOUT}\n\n{markdown(titles, rows)}\n"


def _cells(line: Record) -> list[str]:
    if line["refused"] is not None:
        return [*[""] * (len(COLUMNS) - 1), line["refused"], ""]
    return [*cells_of(line), interval(line["gsm1"]) if "gsm1" in line else ""]


ABOUT = """\
Written by `python -m benchmarks.studies.deployed --write`; do not edit. The models of `jgleak check` as their projects
configure them, then with one realistic thing taken away, with the fewest that the census needs taken away (found by
`jgleak.exposure.changes`), and with these and a single local step. Where the attack refuses, nothing is run and the
reason stands in place of the reasons for what is not listed. Clients hold molecules of Tox21 (4 atoms or more, seed 7),
as many as an update has graphs; numbers of atoms and labels are unknown, candidates are ranked by chemistry. Weights
are random (0 epochs) or trained on other molecules, in the place of rounds of federated training. `dlg` and `random`
read the same clients and are told the number of atoms; `random` sees no gradient. `dlg` also reads updates of one graph
that the census refuses. Rates are of molecules, in percent, with 95 % intervals; *unique*: certified to be
the only one; *wrong*: of these, those beside another truth; *GSM-1*: GRAIN's similarity of the first graph to the
molecule (older records have none). Nothing was tuned on these clients."""


if __name__ == "__main__":
    app()
