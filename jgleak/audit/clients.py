"""The clients' graphs of a specification, and the public graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import networkx as nx
import numpy as np
from jaxtyping import Int

from jgleak.audit.specification import Specification
from jgleak.datasets import Dataset, load, tasks
from jgleak.datasets.auxiliary import adapted, dirichlet_split, distinct, random_graphs
from jgleak.datasets.fit import fit
from jgleak.features import FeatureSpace, onehot
from jgleak.graph import Graph

PUBLIC = 1000
"""Most graphs that a model is trained on, or that an attacker is given."""


def client_graphs(specification: Specification) -> Dataset:
    """The data set, prepared for the task; each graph belongs to a client.

    With auxiliaries by ``split``, clients are drawn from the victims' part alone.

    Raises:
      ValueError: graphs, labels or sizes that the specification asks for and the data set lacks.
      FileNotFoundError: the data set's files were not found.
    """
    if _source(specification)[0] != "split":
        return _shaped(specification, _load(specification))
    whole, victims, _ = _parts(specification)
    rng = np.random.default_rng([specification.seed, 1])
    wanted = specification.graphs or len(victims)
    if wanted > len(victims):
        raise ValueError(f"graphs: {wanted} clients asked for, but the victims' part of the split has {len(victims)}")
    chosen = np.sort(rng.choice(len(victims), wanted, replace=False))
    return dataclasses.replace(whole, graphs=[victims[i] for i in chosen])


def public_graphs(specification: Specification, dataset: Dataset) -> list[Graph]:
    """What the attacker is given: graphs of which none is isomorphic to a client's.

    Args:
      specification: its ``auxiliary`` says where they come from.
      dataset: the clients, as ``client_graphs`` returned them.

    Raises:
      ValueError: the other data set does not exist.
      FileNotFoundError: its files are nowhere.
    """
    kind, rest = _source(specification)
    if kind == "same":
        return others(specification, dataset)
    if kind == "split":
        return _without(_parts(specification)[2], dataset)
    if kind == "random":
        density, features = float(rest[0]), rest[1]
        rng, sizes = np.random.default_rng([specification.seed, 2]), range(4, (specification.max_nodes or 40) + 1)
        return random_graphs(
            dataset.space, PUBLIC, density, "normal" if features == "normal" else "uniform", sizes, rng
        )
    fields = {"dataset": kind, "auxiliary": "same", "task": None, "path": None, "graphs": None}
    foreign = _load(dataclasses.replace(specification, **fields))
    return _without(foreign_graphs(foreign, dataset.space), dataset)


def foreign_graphs(foreign: Dataset, space: FeatureSpace) -> list[Graph]:
    """Distinct graphs of another data set, ``PUBLIC`` at most, with the features of ``space``."""
    return adapted(distinct(foreign.graphs)[:PUBLIC], foreign.space, space)


def others(specification: Specification, dataset: Dataset) -> list[Graph]:
    """Other graphs of the same data set: another sample, or all of a small set, without the clients' graphs."""
    other = dataclasses.replace(specification, graphs=PUBLIC, seed=(specification.seed + 1) % 2**32)
    try:
        loaded = _load(other)
    except ValueError:  # fewer than that; whatever else is wrong is wrong again
        loaded = _load(dataclasses.replace(other, graphs=None))
    return _without(_shaped(other, loaded).graphs, dataset)


def _without(graphs: Sequence[Graph], dataset: Dataset) -> list[Graph]:
    sizes = {(graph.n, len(graph.edges)) for graph in dataset.graphs}  # canonical forms of large graphs take a while
    private = {graph.canonical_form() for graph in dataset.graphs}
    return [g for g in graphs if (g.n, len(g.edges)) not in sizes or g.canonical_form() not in private]


def _source(specification: Specification) -> tuple[str, list[str]]:
    kind, *rest = specification.auxiliary.split(":")
    return (specification.auxiliary, []) if kind == "tu" else (kind, rest)


def _parts(specification: Specification) -> tuple[Dataset, list[Graph], list[Graph]]:
    """The whole data set, the victims' part and the attacker's."""
    whole = _shaped(specification, _load(dataclasses.replace(specification, graphs=None)))
    alpha = float(_source(specification)[1][0])
    return whole, *dirichlet_split(whole.graphs, alpha, np.random.default_rng([specification.seed, 0]))


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
        bonds=specification.bonds,
        seed=specification.seed,
    )


def _shaped(specification: Specification, dataset: Dataset) -> Dataset:
    dataset = _labelled(specification, dataset)
    dataset = dataset if specification.degree else _without_degree(dataset)
    dataset = dataset if specification.attributes else _without_attributes(dataset)
    if specification.normalise:
        return dataset
    return dataclasses.replace(dataset, space=dataclasses.replace(dataset.space, mean=None, std=None))


def _labelled(specification: Specification, dataset: Dataset) -> Dataset:
    if not makes_labels_up(specification):
        return dataset
    graphs = [dataclasses.replace(g, y=on_cycle(g)) for g in dataset.graphs]
    return dataclasses.replace(dataset, graphs=graphs, task="node", classes=2, tasks=())


def makes_labels_up(specification: Specification) -> bool:
    """Whether labels of nodes are not the data set's own, but say which nodes lie on a cycle."""
    own = specification.task in (None, "node") and "node" in tasks(specification.dataset)
    return specification.node_task and not own


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
    return _without_features(dataset, [space.degree])


def _without_attributes(dataset: Dataset) -> Dataset:
    """Real-valued features left out; nodes that have no others get their degree, as in a set without any."""
    real = [feature.name for feature in dataset.space.features if feature.kind == "real"]
    if not real:
        raise ValueError(f"attributes: {dataset.name} has no real-valued features; leave --no-attributes out")
    if len(real) == len(dataset.space.features):
        graphs = [dataclasses.replace(g, x=g.degree[:, None].astype(np.int32)) for g in dataset.graphs]
        degree = onehot("degree", range(1 + max(int(g.x.max()) for g in graphs)))
        return dataclasses.replace(dataset, graphs=graphs, space=fit(FeatureSpace((degree,), "degree"), graphs))
    return _without_features(dataset, real)


def _without_features(dataset: Dataset, names: Sequence[str]) -> Dataset:
    space = dataset.space
    columns = [space.index(name) for name in names]
    for name in names:
        space = space.without(name)
    rows = (np.delete(graph.x, columns, axis=1) for graph in dataset.graphs)
    graphs = [
        dataclasses.replace(graph, x=x.astype(np.int32) if space.discrete else x)
        for graph, x in zip(dataset.graphs, rows, strict=True)
    ]
    return dataclasses.replace(dataset, graphs=graphs, space=space)
