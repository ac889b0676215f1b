"""FedGNN's Table 3 and Figures 4 to 6 as experiments: which recommenders, under what, and what the paper prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from jgleak.audit.recommender.specification import GRAPHS, RecommenderSpecification

DATASETS: Mapping[str, str] = {"flixster": "Flixster", "douban": "Douban", "yahoo-music": "YahooMusic"}
"""Rating sets of the tables by name. MovieLens may not be passed on, and is not here."""

LAMBDAS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Scales of the Laplace noise, at M = 1,000."""

PSEUDO = (0, 100, 500, 1000, 2000)
"""Numbers of pseudo items, at lambda = 0.2."""

CURVE = "douban"
"""The data set of the plotted curves and of the leaks."""

SETS = (CURVE, *(other for other in DATASETS if other != CURVE))
"""All, that of the curves first."""

THRESHOLDS = (0.05, 0.2)
"""What entries are clipped to in Figure 5's rows beside the curves; everywhere else it is 0.1."""


def defense(scale: float, threshold: float = 0.1) -> str:
    """FedGNN's: entries clipped to a threshold, then Laplace noise of this scale (its deviation over sqrt(2))."""
    return f"clip-inf:{threshold:g}" + (f"+laplace:{scale * 2**0.5:.4g}" if scale else "")


NEIGHBOURS, CLIPPING = "neighbours", "clipping"
"""The kinds of Figure 4's rows, and of Figure 5's at other thresholds."""

PROTECTED = {"defense": defense(0.2), "pseudo": 1000}
"""The paper's own."""


class Kind(NamedTuple):
    """A line of the table of errors: a recommender on every data set.

    Attributes:
      name: the end of its rows' names.
      title: what people read.
      fields: of the specification.
      printed: the paper's RMSE by data set.
    """

    name: str
    title: str
    fields: Mapping[str, object]
    printed: Mapping[str, float]


FEDGNN = {"flixster": 0.989, "douban": 0.790, "yahoo-music": 21.1}

