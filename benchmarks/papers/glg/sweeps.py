"""GLG's Figures 4, 5 and 6: a GCN by its width, edges by the weights of the penalties, and by a graph's size and
density."""

from __future__ import annotations

import dataclasses

from benchmarks.papers.edges.table import Attacker, Line
from benchmarks.papers.glg.setting import GRAPH, NODE, STEPS

WIDTHS = (10, 50, 200, 400)
"""Beside the 100 columns of ``node-1-gcn-github``."""

POWERS = (-11, -7, -5, -3, -1)
"""Base 10, of the weight that changes; the other one is the paper's. The figure's own scale has no numbers here."""

USUAL = {"smoothness_weight": -9, "frobenius_weight": -7}
"""The paper's weights, as powers of 10."""

SHORT = {"smoothness_weight": "alpha", "frobenius_weight": "beta"}


def _weighted(which: str, power: int) -> Attacker:
    return Attacker(
        f"graph-{SHORT[which]}{power}",
        f"iterative, the paper's objective, lr 0.05, {SHORT[which]} = 1e{power}",
        "glg-graph",
        options=(STEPS, ("objective", "cosine"), ("lr", "0.05"), (which, f"1e{power}")),
    )


METHODS = tuple(_weighted(which, power) for which, usual in USUAL.items() for power in POWERS if power != usual)

WIDE = tuple(
    Line(
        name=f"node-1-gcn-github-width-{width}",
        title=f"node attacker 1, GCN, GitHub, width {width}",
        source="Figure 4",
        printed={},
        experiment=dataclasses.replace(NODE, model="gcn", dataset="github", protocol="target_node", hidden=width),
        attackers=("node-1",),
        columns=("target RNMSE",),
    )
    for width in WIDTHS
)

WEIGHTED = Line(
    name="graph-a-gcn-synthetic-weights",
    title="graph attacker a (X known), GCN, synthetic, by the penalties' weights",
    source="Figure 5",
    printed={},
    experiment=dataclasses.replace(GRAPH, model="gcn", dataset="synthetic-glg", know=("n", "features")),
    attackers=("graph-cosine-lr", "graph-cosine-lr-free", *(method.name for method in METHODS), "empty"),
    columns=("ACC", "AUC", "AP"),
)

SIZES, CHANCES = (10, 20, 40), (0.2, 0.5, 1.0)


def _random(size: int, chance: float) -> Line:
    return Line(
        name=f"graph-c-sage-er-{size}-{chance}",
        title=f"graph attacker c, GraphSAGE, G({size}, {chance})",
        source="Figure 6",
        printed={},
        experiment=dataclasses.replace(
            GRAPH,
            model="sage",
            dataset=f"synthetic-glg:{chance * (size - 1):g}:{FEATURES}",
            min_nodes=size,
            max_nodes=size,
            know=("n",),
        ),
        attackers=("closed-form", "graph-from-normal", "graph-from-0.2", "empty"),
        columns=("RNMSE", "MAE", "MAE, 0.5"),
    )


FEATURES = 10

RANDOM = tuple(_random(size, chance) for size in SIZES for chance in CHANCES)
"""The paper prints neither its sizes nor its chances; graphs are drawn until they are connected."""

ROWS = (*WIDE, WEIGHTED, *RANDOM)
