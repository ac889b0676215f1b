"""One row of a table: run its experiment and the trivial baselines on the same clients, and keep plain numbers."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grain_rows import Row
from jgleak.audit.experiment import Setup, prepare, run
from jgleak.audit.record import RATES, SIZES, result_record, summary_record
from jgleak.audit.specification import Specification

BASELINES = {"random": ("n",), "empty": ("n",), "mean-adjacency": ("n", "auxiliary")}
"""What each trivial baseline is given: more than the attack, which has to find the number of nodes."""

Progress = Callable[[str, int, int], None]
"""Told the attack's name, clients done and clients in all."""


def measure(row: Row, *, graphs: int | None, time_limit: float, progress: Progress) -> dict[str, Any]:
    """Everything about one row, ready for JSON: rates in [0, 1], hours for 100 graphs.

    ``ours`` and each of ``baselines`` hold a mean with its 95 % bootstrap interval for ``exact`` and each GSM;
    ``by_size`` has the same by size class; ``clients`` the single numbers. A row without an experiment, or whose data
    are not there or too few, has ``absent`` (the reason) instead.
    """
    record: dict[str, Any] = {
        "row": row.name,
        "title": row.title,
        "source": row.source,
        "paper": printed(row),
    }
    if row.experiment is None:
        return record | {"absent": row.missing}
    specification = dataclasses.replace(row.experiment, graphs=graphs or row.printed.graphs, time_limit=time_limit)
    try:
        setup = prepare(specification)
    except (FileNotFoundError, ValueError) as error:
        return record | {"absent": str(error)}
    clients = _attacked(specification, setup, progress)
    summary = summary_record(clients, specification)
    return record | {
        "ours": {name: summary[name] for name in RATES},
        "hours_per_100": summary["seconds_total"] / len(clients) * 100 / 3600,
        "by_size": by_size(clients, specification),
        "baselines": _baselines(specification, setup, progress),
        "stops": dict(Counter(c["stop"] for c in clients)),
        "failures": summary["failures"],
        "clients": [
            {key: c[key] for key in ("graph", "n_nodes", *RATES, "gradient_distance", "seconds", "stop", "failure")}
            for c in clients
        ],
        **{key: summary[key] for key in ("graphs", "seed", "device", "version", "specification")},
    }


def printed(row: Row) -> dict[str, float | None]:
    """The paper's numbers in our units: rates in [0, 1], hours for 100 graphs."""
    p = row.printed
    percent = {"exact": p.full, "gsm0": p.gsm0, "gsm1": p.gsm1, "gsm2": p.gsm2}
    rates = {name: None if rate is None else round(rate / 100, 4) for name, rate in percent.items()}
    return rates | {"hours_per_100": None if p.hours is None else p.hours * 100 / p.graphs}


def by_size(clients: Sequence[Mapping[str, Any]], specification: Specification) -> dict[str, Any]:
    """Size class to its number of graphs and its rates; classes without a graph are left out."""
    classes = {name: [c for c in clients if low <= c["n_nodes"] <= high] for name, low, high in SIZES}
    summaries = {name: summary_record(part, specification) for name, part in classes.items() if part}
    return {name: {"graphs": s["graphs"]} | {rate: s[rate] for rate in RATES} for name, s in summaries.items()}


def _baselines(specification: Specification, setup: Setup, progress: Progress) -> dict[str, Any]:
    found = {}
    for name, known in BASELINES.items():
        baseline = dataclasses.replace(
            specification, attack=name, know=tuple(dict.fromkeys((*specification.know, *known)))
        )
        summary = summary_record(_attacked(baseline, setup, progress), baseline)
        found[name] = {rate: summary[rate] for rate in RATES}
    return found


def _attacked(specification: Specification, setup: Setup, progress: Progress) -> list[dict[str, Any]]:
    total, records = len(setup.dataset.graphs), []
    progress(specification.attack, 0, total)
    for result in run(specification, setup):
        records.append(result_record(result, specification))
        progress(specification.attack, len(records), total)
    return records
