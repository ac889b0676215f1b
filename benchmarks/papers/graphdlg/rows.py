"""GraphDLG's printed results (Wei et al., 2026) and the experiments that stand beside them here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchmarks.papers.edges.table import Attacker, Column, Line, Table
from jgleak.audit.specification import Specification

CLIENTS = 50
"""Attacked graphs of a data set."""

COLUMNS = (
    Column("MSE", ("features", "file_order", "mse"), up=False),
    Column("node ACC", ("features", "file_order", "accuracy")),
    Column("AUC", ("edges", "file_order", "auc")),
    Column("AP", ("edges", "file_order", "ap")),
    Column("ACC", ("edges", "file_order", "accuracy_all")),
    Column("node ACC aligned", ("features", "aligned", "accuracy")),
    Column("AUC aligned", ("edges", "aligned", "auc")),
    Column("AP aligned", ("edges", "aligned", "ap")),
    Column("ACC of pairs", ("edges", "file_order", "accuracy")),
)

TITLES = tuple(column.title for column in COLUMNS)

ITERATIONS = (("steps", "100"),)
"""Every baseline that optimises gets so many (section 5.1)."""

METHODS = (
    Attacker("random", "Random", "random"),
    Attacker("dlg", "DLG", "dlg", options=ITERATIONS),
    Attacker("idlg", "iDLG", "idlg", options=ITERATIONS),
    Attacker("invergrad", "InverGrad", "invergrad", options=ITERATIONS),
    Attacker("gi-gan", "GI-GAN", "gi-gan", ("auxiliary",), ITERATIONS),
    Attacker("gra-gfa", "GRA-GFA", "gra-gfa", ("auxiliary",), ITERATIONS),
    Attacker("tableak", "TabLeak", "tableak", options=ITERATIONS),
    Attacker("glg-graph", "Graph Attacker (GLG)", "glg-graph", options=ITERATIONS),
    Attacker("graphdlg", "GraphDLG", "graphdlg", ("auxiliary",)),
    Attacker("graphdlg-no-adapter", "GraphDLG without its adapter", "graphdlg-no-adapter", ("auxiliary",)),
    Attacker("graphdlg-refined", "GraphDLG, refined (ours)", "graphdlg-refined", ("auxiliary",)),
    Attacker("mean-adjacency", "baseline: mean adjacency", "mean-adjacency", ("auxiliary",)),
    Attacker("file-habit", "baseline: habit of files", "file-habit", ("auxiliary",)),
    Attacker("empty", "baseline: no edges, commonest node", "empty", ("auxiliary",)),
)

ALL = tuple(method.name for method in METHODS)
WITHOUT = ("mean-adjacency", "file-habit")
"""No gradient, but public graphs."""

DECODERS = ("graphdlg", "graphdlg-no-adapter", "graphdlg-refined", *WITHOUT)
RIVALS = ("random", "dlg", "idlg", "invergrad", "gi-gan", "gra-gfa", "graphdlg", "graphdlg-refined", *WITHOUT)

MODEL = Specification(
    graphs=CLIENTS,
    hidden=16,
    readout="pooled",
    last_activation=True,
    loss="ce",
    normalise=False,
    know=("n",),
    auxiliary="split:1.0",
    min_nodes=4,
    max_nodes=64,
)
"""Two GCN layers of width 16, ReLU after both, mean pooling, one linear map; one part of a split is the attacker's."""

Numbers = Mapping[str, tuple[float | None, ...]]


def _row(name: str, title: str, source: str, attackers: tuple[str, ...], printed: Numbers, **fields: Any) -> Line:
    named = {
        method: {t: v for t, v in zip(TITLES, values, strict=False) if v is not None}
        for method, values in printed.items()
    }
    experiment = dataclasses.replace(MODEL, **fields)
    return Line(name, title, source, named, experiment, attackers, TITLES)


def _percent(*rows: tuple[str, float | None, float | None, float, float, float | None]) -> Numbers:
    """MSE, node accuracy in percent, AUC, AP and edge accuracy in percent, as printed, in our units."""
    return {
        name: (mse, None if acc is None else acc / 100, auc, ap, None if edge is None else edge / 100)
        for name, mse, acc, auc, ap, edge in rows
    }


