"""Every attack under every defence: the experiments of one grid, and what each defence costs the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.papers.defenses.utility import UTILITY
from benchmarks.papers.edges.table import Attacker, Column, Line, Table
from benchmarks.papers.graphdlg.rows import MODEL
from jgleak.audit.specification import Specification

GRAPHS = 20
"""Clients of a cell."""

NOISE = (1e-7, 1e-6, 1e-5, 1e-3)
"""Standard deviations of Gaussian noise on GRAIN's model, whose gradients have entries of about 7e-4."""

VARIANCES = (0.05, 0.1, 0.2, 0.5)
"""GraphDLG's sigma, a variance (appendix A.7); the standard deviation is its square root."""

SHARES = (0.5, 0.9, 0.99, 0.999)
"""Of entries that are pruned; GraphDLG goes up to 0.99."""

BATCH = 4

NODES = "node ACC"
"""GraphDLG's node accuracy."""

COLUMNS = (
    Column("exact", ("exact",)),
    Column("GSM-1", ("gsm1",)),
    Column(NODES, ("features", "file_order", "accuracy")),
    Column("AUC", ("edges", "file_order", "auc")),
    Column("AP", ("edges", "file_order", "ap")),
    Column("AUC aligned", ("edges", "aligned", "auc")),
    Column("accuracy", ("utility", "accuracy")),
    Column("ROC-AUC", ("utility", "auc")),
)

TOX21 = Specification(dataset="tox21", graphs=GRAPHS, min_nodes=4, max_nodes=40, know=("n",), prior="molecule")
"""GRAIN's model with random weights on Tox21."""

MUTAG = dataclasses.replace(MODEL, dataset="mutag", graphs=GRAPHS, auxiliary="same", min_nodes=None, max_nodes=None)
"""GraphDLG's model on MUTAG."""

METHODS = (
    Attacker(UTILITY, "the model itself", "empty"),
    Attacker("census", "census (ours)", "census"),
    Attacker("grain", "GRAIN", "grain"),
    Attacker("dlg", "DLG", "dlg"),
    Attacker("tableak", "TabLeak", "tableak"),
    Attacker("fedgig", "FedGIG", "fedgig", ("auxiliary",)),
    Attacker("graphdlg", "GraphDLG", "graphdlg", ("auxiliary",)),
    Attacker("graphdlg-refined", "GraphDLG, refined (ours)", "graphdlg-refined", ("auxiliary",)),
    Attacker("mean-adjacency", "baseline: mean adjacency", "mean-adjacency", ("auxiliary",)),
    Attacker("file-habit", "baseline: habit of files", "file-habit", ("auxiliary",)),
)

ON_TOX21 = (UTILITY, "census", "grain", "dlg", "tableak", "fedgig", "mean-adjacency", "file-habit")
ON_MUTAG = (UTILITY, "graphdlg", "graphdlg-refined", "mean-adjacency", "file-habit")


UNDEFENDED = (0.7435, 0.9042, 0.7556)

TABLE_9 = {
    "noise": ((0.6350, 0.9045, 0.7564), (0.3650, 0.8931, 0.7296), (0.2522, 0.8820, 0.7204), (0.2067, 0.8272, 0.6230)),
    "activations": (
        (0.7434, 0.8994, 0.7358),
        (0.7434, 0.8829, 0.6926),
        (0.7434, 0.8485, 0.6351),
        (0.7434, 0.8131, 0.5748),
    ),
    "hybrid": ((0.6799, 0.8843, 0.7079), (0.4549, 0.8546, 0.6618), (0.2926, 0.8328, 0.6313), (0.2075, 0.8344, 0.6404)),
}
"""GraphDLG's node accuracy, edges' AUC and AP by the noise's variance. Without a defence they are those of Table 1."""


def printed(prefix: str, name: str) -> tuple[float, float, float] | None:
    """What GraphDLG's Table 9 has under a defence; None where it has nothing."""
    family, _, number = name.partition("-")
    if prefix != "mutag" or (family not in TABLE_9 and name != "none"):
        return None
    return TABLE_9[family][int(number) - 1] if number else UNDEFENDED


def defenses(noise: Sequence[float], kind: str) -> tuple[tuple[str, str], ...]:
    """Short names and texts of the defences of a grid: noise, pruning, clipping, activations, both."""
    return (
        ("none", ""),
        *((f"noise-{i}", f"{kind}:{deviation:.4g}") for i, deviation in enumerate(noise, start=1)),
        *((f"prune-{i}", f"prune:{share}") for i, share in enumerate(SHARES, start=1)),
        ("clip", "clip:0.1"),
        *((f"activations-{i}", f"activations:{v**0.5:.4g}") for i, v in enumerate(VARIANCES, start=1)),
        *((f"hybrid-{i}", f"hybrid:{v**0.5:.4g}") for i, v in enumerate(VARIANCES, start=1) if kind == "laplace"),
    )


def _lines(
    prefix: str, title: str, base: Specification, noise: Sequence[float], kind: str, attackers: tuple[str, ...]
) -> Iterator[Line]:
    columns = tuple(c.title for c in COLUMNS if prefix == "mutag" or c.title not in (NODES, "AP"))
    named: list[tuple[str, str, dict[str, Any]]] = [
        (name, text or "no defence", {"defense": text}) for name, text in defenses(noise, kind)
    ]
    many: dict[str, Any] = {"batch_size": BATCH}
    for name, what, fields in (*named, (f"batch-{BATCH}", f"batches of {BATCH}", many)):
        numbers = printed(prefix, name)
        yield Line(
            name=f"{prefix}-{name}",
            title=f"{title}, {what}",
            source="ours" if numbers is None else "GraphDLG, Table 9",
            printed={} if numbers is None else {"graphdlg": dict(zip((NODES, "AUC", "AP"), numbers, strict=True))},
            experiment=dataclasses.replace(base, **fields),
            attackers=attackers,
            columns=columns,
        )


ROWS = (
    *_lines("tox21", "Tox21", TOX21, NOISE, "gaussian", ON_TOX21),
    *_lines("mutag", "MUTAG", MUTAG, [v**0.5 for v in VARIANCES], "laplace", ON_MUTAG),
)

ABOUT = """\
*Paper* is GraphDLG's Table 9 (Wei et al., 2026): node accuracy, AUC and AP of its attack under Laplace noise on the
update, on the activations, or half the variance on each. It does not name the data set; its numbers without a defence
are MUTAG's. Its public graphs are one part of a Dirichlet split; here every graph of MUTAG that is no client's is
public (167), and the 20 clients are others than the paper's. For every other row no numbers are printed: the paper
shows pruning in a figure only. *exact* and GSM-1 count a client without an answer as 0; node accuracy, and AUC and AP
of edges (in file order; AUC aligned too), are over clients with an answer only, and a batch's graphs are matched to
what came back by size, then by GSM-1. *The model itself* was trained for federated rounds under the same defence; its
accuracy and ROC-AUC are on graphs held out. The attacker knows the defence and n, of a batch every graph's. Noise is
given by its standard deviation; GraphDLG's sigma, a variance, is its square. Activation noise is Laplace's on every
layer's output. Clipping is to an L2 norm of 0.1."""

AGAINST = (
    ("graphdlg", ("mean-adjacency", "file-habit")),
    ("graphdlg-refined", ("mean-adjacency", "file-habit")),
)

DEFENSES = Table("Defenses, every attack under every one", ABOUT, ROWS, METHODS, COLUMNS, AGAINST)
