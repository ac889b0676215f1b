"""What a client that takes one molecule a step shows of its first: ``python -m benchmarks.studies.loader_stages``.

The clients of the rows ``sage-B-0.0015-loader`` of ``local_steps``, read with the truth in hand at the first stages of
the search: how many feature vectors the span of the input rows lets pass, and how many 1-hop neighbourhoods these make;
and of how many nodes of the first molecule the weight of their block comes out, by the gradient of the readout's first
kernel with all of its directions above rounding, and with those above the largest gap alone. Nothing is searched for,
so the figures do not depend on the machine.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import numpy as np
import typer

from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Record, Records
from benchmarks.studies.local_steps import LOADED, LOADER_RATE, Row, setup_of, specification_of
from jgleak.attacks.attack import Budget
from jgleak.attacks.census.batches.first_kernel import Head, Roots
from jgleak.attacks.census.batches.kernel_weights import kernel_weights
from jgleak.attacks.census.batches.upstream import Upstream, own_upstreams
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.moves import Linked
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.search import levels_of
from jgleak.attacks.span.hops import one_hop_count
from jgleak.attacks.span.subspace import Subspace
from jgleak.audit.round import AttackedClient, client
from jgleak.metrics import bootstrap, rate

CLEAN = 2e-3
"""How far the weight of a block may be off, relative to it."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    clients: Annotated[int, typer.Option(min=1, help="Of every number of molecules.")] = 10,
    write: Annotated[bool, typer.Option("--write", help="Into results/loader_stages.jsonl.")] = False,
) -> None:
    """A record for each number of molecules: medians over clients, and shares with 95 % intervals."""
    records = Records()
    for size in (size for size in LOADED if size > 1):
        row = Row("sage", size, LOADER_RATE, loaded=size)
        specification = specification_of(row, size * clients, 60.0)
        setup = setup_of(row, specification)
        each = [shown(client(specification, setup, size * place)) for place in range(clients)]
        columns = {name: [one[name] for one in each] for name in each[0]}
        shares = {name: dataclasses.asdict(rate(columns[name])) for name in ("whole", "whole_gap")}
        gained = np.subtract(columns.pop("whole"), columns.pop("whole_gap"))
        shares["whole_gained"] = dataclasses.asdict(bootstrap(gained))
        medians = {name: float(np.median(values)) for name, values in columns.items()}
        records.say({"molecules": size, "clients": clients} | medians | shares | provenance())
    if write:
        records.write("loader_stages")


def shown(one: AttackedClient) -> Record:
    """The figures of one client, whose steps take its graphs in their order."""
    seen = dataclasses.replace(one.observation, protocol="fedsgd", local=None)
    problem, forever = CensusProblem.of(seen, one.knowledge), Budget(time_limit=1e6)
    start = CensusCandidates(problem, forever.start(), forever).start
    usual = start.usual(problem.knowledge) or start
    head, gap = Head.of(problem, 1), _of_gap(problem)
    return {
        "occur": len(np.unique(np.concatenate([graph.x for graph in one.truths]), axis=0)),
        "pass": start.nodes.degrees.size,
        "pass_usual": usual.nodes.degrees.size,
        "neighbourhoods": float(one_hop_count(start.nodes)),
        "neighbourhoods_usual": float(one_hop_count(usual.nodes)),
        "directions": head.span.rank,
        "directions_gap": gap.span.rank,
        "whole": _whole(problem, head, one),
        "whole_gap": _whole(problem, gap, one),
    }


def _of_gap(problem: CensusProblem) -> Head:
    """The gradient of the readout's first kernel with the directions above the largest gap in its singular values."""
    head = Head.of(problem, 1)
    span = Subspace.of_gradient(head.gradient * head.span.scale[:, None])
    return head._replace(span=span)


def _whole(problem: CensusProblem, head: Head, one: AttackedClient) -> float:
    """Share of the first graph's nodes whose blocks have the weight of the true count up to ``CLEAN``."""
    graph = one.truths[0]
    codes, kinds = np.unique(graph.x, axis=0, return_inverse=True)
    linked = Linked(graph.adjacency.astype(bool), kinds.ravel())
    levels, counts = levels_of(problem, linked, codes.astype(np.int32), int(graph.degree.max()))
    clock = Budget(time_limit=1e6).start()
    roots, upstream = head.roots(problem, levels, clock), Upstream.of(problem.observation)
    assert isinstance(roots, Roots) and graph.y is not None
    found = kernel_weights(head, roots, upstream, clock)
    assert found is not None
    seen = problem.observation
    own = own_upstreams(seen, counts @ found.added / graph.n)[int(graph.y)] / (graph.n * seen.batch_size)
    together = np.bincount(found.alike, counts, minlength=counts.size)[found.alike]
    off = np.linalg.norm(found.values @ upstream.rows / together[:, None] - own, axis=1)
    return float(counts[off <= CLEAN * np.linalg.norm(own)].sum() / graph.n)


if __name__ == "__main__":
    app()
