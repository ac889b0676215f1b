"""GLG's printed results (Sinha et al.) and the experiments that stand beside them here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from benchmarks.papers.edges.table import Attacker, Column, Line, Table
from benchmarks.papers.glg import batches as glg_batches
from benchmarks.papers.glg import molecules as glg_molecules
from benchmarks.papers.glg import sweeps as glg_sweeps
from benchmarks.papers.glg.setting import BASELINES, CONVOLUTIONS, DATASETS, FREE, GRAPH, NODE, PRINTED, STEPS
from jgleak.audit.specification import Specification

COLUMNS = (
    Column("RNMSE", ("features", "file_order", "rnmse"), up=False),
    Column("target RNMSE", ("target_error",), up=False),
    Column("ACC", ("edges", "file_order", "accuracy")),
    Column("AUC", ("edges", "file_order", "auc")),
    Column("AP", ("edges", "file_order", "ap")),
    Column("precision", ("edges", "file_order", "precision")),
    *glg_molecules.COLUMNS,
    Column("RNMSE aligned", ("features", "aligned", "rnmse"), up=False),
    Column("AUC aligned", ("edges", "aligned", "auc")),
)

LONG = (("steps", "2000"), ("lr", "0.05"))
"""The paper prints neither. At 500 steps of 0.05 the printed attackers' edges on ten synthetic clients are those of
2,000, their features are not; at 0.01 neither are."""

SHORT = (STEPS, ("lr", "0.05"))
"""Of node attacker 2, which makes a gradient of every node in a step."""

METHODS = (
    Attacker("closed-form", "closed form (ours)", "closed-form"),
    Attacker("node-1", "iterative", "glg-node-1", options=LONG, ours=True),
    Attacker(
        "node-1-printed",
        "iterative, as printed",
        "glg-node-1",
        options=(*LONG, ("objective", "cosine"), ("init", "normal")),
    ),
    Attacker("node-1-lbfgs", "iterative, L-BFGS", "glg-node-1", options=(("steps", "2000"), ("optimiser", "lbfgs"))),
    Attacker("node-2-printed", "iterative, as printed", "glg-node-2", options=(*SHORT, *PRINTED)),
    Attacker(
        "node-2-printed-free", "iterative, as printed, no penalties", "glg-node-2", options=(*SHORT, *PRINTED, *FREE)
    ),
    Attacker("node-2", "iterative", "glg-node-2", options=(STEPS,), ours=True),
    Attacker("node-2-free", "iterative, no penalties", "glg-node-2", options=(STEPS, *FREE), ours=True),
    Attacker("node-2-lr", "iterative, lr 0.05", "glg-node-2", options=(STEPS, ("lr", "0.05"))),
    Attacker("node-2-lbfgs", "iterative, L-BFGS", "glg-node-2", options=(("steps", "1000"), ("optimiser", "lbfgs"))),
    Attacker("graph-printed", "iterative, as printed", "glg-graph", options=(*LONG, *PRINTED)),
    Attacker(
        "graph-printed-free", "iterative, as printed, no penalties", "glg-graph", options=(*LONG, *PRINTED, *FREE)
    ),
    Attacker("graph", "iterative", "glg-graph", options=(STEPS,)),
    Attacker("graph-lr", "iterative, lr 0.05", "glg-graph", options=(STEPS, ("lr", "0.05"))),
    Attacker("graph-lbfgs", "iterative, L-BFGS", "glg-graph", options=(("steps", "1000"), ("optimiser", "lbfgs"))),
    Attacker("graph-cosine", "iterative, the paper's objective", "glg-graph", options=(STEPS, ("objective", "cosine"))),
    Attacker(
        "graph-cosine-lr",
        "iterative, the paper's objective, lr 0.05",
        "glg-graph",
        options=(STEPS, ("objective", "cosine"), ("lr", "0.05")),
    ),
    Attacker(
        "graph-cosine-lr-free",
        "iterative, the paper's objective without penalties, lr 0.05",
        "glg-graph",
        options=(STEPS, ("objective", "cosine"), ("lr", "0.05"), *FREE),
    ),
    *glg_molecules.METHODS,
    *glg_sweeps.METHODS,
    Attacker("random", "baseline: random", "random", ("n",)),
    Attacker("empty", "baseline: empty", "empty", ("n",)),
    Attacker("mean-adjacency", "baseline: mean adjacency", "mean-adjacency", ("n", "auxiliary")),
)

Numbers = Mapping[tuple[str, str], Mapping[str, float]]
"""Printed numbers by convolution and data set. What the paper calls AP it defines as TP / (TP + FP): a precision."""

NODE_1: Numbers = {
    ("sage", "synthetic-glg"): {"target RNMSE": 2.8e-3},
    ("sage", "facebook"): {"target RNMSE": 2.6e-3},
    ("sage", "github"): {"target RNMSE": 2.8e-3},
    ("gcn", "synthetic-glg"): {"target RNMSE": 0.54},
    ("gcn", "facebook"): {"target RNMSE": 0.81},
    ("gcn", "github"): {"target RNMSE": 1.27},
}
NODE_2A: Numbers = {
    ("sage", "facebook"): {"ACC": 1.0, "AUC": 1.0, "precision": 1.0},
    ("sage", "github"): {"ACC": 1.0, "AUC": 1.0, "precision": 1.0},
    ("gcn", "facebook"): {"ACC": 0.97, "AUC": 0.97, "precision": 0.85},
    ("gcn", "github"): {"ACC": 0.97, "AUC": 0.98, "precision": 0.87},
}
NODE_2B: Numbers = {
    ("sage", "facebook"): {"RNMSE": 0.7e-4},
    ("sage", "github"): {"RNMSE": 0.9e-4},
    ("gcn", "facebook"): {"RNMSE": 0.07},
    ("gcn", "github"): {"RNMSE": 0.09},
}
NODE_2C: Numbers = {
    ("sage", "facebook"): {"RNMSE": 0.002, "AUC": 0.99, "precision": 0.99},
    ("sage", "github"): {"RNMSE": 0.001, "AUC": 0.99, "precision": 0.99},
    ("gcn", "facebook"): {"RNMSE": 1.39, "AUC": 0.97, "precision": 0.75},
    ("gcn", "github"): {"RNMSE": 0.58, "AUC": 0.96, "precision": 0.83},
}
NODE_2C_FREE: Numbers = {
    ("gcn", "facebook"): {"RNMSE": 1.19, "AUC": 0.95, "precision": 0.65},
    ("gcn", "github"): {"RNMSE": 0.81, "AUC": 0.94, "precision": 0.72},
}
"""Without regularisation, GCN alone."""

GRAPH_A: Numbers = {
    ("sage", "facebook"): {"ACC": 1.0, "AUC": 1.0, "precision": 1.0},
    ("sage", "github"): {"ACC": 1.0, "AUC": 1.0, "precision": 1.0},
    ("gcn", "facebook"): {"ACC": 0.97, "AUC": 0.93, "precision": 0.97},
    ("gcn", "github"): {"ACC": 0.97, "AUC": 0.95, "precision": 0.97},
}
GRAPH_B: Numbers = {
    ("sage", "facebook"): {"RNMSE": 0.18},
    ("sage", "github"): {"RNMSE": 0.15},
    ("gcn", "facebook"): {"RNMSE": 0.61},
    ("gcn", "github"): {"RNMSE": 0.59},
}
GRAPH_C: Numbers = {
    ("sage", "facebook"): {"RNMSE": 0.58, "AUC": 0.89, "precision": 0.98},
    ("sage", "github"): {"RNMSE": 0.62, "AUC": 0.92, "precision": 0.98},
    ("gcn", "facebook"): {"RNMSE": 0.60, "AUC": 0.92, "precision": 0.97},
    ("gcn", "github"): {"RNMSE": 0.61, "AUC": 0.93, "precision": 0.98},
}


LBFGS = {"node-2b": "node-2-lbfgs", "graph-b": "graph-lbfgs"}
"""L-BFGS, which the paper names and does not use, is tried where a GCN's adjacency is known, on Facebook and GitHub."""


