"""The census attack: count the blocks, assemble the graphs, certify what else could explain the gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Array, Int

from jgleak.attacks.attack import Attack, Budget, Clock, Reconstruction
from jgleak.attacks.census.assemble import Assembly, PartialGraph
from jgleak.attacks.census.candidates import CensusCandidates, Levels, degrees_assumed
from jgleak.attacks.census.equations import Contributions
from jgleak.attacks.census.neighbourhood_prior import Familiar, labels
from jgleak.attacks.census.prior import PRIORS, resolved
from jgleak.attacks.census.solve import Counting
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import Fit, gradient_distances
from jgleak.attacks.node_order import KnownRows, numbered
from jgleak.attacks.noise import RATE
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.federated.observation import Knowledge, Observation
from jgleak.graph import Graph

PROGRAMMES = 2_000
"""Most nodes of the search tree for whole-number solutions, for one number of nodes."""

PARTIALS = (100_000, 5_000)
"""Most partial graphs of one census: of the smallest number of nodes that has one, and of larger ones, or where one was
too vast already."""

BEAM = 200
"""Partial graphs kept at every step where all of them were too many."""

NEAR = 1e-5
"""Graphs whose gradient is off by less come first: rounding explains that easily, and ten times as much hardly."""

LISTED = 2_000
"""Most graphs in an anonymity set."""


@dataclasses.dataclass
class _Set:
    """Graphs found so far, what the count left, and whether everything was looked at."""

    residual: float | None = None
    null: int = 0
    explained: bool = False
    graphs: list[Graph] = dataclasses.field(default_factory=list)
    distances: list[float] = dataclasses.field(default_factory=list)
    forms: set[tuple[bytes, bytes]] = dataclasses.field(default_factory=set)
    censuses: int = 0
    partials: int = 0
    exhausted: bool = True


def run(observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget) -> Reconstruction:
    """Exact reconstruction with a certificate (docs/theory.md, sections 2 and 3).

    Candidate blocks pass span checks; the gradient, a weighted sum of what each block contributes, is solved for whole
    numbers of blocks; every connected graph with these blocks is assembled. While the equations leave a residual or
    nothing can be assembled, the checks are weakened. Deterministic: ``key`` is not used.

    Returns:
      The anonymity set with its certificate. Best first: gradients nearer than ``NEAR`` before others, then by the
      surprise of the prior and, where there are public graphs, of neighbourhoods, then as the prior breaks ties.
      ``info`` has the numbers of candidates and blocks, the residual of the census, and seconds.
    """
    del key
    clock = budget.start()
    info: dict[str, Any] = {"attempts": 0, "candidates": 0, "blocks": 0, "residual": None}
    stop = "no candidates"
    try:
        if not Fit.of(observation, knowledge.noise).informative:
            raise TooManyCandidates(f"noise of deviation {knowledge.noise:.1e} alone explains the update")
        candidates = CensusCandidates(observation, knowledge, clock, budget)
        for levels in candidates.attempts():
            info["attempts"] += 1
            found = _explain(observation, knowledge, levels, clock)
            info["candidates"] = candidates.checked
            info |= _facts(levels, found)
            if found.graphs:
                weaker = candidates.weakest() if found.exhausted else None
                if weaker is not None and weaker.conditions != levels.conditions:
                    more = _explain(observation, knowledge, weaker, clock)
                    info["candidates"] = candidates.checked
                    if more.exhausted and _forms(found) <= _forms(more):
                        levels, found = weaker, more
                    else:
                        found = _joined(found, more, Fit.of(observation, knowledge.noise))
                    info |= _facts(levels, found)
                return _reconstruction(observation, knowledge, levels, found, info, clock)
            stop = "missing blocks" if not found.explained else "nothing assembled"
    except TooManyCandidates as error:
        stop = "no information"
        info["reason"] = str(error)
    if knowledge.noise is not None and "reason" not in info:
        info["reason"] = f"under noise of deviation {knowledge.noise:.1e} the search ended with: {stop}"
    if clock.left <= 0:
        stop = "time"
    return Reconstruction((), None, stop, info={**info, "seconds": clock.elapsed})


def _facts(levels: Levels, found: _Set) -> dict[str, Any]:
    """What one attempt looked at, for people and benchmarks."""
    return {
        "nodes": int(levels.nodes.degrees.size),
        "blocks": levels.hops[-1].size,
        "residual": found.residual,
        "null": found.null,
        "censuses": found.censuses,
        "partials": found.partials,
    }


def _explain(observation: Observation, knowledge: Knowledge, levels: Levels, clock: Clock) -> _Set:
    """Every graph of the candidate blocks whose gradient is the observed one."""
    top = levels.hops[-1]
    found = _Set(exhausted=levels.complete)
    system = Contributions.of(observation, levels.nodes, levels.hops, clock, noise=knowledge.noise)
    if system is None:
        return dataclasses.replace(found, exhausted=False)
    told = KnownRows.of(knowledge)
    most = knowledge.n or knowledge.max_nodes
    counting = Counting(
        system.equations,
        system.observed,
        top,
        system.blocks,
        absolute=observation.model.readout.counts_nodes,
        most=most,
        clock=clock,
        rows=None if told is None else (told.index(levels.nodes.codes[top.kinds[system.blocks]]), told.counts),
        slack=None if knowledge.noise is None else system.slack,
    )
    found.residual, found.null, found.explained = counting.residual, counting.null.shape[1], counting.explained
    if not counting.explained:
        return found
    sizes = range(1, knowledge.max_nodes + 1) if knowledge.n is None else [knowledge.n]
    assembling = _Assembling(observation, knowledge, levels, found, clock)
    seen: set[bytes] = set()
    vast: list[np.ndarray] = []
    for census in counting.solutions(sizes, clock, budget=PROGRAMMES):
        if census is None:
            found.exhausted = False
            continue
        counts = np.bincount(system.blocks, census.counts, minlength=top.size).astype(np.int64)
        if counts.tobytes() in seen:
            continue
        seen.add(counts.tobytes())
        found.censuses += 1
        if not assembling.some(counts) if knowledge.auxiliary else not assembling.all(counts):
            vast.append(counts)
        if clock.left <= 0 or len(found.graphs) >= LISTED:
            found.exhausted = False
            break
    for counts in vast:
        if clock.left <= 0 or len(found.graphs) >= LISTED or not knowledge.auxiliary:
            found.exhausted = False
            break
        found.exhausted &= assembling.all(counts)
    return _likely(found, Fit.of(observation, knowledge.noise))


class _Assembling:
    """Adds to ``found`` the graphs of one census after the other.

    Graphs of one census have the same gradient, since the readout adds up what blocks contribute; only node labels
    depend on the graph.
    """

    def __init__(
        self, observation: Observation, knowledge: Knowledge, levels: Levels, found: _Set, clock: Clock
    ) -> None:
        self.observation, self.knowledge, self.levels = observation, knowledge, levels
        self.found, self.clock = found, clock
        self.most = Fit.of(observation, knowledge.noise).most
        self.steps = PARTIALS[0]

    def all(self, counts: Int[np.ndarray, " K"]) -> bool:
        """Every graph; False where they were too many, or time ran out. Then there are some, where some are met."""
        larger = bool(self.found.graphs) and counts.sum() > self.found.graphs[0].n
        before, steps = len(self.found.graphs), PARTIALS[1] if larger else self.steps
        done = self._add(counts, steps, None)
        if not done:
            self.steps = PARTIALS[1]
            if len(self.found.graphs) == before:
                self._add(counts, steps, BEAM)
        return done

    def some(self, counts: Int[np.ndarray, " K"]) -> bool:
        """Those that look most familiar; True where these are all."""
        return self._add(counts, self.steps, BEAM)

    def _add(self, counts: Int[np.ndarray, " K"], steps: int, beam: int | None) -> bool:
        top, found, shared = self.levels.hops[-1], self.found, None
        guide = self._surprise if self.knowledge.auxiliary else None
        assembly = Assembly(top, counts, clock=self.clock, most=steps, beam=beam, guide=guide)
        for blocks, edges in assembly.graphs():
            graph = Graph(self.levels.nodes.codes[top.kinds[list(blocks)]], np.array(edges, np.int64).reshape(-1, 2))
            form = graph.canonical_form()
            if form not in found.forms:
                found.forms.add(form)
                if shared is None or self.observation.model.node_level:
                    shared = gradient_distances(self.observation, self.knowledge.space, [graph])[0]
                if shared[0] <= self.most:
                    found.graphs.append(dataclasses.replace(graph, y=shared[1]))
                    found.distances.append(shared[0])
            if self.clock.left <= 0 or len(found.graphs) >= LISTED:
                return False
        found.partials += assembly.steps
        return assembly.exhausted

    @cached_property
    def _familiar(self) -> tuple[Familiar, list[bytes]]:
        """What public graphs look like, and a name for the root of every block."""
        names = labels(self.levels.nodes.codes[self.levels.hops[-1].kinds])
        return Familiar(self.knowledge.auxiliary), names

    def _surprise(self, partial: PartialGraph) -> float:
        """At a part of a graph, beside public ones."""
        familiar, names = self._familiar
        neighbours: list[list[int]] = [[] for _ in partial.blocks]
        for u, v in partial.edges:
            neighbours[u].append(v)
            neighbours[v].append(u)
        return familiar.of([names[k] for k in partial.blocks], neighbours, [not needs for needs in partial.needs])


def _forms(found: _Set) -> set[tuple[bytes, bytes]]:
    """Of the graphs that have the observed gradient (``forms`` has also those that were rejected)."""
    return {graph.canonical_form() for graph in found.graphs}


def _joined(found: _Set, more: _Set, fit: Fit) -> _Set:
    """With the graphs that a search under weaker conditions found before it ended: they refute the stronger ones."""
    known = _forms(found)
    extra = [i for i, graph in enumerate(more.graphs) if graph.canonical_form() not in known]
    if not extra:
        return found
    graphs = [*found.graphs, *(more.graphs[i] for i in extra)]
    distances = [*found.distances, *(more.distances[i] for i in extra)]
    return _likely(dataclasses.replace(found, graphs=graphs, distances=distances, exhausted=False), fit)


def _likely(found: _Set, fit: Fit) -> _Set:
    """Without the graphs that are too unlikely beside the best, where noise accepts several gradients."""
    kept = np.flatnonzero(fit.likely(found.distances)).tolist()
    found.graphs, found.distances = [found.graphs[i] for i in kept], [found.distances[i] for i in kept]
    found.forms = _forms(found) if fit.deviation is not None else found.forms
    return found


def _reconstruction(
    observation: Observation, knowledge: Knowledge, levels: Levels, found: _Set, info: dict[str, Any], clock: Clock
) -> Reconstruction:
    prior = PRIORS[resolved(knowledge.prior, knowledge.space)]
    scores = prior.scores(found.graphs, knowledge.space)
    if knowledge.auxiliary:
        scores = np.add(scores, Familiar(knowledge.auxiliary).surprises(found.graphs))
    scores = scores + np.round(Fit.of(observation, knowledge.noise).excess(found.distances))
    far = np.array(found.distances) > NEAR
    order = sorted(range(len(scores)), key=lambda i: (far[i], scores[i], prior.ties(found.graphs[i])))
    conditions = [*levels.conditions, *degrees_assumed(knowledge, levels.nodes)]
    conditions += _rows_assumed(observation, knowledge)
    if knowledge.noise is not None:
        conditions += _noise_assumed(knowledge.noise)
    if observation.pruned:
        conditions.append("whole gradients are compared by the entries that were sent; the update was pruned")
    if knowledge.connected:
        conditions.append("the graph is connected")
    size = len(order)
    certificate = Certificate(
        status="at_least_k" if not found.exhausted else "unique" if size == 1 else "k_graphs",
        size=size,
        n_max=knowledge.n or knowledge.max_nodes,
        n_known=knowledge.n is not None,
        residual=max(found.distances),
        conditions=tuple(conditions),
        noise=knowledge.noise,
    )
    by_rows = dataclasses.replace(knowledge, auxiliary=())  # the likeliest order takes longer: of the first graph alone
    others = (numbered(found.graphs[i], by_rows) for i in order[1:])
    graphs = (numbered(found.graphs[order[0]], knowledge), *others)
    info = {**info, "seconds": clock.elapsed}
    return Reconstruction(graphs, found.distances[order[0]], "match", certificate=certificate, info=info)


def _rows_assumed(observation: Observation, knowledge: Knowledge) -> Iterator[str]:
    """What every search here takes for granted of rows and of the update."""
    space = knowledge.space
    if any(space.possible(g).size < len(f.values) for g, f in enumerate(space.features)):
        yield "no node has a feature value that the public statistics lack"
    yield "no row that a check looks at is zero"
    if observation.local is not None:
        yield f"the update of {observation.local.steps} local steps is that of one gradient"


def _noise_assumed(noise: float) -> list[str]:
    """What a certificate takes for granted of a noisy update."""
    return [
        f"the update carries independent noise of deviation {noise:.1e}; every test rejects the truth at a rate of "
        f"{RATE:.0e}, and graphs of other gradients are listed while none is that unlikely beside the best",
        "every direction of the rows that a check looks at stands above the noise",
    ]


def unsupported(observation: Observation, knowledge: Knowledge) -> str | None:
    """Why the census cannot be taken here, or None."""
    model = observation.model
    if not knowledge.space.discrete:
        return "it enumerates feature values, and this feature space has real-valued ones; use discrete features"
    if model.readout.additive is None:
        return "it needs a readout that adds up over nodes: 'node_mlp', or 'pooled' with mean or sum"
    try:
        resolved(knowledge.prior, knowledge.space)
    except ValueError as error:
        return str(error)
    if model.node_level and observation.scaled:
        return "the update was clipped, and node labels show only in its length; use a graph task, or no clipping"
    if not knowledge.connected:
        return "it assembles connected graphs only; leave connected=True"
    if model.node_level and observation.loss == "mse":
        return "node regression has no finite set of labels; use a classification task"
    return None


CENSUS = Attack(
    name="census",
    summary="counts building blocks, assembles every graph that fits, and certifies the set (jgleak)",
    run=run,
    unsupported=unsupported,
)
