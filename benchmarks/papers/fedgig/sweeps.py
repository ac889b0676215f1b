"""FedGIG's Figure 2: the largest degree, the rate at which degrees shrink to it, and the threshold of edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.papers.edges.table import Attacker

BEST = {"mutag": ("4", "0.15"), "nci1": ("4", "0.15"), "tox21": ("5", "0.13"), "clintox": ("4", "0.15")} | {
    "freesolv": ("5", "0.13")
}
"""The paper's ``n_max`` and ``alpha`` of each data set; its ``beta`` is 0.5 everywhere."""

OPTIONS = ("usual_degree", "degree_decay", "edge_threshold")
"""``n_max``, ``alpha`` and ``beta``, as our attack calls them."""

TITLES = ("n_max", "alpha", "beta")

TRIED: Mapping[str, Sequence[str]] = {
    "n_max": ("2", "3", "4", "5", "6"),
    "alpha": ("0.05", "0.1", "0.13", "0.15", "0.2"),
    "beta": ("0.3", "0.4", "0.5", "0.6", "0.7"),
}

Point = tuple[str, str, str]
"""``n_max``, ``alpha``, ``beta``."""


def points(dataset: str) -> list[Point]:
    """The paper's choice for a data set, then what differs from it in one of the three."""
    most, rate = BEST[dataset]
    changed = [
        *((value, rate, "0.5") for value in TRIED["n_max"]),
        *((most, value, "0.5") for value in TRIED["alpha"]),
        *((most, rate, value) for value in TRIED["beta"]),
    ]
    return list(dict.fromkeys([(most, rate, "0.5"), *changed]))


def name(point: Point) -> str:
    """What ``--attacks`` takes."""
    return "fedgig-" + "-".join(point)


METHODS = tuple(
    Attacker(
        name(point),
        "FedGIG without auto-encoder, " + ", ".join(f"{t} = {value}" for t, value in zip(TITLES, point, strict=True)),
        "fedgig-no-autoencoder",
        options=tuple(zip(OPTIONS, point, strict=True)),
    )
    for point in dict.fromkeys(point for dataset in BEST for point in points(dataset))
)
"""Told no public graphs, so that ``n_max`` is what it is set to; the auto-encoder changes no thresholded edge there."""
