"""Records of a row and an attacker, for papers that measure edges and features: means over clients of every column."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.lib.clients import Progress, attacked
from benchmarks.lib.records import Record
from benchmarks.papers.edges.table import Attacker, Column, Line, Table
from jgleak.audit.record import summary_record
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.metrics import clustered, rate

RIGHT = 1e-4
"""RNMSE of features below this counts as exact."""

KEPT = ("graph", "n_nodes", "gradient_distance", "seconds", "stop", "failure")


def measure(
    table: Table, row: Line, methods: Sequence[Attacker], *, graphs: int | None, time_limit: float, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Run the attackers of a row on the same clients, one record each, ready for JSON.

    A row whose data are not there or too few, and an attacker that cannot work on it, have ``absent`` (the reason)
    instead of results.
    """
    chosen = [method for method in methods if method.name in row.attackers]
    if not chosen:
        yield {"row": row.name, "attack": None, "absent": f"its attacks are {', '.join(row.attackers)}; choose of them"}
        return
    size = _size(row, graphs, time_limit)
    told = tuple(sorted({*row.experiment.know, *(what for method in chosen for what in method.know)}))
    try:
        setup = prepare(dataclasses.replace(row.experiment, know=told, attack=chosen[0].attack, **size))
    except (FileNotFoundError, ValueError) as error:
        yield {"row": row.name, "attack": None, "absent": str(error)}
        return
    for method in chosen:
        specification = row.specification(method, **size)
        try:
            clients = attacked(specification, setup, method.name, progress, table.more)
        except ValueError as error:
            yield {"row": row.name, "attack": method.name, "absent": str(error)}
            continue
        columns = [column for column in table.columns if column.title in row.columns]
        yield record(row, method, columns, clients, summary_record(clients, specification))


def wanted(row: Line, method: Attacker, graphs: int | None, time_limit: float) -> Specification | None:
    """The experiment of an attacker on a row, where the row has it."""
    return row.specification(method, **_size(row, graphs, time_limit)) if method.name in row.attackers else None


def _size(row: Line, graphs: int | None, time_limit: float) -> dict[str, Any]:
    return {"graphs": graphs or row.experiment.graphs, "time_limit": time_limit}


def record(
    row: Line, method: Attacker, columns: Sequence[Column], clients: Sequence[Record], summary: Record
) -> dict[str, Any]:
    """Everything about one row and attacker."""
    claims = [claim(client) for client in clients] if method.attack == "closed-form" else None
    kept = [
        {name: client[name] for name in KEPT}
        | {column.title: column.of(client) for column in columns}
        | {"claim": None if claims is None else claims[i]}
        for i, client in enumerate(clients)
    ]
    return {
        "row": row.name,
        "attack": method.name,
        "title": row.title,
        "source": row.source,
        "paper": dict(row.printed.get(method.name, {})),
        "means": {column.title: mean(kept, column, row.experiment.batch_size) for column in columns},
        "holds": None if claims is None else claims.count("exact") + claims.count("wrong"),
        "exact": None if claims is None else claims.count("exact"),
        "seconds_a_client": sum(client["seconds"] for client in clients) / len(clients),
        "stops": dict(Counter(client["stop"] for client in clients)),
        "failures": sum(client["failure"] is not None for client in clients),
        "clients": kept,
        **{key: summary[key] for key in ("graphs", "seed", "device", "version", "specification")},
    }


def claim(client: Record) -> str:
    """What the closed form says of a client, and whether that is so: ``fails`` (a condition), ``exact``, ``wrong``."""
    said = {client["info"].get("adjacency"), client["info"].get("features")}
    if client["edges"] is None or not said <= {"exact", "known"}:
        return "fails"
    error = client["features"]["file_order"]["rnmse"]
    right = client["edges"]["file_order"]["accuracy"] == 1.0 and (error is None or error < RIGHT)
    return "exact" if right else "wrong"


def mean(clients: Sequence[Record], column: Column, batch: int) -> dict[str, Any] | None:
    """Mean, 95 % interval over updates, and number of the graphs where the metric is defined; what is better larger is
    a share, other metrics are errors, of 0 or more. None where it is defined for none.

    Args:
      clients: a graph each, as records have them: its number (``graph``), and its value under the column's title.
      column: the metric.
      batch: graphs behind an update.
    """
    live = {c["graph"]: float(v) for c in clients if (v := c[column.title]) is not None and np.isfinite(v)}
    if not live:
        return None
    updates = [graph // batch for graph in live]
    found = (rate if column.up else clustered)(list(live.values()), clusters=updates)
    return {**dataclasses.asdict(found), "low": max(found.low, 0.0), "clients": len(live)}
