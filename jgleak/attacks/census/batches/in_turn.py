"""Several graphs, one a local step: found in the order of the steps.

The graph of the first step is read at the weights that the client got (``first_step``). It gives the weights of the
second step, and what it leaves of the update is that of a client with the other graphs, which got those weights. The
last graph's gradient is alone. So the order need not be known, and nothing is taken to first order in the rate. All
graphs together are confirmed by training on them again; of some alone nothing is certified.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.assemble import CUT, AnonymitySet, Growing
from jgleak.attacks.census.batches.answers import beside, cut, of_all
from jgleak.attacks.census.batches.first_step import first_counts
from jgleak.attacks.census.batches.joint import each_gradient, replayed
from jgleak.attacks.census.batches.upstream import unsupported
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.certify import certify
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.unstated_degrees import degrees_assumed
from jgleak.attacks.distance import MATCH
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.observation import Observation
from jgleak.graph import Graph

STOOD_ALONE = "rows that enter the readout, and what flows back to them, are independent over the graphs of all steps"
"""What a list of a graph takes for granted that was read at the weights of its step."""

USUAL_FIRST = 100_000
"""With more 1-hop candidates than this, usual nodes are tried first (``CensusLimits.usual_first``): the span of several
graphs' input rows lets hundreds of feature vectors pass that no node has, and a search through the neighbourhoods of
all of them takes the time of all steps."""

Single = Callable[[Observation, Clock], Reconstruction]
"""The census of an update of one graph, within some time."""


def in_turn_unsupported(observation: Observation) -> str | None:
    """Why graphs of several local steps cannot be found one after another, or None."""
    local, size = observation.local, observation.batch_size
    assert local is not None
    if local.loader != 1 or local.steps != size:
        return (
            f"{size} graphs in {local.steps} local steps of {local.loader}: it reads one pass over the graphs, one a "
            f"step (a loader of 1 and {size} steps), or all graphs in every step; take gradient matching (as dlg)"
        )
    if local.momentum or local.weight_decay:
        return "graphs of several local steps are read after plain steps; take gradient matching (as dlg)"
    if observation.model.readout.additive != "nodes":
        return "graphs of several local steps are read off a readout a node ('node_mlp'); take gradient matching"
    return unsupported(observation)


def in_turn(problem: CensusProblem, clock: Clock, budget: Budget, single: Single) -> Reconstruction:
    """The graphs of a client of which every local step saw one, in the order of the steps; ``stop`` and ``info`` as of
    other batches.

    Args:
      problem: the client's update and what is known.
      clock: ends the searches.
      budget: bounds them.
      single: what takes an update of one graph.
    """
    seen, size = problem.seen, problem.seen.batch_size
    answers = _found(problem, _at_once(seen), clock, budget, single)
    info: dict[str, Any] = {"graphs": size, "found": len(answers)}
    far = None
    if len(answers) == size:
        far = replayed(seen, problem.knowledge.space, [answer.graphs[0] for answer in answers])
    matched = far is not None and far <= MATCH
    answers = [_confirmed(answer, far if matched else None) for answer in answers]
    if len(answers) != size:
        info["reason"] = f"{len(answers)} of {size} graphs were found, which those of the other steps do not confirm"
    return Reconstruction(
        graphs=tuple(answer.graphs[0] for answer in answers),
        gradient_distance=far,
        stop="match" if matched else "time" if clock.left <= 0 else "nothing assembled",
        certificate=of_all(answers, far) if far is not None and matched else None,
        info=info | {"seconds": clock.elapsed},
        members=tuple(answers),
    )


def _confirmed(answer: Reconstruction, far: float | None) -> Reconstruction:
    """The answer with the distance of the whole client's update; without a certificate where nothing confirms it."""
    if answer.certificate is None or far is None:
        return dataclasses.replace(answer, gradient_distance=far, certificate=None)
    made = dataclasses.replace(answer.certificate, residual=max(far, answer.certificate.residual))
    return dataclasses.replace(answer, gradient_distance=far, certificate=made)


def _at_once(seen: Observation) -> Observation:
    """The update as the mean gradient of the graphs at the weights that the client got."""
    return dataclasses.replace(seen, protocol="fedsgd", local=None)


def _found(
    problem: CensusProblem, left: Observation, clock: Clock, budget: Budget, single: Single
) -> list[Reconstruction]:
    """The graphs of the steps that are left, as far as they are found."""
    if left.batch_size == 1:
        return [cut(answer) for answer in beside(single(left, clock))]
    best = list[Reconstruction]()
    # Without the first graph there is nothing to do later, so that its search may take all of the time. The price:
    # behind a first graph that is wrong the search for the next one may take what is left.
    for answer in _firsts(problem, left, clock, budget):
        more = [answer, *_found(problem, _after(problem, left, answer.graphs[0]), clock, budget, single)]
        best = max(best, more, key=len)
        if len(best) == left.batch_size or clock.left <= 0:
            break
    return best


def _firsts(problem: CensusProblem, left: Observation, clock: Clock, budget: Budget) -> Iterator[Reconstruction]:
    """What the graph of the first step that is left may be."""
    limits = problem.settings.limits
    limits = dataclasses.replace(limits, usual_first=min(limits.usual_first, USUAL_FIRST))
    own = CensusProblem.of(left, problem.knowledge, dataclasses.replace(problem.settings, limits=limits))
    tried = set[bytes]()
    for levels in CensusCandidates(own, clock, budget).attempts(clock):
        if levels.top.size > own.limits.blocks_counted:
            continue
        for counts, label in first_counts(own, levels, clock):
            growing = Growing(own, levels, clock, told=(0.0, label))
            found = growing.every(AnonymitySet(), counts, own.limits.partial_graphs).joined(CUT)
            forms = b"".join(sorted(part for form in found.forms for part in form))
            if not found.graphs or forms in tried:
                continue
            tried.add(forms)
            degrees = degrees_assumed(own.knowledge, levels, own.limits.span)
            made = certify(own, (*levels.conditions, *degrees, STOOD_ALONE), found, int(counts.sum()), clock)
            yield Reconstruction(made.graphs, made.distance, "match", certificate=made.certificate)


def _after(problem: CensusProblem, left: Observation, graph: Graph) -> Observation:
    """The update of a client with the other graphs, which begins where the step on this graph ended."""
    local = problem.seen.local
    assert isinstance(local, LocalTraining)
    (own,) = each_gradient(dataclasses.replace(left, batch_size=1), problem.knowledge.space, [graph])
    size = left.batch_size

    def rest(seen: Any, part: Any) -> np.ndarray:
        return ((size * np.asarray(seen, np.float64) - part) / (size - 1)).astype(np.float32)

    def moved(weights: Any, part: Any) -> np.ndarray:
        return (np.asarray(weights, np.float64) - local.rate * part).astype(np.float32)

    own = left.model.trained(own) if left.model.frozen else own
    update, params = jax.tree.map(rest, left.update, own), jax.tree.map(moved, left.params, own)
    return dataclasses.replace(left, params=params, update=update, batch_size=size - 1)
