"""Fields of the stored records as text: which record, which field, in which form."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from benchmarks.lib.records import RESULTS, Record, read
from benchmarks.papers.edges.page import differences
from benchmarks.papers.fedgig.rows import FEDGIG
from benchmarks.papers.graphdlg.rows import GRAPHDLG

KEYS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("grain", "glg", "fedgig", "graphdlg", "defenses", "fedgnn"), ("row", "attack")),
    **dict.fromkeys(("batches", "local_steps", "secure_aggregation"), ("row",)),
    "accelerator": ("what", "platform"),
    "deployed": ("cell", "epochs"),
    "deployed_models": ("row", "epochs"),
    "encryption_cost": ("set", "part"),
    "facts": ("clients", "protocol"),
    "few_vectors": ("set", "known"),
    "file_order": ("dataset",),
    "flower_facts": ("round", "client"),
    "flower_guard": ("client",),
    "glg_neighbours": ("set",),
    "grain_figures": ("figure",),
    "gsm0_guesses": ("guess",),
    "half_precision": ("type", "factor"),
    "loader_stages": ("molecules",),
    "noise_spans": ("part", "what"),
    "noise_threshold": ("attack", "precision", "defense"),
    "public_part": ("public", "attack"),
    "recursion": ("dataset", "layers", "pooling", "hidden"),
    "statistics_without_clients": ("dataset", "statistics"),
    "trained_layers": ("attack", "width", "epochs"),
    "what_leaks": ("row", "attack"),
}
"""What tells the records of a file apart, by the file's name. A field that a record lacks is empty."""

COMPARED = {"fedgig": FEDGIG, "graphdlg": GRAPHDLG}
"""Files whose attacks are compared client by client."""


@cache
def _stored(file: str) -> Mapping[str, Record]:
    return {key(file, one): one for one in read(RESULTS / f"{file}.jsonl")}


def key(file: str, one: Record) -> str:
    """What a record is called."""
    return "/".join(str(one.get(name, "")) for name in KEYS[file])


def record(file: str, name: str) -> Record:
    """A stored record, or what two attacks of ``COMPARED`` differ by; ``KeyError`` where there is none."""
    one, less, other = name.partition(" less ")
    if less:
        return _differences(file, one, other)
    if file not in KEYS or name not in _stored(file):
        raise KeyError(f"no record {name!r} in results/{file}.jsonl")
    return _stored(file)[name]


@cache
def _differences(file: str, one: str, other: str) -> Record:
    """Clients that both answered; ``one`` and ``other``, the means over these, and ``less``, their difference."""
    clients, found = differences(COMPARED[file], record(file, one), record(file, other))
    pairs = {title: pair for title, pair in found.items() if pair is not None}
    return {
        "clients": clients,
        "one": {title: pair.one for title, pair in pairs.items()},
        "other": {title: pair.other for title, pair in pairs.items()},
        "less": {title: dataclasses.asdict(pair.less) for title, pair in pairs.items()},
    }


def value(file: str, name: str, path: str) -> Any:
    """The field of a record; where the name has a ``*``, its least and greatest mean over all that it fits."""
    if "*" not in name:
        return field(record(file, name), path)
    values = [_mean(field(one, path)) for other, one in _stored(file).items() if fnmatchcase(other, name)]
    if not values:
        raise KeyError(f"no record like {name!r} in results/{file}.jsonl")
    return {"low": min(values), "high": max(values)}


DERIVED: Mapping[str, Callable[[Record], Any]] = {
    "minutes": lambda one: one["hours_per_100"] * 60 * one["graphs"] / 100,
    "median": lambda one: statistics.median(client["seconds"] for client in one["clients"]),
    "answered": lambda one: sum(client["gradient_distance"] is not None for client in one["clients"]),
    "right": lambda one: round(one["exact"]["mean"] * one["graphs"]),
    "right_means": lambda one: round(one["means"]["exact"]["mean"] * one["graphs"]),
}
"""Fields that follow from a record."""


def field(one: Record, path: str) -> Any:
    """A field by names between dots, or one of ``DERIVED`` that the record lacks; ``KeyError`` where there is none."""
    if path in DERIVED and path not in one:
        return DERIVED[path](one)
    value: Any = one
    for name in path.split("."):
        try:
            value = value[int(name) if isinstance(value, list) else name]
        except (KeyError, IndexError, TypeError, ValueError):
            raise KeyError(f"no field {path!r}") from None
    return value


def _mean(value: Any) -> Any:
    return value["mean"] if isinstance(value, Mapping) and "mean" in value else value


def shown(value: Any, form: str) -> str:
    """A number as a format says: ``share`` (97 %), ``bounds`` ([93, 100]), ``interval`` (both), ``percent1`` (97.2),
    ``dot3`` (.972), ``short3`` (the same, but 0 for nothing at all), ``from3`` (the interval: .938 to .985), ``exp1``
    (4.1e-7), or what
    Python's ``format`` takes. Of a rate it is the mean that is shown."""
    mean = _mean(value)
    if form == "share":
        return f"{100 * mean:.0f} %"
    if form == "bounds":
        return f"[{100 * value['low']:.0f}, {100 * value['high']:.0f}]"
    if form == "interval":
        return f"{shown(value, 'share')} {shown(value, 'bounds')}"
    if form.startswith("percent"):
        return f"{100 * mean:.{form.removeprefix('percent')}f}"
    if form.startswith("dot"):
        return re.sub(r"\b0\.", ".", f"{mean:.{form.removeprefix('dot')}f}")
    if form.startswith("short"):
        return "0" if mean == 0 else shown(mean, form.replace("short", "dot"))
    if form.startswith("from"):
        return " to ".join(shown(value[end], form.replace("from", "dot")) for end in ("low", "high"))
    if form.startswith("exp"):
        return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), f"{mean:.{form.removeprefix('exp')}e}")
    return format(mean, form)
