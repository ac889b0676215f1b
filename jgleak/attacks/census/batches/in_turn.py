"""Several graphs, of which every local step saw some: found in the order of the steps.

The graphs of the first step are read at the weights that the client got (``first_graph``, ``first_pooled``). They give
the weights of the second step, and what they leave of the update is that of a client with the other graphs, which got
those weights. So the order need not be known, and in one pass nothing is taken to first order in the rate. All graphs
together are confirmed by training on them again; of some alone nothing is certified.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.batches.answers import beside, beside_others, cut
from jgleak.attacks.census.batches.dark import needed
from jgleak.attacks.census.batches.first_graph import FoundGraph, first_graphs
from jgleak.attacks.census.batches.first_pooled import first_pooled
from jgleak.attacks.census.batches.joint import replayed
from jgleak.attacks.census.batches.passes import Passes
from jgleak.attacks.census.batches.trained_again import of_trained, trained_again
from jgleak.attacks.census.batches.upstream import unsupported
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import CensusSettings
from jgleak.attacks.distance import MATCH
from jgleak.federated.observation import Observation

USUAL_FIRST = 100_000
"""With more 1-hop candidates than this, usual nodes are tried first (``CensusLimits.usual_first``): the span of several
graphs' input rows lets hundreds of feature vectors pass that no node has, and a search through the neighbourhoods of
all of them takes the time of all steps."""

MOST_PASSES = 16
"""Most passes over the graphs: the rows of all candidates are kept for each."""

Single = Callable[[Observation, Clock], Reconstruction]
"""The census of an update of one graph, within some time."""


def in_turn_unsupported(observation: Observation) -> str | None:
    """Why graphs of several local steps cannot be found one after another, or None."""
    local, size = observation.local, observation.batch_size
    assert local is not None
    passes, rest = divmod(local.steps, local.passes(size))
    if rest:
        return (
            f"{size} graphs in {local.steps} local steps of {local.loader}: it reads whole passes over the "
            f"graphs (a multiple of {local.passes(size)} steps), or all graphs in every step; take gradient matching "
            "(such as dlg)"
        )
    if local.shuffled and passes > 1:
        return (
            f"{passes} passes over {size} graphs, each in an order of its own: where a graph's gradients "
            "were taken depends on its place in every pass; it reads one pass, or passes in one order; take gradient "
            "matching (such as dlg)"
        )
    if passes > MOST_PASSES:
        return f"{passes} passes over the graphs: it reads at most {MOST_PASSES}; take fewer"
    if passes > 1 and (local.momentum or local.weight_decay):
        return (
            f"{passes} passes over {size} graphs with momentum or weight decay: it reads plain steps, or one pass; "
            "take gradient matching (such as dlg)"
        )
    readout = observation.model.readout
    if readout.maps == 1:
        return (
            "a readout without a hidden layer: its gradient has no more dimensions than the model has outputs, and "
            "graphs of all steps lie in the same; give it one (--head), or use gradient matching (such as dlg)"
        )
    if readout.additive == "pooled" and passes > 1:
        return (
            f"{passes} passes over {size} graphs behind a readout that pools: it reads one pass, or a readout per node "
            "('node_mlp'); take gradient matching (such as dlg)"
        )
    if readout.additive == "pooled" and not readout.masks:
        return (
            "behind pooling it tells graphs of several local steps apart by the units that each leaves dark, and needs "
            "a map with ReLU and a last map; use gradient matching (such as dlg)"
        )
    if not observation.model.trains("readout", *readout.first_map):
        return "the readout's first map is frozen, whose gradient shows the blocks of the first step"
    return unsupported(observation)


def in_turn(problem: CensusProblem, clock: Clock, budget: Budget, single: Single) -> Reconstruction:
    """The graphs of a client of which every local step saw some, in the order of the steps; ``stop`` and ``info`` as of
    other batches.

    Args:
      problem: the client's update and what is known.
      clock: ends the searches.
      budget: bounds them.
      single: the census of an update of one graph.
    """
    seen, size, space = problem.seen, problem.seen.batch_size, problem.knowledge.space
    best, far = list[FoundGraph](), None
    for found in _found(problem, Passes.of(seen), clock, budget, single):
        off = replayed(seen, space, [one.answer.graphs[0] for one in found]) if len(found) == size else None
        if len(found) > len(best) or (off is not None and far is not None and off < far):
            best, far = found, off
        if (far is not None and far <= MATCH) or clock.left <= 0:
            break
    matched, answers = far is not None and far <= MATCH, [one.answer for one in best]
    if matched:
        firsts, every = [answer.graphs[0] for answer in answers], [one.of_all_sizes(clock) for one in best]
        answers, far = trained_again(seen, space, every, firsts, clock)
    answers = [_confirmed(answer, far if matched else None) for answer in answers]
    info: dict[str, Any] = {"graphs": size, "found": len(answers)}
    if len(answers) != size:
        found = f"{len(answers)} of {size} graphs found; without the others no training confirms what was found"
        pooled = seen.model.readout.additive == "pooled"
        why = f". {needed(size)}; jgleak check FILE says how many random graphs leave at these weights" * pooled
        info["reason"] = found if answers else f"no graph of the first step was found{why}"
    elif not matched:
        info["reason"] = "training on the graphs that were found does not return the update"
    return Reconstruction(
        graphs=tuple(answer.graphs[0] for answer in answers),
        gradient_distance=far,
        stop="match" if matched else "time" if clock.left <= 0 else "nothing assembled",
        certificate=of_trained(answers, far) if far is not None and matched else None,
        info=info | {"seconds": clock.elapsed},
        members=tuple(answers),
    )


def _confirmed(answer: Reconstruction, far: float | None) -> Reconstruction:
    """The answer with the distance of the whole client's update, which claims nothing about graphs outside its list;
    without a certificate where nothing confirms it."""
    if answer.certificate is None or far is None:
        return dataclasses.replace(answer, gradient_distance=far, certificate=None)
    residual = max(far, answer.certificate.residual)
    made = dataclasses.replace(answer.certificate, size=len(answer.graphs), residual=residual)
    return beside_others(cut(dataclasses.replace(answer, gradient_distance=far, certificate=made)))


def _found(
    problem: CensusProblem, left: Passes, clock: Clock, budget: Budget, single: Single
) -> Iterator[list[FoundGraph]]:
    """The answers to the graphs of the remaining steps, as far as they are found."""
    if left.size == 1 and len(left.weights) == 1:
        for answer in beside(single(left.seen, clock)):
            yield [FoundGraph.only(answer)]
        return
    # Without graphs of the first step there is nothing to do later, so that their search may take all of the time. The
    # price: behind graphs that are wrong the search for the next ones may take what is left.
    here = left.problem(problem.knowledge, _usual_first(problem.settings))
    ways = first_graphs if left.seen.model.readout.additive == "nodes" else first_pooled
    for first in ways(here, left.left, clock, budget):
        alone = True
        if left.size > len(first) and clock.left > 0:
            rest = left.without([one.answer.graphs[0] for one in first], problem.knowledge.space)
            for others in _found(problem, rest, clock, budget, single):
                alone = False
                yield [*first, *others]
        if alone:
            yield first
        if clock.left <= 0:
            return


def _usual_first(settings: CensusSettings) -> CensusSettings:
    limits = settings.limits
    limits = dataclasses.replace(limits, usual_first=min(limits.usual_first, USUAL_FIRST))
    return dataclasses.replace(settings, limits=limits)
