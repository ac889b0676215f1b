"""Results as plain data, ready for JSON: one record for each client, and one summary of many records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jgleak.audit.experiment import Answer, Result
from jgleak.audit.specification import Specification
from jgleak.gnn.words import model_words
from jgleak.metrics import Score, mean_scores, rate
from jgleak.version import __version__

SIZES = (("<=15", 1, 15), ("16-25", 16, 25), (">=26", 26, math.inf))
"""Size classes of GRAIN's chemistry results: name, smallest and largest number of nodes."""

RATES = ("exact", "gsm0", "gsm1", "gsm2")
"""Numbers that are averaged over clients."""

SOFT = (
    ("edge AUC", "edges", "auc"),
    ("edge AP", "edges", "ap"),
    ("feature RNMSE", "features", "rnmse"),
    ("node accuracy", "features", "accuracy"),
)
"""Means that the printed summary shows, aligned and in file order; the record has more."""


def result_record(result: Answer, specification: Specification) -> dict[str, Any]:
    """One client: rates in [0, 1], seconds of wall clock, those of them in which XLA compiled, and beside them those
    of discarded attacks. Of the private graph it holds the name and the size. Fields that need the truth are None where
    it is unknown."""
    found, seen = result.reconstruction, result.observation
    told = result if isinstance(result, Result) else None
    place = result.index % specification.batch_size
    record = {
        "graph": result.index,
        "name": (told.truth.name if told is not None else "") or _called(specification, place),
        "attack": specification.attack,
        "n_nodes": None if told is None else told.truth.n,
        "seconds": result.seconds,
        "seconds_compiling": result.compiled.seconds,
        "seconds_discarded": result.discarded,
        "cut_short": result.cut_short,
        "compilations": result.compiled.number,
        **(UNTOLD if told is None else dataclasses.asdict(told.score)),
        "truth_in_set": None if told is None else told.truth_in_set,
        "guess_rate": None if told is None else told.guess_rate,
        "attacked": seen is not None,
        **({"edges": None, "features": None} if told is None or told.soft is None else dataclasses.asdict(told.soft)),
        "target_error": None if told is None else told.target_error,
        "protocol": None if seen is None else seen.protocol,
        "loss": None if seen is None else seen.loss,
        "batch_size": None if seen is None else seen.batch_size,
        "index": place,
        "defense": specification.defense,
        **({} if specification.recorded is None or seen is None else {"model": model_words(seen.model)}),
        "entries": None if seen is None else [int(np.size(leaf)) for leaf in jax.tree.leaves(seen.update)],
        "facts": {} if result.facts is None else result.facts.to_json(),
        "graphs": len(found.graphs),
        "gradient_distance": found.gradient_distance,
        "stop": found.stop,
        **{name: found.info.get(name) for name in ("candidates", "blocks", "residual")},
        "certificate": None if found.certificate is None else dataclasses.asdict(found.certificate),
        "info": found.info,
        "failure": result.failure,
    }
    return plain(record)


UNTOLD = {field.name: None for field in dataclasses.fields(Score)}
"""Scores of an answer whose truth is unknown."""


def _called(specification: Specification, place: int) -> str:
    """The name of an observation file's graph that has none of its own; empty for simulated clients."""
    if specification.recorded is None:
        return ""
    stem, batch = Path(specification.recorded.file).stem, specification.batch_size
    return f"{stem}, graph {place + 1} of {batch}" if batch > 1 else stem


def summary_record(records: Sequence[Mapping[str, Any]], specification: Specification) -> dict[str, Any]:
    """All clients: means with 95 % intervals (``jgleak.metrics.rate``), and the exact rate by size class. Where clients
    have several graphs, each graph counts as what is called a client here, but intervals are over clients.

    Clients whose update could not be computed (``attacked`` is False) count in ``graphs`` and ``failures`` alone.

    Size classes without a client are left out. With no client at all the rates are None. ``twins`` counts graphs that
    reproduce the observed gradient and are not the truth, ``unique`` the certificates of that status, ``unique_wrong``
    those beside another truth; ``listed`` counts clients with a certificate. ``edges`` and ``features`` are means over
    the clients where they are defined, in file order and aligned; ``counts`` says how many those of ``SOFT`` have.
    ``batches`` counts clients of several graphs, ``batches_exact_rate`` those of which all came back exactly.
    ``seconds_most`` is the time of the client that took longest, without compilation; of those attacked side by side
    each has an equal share.
    """
    everybody, records = records, [r for r in records if r["attacked"]]
    size = specification.batch_size
    updates = [r["graph"] // size for r in records] if size > 1 else None
    rates = {name: rate([float(r[name]) for r in records], clusters=updates) if records else None for name in RATES}
    batches = groupby(records, lambda r: r["graph"] // size)
    whole = [all(r["exact"] for r in graphs) for _, graphs in batches] if size > 1 else []
    classes = {name: [r["exact"] for r in records if low <= r["n_nodes"] <= high] for name, low, high in SIZES}
    return plain(
        {
            "graphs": len(everybody),
            "attacked": len(records),
            "exact_rate": rates["exact"].mean if rates["exact"] else None,
            **{name: dataclasses.asdict(found) if found else None for name, found in rates.items()},
            "exact_rate_by_size": {name: np.mean(hits) for name, hits in classes.items() if hits},
            "sizes": {name: len(hits) for name, hits in classes.items() if hits},
            **{name: mean_scores([r[name] for r in records if r[name]]) for name in ("edges", "features")},
            "target_error": mean_scores([{"rnmse": r["target_error"]} for r in records])["rnmse"] if records else None,
            "counts": {metric: _defined(records, what, metric) for _, what, metric in SOFT}
            | {"target_error": sum(r["target_error"] is not None for r in records)},
            "twins": sum(r["stop"] == "match" and not r["exact"] for r in records),
            "listed": sum(r["certificate"] is not None for r in records),
            "batches": len(whole),
            "batches_exact_rate": np.mean(whole) if whole else None,
            "truth_in_set_rate": np.mean([r["truth_in_set"] for r in records]) if records else None,
            "guess_rate": np.mean([r["guess_rate"] for r in records]) if records else None,
            "unique": sum(_unique(r) for r in records),
            "unique_wrong": sum(_unique(r) and not r["exact"] for r in records),
            "failures": sum(r["failure"] is not None for r in everybody),
            "compilations": sum(r["compilations"] for r in records),
            "seconds_total": sum(r["seconds"] for r in records),
            "seconds_compiling": sum(r.get("seconds_compiling", 0.0) for r in records),
            "seconds_most": max((r["seconds"] - r.get("seconds_compiling", 0.0) for r in records), default=0.0),
            "seed": specification.seed,
            "device": jax.devices()[0].device_kind,
            "version": __version__,
            "specification": specification.to_json(),
        }
    )


def _defined(records: Sequence[Mapping[str, Any]], what: str, metric: str) -> int:
    """Clients with a reconstruction for which the aligned metric is defined."""
    return sum(r[what] is not None and r[what]["aligned"].get(metric) is not None for r in records)


def _unique(record: Mapping[str, Any]) -> bool:
    return record["certificate"] is not None and record["certificate"]["status"] == "unique"


def plain(value: Any) -> Any:
    """``value`` in JSON types: arrays become lists, NumPy scalars numbers, NaN and infinities None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | jax.Array | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
