"""The accelerator beside the CPU of the same machine: ``python -m benchmarks.speed.accelerator --write``.

Filter, matching and census run twice, in a process each: on the device that JAX takes by itself, and on the CPU. Where
that device is the CPU they run once.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated

import jax
import typer
from rich.console import Console

from benchmarks.lib.machine import peak, seconds
from benchmarks.lib.page import markdown
from benchmarks.lib.provenance import command, provenance
from benchmarks.lib.records import Record, Records
from benchmarks.speed.filter_methods import filtered, operations
from benchmarks.speed.filter_problem import Problem
from benchmarks.speed.matching_throughput import MODELS, operations_of_a_step, posed, stride_seconds
from jgleak.attacks.attack import Budget
from jgleak.attacks.matching.dlg import WITH_LABELS
from jgleak.attacks.matching.run import STRIDE
from jgleak.attacks.registry import get_attack
from jgleak.datasets import load
from jgleak.federated import Knowledge, fedsgd
from jgleak.gnn import standard

HEAD = ("what", "unit", "device", "of its peak", "CPU", "of its peak", "device / CPU")

ABOUT = """\
Written by `python -m benchmarks.speed.accelerator --write`; do not edit. The same work on the device that JAX takes by
itself and on the CPU of the same machine, the best of several calls after compilation. *Filter*: neighbourhoods of one
centre, rank 20. *Matching*: steps of iDLG, clients side by side; its operations are those that XLA counts for a step.
*Census*: embedded molecules one after another, most of whose time the host takes, so that no share of a peak is given.
*Peak*: float32 operations a second, measured in the same process."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    candidates: Annotated[int, typer.Option(min=1000, help="Fewest candidates of the filter.")] = 200_000_000,
    clients: Annotated[int, typer.Option(min=1, help="Clients of matching, side by side.")] = 256,
    molecules: Annotated[int, typer.Option(min=1, help="Clients of the census.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each; the best counts.")] = 3,
    write: Annotated[bool, typer.Option("--write", help="Into results/accelerator.jsonl and .md.")] = False,
    here: Annotated[bool, typer.Option("--here", help="Only in this process, as JSON lines.")] = False,
) -> None:
    """One table: what the device does, what the CPU does, and the ratio."""
    sizes = {"candidates": candidates, "clients": clients, "molecules": molecules, "repeats": repeats}
    if here:
        for record in measured(**sizes):
            print(json.dumps(record | sizes), flush=True)
        return
    stderr = Console(stderr=True)
    with stderr.status("on the device"):
        records = _in_a_process(sizes, {})
    if records[0]["platform"] != "cpu":
        with stderr.status("on the CPU"):
            records += _in_a_process(sizes, {"JAX_PLATFORMS": "cpu"})
    records = [record | {"command": command()} for record in records]  # this process's, not those that it began
    for record in records:
        Records().say(record)
    if write:
        Records(records).write("accelerator", document(records))
    Console(stderr=True).print(document(records))


def measured(candidates: int, clients: int, molecules: int, repeats: int) -> Iterator[Record]:
    """Every measurement, on this process's device."""
    flops, by = peak()
    device = jax.devices()[0]
    about = {"platform": device.platform, "device": device.device_kind, "devices": jax.device_count()}
    about |= {"peak_flops": flops, "peak_by": by} | provenance()
    problem = Problem.draw(20, 3, candidates=candidates, part=1000, seed=0)
    run = filtered(problem)
    rate = problem.candidates / _best(run, repeats)
    yield _record("filter", "candidates/s", rate, operations(problem.check) * rate / flops) | about
    for name in MODELS:
        setting, problems = posed(name, nodes=8, clients=clients)
        recipe = dataclasses.replace(WITH_LABELS, restarts=4, target=0.0, steps=10**6)
        best = min(stride_seconds(recipe, setting, problems) for _ in range(repeats))
        rate = clients * recipe.restarts * STRIDE / best
        each = operations_of_a_step(recipe, setting, problems[0])
        yield _record(f"matching, {name}'s model", "graph-steps/s", rate, each * rate / flops) | about
    rate = molecules / _best(_census(molecules), repeats)
    yield _record("census, grain's model", "graphs/s", rate, None) | about


def _record(what: str, unit: str, rate: float, share: float | None) -> dict[str, str | float | None]:
    return {"what": what, "unit": unit, "rate": rate, "of_peak": share}


def _best(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the best call, after one that compiles."""
    return min(seconds(run) for _ in range(repeats + 1))


def _census(molecules: int) -> Callable[[], None]:
    """Attacks on so many embedded molecules, their number of atoms known."""
    data = load("embedded")
    model = standard(data.space.width)
    params = model.initial(key=jax.random.key(0))
    clients = [
        (fedsgd(model, params, [graph], data.space, loss="bce"), Knowledge(data.space, n=graph.n))
        for graph in data.graphs[:molecules]
    ]

    def run() -> None:
        for seen, known in clients:
            get_attack("census")(seen, known, key=jax.random.key(1), budget=Budget(time_limit=60))

    return run


def _in_a_process(sizes: Mapping[str, int], variables: Mapping[str, str]) -> list[Record]:
    """The records of a process of its own, since JAX keeps the device it began with."""
    words = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    command = [sys.executable, "-m", "benchmarks.speed.accelerator", "--here", *words]
    done = subprocess.run(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)
    return [json.loads(line) for line in done.stdout.splitlines()]


def document(records: Sequence[Record]) -> str:
    """The page."""
    platforms = dict.fromkeys(record["platform"] for record in records)
    by = {(record["what"], record["platform"]): record for record in records}
    cells = []
    for what in dict.fromkeys(record["what"] for record in records):
        cpu = by[what, "cpu"]
        device = by.get((what, next(iter(platforms))), cpu) if len(platforms) > 1 else None
        ratio = "" if device is None else f"{device['rate'] / cpu['rate']:.1f}"
        cells.append((what, cpu["unit"], *_shown(device), *_shown(cpu), ratio))
    places = "\n".join(
        f"- {r['platform']}: {r['devices']} x {r['device']}, peak {r['peak_flops'] / 1e9:,.0f} Gflop/s by "
        f"{r['peak_by']}; host {r['host']}; jgleak {r['versions']['jgleak']}."
        for r in {record["platform"]: record for record in records}.values()
    )
    return f"# Accelerator and CPU\n\n{ABOUT}\n\n{markdown(HEAD, cells)}\n\n{places}\n"


def _shown(record: Record | None) -> tuple[str, str]:
    if record is None:
        return "none here", ""
    share = record["of_peak"]
    return f"{record['rate']:,.3g}" if record["rate"] < 100 else f"{record['rate']:,.0f}", (
        "" if share is None else f"{100 * share:.2g} %"
    )


if __name__ == "__main__":
    app()
