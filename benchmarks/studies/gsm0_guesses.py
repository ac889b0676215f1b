"""GSM-0 of guesses that see no gradient, by the definition of GRAIN's paper and by that of its released code.

``python -m benchmarks.studies.gsm0_guesses --write`` stores a record a guess: the F1 (``Score.gsm0``), the recall over
our lists of values (``Score.gsm0_recall``) and over the released ones (``COLUMNS``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated

import numpy as np
import typer

from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from jgleak.audit.experiment import run
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics import rate, score
from jgleak.metrics.matching import aggregates, match

COLUMNS = (52, 6, 7, 3, 6, 57, 2, 7)
"""Values a feature in the released code (``CHEMICAL_FEATURES``): 140 in all."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def guesses(space: FeatureSpace) -> Iterator[tuple[str, list[tuple[Graph, Graph]]]]:
    """A name, and pairs of the truth and a guess."""
    for name in ("random", "empty"):
        for know in (("n",), ("n", "adjacency")):
            specification = Specification(
                dataset="tox21", graphs=100, min_nodes=4, max_nodes=40, attack=name, know=know
            )
            found = run(specification, prepare(specification))
            yield f"{name}, told {' and '.join(know)}", [(r.truth, r.reconstruction.graphs[0]) for r in found]
    truths = prepare(specification).dataset.graphs
    rng = np.random.default_rng(0)
    values = [space.possible(g) for g in range(len(space.features))]
    rows = [np.stack([rng.choice(codes, t.n) for codes in values], axis=1).astype(np.int32) for t in truths]
    yield (
        "all values of Tox21 alike, the true edges",
        [(t, Graph(x, t.edges)) for t, x in zip(truths, rows, strict=True)],
    )


def released(truth: Graph, graph: Graph, space: FeatureSpace) -> float:
    """The recall with the released code's weights; both graphs have the same number of nodes."""
    pairs = match(*(aggregates(space.encode(g.x), g.adjacency) for g in (truth, graph)))
    return float(np.average(np.mean(truth.x[pairs.truth] == graph.x[pairs.graph], axis=0), weights=COLUMNS))


@app.command()
def main(write: Annotated[bool, typer.Option("--write", help="Into results/gsm0_guesses.jsonl.")] = False) -> None:
    """A record a guess: F1, recall over our lists of values, recall over the released ones."""
    records = Records()
    space = prepare(Specification(dataset="tox21", graphs=1)).dataset.space
    for name, pairs in guesses(space):
        scores = [score(*pair, space) for pair in pairs]
        columns = {
            "f1": [s.gsm0 for s in scores],
            "recall": [s.gsm0_recall for s in scores],
            "released": [released(*pair, space) for pair in pairs],
        }
        means = {column: dataclasses.asdict(rate(values)) for column, values in columns.items()}
        records.say({"guess": name, "graphs": len(pairs)} | means | provenance())
    if write:
        records.write("gsm0_guesses")


if __name__ == "__main__":
    app()
