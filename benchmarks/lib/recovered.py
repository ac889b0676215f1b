"""How many clients of a census came back, and the cells that say so in a table."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np

from benchmarks.lib.page import interval
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Record
from jgleak.metrics import rate

COLUMNS = ("molecules, s", "exact", "in set", "unique", "wrong", "median s", "not listed, by reason")


def recovered(graphs: Sequence[Record], losses: Sequence[float], *, size: int = 1) -> Record:
    """Rates over the records of all graphs with intervals over updates, seconds, and what was missed and why.

    Args:
      graphs: records as ``jgleak attack --json`` has them, those of one update after another.
      losses: of the training that led to the parameters, an epoch each.
      size: graphs behind an update.
    """
    updates = [place // size for place in range(len(graphs))]
    rates = {what: rate([float(g[what]) for g in graphs], clusters=updates) for what in ("exact", "truth_in_set")}
    unique = [g for g in graphs if (g["certificate"] or {}).get("status") == "unique"]
    missed = [g for g in graphs if not g["truth_in_set"]]
    seconds = [g["seconds"] for g in graphs]
    return {
        **provenance(),
        **{what: dataclasses.asdict(found) for what, found in rates.items()},
        "unique": len(unique),
        "wrong": sum(not g["exact"] for g in unique),
        "missed": dict(Counter(g["stop"] for g in missed)),
        "atoms_missed": sorted(g["n_nodes"] for g in missed),
        "failures": sum(g["failure"] is not None for g in graphs),
        "seconds": {"median": float(np.median(seconds)), "total": float(np.sum(seconds))},
        "loss": losses[-1] if losses else None,
    }


def cells(line: Record) -> list[str]:
    """One record under ``COLUMNS``; it has ``graphs`` and ``time_limit`` too."""
    return [
        f"{line['graphs']}, {line['time_limit']:g}",
        interval(line["exact"]),
        interval(line["truth_in_set"]),
        str(line["unique"]),
        str(line["wrong"]),
        f"{line['seconds']['median']:.1f}",
        ", ".join(f"{count} {reason}" for reason, count in sorted(line["missed"].items())) or "none",
    ]
