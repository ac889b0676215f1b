"""Baselines that never look at the gradient: what an attack must beat before its numbers mean anything.

Each uses the public feature space and whatever ``Knowledge`` gives: known adjacency, features or labels go into the
answer as they are. The observation only serves to state the gradient distance of the guess.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

import jax
import networkx as nx
import numpy as np
from jaxtyping import Array, Float, Int, Num

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.distance import Label, gradient_distances
from jgleak.attacks.options import with_options
from jgleak.attacks.public.positions import HABITS, HabitSettings, position_frequencies
from jgleak.attacks.side_information import apart, graph_labels, together
from jgleak.features import FeatureSpace
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.graph import Graph, bucket


@dataclasses.dataclass(frozen=True)
class RandomSettings:
    """What users may change about random graphs.

    Attributes:
      modest_nodes: most nodes of one when nothing tells its size.
    """

    modest_nodes: int = 20


def random(
    settings: RandomSettings, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget
) -> Reconstruction:
    """Random graphs with random features, from public knowledge only.

    Features are drawn independently from the public column means (uniformly where the space has none). The number of
    edges is half the sum of the degrees that the features state, and that of a spanning tree where they state none;
    the graph is a random tree with random further edges. Features that were not given then state its real degrees.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    return _answer(observation, knowledge, [random_graph(one, rng, settings) for one in apart(observation, knowledge)])


def mean_adjacency(observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget) -> Reconstruction:
    """The mean adjacency of the auxiliary graphs in file order, thresholded at 0.5; every node most frequent.

    Smaller graphs count as zeros beyond their nodes. A graph of unknown size gets the auxiliaries' median size. The
    soft adjacency is kept in ``Reconstruction.adjacency``; the nodes are those of ``empty``.
    """
    each = apart(observation, knowledge)
    soft = [_mean(one) for one in each]
    graphs = [Graph(_modal(one, len(a)), _likely(a)) for one, a in zip(each, soft, strict=True)]
    return dataclasses.replace(_answer(observation, knowledge, graphs), adjacency=together(soft))


def empty(observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget) -> Reconstruction:
    """No edges, and every node has the publicly most frequent value of every feature; one node where n is unknown."""
    each = apart(observation, knowledge)
    return _answer(observation, knowledge, [_empty(one) for one in each])


def file_habit(
    settings: HabitSettings, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget
) -> Reconstruction:
    """The edges and features that are usual at their positions in public files (``public.positions``).

    Soft ones are kept in ``Reconstruction.adjacency`` and ``features``. A graph of unknown size gets the public graphs'
    median size. An attack that is not clearly above this in file order has not shown what the gradient told it.
    """
    each, space = apart(observation, knowledge), knowledge.space
    sizes = [one.n or _usual(one) for one in each]
    habit = position_frequencies(knowledge.auxiliary, space, bucket(max(sizes)), settings)
    soft, rows, graphs = list[np.ndarray](), list[np.ndarray](), list[Graph]()
    for one, n in zip(each, sizes, strict=True):
        soft.append(habit.edges_of(n) if one.adjacency is None else np.asarray(one.adjacency))
        rows.append(habit.rows_of(n, space) if one.features is None else space.encode(one.features))
        graphs.append(Graph(space.decode(rows[-1]) if one.features is None else one.features, _likely(soft[-1])))
    found = _answer(observation, knowledge, graphs)
    return dataclasses.replace(found, adjacency=together(soft), features=together(rows))


def _usual(knowledge: Knowledge) -> int:
    """The public graphs' median size."""
    return round(float(np.median([g.n for g in knowledge.auxiliary])))


def _needs_auxiliary(observation: Observation, knowledge: Knowledge) -> str | None:
    if knowledge.auxiliary or knowledge.adjacency is not None:
        return None
    return "it averages public graphs and Knowledge.auxiliary is empty; give some (--know auxiliary)"


def _random_entry(settings: RandomSettings) -> Attack:
    """The registry entry with its settings."""
    return Attack(
        "random",
        partial(random, settings),
        several=True,
        edge_classes=True,
        dropout=True,
        frozen=True,
        with_options=lambda options: _random_entry(with_options(settings, options)),
    )


def _habit_entry(settings: HabitSettings) -> Attack:
    """The registry entry with its settings."""
    return Attack(
        "file-habit",
        partial(file_habit, settings),
        needs=("auxiliary",),
        several=True,
        dropout=True,
        frozen=True,
        with_options=lambda options: _habit_entry(with_options(settings, options)),
    )