KINDS = (
    Kind("paper", "FedGNN, the paper's constants and defences", {"settings": "paper", **PROTECTED}, FEDGNN),
    Kind("gat-defended", "FedGNN (GAT), tuned, the paper's defences", PROTECTED, FEDGNN),
    Kind("gat", "FedGNN (GAT), tuned, no defence", {}, {}),
    Kind("gcn", "FedGNN (GCN), tuned, no defence", {"network": "gcn"}, {}),
    Kind("ggnn", "FedGNN (GGNN), tuned, no defence", {"network": "ggnn"}, {}),
    Kind("fcf", "FCF", {"method": "fcf"}, {"flixster": 1.064, "douban": 0.823, "yahoo-music": 22.9}),
    Kind("fedmf", "FedMF", {"method": "fedmf"}, {"flixster": 1.059, "douban": 0.817, "yahoo-music": 22.2}),
    Kind("bias", "offsets of users and items alone", {"method": "bias"}, {}),
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One experiment.

    Attributes:
      name: what ``--rows`` takes.
      title: what people read.
      source: the table or figure of the paper.
      experiment: all of it.
      printed: the paper's RMSE, where it prints one.
      kind: the line of the table it belongs to, ``NEIGHBOURS`` or ``CLIPPING``; None for a point of the curves.
      scale: of the noise, on the curves.
    """

    name: str
    title: str
    source: str
    experiment: RecommenderSpecification
    printed: float | None = None
    kind: str | None = None
    scale: float | None = None


class Measurement(NamedTuple):
    """What ``--attacks`` takes."""

    name: str
    title: str


RMSE, LEAK = Measurement("rmse", "the error of predicted ratings"), Measurement("leak", "what users' updates show")
TRAFFIC = Measurement("traffic", "numbers that a user sends a round")
SEEDS = Measurement("seeds", "the error under ten seeds")
METHODS: Sequence[Measurement] = (RMSE, LEAK, TRAFFIC, SEEDS)


def _table() -> Iterator[Row]:
    for kind in KINDS:
        for dataset, title in DATASETS.items():
            yield Row(
                f"{dataset}-{kind.name}",
                f"{title}, {kind.title}",
                "Table 3",
                RecommenderSpecification(dataset=dataset, **kind.fields),  # type: ignore[arg-type]
                kind.printed.get(dataset),
                kind.name,
            )


def _curves() -> Iterator[Row]:
    """Points beside ``gat-defended`` (lambda = 0.2, M = 1,000), of every data set."""
    points = [(f"noise-{scale:g}", scale, 1000, "Figure 5") for scale in LAMBDAS if scale != 0.2]
    points += [(f"pseudo-{count}", 0.2, count, "Figure 6") for count in PSEUDO if count != 1000]
    for dataset in SETS:
        for name, scale, pseudo, source in points:
            yield Row(
                f"{dataset}-{name}",
                f"{DATASETS[dataset]}, tuned GAT, lambda = {scale:g}, M = {pseudo}",
                source,
                RecommenderSpecification(dataset=dataset, defense=defense(scale), pseudo=pseudo),
                scale=scale,
            )


def _neighbours() -> Iterator[Row]:
    """Figure 4: networks with and without neighbours, under the paper's noise, no pseudo items (minutes a row)."""
    ways = (("off", 0, "plain"), ("fixed", 16, "plain"), ("trainable", 16, "trainable"))
    for dataset, network, (name, most, expansion) in product(SETS, GRAPHS, ways):
        yield Row(
            f"{dataset}-{network}-{name}",
            f"{DATASETS[dataset]}, {network.upper()}, neighbours {name}",
            "Figure 4",
            RecommenderSpecification(
                dataset=dataset, network=network, neighbours=most, expansion=expansion, defense=defense(0.2)
            ),
            kind=NEIGHBOURS,
        )


def _clipped() -> Iterator[Row]:
    """Figure 5 at other thresholds than the curves' (M = 1,000)."""
    for threshold in THRESHOLDS:
        for scale in LAMBDAS[2:]:
            yield Row(
                f"{CURVE}-clip-{threshold:g}-noise-{scale:g}",
                f"{DATASETS[CURVE]}, tuned GAT, clipped to {threshold:g}, lambda = {scale:g}, M = 1000",
                "Figure 5",
                RecommenderSpecification(dataset=CURVE, defense=defense(scale, threshold), pseudo=1000),
                kind=CLIPPING,
                scale=scale,
            )


ROWS = (*_table(), *_curves(), *_neighbours(), *_clipped())


def grid() -> dict[str, tuple[float | None, int]]:
    """Titles of the protections whose leaks are measured, with lambda (None: nothing at all) and M."""
    points: list[tuple[float | None, int]] = [(None, 0), (None, 1000)]
    points += [(scale, 0) for scale in (0.0, 0.2)]
    points += [(scale, 1000) for scale in LAMBDAS] + [(0.2, count) for count in PSEUDO if count not in (0, 1000)]
    return {_protection(scale, pseudo): (scale, pseudo) for scale, pseudo in points}


def watched(row: Row) -> dict[str, tuple[float | None, int]]:
    """Protections under which a row's users are attacked, as in ``grid``: all for the open GAT; for the GAT that was
    trained under the paper's, that one."""
    if row.name == f"{CURVE}-gat":
        return grid()
    return {"the same, trained under it": (0.2, 1000)} if row.name == f"{CURVE}-gat-defended" else {}


def repeated(row: Row) -> bool:
    """Whether a row is trained under ten seeds: those of Table 3, but for the offsets, which no seed moves."""
    return row.source == "Table 3" and row.experiment.method != "bias"


def counted(row: Row) -> bool:
    """Whether what its users send is counted: on Figure 6's rows, under the paper's defences, and beside Figure 4's
    neighbours that are trained on."""
    return row.source == "Figure 6" or row.kind in ("paper", "gat-defended", NEIGHBOURS)


def _protection(scale: float | None, pseudo: int) -> str:
    parts = [] if scale is None else ["clipped to 0.1"] + [f"lambda = {scale:g}"] * (scale > 0)
    parts += [f"M = {pseudo:,}"] if pseudo else []
    return ", ".join(parts) or "no defence"
