"""From the gradients of a model to edges and features: its layers one after the other, the last one first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jgleak.attacks.closed_form.activations import slope_of
from jgleak.attacks.closed_form.gcn_inversion import inverted
from jgleak.attacks.closed_form.labels import last_bias
from jgleak.attacks.closed_form.layers import LayerGradient, below, edges_of, mixing_of, rows_of
from jgleak.attacks.closed_form.propositions import ConditionFailed, adjacency_of_gradient, aggregated_row
from jgleak.attacks.closed_form.tolerances import TOLERANCES, ClosedFormSettings, ClosedFormTolerances
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation


class Peeled(NamedTuple):
    """What peeling left, and why it ended.

    Attributes:
      adjacency: zeros and ones ``(n, n)``, or None.
      features: encoded ``(n, m)``, or None.
      edges: ``exact``, ``known`` or ``failed: ..``.
      rows: the same of the features, or ``partial: ..``.
    """

    adjacency: Float[np.ndarray, "n n"] | None
    features: Float[np.ndarray, "n m"] | None
    edges: str
    rows: str


def peel(observation: Observation, knowledge: Knowledge, settings: ClosedFormSettings) -> Peeled:
    """Adjacency and encoded features, each from what is known or from the layers, the last one first.

    Raises:
      ValueError: the gradients cannot be of as many nodes as the known edges or features.
    """
    model, space, tolerances = observation.model, knowledge.space, settings.tolerances
    features = None if knowledge.features is None else np.asarray(space.encode(knowledge.features), np.float64)
    adjacency = None if knowledge.adjacency is None else np.asarray(knowledge.adjacency, np.float64)
    edges, rows = ("" if known is None else "known" for known in (adjacency, features))
    conv = model.layers[0].conv
    mixing = None if adjacency is None else mixing_of(conv, adjacency)
    try:
        known = next((len(part) for part in (adjacency, features) if part is not None), None)
        upstream = output_gradients(observation, known, tolerances)
        if conv.own_kernel is None and not (edges and rows):
            if mixing is None:
                raise ConditionFailed("these gradients show the states only after they are mixed; give the edges")
            features, rows = _unmixed(observation, upstream, mixing, settings)
        for depth in reversed(range(model.depth)):
            if edges and rows:
                break
            layer = LayerGradient.of(observation, depth, tolerances)
            states = rows_of(layer, upstream, mixing)
            if depth == 0 and not rows:
                features, rows = states, "exact"
            if mixing is None:
                adjacency, edges = edges_of(layer, upstream, states), "exact"
                mixing = mixing_of(conv, adjacency)
                states = rows_of(layer, upstream, mixing)  # from both kernels
            if depth > 0:
                upstream = below(layer, upstream, mixing, slope_of(model.layers[depth - 1].act, states, tolerances))
            elif rows != "known":
                features, rows = states, "exact"
    except ConditionFailed as error:
        edges, rows = edges or f"failed: {error}", rows or f"failed: {error}"
    if edges.startswith("failed") and rows == "known":
        adjacency, edges = _edges_from_features(observation, features, edges, tolerances)
    return Peeled(adjacency, features, edges, rows)


def output_gradients(
    observation: Observation, known: int | None = None, tolerances: ClosedFormTolerances = TOLERANCES
) -> Float[np.ndarray, "B n D"]:
    """``dL/dZ`` at the last convolution, in each gradient, of ``known`` nodes or as many as show.

    Under ``node_scores`` the gradient of the last bias is the one row that each node's loss has. Under ``flattened``
    the readout's gradient is an outer product of its bias's and of all states (Proposition 1), whose zero rows are
    padding; with ``last_act`` the states tell the slope.

    Raises:
      ConditionFailed: the output's gradient is zero, or no outer product.
      ValueError: they cannot be of ``known`` nodes.
    """
    model, bias = observation.model, last_bias(observation.model, observation.update)
    if model.readout.passes_states:
        n = _count(known, len(bias), len(bias))
        upstream = np.zeros((n, *bias.shape))
        upstream[range(n), range(n)] = bias
        return upstream
    readout, slots = model.readout, model.readout.slots or 0
    span = readout.head_span(model.readout_of(observation.update))
    states = aggregated_row(span, bias, one_row=tolerances.one_row).reshape(slots, -1)
    sizes = np.linalg.norm(states, axis=1)
    live = np.flatnonzero(sizes > tolerances.rank * sizes.max())  # the last nodes may be as dead as padding is
    if not live.size:
        raise ConditionFailed("all states that enter the readout are zero, so that no node shows")
    n = _count(known, int(live[-1]) + 1, slots)
    weight = np.asarray(readout.first(model.readout_of(observation.params))["kernel"], np.float64)
    upstream = (weight @ bias).reshape(states.shape)[:n]
    return (upstream * slope_of(model.layers[-1].act, states[:n], tolerances))[None]


def _count(known: int | None, shown: int, most: int) -> int:
    """Nodes of the graph; the last of them may be dead and not show."""
    if known is not None and not shown <= known <= most:
        raise ValueError(f"knowledge: it has {known} nodes, the gradients come from {shown}")
    return shown if known is None else known


def _unmixed(
    observation: Observation,
    upstream: Float[np.ndarray, "B n D"],
    mixing: Float[np.ndarray, "n n"],
    settings: ClosedFormSettings,
) -> tuple[Float[np.ndarray, "n m"], str]:
    """A GCN's features, and which of them are the prior's rather than the gradient's.

    Raises:
      ConditionFailed: too few directions of the gradient reach the layers, and what fits these does not fit the whole.
    """
    model, tolerances = observation.model, settings.tolerances
    layers = [LayerGradient.of(observation, depth, tolerances) for depth in range(model.depth)]
    found = inverted(layers, upstream, mixing, model.layers[0].act, settings)
    passed = int(np.sum(np.abs(np.linalg.eigvalsh(mixing)) > tolerances.faint))
    few = f"the gradients have rank {found.rank}, and the edges pass {passed} directions of {len(mixing)} nodes on"
    if found.misfit > tolerances.fit:
        if found.rank < passed:
            raise ConditionFailed(few)
        why = f"its gradients are {found.misfit:.1e} from the observed; was the update changed?"
        return found.features, f"partial: {why}"
    unsure = int(np.sum(found.doubt > tolerances.fit))
    if not unsure:
        return found.features, "exact"
    if found.rank < passed:
        why = few
    elif passed < len(mixing):
        why = f"{unsure} of {len(mixing)} nodes show only in sums, the normalised adjacency being singular or nearly so"
    else:
        why = f"rounding or noise hides some of {unsure} of {len(mixing)} nodes"
    return found.features, f"partial: {why}; expected RNMSE {found.doubt.mean():.1e}"


def _edges_from_features(
    observation: Observation,
    features: Float[np.ndarray, "n m"] | None,
    reason: str,
    tolerances: ClosedFormTolerances,
) -> tuple[Float[np.ndarray, "n n"] | None, str]:
    """Proposition 6, where the layers above are in the way of the edges and the features are known."""
    model = observation.model
    name = model.layers[0].conv.own_kernel
    if name is None or features is None:
        return None, reason
    first = LayerGradient.of(observation, 0, tolerances)
    kernels = first.gradients[name], first.mixed(first.gradients)
    own, others = (np.asarray(kernel, np.float64).sum(axis=0) for kernel in kernels)
    try:
        mixing = adjacency_of_gradient(features, own, others, rank=tolerances.rank)
    except ConditionFailed as error:
        return None, f"{reason}; {error}"
    share = mixing / np.maximum(mixing.max(axis=1, keepdims=True), tolerances.rank)
    edges = ((share + share.T) / 2 > 0.5) & ~np.eye(len(share), dtype=bool)
    return edges.astype(np.float64), "exact"
