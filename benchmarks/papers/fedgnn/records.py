"""Records of one recommender: its error, and what its users' updates show."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.lib.clients import Progress
from benchmarks.papers.fedgnn.rows import (
    LEAK,
    RMSE,
    SEEDS,
    TRAFFIC,
    Measurement,
    Row,
    counted,
    defense,
    repeated,
    watched,
)
from benchmarks.papers.fedgnn.traffic import traffic
from jgleak.audit.recommender.leaks import Attacked, leaks
from jgleak.audit.recommender.run import event_record
from jgleak.audit.recommender.setup import prepare
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.training import Epoch, Learnt, learn
from jgleak.defenses import parse
from jgleak.federated.recommender import Protection
from jgleak.metrics import bootstrap

USERS = 50
"""Users attacked."""

RUNS = 10
"""Seeds, as many as the paper's."""


def measure(
    row: Row, methods: Sequence[Measurement], *, graphs: int | None, time_limit: float, progress: Progress
) -> Iterator[dict[str, Any]]:
    """What users send; train under ten seeds; train once, then the error, and the leaks where the row has protections
    that are ``watched``.

    Leaks are those of updates at this one model's parameters; their record comes again with each protection, so that
    nothing is lost when a run is cut. ``graphs`` is the number of users attacked; there is no
    time limit. Data that are not here, and training that diverges, make a record with
    ``absent``.
    """
    about = {"row": row.name, "title": row.title, "source": row.source, "printed": row.printed}
    if TRAFFIC in methods and counted(row):
        try:
            yield {**about, "attack": TRAFFIC.name, **traffic(row.experiment)}
        except FileNotFoundError as error:
            yield {**about, "attack": TRAFFIC.name, "absent": str(error)}
    if SEEDS in methods and repeated(row):
        yield from ({**about, "attack": SEEDS.name, **record} for record in _seeds(row.experiment, progress))
    wanted = [m for m in methods if m is RMSE or (m is LEAK and watched(row))]
    if not wanted:
        return
    specification = dataclasses.replace(row.experiment, users=graphs or USERS)
    progress(RMSE.name, 0, 1)
    learnt, curve = None, []
    try:
        setup = prepare(specification)
        for event in learn(specification, setup):
            if isinstance(event, Epoch):
                curve.append(event.validation)
                progress(RMSE.name, event.epoch, event.epoch)
            else:
                learnt = event
    except (FileNotFoundError, ValueError) as error:
        yield {**about, "attack": RMSE.name, "absent": str(error)}
        return
    assert isinstance(learnt, Learnt)
    record = event_record(learnt, specification)["learnt"]
    if RMSE in wanted:
        yield {**about, "attack": RMSE.name, **record, "curve": curve}
    if LEAK in wanted and learnt.fitted is not None:
        protections = {
            title: Protection(pseudo, parse("" if scale is None else defense(scale)))
            for title, (scale, pseudo) in watched(row).items()
        }
        kept = {name: record[name] for name in ("device", "version", "specification")}
        rows: list[dict[str, Any]] = []
        for title, protection in protections.items():
            for leak in leaks(specification, setup, learnt.fitted, {title: protection}):
                if isinstance(leak, Attacked):
                    progress(f"{title}, {leak.rounds} updates", leak.done, leak.users)
                else:
                    rows.append(event_record(leak, specification)["leak"])
            yield {**about, "attack": LEAK.name, **kept, "leaks": list(rows)}


def _seeds(experiment: RecommenderSpecification, progress: Progress) -> Iterator[dict[str, Any]]:
    """The test error under each seed so far, again after every training, so that nothing is lost when a run is cut."""
    tests: list[float] = []
    for seed in range(RUNS):
        specification = dataclasses.replace(experiment, seed=seed)
        progress(SEEDS.name, seed, RUNS)
        try:
            learnt = next(event for event in learn(specification, prepare(specification)) if isinstance(event, Learnt))
        except (FileNotFoundError, ValueError) as error:
            yield {"absent": f"seed {seed}: {error}"}
            return
        record = event_record(learnt, specification)["learnt"]
        tests.append(record["test"])
        kept = {name: record[name] for name in ("device", "version", "specification")}
        yield {"tests": list(tests), "means": {"RMSE": dataclasses.asdict(bootstrap(tests))}, **kept}
