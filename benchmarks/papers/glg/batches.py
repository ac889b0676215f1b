"""GLG's Tables 8 and 9: the features behind a batch's gradient, GraphSAGE alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from benchmarks.papers.edges.table import Line
from benchmarks.papers.glg.setting import DATASETS, GRAPH, NODE

RUNS = 10
"""Independent batches of each size (section 5.4)."""

TARGETS = {
    ("synthetic-glg", 5): 0.07e-2,
    ("synthetic-glg", 20): 0.8e-2,
    ("synthetic-glg", 50): 3.9e-2,
    ("facebook", 5): 0.9e-2,
    ("facebook", 20): 12e-2,
    ("facebook", 50): 17e-2,
    ("github", 5): 28e-2,
    ("github", 20): 126e-2,
    ("github", 50): 132e-2,
}
"""Table 8: mean RNMSE of the targets' features by data set and batch."""


def _targets() -> Iterator[Line]:
    experiment = dataclasses.replace(NODE, model="sage", protocol="target_node", know=("labels",))
    for (dataset, batch), printed in TARGETS.items():
        yield Line(
            name=f"node-1-sage-{dataset.split('-')[0]}-batch-{batch}",
            title=f"node attacker 1, GraphSAGE, {DATASETS[dataset]}, batches of {batch}",
            source="Table 8",
            printed={"node-1-printed": {"target RNMSE": printed}},
            experiment=dataclasses.replace(experiment, dataset=dataset, batch_size=batch, graphs=RUNS * batch),
            attackers=("node-1", "node-1-lbfgs", "node-1-printed"),
            columns=("target RNMSE",),
        )


WHOLE = {4: (0.23, 0.82, 1.19), 8: (0.25, 0.84, 1.21), 12: (0.22, 0.89, 1.21)}
"""Table 9: mean RNMSE of the features of 5, 20 and 50 random graphs of 50 nodes, by their mean degree."""


def _whole() -> Iterator[Line]:
    experiment = dataclasses.replace(GRAPH, model="sage", know=("adjacency", "labels"))
    for degree, printed in WHOLE.items():
        for batch, error in zip((5, 20, 50), printed, strict=True):
            yield Line(
                name=f"graph-b-sage-er-{degree}-batch-{batch}",
                title=f"graph attacker b (A known), GraphSAGE, G(50, p) of mean degree {degree}, batches of {batch}",
                source="Table 9",
                printed={"graph-printed": {"RNMSE": error}},
                experiment=dataclasses.replace(
                    experiment, dataset=f"synthetic-glg:{degree}", batch_size=batch, graphs=RUNS * batch
                ),
                attackers=("graph-lr", "graph-lbfgs", "graph-printed"),
                columns=("RNMSE",),
            )


ROWS = (*_targets(), *_whole())
"""Labels are known, as the paper assumes."""
