"""How well scores rank pairs that are edges above the others.

scikit-learn has both measures; importing it takes a second in every process, a tenth of a short audit. The tests
compare with it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def roc_auc(edges: Float[np.ndarray, " E"], others: Float[np.ndarray, " O"]) -> float:
    """Area under the ROC curve: how often an edge's score is above another pair's, ties counted half. NaN where there
    is no edge or no other pair."""
    if not edges.size or not others.size:
        return np.nan
    above = others.size - _at_least(others, edges)
    tied_or_above = _at_least(-others, -edges)
    return float(np.mean(above + tied_or_above) / (2 * others.size))


def average_precision(edges: Float[np.ndarray, " E"], others: Float[np.ndarray, " O"]) -> float:
    """Mean over the edges of the precision at their own score as the threshold; NaN where there is no edge."""
    if not edges.size:
        return np.nan
    found = _at_least(edges, edges)
    return float(np.mean(found / (found + _at_least(others, edges))))


def _at_least(scores: Float[np.ndarray, " S"], thresholds: Float[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
    """How many scores reach each threshold."""
    return scores.size - np.searchsorted(np.sort(scores), thresholds, side="left")
