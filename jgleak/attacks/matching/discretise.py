"""From the relaxed answer of a run to graphs, on the host."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.problem import Problem, Setting
from jgleak.attacks.matching.recipe import Recipe
from jgleak.features import FeatureSpace
from jgleak.federated.loss import Loss
from jgleak.graph import Graph


class Answer(NamedTuple):
    """What one client's run ends with.

    Attributes:
      graphs: one for every graph of the batch.
      soft: nodes ``(G, n, m)`` and adjacency ``(G, n, n)`` to report, ``n`` of the largest graph, and the labels.
      hard: the graphs as the model is shown them, padded.
    """

    graphs: tuple[Graph, ...]
    soft: Guess
    hard: Guess


def choose(
    recipe: Recipe, setting: Setting, problem: Problem, guesses: Guess, values: Float[np.ndarray, " K"]
) -> Guess:
    """One answer from all restarts."""
    if recipe.combine is not None:
        guess = recipe.combine(setting, problem, guesses, values)
    else:
        guess = jax.tree.map(lambda part: part[int(np.argmin(values))], guesses)
    return guess if recipe.finish is None else recipe.finish(setting, problem, guess)


def read(
    recipe: Recipe,
    setting: Setting,
    problem: Problem,
    space: FeatureSpace,
    guess: Guess,
    *,
    basis: Float[np.ndarray, "m r"] | None,
    rng: np.random.Generator,
) -> Answer:
    """Round edges, decode features, and name the labels; ``basis`` undoes a reduction of the columns."""
    nodes, edges = (np.nan_to_num(np.asarray(part, np.float32)) for part in (guess.nodes, guess.adjacency))
    loss = Loss.of(setting.loss)
    masked = loss.masked
    labels = np.asarray(guess.labels, np.float32)
    labels = labels if masked else np.nan_to_num(labels)  # of tasks NaN is missing
    if basis is not None:
        nodes = (nodes @ basis.T).astype(np.float32)
    if not masked and setting.loss != "mse":
        labels = np.eye(loss.classes(setting.model.outputs), dtype=np.float32)[labels.argmax(axis=-1)]
    graphs, hard_nodes, hard_edges = [], np.zeros_like(nodes), np.zeros_like(edges)
    sizes = np.asarray(problem.mask).sum(axis=1).tolist()
    for g, n in enumerate(sizes):
        rounded = recipe.rounding(edges[g, :n, :n], rng)
        x = space.decode(nodes[g, :n])
        graph = Graph(
            x, np.argwhere(np.triu(np.maximum(rounded, rounded.T), 1) > 0), _label(setting, labels[g, ...], n)
        )
        graphs.append(graph)
        hard_nodes[g, :n], hard_edges[g, :n, :n] = space.encode(x), graph.adjacency
    n = max(sizes)
    reported = (hard_edges if recipe.hard else edges)[:, :n, :n]
    return Answer(
        tuple(graphs), _guess(nodes[:, :n], reported, labels), _guess(hard_nodes, hard_edges, labels, guess.masks)
    )


def _guess(*parts: Any) -> Guess:
    return Guess(*parts)


def _label(setting: Setting, label: np.ndarray, n: int) -> Any:
    if Loss.of(setting.loss).masked:
        return label[None]
    if setting.loss == "mse":
        return label[:n] if setting.model.node_level else float(label)
    return label[:n].argmax(axis=-1) if setting.model.node_level else int(label.argmax())
