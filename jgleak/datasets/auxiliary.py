"""Public graphs for an attacker who has no sample of the clients' own kind (GraphDLG, section 5.3 and appendix A.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from jgleak.features import Feature, FeatureSpace
from jgleak.graph import Graph
from jgleak.graph import distinct as distinct

Draw = Literal["normal", "uniform"]

DRAWS: Mapping[Draw, Callable[[np.random.Generator, tuple[int, int]], Float[np.ndarray, "n m"]]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-1.0, 1.0, shape),
}
"""Distributions of random features: standard normal, or uniform in [-1, 1] (GraphDLG, Table 3)."""


def dirichlet_split(graphs: Sequence[Graph], alpha: float, rng: np.random.Generator) -> tuple[list[Graph], list[Graph]]:
    """Two parts of unlike label shares: the victims' pool and the auxiliaries (GraphDLG: ``alpha`` 1.0).

    Of every class, shares drawn from ``Dirichlet(alpha, alpha)`` go to the two parts, at random and rounded. Where one
    part would be empty, it gets one graph of the other. Isomorphic duplicates are left out first, so that no graph
    lies in both parts.

    Args:
      graphs: at least two that are distinct, all with a class.
      alpha: small: every class lies in one part; large: equal shares.
      rng: draws shares and members.

    Raises:
      ValueError: too few graphs, a label that is no class, or an ``alpha`` that is not positive.
    """
    if not alpha > 0:
        raise ValueError(f"alpha: must be positive, got {alpha}")
    once = distinct(graphs)
    if len(once) < 2:
        raise ValueError(f"graphs: {len(once)} distinct ones cannot make two parts; give more")
    if not all(isinstance(g.y, int) for g in once):
        raise ValueError("graphs: the split is by class; give graphs with a class label each")
    labels = np.array([g.y for g in once])
    first: list[int] = []
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        share = rng.dirichlet((alpha, alpha))[0]
        first += members[: round(share * members.size)].tolist()
    if len(first) in (0, len(once)):
        first = first[1:] or [int(rng.integers(len(once)))]
    inside = set(first)
    return [g for i, g in enumerate(once) if i in inside], [g for i, g in enumerate(once) if i not in inside]


def adapted(graphs: Sequence[Graph], source: FeatureSpace, target: FeatureSpace) -> list[Graph]:
    """Graphs of another data set in the target's feature space; edges, sizes and order stay, labels go.

    Every target feature takes the source's feature of the same name and kind, or else the one of the same position and
    kind. A discrete value becomes the target's equal value, where the names of *all* values that occur agree with
    values of the target. Otherwise the source's values, the most frequent first, become the target's in the order of
    its public column means, the most frequent first (in code order where the target has none); surplus values become
    the last. The degree feature states the graph's own degrees, cut to the nearest listed. A feature without a
    counterpart takes its publicly most frequent value (0 where it is real). Determined features follow. Edge classes
    stay where the target has any.

    Raises:
      ValueError: no graphs, or edge classes that the source names differently or lacks.
    """
    if not graphs:
        raise ValueError("graphs: there are none to adapt")
    if target.edge_classes and source.edge_classes != target.edge_classes:
        wanted, found = (", ".join(space.edge_classes) or "none" for space in (target, source))
        raise ValueError(f"graphs: the model was shown the edge classes {wanted}, these public graphs have {found}")
    together = np.concatenate([g.x for g in graphs])
    columns = np.zeros((len(together), len(target.features)))
    for g, feature in enumerate(target.features):
        if feature.name == target.degree:
            columns[:, g] = _degree_codes(feature, np.concatenate([graph.degree for graph in graphs]))
            continue
        at = _counterpart(source, feature, g)
        if feature.kind == "real":
            columns[:, g] = 0.0 if at is None else together[:, at]
        elif at is None:
            columns[:, g] = _by_frequency(target, g)[0]
        else:
            columns[:, g] = _translated(source.features[at], together[:, at].astype(int), target, g)
    for g, feature in enumerate(target.features):
        if feature.determined_by is not None and feature.mapping:
            columns[:, g] = np.asarray(feature.mapping)[columns[:, target.index(feature.determined_by)].astype(int)]
    x = columns.astype(np.int32) if target.discrete else columns
    parts = np.split(x, np.cumsum([graph.n for graph in graphs])[:-1])
    return [
        Graph(part, graph.edges, None, graph.name, graph.edge_class if target.edge_classes else None)
        for part, graph in zip(parts, graphs, strict=True)
    ]


def random_graphs(
    space: FeatureSpace,
    count: int,
    density: float,
    features: Draw,
    sizes: Sequence[int],
    rng: np.random.Generator,
) -> list[Graph]:
    """Erdős-Rényi graphs with random real features (GraphDLG, Table 3: density 0.05 or 0.1).

    Real numbers are no codes of a one-hot schema. So ``x`` has as many entries a node as ``space`` has columns, which
    the attacked model takes as its input rows. GraphDLG's decoder reads them so; attacks that decode public features
    refuse them.

    Args:
      space: of the attacked model.
      count: how many.
      density: probability of every edge.
      features: ``normal`` or ``uniform``.
      sizes: numbers of nodes to draw from (public sizes, repeated as often as they occur).
      rng: draws everything.

    Raises:
      ValueError: an argument out of range.
    """
    if features not in DRAWS:
        raise ValueError(f"features: unknown {features!r}; choose one of {', '.join(DRAWS)}")
    if not 0 <= density <= 1:
        raise ValueError(f"density: must lie in 0..1, got {density}")
    if count < 1 or not sizes or min(sizes) < 1:
        raise ValueError(f"count, sizes: need at least one graph and sizes from 1, got {count} and {list(sizes)[:5]}")
    made = []
    for n in rng.choice(np.asarray(sizes), count).tolist():
        edges = np.argwhere(np.triu(rng.random((n, n)) < density, 1))
        made.append(Graph(DRAWS[features](rng, (n, space.width)), edges))
    return made


def _counterpart(source: FeatureSpace, feature: Feature, position: int) -> int | None:
    """Which source feature stands for a target feature: by name, or else by position; degrees stand for none."""
    names = [f.name for f in source.features]
    for at in (names.index(feature.name) if feature.name in names else None, position):
        fits = at is not None and at < len(names) and names[at] != source.degree
        if at is not None and fits and (source.features[at].kind == "real") == (feature.kind == "real"):
            return at
    return None


def _translated(old: Feature, codes: Int[np.ndarray, " n"], target: FeatureSpace, g: int) -> Int[np.ndarray, " n"]:
    feature = target.features[g]
    counts = np.bincount(codes, minlength=len(old.values))
    table = np.zeros(counts.size, np.int64)
    places: dict[Any, int] = {str(value): code for code, value in enumerate(feature.values)}
    live = np.flatnonzero(counts)
    if all(str(old.values[code]) in places for code in live):
        table[live] = [places[str(old.values[code])] for code in live]
    else:
        order = _by_frequency(target, g)
        for rank, code in enumerate(np.argsort(-counts, kind="stable")):
            table[code] = order[min(rank, order.size - 1)]
    return table[codes]


def _by_frequency(space: FeatureSpace, g: int) -> Int[np.ndarray, " k"]:
    """Codes of a discrete feature, the publicly most frequent first; in code order where nothing is known.

    Of listed numbers the public mean tells no frequencies: those near it come first.
    """
    feature, start = space.features[g], space.offsets[g]
    if space.mean is None:
        return np.arange(len(feature.values))
    means = space.mean[start : start + feature.columns]
    if feature.kind == "number":
        return np.argsort(np.abs(feature.numbers - means), kind="stable")
    shares = np.array([1 - means[0], means[0]]) if feature.kind == "binary" else means
    return np.argsort(-shares, kind="stable")


def _degree_codes(feature: Feature, degrees: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    listed = np.asarray(feature.values, np.int64)
    return np.abs(degrees[:, None] - listed[None]).argmin(axis=1)
