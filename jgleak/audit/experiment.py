"""From a specification to results: honest clients compute gradients, an attack inverts each, metrics compare."""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import networkx as nx
import numpy as np
from jaxtyping import Array, Int

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.registry import get_attack
from jgleak.audit.compilations import compilations
from jgleak.audit.specification import Specification
from jgleak.datasets import Dataset, load, tasks
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.federated.train import train
from jgleak.gnn import GNN, Params
from jgleak.graph import Graph, bucket
from jgleak.metrics import Score, score, truth_in_set

UNIQUE_NODES = ("citeseer", "facebook", "github", "pokec")
"""Networks in which (almost) no two nodes of a client share all features (GRAIN's uniqueness heuristic)."""

READOUTS = ("node_mlp", "pooled", "flattened", "node_scores")
"""Readouts for classifying graphs or nodes; ``dot`` predicts ratings and needs a recommender's client."""

PUBLIC = 1000
"""Most graphs that a model is trained on, or that an attacker is given."""

REAL_TOLERANCE = 1e-3
"""Real-valued features this close count as recovered exactly."""


class Setup(NamedTuple):
    """What the clients and the server share, and the clients' private graphs.

    Attributes:
      dataset: the clients, one graph each.
      model: the attacked model.
      params: its parameters in the round.
      loss: of the round.
      training: mean loss of every epoch that led to the parameters; empty for random ones.
      public: graphs of the same data set that are no client's; only where the attacker is given some.
    """

    dataset: Dataset
    model: GNN
    params: Params
    loss: str
    training: tuple[float, ...] = ()
    public: tuple[Graph, ...] = ()


@dataclasses.dataclass(frozen=True)
class Result:
    """One client attacked.

    Attributes:
      index: position of the client in the data set.
      truth: its private graph.
      observation: what the server saw.
      reconstruction: what the attack made of it.
      score: the best reconstruction beside the truth.
      truth_in_set: the truth is among the listed reconstructions.
      seconds: wall-clock time of the attack; of clients attacked side by side, each one's share.
      compilations: functions that XLA compiled during the attack; of clients side by side, the first has them all.
      failure: the traceback, when the attack broke down on this client; the reconstruction is empty then.
    """

    index: int
    truth: Graph
    observation: Observation
    reconstruction: Reconstruction
    score: Score
    truth_in_set: bool
    seconds: float
    compilations: int
    failure: str | None = None


def prepare(specification: Specification) -> Setup:
    """Load the data, shape the task, and draw the model's parameters; the loss is ``mse`` for regression, else ``bce``.

    ``node_task`` takes the data set's own node labels where it has them. Otherwise a node's label says whether it lies
    on a cycle (a ring atom, in a molecule), which the client computes from its own graph.

    Raises:
      ValueError: a data set, model or readout that does not exist or does not fit the task.
      KeyError: an unknown attack.
      FileNotFoundError: the data set's files are nowhere.
    """
    get_attack(specification.attack)
    if specification.readout not in READOUTS:
        raise ValueError(f"readout: unknown {specification.readout!r}; choose one of {', '.join(READOUTS)}")
    dataset = _shaped(specification, _load(specification))
    model = _model(specification, dataset)
    params = model.initial(key=_key(specification, 0))
    loss = "mse" if dataset.task == "regression" else "bce"
    given = "auxiliary" in specification.know
    public = _public(specification, dataset) if given or specification.train else []
    if given and not public:
        raise ValueError(f"know: every graph of {dataset.name} is a client, so none is public; take fewer (--graphs)")
    losses: Sequence[float] = ()
    if specification.train:
        params, losses = train(
            model, params, public, dataset.space, loss=loss, epochs=specification.train, seed=specification.seed
        )
    return Setup(dataset, model, params, loss, tuple(losses), tuple(public) if given else ())


def run(specification: Specification, setup: Setup | None = None) -> Iterator[Result]:
    """Attack the clients, yielding each result as it is finished (one by one, or many side by side).

    An exception inside an attack ends that client only: its result has an empty reconstruction, ``stop`` is
    ``"error"`` and ``failure`` holds the traceback.

    Args:
      specification: the experiment.
      setup: what ``prepare`` returned for it; made here when left out.

    Raises:
      ValueError: the attack cannot work with this model, task or knowledge.
    """
    setup = setup or prepare(specification)
    attack = get_attack(specification.attack)
    if specification.options:
        attack = attack.configure(dict(specification.options))
    size = specification.together if attack.many is not None else 1
    for start in range(0, len(setup.dataset.graphs), size):
        clients = [_client(specification, setup, attack, i) for i in range(len(setup.dataset.graphs))[start:][:size]]
        yield from _attacked(specification, attack, clients)


class _Client(NamedTuple):
    index: int
    truth: Graph
    observation: Observation
    knowledge: Knowledge


def _client(specification: Specification, setup: Setup, attack: Attack, index: int) -> _Client:
    dataset, model, params, loss, _, public = setup
    truth = dataset.graphs[index]
    slots = model.slots if model.readout == "flattened" else None
    observation = fedsgd(model, params, [truth], dataset.space, loss=loss, slots=slots)
    knowledge = _knowledge(specification, dataset, public, truth)
    reason = attack.refusal(observation, knowledge)
    if reason is not None:
        raise ValueError(f"attack {attack.name!r} cannot run here: {reason}")
    return _Client(index, truth, observation, knowledge)


