"""How many dimensions the rows of a graph span, by the gradient of the weights that they enter."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.leak_points import SINGULAR, leak_points
from jgleak.attacks.span.levels import input_site, input_subspace
from jgleak.plural import counted

ROUNDING = 1e-6
"""Singular values of encoded rows (``scaled``) below this share of the largest are rounding: rows are in float32, and a
column of numbers is not rounded alike at every node."""


def shown_rank(problem: CensusProblem, nodes: Nodes) -> int:
    """A lower bound on the dimensions that the graph's rows span: the columns of the input's gradient lie in their
    span. The smaller of two numbers is taken, since false rows that pass, or rounding, can make one of them too large.
    """
    return min(_rank_of_gradient(problem) + nodes.hidden, _rank_of_rows(nodes))


def all_shown(problem: CensusProblem, nodes: Nodes) -> bool:
    """True where the nodes' rows span as many dimensions as the input's gradient. Some graph's rows span these, so
    every node whose row the others' do not span is in it, under the condition of the check that ``nodes`` passed: that
    all of the graph's rows pass."""
    return 0 < _rank_of_rows(nodes) == _rank_of_gradient(problem)


def spanning(problem: CensusProblem, nodes: Nodes) -> bool:
    """False where these nodes cannot be all: their rows span less than the input's gradient."""
    return _rank_of_rows(nodes) >= _rank_of_gradient(problem)


def unspanned(problem: CensusProblem, nodes: Nodes) -> str | None:
    """A sentence about dimensions of the input's gradient that the rows of ``nodes``, those that pass, do not span;
    None where there is none, or under noise, which hides rows too."""
    shown, found = _rank_of_gradient(problem), _rank_of_rows(nodes)
    if problem.knowledge.noise is not None or found >= shown:
        return None
    site, model = input_site(problem.seen, problem.knowledge, problem.tolerances.span), problem.seen.model
    place = "the readout" if site.name == "readout" else "the encoder" if model.encoder.taps else "convolution 1"
    said = (
        f"the gradient of {place} has {counted(shown, 'dimension')}, and the feature vectors that pass its check span "
        f"{found} of them"
    )
    causes = ["the features are not as the model was shown them (--features: other values, raw or normalised)"]
    if not nodes.complete:
        causes.insert(0, "the search for them did not end (--time-limit, --option word_faces=100000)")
    if SINGULAR in site.condition:
        causes.append(
            "rows of the other nodes are in it as sums alone, as under a singular adjacency (the normalised one has no "
            "inverse, as where two nodes have the same neighbours, each counted among its own): what is needed is the "
            "features, or a model whose weights see a node's own row (GraphSAGE, a residual, a readout of [x | h])"
        )
    return f"{said}: {'; or '.join(causes)}"


def _rank_of_rows(nodes: Nodes) -> int:
    if not nodes.degrees.size:
        return 0
    return int(np.linalg.matrix_rank(scaled(nodes.rows), rtol=ROUNDING))


def scaled(rows: Float[np.ndarray, "T m"]) -> Float[np.ndarray, "T m"]:
    """The rows in float64, every column in units of its largest entry: a column of large numbers hides no other."""
    wide = np.asarray(rows, np.float64)
    largest = np.abs(wide).max(axis=0, initial=0.0)
    return wide / np.where(largest > 0, largest, 1.0)


def _rank_of_gradient(problem: CensusProblem) -> int:
    """The rank of the input's gradient; 0 where it carries no information."""
    if problem.knowledge.features is not None or problem.seen.pruned:  # rows of a pruned gradient are no combinations
        return 0
    if not leak_points(problem.seen, 0):  # a graph of a batch, whose own first gradient is unknown
        return 0
    return input_subspace(problem.seen, problem.knowledge, problem.tolerances.span).rank
