"""The census attack: count the blocks, assemble the graphs, certify what else could explain the gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Array

from jgleak.attacks.attack import Attack, Budget, Clock, Reconstruction
from jgleak.attacks.census.assemble import Assembly
from jgleak.attacks.census.candidates import Candidates, Levels, degrees_assumed
from jgleak.attacks.census.contributions import Contributions
from jgleak.attacks.census.count import Counting
from jgleak.attacks.census.plain import plainness
from jgleak.attacks.census.prior import PRIORS
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import Fit, gradient_distances
from jgleak.attacks.noise import RATE
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.federated.observation import Knowledge, Observation
from jgleak.graph import Graph

PROGRAMMES = 2_000
"""Most nodes of the search tree for whole-number solutions, for one number of nodes."""

PARTIALS = (100_000, 5_000)
"""Most partial graphs of one census: of the smallest number of nodes that has one, and of larger ones."""

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
    """Exact reconstruction with a certificate (theory.md, sections 3 and 4).

    Candidate blocks pass span checks; the gradient, a weighted sum of what each block contributes, is solved for whole
    numbers of blocks; every connected graph with these blocks is assembled. While the equations leave a residual or
    nothing can be assembled, the checks are weakened. Deterministic: ``key`` is not used.

    Returns:
      The anonymity set, best first by prior, size and plainness, with its certificate. ``info`` has the numbers of
      candidates and blocks, the residual of the census, and seconds.
    """
    del key
    clock = budget.start()
    info: dict[str, Any] = {"attempts": 0, "candidates": 0, "blocks": 0, "residual": None}
    stop = "no candidates"
    try:
        if not Fit.of(observation, knowledge.noise).informative:
            raise TooManyCandidates(f"noise of deviation {knowledge.noise:.1e} alone explains the update")
        candidates = Candidates(observation, knowledge, clock, budget)
        for levels in candidates.attempts():
            info["attempts"] += 1
            found = _explain(observation, knowledge, levels, clock)
            info["candidates"] = candidates.checked
            info |= _facts(levels, found)
            if found.graphs:
                weaker = candidates.weakest() if found.exhausted else None
                if weaker is not None:
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
    model = observation.model
    absolute = model.readout == "pooled" and model.pooling == "sum"
    most = knowledge.n or knowledge.max_nodes
    counting = Counting(
        system.equations,
        system.observed,
        top,
        system.blocks,
        absolute=absolute,
        most=most,
        clock=clock,
        slack=None if knowledge.noise is None else system.slack,
    )
    found.residual, found.null, found.explained = counting.residual, counting.null.shape[1], counting.explained
    if not counting.explained:
        return found
    sizes = range(1, knowledge.max_nodes + 1) if knowledge.n is None else [knowledge.n]
    fit = Fit.of(observation, knowledge.noise)
    seen: set[tuple[int, ...]] = set()
    for census in counting.solutions(sizes, clock, budget=PROGRAMMES):
        if census is None:
            found.exhausted = False
            continue
        counts = np.bincount(system.blocks, census.counts, minlength=top.size).astype(np.int64)
        if tuple(counts) in seen:
            continue
        seen.add(tuple(counts))
        found.censuses += 1
        steps = PARTIALS[bool(found.graphs) and census.n > found.graphs[0].n]
        assembly = Assembly(top, counts, clock=clock, most=steps)
        for blocks, edges in assembly.graphs():
            codes = levels.nodes.codes[top.kinds[list(blocks)]]
            _add(observation, knowledge, fit, found, Graph(codes, np.array(edges, np.int64).reshape(-1, 2)))
            if clock.left <= 0:
                found.exhausted = False
                break
            if len(found.graphs) >= LISTED:
                found.exhausted = False
                return _likely(found, fit)
        found.partials += assembly.steps
        found.exhausted &= assembly.exhausted
        if clock.left <= 0:
            found.exhausted = False
            break
    return _likely(found, fit)


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


def _add(observation: Observation, knowledge: Knowledge, fit: Fit, found: _Set, graph: Graph) -> None:
    """Keep a graph that is new and has the observed gradient."""
    form = graph.canonical_form()
    if form in found.forms:
        return
    found.forms.add(form)
    distance, label = gradient_distances(observation, knowledge.space, [graph])[0]
    if distance <= fit.most:
        found.graphs.append(dataclasses.replace(graph, y=label))
        found.distances.append(distance)


def _reconstruction(
    observation: Observation, knowledge: Knowledge, levels: Levels, found: _Set, info: dict[str, Any], clock: Clock
) -> Reconstruction:
    scores = PRIORS[knowledge.prior].scores(found.graphs, knowledge.space)
    scores = scores + np.round(Fit.of(observation, knowledge.noise).excess(found.distances))
    order = sorted(range(len(scores)), key=lambda i: (scores[i], found.graphs[i].n, plainness(found.graphs[i])))
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
    graphs = tuple(found.graphs[i] for i in order)
    info = {**info, "seconds": clock.elapsed}
    return Reconstruction(graphs, found.distances[order[0]], "match", certificate=certificate, info=info)


def _rows_assumed(observation: Observation, knowledge: Knowledge) -> Iterator[str]:
    """What every search here takes for granted of rows and of the update."""
    space = knowledge.space
    if any(space.possible(g).size < len(f.values) for g, f in enumerate(space.features)):
        yield "no node has a feature value that the public statistics lack"
    yield "no row that a check looks at is zero"
    if observation.protocol == "fedavg":
        yield f"the update of {observation.local_steps} local steps is that of one gradient"


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
    if model.readout not in ("node_mlp", "pooled") or (model.readout == "pooled" and model.pooling == "max"):
        return "it needs a readout that adds up over nodes: 'node_mlp', or 'pooled' with mean or sum"
    if knowledge.prior not in PRIORS:
        return f"prior {knowledge.prior!r} is unknown; choose one of {', '.join(PRIORS)}"
    try:
        PRIORS[knowledge.prior].scores([], knowledge.space)
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
