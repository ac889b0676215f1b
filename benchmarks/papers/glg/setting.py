"""What GLG's rows have in common: clients, models, and the guesses beside them."""

from __future__ import annotations

import dataclasses

from jgleak.audit.specification import Specification

CLIENTS = 20
"""Attacked subgraphs of a data set (section 5)."""

BASELINES = ("random", "empty", "mean-adjacency")
"""They never look at the gradient, so that GCN's rows, whose clients are the same, need none of their own."""

DATASETS = {"facebook": "Facebook", "github": "GitHub", "synthetic-glg": "synthetic"}
CONVOLUTIONS = {"sage": "GraphSAGE", "gcn": "GCN"}

GRAPH = Specification(
    graphs=CLIENTS,
    hidden=100,
    activation="sigmoid",
    last_activation=True,
    bias=True,
    loss="ce",
    normalise=False,
    readout="flattened",
    distinct_nodes=False,
)
"""GLG's graph task: all states of the second layer in one vector, one linear map. Features as they are in the files."""

NODE = dataclasses.replace(GRAPH, readout="node_scores", node_task=True)
"""GLG's node task: two layers, the last one's states are the class scores (equation 24)."""

STEPS = ("steps", "500")

PRINTED = (("objective", "cosine"), ("init", "bernoulli"), ("edges", "sampled"))
"""Algorithms 2 and 3: the cosine of whole gradients, a start of normal features and tossed edges, and drawn edges."""

FREE = (("smoothness_weight", "0"), ("frobenius_weight", "0"))
"""Equation 12: no penalties."""
