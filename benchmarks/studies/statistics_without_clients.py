"""Feature statistics of all graphs of a set, and of all but the clients: the same clients, attacked both ways.

``python -m benchmarks.studies.statistics_without_clients tox21 census --graphs 50`` prints how far the statistics
move, and the rates of exact reconstructions with 95 % intervals.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import numpy as np
import typer

from benchmarks.lib.page import interval
from jgleak.audit.experiment import run
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.datasets import load
from jgleak.datasets.fit import fit
from jgleak.metrics import rate

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    dataset: Annotated[str, typer.Argument(help="Molecules.")],
    attack: Annotated[str, typer.Argument(help="census or grain.")],
    graphs: Annotated[int, typer.Option(min=2, help="Clients.")] = 50,
    time_limit: Annotated[float, typer.Option(min=1e-3, help="Seconds for each.")] = 60.0,
) -> None:
    """Attack with both statistics; the model's parameters are the same."""
    prior = "molecule" if attack == "census" else "none"
    specification = Specification(
        dataset=dataset, attack=attack, prior=prior, graphs=graphs, min_nodes=4, max_nodes=40, time_limit=time_limit
    )
    setup = prepare(specification)
    clients = {graph.name for graph in setup.dataset.graphs}
    others = [graph for graph in load(dataset).graphs if graph.name not in clients]
    whole = setup.dataset.space
    apart = fit(dataclasses.replace(whole, mean=None, std=None), others)
    assert whole.mean is not None and apart.mean is not None
    lost = [
        f"{feature.name} {feature.values[code]}"
        for g, feature in enumerate(whole.features)
        for code in np.setdiff1d(whole.possible(g), apart.possible(g))
    ]
    shift = float(np.abs(apart.mean - whole.mean).max())
    print(f"{dataset}, {len(clients)} clients, {len(others)} others: largest shift of a mean {shift:.1e}; lost: {lost}")
    exact = {}
    for name, space in (("of all graphs", whole), ("of the others", apart)):
        shaped = setup._replace(dataset=dataclasses.replace(setup.dataset, space=space))
        found = list(run(specification, shaped))
        exact[name] = np.array([float(result.score.exact) for result in found])
        stops = sorted({result.reconstruction.stop for result in found})
        shown = interval(vars(rate(exact[name].tolist())))
        print(f"{attack}, statistics {name}: exact {shown} %; ended {', '.join(stops)}", flush=True)
    first, second = exact.values()
    print(f"clients whose answer is exact with one only: {np.flatnonzero(first != second).tolist()}")


if __name__ == "__main__":
    app()
