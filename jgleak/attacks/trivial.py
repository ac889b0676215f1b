"""Baselines that never look at the gradient: what an attack must beat before its numbers mean anything.

Each uses the public feature space and whatever ``Knowledge`` gives: known adjacency, features or labels go into the
answer as they are. The observation only serves to state the gradient distance of the guess.
"""

from __future__ import annotations

import dataclasses

import jax
import networkx as nx
import numpy as np
from jaxtyping import Array, Float, Int, Num

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.distance import gradient_distances
from jgleak.features import FeatureSpace
from jgleak.federated.observation import Knowledge, Observation
from jgleak.graph import Graph

MODEST = 20
"""A random graph has at most this many nodes when nothing tells its size."""


def random(observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget) -> Reconstruction:
    """A random graph with random features, from public knowledge only.

    Features are drawn independently from the public column means (uniformly where the space has none). The number of
    edges is half the sum of the degrees that the features state, and that of a spanning tree where they state none;
    the graph is a random tree with random further edges. Features that were not given then state its real degrees.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    n = _size(knowledge) or int(rng.integers(1, min(knowledge.max_nodes, MODEST), endpoint=True))
    x = _sample(knowledge.space, n, rng) if knowledge.features is None else knowledge.features
    degrees = knowledge.space.degrees(x)
    wanted = n - 1 if degrees is None else round(int(degrees.sum()) / 2)
    edges = _random_edges(n, wanted, knowledge.connected, rng) if knowledge.adjacency is None else _edges(knowledge)
    if knowledge.features is None:
        x = _with_degrees(knowledge.space, x, np.bincount(edges.ravel(), minlength=n))
    return _answer(observation, knowledge, x, edges)


def mean_adjacency(observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget) -> Reconstruction:
    """The mean adjacency of the auxiliary graphs in file order, thresholded at 0.5; every node most frequent.

    Smaller graphs count as zeros beyond their nodes. A graph of unknown size gets the auxiliaries' median size. The
    soft adjacency is kept in ``Reconstruction.adjacency``; the nodes are those of ``empty``.
    """
    n = _size(knowledge) or round(float(np.median([g.n for g in knowledge.auxiliary])))
    soft = _mean(knowledge.auxiliary, n) if knowledge.adjacency is None else knowledge.adjacency
    edges = np.argwhere(np.triu(soft > 0.5, 1))
    return dataclasses.replace(_answer(observation, knowledge, _modal(knowledge, n), edges), adjacency=soft)


def empty(observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget) -> Reconstruction:
    """No edges, and every node has the publicly most frequent value of every feature; one node where n is unknown."""
    n = _size(knowledge) or 1
    edges = np.zeros((0, 2), np.int64) if knowledge.adjacency is None else _edges(knowledge)
    return _answer(observation, knowledge, _modal(knowledge, n), edges)


def _needs_auxiliary(observation: Observation, knowledge: Knowledge) -> str | None:
    if knowledge.auxiliary or knowledge.adjacency is not None:
        return None
    return "it averages public graphs and Knowledge.auxiliary is empty; give some (--know auxiliary)"


RANDOM = Attack("random", "random features and a random graph from public knowledge (baseline)", random)
MEAN_ADJACENCY = Attack(
    "mean-adjacency",
    "mean adjacency of auxiliary graphs in file order (baseline)",
    mean_adjacency,
    _needs_auxiliary,
    rows=True,
)
EMPTY = Attack("empty", "no edges, every node the most frequent one (baseline)", empty)


def _size(knowledge: Knowledge) -> int | None:
    for known in (knowledge.adjacency, knowledge.features):
        if known is not None:
            return known.shape[0]
    return knowledge.n


def _edges(knowledge: Knowledge) -> Int[np.ndarray, "e 2"]:
    return np.argwhere(np.triu(np.asarray(knowledge.adjacency) > 0.5, 1))


def _answer(observation: Observation, knowledge: Knowledge, x: np.ndarray, edges: np.ndarray) -> Reconstruction:
    """The guess with the labels that are known, or else with those whose gradient comes closest; that distance."""
    graph = Graph(x, edges)
    if knowledge.labels is not None:
        labels = np.asarray(knowledge.labels)
        if not observation.model.node_level:
            graph = dataclasses.replace(graph, y=labels.ravel()[0].item())
        elif labels.shape == (graph.n,):
            graph = dataclasses.replace(graph, y=labels)
    distance, label = gradient_distances(observation, knowledge.space, [graph])[0]
    return Reconstruction((graph if graph.y is not None else dataclasses.replace(graph, y=label),), distance, "done")


def _modal(knowledge: Knowledge, n: int) -> Num[np.ndarray, "n G"]:
    """Given features, or the most frequent value of each: by the public column means, or else by the public graphs.

    Where the space has no means and no graph is public, nothing tells what is frequent: the first value stands in.
    """
    if knowledge.features is not None:
        return knowledge.features
    space = knowledge.space
    public = [g.x for g in knowledge.auxiliary if g.x.shape[1] == len(space.features)]
    if space.mean is None and public:
        mean = space.encode(np.concatenate(public)).mean(axis=0)
        return _determine(space, space.decode(np.tile(mean, (n, 1))))
    return _determine(space, space.decode(np.zeros((n, space.width))))


def _mean(graphs: tuple[Graph, ...], n: int) -> Float[np.ndarray, "n n"]:
    total = np.zeros((n, n), np.float32)
    for g in graphs:
        k = min(n, g.n)
        total[:k, :k] += g.adjacency[:k, :k]
    return total / len(graphs)


def _sample(space: FeatureSpace, n: int, rng: np.random.Generator) -> Num[np.ndarray, "n G"]:
    """``n`` nodes from the product of the public marginals; determined features follow from their determiner."""
    x = np.zeros((n, len(space.features)))
    for g, (f, start) in enumerate(zip(space.features, space.offsets, strict=True)):
        mean = None if space.mean is None else space.mean[start : start + f.columns]
        if f.kind == "real":
            deviation = 1.0 if space.std is None else space.std[start]
            x[:, g] = rng.normal(0.0 if mean is None else mean[0], deviation, n)
        elif f.kind == "binary":
            x[:, g] = rng.random(n) < (0.5 if mean is None else mean[0])
        else:
            x[:, g] = rng.choice(f.columns, n, p=None if mean is None else mean / mean.sum())
    return _determine(space, x.astype(np.int32) if space.discrete else x)


def _determine(space: FeatureSpace, x: Num[np.ndarray, "n G"]) -> Num[np.ndarray, "n G"]:
    """Overwrite each determined feature by what its determiner says."""
    for g, f in enumerate(space.features):
        if f.determined_by is not None and f.mapping:
            x[:, g] = np.asarray(f.mapping)[x[:, space.index(f.determined_by)].astype(int)]
    return x


def _with_degrees(
    space: FeatureSpace, x: Num[np.ndarray, "n G"], degrees: Int[np.ndarray, " n"]
) -> Num[np.ndarray, "n G"]:
    """Write real degrees into the degree feature; a degree outside the schema leaves its node alone."""
    if space.degree is None:
        return x
    g = space.index(space.degree)
    codes = {value: code for code, value in enumerate(space.features[g].values)}
    x[:, g] = [codes.get(int(d), old) for d, old in zip(degrees, x[:, g], strict=True)]
    return _determine(space, x)


def _random_edges(n: int, wanted: int, connected: bool, rng: np.random.Generator) -> Int[np.ndarray, "e 2"]:
    """``wanted`` distinct edges, at least a random spanning tree where the graph must be connected."""
    pairs = np.argwhere(np.triu(np.ones((n, n), bool), 1))
    first = np.zeros(len(pairs), bool)
    if connected:
        tree = nx.random_labeled_tree(n, seed=int(rng.integers(2**31)))
        first = nx.to_numpy_array(tree, nodelist=range(n))[pairs[:, 0], pairs[:, 1]] > 0
    order = np.lexsort((rng.random(len(pairs)), ~first))
    return pairs[order[: max(wanted, int(first.sum()))]]
