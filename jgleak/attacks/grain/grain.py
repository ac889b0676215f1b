"""GRAIN (Drencheva et al., ICLR 2025): span checks for nodes and blocks, then a depth-first search for the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial

import numpy as np
from jaxtyping import Array

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.distance import Fit
from jgleak.attacks.grain.candidates import find_candidates
from jgleak.attacks.grain.distinct import reconstruct_distinct
from jgleak.attacks.grain.glued import reconstruct_glued
from jgleak.attacks.grain.reconstruct import reconstruct
from jgleak.attacks.grain.settings import DEFAULTS, GrainSettings
from jgleak.attacks.node_order import numbered
from jgleak.attacks.noise import described
from jgleak.attacks.options import changed_options, with_options
from jgleak.attacks.span.hops import Blocks
from jgleak.attacks.span.leak_points import leak_points
from jgleak.attacks.span.levels import KNOWN_EDGES, find_nodes, unlisted
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.attacks.span.settings import LIMITS, SpanLimits
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation

LEVELS = ((1, 2), (1,), (2,))
"""Hops whose blocks must pass the span checks, one attempt after another, until a graph matches."""


def run(
    settings: GrainSettings, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget
) -> Reconstruction:
    """The whole attack on one observation (Algorithm 1).

    Node filter, 1-hop and 2-hop blocks, structure filter, depth-first search with early stop at the first graph whose
    gradient matches. Deterministic: ``key`` is not used.

    Differs from the authors' code: see ``build`` and ``reconstruct``; the span tolerance follows the gradient's noise;
    where the readout sees the input rows, they are checked in its gradient, which does not depend on the adjacency; and
    when no graph matches, small ones are searched again without the 2-hop check (nodes that share an activation pattern
    in the readout can fail it), then without the 1-hop check (a singular adjacency can fail it).

    Under noise of known deviation every check is a test at a stated rate (docs/noise.md), and the search stops at the
    first graph whose gradient the noise could have turned into the update; the true graph may be another with nearly
    the same gradient.

    Returns:
      The best graph found. ``info`` has the numbers of nodes and blocks, the seconds of each stage, and options that
      are not the default.
    """
    del key
    found = _run(settings, observation, knowledge, budget)
    changed = changed_options(settings, DEFAULTS)
    return dataclasses.replace(found, info={**found.info, "options": changed}) if changed else found


def _run(settings: GrainSettings, observation: Observation, knowledge: Knowledge, budget: Budget) -> Reconstruction:
    clock = budget.start()
    try:
        if not Fit.of(observation, knowledge.noise).informative:
            raise TooManyCandidates(f"{described(knowledge.noise, observation.rounding)} alone explains the update")
        if knowledge.distinct_nodes:
            search = reconstruct_glued if settings.distinct_search == "glued" else reconstruct_distinct
            return search(observation, knowledge, settings, clock=clock, budget=budget)
        tolerances, limits = settings.tolerances.span, settings.limits.span
        nodes = find_nodes(observation, knowledge, clock=clock, tolerances=tolerances, limits=limits)
    except TooManyCandidates as error:
        stop = "time" if clock.left <= 0 else "no information"
        return Reconstruction((), None, stop, info={"reason": str(error), "seconds": clock.elapsed})
    seconds_nodes = clock.elapsed
    best = Reconstruction((), None, "no candidates", info={"nodes": int(nodes.degrees.size)})
    grown: dict[bool, Blocks] = {}
    for levels in LEVELS:
        candidates = find_candidates(
            observation, knowledge, nodes, settings=settings, levels=levels, grown=grown, clock=clock, budget=budget
        )
        if candidates is None:
            continue
        result = reconstruct(observation, knowledge, candidates, settings, clock=clock)
        if _distance(result) < _distance(best) or not best.graphs:
            best = result
        if result.stop in ("match", "time"):
            break
    graphs = tuple(numbered(graph, knowledge, settings.limits.order) for graph in best.graphs)
    info = {**best.info, "seconds_nodes": seconds_nodes, "seconds": clock.elapsed}
    return dataclasses.replace(best, graphs=graphs, info=info)


def _distance(result: Reconstruction) -> float:
    return np.inf if result.gradient_distance is None else result.gradient_distance


def unsupported(observation: Observation, knowledge: Knowledge, *, limits: SpanLimits = LIMITS) -> str | None:
    """Why GRAIN cannot run here, or None."""
    model = observation.model
    if (reason := unlisted(knowledge, limits)) is not None:
        return reason
    if knowledge.adjacency is not None:
        return KNOWN_EDGES
    if model.depth < 2:
        return "it needs at least two convolutions, to check 1-hop blocks"
    if model.of_nodes == "all":
        return (
            "a norm depends on all nodes, so a neighbourhood alone does not determine a node's state; under batch "
            "normalisation with returned running statistics use the census"
        )
    by_node = model.readout.additive == "nodes"
    if model.depth == 2 and not by_node:
        return (
            f"with two layers the 2-hop blocks are checked in a per-node readout, and {model.readout.kind!r} is not "
            "one; use readout 'node_mlp' or three layers"
        )
    if model.depth == 2 and model.jumping.keeps is None:
        return (
            f"with two layers the gradient does not show the states of 2-hop blocks under jump={model.jump!r}; "
            "use 'cat' or 'last'"
        )
    unseen = [hop for hop in range(min(model.depth, 3)) if not leak_points(observation, hop)] if model.frozen else []
    if unseen:
        return (
            f"the weights whose gradients show {unseen[0]}-hop blocks are frozen ({', '.join(model.frozen)}); use "
            "gradient matching (such as dlg)"
        )
    if not leak_points(observation, 0):
        return "no linear map takes the nodes' own rows; it needs an encoder, or a readout that sees the input"
    if model.edge_classes and knowledge.distinct_nodes:
        return "under distinct_nodes it cannot find the classes of edges; leave distinct_nodes out"
    if model.readout.slots is not None:
        return "a flattened readout depends on the order of nodes, which is not searched; use another readout"
    if model.node_level and not by_node:
        return (
            f"node labels are solved for in a per-node readout, and {model.readout.kind!r} is not one; use 'node_mlp'"
        )
    if model.node_level and observation.scaled:
        return "the update was clipped, and node labels show only in its length; use a graph task, or no clipping"
    return None


def grain(settings: GrainSettings = DEFAULTS) -> Attack:
    """The registry entry with its settings."""

    def configure(given: Mapping[str, str | float]) -> Attack:
        return grain(with_options(settings, given))

    return Attack(
        name="grain",
        run=partial(run, settings),
        unsupported=partial(unsupported, limits=settings.limits.span),
        edge_classes=True,
        frozen=True,
        with_options=configure,
    )


GRAIN = grain()
