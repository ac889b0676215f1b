"""GLG's Figure 2, a target node's neighbours: ``python -m benchmarks.papers.glg.neighbours --write``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
import typer
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Kept, Record
from benchmarks.papers.glg.rows import METHODS
from benchmarks.papers.glg.setting import DATASETS, NODE
from jgleak.audit.experiment import run
from jgleak.audit.setup import Setup, prepare
from jgleak.audit.specification import Specification
from jgleak.metrics import bootstrap

ABOUT = """\
Written by `python -m benchmarks.papers.glg.neighbours --write`; do not edit. Node attacker 1 as printed, GraphSAGE, on
a dummy tree in which the target and its children have as many children as the target has neighbours. Its children are
matched with the neighbours by the errors of their features (Hungarian algorithm, section 5.1.2): RNMSE, mean and
smallest over a target's neighbours. Zeros have 1. The paper shows bars of ten targets and prints no numbers. Targets
have at most {most} neighbours, as the tree of {nodes:,} nodes is dense here."""

TARGETS, MOST = 10, 20
"""Targets (section 5.1.2), and most neighbours of one."""

SETS = ("facebook", "github", "synthetic-glg")

DRAWN = 5 * TARGETS
"""Clients that targets are taken from, in order."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    sets: Annotated[str | None, typer.Option(help=f"Of {', '.join(SETS)}, by commas; all by default.")] = None,
    targets: Annotated[int, typer.Option(min=1, max=DRAWN, help="Target nodes of a set.")] = TARGETS,
    steps: Annotated[int, typer.Option(min=1, help="Of the search.")] = 2000,
    write: Annotated[bool, typer.Option("--write", help="Into results/glg_neighbours.jsonl and .md.")] = False,
) -> None:
    """One JSON line a set."""
    kept = Kept("glg_neighbours", {"set": list(SETS)}, document, write=write)
    for name in chosen(sets, dict.fromkeys(SETS), "--sets"):
        kept.put({"set": name} | measure(name, targets, steps) | provenance())


def measure(name: str, targets: int, steps: int) -> Record:
    """The record of one set."""
    specification = dataclasses.replace(
        NODE, model="sage", dataset=name, protocol="target_node", graphs=DRAWN, attack="glg-node-1"
    )
    setup = prepare(specification)
    degrees = [int(graph.adjacency[0].sum()) for graph in setup.dataset.graphs]
    places = [place for place, degree in enumerate(degrees) if 1 <= degree <= MOST][:targets]
    found = [_target(specification, setup, place, degrees[place], steps) for place in places]
    return {"specification": specification.to_json(), "steps": steps, "targets": found}


def _target(specification: Specification, setup: Setup, place: int, degree: int, steps: int) -> Record:
    """The errors of one target and of its neighbours."""
    (printed,) = [dict(method.options) for method in METHODS if method.name == "node-1-printed"]
    options = printed | {"steps": str(steps), "tree_degree": str(degree)}
    alone = dataclasses.replace(setup.dataset, graphs=setup.dataset.graphs[place : place + 1])
    alike = dataclasses.replace(specification, graphs=1, options=tuple(options.items()))
    (result,) = run(alike, setup._replace(dataset=alone))
    rows = setup.dataset.space.encode(result.truth.x)[result.truth.adjacency[0] > 0]
    if result.reconstruction.features is None:
        raise RuntimeError(f"target {place}: no answer: {result.reconstruction.stop}, {result.failure}")
    errors = matched(rows, result.reconstruction.features[1 : 1 + degree])
    return {"client": place, "neighbours": degree, "target": result.target_error, "errors": errors.tolist()}


def matched(rows: Float[np.ndarray, "d m"], found: Float[np.ndarray, "d m"]) -> Float[np.ndarray, " d"]:
    """The RNMSE of every row and the one of ``found`` that stands for it, in the matching with the least sum."""
    gaps = np.linalg.norm(rows[:, None] - found[None], axis=-1) / np.linalg.norm(rows, axis=-1, keepdims=True)
    return gaps[linear_sum_assignment(gaps)]


def document(records: Sequence[Record]) -> str:
    """The page."""
    about = ABOUT.format(most=MOST, nodes=1 + MOST + MOST**2)
    parts = [
        "# GLG's Figure 2",
        about,
        markdown(("", "targets", "target", "mean of neighbours", "smallest"), list(_sets(records))),
    ]
    head = ("", "client", "neighbours", "target", "mean", "smallest")
    parts.append(markdown(head, [line for record in records for line in _lines(record)]))
    return "\n\n".join(parts) + "\n"


def _sets(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    for record in records:
        means = bootstrap([float(np.mean(one["errors"])) for one in record["targets"]])
        least = bootstrap([min(one["errors"]) for one in record["targets"]])
        target = bootstrap([one["target"] for one in record["targets"]])
        cells = (f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in (target, means, least))
        yield (DATASETS[record["set"]], str(len(record["targets"])), *cells)


def _lines(record: Record) -> Iterator[tuple[str, ...]]:
    for one in record["targets"]:
        shown = (one["target"], np.mean(one["errors"]), min(one["errors"]))
        yield (
            DATASETS[record["set"]],
            str(one["client"]),
            str(one["neighbours"]),
            *(f"{error:.3f}" for error in shown),
        )


if __name__ == "__main__":
    app()
