"""What leaks when, of the same molecules: ``python -m benchmarks.studies.what_leaks``.

One table for the README: what a client sends, changed one thing at a time, against the exact attack, the best of two
that approximate, and a guess that sees no gradient.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from benchmarks.lib.clients import attacked
from benchmarks.lib.options import chosen
from benchmarks.lib.page import interval, markdown
from benchmarks.lib.records import Kept, Record
from benchmarks.lib.recovered import COLUMNS, cells, recovered
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.metrics import rate

COMMON = Specification(dataset="tox21", prior="molecule", min_nodes=4, seed=11)

EXACT, APPROXIMATE, GUESS = "census", ("dlg", "tableak"), "random"

ATTACKS = (EXACT, *APPROXIMATE, GUESS)


class Situation(NamedTuple):
    """What a client sends.

    Attributes:
      title: for people.
      fields: of the specification, beside ``COMMON``.
      seconds: how many times the time limit an update may take.
      stops: what the exact attack does not get past, or what else it needs.
    """

    title: str
    fields: Mapping[str, Any] = {}
    seconds: int = 1
    stops: str = "graphs with the same gradient"


BATCHNORM = {
    **{"model": "gin", "layers": 3, "hidden": 64, "bias": True, "readout": "pooled", "last_activation": True},
    **{"norm": "batch", "norm_mode": "train"},
}
"""OpenFGL's and FedGraph's GIN."""

SITUATIONS: Mapping[str, Situation] = {
    "one": Situation("the gradient of one graph"),
    "batch-8": Situation("the mean gradient of 8 graphs", {"batch_size": 8}, 5, "more graphs; time"),
    "steps-5": Situation(
        "weights after 5 steps of .01 on one graph",
        {"protocol": "fedavg", "local_steps": 5, "local_rate": 0.01},
        stops="Adam; larger rates; several graphs a step",
    ),
    "batchnorm": Situation(
        "one graph, GIN with BatchNorm in training mode", BATCHNORM, stops="several graphs; no statistics returned"
    ),
    "pruned": Situation("one graph, a tenth of the entries sent", {"defense": "prune:0.9"}, stops="the pruning"),
    "noise": Situation("one graph, Gaussian noise of .001", {"defense": "gaussian:0.001"}, stops="the noise"),
}

ABOUT = """\
Written by `python -m benchmarks.studies.what_leaks --write`; do not edit. The same molecules of Tox21 (4 atoms or
more, seed 11) behind every row; GRAIN's GCN, 2 x 300, unless the row says another; random weights. `census` knows
neither labels nor numbers of atoms, and ranks by chemistry (`--prior molecule`); `dlg`, `tableak` and `random` are
told the numbers of atoms, and `random` sees no gradient. All know the defence. The noise is about as large as a
typical entry (docs/results/defenses.md). Rates are of molecules, in percent, with 95 % intervals; *unique*:
certified to be the only one; *wrong*: of these, those beside another truth; *GSM-1*: GRAIN's similarity of the first
graph to the molecule. An update is one observation, whatever its graphs: the batches are five. The machine had other
work beside it: where time ran out, more may be found on a quiet one. Nothing was tuned on these molecules."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rows: Annotated[str, typer.Option(help="By commas.")] = ",".join(SITUATIONS),
    attacks: Annotated[str, typer.Option(help="By commas.")] = ",".join(ATTACKS),
    graphs: Annotated[int, typer.Option(min=8, help="Molecules, a multiple of 8.")] = 40,
    time_limit: Annotated[float, typer.Option(help="Seconds an update; of 8 graphs five times that.")] = 60.0,
    write: Annotated[bool, typer.Option("--write", help="Into results/what_leaks.jsonl and .md.")] = False,
) -> None:
    """One JSON line a row and attack; what is not asked for keeps its record."""
    kept = Kept("what_leaks", {"row": SITUATIONS, "attack": ATTACKS}, document, write=write)
    for attack in chosen(attacks, dict.fromkeys(ATTACKS), "--attacks"):
        for name in chosen(rows, SITUATIONS, "--rows"):
            kept.put(measured(name, attack, graphs, time_limit))


def measured(name: str, attack: str, graphs: int, time_limit: float) -> Record:
    """One attack in one situation."""
    situation = SITUATIONS[name]
    limit = time_limit * situation.seconds
    specification = dataclasses.replace(
        COMMON,
        **situation.fields,
        attack=attack,
        graphs=graphs,
        time_limit=limit,
        know=() if attack == EXACT else ("n",),
    )
    clients = attacked(specification, prepare(specification), f"{name}/{attack}", lambda *_: None)
    size = specification.batch_size
    updates = [client["graph"] // size for client in clients]
    similar = dataclasses.asdict(rate([client["gsm1"] for client in clients], clusters=updates))
    about = {"row": name, "attack": attack, "graphs": len(clients), "time_limit": limit, "seed": COMMON.seed}
    return about | recovered(clients, (), size=size) | {"gsm1": similar}


def document(lines: Sequence[Record]) -> str:
    """The page."""
    rows = [
        [SITUATIONS[line["row"]].title, f"`{line['attack']}`", *cells(line), interval(line["gsm1"])] for line in lines
    ]
    table = markdown(("what is sent", "attack", *COLUMNS, "GSM-1"), rows)
    return f"# What leaks when\n\n{ABOUT}\n\n{table}\n"


if __name__ == "__main__":
    app()
