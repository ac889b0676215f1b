"""What a defence costs: the model trained under it for federated rounds, and tested on graphs held out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.lib.clients import Progress
from benchmarks.papers.edges import records as edge_records
from benchmarks.papers.edges.table import Attacker, Line, Table
from jgleak.audit.record import summary_record
from jgleak.audit.setup import Setup, prepare, stream_key
from jgleak.audit.specification import Specification
from jgleak.defenses import parse
from jgleak.federated.rounds import TrainingPlan, federate, outputs
from jgleak.graph import GraphBatch
from jgleak.metrics import rate

UTILITY = "utility"
"""Name of the line that says how good the model is."""

POOL, HELD_OUT = 1500, 0.2
"""Most graphs of a data set, and the share of them that is tested on."""

PLAN = TrainingPlan(rounds=300, clients=16, rate=3e-3)
"""Of the training; a client's batch is the experiment's."""


def measure(
    table: Table, row: Line, methods: Sequence[Attacker], *, graphs: int | None, time_limit: float, progress: Progress
) -> Iterator[dict[str, Any]]:
    """``edge_records.measure``, after the utility of the model where that is among the methods."""
    rest = [method for method in methods if method.name != UTILITY]
    if len(rest) < len(methods) and UTILITY in row.attackers:
        progress(UTILITY, 0, 1)
        yield utility(row)
    if rest:
        yield from edge_records.measure(table, row, rest, graphs=graphs, time_limit=time_limit, progress=progress)


def wanted(row: Line, method: Attacker, graphs: int | None, time_limit: float) -> Specification | None:
    """``edge_records.wanted``; of the utility the training's, whose clients are not those that are attacked."""
    if method.name == UTILITY:
        return _trained(row) if UTILITY in row.attackers else None
    return edge_records.wanted(row, method, graphs, time_limit)


def _trained(row: Line) -> Specification:
    return dataclasses.replace(row.experiment, graphs=POOL, attack="empty", know=())


def utility(row: Line, plan: TrainingPlan = PLAN) -> dict[str, Any]:
    """The record of a model trained under the row's defence: accuracy and ROC-AUC, with intervals over graphs."""
    specification = _trained(row)
    try:
        setup = _pool(specification)
    except (FileNotFoundError, ValueError) as error:
        return {"row": row.name, "attack": UTILITY, "absent": str(error)}
    order = np.random.default_rng(specification.seed).permutation(len(setup.dataset.graphs))
    cut = round(HELD_OUT * order.size)
    held, trained = ([setup.dataset.graphs[i] for i in part] for part in (order[:cut], order[cut:]))
    plan = plan._replace(batch=specification.batch_size)
    params = federate(
        setup.model,
        setup.params,
        trained,
        setup.dataset.space,
        loss=setup.loss,
        plan=plan,
        key=stream_key(specification, 1),
        defense=parse(specification.defense),
    )
    logits = np.asarray(outputs(setup.model, params, GraphBatch.from_graphs(held, setup.dataset.space)))
    truth = np.array([graph.y for graph in held])
    finite = np.nan_to_num(logits[:, 1] - logits[:, 0])
    right = (finite > 0) == (truth == 1)
    auc = {"mean": float(roc_auc_score(truth, finite)), "clients": cut}
    low, high = _interval(truth, finite)
    return {
        "row": row.name,
        "attack": UTILITY,
        "title": row.title,
        "source": row.source,
        "paper": {},
        "means": {
            "accuracy": {**dataclasses.asdict(rate([float(r) for r in right])), "clients": cut},
            "ROC-AUC": {**auc, "low": low, "high": high},
        },
        "holds": None,
        "exact": None,
        "seconds_a_client": 0.0,
        "stops": {"trained": cut},
        "failures": 0,
        "clients": [],
        "graphs": cut,
        **_about(specification),
    }


def _pool(specification: Specification) -> Setup:
    """At most ``POOL`` graphs; all of a smaller set."""
    try:
        return prepare(specification)
    except ValueError:  # fewer than that; whatever else is wrong is wrong again
        return prepare(dataclasses.replace(specification, graphs=None))


def _interval(truth: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """95 % bootstrap interval of the ROC-AUC over graphs."""
    rng, found = np.random.default_rng(0), []
    while len(found) < 1000:
        rows = rng.integers(truth.size, size=truth.size)
        if 0 < truth[rows].sum() < rows.size:
            found.append(float(roc_auc_score(truth[rows], scores[rows])))
    return float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))


def _about(specification: Specification) -> dict[str, Any]:
    summary = summary_record([], specification)
    return {key: summary[key] for key in ("seed", "device", "version", "specification")}
