"""The smallest noise at which the census loses half of the clients.

``python -m benchmarks.studies.noise_threshold`` prints a JSON line a trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import typer

from benchmarks.lib.options import parts
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from jgleak.attacks.attack import Budget
from jgleak.attacks.registry import get_attack
from jgleak.datasets import load
from jgleak.defenses import Defense, parse
from jgleak.features import FeatureSpace
from jgleak.federated import Knowledge, fedsgd
from jgleak.gnn import GNN, Params, standard
from jgleak.graph import Graph
from jgleak.metrics import score


class Clients(NamedTuple):
    """Who is attacked, each with a graph of its own and the same model.

    Attributes:
      model: of the clients.
      params: its parameters, float32.
      graphs: of the clients.
      space: of the graphs' features.
      seed: of the noise and the attacks.
    """

    model: GNN
    params: Params
    graphs: Sequence[Graph]
    space: FeatureSpace
    seed: int


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    graphs: Annotated[int, typer.Option(min=2, help="Tox21 clients.")] = 20,
    largest: Annotated[int, typer.Option(min=4, help="Their largest number of nodes.")] = 40,
    precisions: Annotated[str, typer.Option(help="Of the gradients, by commas.")] = "float32,float64",
    rounded: Annotated[str, typer.Option(help="Defences that only round, by commas.")] = "float16,bfloat16",
    beside: Annotated[str, typer.Option(help="Attacks that face the rounding beside the census, by commas.")] = "dlg",
    low: Annotated[float, typer.Option(help="Noise that is surely too small.")] = 1e-7,
    high: Annotated[float, typer.Option(help="Noise that is surely enough.")] = 1e-2,
    halvings: Annotated[int, typer.Option(min=1, help="Of the interval between, in its logarithm.")] = 6,
    seconds: Annotated[float, typer.Option(min=0.1, help="For one client.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Seeds clients, parameters and noise.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Into results/noise_threshold.jsonl.")] = False,
) -> None:
    """One JSON line a trial: attack, precision, noise, a gradient's typical entry, exact rate, GSM-0 and GSM-1.

    Bisection assumes that more noise never helps; the rate at every deviation tried is printed.
    """
    records = Records()
    records.say(provenance() | {"graphs": graphs, "seconds": seconds, "seed": seed})
    data = load("tox21", graphs=graphs, min_nodes=4, max_nodes=largest, seed=seed)
    model = standard(data.space.width)
    params = jax.tree.map(np.asarray, model.initial(key=jax.random.key(seed)))
    clients = Clients(model, params, data.graphs, data.space, seed)
    for name in parts(rounded):
        for attack in ["census", *parts(beside)]:
            records.say(trial(attack, clients, parse(name), "float32", seconds))
    for precision in parts(precisions):
        below, above = np.log(low), np.log(high)
        records.say(trial("census", clients, Defense(), precision, seconds))
        for _ in range(halvings):
            middle = float(np.exp((below + above) / 2))
            records.say(trial("census", clients, parse(f"gaussian:{middle}"), precision, seconds))
            below, above = (np.log(middle), above) if records[-1]["exact"] >= 0.5 else (below, np.log(middle))
        records.say({"precision": precision, "threshold": [float(np.exp(below)), float(np.exp(above))]})
    if write:
        records.write("noise_threshold")


def trial(name: str, clients: Clients, defense: Defense, precision: str, seconds: float) -> dict[str, Any]:
    """Attack all clients under one noise."""
    attack, scores, sizes, stops = get_attack(name), [], [], []
    model, params, graphs, space, seed = clients
    for number, graph in enumerate(graphs):
        key = jax.random.fold_in(jax.random.key(seed), number)
        with jax.enable_x64(precision == "float64"):
            own = jax.tree.map(lambda w: w.astype(precision), params)
            seen = fedsgd(model, own, [graph], space, loss="bce", defense=defense, key=key)
        entries = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(seen.update)])
        sizes.append(float(np.sqrt(np.mean(entries**2))))
        knowledge = Knowledge(space, n=graph.n, noise=defense.deviation(seen.update), prior="molecule")
        found = attack(seen, knowledge, key=key, budget=Budget(time_limit=seconds))
        scores.append(score(graph, found.best, space))
        stops.append(found.stop)
    return {
        "attack": name,
        "precision": precision,
        "defense": str(defense),
        "entry": float(np.median(sizes)),
        "exact": float(np.mean([s.exact for s in scores])),
        "gsm0": float(np.mean([s.gsm0 for s in scores])),
        "gsm1": float(np.mean([s.gsm1 for s in scores])),
        "stops": {stop: stops.count(stop) for stop in sorted(set(stops))},
    }


if __name__ == "__main__":
    app()
