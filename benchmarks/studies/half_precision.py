"""Clients that compute in 16 bits, beside the census: ``python -m benchmarks.studies.half_precision --write``.

Rows, adjacency, weights and gradient of a simulated client are all in the short type, so that every operation rounds.
The noise is read off the numbers (``jgleak.precision``) and multiplied by a factor. One JSON line a type and factor:
how often the client's graph came back first, how often nothing did, how often the listed graphs leave it out, and how
large the error is beside the rounding of what is sent, in the tensor where each is largest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer

from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from jgleak import Budget, Knowledge, Observation, fedsgd, get_attack, standard
from jgleak.datasets import load
from jgleak.federated.loss import graph_loss
from jgleak.gnn import GNN, Params
from jgleak.graph import Graph, GraphBatch
from jgleak.precision import COMPUTED, DIGITS, computed_noise, rounding

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    dataset: Annotated[str, typer.Option(help="Whose graphs the clients have.")] = "synthetic-tree",
    graphs: Annotated[int, typer.Option(min=1, help="Clients.")] = 16,
    max_nodes: Annotated[int, typer.Option(help="Most nodes of one.")] = 8,
    width: Annotated[int, typer.Option(help="Of the convolutions.")] = 128,
    seconds: Annotated[float, typer.Option(help="For each client.")] = 6.0,
    factors: Annotated[str, typer.Option(help="Times the rounding, by commas.")] = "2,4,8",
    write: Annotated[bool, typer.Option("--write", help="Into results/half_precision.jsonl.")] = False,
) -> None:
    """One JSON line a type and factor."""
    records = Records()
    data = load(dataset, graphs=graphs, max_nodes=max_nodes)
    model = standard(data.space.width, hidden=width)
    params = model.initial(key=jax.random.key(0))
    for half in DIGITS:
        seen = [computed_in(half, model, params, graph, data.space) for graph in data.graphs]
        off = sorted(beside_rounding(one, graph, data.space) for one, graph in zip(seen, data.graphs, strict=True))
        for factor in map(float, factors.split(",")):
            said: dict[str, int] = dict.fromkeys(("first", "nothing", "listed", "another", "unique", "wrong"), 0)
            for one, graph in zip(seen, data.graphs, strict=True):
                noise = (computed_noise(one.update) or 0.0) * factor / COMPUTED
                for word in words(dataclasses.replace(one, noise=noise), graph, data.space, seconds):
                    said[word] += 1
            where = {"dataset": dataset, "clients": len(seen), "width": width, "seconds": seconds, "type": half}
            error = dict(zip(("least", "median", "most"), np.quantile(off, (0, 0.5, 1)).tolist(), strict=True))
            records.say(where | {"factor": f"{factor:g}"} | said | {"error": error} | provenance())
    if write:
        records.write("half_precision")


def computed_in(half: str, model: GNN, params: Params, graph: Graph, space: Any) -> Observation:
    """What a client sends that holds everything in 16 bits."""
    short = jax.tree.map(lambda leaf: jnp.asarray(leaf, half), params)
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), GraphBatch.from_graphs([graph], space))
    shown = one.dense._replace(nodes=one.dense.nodes.astype(half), adjacency=one.dense.adjacency.astype(half))
    update = jax.grad(lambda p: graph_loss(model, p, shown, one.labels, "bce"))(short)
    sent, back = (jax.tree.map(np.asarray, tree) for tree in (short, update))
    return Observation(model, sent, back, "bce")


def beside_rounding(seen: Observation, graph: Graph, space: Any) -> float:
    """The root mean square error of the gradient over that of its rounding, each in its largest tensor."""
    single = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), seen.params)
    whole = fedsgd(seen.model, single, [graph], space, loss="bce")
    errors = jax.tree.map(lambda a, b: float(np.sqrt(np.mean(np.square(a - b)))), seen.update, whole.update)
    half = next(np.asarray(leaf).dtype.name for leaf in jax.tree.leaves(seen.update))
    return max(jax.tree.leaves(errors)) / rounding(seen.update, DIGITS[half])


def words(seen: Observation, graph: Graph, space: Any, seconds: float) -> Iterator[str]:
    """What became of a client."""
    found = get_attack("census")(seen, Knowledge(space), key=jax.random.key(1), budget=Budget(time_limit=seconds))
    listed, truth = [one.canonical_form() for one in found.graphs], graph.canonical_form()
    yield "nothing" if not listed else "first" if listed[0] == truth else "listed" if truth in listed else "another"
    if found.certificate is not None and found.certificate.status == "unique":
        yield "unique"
        if truth not in listed:
            yield "wrong"


if __name__ == "__main__":
    app()
