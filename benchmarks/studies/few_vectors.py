"""The census on TU sets, whose nodes have few different feature vectors: ``python -m benchmarks.studies.few_vectors``.

Node labels alone, without degrees; COIL-RAG, whose nodes have real-valued attributes only, by their degrees. The model
is GRAIN's, at its first weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.records import Kept, Record
from benchmarks.lib.recovered import COLUMNS, cells, recovered
from jgleak.audit.experiment import run
from jgleak.audit.record import result_record
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification

ATTRIBUTES = {"coil-rag": False, "mutag": True, "ptc_mr": True, "nci1": True, "enzymes": False}
"""Sets, and whether all of their features are discrete; where not, the real-valued ones are left out."""

KNOWN = {"features": ("census", ("features",)), "nothing": ("census", ()), "random": ("random", ("features",))}
"""The attack, and what it is told of every client."""

ABOUT = """\
Written by `python -m benchmarks.studies.few_vectors --write`; do not edit. The census on so many graphs of any size of
each set, by GRAIN's model at its first weights; nodes have their label alone (`--no-attributes` where there are
real-valued features), and in COIL-RAG, which has no labels, their degree. *Known*: the feature rows, and with them the
number of nodes; or nothing; *random*: a guess that is told the feature rows and sees no gradient. *Exact*: the first
graph listed is the client's; *in set*: it is listed; *unique*: certified to be the only one; *wrong*: of these, those
beside another truth. Rates in percent with 95 % intervals. Developed on graphs of seed 0; these are of seed
5. One process, beside other work on both cores: where time ran out, more would have been found."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    sets: Annotated[str, typer.Option(help=f"By commas: {', '.join(ATTRIBUTES)}.")] = ",".join(ATTRIBUTES),
    known: Annotated[str, typer.Option(help="What is known, by commas: features, nothing.")] = ",".join(KNOWN),
    graphs: Annotated[int, typer.Option(min=1, help="Graphs of each set.")] = 30,
    seed: Annotated[int, typer.Option(help="Draws the graphs and the weights.")] = 5,
    time_limit: Annotated[float, typer.Option(help="Seconds a graph.")] = 60.0,
    write: Annotated[bool, typer.Option("--write", help="Into results/few_vectors.jsonl and .md.")] = False,
) -> None:
    """One JSON line a set and what is known."""
    kept = Kept("few_vectors", {"set": None, "known": None}, document, write=write)
    for told in chosen(known, KNOWN, "--known"):
        for name in chosen(sets, ATTRIBUTES, "--sets"):
            specification = Specification(
                dataset=name,
                attack=KNOWN[told][0],
                know=KNOWN[told][1],
                attributes=ATTRIBUTES[name],
                graphs=graphs,
                seed=seed,
                time_limit=time_limit,
            )
            setup = prepare(specification)
            clients = [result_record(result, specification) for result in run(specification, setup)]
            about = {"set": name, "known": told, "graphs": graphs, "seed": seed, "time_limit": time_limit}
            kept.put(about | recovered(clients, setup.training))


def document(lines: Sequence[Record]) -> str:
    """The page."""
    rows = [[line["set"], line["known"], *cells(line)] for line in lines]
    return f"# Few feature vectors\n\n{ABOUT}\n\n{markdown(('set', 'known', 'graphs, s', *COLUMNS[1:]), rows)}\n"


if __name__ == "__main__":
    app()
