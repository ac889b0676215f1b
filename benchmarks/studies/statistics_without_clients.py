"""Feature statistics of all graphs of a set, and of all but the clients: the same clients, attacked both ways.

``python -m benchmarks.studies.statistics_without_clients --write`` stores a record a data set and statistics: how often
the census' first graph is exact, how far the statistics of the others are from those of all, which values they lack,
and of how many clients the answer is exact with one of the two alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from jgleak.audit.experiment import run
from jgleak.audit.setup import Setup, prepare
from jgleak.audit.specification import Specification
from jgleak.datasets import load
from jgleak.datasets.fit import fit
from jgleak.features import FeatureSpace
from jgleak.metrics import rate

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    datasets: Annotated[str, typer.Option(help="Sets of molecules, by commas.")] = "tox21,freesolv",
    graphs: Annotated[int, typer.Option(min=2, help="Clients of each.")] = 50,
    time_limit: Annotated[float, typer.Option(min=1e-3, help="Seconds for each client.")] = 60.0,
    write: Annotated[bool, typer.Option("--write", help="Into results/statistics_without_clients.jsonl.")] = False,
) -> None:
    """Attack with both statistics; the model's parameters are the same."""
    records = Records()
    for dataset in datasets.split(","):
        specification = Specification(
            dataset=dataset, attack="census", graphs=graphs, min_nodes=4, max_nodes=40, time_limit=time_limit
        )
        setup = prepare(specification)
        whole, apart = setup.dataset.space, without_clients(setup, dataset)
        exact = {
            "of all graphs": exactly(specification, setup, whole),
            "of the others": exactly(specification, setup, apart),
        }
        alone = sum(one != other for one, other in zip(*exact.values(), strict=True))
        differ = {"one_alone": alone, **apart_from(whole, apart)}
        for name, found in exact.items():
            told = {"dataset": dataset, "statistics": name, "clients": len(found), "seconds": time_limit}
            records.say(told | {"exact": dataclasses.asdict(rate(found))} | differ | provenance())
    if write:
        records.write("statistics_without_clients")


def without_clients(setup: Setup, dataset: str) -> FeatureSpace:
    """The feature space with the statistics of the set's graphs that no client has."""
    clients = {graph.name for graph in setup.dataset.graphs}
    others = [graph for graph in load(dataset).graphs if graph.name not in clients]
    return fit(dataclasses.replace(setup.dataset.space, mean=None, std=None), others)


def exactly(specification: Specification, setup: Setup, space: FeatureSpace) -> Sequence[float]:
    """Of every client whether its first graph is exact, where clients and attack share these statistics."""
    shaped = setup._replace(dataset=dataclasses.replace(setup.dataset, space=space))
    return [float(result.score.exact) for result in run(specification, shaped)]


def apart_from(whole: FeatureSpace, apart: FeatureSpace) -> dict[str, Any]:
    """The largest shift of a column's mean, in the column's own units, and the values that one set of graphs lacks."""
    assert whole.mean is not None and apart.mean is not None
    lost = [
        f"{feature.name} {feature.values[code]}"
        for g, feature in enumerate(whole.features)
        for code in np.setdiff1d(whole.possible(g), apart.possible(g))
    ]
    return {"shift": float(np.abs(apart.mean - whole.mean).max()), "lost": lost}


if __name__ == "__main__":
    app()
