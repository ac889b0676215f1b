"""GraphDLG's recursion beside the Kronecker system, and how often it is exact.

``python -m benchmarks.speed.recursion_speed`` prints a JSON line for the speed, and one for every setting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from jaxtyping import Array, Float

from benchmarks.lib.machine import seconds
from benchmarks.lib.options import parts
from benchmarks.lib.page import markdown
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from jgleak.attacks.closed_form.recursion import Recovered, recover
from jgleak.attacks.closed_form.tolerances import TOLERANCES
from jgleak.datasets import load
from jgleak.features import FeatureSpace
from jgleak.federated import fedsgd
from jgleak.gnn import GNN, MLP, Pooled, standard
from jgleak.graph import Graph, GraphBatch

FULL = 1e-4
"""Relative singular value from which a direction counts: float32 gradients lose what is weaker to rounding."""

EXACT = 1e-3
"""Relative error of the features below which they count as recovered."""

ABOUT = """\
Written by `python -m benchmarks.speed.recursion_speed --write`; do not edit. The features that the recursion gets from
the gradients of {graphs} graphs of each set, one a client, with the true edges and random weights: GCN with ReLU, one
linear map after pooling, cross-entropy.

*Full rank*: share of graphs whose `r_i` have full row rank in every layer (relative singular values above {full:g});
*largest error* is the relative error of the features among those. *Exact*: share of all graphs with an error below
{exact:g}, with the true slopes of the last activation (under maximum pooling also the true last states), and with the
paper's ones. It may exceed the first: nodes that are alike have equal rows in every `r_i`, and the least solution gives
them equal states, as they have."""

HEAD = ("", "layers", "width", "full rank", "largest error", "exact", "exact, ones", "median error", "median, ones")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    datasets: Annotated[str, typer.Option(help="By commas; empty: the speed alone.")] = "mutag,ptc_mr,enzymes",
    graphs: Annotated[int, typer.Option(min=1, help="Of each data set.")] = 100,
    nodes: Annotated[int, typer.Option(min=2, help="For the speed.")] = 30,
    width: Annotated[int, typer.Option(min=2, help="For the speed.")] = 64,
    repeats: Annotated[int, typer.Option(min=1, help="The best counts.")] = 5,
    write: Annotated[bool, typer.Option("--write", help="Into results/recursion.jsonl and .md.")] = False,
) -> None:
    """One JSON line for the speed of one layer's solve, and one for every data set, depth, pooling and width."""
    records = Records()
    records.say(provenance() | {"nodes": nodes, "width": width} | speed(nodes, width, repeats))
    for name in parts(datasets):
        data = load(name, graphs=graphs, seed=0)
        space = dataclasses.replace(data.space, mean=None, std=None)
        for layers in (2, 3, 4):
            for pooling in ("mean", "sum", "max"):
                for hidden in (16, 64, 128):
                    readout = Pooled(pooling, MLP((data.classes,)))
                    model = standard(space.width, "gcn", readout, layers=layers, hidden=hidden, last_act=True)
                    row = {"dataset": name, "layers": layers, "pooling": pooling, "hidden": hidden}
                    records.say(row | exactness(model, data.graphs, space))
    if write:
        records.write("recursion", document(records))


def speed(nodes: int, width: int, repeats: int) -> dict[str, float]:
    """Seconds of one solve ``dW = H^T r`` by pseudo-inverse and by Algorithm 1's system, both compiled beforehand."""
    rng = np.random.default_rng(0)
    coefficients, states = rng.normal(size=(nodes, width)), rng.normal(size=(nodes, width))
    with jax.enable_x64(True):
        arguments = jnp.asarray(coefficients), jnp.asarray(states.T @ coefficients)
        runs = {}
        for name, solve in (("pinv", by_pinv), ("kronecker", by_kronecker)):
            compiled = jax.jit(solve).lower(*arguments).compile()
            np.testing.assert_allclose(compiled(*arguments), states, rtol=1e-6, atol=1e-8)
            times = repeats if name == "pinv" else 1
            runs[name] = min(seconds(lambda c=compiled: c(*arguments).block_until_ready()) for _ in range(times))
    return {**runs, "ratio": runs["kronecker"] / runs["pinv"]}