TABLE_1 = {
    "mutag": _percent(
        ("random", 0.3366, 13.03, 0.4933, 0.1301, 49.45),
        ("dlg", 1.2265, 18.47, 0.5226, 0.1415, 66.10),
        ("idlg", 1.1063, 19.66, 0.5243, 0.1409, 65.88),
        ("invergrad", 0.9164, 28.04, 0.5183, 0.1417, 51.76),
        ("gi-gan", 0.1053, 51.86, 0.5081, 0.1246, 13.96),
        ("gra-gfa", 0.1082, 71.37, 0.4891, 0.1255, 49.74),
        ("tableak", 0.3914, 21.16, 0.5323, 0.1436, 75.40),
        ("glg-graph", 1.0366, 27.74, 0.5223, 0.1287, 35.32),
        ("graphdlg", 0.0844, 74.35, 0.9042, 0.7556, 93.41),
    ),
    "ptc_mr": _percent(
        ("random", 0.3334, 6.95, 0.4858, 0.1661, 48.75),
        ("dlg", 1.0289, 12.33, 0.5372, 0.1992, 62.63),
        ("idlg", 1.0608, 11.13, 0.5307, 0.1864, 65.41),
        ("invergrad", 0.9154, 16.19, 0.5469, 0.1939, 52.46),
        ("gi-gan", 0.0586, 5.81, 0.4919, 0.1529, 28.05),
        ("gra-gfa", 0.0372, 70.45, 0.4753, 0.1506, 48.64),
        ("tableak", 0.3308, 9.75, 0.5656, 0.2040, 73.32),
        ("glg-graph", 0.9893, 15.15, 0.5495, 0.1779, 38.29),
        ("graphdlg", 0.0329, 72.53, 0.8893, 0.6808, 91.08),
    ),
    "enzymes": _percent(
        ("random", 0.3315, 32.53, 0.5000, 0.1725, 49.91),
        ("dlg", 2.8092, 37.43, 0.5273, 0.1834, 62.56),
        ("idlg", 1.5751, 36.40, 0.5263, 0.1817, 64.53),
        ("invergrad", 1.1449, 40.14, 0.5290, 0.1836, 55.83),
        ("gi-gan", 0.2083, 41.19, 0.4978, 0.1627, 58.98),
        ("gra-gfa", 0.2229, 52.26, 0.4819, 0.1595, 49.32),
        ("tableak", 0.5706, 34.88, 0.5310, 0.1835, 72.30),
        ("glg-graph", 1.3590, 40.64, 0.5251, 0.1734, 37.69),
        ("graphdlg", 0.1772, 60.60, 0.6615, 0.3911, 85.59),
    ),
}

TABLE_4 = {
    ("mutag", "ptc_mr"): ((0.8778, 0.6898), (0.8628, 0.6579)),
    ("mutag", "enzymes"): ((0.8604, 0.6522), (0.8450, 0.6457)),
    ("ptc_mr", "mutag"): ((0.8543, 0.6348), (0.8509, 0.6316)),
    ("ptc_mr", "enzymes"): ((0.8614, 0.6447), (0.8354, 0.6190)),
    ("enzymes", "mutag"): ((0.6278, 0.3499), (0.6275, 0.3490)),
    ("enzymes", "ptc_mr"): ((0.6562, 0.3795), (0.6524, 0.3698)),
}
"""AUC and AP with and without the adapter, by target and auxiliaries."""

TABLE_3 = {
    "random:0.1:normal": (0.5917, 0.1691),
    "random:0.05:normal": (0.6155, 0.1765),
    "random:0.1:uniform": (0.5762, 0.1645),
    "random:0.05:uniform": (0.6080, 0.1862),
}

