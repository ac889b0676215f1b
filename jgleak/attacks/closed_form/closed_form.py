"""The closed-form attack: a GCN or GraphSAGE peeled from its output to its input by linear algebra (after GLG)."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Num

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.closed_form.activations import VALUES
from jgleak.attacks.closed_form.labels import class_slopes, infer_label, infer_node_labels, infer_tasks
from jgleak.attacks.closed_form.peel import Peeled, peel
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.closed_form.tolerances import SETTINGS, ClosedFormSettings
from jgleak.attacks.distance import MATCH
from jgleak.attacks.options import with_options
from jgleak.attacks.side_information import graph_labels
from jgleak.features import FeatureSpace
from jgleak.federated.client import fedsgd, node_gradients
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation, flatten
from jgleak.gnn import CONVOLUTIONS
from jgleak.graph import Graph


def run(
    settings: ClosedFormSettings, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget
) -> Reconstruction:
    """Peel the model as far as the conditions hold (see ``layers``). Deterministic.

    GraphSAGE gives edges and features with nothing known; GCN gives the features of known edges. Where only one of both
    shows, the graph has no edges, or the public mean decoded at every node.

    Differs from GLG: its closed forms end at the first layer of a model that has one, or take the features for given
    (Proposition 6), and its experiments minimise; here every layer is peeled, hidden states take the place of features.

    Returns:
      The graph. ``info`` says of ``adjacency`` and ``features`` whether they are ``exact``, ``known``, ``partial: ..``
      or ``failed: reason``; ``features`` holds the encoded rows before rounding.
    """
    del key
    clock = budget.start()
    found = peel(observation, knowledge, settings)
    info = {"adjacency": found.edges, "features": found.rows}
    if "exact" not in info.values() and any(note.startswith("failed") for note in info.values()):
        return Reconstruction((), None, "no candidates", info=info | {"seconds": clock.elapsed})
    graph = _graph(observation, knowledge, found)
    distance = _distance(observation, knowledge.space, graph)
    if distance >= MATCH and set(info.values()) <= {"exact", "known"}:
        worst = "features" if found.rows == "exact" else "adjacency"
        info[worst] = f"partial: rounding errors grew, the gradient of what was found is {distance:.1e} away"
    return Reconstruction(
        (graph,),
        distance,
        "match" if distance < MATCH else "done",
        adjacency=found.adjacency,
        features=found.features,
        info=info | {"seconds": clock.elapsed},
    )


def unsupported(observation: Observation, knowledge: Knowledge) -> str | None:
    """Why the model cannot be peeled, or None."""
    model = observation.model
    foreign = [layer.conv.kind for layer in model.layers if not layer.conv.peels]
    if foreign:
        linear = (kind for kind, conv in CONVOLUTIONS.items() if conv.peels)
        return f"the mixing of {foreign[0]!r} is not linear; use one of {', '.join(linear)}"
    if not model.plain:
        return "it peels convolutions and activations alone; leave out encoder, norms, residuals and jumping knowledge"
    if not model.uniform:
        return "its layers mix nodes in different ways, which are not peeled together; use one convolution throughout"
    nodes = model.readout.passes_states and observation.protocol == "node_losses"
    if not nodes and not (model.readout.slots and observation.protocol in ("fedsgd", "fedavg")):
        return (
            "it needs the gradient at the last layer's output: protocol 'node_losses' with readout 'node_scores', or "
            f"'fedsgd' with 'flattened'; this is {observation.protocol!r} with {model.readout.kind!r}"
        )
    if model.readout.passes_states and not model.layers[-1].conv.bias:
        return "the gradient at the last layer's output is read off its bias; give the convolutions one (bias=True)"
    acts = [layer.act for layer in model.layers if layer.act not in VALUES]
    if acts:
        return f"the slope of {acts[0]!r} does not follow from its value; use one of {', '.join(VALUES)}"
    if len({layer.act for layer in model.layers[:-1]}) > 1:
        return "the activations between its layers differ; use one throughout"
    if observation.pruned:
        return "entries of the update were left out, and linear algebra needs them all; gradient matching does not"
    if Loss.of(observation.loss).regression and knowledge.labels is None:
        return "a regression's targets do not show in signs; give the labels (--know labels)"
    return None


def entry(settings: ClosedFormSettings) -> Attack:
    """The registry entry with its settings."""
    return Attack(
        name="closed-form",
        run=partial(run, settings),
        unsupported=unsupported,
        protocols=("node_losses", "fedsgd", "fedavg"),
        with_options=lambda options: entry(with_options(settings, options)),
    )


CLOSED_FORM = entry(SETTINGS)


def _graph(observation: Observation, knowledge: Knowledge, found: Peeled) -> Graph:
    n = next(len(part) for part in (found.adjacency, found.features) if part is not None)
    x = knowledge.features
    if x is None:
        x = knowledge.space.decode(np.zeros((n, knowledge.space.width)) if found.features is None else found.features)
    edges = np.zeros((0, 2), np.int64) if found.adjacency is None else np.argwhere(np.triu(found.adjacency, 1) > 0.5)
    return Graph(x, edges, _labels(observation, knowledge))


def _labels(observation: Observation, knowledge: Knowledge) -> Num[np.ndarray, "..."] | int | float:
    """Known labels, or those the signs tell, or the likeliest where noise may have changed the signs."""
    model = observation.model
    if knowledge.labels is not None:
        return np.asarray(knowledge.labels) if model.node_level else graph_labels(observation, knowledge.labels)[0]
    if Loss.of(observation.loss).masked:
        return infer_tasks(observation)[None]
    try:
        return infer_node_labels(observation) if model.node_level else infer_label(observation)
    except ConditionFailed:
        likeliest = class_slopes(observation).argmin(axis=-1)
        return likeliest if model.node_level else int(likeliest)


def _distance(observation: Observation, space: FeatureSpace, graph: Graph) -> float:
    """Relative distance of the graph's own update, by the client's protocol, from the observed one."""
    model, params, loss = observation.model, observation.params, observation.loss
    if observation.gradients is None:
        again = fedsgd(model, params, [graph], space, loss=loss)
    else:
        again = node_gradients(model, params, graph, space, loss=loss)
    seen, own = flatten(observation.update), flatten(jax.tree.map(np.asarray, again.update))
    if observation.scaled:  # clipped: the length says nothing
        along, size = (sum(float(np.vdot(own[name], part[name])) for name in seen) for part in (seen, own))
        own = {name: max(along, 0.0) / max(size, 1e-30) * leaf for name, leaf in own.items()}
    gap = sum(np.sum(np.square(own[name] - seen[name], dtype=np.float64)) for name in seen)
    return float(np.sqrt(gap / sum(np.sum(np.square(leaf, dtype=np.float64)) for leaf in seen.values())))