def by_pinv(coefficients: Float[Array, "n D"], gradient: Float[Array, "F D"]) -> Float[Array, "n F"]:
    """The recursion's solve."""
    return (gradient @ jnp.linalg.pinv(coefficients, rtol=TOLERANCES.rank)).T


def by_kronecker(coefficients: Float[Array, "n D"], gradient: Float[Array, "F D"]) -> Float[Array, "n F"]:
    """Algorithm 1, lines 8 to 11: the dense system of ``(F D) x (n F)``."""
    n, width = coefficients.shape[0], gradient.shape[0]
    system = jnp.kron(coefficients.T, jnp.eye(width, dtype=gradient.dtype))
    return jnp.linalg.lstsq(system, gradient.T.reshape(-1), rcond=TOLERANCES.rank)[0].reshape(n, width)


def exactness(model: GNN, graphs: Sequence[Graph], space: FeatureSpace) -> dict[str, Any]:
    """Share of graphs whose ``r_i`` all have full row rank, and the features' errors, with the true edges."""
    params = model.initial(key=jax.random.key(0))
    updates = [fedsgd(model, params, [g], space, loss="ce").update for g in graphs]
    edges, last = [g.adjacency for g in graphs], _last_states(model, params, graphs, space)
    slopes = [(rows > 0).astype(float) for rows in last]
    known = last if model.readout.additive is None else None
    true = recover(model, params, updates, edges, last=slopes, states=known)
    ones = recover(model, params, updates, edges)
    ranks = [min(np.linalg.matrix_rank(r, rtol=FULL) for r in f.coefficients) for f in true]
    full = [rank == g.n for rank, g in zip(ranks, graphs, strict=True)]
    errors = [_errors(found, graphs, space) for found in (true, ones)]
    return {
        "graphs": len(graphs),
        "full_rank": float(np.mean(full)),
        "error_full_rank": float(errors[0][full].max()) if any(full) else None,
        "exact_true_mask": float(np.mean(errors[0] < EXACT)),
        "exact_ones": float(np.mean(errors[1] < EXACT)),
        "error_true_mask": float(np.median(errors[0])),
        "error_ones": float(np.median(errors[1])),
    }


def document(records: Sequence[dict[str, Any]]) -> str:
    """The page: the speed's record first, then one line a setting."""
    first, *rows = records
    graphs = ", ".join(str(n) for n in sorted({row["graphs"] for row in rows}))
    parts = [
        "# GraphDLG's recursion: when it is exact, and what it costs",
        f"One solve at {first['nodes']} nodes and width {first['width']}: {1e3 * first['pinv']:.2f} ms by the "
        f"pseudo-inverse, {first['kronecker']:.1f} s by the paper's Kronecker system, {first['ratio']:,.0f} times as "
        f"long; both give the same states. {first['host']}.",
        ABOUT.format(graphs=graphs, full=FULL, exact=EXACT),
        markdown(HEAD, [_line(row) for row in rows]),
    ]
    return "\n\n".join(parts) + "\n"


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    worst = row["error_full_rank"]
    return (
        f"{row['dataset']}, {row['pooling']}",
        str(row["layers"]),
        str(row["hidden"]),
        f"{row['full_rank']:.2f}",
        "" if worst is None else f"{worst:.0e}",
        *(f"{row[name]:.2f}" for name in ("exact_true_mask", "exact_ones")),
        *(f"{row[name]:.2g}" for name in ("error_true_mask", "error_ones")),
    )


def _last_states(model: GNN, params: Any, graphs: Sequence[Graph], space: FeatureSpace) -> list[np.ndarray]:
    batch = GraphBatch.from_graphs(graphs, space)
    run = jax.jit(jax.vmap(lambda x, a, m: model.apply({"params": params}, x, a, m, method="states")))
    found: Any = run(batch.nodes, batch.adjacency, batch.node_mask)
    return [np.asarray(found[-1])[i, : g.n] for i, g in enumerate(graphs)]


def _errors(found: list[Recovered], graphs: Sequence[Graph], space: FeatureSpace) -> Float[np.ndarray, " G"]:
    wanted = [space.encode(g.x) for g in graphs]
    return np.array([np.linalg.norm(f.states[0] - x) / np.linalg.norm(x) for f, x in zip(found, wanted, strict=True)])


if __name__ == "__main__":
    app()
