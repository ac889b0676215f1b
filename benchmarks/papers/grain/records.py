"""Records of a row and a method: from running it, or from a finished run of the command line."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.lib.clients import Progress, attacked
from benchmarks.lib.records import Record
from benchmarks.papers.grain.methods import Method, identify
from benchmarks.papers.grain.rivals import LBFGS, NAMES, printed_of
from benchmarks.papers.grain.rows import Row
from jgleak.audit.record import RATES, SIZES, summary_record
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.metrics import rate

RECALL = "gsm0_recall"
"""GSM-0 as the authors' code has it (``jgleak.metrics.gsm.Gsm``). Records of early runs lack it."""

KEPT = (
    *("graph", "n_nodes", *RATES, RECALL, "truth_in_set", "guess_rate"),
    *("gradient_distance", "seconds", "stop", "failure"),
)
"""What is kept of a client, beside the status of its certificate."""


def measure(
    row: Row, methods: Sequence[Method], *, graphs: int | None, time_limit: float, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Run the methods on the same clients, one record each, ready for JSON.

    A row whose data are not there or too few, and a method that cannot work on it, have ``absent`` (the reason) instead
    of results.
    """
    size = _size(row, graphs, time_limit)
    try:
        told = tuple(sorted({what for method in methods for what in method.know}))
        setup = prepare(dataclasses.replace(row.experiment, know=told, **size))
    except (FileNotFoundError, ValueError) as error:
        yield {"row": row.name, "attack": None, "absent": str(error)}
        return
    for method in methods:
        specification = wanted(row, method, graphs, time_limit)
        if specification is None:
            continue
        try:
            clients = attacked(specification, setup, method.name, progress)
        except ValueError as error:
            yield {"row": row.name, "attack": method.name, "absent": str(error)}
            continue
        yield record(row, method, clients, summary_record(clients, specification))


def wanted(row: Row, method: Method, graphs: int | None, time_limit: float) -> Specification | None:
    """The experiment of a method on a row; None where it is not run there."""
    specification = method.specification(row)
    return None if specification is None else dataclasses.replace(specification, **_size(row, graphs, time_limit))


def _size(row: Row, graphs: int | None, time_limit: float) -> dict[str, Any]:
    return {"graphs": graphs or row.printed.graphs, "time_limit": time_limit}


def finished(file: Path, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Records of the runs in a file that ``jgleak attack --json`` or ``--out`` wrote: clients, then their summary.

    Raises:
      ValueError: another kind of file, a run that was cut short, or one that belongs to no row.
    """
    clients: list[dict[str, Any]] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = json.loads(line)
            if "summary" not in entry:
                clients.append({name: entry[name] for name in (*KEPT, "certificate")})
                continue
            summary = entry["summary"]
            specification = Specification.from_json(summary["specification"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(
                f"{file}, line {number}: not what `jgleak attack --json` writes today ({error})"
            ) from error
        wanted = specification.graphs or summary["graphs"]
        if not 0 < len(clients) == summary["graphs"] == wanted:
            raise ValueError(f"{file}: {len(clients)} of {wanted} clients; this run was cut short, run it again")
        yield record(*identify(specification, rows), clients, summary)
        clients = []
    if clients:
        raise ValueError(f"{file}: {len(clients)} clients and no summary; wait until the run has ended")


def record(row: Row, method: Method, clients: Sequence[Record], summary: Record) -> dict[str, Any]:
    """Everything about one row and method: rates in [0, 1] with 95 % intervals, hours for 100 graphs.

    ``by_size`` has the same rates by size class, ``clients`` the single numbers.
    """
    kept = [{name: c[name] for name in KEPT} | {"certificate": _status(c)} for c in clients]
    return {
        "row": row.name,
        "attack": method.name,
        "title": row.title,
        "source": row.source,
        "paper": printed(row, method.name),
        "rates": rates(kept),
        "by_size": by_size(kept),
        "hours_per_100": sum(c["seconds"] for c in clients) / len(clients) * 100 / 3600,
        "stops": dict(Counter(c["stop"] for c in kept)),
        "failures": sum(c["failure"] is not None for c in kept),
        "clients": kept,
        **{key: summary[key] for key in ("graphs", "seed", "device", "version", "specification")},
    }


def printed(row: Row, method: str = "grain") -> dict[str, float | None]:
    """The paper's numbers of GRAIN, or of a rival, in our units: rates in [0, 1], hours for 100 graphs."""
    p = printed_of(row.name, method) if method in NAMES + LBFGS else row.printed
    assert p is not None, "such a method is not run on such a row"
    percent = {"exact": p.full, "gsm0": p.gsm0, "gsm1": p.gsm1, "gsm2": p.gsm2}
    shares = {name: None if rate is None else round(rate / 100, 4) for name, rate in percent.items()}
    return shares | {"hours_per_100": None if p.hours is None else p.hours * 100 / p.graphs}


def rates(clients: Sequence[Record]) -> dict[str, Any]:
    """Means over clients, each with its interval; how many were certified unique, and how many of those wrongly.

    ``RECALL`` and ``guess_rate`` are left out where a client has none.
    """
    unique = [c["certificate"] == "unique" for c in clients]
    values = {name: [c[name] for c in clients] for name in (*RATES, "truth_in_set")} | {"unique": unique}
    for name in (RECALL, "guess_rate"):
        if all(c.get(name) is not None for c in clients):
            values[name] = [c[name] for c in clients]
    return {
        "graphs": len(clients),
        **{name: dataclasses.asdict(rate([float(v) for v in column])) for name, column in values.items()},
        "unique_count": sum(unique),
        "unique_wrong": sum(u and not c["exact"] for u, c in zip(unique, clients, strict=True)),
    }


def by_size(clients: Sequence[Record]) -> dict[str, Any]:
    """Size class to its rates; classes without a graph are left out."""
    classes = {name: [c for c in clients if low <= c["n_nodes"] <= high] for name, low, high in SIZES}
    return {name: rates(part) for name, part in classes.items() if part}


def _status(client: Record) -> str | None:
    return None if client["certificate"] is None else client["certificate"]["status"]
