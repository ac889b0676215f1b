"""The results of an audit as one JSON document, by the schema in docs/schemas."""

from __future__ import annotations

from typing import Any

from jgleak.audit.gate.gate import GateResult
from jgleak.audit.gate.quantities import QUANTITIES, interval
from jgleak.audit.record import plain
from jgleak.audit.report.cards import cards
from jgleak.audit.report.rows import Row, rows
from jgleak.audit.report.tables import leaks
from jgleak.audit.report.verdict import verdict
from jgleak.audit.results import Audit
from jgleak.version import __version__

FORMAT = "jgleak results 1"
"""Names ``docs/schemas/results-1.json``. A document of a later version may have more fields; one that loses or changes
a field gets another number."""


def results_document(audit: Audit, gate: GateResult) -> dict[str, Any]:
    """What was audited, all rows with their numbers, every unit's record, and the gate's result."""
    found = rows(audit)
    return plain(
        {
            "format": FORMAT,
            "version": __version__,
            "name": audit.name,
            "planned": audit.planned,
            "finished": len(audit.units),
            "card": cards(audit, found, verdict(leaks(found)).by_name).to_json(),
            "rows": [_row(row) for row in found],
            "units": [
                {
                    "hash": unit.hash,
                    "cell": unit.cell,
                    "client": unit.client,
                    "status": unit.status,
                    "reason": unit.reason,
                    "record": unit.record or None,
                }
                for unit in audit.units
            ],
            "gate": {
                "criteria": [criterion.text for criterion in gate.criteria],
                "passes": gate.passes,
                "breaches": [
                    {"criterion": breach.criterion.text, "value": breach.value, **_place(breach.row)}
                    for breach in gate.breaches
                ],
            },
        }
    )


def _row(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, quantity in QUANTITIES.items():
        if quantity.of_unit is None:
            found[name] = quantity.value(row)
        else:
            estimated = interval(row, quantity.of_unit)
            found[name] = None if estimated is None else estimated._asdict()
    return {**_place(row), "baseline": row.trivial, **found}


def _place(row: Row) -> dict[str, str]:
    return dict(zip(("data", "model", "attack", "defense"), row.key, strict=True))
