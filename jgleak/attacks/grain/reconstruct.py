"""From candidates to the best graph: stages of depth-first search, tested against the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from jgleak.attacks.attack import Clock, Reconstruction
from jgleak.attacks.distance import Fit, Label, gradient_distances
from jgleak.attacks.grain.build import Builder, Census, Gluing, PartialGluing
from jgleak.attacks.grain.candidates import GrainCandidates
from jgleak.attacks.grain.settings import GrainLimits, GrainSettings
from jgleak.attacks.node_order import KnownRows
from jgleak.attacks.noise import deviation, largest
from jgleak.attacks.nonnegative import nonnegative
from jgleak.attacks.span.hops import Blocks, reciprocal, turned
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params
from jgleak.graph import Graph

HIDDEN = 256
"""Blocks whose hidden rows are computed at once (a compiled shape)."""


class Search:
    """The best graph so far, what was already tested, and what the tests need."""

    def __init__(
        self,
        observation: Observation,
        knowledge: Knowledge,
        candidates: GrainCandidates,
        settings: GrainSettings,
        clock: Clock,
    ) -> None:
        self.observation, self.knowledge, self.candidates, self.clock = observation, knowledge, candidates, clock
        self.settings = settings
        self.tested: set[object] = set()
        self.best: tuple[float, Graph] | None = None
        self.largest: PartialGluing | None = None
        self.rows = KnownRows.of(knowledge)
        self.rank = block_order(candidates)
        self.last_rows = _last_rows(observation, candidates)
        self.noisy_mean = _noisy_mean(observation, knowledge)
        self.most = Fit.of(observation, knowledge.noise).most
        self.closed = 0

    def graph(self, partial: PartialGluing, label: Label = None) -> Graph:
        """A partial graph's nodes and edges as a Graph with the features of its nodes."""
        roots = self.candidates.ones.roots[np.array(partial.kinds)]
        edges = np.array(partial.edges, np.int64).reshape(-1, 2)
        classes = np.array(partial.along, np.int64) if self.observation.model.edge_classes else None
        return Graph(self.candidates.nodes.codes[roots], edges, label, edge_class=classes)

    def as_known(self, partial: PartialGluing) -> bool:
        """True where a graph agrees with the number of nodes and the feature rows, as far as they are known."""
        known = self.knowledge.n
        return (known is None or len(partial.kinds) == known) and (
            self.rows is None or self.rows.agree(self.graph(partial).x)
        )

    def test(self, partial: PartialGluing) -> bool:
        """Compare a closed graph's gradient with the observed one; True when they match."""
        self.closed += 1
        census = partial.census
        divisor = math.gcd(*(count for _, count in census))
        share = tuple((block, count // divisor) for block, count in census)
        key = self._key(partial, census, share)
        if key in self.tested:  # and did not match: what matches ends the search
            return False
        self.tested.add(key)
        if not self._plausible(share):
            return False
        graph = self.graph(partial)
        (distance, label) = gradient_distances(self.observation, self.knowledge.space, [graph], self.most)[0]
        if self.best is None or (distance, graph.n) < (self.best[0], self.best[1].n):
            self.best = (distance, self.graph(partial, label))
        return distance <= self.most

    def _key(self, partial: PartialGluing, census: Census, share: Census) -> object:
        """What determines the gradient: under two convolutions the counts of the 2-hop blocks (their shares, where
        nodes are averaged), under more the graph."""
        model = self.observation.model
        if model.depth > 2:
            return self.graph(partial).canonical_form()
        return census if model.node_level else share

    def _plausible(self, share: Census) -> bool:
        """The mean of the nodes' last hidden rows is known from the gradient: a cheap test before the gradients are
        compared."""
        if self.last_rows is None:
            return True
        rows, mean = self.last_rows
        blocks, counts = np.array(share).T
        got = counts @ rows[blocks] / counts.sum()
        return bool(
            np.linalg.norm(got - mean) <= self.settings.tolerances.mean_rows * np.linalg.norm(mean) + self.noisy_mean
        )


def reconstruct(
    observation: Observation,
    knowledge: Knowledge,
    candidates: GrainCandidates,
    settings: GrainSettings,
    *,
    clock: Clock,
) -> Reconstruction:
    """Search for a graph built of the candidate blocks whose gradient matches (GRAIN, Algorithms 4 and 8).

    Differs from the authors' code: small sizes first (a multiple of a small graph has the same gradient), every
    finished graph is tested (equal block counts once), and the blocks that explain the readout's known mean are tried
    before all blocks.
    """
    search = Search(observation, knowledge, candidates, settings, clock)
    stop = "time" if clock.left <= 0 else "no candidates" if candidates.twos.size == 0 else "exhausted"
    for chosen in _stages(search):
        outcome = _stage(search, chosen)
        if outcome is not None:
            stop = outcome
            break
    info = {**candidates.info, "graphs_closed": search.closed, "graphs_tested": len(search.tested)}
    info["seconds_search"] = clock.elapsed - sum(v for k, v in info.items() if k.startswith("seconds_"))
    if search.best is not None:
        return Reconstruction((search.best[1],), search.best[0], stop, info=info)
    if search.largest is not None:
        graph = search.graph(search.largest)
        (distance, label) = gradient_distances(observation, knowledge.space, [graph], search.most)[0]
        return Reconstruction((search.graph(search.largest, label),), distance, stop, info=info)
    return Reconstruction((), None, stop, info=info)


def block_order(candidates: GrainCandidates) -> Float[np.ndarray, " K"]:
    """``S(B)``: over a block's neighbours, the sum of the smallest span distance of a block that fits there."""
    twos = candidates.twos
    best: dict[tuple[int, int], float] = {}
    for root, neighbours, distance in zip(twos.roots.tolist(), twos.neighbours, twos.distances.tolist(), strict=True):
        for other in set(neighbours):
            key = (root, other)
            best[key] = min(best.get(key, math.inf), distance)
    return np.array(
        [
            sum(best.get(turned(root, other, twos.classes), math.inf) for other in neighbours)
            for root, neighbours in zip(twos.roots.tolist(), twos.neighbours, strict=True)
        ],
        float,
    )


def _stages(search: Search) -> Iterator[Bool[np.ndarray, " K"]]:
    """Sets of blocks to build from: those that explain the readout's mean, then all."""
    everything = np.ones(search.candidates.twos.size, bool)
    if search.last_rows is not None and everything.size:
        rows, mean = search.last_rows
        scale, tolerances = np.linalg.norm(mean), search.settings.tolerances
        system, right = np.r_[rows.T / scale, np.ones((1, rows.shape[0]))], np.r_[mean / scale, 1.0]
        found = nonnegative(system, right, search.settings.limits.solver_rounds, search.clock)
        if (
            found is not None
            and found[1] < tolerances.asked_residual
            and not (asked := found[0] > tolerances.asked_share).all()
        ):
            yield asked
    yield everything


def _stage(search: Search, chosen: Bool[np.ndarray, " K"]) -> str | None:
    """Depth-first searches over one set of blocks; the reason to stop, or None to go on with the next stage."""
    twos, knowledge, bounds = search.candidates.twos, search.knowledge, search.settings.limits
    numbers = np.flatnonzero(chosen)
    for steps in bounds.step_rounds:  # short searches from every start before a long one from any
        complete = True
        for most in _sizes(knowledge, bounds):
            left = chosen.copy()
            for start in numbers[np.argsort(search.rank[numbers], kind="stable")].tolist():
                if not left[start]:
                    continue
                gluing = _gluing(search, left)
                builder = Builder(gluing, most=most, clock=search.clock, steps=steps)
                for closed in builder.closures(int(twos.roots[start])):
                    if search.as_known(closed) and search.test(closed):
                        return "match"
                    if search.clock.left <= 0:
                        return "time"
                if builder.largest is not None and (
                    search.largest is None or len(builder.largest.kinds) > len(search.largest.kinds)
                ):
                    search.largest = builder.largest
                if search.clock.left <= 0:
                    return "time"
                complete &= builder.exhausted
                if not builder.exhausted:
                    continue
                # all graphs with a node of this kind have been searched: no other start needs the kind
                left &= twos.roots != twos.roots[start]
        if complete:
            return None
    return None


def _sizes(knowledge: Knowledge, limits: GrainLimits) -> Sequence[int]:
    """Numbers of nodes up to which graphs are searched for, one after another."""
    if knowledge.n is not None:
        return [knowledge.n]
    if knowledge.max_n is None:
        return limits.size_rounds
    return [*(n for n in limits.size_rounds if n < knowledge.max_n), knowledge.max_n]


def _gluing(search: Search, chosen: Bool[np.ndarray, " K"]) -> Gluing:
    twos = search.candidates.twos
    alive = _fitting(twos, chosen)
    order = np.where(alive, search.rank, np.inf)
    return Gluing(search.candidates.ones, twos, order, alive)


def _fitting(twos: Blocks, chosen: Bool[np.ndarray, " K"]) -> Bool[np.ndarray, " K"]:
    """The structure filter within a set of blocks."""
    kept = reciprocal(twos.keep(chosen))
    inside = set(zip(kept.roots.tolist(), kept.neighbours, strict=True))
    pairs = zip(twos.roots.tolist(), twos.neighbours, strict=True)
    return np.array([pair in inside for pair in pairs], bool) & chosen


def _last_rows(
    observation: Observation, candidates: GrainCandidates
) -> tuple[Float[np.ndarray, "K h"], Float[np.ndarray, " h"]] | None:
    """Every block's last hidden readout row, and their mean over the graph's nodes as the gradient shows it.

    The last linear map's gradient is ``mean(a)^T delta`` with ``delta`` the bias gradient, where logits are averaged.
    """
    model, twos = observation.model, candidates.twos
    if model.depth != 2 or model.readout.additive != "nodes" or model.node_level or twos.size == 0:
        return None
    last = model.readout.last(model.readout_of(observation.update))
    delta = np.asarray(last["bias"], np.float64)
    if not np.any(delta):
        return None
    mean = np.asarray(last["kernel"], np.float64) @ delta / (delta @ delta)
    rows = candidates.nodes.rows[candidates.ones.roots[twos.roots]]
    states = model.entering(twos.below, twos.states)
    parts = []
    for start in range(0, twos.size, HIDDEN):
        part = slice(start, start + HIDDEN)
        here = rows[part].shape[0]
        padded = [np.pad(a[part].astype(np.float32), ((0, HIDDEN - here), (0, 0))) for a in (rows, states)]
        parts.append(np.asarray(_hidden(model, observation.params, *padded), np.float64)[:here])
    return np.concatenate(parts), mean


def _noisy_mean(observation: Observation, knowledge: Knowledge) -> float:
    """How far noise may move the mean of the last hidden rows, at the rate of the tests; 0 without noise."""
    model = observation.model
    if knowledge.noise is None or model.readout.additive != "nodes":
        return 0.0
    last = model.readout.last(model.readout_of(observation.update))
    kernel = np.asarray(last["kernel"], np.float64)
    delta = max(float(np.linalg.norm(last["bias"])), 1e-30)
    noise, beside = (deviation(observation, knowledge.noise, part) for part in (kernel, np.asarray(last["bias"])))
    mean = float(np.linalg.norm(kernel)) / delta
    return (noise * largest(kernel.shape[0]) + beside * mean * largest(kernel.shape[1])) / delta


@partial(jax.jit, static_argnames=("model",))
def _hidden(model: GNN, params: Params, rows: Float[Array, "B m"], states: Float[Array, "B D"]) -> Float[Array, "B h"]:
    return model.apply({"params": params}, rows, states, method="node_hidden")[0]
