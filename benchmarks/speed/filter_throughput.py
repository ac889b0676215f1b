"""Candidates a second of the device filter, beside NumPy's: ``python -m benchmarks.speed.filter_throughput``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.lib.machine import peak, seconds
from benchmarks.lib.options import parts
from benchmarks.lib.page import markdown
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import RESULTS, Record
from benchmarks.speed.filter_methods import blocked, filtered, gathered, jitted, operations
from benchmarks.speed.filter_problem import HIDDEN, Blocks, Problem

RANKS, DEGREES = range(1, 91), range(2, 7)
"""What can be asked for: a prepared check has at most 96 columns, and a single neighbour leaves nothing to tabulate."""

METHODS = ("gathered", "numpy", "jit", "filter")
HEAD = ("rank", "degree", "gathered", "numpy", "jit", "filter", "/ numpy", "/ gathered", "of peak")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    ranks: Annotated[str, typer.Option(help="Ranks of the subspace, by commas.")] = "10,20,30",
    degrees: Annotated[str, typer.Option(help="Neighbours of the centre, by commas.")] = "2,3,4",
    candidates: Annotated[int, typer.Option(min=1000, max=10**9, help="Fewest candidates of a centre.")] = 200_000_000,
    part: Annotated[int, typer.Option(min=1000, help="Of these, how many `numpy` and `jit` filter.")] = 4_000_000,
    sample: Annotated[int, typer.Option(min=100, help="Of these, how many `gathered` filters.")] = 20_000,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each method; the best counts.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Draws the rows, the parameters and the planted blocks.")] = 0,
    json_lines: Annotated[bool, typer.Option("--json", help="JSON on standard output, one object a row.")] = False,
    out: Annotated[bool, typer.Option("--out", help="Write benchmarks/results/filter_throughput.md.")] = False,
    profile: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder for a profiler trace of one call, of the first row.")
    ] = None,
) -> None:
    """Filter the same candidates in four ways, check that all accept the same ones, and print their speeds."""
    cases = [(r, d) for r in _numbers(ranks, RANKS, "--ranks") for d in _numbers(degrees, DEGREES, "--degrees")]
    stderr, records = Console(stderr=True), []
    with stderr.status("peak of the device"):
        flops, by = peak()
    common = provenance() | {"seed": seed, "peak_flops": round(flops), "peak_by": by}
    for rank, degree in cases:
        with stderr.status(f"rank {rank}, {degree} neighbours"):
            try:
                problem = Problem.draw(rank, degree, candidates=candidates, part=part, seed=seed)
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint="--ranks") from error
            rows = measure(problem, sample=sample, repeats=repeats, peak_flops=flops, trace=profile)
        profile = None
        rows = [row | common for row in rows]
        records += rows
        if json_lines:
            print("\n".join(map(json.dumps, rows)), flush=True)
    if out:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "filter_throughput.md").write_text(document(records), encoding="utf-8")
    Console(stderr=json_lines).print(_table(records))


def measure(problem: Problem, *, sample: int, repeats: int, peak_flops: float, trace: Path | None) -> list[Record]:
    """One record a method; raises ``RuntimeError`` unless all accept the same candidates, the planted ones included.

    Methods take turns, so that a disturbance does not meet one of them alone; the first turn compiles and is not
    timed. What is tabulated before blocks are filtered is timed for the filter only.
    """
    rng = np.random.default_rng(0)
    some = problem.members(*problem.pairs(rng.choice(problem.part, min(sample, problem.part), replace=False)))
    members = np.unique(np.r_[problem.planted, some], axis=0)
    runs = {"gathered": gathered(problem, members), "numpy": blocked(problem)}
    runs |= {"jit": jitted(problem), "filter": filtered(problem)}
    sizes = dict(zip(METHODS, (members.shape[0], problem.part, problem.part, problem.candidates), strict=True))
    found = {name: run() for name, run in runs.items()}
    _agree(problem, found, frozenset(map(tuple, members.tolist())))
    best = {name: np.inf for name in METHODS}
    for _ in range(repeats):
        for name, run in runs.items():
            best[name] = min(best[name], seconds(run))
    if trace is not None:
        with jax.profiler.trace(str(trace)):
            runs["filter"]()
    speed = {name: sizes[name] / best[name] for name in METHODS}
    flops = operations(problem.check)
    shared = {"rank": problem.rank, "degree": problem.degree, "table": problem.rows.shape[0]}
    records = [
        shared
        | {"method": name, "candidates": sizes[name], "accepted": len(found[name]), "seconds": round(best[name], 5)}
        | {"candidates_per_second": round(speed[name]), "ratio": round(speed[name] / speed["numpy"], 3)}
        | {"ratio_gathered": round(speed[name] / speed["gathered"], 3)}
        | {"device": jax.devices()[0].device_kind if name in ("jit", "filter") else "cpu"}
        for name in METHODS
    ]
    records[-1] |= {"operations": flops, "fraction_of_peak": round(flops * speed["filter"] / peak_flops, 4)}
    return records


def _agree(problem: Problem, found: dict[str, Blocks], sample: Blocks) -> None:
    expected, planted = found["numpy"], frozenset(map(tuple, problem.planted.tolist()))
    pairs = {
        "gathered": (found["gathered"], expected & sample),
        "jit": (found["jit"], expected),
        "filter": (problem.in_part(found["filter"]), expected),
        "numpy, for the planted blocks": (planted & expected, planted),
    }
    for name, (got, want) in pairs.items():
        if got != want:
            raise RuntimeError(f"{name} accepts {len(got)} candidates, {len(got ^ want)} of them wrong or missing")


def document(records: Sequence[Record]) -> str:
    """The page."""
    first, filters = records[0], [r for r in records if r["method"] == "filter"]
    parts = [
        "# Throughput of the device filter",
        "Written by `python -m benchmarks.speed.filter_throughput --out`; do not edit. Millions of candidates a "
        "second, the best of several calls after compilation: neighbourhoods of one centre, a GCN layer of width "
        f"{HIDDEN} with ReLU, and a subspace of the given rank. All methods accept the same candidates; `gathered` is "
        "timed on a sample of them, `numpy` and `jit` on a part.",
        "## Results",
        markdown(HEAD, _lines(records)),
        "## How it was run",
        markdown(
            ("rank, degree", "rows", "candidates", "accepted", "seconds of the filter", "operations a candidate"),
            [
                (f"{r['rank']}, {r['degree']}", f"{r['table']:,}", f"{r['candidates']:,}", f"{r['accepted']:,}")
                + (f"{r['seconds']:.2f}", f"{r['operations']}")
                for r in filters
            ],
        ),
        f"Host: {first['host']}. Device of `jit` and `filter`: {filters[0]['device']}, float32 peak "
        f"{first['peak_flops'] / 1e9:.0f} Gflop/s, measured in the same run with {first['peak_by']}. Seed "
        f"{first['seed']}, jgleak {first['versions']['jgleak']}.",
    ]
    return "\n\n".join(parts) + "\n"


def _lines(records: Sequence[Record]) -> list[tuple[str, ...]]:
    lines = []
    for i in range(0, len(records), len(METHODS)):
        by = {r["method"]: r for r in records[i : i + len(METHODS)]}
        ours = by["filter"]
        sizes = f"{ours['rank']}", f"{ours['degree']}"
        speeds = (f"{by[m]['candidates_per_second'] / 1e6:.3g}" for m in METHODS)
        ratios = f"{ours['ratio']:.1f}", f"{ours['ratio_gathered']:.0f}", f"{100 * ours['fraction_of_peak']:.0f} %"
        lines.append((*sizes, *speeds, *ratios))
    return lines


def _table(records: Sequence[Record]) -> Table:
    table = Table(box=SIMPLE_HEAD, title="millions of candidates a second", title_justify="left", collapse_padding=True)
    for column in HEAD:
        table.add_column(column, justify="right", no_wrap=True)
    for line in _lines(records):
        table.add_row(*line)
    return table


def _numbers(text: str, allowed: range, hint: str) -> list[int]:
    numbers = parts(text)
    if not numbers or not all(number.isdecimal() and int(number) in allowed for number in numbers):
        message = f"{text!r}: give numbers from {allowed[0]} to {allowed[-1]}, by commas"
        raise typer.BadParameter(message, param_hint=hint)
    return list(dict.fromkeys(map(int, numbers)))


if __name__ == "__main__":
    app()
