"""Every attack under every defence: the experiments of one grid, and what each defence costs the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from comparison import Attacker, Column, Line, Table
from graphdlg_rows import MODEL
from jgleak.audit.specification import Specification
from utility import UTILITY

GRAPHS = 20
"""Clients of a cell."""

NOISE = (1e-7, 1e-6, 1e-5, 1e-3)
"""Standard deviations of Gaussian noise on GRAIN's model, whose gradients have entries of about 7e-4."""

VARIANCES = (0.05, 0.1, 0.2, 0.5)
"""GraphDLG's sigma, a variance (appendix A.7); the standard deviation is its square root."""

SHARES = (0.5, 0.9, 0.99, 0.999)
"""Of entries that are pruned; GraphDLG goes up to 0.99."""

BATCH = 4

COLUMNS = (
    Column("exact", ("exact",)),
    Column("GSM-1", ("gsm1",)),
    Column("AUC", ("edges", "file_order", "auc")),
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


def defenses(noise: Sequence[float], kind: str) -> tuple[tuple[str, str], ...]:
    """Short names and texts of the defences of a grid: noise at some deviations, pruning, clipping, activations."""
    return (
        ("none", ""),
        *((f"noise-{i}", f"{kind}:{deviation:.4g}") for i, deviation in enumerate(noise, start=1)),
        *((f"prune-{i}", f"prune:{share}") for i, share in enumerate(SHARES, start=1)),
        ("clip", "clip:0.1"),
        *((f"activations-{i}", f"activations:{v**0.5:.4g}") for i, v in enumerate(VARIANCES, start=1)),
    )


def _lines(
    prefix: str, title: str, base: Specification, noise: Sequence[float], kind: str, attackers: tuple[str, ...]
) -> Iterator[Line]:
    named: list[tuple[str, str, dict[str, Any]]] = [
        (name, text or "no defence", {"defense": text}) for name, text in defenses(noise, kind)
    ]
    many: dict[str, Any] = {"batch": BATCH}
    for name, what, fields in (*named, (f"batch-{BATCH}", f"batches of {BATCH}", many)):
        yield Line(
            name=f"{prefix}-{name}",
            title=f"{title}, {what}",
            source="ours",
            printed={},
            experiment=dataclasses.replace(base, **fields),
            attackers=attackers,
            columns=tuple(column.title for column in COLUMNS),
        )


ROWS = (
    *_lines("tox21", "Tox21", TOX21, NOISE, "gaussian", ON_TOX21),
    *_lines("mutag", "MUTAG", MUTAG, [v**0.5 for v in VARIANCES], "laplace", ON_MUTAG),
)

ABOUT = """\
No paper printed these. *exact* and GSM-1 count a client without an answer as 0; the AUC of edges (in file order and
aligned) is over clients with an answer only, and a batch's graphs are matched to what came back by size, then by GSM-1.
*The model itself* was trained for federated rounds under the same defence; its accuracy and ROC-AUC are on graphs held
out. The attacker knows the defence and n, of a batch every graph's. Noise is given by its standard deviation;
GraphDLG's sigma, a variance, is its square. Activation noise is Laplace's on every layer's output. Clipping is to an L2
norm of 0.1."""

DEFENSES = Table("Defenses, every attack under every one", ABOUT, ROWS, METHODS, COLUMNS)
