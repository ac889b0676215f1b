"""What was audited, as model cards and data sheets: models, data, code, and what is not covered. After Mitchell et al.
2019 (model cards) and Gebru et al. 2021 (data sheets), limited to what an audit knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jgleak.audit.report.rows import Row, graphs
from jgleak.audit.report.threat import described_data, described_model, seen_by_server
from jgleak.audit.results import Audit, Unit
from jgleak.names.datasets import origin
from jgleak.plural import counted

DIGITS = 16
"""Characters of a digest that are shown."""

UNCOVERED = (
    "Other data, sizes, models, weights and protocols than these: a leak may be larger or smaller there.",
    "How useful the model stays under a defence, and how fair it is: nothing of that is measured.",
    "Systems around the model: transport, storage, who may read updates.",
)
"""What no audit here covers."""


class Card(NamedTuple):
    """Facts of one model, or one data set, by title."""

    title: str
    facts: dict[str, str]


class Cards(NamedTuple):
    """All that was audited.

    Attributes:
      models: one card each, by the names of the grid.
      data: likewise.
      code: what ran.
      uncovered: what the audit does not cover.
    """

    models: list[Card]
    data: list[Card]
    code: dict[str, str]
    uncovered: list[str]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        named = {kind: [one._asdict() for one in getattr(self, kind)] for kind in ("models", "data")}
        return {**named, "code": self.code, "uncovered": self.uncovered}


def cards(audit: Audit, found: Sequence[Row], untried: str) -> Cards:
    """The cards of an audit.

    Args:
      audit: the store's content.
      found: its rows.
      untried: a sentence with the names of the attacks that it did not try.
    """
    models, data = dict[str, list[Row]](), dict[str, list[Row]]()
    for row in found:
        models.setdefault(row.model, []).append(row)
        data.setdefault(row.data, []).append(row)
    return Cards(
        [Card(name, _model(rows)) for name, rows in models.items()],
        [Card(name, _data(rows, audit.digests.get(name))) for name, rows in data.items()],
        _code(audit),
        [untried, *UNCOVERED],
    )


def _model(rows: Sequence[Row]) -> dict[str, str]:
    units = [unit for row in rows for unit in row.units]
    sizes = sorted({sum(entries) for unit in units if (entries := unit.record.get("entries"))})
    facts = {
        "Architecture": _joined(described_model(unit) for unit in units),
        "Parameters": _range(sizes),
        "Weights": _joined(map(_weights, units)),
        "Loss": _joined(str(unit.record["loss"]) for unit in units if unit.record.get("loss")),
        "An update is": _joined(seen_by_server(row) for row in rows),
    }
    return {title: text for title, text in facts.items() if text}


def _weights(unit: Unit) -> str:
    if unit.specification.get("recorded") is not None:
        return "those that the server sent"
    epochs = unit.specification["train"]
    return f"trained for {counted(epochs, 'epoch')} on public graphs" if epochs else "random, as in a first round"


def _data(rows: Sequence[Row], digest: str | None) -> dict[str, str]:
    units = [unit for row in rows for unit in row.units]
    first, recorded = units[0].specification, rows[0].recorded
    told = max((graphs(row.told) for row in rows), key=len)  # attacks share their clients
    seen = {unit.cell.get("file") or unit.client for unit in units}
    facts = {
        "Kind": "clients that ran, by their observation files" if recorded else "simulated clients",
        "Data set": "" if recorded else described_data(first),
        "Source": "the files' owner" if recorded else origin(first["dataset"]),
        "Observation files": str(len(seen)) if recorded else "",
        "Private graphs": f"{len(told)} known" if told else "none known",
        "Nodes of a graph": _spread([group[0].record["n_nodes"] for group in told]),
        "Graphs behind an update": _range(sorted({unit.specification["batch_size"] for unit in units})),
        "Digest": digest[:DIGITS] if digest else "",
    }
    return {title: text for title, text in facts.items() if text}


def _code(audit: Audit) -> dict[str, str]:
    versions = sorted({f"{name} {version}" for unit in audit.units for name, version in unit.versions.items()})
    return {
        "Versions": ", ".join(versions) or "nothing ran",
        "Grid": hashlib.sha256(audit.grid_text.encode()).hexdigest()[:DIGITS],
        "Devices": _joined(unit.device for unit in audit.units) or "none",
    }


def _joined(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(words))


def _range(numbers: Sequence[int]) -> str:
    if not numbers:
        return ""
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _spread(numbers: Sequence[int]) -> str:
    """Smallest, median and largest number."""
    if not numbers:
        return ""
    return f"{min(numbers)} to {max(numbers)}, {np.median(numbers):g} in the median"
