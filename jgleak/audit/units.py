"""One chunk of a cell, run from its specification alone to plain data and bytes: what any process may do and send."""

from __future__ import annotations

import hashlib
import json
import platform
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jgleak.audit.certified import document
from jgleak.audit.experiment import Result, run_chunk
from jgleak.audit.record import plain, result_record
from jgleak.audit.results import FORMAT
from jgleak.audit.setup import Setup
from jgleak.audit.shared import shared_digest, shared_setup
from jgleak.audit.specification import Specification
from jgleak.federated.observation import serialise
from jgleak.version import __version__


class Outcome(NamedTuple):
    """One finished unit.

    Attributes:
      client: position of the private graph in the data set.
      status: ``done`` or ``failed``.
      reason: of a failure the traceback, or why there was nothing to attack.
      record: as ``result_record`` gives it; empty where the attack never began.
      device: what JAX ran on.
      versions: of what ran.
      seconds: of the attack.
      files: folder to contents, of what is kept beside the store.
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
    """SHA-256 of all that a unit's result follows from: specification, graph, and the store's format."""
    content = {"format": FORMAT, "specification": specification.to_json(), "client": client}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Of jgleak and of what its numbers depend on most."""
    return {
        "jgleak": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def attempt(specification: Specification, firsts: Sequence[int], graphs: int, data: str | None) -> list[Outcome]:
    """Attack some clients, side by side where the attack can.

    Nothing that goes wrong comes out as an exception: without a setup every unit has failed, and where the chunk cannot
    be attacked as a whole every client is tried on its own.

    Args:
      specification: of their cell.
      firsts: the first graph of each client.
      graphs: how many graphs all clients of the cell have together.
      data: their digest when the audit began; None where any will do.
    """
    try:
        setup = shared_setup(specification)
    except Exception:  # recorded: the units of this cell fail, the others go on
        return failed(specification, firsts, graphs, traceback.format_exc())
    if data not in (None, shared_digest(specification)):
        return failed(specification, firsts, graphs, "the data have changed since the audit began; bring them back")
    return _attempt(specification, setup, firsts)


def _attempt(specification: Specification, setup: Setup, firsts: Sequence[int]) -> list[Outcome]:
    try:
        results = list(run_chunk(specification, setup, firsts))
        return [_outcome(result, specification, setup) for result in results]
    except Exception:  # a defect on the way to a client's update, or in what is made of an attack: recorded, as above
        if len(firsts) > 1:
            return [outcome for first in firsts for outcome in _attempt(specification, setup, [first])]
        return failed(specification, firsts, len(setup.dataset.graphs), traceback.format_exc())


def failed(specification: Specification, firsts: Sequence[int], graphs: int, reason: str) -> list[Outcome]:
    """All units of some clients, none of which could be attacked; otherwise as ``attempt``."""
    return [_failed(unit, reason) for unit in range(firsts[0], min(firsts[-1] + specification.batch, graphs))]


def _failed(unit: int, reason: str) -> Outcome:
    return Outcome(unit, "failed", reason, {}, jax.devices()[0].device_kind, versions(), 0.0, {})


def _outcome(result: Result, specification: Specification, setup: Setup) -> Outcome:
    if result.observation is None:
        return _failed(result.index, str(result.failure))
    place = result.index % specification.batch
    seen = unit_hash(specification, result.index - place)
    truth = result.truth
    private = {"x": truth.x, "edges": truth.edges, "y": truth.y, "name": truth.name}
    if truth.edge_class is not None:
        private["edge_class"] = truth.edge_class
    kept, file = result.whole or result.reconstruction, f"../observations/{seen}.safetensors"
    files = {
        "reconstructions": document(kept, file, own=result.own).encode(),
        "truths": (json.dumps(plain(private)) + "\n").encode(),
    }
    if place == 0:
        files["observations"] = serialise(result.observation, setup.dataset.space)
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
