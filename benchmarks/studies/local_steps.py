"""The census after several local steps: ``python -m benchmarks.studies.local_steps``.

Each row is a model and a client's local training; molecules of Tox21 whose number of atoms is known, ranked by
chemistry. *One gradient* is the census that takes the same update for one gradient at the weights that the client got,
as it did before it followed the steps. The sample is that of seed 5; what was looked at during development was another
draw.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import typer

from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.records import RESULTS, Record, Records, read
from benchmarks.lib.recovered import COLUMNS, cells, recovered
from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.registry import get_attack
from jgleak.audit.round import AttackedClient, client
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.metrics.anonymity import truth_in_set
from jgleak.metrics.exact import exact

COMMON = Specification(
    dataset="tox21",
    attack="census",
    prior="molecule",
    know=("n",),
    min_nodes=4,
    max_nodes=40,
    protocol="fedavg",
    seed=5,
)

MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "grain": ("GRAIN's own, 2 x 300", {}),
    "grain-gelu": ("GRAIN's own, 2 x 300, GELU", {"activation": "gelu"}),
    "gcn": ("GCN 2 x 300, pooled", {"readout": "pooled", "head": 300, "last_activation": True}),
    "gcn-gelu": (
        "GCN 2 x 300, pooled, GELU",
        {"readout": "pooled", "head": 300, "last_activation": True, "activation": "gelu"},
    ),
}

STEPS, RATES = (1, 2, 5, 10), (0.001, 0.003, 0.01, 0.03)


READ_AS: Mapping[str, Sequence[str]] = {"steps": (), "one gradient": ("once",), "nothing": ("random",)}
"""How an update is read, and what the row's name says of that."""


class Row(NamedTuple):
    """A model and a client's local training.

    Attributes:
      model: a name of ``MODELS``.
      steps: how many.
      rate: learning rate.
      optimiser: what else a step has, as fields of ``Specification``.
      read_as: "steps"; "one gradient", at the weights that the client got; or "nothing", by a guess (``random``).
    """

    model: str
    steps: int
    rate: float
    optimiser: Mapping[str, Any] = {}
    read_as: str = "steps"

    @property
    def name(self) -> str:
        """What users type."""
        words = [self.model, str(self.steps), f"{self.rate:g}"]
        return "-".join([*words, *(["sgdm"] if self.optimiser else []), *READ_AS[self.read_as]])


def _rows() -> Iterator[Row]:
    for read_as in ("steps", "one gradient"):
        for model in ("grain", "gcn"):
            yield from (Row(model, steps, rate, read_as=read_as) for steps in STEPS for rate in RATES)
            yield Row(model, 5, 0.001, {"local_momentum": 0.9, "local_decay": 1e-4}, read_as)
        yield from (Row(model, 5, 0.01, read_as=read_as) for model in ("grain-gelu", "gcn-gelu"))
    yield Row("grain", 1, 0.001, read_as="nothing")


ROWS = {row.name: row for row in _rows()}

ABOUT = """\
Written by `python -m benchmarks.studies.local_steps --write`; do not edit. A client makes *E* steps of gradient descent
on one molecule of Tox21 (4 to 40 atoms, seed 5), all random weights; the census knows the number of atoms and ranks by
chemistry (`--prior molecule`). *One gradient*: the same update taken for one gradient at the weights that the client
got; *nothing*: a guess (`random`) that is told the number of atoms and sees no gradient. *Exact*: the first graph
listed is the molecule; *in set*: it is listed; *unique*: certified to be the only one; *wrong*: of these, those beside
another truth. Rates in percent with 95 % bootstrap intervals."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rows: Annotated[str | None, typer.Option(help="By commas; all by default.")] = None,
    graphs: Annotated[int, typer.Option(min=1, help="Molecules a row.")] = 50,
    time_limit: Annotated[float, typer.Option(help="Seconds a molecule.")] = 60.0,
    write: Annotated[bool, typer.Option("--write", help="Into results/local_steps.jsonl and .md.")] = False,
) -> None:
    """One JSON line a row; rows that are not asked for keep their records."""
    old = {line["row"]: line for line in read(RESULTS / "local_steps.jsonl")}
    for name in chosen(rows, ROWS, "--rows"):
        old[name] = measured(ROWS[name], graphs, time_limit)
        records = Records(old[key] for key in sorted(old, key=list(ROWS).index))
        Records().say(old[name])
        if write:
            records.write("local_steps", document(records))


def measured(row: Row, graphs: int, time_limit: float) -> Record:
    """One row."""
    fields = {**MODELS[row.model][1], **row.optimiser}
    training = {"local_steps": row.steps, "local_rate": row.rate, "graphs": graphs, "time_limit": time_limit}
    specification = dataclasses.replace(COMMON, **fields, **training)
    setup = prepare(specification)
    clients = [_attacked(client(specification, setup, i), row.read_as, time_limit) for i in range(graphs)]
    about = {"row": row.name, "graphs": graphs, "time_limit": time_limit, "seed": specification.seed}
    return about | recovered(clients, ())


def _attacked(one: AttackedClient, read_as: str, seconds: float) -> Record:
    """The record of one client."""
    seen, truth, begun = one.observation, one.truths[0], time.monotonic()
    if read_as == "one gradient":
        seen = dataclasses.replace(seen, protocol="fedsgd", local=None)
    attack = get_attack("random" if read_as == "nothing" else "census")
    found: Reconstruction = attack(seen, one.knowledge, key=jax.random.key(0), budget=Budget(seconds=seconds))
    return {
        "exact": found.best is not None and exact(truth, found.best),
        "truth_in_set": truth_in_set(truth, found.graphs),
        "certificate": None if found.certificate is None else dataclasses.asdict(found.certificate),
        "stop": found.stop,
        "n_nodes": truth.n,
        "seconds": time.monotonic() - begun,
        "failure": None,
    }


def document(lines: Sequence[Record]) -> str:
    """The page."""
    table = []
    for line in lines:
        row = ROWS[line["row"]]
        optimiser = "momentum .9, decay 1e-4" if row.optimiser else "plain"
        table.append([MODELS[row.model][0], str(row.steps), f"{row.rate:g}", optimiser, row.read_as, *cells(line)])
    columns = ("model", "E", "rate", "steps are", "read as", *COLUMNS)
    return f"# Several local steps\n\n{ABOUT}\n\n{markdown(columns, table)}\n"


if __name__ == "__main__":
    app()