RANDOM = _random_entry(RandomSettings())
MEAN_ADJACENCY = Attack(
    "mean-adjacency",
    mean_adjacency,
    _needs_auxiliary,
    several=True,
    dropout=True,
    frozen=True,
    rows=True,
)
FILE_HABIT = _habit_entry(HABITS)
EMPTY = Attack(
    "empty",
    empty,
    several=True,
    edge_classes=True,
    dropout=True,
    frozen=True,
)


def _empty(knowledge: Knowledge) -> Graph:
    edges = _edges(knowledge)
    return Graph(_modal(knowledge, knowledge.n or 1), edges, edge_class=_classes(knowledge, len(edges)))


def _classes(knowledge: Knowledge, edges: int, rng: np.random.Generator | None = None) -> Int[np.ndarray, " e"] | None:
    """Edge classes: drawn as often as public graphs have them, uniformly without any; most frequent without ``rng``."""
    number = len(knowledge.space.edge_classes)
    if not number:
        return None
    public = [graph.edge_class for graph in knowledge.auxiliary if graph.edge_class is not None]
    counts = sum((np.bincount(each, minlength=number) for each in public), np.full(number, 0.0 if public else 1.0))
    if rng is None:
        return np.full(edges, counts.argmax())
    return rng.choice(number, edges, p=counts / counts.sum())


def _edges(knowledge: Knowledge) -> Int[np.ndarray, "e 2"]:
    """Known ones, or else none."""
    return np.zeros((0, 2), np.int64) if knowledge.adjacency is None else _likely(np.asarray(knowledge.adjacency))


def _likely(soft: Float[np.ndarray, "n n"]) -> Int[np.ndarray, "e 2"]:
    return np.argwhere(np.triu(soft > 0.5, 1))


def random_graph(knowledge: Knowledge, rng: np.random.Generator, settings: RandomSettings = RandomSettings()) -> Graph:
    """One random graph, of a random size where none is known."""
    modest = settings.modest_nodes
    n = knowledge.n or int(rng.integers(1, min(knowledge.max_n or modest, modest), endpoint=True))
    x = _sample(knowledge.space, n, rng) if knowledge.features is None else knowledge.features
    degrees = knowledge.space.degrees(x)
    wanted = n - 1 if degrees is None else round(int(degrees.sum()) / 2)
    edges = _random_edges(n, wanted, knowledge.connected, rng) if knowledge.adjacency is None else _edges(knowledge)
    if knowledge.features is None:
        x = _with_degrees(knowledge.space, x, np.bincount(edges.ravel(), minlength=n))
    return Graph(x, edges, edge_class=_classes(knowledge, len(edges), rng))


def _answer(observation: Observation, knowledge: Knowledge, graphs: Sequence[Graph]) -> Reconstruction:
    """The guess with known labels, or else with those whose gradient comes closest; the distance of one graph alone."""
    found = gradient_distances(observation, knowledge.space, graphs)
    labels: list[Label] = [label for _, label in found]
    if knowledge.labels is not None:
        known = np.asarray(knowledge.labels)
        if not observation.model.node_level:
            labels = list(graph_labels(observation, known))
        elif len(graphs) == 1 and known.shape == (graphs[0].n,):
            labels = [known]
    named = tuple(dataclasses.replace(graph, y=y) for graph, y in zip(graphs, labels, strict=True))
    return Reconstruction(named, found[0][0] if len(found) == 1 else None, "done")


def _modal(knowledge: Knowledge, n: int) -> Num[np.ndarray, "n G"]:
    """Given features, or the most frequent value of each: by the public column means, or else by the public graphs.

    Where the space has no means and no graph is public, nothing tells what is frequent: the first value stands in.
    """
    if knowledge.features is not None:
        return knowledge.features
    space = knowledge.space
    public = [g.x for g in knowledge.auxiliary if g.x.shape[1] == len(space.features)]
    if space.mean is None and public:
        # graph by graph: all rows of a thousand graphs with thousands of columns would be a gigabyte
        total = sum((space.encode(x).sum(axis=0, dtype=np.float64) for x in public), np.zeros(space.width))
        mean = total / sum(len(x) for x in public)
        return _determine(space, space.decode(np.tile(mean, (n, 1))))
    return _determine(space, space.decode(np.zeros((n, space.width))))


def _mean(knowledge: Knowledge) -> Float[np.ndarray, "n n"]:
    """Known edges, or the public graphs' mean, of their median size where none is known."""
    if knowledge.adjacency is not None:
        return np.asarray(knowledge.adjacency)
    graphs = knowledge.auxiliary
    n = knowledge.n or _usual(knowledge)
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
        elif f.kind == "number":
            x[:, g] = rng.integers(len(f.values), size=n)
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
    codes = space.degree_codes(degrees)
    x[:, g] = np.where(codes < 0, x[:, g], codes)
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