def _rows(
    attacker: str,
    title: str,
    source: str,
    printed: Numbers,
    experiment: Specification,
    attackers: tuple[str, ...],
    columns: tuple[str, ...],
    free: tuple[str, ...] = (),
    printed_free: Numbers | None = None,
) -> Iterator[Line]:
    """The printed ones of ``attackers`` are the paper's; those in ``free`` have no penalties, on GCN alone as there."""
    for conv, convolution in CONVOLUTIONS.items():
        for dataset, named in DATASETS.items():
            theirs = [attacker for attacker in attackers if "-printed" in attacker]
            by = {**dict.fromkeys(free, printed_free or {}), **dict.fromkeys(theirs, printed)}
            more = BASELINES if conv == "sage" else free
            if conv == "gcn" and attacker in LBFGS and dataset in ("facebook", "github"):
                more = (*more, LBFGS[attacker])
            yield Line(
                name=f"{attacker}-{conv}-{dataset.split('-')[0]}",
                title=f"{title}, {convolution}, {named}",
                source=source,
                printed={who: numbers[conv, dataset] for who, numbers in by.items() if (conv, dataset) in numbers},
                experiment=dataclasses.replace(experiment, model=conv, dataset=dataset),
                attackers=(*attackers, *more),
                columns=columns,
            )