TABLE_6 = {
    4: _percent(
        ("random", None, 13.82, 0.4917, 0.1423, None),
        ("dlg", None, 14.95, 0.5208, 0.1465, None),
        ("idlg", None, 17.20, 0.5339, 0.1498, None),
        ("invergrad", None, 23.10, 0.5428, 0.1532, None),
        ("gi-gan", None, 45.52, 0.5059, 0.1240, None),
        ("gra-gfa", None, 19.50, 0.4893, 0.1230, None),
        ("graphdlg", None, 61.87, 0.9042, 0.7554, None),
    ),
    8: _percent(
        ("random", None, 13.70, 0.5009, 0.1357, None),
        ("dlg", None, 18.06, 0.5149, 0.1410, None),
        ("idlg", None, 15.13, 0.5394, 0.1466, None),
        ("invergrad", None, 21.66, 0.5367, 0.1504, None),
        ("gi-gan", None, 38.11, 0.5046, 0.1237, None),
        ("gra-gfa", None, 20.89, 0.4970, 0.1250, None),
        ("graphdlg", None, 68.08, 0.9043, 0.7558, None),
    ),
    16: _percent(
        ("random", None, 14.57, 0.5054, 0.1390, None),
        ("dlg", None, 14.33, 0.5243, 0.1440, None),
        ("idlg", None, 14.70, 0.5427, 0.1476, None),
        ("invergrad", None, 22.03, 0.5379, 0.1488, None),
        ("gi-gan", None, 44.88, 0.5085, 0.1251, None),
        ("gra-gfa", None, 17.60, 0.4852, 0.1220, None),
        ("graphdlg", None, 65.10, 0.9042, 0.7557, None),
    ),
}

TABLES_7_8 = (
    (
        "depth-3",
        "3 layers",
        "Table 7",
        _percent(
            ("random", 0.3430, 11.99, 0.4896, 0.1325, 49.51),
            ("dlg", 1.1412, 21.45, 0.5344, 0.1423, 65.06),
            ("idlg", 1.1519, 16.76, 0.5371, 0.1481, 65.67),
            ("invergrad", 1.0014, 22.96, 0.5397, 0.1490, 56.62),
            ("gi-gan", 1.1054, 51.89, 0.5091, 0.1248, 14.03),
            ("gra-gfa", 0.1079, 71.06, 0.4831, 0.1231, 49.19),
            ("graphdlg", 0.0683, 74.34, 0.9032, 0.7562, 93.41),
        ),
        {"layers": 3},
    ),
    (
        "depth-4",
        "4 layers",
        "Table 7",
        _percent(
            ("random", 0.3416, 13.29, 0.4996, 0.1382, 49.89),
            ("dlg", 1.2389, 19.62, 0.5269, 0.1412, 64.89),
            ("idlg", 1.2162, 18.28, 0.5176, 0.1386, 64.62),
            ("invergrad", 1.0559, 22.51, 0.5102, 0.1396, 58.43),
            ("gi-gan", 0.1054, 51.99, 0.5092, 0.1248, 14.06),
            ("gra-gfa", 0.1080, 73.31, 0.4922, 0.1237, 50.36),
            ("graphdlg", 0.0848, 74.33, 0.9022, 0.7556, 93.41),
        ),
        {"layers": 4},
    ),
    (
        "width-64",
        "width 64",
        "Table 8",
        _percent(
            ("random", 0.3316, 14.77, 0.4789, 0.1344, 49.18),
            ("dlg", 1.1304, 20.46, 0.5283, 0.1469, 65.88),
            ("idlg", 1.1228, 20.29, 0.5425, 0.1577, 65.57),
            ("invergrad", 0.9400, 25.09, 0.5492, 0.1615, 54.70),
            ("gi-gan", 0.1053, 50.33, 0.5108, 0.1254, 14.85),
            ("gra-gfa", 0.1078, 71.78, 0.4813, 0.1210, 52.19),
            ("graphdlg", 0.0968, 73.82, 0.9038, 0.7560, 93.41),
        ),
        {"hidden": 64},
    ),
    (
        "width-128",
        "width 128",
        "Table 8",
        _percent(
            ("random", 0.3337, 15.05, 0.4912, 0.1331, 49.67),
            ("dlg", 1.0489, 21.48, 0.5236, 0.1444, 62.88),
            ("idlg", 1.1215, 19.47, 0.5265, 0.1471, 64.97),
            ("invergrad", 0.8657, 25.41, 0.5380, 0.1561, 49.11),
            ("gi-gan", 0.1050, 52.37, 0.5020, 0.1234, 14.42),
            ("gra-gfa", 0.1077, 71.72, 0.4831, 0.1216, 53.38),
            ("graphdlg", 0.0870, 74.34, 0.9041, 0.7557, 93.41),
        ),
        {"hidden": 128},
    ),
)
"""The lines of Tables 7 and 8, among them GI-GAN's features of 1.1054 as printed, ten times those of Table 1."""

