"""How many graphs are behind one gradient at least: the rank of what came back for the first map after pooling."""

from __future__ import annotations

import numpy as np

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import BATCH, CLIPPING, NOISE, ONE, Fact, Silent
from jgleak.gnn import Flattened, Pooled


def graphs(evidence: Evidence) -> Fact:
    """A number of graphs that there are at least.

    One row ``p_g`` a graph enters the first map after pooling, whose gradient (with that of its bias) is
    ``sum_g (p_g, 1) d_g^T``: its rank is at most the number of graphs.

    Raises:
      Silent: no row a graph, no single gradient, or rank 1, which says nothing.
    """
    rank = head_rank(evidence)
    if rank < 2:
        raise Silent(
            "the first map after pooling has a gradient of rank 1: one graph, or several that cannot be told apart"
        )
    if not evidence.one_gradient:
        raise Silent("weights moved between local steps, and the head's gradient has a rank for each")
    under = (ONE, BATCH, CLIPPING) if evidence.noise is None else (ONE, BATCH, CLIPPING, NOISE)
    told = Fact("graphs", rank, under, f"at least {rank} graphs are behind the update")
    return told if rank <= evidence.observation.batch_size else told.provided("the update is one gradient")


def head_rank(evidence: Evidence) -> int:
    """The rank that the gradient of the first map after pooling certainly has.

    Raises:
      Silent: there is no such map, or something changed its gradient.
    """
    observation = evidence.observation
    readout = observation.model.readout
    if not isinstance(readout, Pooled | Flattened):
        raise Silent("no single row a graph enters a linear map")
    if observation.pruned:
        raise Silent("entries of the update were left out, so that its rank is not the gradient's")
    if evidence.noise is None and (evidence.linear is not True or evidence.decay is None):
        raise Silent("the first kernels do not show that the update is a plain gradient")
    update, weights = (
        np.vstack([np.asarray(part["kernel"], np.float64), np.asarray(part["bias"], np.float64)[None]])
        for part in (
            readout.first(observation.model.readout_of(tree)) for tree in (observation.update, observation.params)
        )
    )
    if evidence.noise is None and evidence.decay:
        update = update - evidence.decay * weights
    rank = evidence.rank_at_least(update, evidence.error(update, weights))
    if rank >= min(np.any(update, axis=1).sum(), np.any(update, axis=0).sum()) and rank > 1:
        raise Silent("the head's gradient has as many dimensions as it can have, which noise would do as well")
    return rank
