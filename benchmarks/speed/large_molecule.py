"""One molecule with more than 1e8 one-hop candidates, filtered completely: time, memory, and are the true blocks found?

python -m benchmarks.speed.large_molecule            # the first such client of Tox21 in the order of the seed
"""

from __future__ import annotations

import json
import resource
import time
from collections import Counter
from typing import Annotated

import jax
import numpy as np
import typer

from jgleak.attacks.attack import Budget
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.filter import BlockFilter
from jgleak.attacks.span.hops import Nodes, one_hop_count
from jgleak.attacks.span.levels import block_checks, find_nodes
from jgleak.datasets import load
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.gnn import standard
from jgleak.graph import Graph

FEWEST, LEAST = 150, 100_000_000
"""Passing node vectors and one-hop candidates that the molecule must have at least."""


def main(
    seed: Annotated[int, typer.Option(help="Draws the molecules and the parameters.")] = 0,
    most: Annotated[int, typer.Option(help="Most one-hop candidates, so that a run ends.")] = 1_000_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Search every centre without any pruning between centres, and compare with the truth."""
    dataset = load("tox21", task="SR-p53", graphs=2000, min_nodes=4, max_nodes=40, seed=seed)
    model = standard(dataset.space.width)
    params = model.initial(key=jax.random.key(seed))
    for truth in dataset.graphs:
        observation = fedsgd(model, params, [truth], dataset.space, loss="bce")
        knowledge = Knowledge(dataset.space)
        nodes = find_nodes(observation, knowledge, clock=Budget(60).start())
        candidates = one_hop_count(nodes)
        if nodes.degrees.size >= FEWEST and LEAST < candidates <= most:
            break
    else:
        raise typer.BadParameter(f"no such molecule among {len(dataset.graphs)}; raise --most")
    record = {"molecule": truth.name, "atoms": truth.n, "nodes": int(nodes.degrees.size), "candidates": candidates}
    record |= _filtered(observation, knowledge, nodes, truth)
    print(json.dumps(record) if as_json else "\n".join(f"{k:<26}{v}" for k, v in record.items()))


def _filtered(observation: Observation, knowledge: Knowledge, nodes: Nodes, truth: Graph) -> dict[str, object]:
    checks = block_checks(observation, knowledge, 1, ("node",))
    search = BlockFilter(*observation.model.layer_at(observation.params, 0), nodes.rows, nodes.degrees, checks)
    options = np.flatnonzero(nodes.degrees > 0)
    requests = [(c, [Slot(options, int(d))] if d else []) for c, d in enumerate(nodes.degrees.tolist())]
    begun = time.perf_counter()
    budget = Budget(time_limit=600, candidates=10**10)
    found = search.blocks(requests, clock=budget.start(), budget=budget)
    seconds = time.perf_counter() - begun
    true = true_blocks(truth, nodes)
    survivors = set(zip(found.centres.tolist(), found.neighbours, strict=True))
    return {
        "checked": found.checked,
        "complete": found.complete,
        "survivors": len(survivors),
        "true_blocks": len(true),
        "true_blocks_found": sum(block in survivors for block in true),
        "seconds_with_compilation": round(seconds, 2),
        "candidates_per_second": round(found.checked / seconds),
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "device": jax.devices()[0].device_kind,
    }


def true_blocks(truth: Graph, nodes: Nodes) -> Counter[tuple[int, tuple[int, ...]]]:
    """The molecule's own 1-hop blocks, as rows of ``nodes``."""
    row = {tuple(codes): i for i, codes in enumerate(nodes.codes.tolist())}
    kinds = [row.get(tuple(codes), -1) for codes in truth.x.tolist()]
    adjacency = truth.adjacency
    return Counter((kinds[v], tuple(sorted(kinds[u] for u in np.flatnonzero(adjacency[v])))) for v in range(truth.n))


if __name__ == "__main__":
    typer.run(main)
