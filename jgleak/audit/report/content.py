"""The content of the templates: every part of the report by name, without formatting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from jgleak.attacks.facts.registry import FACTS
from jgleak.audit.report.cards import cards
from jgleak.audit.report.guarantees import guarantees
from jgleak.audit.report.rows import Row, clients, graphs, panels, rows
from jgleak.audit.report.summary import summary
from jgleak.audit.report.tables import EXACT, MEASURES, SETS, STATUSES, by_seed, by_size, leaks, sets, shown
from jgleak.audit.report.threat import assumptions
from jgleak.audit.report.verdict import verdict
from jgleak.audit.results import Audit, lost_files
from jgleak.audit.table import audit_compilation_line
from jgleak.names.attacks import BASELINES


def content(audit: Audit) -> dict[str, Any]:
    """The parts of the report, in the order in which templates use them."""
    found = rows(audit)
    table, groups = leaks(found), panels(found)
    judged = verdict(table)
    return {
        "audit": audit,
        "rows": found,
        "table": table,
        "verdict": judged,
        "cards": cards(audit, found, judged.by_name),
        "summary": summary(audit, table),
        "guarantees": guarantees(found),
        "panels": groups,
        "measures": MEASURES,
        "leaks": {leak.row.key: leak for leak in table},
        "clients": clients,
        "graphs": graphs,
        "trivial": sorted(BASELINES),
        "seeds": [(row, by_seed(row)) for row in found if len({unit.cell["seed"] for unit in row.units}) > 1],
        "sizes": [(row, by_size(row, EXACT)) for row in found if row.done],
        "ended": _ended(found),
        "shown": shown(found),
        "fact_names": list(FACTS),
        "sets": sets(found),
        "set_names": [name for name, _, _ in SETS],
        "statuses": STATUSES,
        "assumptions": [assumptions(panel) for panel in groups],
        "facts": _facts(audit),
    }


def _ended(found: Sequence[Row]) -> list[tuple[Row, str, str, int]]:
    """Failures and skips by row: status, the reason's last line, how often."""
    ended = []
    for row in found:
        units = (*row.of("failed"), *row.of("skipped"))
        counted = Counter((unit.status, _last_line(unit.reason)) for unit in units)
        ended += [(row, status, reason, times) for (status, reason), times in counted.items()]
    return ended


def _last_line(reason: str | None) -> str:
    return (reason or "").strip().rpartition("\n")[2] or "no reason was stored"


def _facts(audit: Audit) -> dict[str, str]:
    """Devices, versions and times of the audit."""
    units, compiling = audit.units, audit_compilation_line([unit.record for unit in audit.units])
    times = sorted(unit.finished_at.replace("T", " ")[:16] for unit in units)
    return {
        "Devices": _listed(unit.device for unit in units),
        "Versions": _listed(sorted(f"{name} {version}" for unit in units for name, version in unit.versions.items())),
        "Seeds": _listed(unit.cell["seed"] for unit in units),
        "Finished": f"{times[0]} to {times[-1]} UTC" if times else "nothing yet",
        "Time in attacks that count": f"{sum(unit.seconds for unit in units):,.0f} s",
        **({"Compilation": compiling} if compiling is not None else {}),
        **({"Files": lost_files(audit.lost)} if audit.lost else {}),
    }


def _listed(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words)) or "none"
