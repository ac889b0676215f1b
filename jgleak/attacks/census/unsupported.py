"""Which updates the census cannot read, and why."""

from __future__ import annotations

from jgleak.attacks.census.batches.batch import batch_unsupported
from jgleak.attacks.census.prior import resolved
from jgleak.attacks.span.leak_points import leak_points
from jgleak.attacks.span.levels import KNOWN_EDGES, unlisted
from jgleak.attacks.span.settings import LIMITS, SpanLimits
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation


def unsupported(observation: Observation, knowledge: Knowledge, *, limits: SpanLimits = LIMITS) -> str | None:
    """Why the census cannot run here, or None."""
    model = observation.model
    if (reason := unlisted(knowledge, limits)) is not None:
        return reason
    mixing = [n.kind for n in model.norms.values() if n.of_nodes == "all" and not n.returns_statistics]
    if mixing:
        return (
            f"the norm {mixing[0]!r} depends on all nodes, so a neighbourhood alone does not determine a node's state"
        )
    if model.returns_statistics and (knowledge.noise is not None or observation.pruned):
        return "in training mode it takes sums over nodes from the norms' gradients, which noise and pruning change"
    if model.returns_statistics and observation.statistics is None:
        return "no running statistics were returned, and without the batch's statistics no node's state is known"
    if model.frozen and model.returns_statistics:
        return "in training mode it needs the gradients of all norms and of the maps before them; train all parts"
    shows_upstream = model.readout.first_map if model.readout.additive == "pooled" else model.readout.last_map
    if model.readout.additive is not None and not model.trains("readout", *shows_upstream):
        return (
            f"it takes the gradient at the sum over nodes from the readout, where {', '.join(model.frozen)} is frozen; "
            "use gradient matching (such as dlg)"
        )
    if model.frozen and not leak_points(observation, 0):
        return (
            f"the weights that take the nodes' own rows are frozen ({', '.join(model.frozen)}), so that feature values "
            "cannot be checked; use gradient matching (such as dlg)"
        )
    if not leak_points(observation, 0):
        if model.returns_statistics:
            return (
                "batch normalisation in training mode after the first layer hides a direction of the input rows, and "
                "the returned statistics do not show it where the map is nearly singular or narrower than these rows"
            )
        return (
            "no linear map takes the nodes' own rows (GINE adds them up behind an activation), so that feature values "
            "cannot be checked; it needs an encoder, or a readout that sees the input"
        )
    if observation.batch_size > 1 and (reason := batch_unsupported(observation, knowledge)) is not None:
        return reason
    if knowledge.adjacency is not None:
        return KNOWN_EDGES
    if model.readout.additive is None:
        return "it needs a readout that adds up over nodes: 'node_mlp', or 'pooled' with mean, sum or both, without max"
    try:
        resolved(knowledge.prior, knowledge.space)
    except ValueError as error:
        return str(error)
    if model.node_level and observation.scaled:
        return "the update was clipped, and node labels show only in its length; use a graph task, or no clipping"
    if not knowledge.connected:
        return "it assembles connected graphs only; keep connected=True"
    if model.node_level and Loss.of(observation.loss).regression:
        return "node regression has no finite set of labels; use a classification task"
    return None
