"""Graphs found by parallel tempering, where neighbourhoods are too many to list and too alike to count.

With few feature vectors that state no degree, tens of millions of neighbourhoods can pass every check, and the gradient
hardly distinguishes them: no system over them can be solved. But graphs can be compared with the update quickly
(``node_sums``), and graphs that share most neighbourhoods with the client's graph have a small misfit. So several
graphs are changed at random at different temperatures, between which they are exchanged (replica exchange, Swendsen and
Wang 1986). The energy is the mean over equations of the logarithm of the misfit, which rewards every equation that
holds, plus the logarithm of the residual, which penalises the few that are far off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.moves import Linked, Moves
from jgleak.attacks.census.node_sums import NodeSums

TEMPERATURES = (0.03, 0.3)
"""The lowest and the highest temperature, in units of the energy."""

TRIES = 4
"""Changes of each graph that are compared at once; the first accepted one is made, and the others are dropped."""

FLOOR = 1e-6
"""Misfits below this, relative to the typical entry, are rounding."""


class Near(NamedTuple):
    """A graph whose sums are near the observed ones, with its residual."""

    graph: Linked
    residual: float


def tempered(sums: NodeSums, moves: Moves, *, replicas: int, most: float, clock: Clock) -> Iterator[Near | None]:
    """Every graph found whose residual is at most ``most``, one after another, until the clock ends; otherwise
    deterministic. None after every round, so that the caller may stop."""
    rng = np.random.default_rng(0)
    graphs = [moves.start(rng) for _ in range(replicas)]
    temperatures = np.geomspace(*TEMPERATURES, replicas)
    energies, _ = _energies(sums, graphs)
    while clock.left > 0:
        drawn = [(place, moves.changed(graph, rng)) for place, graph in enumerate(graphs) for _ in range(TRIES)]
        tried = [(place, graph) for place, graph in drawn if graph is not None]
        if not tried:
            return
        found, residuals = _energies(sums, [graph for _, graph in tried])
        moved = set[int]()
        for (place, graph), energy, residual in zip(tried, found.tolist(), residuals.tolist(), strict=True):
            if residual <= most:
                yield Near(graph, residual)
            rise = max(energy - energies[place], 0.0) / temperatures[place]
            if place not in moved and rng.random() < np.exp(-rise):
                moved.add(place)
                graphs[place], energies[place] = graph, energy
        _exchange(graphs, energies, temperatures, rng)
        yield None


def _exchange(
    graphs: list[Linked],
    energies: Float[np.ndarray, " R"],
    temperatures: Float[np.ndarray, " R"],
    rng: np.random.Generator,
) -> None:
    """Neighbouring temperatures exchange their graphs, from one random side to the other."""
    for place in range(int(rng.integers(2)), len(graphs) - 1, 2):
        gain = (energies[place] - energies[place + 1]) * (1 / temperatures[place] - 1 / temperatures[place + 1])
        if gain >= 0 or rng.random() < np.exp(gain):
            graphs[place], graphs[place + 1] = graphs[place + 1], graphs[place]
            energies[[place, place + 1]] = energies[[place + 1, place]]


def _energies(sums: NodeSums, graphs: list[Linked]) -> tuple[Float[np.ndarray, " R"], Float[np.ndarray, " R"]]:
    """The energy of each graph, and its residual, the length of all misfits together."""
    size = max(graph.kinds.size for graph in graphs)
    adjacency: Bool[np.ndarray, "R N N"] = np.zeros((len(graphs), size, size), bool)
    kinds: Int[np.ndarray, "R N"] = np.full((len(graphs), size), -1)
    for place, graph in enumerate(graphs):
        adjacency[place, : graph.kinds.size, : graph.kinds.size] = graph.adjacency
        kinds[place, : graph.kinds.size] = graph.kinds
    misfits = sums.misfits(adjacency, kinds)
    residuals, typical = np.linalg.norm(misfits, axis=1), np.sqrt(misfits.shape[1])
    each = np.log(np.abs(misfits) * typical + FLOOR).mean(axis=1)
    return each + np.log(residuals + FLOOR), residuals
