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


def recovered(clients: Sequence[Record], losses: Sequence[float]) -> Record:
    """Rates with intervals over the records of all clients, seconds, and what was missed and why.

    Args:
      clients: records as ``jgleak attack --json`` has them.
      losses: of the training that led to the parameters, an epoch each.
    """
    unique = [c for c in clients if (c["certificate"] or {}).get("status") == "unique"]
    missed = [c for c in clients if not c["truth_in_set"]]
    seconds = [c["seconds"] for c in clients]
    return {
        **provenance(),
        **{what: dataclasses.asdict(rate([float(c[what]) for c in clients])) for what in ("exact", "truth_in_set")},
        "unique": len(unique),
        "wrong": sum(not c["exact"] for c in unique),
        "missed": dict(Counter(c["stop"] for c in missed)),
        "atoms_missed": sorted(c["n_nodes"] for c in missed),
        "failures": sum(c["failure"] is not None for c in clients),
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
