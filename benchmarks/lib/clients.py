"""Clients attacked one after the other, and how far that is."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.lib.records import Record
from jgleak.audit.experiment import Result, run
from jgleak.audit.record import result_record
from jgleak.audit.setup import Setup
from jgleak.audit.specification import Specification

Progress = Callable[[str, int, int], None]
"""Told the method's name, clients done and clients in all."""

More = Callable[[Result], Record]
"""What a record lacks of one graph's result."""


def nothing(result: Result) -> Record:
    """``result_record`` has all."""
    return {}


def attacked(
    specification: Specification, setup: Setup, name: str, progress: Progress, more: More = nothing
) -> list[Record]:
    """The clients' records of one run."""
    total, records = len(setup.dataset.graphs), []
    progress(name, 0, total)
    for result in run(specification, setup):
        records.append(result_record(result, specification) | more(result))
        progress(name, len(records), total)
    return records
