"""One chunk of a cell, run from its specification to plain data and bytes, in any process."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jgleak.audit.certified import document
from jgleak.audit.compilations import notable
from jgleak.audit.experiment import Answer, Result, answers, beside, run_chunk
from jgleak.audit.outcome import ended_by_time
from jgleak.audit.record import plain, result_record
from jgleak.audit.recorded.client import Refused, file_digest, recorded_client
from jgleak.audit.results import FORMAT
from jgleak.audit.round import chosen_attack
from jgleak.audit.setup import Setup
from jgleak.audit.shared import shared_digest, shared_setup
from jgleak.audit.specification import Specification
from jgleak.features import FeatureSpace
from jgleak.federated.observation import serialise
from jgleak.graph import Graph
from jgleak.version import __version__, code_digest

AGAIN = 3
"""Most repetitions of attacks because of compilation."""

Told = TypeVar("Told", bound=Answer)


class Outcome(NamedTuple):
    """One finished unit.

    Attributes:
      client: position of the private graph in the data set.
      status: ``done`` or ``failed``; ``skipped`` for an observation file that the attack refuses.
      reason: for a failure the traceback, or why there was nothing to attack.
      record: as ``result_record`` gives it; empty where the attack never began.
      device: the device that JAX ran on.
      versions: versions of the software.
      seconds: time of the attack.
      files: contents of files beside the store, by folder.
    """

    client: int
    status: str
    reason: str | None
    record: dict[str, Any]
    device: str
    versions: dict[str, str]
    seconds: float
    files: dict[str, bytes]


def unit_hash(specification: Specification, client: int) -> str:
    """SHA-256 of what a unit's result depends on: specification, graph, and the store's format."""
    content = {"format": FORMAT, "specification": specification.to_json(), "client": client}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Versions of jgleak, with a digest of its code, and of the software that its numbers depend on most."""
    return {
        "jgleak": __version__,
        "code": code_digest(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def attempt(specification: Specification, firsts: Sequence[int], graphs: int, data: str | None) -> list[Outcome]:
    """Attack some clients, side by side where the attack can.

    No exception is raised: without a setup every unit has failed, and where the chunk cannot be attacked as a whole
    every client is tried on its own.

    Args:
      specification: of their cell.
      firsts: the first graph of each client.
      graphs: how many graphs all clients of the cell have together.
      data: digest of the data when the audit began; None: not checked.
    """
    if specification.recorded is not None:
        return _attempt_recorded(specification, graphs, data)
    try:
        setup = shared_setup(specification)
    except Exception:  # recorded: the units of this cell fail, the others go on
        return failed(specification, firsts, graphs, traceback.format_exc())
    if data not in (None, shared_digest(specification)):
        return failed(specification, firsts, graphs, "the data have changed since the audit began; bring them back")
    return _attempt(specification, setup, firsts)


def _attempt(specification: Specification, setup: Setup, firsts: Sequence[int]) -> list[Outcome]:
    try:
        results = _compiled_first(lambda: run_chunk(specification, setup, firsts))
        return [_outcome(result, specification, setup.dataset.space) for result in results]
    except Exception:  # a defect outside the attack itself: recorded, as above
        if len(firsts) > 1:
            return [outcome for first in firsts for outcome in _attempt(specification, setup, [first])]
        return failed(specification, firsts, len(setup.dataset.graphs), traceback.format_exc())


def _attempt_recorded(specification: Specification, graphs: int, data: str | None) -> list[Outcome]:
    """Attack the client of one observation file. One that cannot be read has failed, one that the attack refuses is
    skipped; other files are not affected."""
    units = range(graphs)
    try:
        if data not in (None, file_digest(specification)):
            raise ValueError("the file or its truth has changed since the audit began; bring it back")
        client = recorded_client(specification)
        attack = chosen_attack(specification)

        def told() -> Iterator[Answer]:
            for _, place, answer in answers(specification, attack, [client]):
                yield beside(client, place, answer) if client.truths else answer

        return [_outcome(answer, specification, client.knowledge.space) for answer in _compiled_first(told)]
    except Refused as error:
        return [_ended(unit, "skipped", str(error)) for unit in units]
    except ValueError as error:
        return [_ended(unit, "failed", str(error)) for unit in units]
    except Exception:  # a defect: recorded, as above
        return [_ended(unit, "failed", traceback.format_exc()) for unit in units]


def _compiled_first(attacked: Callable[[], Iterable[Told]]) -> list[Told]:
    """An attack's answers for some clients, without the effect of compilation. The first rows of an audit would compile
    programs that later ones find compiled, and rows are compared. So where the time limit ended a search of which
    compilation took a notable share, the same clients are attacked again, and the last answer counts. Each run gets
    further and may need other programs, hence ``AGAIN``.
    """
    found, discarded = list(attacked()), dict[int, float]()
    for _ in range(AGAIN):
        if not any(cut_short := _cut_short(found)):
            break
        discarded = {one.index: one.seconds + discarded.get(one.index, 0.0) for one in found}
        found = list(attacked())
    else:
        cut_short = _cut_short(found)
    return [
        dataclasses.replace(one, discarded=discarded.get(one.index, 0.0), cut_short=cut)
        for one, cut in zip(found, cut_short, strict=True)
    ]


def _cut_short(found: Sequence[Answer]) -> list[bool]:
    """Which searches their time limit ended, where compilation took a notable share of the total time of all, since
    they share compiled programs."""
    seconds, compiling = sum(one.seconds for one in found), sum(one.compiled.seconds for one in found)
    each = [one.reconstruction for one in found]
    return [notable(seconds, compiling) and ended_by_time(one.stop, one.info.get("reason")) for one in each]


def failed(specification: Specification, firsts: Sequence[int], graphs: int, reason: str) -> list[Outcome]:
    """All units of some clients, none of which could be attacked; otherwise as ``attempt``."""
    return [
        _ended(unit, "failed", reason) for unit in range(firsts[0], min(firsts[-1] + specification.batch_size, graphs))
    ]


def _ended(unit: int, status: str, reason: str) -> Outcome:
    """The outcome of a unit without an attack."""
    return Outcome(unit, status, reason, {}, jax.devices()[0].device_kind, versions(), 0.0, {})


def _outcome(result: Answer, specification: Specification, space: FeatureSpace) -> Outcome:
    if result.observation is None:
        return _ended(result.index, "failed", str(result.failure))
    place = result.index % specification.batch_size
    seen = unit_hash(specification, result.index - place)
    kept, file = result.whole or result.reconstruction, f"../observations/{seen}.safetensors"
    files = {"reconstructions": document(kept, file, own=result.own).encode()}
    if isinstance(result, Result):
        files["truths"] = (json.dumps(plain(_private(result.truth))) + "\n").encode()
    if place == 0:
        files["observations"] = serialise(result.observation, space)
    return Outcome(
        client=result.index,
        status="done" if result.failure is None else "failed",
        reason=result.failure,
        record=result_record(result, specification),
        device=jax.devices()[0].device_kind,
        versions=versions(),
        seconds=result.seconds,
        files=files,
    )


def _private(truth: Graph) -> dict[str, Any]:
    private = {"x": truth.x, "edges": truth.edges, "y": truth.y, "name": truth.name}
    return private if truth.edge_class is None else private | {"edge_class": truth.edge_class}
