"""From a specification to the clients: data, task, model, the round's parameters, and what is public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from jgleak.attacks.registry import get_attack
from jgleak.attacks.side_information import together
from jgleak.audit.clients import client_graphs, others, public_graphs
from jgleak.audit.models import composed
from jgleak.audit.specification import Specification
from jgleak.datasets import Dataset
from jgleak.datasets.digest import digest
from jgleak.defenses import Defense, parse
from jgleak.federated import Knowledge, Observation
from jgleak.federated.loss import Loss
from jgleak.federated.train import train, trainable
from jgleak.gnn import GNN, Params, registry
from jgleak.gnn.readout import ReadoutTask
from jgleak.graph import Graph, bucket
from jgleak.names.parts import READOUTS

UNIQUE_NODES = ("citeseer", "facebook", "github", "pokec")
"""Networks in which (almost) no two nodes of a client share all features (GRAIN's uniqueness heuristic)."""

CLIENTS = 1 << 31
"""First stream of the clients' own keys."""


class Setup(NamedTuple):
    """The model and the public data, and the clients' private graphs.

    Attributes:
      dataset: the clients, one graph each.
      model: the attacked model.
      params: its parameters in the round.
      loss: loss of the round.
      training: mean loss of every training epoch; empty for random parameters.
      public: graphs of no client (``Specification.auxiliary``), where the attacker gets some.
      trained_on: graphs of no client, on which the parameters were trained.
      defense: what every client does to its update.
    """

    dataset: Dataset
    model: GNN
    params: Params
    loss: str
    training: tuple[float, ...] = ()
    public: tuple[Graph, ...] = ()
    trained_on: tuple[Graph, ...] = ()
    defense: Defense = Defense()


def prepare(specification: Specification) -> Setup:
    """Load the data, shape the task, and draw the model's parameters.

    The loss is ``mse`` for regression, and ``bce`` otherwise unless the specification says ``ce``; of several tasks at
    once ``masked_mse`` and ``masked_bce``.
    ``node_task`` takes the data set's own node labels where it has them. Otherwise a node's label says whether it lies
    on a cycle (a ring atom, in a molecule), which the client computes from its own graph.

    Raises:
      ValueError: a data set, model or readout that does not exist or does not fit the task.
      KeyError: an unknown attack.
      FileNotFoundError: the data set's files are nowhere.
    """
    get_attack(specification.attack)
    defense = parse(specification.defense)
    if specification.readout not in READOUTS:
        raise ValueError(f"readout: unknown {specification.readout!r}; choose one of {', '.join(READOUTS)}")
    dataset = client_graphs(specification)
    model = _model(specification, dataset)
    params = model.initial(key=stream_key(specification, 0))
    model.whole({}, params)
    loss = _loss(specification, dataset)
    given = "auxiliary" in specification.know
    public = public_graphs(specification, dataset) if given else []
    if given and not public:
        raise ValueError(f"know: every graph of {dataset.name} is a client, so none is public; take fewer (--graphs)")
    graphs, losses = training_graphs(specification, dataset, model), list[float]()
    if specification.train:
        epochs, seed = specification.train, specification.seed
        params, losses = train(model, params, graphs, dataset.space, loss=loss, epochs=epochs, seed=seed)
    return Setup(dataset, model, params, loss, tuple(losses), tuple(public), tuple(graphs), defense)


def training_graphs(specification: Specification, dataset: Dataset, model: GNN) -> list[Graph]:
    """Public graphs to train the model on; none where its parameters stay random.

    Raises:
      ValueError: there are too few.
    """
    return trainable(model, others(specification, dataset)) if specification.train else []


def data_digest(setup: Setup) -> str:
    """A digest of what results depend on besides the specification: all graphs, and the feature space."""
    return digest(setup.dataset.space, setup.dataset.graphs, setup.public, setup.trained_on)


def knowledge_of(
    specification: Specification, setup: Setup, truths: Sequence[Graph], observation: Observation
) -> Knowledge:
    """The attacker's knowledge of one client by the specification. Labels are sorted, so that they reveal no order of
    nodes, except where the order is known anyway: by known edges or features, by the target node's gradient, or by one
    gradient for each node. For several graphs all sizes are given, the largest first, each with its graph's label where
    both are known; or all edges and features, in the batch's order, which they show. The defence is public, and so is
    the deviation of its noise.
    """
    know, by_node = set(specification.know), setup.model.node_level
    shown = know & {"adjacency", "features"}
    sized = bool(shown) or "n" in know
    ordered = shown or (by_node and observation.protocol in ("target_node", "node_losses"))
    if not ordered:
        truths = sorted(truths, key=lambda g: (-g.n if sized else 0, () if by_node else _in_order(g)))
    alone = len(truths) == 1 or observation.protocol != "target_node"
    each = [np.atleast_1d(np.asarray(g.y)) for g in truths]  # of several target nodes theirs alone
    labels = np.concatenate(each if alone else [one[:1] for one in each]) if "labels" in know else None
    if labels is not None and by_node and not ordered:
        labels = np.sort(labels)
    return Knowledge(
        space=setup.dataset.space,
        n=max(g.n for g in truths) if sized else None,
        sizes=tuple(g.n for g in truths) if sized and len(truths) > 1 else (),
        adjacency=together([g.adjacency for g in truths]) if "adjacency" in know else None,
        features=together([g.x for g in truths], truths[0].x.dtype) if "features" in know else None,
        labels=labels,
        max_n=specification.max_n,
        auxiliary=setup.public if "auxiliary" in know else (),
        prior=specification.prior,
        noise=setup.defense.deviation(observation.update),
        distinct_nodes=specification.distinct_nodes and specification.dataset.lower() in UNIQUE_NODES,
    )


def _in_order(graph: Graph) -> tuple[float, ...]:
    """A graph's label, or those of its tasks (missing ones first), to sort by."""
    return tuple(np.nan_to_num(np.ravel(np.asarray(graph.y, np.float64)), nan=-np.inf).tolist())


def stream_key(specification: Specification, stream: int) -> Array:
    """A separate key for the parameters (stream 0), for the attack on every client (1, 2, ...), and for the clients'
    own random numbers (from ``CLIENTS`` on)."""
    return jax.random.fold_in(jax.random.key(specification.seed), stream)


def _loss(specification: Specification, dataset: Dataset) -> str:
    regression = dataset.task == "regression"
    if dataset.tasks:
        fitting = ("masked_mse", "masked_mae") if regression else ("masked_bce",)
    else:
        fitting = ("mse",) if regression else ("bce", "ce")
    if specification.loss is None:
        return fitting[0]
    if Loss.of(specification.loss).name not in fitting:
        raise ValueError(
            f"loss: {specification.loss!r} does not fit {dataset.name}, whose task is {dataset.task}"
            f"{f' of {len(dataset.tasks)} columns' if dataset.tasks else ''}; choose one of {', '.join(fitting)}"
        )
    return str(Loss.of(specification.loss))


def _model(specification: Specification, dataset: Dataset) -> GNN:
    name, by_node = specification.readout, dataset.task == "node"
    readout = registry.READOUTS[name]
    if by_node and "node" not in readout.labels:
        fitting = " or ".join(kind for kind in READOUTS if "node" in registry.READOUTS[kind].labels)
        raise ValueError(f"readout: {name!r} labels graphs and this task labels nodes; take {fitting}")
    if not by_node and "graph" not in readout.labels:
        raise ValueError(f"readout: {name!r} labels nodes and this task labels graphs; add --node-task")
    slots = bucket(max(g.n for g in dataset.graphs))
    shape = dataset.classes, by_node, specification.activation, specification.pooling, slots
    task = ReadoutTask(*shape, dropout=specification.dropout, head=specification.head)
    return composed(specification, dataset.space, readout.for_task(task))
