"""The findings of an audit as SARIF 2.1.0, which code hosts show next to the audited specification (OASIS, 2020)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jgleak.audit.gate.gate import Breach, GateResult, number
from jgleak.audit.gate.quantities import QUANTITIES
from jgleak.audit.report.rows import Row
from jgleak.version import __version__

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class Rule(NamedTuple):
    """What is reported of a row where one of its numbers is above zero.

    Attributes:
      quantity: the number, one of ``QUANTITIES``.
      level: SARIF's level: ``error``, ``warning`` or ``note``.
      short: the finding in a sentence.
      full: what it means.
    """

    quantity: str
    level: str
    short: str
    full: str


RULES = {
    "certified-unique": Rule(
        *("unique", "error", "A client's graph is certified to be the only one that explains its update."),
        "Whoever holds the update holds the graph, under the certificate's conditions. Change the model or the "
        "protocol, and check again which attacks apply.",
    ),
    "exact-reconstruction": Rule(
        *("exact", "warning", "A client's graph came back exactly."),
        "The first graph that the attack lists is the client's. Compare the rate with that of the baselines.",
    ),
    "listed-truth": Rule(
        *("in_set", "note", "A client's graph is among those that explain its update."),
        "Guessing among k listed graphs is right with at least 1/k.",
    ),
    "failed-attacks": Rule(
        *("failed", "note", "Attacks broke down, or there was no update to attack."),
        "Nothing follows of these clients; the audit's store has the reasons.",
    ),
}
"""The rules by their SARIF ids."""

GATE = "gate"
"""The id of a criterion of the gate that is met."""


def sarif_document(specification: Path, found: GateResult) -> dict[str, Any]:
    """One run: a result for each row and rule, and one for every breach of the gate."""
    results = [*_of_rows(specification, found), *(_breach(specification, breach) for breach in found.breaches)]
    rules = [
        {
            "id": name,
            "shortDescription": {"text": rule.short},
            "fullDescription": {"text": rule.full},
            "defaultConfiguration": {"level": rule.level},
        }
        for name, rule in RULES.items()
    ]
    gate = {
        "id": GATE,
        "shortDescription": {"text": "A criterion of the gate is met."},
        "fullDescription": {"text": "The audit was asked to fail where a row of its results meets this criterion."},
        "defaultConfiguration": {"level": "error"},
    }
    driver = {"name": "jgleak", "version": __version__, "rules": [*rules, gate]}
    invocation = {"executionSuccessful": not found.empty}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _of_rows(specification: Path, found: GateResult) -> Iterator[dict[str, Any]]:
    for row in found.judged:
        for place, (name, rule) in enumerate(RULES.items()):
            value = QUANTITIES[rule.quantity].value(row)
            if value:
                text = f"{rule.short} {row.place}: {number(value)} ({QUANTITIES[rule.quantity].meaning})."
                yield _result(specification, row, (name, place), rule.level, text)


def _breach(specification: Path, breach: Breach) -> dict[str, Any]:
    return _result(specification, breach.row, (GATE, len(RULES)), "error", breach.text, breach.criterion.text)


def _result(
    specification: Path, row: Row, rule: tuple[str, int], level: str, text: str, criterion: str = ""
) -> dict[str, Any]:
    name, place = rule
    alike = "\n".join((name, criterion, *row.key))  # the same row of a later audit is the same alert
    return {
        "ruleId": name,
        "ruleIndex": place,
        "level": level,
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": specification.as_posix()},
                    "region": {"startLine": 1},
                },
                "logicalLocations": [{"fullyQualifiedName": " / ".join(row.key), "kind": "resource"}],
            }
        ],
        "partialFingerprints": {"row/v1": hashlib.sha256(alike.encode()).hexdigest()},
    }
