"""Private graphs beside their reconstructions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from jgleak.audit.certified import graph_of, read
from jgleak.audit.report.rows import Row
from jgleak.audit.results import Unit
from jgleak.draw import inline_svg
from jgleak.features import FeatureSpace
from jgleak.federated import load
from jgleak.graph import Graph
from jgleak.plural import counted
from jgleak.reading import read_json

SHOWN = 3
"""Most clients of one row that are shown, the first ones: a choice by outcome would mislead."""

TOGETHER = 8
"""Most graphs of one update that are shown beside each other: where clients send batches, the first client's."""

MOST = 60
"""Most pairs of one page; rows share them, and those beyond are left out."""


class Pair(NamedTuple):
    """One client: its graph and the attack's best graph as pictures (None: no such graph), and a caption."""

    name: str
    truth: Markup | None
    found: Markup | None
    exact: bool
    caption: str


class Wall(NamedTuple):
    """The pairs of one row."""

    row: Row
    pairs: list[Pair]


def gallery(folder: Path, found: Sequence[Row]) -> list[Wall]:
    """The first clients of every row with an attack that ended; for batches all graphs of the first one, up to
    ``TOGETHER``. A pair whose files are missing or broken has a caption that states it; the rest of the report does not
    depend on them.
    """
    finished = [row for row in found if row.done]
    share = max(1, MOST // max(1, len(finished)))
    return [Wall(row, [_pair(folder, unit) for unit in _first(row)[:share]]) for row in finished[:MOST]]


def _first(row: Row) -> list[Unit]:
    """The units of the first clients; in a row with several batch sizes those of the first one's size."""
    first, sizes = row.done[0], {unit.hash: int(unit.specification["batch_size"]) for unit in row.done}
    batch = sizes[first.hash]
    alike = [unit for unit in row.done if sizes[unit.hash] == batch]
    if batch == 1:
        return alike[:SHOWN]
    update = first.cell, first.client // batch  # every recorded client begins at 0; its cell names its file
    return [unit for unit in alike if (unit.cell, unit.client // batch) == update][:TOGETHER]


def _pair(folder: Path, unit: Unit) -> Pair:
    name = unit.record["name"] or f"client {unit.client}"
    try:
        told = unit.record["exact"] is not None
        truth = graph_of(read_json(folder / "truths" / f"{unit.hash}.json")) if told else None
        listed = read(folder / "reconstructions" / f"{unit.hash}.json")
        graphs, space = listed.shown, load(listed.observation, listed.space)[1]
        exact = bool(unit.record["exact"])
        best = None if not graphs else _picture(graphs[0], space, truth, f"reconstruction of {name}")
        caption = _caption(unit, truth, len(graphs))
        shown = None if truth is None else _picture(truth, space, truth, f"the private graph {name}")
        return Pair(name, shown, best, exact, caption)
    except (OSError, ValueError, KeyError, TypeError):
        return Pair(name, None, None, False, "no picture: its files are missing or broken")


def _picture(graph: Graph, space: FeatureSpace, truth: Graph | None, label: str) -> Markup:
    return Markup(
        inline_svg(graph, space, beside=truth, label=label)
    )  # safe: it escapes the label and has no other text


def _caption(unit: Unit, truth: Graph | None, listed: int) -> str:
    record = unit.record
    size = (
        "the truth is not known"
        if truth is None
        else f"{counted(truth.n, 'node')}, {counted(len(truth.edges), 'edge')}"
    )
    words = [size, f"seed {unit.cell['seed']}"]
    batch = unit.specification["batch_size"]
    if batch > 1:
        words.append(f"graph {unit.client % batch + 1} of {batch} of one update")
    if record["exact"]:
        words.append("rebuilt exactly")
    elif not listed:
        words.append(f"nothing recovered ({record['stop']})")
    elif truth is not None:
        words.append(f"GSM-2 {record['gsm2']:.2f}")
    certificate = record["certificate"]
    if certificate is not None:
        more = {
            "unique": "the only graph that fits",
            "k_graphs": "{} graphs fit",
            "at_least_k": "at least {} graphs fit" if certificate["size"] > 1 else "at least this graph fits",
        }
        words.append(more[certificate["status"]].format(certificate["size"]))
    return "; ".join(words)
