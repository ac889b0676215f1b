"""Graph-steps a second of the matching loop, side by side and alone.

``python -m benchmarks.speed.matching_throughput`` prints a line a model.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import jax
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.lib.machine import seconds
from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import RESULTS
from jgleak.attacks.matching.dlg import WITH_LABELS
from jgleak.attacks.matching.problem import Problem, Setting, pose
from jgleak.attacks.matching.recipe import Recipe, init, step
from jgleak.attacks.matching.run import STRIDE, MatchingRun, compilations_of_the_loop
from jgleak.datasets import load
from jgleak.federated import Knowledge, fedsgd
from jgleak.gnn import Pooled, standard

MODELS: dict[str, dict[str, Any]] = {
    "graphdlg": {"hidden": 16, "readout": Pooled()},
    "fedgig": {"hidden": 100, "readout": Pooled()},
    "grain": {},
}
"""The papers' models, by what they change of ``standard``'s (GRAIN's)."""

HEAD = ("model", "nodes", "clients x restarts", "side by side", "one by one", "ratio", "compiled", "again")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    models: Annotated[str, typer.Option(help=f"By commas: {', '.join(MODELS)}.")] = "graphdlg,fedgig,grain",
    nodes: Annotated[int, typer.Option(min=2, help="Largest molecule; all are padded to one size.")] = 8,
    clients: Annotated[int, typer.Option(min=1, help="Clients side by side.")] = 64,
    restarts: Annotated[int, typer.Option(min=1, help="Restarts of each.")] = 4,
    alone: Annotated[int, typer.Option(min=1, help="Of all, how many are attacked one by one.")] = 16,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each; the best counts.")] = 3,
    json_lines: Annotated[bool, typer.Option("--json", help="JSON on standard output, one object a model.")] = False,
    out: Annotated[bool, typer.Option("--out", help="Write benchmarks/results/matching_throughput.md.")] = False,
) -> None:
    """Step iDLG on molecules, all side by side and one by one through the same loop, compiled beforehand."""
    records = []
    for name in chosen(models, MODELS, "--models"):
        record = _measure(name, nodes, clients, restarts, min(alone, clients * restarts), repeats)
        records.append(record)
        if json_lines:
            print(json.dumps(record), flush=True)
    lines = [_line(record) for record in records]
    if out:
        (RESULTS / "matching_throughput.md").write_text(_page(records, lines), encoding="utf-8")
    table = Table(box=SIMPLE_HEAD, title="graph-steps a second", title_justify="left")
    for column in HEAD:
        table.add_column(column, justify="left" if column == "model" else "right")
    for line in lines:
        table.add_row(*line)
    Console(stderr=json_lines).print(table)


def posed(name: str, *, nodes: int, clients: int) -> tuple[Setting, list[Problem]]:
    """The problems of so many clients of a model of ``MODELS``, all padded to one size."""
    data = load("embedded", max_nodes=nodes)
    model = standard(data.space.width, **MODELS[name])
    params = model.initial(key=jax.random.key(0))
    graphs = [data.graphs[i % len(data.graphs)] for i in range(clients)]
    posed = [
        pose(fedsgd(model, params, [g], data.space, loss="ce"), Knowledge(data.space, n=g.n), infer=True)
        for g in graphs
    ]
    return posed[0][0], [problem for _, problem in posed]


def stride_seconds(recipe: Recipe, setting: Setting, problems: list[Problem]) -> float:
    """Seconds of one stride of the loop, the second one (the first may compile)."""
    together = MatchingRun(recipe, setting, problems, list(jax.random.split(jax.random.key(1), len(problems))))
    together.advance()
    return seconds(together.advance)


def operations_of_a_step(recipe: Recipe, setting: Setting, problem: Problem) -> float:
    """Floating-point operations of one step on one restart, as XLA counts them."""
    state = init(recipe, setting, problem, key=jax.random.key(0))
    compiled = jax.jit(lambda problem, state: step(recipe, setting, problem, state)).lower(problem, state).compile()
    return float((compiled.cost_analysis() or {})["flops"])


def _measure(name: str, nodes: int, clients: int, restarts: int, alone: int, repeats: int) -> dict[str, Any]:
    setting, problems = posed(name, nodes=nodes, clients=clients)
    many = dataclasses.replace(WITH_LABELS, restarts=restarts, target=0.0, steps=10**6)
    one = dataclasses.replace(many, restarts=1)
    before = compilations_of_the_loop()
    together = min(stride_seconds(many, setting, problems) for _ in range(repeats + 1))
    compiled = compilations_of_the_loop() - before
    stride_seconds(one, setting, problems[:1])
    each = (
        min(sum(stride_seconds(one, setting, [p]) for p in (problems * restarts)[:alone]) for _ in range(repeats))
        / alone
    )
    before = compilations_of_the_loop()
    stride_seconds(many, setting, problems[::-1])
    again = compilations_of_the_loop() - before
    rate, single = clients * restarts * STRIDE / together, STRIDE / each
    return {
        "model": name,
        "nodes": int(problems[0].mask.shape[1]),
        "clients": clients,
        "restarts": restarts,
        "side_by_side": rate,
        "one_by_one": single,
        "ratio": rate / single,
        "compiled": compiled,
        "compiled_again": again,
        "device": jax.devices()[0].device_kind,
        **provenance(),
    }


def _line(record: dict[str, Any]) -> tuple[str, ...]:
    return (
        record["model"],
        str(record["nodes"]),
        f"{record['clients']} x {record['restarts']}",
        f"{record['side_by_side']:,.0f}",
        f"{record['one_by_one']:,.0f}",
        f"{record['ratio']:.1f}",
        str(record["compiled"]),
        str(record["compiled_again"]),
    )


def _page(records: list[dict[str, Any]], lines: list[tuple[str, ...]]) -> str:
    where = f"{records[0]['host']}; {records[0]['device']}; jgleak {records[0]['versions']['jgleak']}"
    about = (
        "Written by `python -m benchmarks.speed.matching_throughput --out`; do not edit. One graph-step is one step of "
        "iDLG on one restart of one client: a second derivative of the model and an Adam update. *Compiled*: functions "
        "of the loop that the first run side by side compiled; *again*: that other clients of the same padded size "
        "compiled."
    )
    return f"# Matching throughput\n\n{about}\n\n{markdown(HEAD, lines)}\n\n{where}.\n"


if __name__ == "__main__":
    app()
