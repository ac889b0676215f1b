"""What a server learns that sees only the sum of k clients: ``python -m benchmarks.studies.secure_aggregation``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import jax
import numpy as np
import typer

from benchmarks.lib.machine import host
from benchmarks.lib.options import parts
from benchmarks.lib.records import Records
from jgleak.attacks.attack import Budget
from jgleak.attacks.closed_form.labels import infer_counts, prior_probability
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.attacks.span.levels import block_checks, find_nodes
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.attacks.span.onehop import one_hop
from jgleak.datasets import load
from jgleak.features import FeatureSpace
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.federated.rounds import outputs
from jgleak.gnn import standard
from jgleak.graph import Graph, GraphBatch

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    dataset: Annotated[str, typer.Option(help="A set of molecules.")] = "tox21",
    sums: Annotated[str, typer.Option(help="Numbers of clients in a sum, by commas.")] = "1,2,4,8",
    trials: Annotated[int, typer.Option(min=1, help="Sums of each size.")] = 10,
    seconds: Annotated[float, typer.Option(min=1.0, help="For one sum.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Seeds clients and parameters.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Into results/secure_aggregation.jsonl.")] = False,
) -> None:
    """One JSON line a size: how much of the union of the clients' nodes and 1-hop blocks the sum gives away.

    Secure aggregation hides every client's own update. The sum of k clients with a graph each has the direction of the
    mean over a batch of k graphs, which is what is attacked.
    """
    records = Records()
    records.say({"host": host(), "dataset": dataset, "trials": trials, "seconds": seconds, "seed": seed})
    sizes = [int(part) for part in parts(sums)]
    data = load(dataset, graphs=max(sizes) * trials, min_nodes=4, max_nodes=40, seed=seed)
    model = standard(data.space.width)
    params = model.initial(key=jax.random.key(seed))
    private = {graph.canonical_form() for graph in data.graphs}
    other = load(dataset, graphs=100, min_nodes=4, max_nodes=40, seed=seed + 1).graphs
    public = [graph for graph in other if graph.canonical_form() not in private]
    logits = np.asarray(outputs(model, params, GraphBatch.from_graphs(public, data.space)))
    for size in sizes:
        groups = [data.graphs[i * size : (i + 1) * size] for i in range(trials)]
        found = []
        for graphs in groups:
            observation = fedsgd(model, params, graphs, data.space, loss="bce")
            found.append(learnt(observation, graphs, data.space, seconds, logits))
        records.say({"clients": size} | _mean(found))
    if write:
        records.write("secure_aggregation")


def learnt(
    observation: Observation, graphs: Sequence[Graph], space: FeatureSpace, seconds: float, logits: np.ndarray
) -> dict[str, Any]:
    """Recall and precision of nodes and 1-hop blocks, and whether the labels' counts are right."""
    budget = Budget(seconds=seconds)
    clock = budget.start()
    knowledge = Knowledge(space, max_n=sum(graph.n for graph in graphs))
    counts = infer_counts(observation, prior_probability(observation, logits))
    right = np.bincount([graph.y for graph in graphs if isinstance(graph.y, int)], minlength=2).tolist()
    out: dict[str, Any] = {"labels": float(counts.tolist() == right)}
    try:
        nodes = find_nodes(observation, knowledge, clock=clock)
    except TooManyCandidates:
        return out | dict.fromkeys(("nodes", "nodes_precision", "blocks", "blocks_precision"), 0.0)
    known = {tuple(row): k for k, row in enumerate(nodes.codes.tolist())}
    true = {tuple(row) for graph in graphs for row in graph.x.tolist()}
    out |= {"nodes": len(true & known.keys()) / len(true), "nodes_precision": len(true & known.keys()) / len(known)}
    checks = block_checks(observation, knowledge, 1, ("node", "hidden"))
    if not checks:
        return out | {"blocks": 0.0, "blocks_precision": 0.0}
    blocks = one_hop(observation.model, observation.params, nodes, checks, clock=clock, budget=budget)
    there, wanted = _names(blocks, nodes), {_name(graph, v) for graph in graphs for v in range(graph.n)}
    hits = len(there & wanted)
    return out | {"blocks": hits / len(wanted), "blocks_precision": hits / max(len(there), 1)}


Name = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]


def _name(graph: Graph, v: int) -> Name:
    codes = [tuple(row) for row in graph.x.tolist()]
    return codes[v], tuple(sorted(codes[u] for u in graph.neighbours[v]))


def _names(blocks: Blocks, nodes: Nodes) -> set[Name]:
    codes = [tuple(row) for row in nodes.codes.tolist()]
    pairs = zip(blocks.kinds.tolist(), blocks.neighbours, strict=True)
    return {(codes[kind], tuple(sorted(codes[u] for u in around))) for kind, around in pairs}


def _mean(found: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {name: round(float(np.mean([one[name] for one in found])), 4) for name in found[0]}


if __name__ == "__main__":
    app()
