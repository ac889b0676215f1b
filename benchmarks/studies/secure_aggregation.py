"""What a server learns that sees only the sum of k clients: ``python -m benchmarks.studies.secure_aggregation``.

Every client has one molecule and computes its own gradient; the server sees the sum, in fixed point. The clients, the
model and the limits are those of ``benchmarks.studies.batches``, row ``gcn-300-k``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
import typer

from benchmarks.lib.options import chosen
from benchmarks.lib.page import interval, markdown
from benchmarks.lib.records import Kept, Record
from benchmarks.lib.recovered import recovered
from benchmarks.studies.batches import ROWS
from jgleak.audit.experiment import Result, attack_clients
from jgleak.audit.record import result_record
from jgleak.audit.round import chosen_attack, client
from jgleak.audit.setup import Setup, prepare
from jgleak.audit.specification import Specification
from jgleak.federated.secure import FixedPoint, summed

CODE = FixedPoint(bound=8.0, fraction=40)
"""Steps that change nothing beside rounding to float32; coarser ones are noise."""

GUESS = "random-8"
"""A guess that is told the sizes and reads no update, about the clients of the largest sums."""

SUMS = {**{str(size): size for size in (1, 2, 4, 8)}, GUESS: 8}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    sums: Annotated[str, typer.Option(help="Numbers of clients in a sum, by commas.")] = ",".join(SUMS),
    trials: Annotated[int, typer.Option(min=1, help="Sums a row.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the clients and the weights.")] = 0,
    time_limit: Annotated[float, typer.Option(help="Seconds a sum.")] = 60.0,
    write: Annotated[bool, typer.Option("--write", help="Into results/secure_aggregation.jsonl and .md.")] = False,
) -> None:
    """One JSON line a row; rows that are not asked for keep their records."""
    kept = Kept("secure_aggregation", {"row": SUMS}, document, write=write)
    for name in chosen(sums, SUMS, "--sums"):
        kept.put(measured(name, trials, seed, time_limit))


def measured(name: str, trials: int, seed: int, time_limit: float) -> Record:
    """One row."""
    size = SUMS[name]
    specification = ROWS[f"gcn-300-{size}"].specification(trials, seed, time_limit)
    if name == GUESS:
        specification = dataclasses.replace(specification, attack="random", know=("n",))
    setup = prepare(specification)
    clients = [
        result_record(result, specification)
        for first in range(0, len(setup.dataset.graphs), size)
        for result in attacked_sum(specification, setup, first)
    ]
    found = recovered(clients, setup.training, size=size)
    about = {"row": name, "clients": size, "graphs": len(clients), "time_limit": time_limit, "seed": seed}
    return {**about, **found, "seconds": float(np.median([c["seconds"] for c in clients]))}


def attacked_sum(specification: Specification, setup: Setup, first: int) -> Iterator[Result]:
    """The results of one sum, a client each."""
    alone = dataclasses.replace(specification, batch_size=1)
    each = [client(alone, setup, first + place).observation for place in range(specification.batch_size)]
    seen = client(specification, setup, first)._replace(observation=summed(each, CODE))
    return attack_clients(specification, chosen_attack(specification), [seen])


def document(lines: Sequence[Record]) -> str:
    """The page."""
    rows = [
        [
            str(x["clients"]),
            "random" if x["row"] == GUESS else "census",
            str(x["graphs"]),
            interval(x["exact"]),
            interval(x["truth_in_set"]),
            str(x["unique"]),
            str(x["wrong"]),
            f"{x['seconds']:.1f}",
        ]
        for x in lines
    ]
    titles = ("clients in the sum", "attack", "molecules", "exact", "in set", "unique", "wrong", "median s")
    return f"# Secure aggregation\n\n{ABOUT}\n\n{markdown(titles, rows)}\n"


ABOUT = """\
Written by `python -m benchmarks.studies.secure_aggregation --write`; do not edit. Each client computes the gradient
of one molecule of Tox21 (4 to 40 atoms) by itself and encodes it in fixed point (steps of 2^-40), and the server
sees the sum alone. GCN of two layers, width 300, mean pooling, a head of two maps, random weights. The census knows
how many clients there are, not their sizes or labels. Rates are of molecules, in percent, with 95 % intervals (a sum
is one observation, whatever its molecules); *wrong*: molecules that are certified to be the only ones and are
others. `random` guesses about the clients of the largest sums; it is told their sizes and sees no update. The
clients are those of `benchmarks/results/batches.md`, on whose first updates batches were developed."""


if __name__ == "__main__":
    app()