EDGES = ("ACC", "AUC", "AP", "precision")
BOTH = ("closed-form", "node-2-lr", "node-2", "node-2-printed")
WHOLE = ("closed-form", "graph-cosine-lr", "graph-cosine", "graph-lr", "graph", "graph-printed")
LIGHTER = (*WHOLE[:-1], "graph-printed-free", WHOLE[-1])
"""Algorithm 3 has no penalties, section 5 has them for the same tables: both are the paper's."""
ALL = ("RNMSE", "RNMSE aligned", "AUC", "AP", "precision", "AUC aligned")
NODES = dataclasses.replace(NODE, protocol="node_losses", together=4)

ROWS = (
    *_rows(
        "node-1",
        "node attacker 1",
        "Table 1",
        NODE_1,
        dataclasses.replace(NODE, protocol="target_node"),
        ("node-1", "node-1-printed"),
        ("target RNMSE",),
    ),
    *_rows(
        "node-2a",
        "node attacker 2-a (X known)",
        "Table 2",
        NODE_2A,
        dataclasses.replace(NODES, know=("n", "features")),
        BOTH,
        EDGES,
    ),
    *_rows(
        "node-2b",
        "node attacker 2-b (A known)",
        "Table 3",
        NODE_2B,
        dataclasses.replace(NODES, know=("n", "adjacency")),
        BOTH,
        ("RNMSE",),
    ),
    *_rows(
        "node-2c",
        "node attacker 2-c",
        "Table 4",
        NODE_2C,
        dataclasses.replace(NODES, know=("n",)),
        BOTH,
        ("RNMSE", "AUC", "AP", "precision"),
        ("node-2-free", "node-2-printed-free"),
        NODE_2C_FREE,
    ),
    *_rows(
        "graph-a",
        "graph attacker a (X known)",
        "Table 5",
        GRAPH_A,
        dataclasses.replace(GRAPH, know=("n", "features")),
        LIGHTER,
        EDGES,
        ("graph-cosine-lr-free",),
    ),
    *_rows(
        "graph-b",
        "graph attacker b (A known)",
        "Table 6",
        GRAPH_B,
        dataclasses.replace(GRAPH, know=("n", "adjacency")),
        WHOLE,
        ("RNMSE",),
    ),
    *_rows("graph-c", "graph attacker c", "Table 7", GRAPH_C, dataclasses.replace(GRAPH, know=("n",)), LIGHTER, ALL),
    *glg_batches.ROWS,
    *glg_molecules.ROWS,
    *glg_sweeps.ROWS,
)

ABOUT = """\
*Paper* is what Sinha et al. print, for whole 3-hop balls; ours are neighbour-sampled 3-hop subgraphs of at most 100
nodes, features as they are in the files. RNMSE is of the features before rounding, averaged over nodes; ACC, AUC and AP
are of the edges over node pairs. *Condition holds*: the share of clients on which the closed form says that its
conditions hold for all that is asked, *exact*: on which of those the edges are right and the features' RNMSE is below
1e-4; the closed form's other columns are means over the clients on which it has an answer. The learning rate 0.05 was
chosen after looking at four of the Facebook clients under node attacker 1, and the printed attackers' 2,000 steps on
ten of the synthetic ones; nothing was tuned on the other rows.

The baselines never look at a gradient, and are told what the row's attackers are told and the number of nodes. *Random*
draws edges and features (standard normal ones, or coin tosses for words: features are not standardised here, so that no
frequencies are public), *empty* has no edges and zeros for features, *mean adjacency* the mean of other subgraphs in
file order over zeros. The RNMSE of zeros is 1. A guess does not depend on the model, so that the baselines stand under
GraphSAGE alone; GCN's clients are the same. No baseline reads one gradient a node: Tables 1 to 4 have none. On Facebook
and GitHub their clients are those of Tables 5 to 7, so that a guess which is told what attacker 2-a, 2-b or 2-c is told
has the numbers under a, b or c; zeros have a target RNMSE of 1 as well. (The synthetic clients differ.)

*MAE* is that of equation 45, of the soft edges and behind each threshold, before which the matrix is stretched to
[0, 1] as in appendix F; the diagonal counts as right. *Without penalties*: equation 12 alone. In batches, targets are
matched by their features, and the means are over all graphs."""

GLG = Table("GLG, reproduced", ABOUT, ROWS, METHODS, COLUMNS, more=glg_molecules.errors)