LABELS_ALONE = ("enzymes",)
"""Sets whose nodes have attributes too: the paper's features are one-hot types (section 5.1, "features indicating
type"; errors below 1)."""

NAMES = {"mutag": "MUTAG", "ptc_mr": "PTC_MR", "enzymes": "ENZYMES"}

ROWS = (
    *(
        _row(d, NAMES[d], "Table 1", ALL, printed, dataset=d, attributes=d not in LABELS_ALONE)
        for d, printed in TABLE_1.items()
    ),
    *(
        _row(
            f"{target}-from-{source}",
            f"{NAMES[target]}, auxiliaries from {NAMES[source]}",
            "Table 4",
            DECODERS,
            _percent(
                ("graphdlg", None, None, *TABLE_4[target, source][0], None),
                ("graphdlg-no-adapter", None, None, *TABLE_4[target, source][1], None),
            ),
            dataset=target,
            attributes=target not in LABELS_ALONE,
            auxiliary=source,
        )
        for target, source in TABLE_4
    ),
    *(
        _row(
            f"mutag-{auxiliary.replace(':', '-')}",
            f"MUTAG, auxiliaries {auxiliary}",
            "Table 3",
            ("graphdlg", "graphdlg-refined", "mean-adjacency"),
            _percent(("graphdlg", 0.0844, 74.35, *printed, 87.73)),
            dataset="mutag",
            auxiliary=auxiliary,
            max_nodes=28,
        )
        for auxiliary, printed in TABLE_3.items()
    ),
    *(
        _row(
            f"mutag-batch-{batch}",
            f"MUTAG, batches of {batch}",
            "Table 6",
            RIVALS,
            printed,
            dataset="mutag",
            batch_size=batch,
        )
        for batch, printed in TABLE_6.items()
    ),
    *(
        _row(
            f"mutag-{name}",
            f"MUTAG, {title}",
            source,
            RIVALS,
            printed,
            dataset="mutag",
            **fields,
        )
        for name, title, source, printed, fields in TABLES_7_8
    ),
)

ABOUT = """\
*Paper* is what Wei et al. (2026) print, percentages as shares. Columns without *aligned* compare nodes in the order of
the files, as the paper does. An embedding does not show that order; the mean adjacency and the habit of public graphs,
which never look at the gradient, do as well there. Node accuracy is the share of nodes with the right class, MSE is of
the one-hot rows. Edge accuracy is at a threshold of 0.5, of all n² entries of the matrix: so the paper counts (in Table
2 a graph of 14 nodes has multiples of 1/196). Here the diagonal is right for everybody; the paper's baselines get
entries of it wrong, so that GraphDLG's line compares best. *Of pairs* leaves the diagonal out, as all other columns of
edges do (if the paper's AUC has it, ours would be up to .013 higher). The attacker's public graphs are one part of a
Dirichlet split by label, which draws a share of every class: 39 of MUTAG's 175 distinct graphs (37 of them in one of
the two classes), 121 of PTC_MR's 324, 267 of ENZYMES' 580; clients come from the other part. n is known, of a batch
every graph's. In batches every graph is matched with a reconstruction of its
own size by GSM-1. *Habit of files* is what public graphs have at the same places, without a gradient: an attack that is
not clearly above both of these baselines has not shown that the gradient told it anything."""

AGAINST = (
    ("graphdlg", WITHOUT),
    ("graphdlg-refined", ("graphdlg", "gi-gan", *WITHOUT)),
)

GRAPHDLG = Table("GraphDLG, reproduced", ABOUT, ROWS, METHODS, COLUMNS, AGAINST)