def _attacked(specification: Specification, attack: Attack, clients: Sequence[_Client]) -> Iterator[Result]:
    """Attack clients side by side; where that breaks down, each on its own, so that one client spoils no other's."""
    failure, compiled, begun = None, compilations(), time.monotonic()
    try:
        found = attack.on_many(
            [client.observation for client in clients],
            [client.knowledge for client in clients],
            keys=[_key(specification, client.index + 1) for client in clients],
            budget=Budget(seconds=specification.time_limit),
        )
    except Exception:  # any defect of an attack: hours of finished clients and those to come must not go with it
        if len(clients) > 1:
            for client in clients:
                yield from _attacked(specification, attack, [client])
            return
        failure = traceback.format_exc()
        found = [Reconstruction((), None, "error")]
    seconds = (time.monotonic() - begun) / len(clients)
    compiled = compilations() - compiled
    for client, reconstruction in zip(clients, found, strict=True):
        first = client is clients[0]
        yield _result(client, reconstruction, seconds, compiled if first else 0, failure)


def _result(
    client: _Client, reconstruction: Reconstruction, seconds: float, compiled: int, failure: str | None
) -> Result:
    index, truth, observation, knowledge = client
    tolerance = 0.0 if knowledge.space.discrete else REAL_TOLERANCE
    quality = score(truth, reconstruction.best, knowledge.space, tolerance=tolerance)
    listed = truth_in_set(truth, reconstruction.graphs, tolerance=tolerance)
    return Result(index, truth, observation, reconstruction, quality, listed, seconds, compiled, failure)


def _key(specification: Specification, stream: int) -> Array:
    return jax.random.fold_in(jax.random.key(specification.seed), stream)


def _load(specification: Specification) -> Dataset:
    task = specification.task
    if specification.node_task and task is None and "node" in tasks(specification.dataset):
        task = "node"
    return load(
        specification.dataset,
        task=task,
        path=specification.path,
        graphs=specification.graphs,
        min_nodes=specification.min_nodes,
        max_nodes=specification.max_nodes,
        seed=specification.seed,
    )


def _public(specification: Specification, dataset: Dataset) -> list[Graph]:
    """Other graphs of the same data set: another sample, or all of a small set, without the clients' graphs."""
    other = dataclasses.replace(specification, graphs=PUBLIC, seed=(specification.seed + 1) % 2**32)
    try:
        loaded = _load(other)
    except ValueError:  # fewer than that; whatever else is wrong is wrong again
        loaded = _load(dataclasses.replace(other, graphs=None))
    private = {graph.canonical_form() for graph in dataset.graphs}
    return [g for g in _shaped(other, loaded).graphs if g.canonical_form() not in private]


def _shaped(specification: Specification, dataset: Dataset) -> Dataset:
    dataset = _labelled(specification, dataset)
    return dataset if specification.degree else _without_degree(dataset)


def _labelled(specification: Specification, dataset: Dataset) -> Dataset:
    if not specification.node_task or dataset.task == "node":
        return dataset
    graphs = [dataclasses.replace(g, y=on_cycle(g)) for g in dataset.graphs]
    return dataclasses.replace(dataset, graphs=graphs, task="node", classes=2)


def on_cycle(graph: Graph) -> Int[np.ndarray, " n"]:
    """1 for the nodes that lie on a cycle, 0 for the others: an end of an edge that is no bridge."""
    bridges = {tuple(sorted(edge)) for edge in nx.bridges(graph.to_networkx())}
    labels = np.zeros(graph.n, np.int64)
    for u, v in graph.edges.tolist():
        if (u, v) not in bridges:
            labels[[u, v]] = 1
    return labels


def _without_degree(dataset: Dataset) -> Dataset:
    space = dataset.space
    if space.degree is None:
        raise ValueError(f"degree: {dataset.name} has no degree among its features; leave --no-degree out")
    g = space.index(space.degree)
    graphs = [dataclasses.replace(graph, x=np.delete(graph.x, g, axis=1)) for graph in dataset.graphs]
    return dataclasses.replace(dataset, graphs=graphs, space=space.without(space.degree))


def _model(specification: Specification, dataset: Dataset) -> GNN:
    readout, by_node = specification.readout, dataset.task == "node"
    if by_node and readout in ("pooled", "flattened"):
        raise ValueError(f"readout: {readout!r} labels graphs and this task labels nodes; take node_mlp or node_scores")
    if not by_node and readout == "node_scores":
        raise ValueError("readout: 'node_scores' labels nodes and this task labels graphs; add --node-task")
    model = GNN(
        in_features=dataset.space.width,
        classes=dataset.classes,
        conv=specification.model,
        layers=specification.layers,
        hidden=specification.hidden,
        act=specification.activation,
        heads=specification.heads,
        readout=readout,
        pooling=specification.pooling,
        last_act=specification.last_activation,
        readout_widths=GNN.readout_widths if readout == "node_mlp" else (),
        per_node=by_node,
        slots=bucket(max(g.n for g in dataset.graphs)) if readout == "flattened" else 0,
    )
    model.check()
    return model


def _knowledge(specification: Specification, dataset: Dataset, public: tuple[Graph, ...], truth: Graph) -> Knowledge:
    """What the specification gives away of one client; node labels are sorted, so that they tell no order."""
    know = set(specification.know)
    return Knowledge(
        space=dataset.space,
        n=truth.n if know & {"n", "adjacency", "features"} else None,
        adjacency=truth.adjacency if "adjacency" in know else None,
        features=truth.x.copy() if "features" in know else None,
        labels=np.sort(np.atleast_1d(np.asarray(truth.y))) if "labels" in know else None,
        max_nodes=specification.max_n,
        auxiliary=public if "auxiliary" in know else (),
        prior=specification.prior,
        distinct_nodes=specification.distinct and specification.dataset.lower() in UNIQUE_NODES,
    )
