"""Noise beside the span checks: ``python -m benchmarks.studies.noise_spans --write``.

``calibration``: how often the statistic of a true row exceeds the quantile of a rate, on made-up gradients. ``nodes``:
how many molecules lose a feature vector under noise, and how many wrong vectors pass. ``spans``: up to which noise all
directions of a span can be seen. Noise is relative to the typical (root mean square) entry of the update.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import jax
import numpy as np
import typer

from benchmarks.lib.options import parts
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Record, Records
from jgleak import Budget, Knowledge, Observation, fedsgd, standard
from jgleak.attacks.noise import edge, largest
from jgleak.attacks.span.leak_points import leak_points
from jgleak.attacks.span.levels import find_nodes
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.attacks.span.subspace import Subspace
from jgleak.datasets import Dataset, load
from jgleak.defenses import parse
from jgleak.graph import Graph

SHAPE, DIRECTIONS = (60, 50), ((40.0, 10.0, 8.0, 6.0), (40.0, 10.0, 4.0, 2.0), (3.0, 2.0, 1.6, 1.4))
"""Of the made-up gradients, and their singular values in units of the noise's largest."""

RATES = (1e-1, 1e-2, 1e-3, 1e-4)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    graphs: Annotated[int, typer.Option(min=1, help="Tox21 molecules.")] = 20,
    deviations: Annotated[str, typer.Option(help="Of the noise, relative, by commas.")] = "1e-4,1e-3,1e-2,1e-1,1",
    rounded: Annotated[str, typer.Option(help="Defences that only round, by commas.")] = "float16,bfloat16",
    draws: Annotated[int, typer.Option(min=1, help="Made-up gradients of each kind.")] = 1000,
    seconds: Annotated[float, typer.Option(min=0.1, help="For the nodes of one molecule.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Seeds molecules, parameters and noise.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Into results/noise_spans.jsonl.")] = False,
) -> None:
    """One JSON line a row of each part."""
    records = Records()
    records.say(provenance() | {"graphs": graphs, "draws": draws, "seconds": seconds, "seed": seed})
    for values in DIRECTIONS:
        records.say(calibration(values, draws, seed))
    data = load("tox21", graphs=graphs, seed=seed, min_nodes=4, max_nodes=40)
    model = standard(data.space.width)
    params = jax.tree.map(np.asarray, model.initial(key=jax.random.key(seed)))
    clean = [fedsgd(model, params, [graph], data.space, loss="bce") for graph in data.graphs]
    for name in ("0", *parts(deviations), *parts(rounded)):
        records.say(nodes(name, clean, data, seconds, seed))
    found: dict[str, list[float]] = {}
    for one in clean:
        for what, ratio in spans(one):
            found.setdefault(what, []).append(ratio)
    for what, ratios in found.items():
        ends = zip(("least", "median", "most"), np.quantile(ratios, (0, 0.5, 1)).tolist(), strict=True)
        records.say({"part": "spans", "what": what, "graphs": len(ratios), **dict(ends)})
    if write:
        records.write("noise_spans")


def calibration(above: tuple[float, ...], draws: int, seed: int) -> Record:
    """How often true rows exceed the quantiles of ``RATES``, where all directions stand above the noise."""
    rank, statistics = len(above), list[float]()
    dof = SHAPE[0] - rank
    for number in range(draws):
        rng = np.random.default_rng((seed, number))
        left, right = (np.linalg.qr(rng.normal(size=(size, rank)))[0] for size in SHAPE)
        gradient = (left * np.array(above) * edge(1.0, SHAPE)) @ right.T + rng.normal(size=SHAPE)
        subspace = Subspace.of_gradient(gradient, noise=1.0)
        if subspace.rank == rank:
            rows = rng.normal(size=(rank, rank)) @ left.T
            statistics += (subspace.distances(rows) / subspace.tolerance * largest(dof)).tolist()
    shares = {f"{rate:.0e}": float(np.mean(np.array(statistics) > largest(dof, rate))) for rate in RATES}
    what = ", ".join(f"{value:g}" for value in above)
    return {"part": "calibration", "what": what, "rows": len(statistics), "exceed": shares}


def nodes(name: str, clean: list[Observation], data: Dataset, seconds: float, seed: int) -> Record:
    """Molecules that lose one of their feature vectors, and those whose check did not end; wrong vectors that pass."""
    lost, unended, wrong, relative = 0, 0, list[int](), list[float]()
    for number, (one, graph) in enumerate(zip(clean, data.graphs, strict=True)):
        entry = _entry(one)
        defense = parse("" if name == "0" else f"gaussian:{float(name) * entry}" if name[0].isdigit() else name)
        key = jax.random.fold_in(jax.random.key(seed), number)
        seen = fedsgd(one.model, one.params, [graph], data.space, loss="bce", defense=defense, key=key)
        noise = defense.deviation(seen.update)
        relative.append((noise or 0.0) / entry)
        try:
            passed = find_nodes(
                seen, Knowledge(data.space, n=graph.n, noise=noise), clock=Budget(time_limit=seconds).start()
            )
        except TooManyCandidates:
            unended += 1
            continue
        true, found = _vectors(graph), {tuple(codes) for codes in passed.codes.tolist()}
        lost += not true <= found
        wrong.append(len(found - true))
    median = float(np.median(wrong)) if wrong else None
    return {
        "part": "nodes",
        "what": name,
        "graphs": len(clean),
        "relative": float(np.median(relative)),
        "lost": lost,
        "unended": unended,
        "wrong": median,
    }


def spans(seen: Observation) -> Iterator[tuple[str, float]]:
    """Every place where blocks can be checked, and its least singular value over the largest of noise as large as a
    typical entry: the noise up to which all directions can be seen."""
    for hop in range(seen.model.depth + 1):
        for point in leak_points(seen, hop):
            values = np.linalg.svd(point.gradient.astype(np.float64), compute_uv=False)
            rank = Subspace.of_gradient(point.gradient).rank
            if rank:
                yield f"{point.name} {hop}", float(values[rank - 1] / edge(_entry(seen), point.gradient.shape))


def _entry(seen: Observation) -> float:
    entries: list[Any] = [np.ravel(leaf) for leaf in jax.tree.leaves(seen.update)]
    return float(np.sqrt(np.mean(np.concatenate(entries).astype(np.float64) ** 2)))


def _vectors(graph: Graph) -> set[tuple[int, ...]]:
    return {tuple(codes) for codes in graph.x.tolist()}


if __name__ == "__main__":
    app()
