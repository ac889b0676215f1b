"""The census attack: count the blocks, assemble the graphs, certify which other graphs could explain the gradient.

The stages, in the order in which they run and are best read:

1. ``candidates`` finds blocks hop by hop; ``checks`` lists the checks of every attempt. 2. ``equations`` computes what
every block adds to the gradient; ``sketch`` reduces this to a few hundred numbers. 3. ``solve`` counts the blocks in
real numbers; ``presolve`` excludes blocks that no solution has. Whole numbers follow
   (``Arithmetic.censuses``): ``whole_numbers`` for exact gradients, ``sphere_decoder`` for those under noise.
4. ``assemble`` takes one census after another, and ``growth`` builds every graph of each. 5. Where this gives no graph,
``enumerate`` tries all small graphs, within bounds that ``shares`` takes from
   the equations.
6. ``certify`` orders the graphs by the priors (``prior``, ``structure_prior``, ``neighbourhood_prior``), and states
what the search proves.

Where there are few feature vectors and these state no degree, blocks are too many to list and too alike to count. Then
``search`` looks for graphs one by one (``tempering``, by ``moves`` from one to another; ``node_sums`` and
``rooted_states`` compare them with the update).

All stages share one ``CensusProblem``, whose ``arithmetic`` does what differs between exact and noisy gradients.
``system`` holds the values that pass between stages 2 to 4, ``receptive_field`` how many hops a block needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from jaxtyping import Array

from jgleak.attacks.attack import MORE_CONDITIONS, OUT_OF_TIME, Attack, Budget, Clock, Reconstruction
from jgleak.attacks.census.arithmetic import arithmetic_of
from jgleak.attacks.census.assemble import AnonymitySet
from jgleak.attacks.census.attempted import Attempted, counted
from jgleak.attacks.census.batches.batch import batch_unsupported, of_each, reconstructed
from jgleak.attacks.census.batches.in_steps import in_steps
from jgleak.attacks.census.batches.in_turn import in_turn
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.certify import certify
from jgleak.attacks.census.distinct import DIFFER, DROPPED, ONE_GRAPH, differing, distinct, unused
from jgleak.attacks.census.enumerate import enumerated, may_be_small
from jgleak.attacks.census.local_path import every_step_whole
from jgleak.attacks.census.number_of_nodes import NumberUnknown, number_of_nodes
from jgleak.attacks.census.prior import resolved
from jgleak.attacks.census.problem import CensusProblem, rounds_of
from jgleak.attacks.census.row_rank import unspanned
from jgleak.attacks.census.search import searchable, searched
from jgleak.attacks.census.settings import DEFAULTS, CensusSettings
from jgleak.attacks.census.shares import shares
from jgleak.attacks.census.small_numbers import small_numbers
from jgleak.attacks.census.unstated_degrees import degrees_assumed, degrees_unstated
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.noise import described
from jgleak.attacks.options import changed_options, with_options
from jgleak.attacks.span.binary_features import unread
from jgleak.attacks.span.leak_points import leak_points
from jgleak.attacks.span.levels import input_subspace
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.attacks.span.settings import LIMITS, SpanLimits
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation


def run(
    settings: CensusSettings, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget
) -> Reconstruction:
    """Exact reconstruction with a certificate (docs/theory.md, sections 2 and 3).

    Candidate blocks pass span checks; the gradient, a weighted sum of what each block contributes, is solved for whole
    numbers of blocks; every connected graph with these blocks is assembled. While the equations leave a residual or
    nothing can be assembled, the checks are weakened. In the end small graphs are enumerated. Deterministic: ``key`` is
    not used.

    Returns:
      The anonymity set with its certificate, in the order of ``certify``. ``info`` has the number of attempts, the
      number of candidates over all attempts, ``Attempted.facts`` of the last one, the seconds, options that are not the
      default, where the search did not finish or found no graph, the reason where it is known, and ``notes`` on what
      was told and not used.
    """
    whole = budget.start()
    clock = whole.part(settings.limits.search_share)
    info: dict[str, Any] = {"attempts": 0, "candidates": 0, "blocks": 0, "residual": None, **_options(settings)}
    stop, settled = "no candidates", None
    try:
        knowledge = of_each(knowledge)
        problem = _problem(observation, knowledge, settings, clock, budget)
        if not problem.fit.informative:
            raise TooManyCandidates(f"{described(knowledge.noise, observation.rounding)} alone explains the update")
        if observation.batch_size > 1:
            single = partial(_single, settings, knowledge, key, budget)
            whole_batch = partial(reconstructed, budget=budget, single=single)
            if not problem.several:
                found = whole_batch(problem, clock)
            elif every_step_whole(problem.seen):
                found = in_steps(problem, clock, whole_batch)
            else:
                found = in_turn(problem, clock, budget, single)
            used = found.certificate is not None and DIFFER in found.certificate.conditions  # of the last graph left
            notes = {"notes": [ONE_GRAPH]} if knowledge.distinct_nodes and not used else {}
            return dataclasses.replace(found, info={**found.info, **notes})
        counting = clock.part(settings.limits.counting_share) if searchable(problem) else clock
        candidates = CensusCandidates(problem, counting, budget)
        if knowledge.distinct_nodes:
            conditions, found = distinct(problem, candidates, counting.part(settings.limits.distinct_share), budget)
            most = max((problem.most_nodes, *(one.graph.n for one in found.graphs)))
            if found.exhausted and found.graphs:
                return _certified(problem, Answer(conditions, found, most), info, whole, late=counting.left <= 0)
            if found.graphs:
                settled = Settled(problem, Answer(conditions, found, most))
            else:
                info["notes"] = [unused(problem, candidates) or DROPPED]
        # after several local steps graphs cannot be enumerated in batches: their gradients are compared one by one
        starts = () if problem.several else candidates.enumerable
        small, unsolved = any(may_be_small(problem, start.nodes) for start in starts), list[Attempted]()
        early = counting.part(1.0 - settings.limits.enumeration_share) if small else counting
        for number, levels in enumerate(candidates.attempts(early), start=1):
            attempted = counted(problem, levels, early)
            late, candidates.hurried = early.left <= 0 or candidates.hurried, False
            if attempted.found.graphs:
                attempted = _taken_again(problem, candidates, attempted, counting)
            info |= {"attempts": number, "candidates": candidates.checked, **attempted.facts}
            if attempted.found.graphs:
                degrees = degrees_assumed(knowledge, attempted.levels, settings.limits.span)
                answer = Answer((*attempted.levels.conditions, *degrees), attempted.found, attempted.most)
                late, again = late or counting.left <= 0, candidates.hurried
                answer = answer if settled is None else settled.beside(answer)
                return _certified(problem, answer, info, whole, late=late, again=again)
            stop = "nothing assembled" if attempted.explained else "missing blocks"
            if attempted.explained and attempted.levels.nodes is candidates.start.nodes:
                unsolved.append(attempted)
        ways = [partial(_enumerated, unsolved=unsolved)] if small else []
        for way in [*ways, _searched] if searchable(problem) else ways:
            answer, facts = way(problem, candidates, clock)
            info |= facts
            if answer.found.graphs:
                answer = answer if settled is None else settled.beside(answer)
                return _certified(problem, answer, info, whole, late=clock.left <= 0)
        if not info["attempts"] and candidates.too_many:
            raise TooManyCandidates(candidates.too_many)
        lacking = unspanned(problem, candidates.start.nodes)
        if lacking is not None:
            info["reason"] = lacking
        elif candidates.given_up and stop != "nothing assembled":
            info["reason"] = candidates.given_up[0]
        elif knowledge.space.degree is None and knowledge.noise is None:
            info["reason"] = degrees_unstated(knowledge, settings.limits)
    except (TooManyCandidates, ConditionFailed) as error:
        stop, info["reason"] = "no information", str(error)
        if isinstance(error, NumberUnknown) and observation.batch_size == 1 and settings.limits.enumerated_nodes:
            small = _of_small_numbers(settings, observation, knowledge, key, budget, clock)
            if small is not None:
                return small
            info["reason"] += f"; no graph of up to {settings.limits.enumerated_nodes} nodes was found without it"
    if settled is not None:
        told = {name: value for name, value in info.items() if name != "reason"}  # which is why nothing was found
        return _certified(settled.problem, settled.answer, told, whole, late=clock.left <= 0)
    info = {**arithmetic_of(observation, knowledge.noise, settings).reason(stop), **info, "seconds": clock.elapsed}
    return Reconstruction((), None, "time" if clock.left <= 0 else stop, info=info)


def _single(
    settings: CensusSettings, knowledge: Knowledge, key: Array, budget: Budget, observation: Observation, clock: Clock
) -> Reconstruction:
    """The census of one graph of a batch, within the time that is left."""
    left = clock.left
    if left <= 0:
        return Reconstruction((), None, "time")
    return run(settings, observation, knowledge, key=key, budget=dataclasses.replace(budget, time_limit=left))


def _of_small_numbers(
    settings: CensusSettings,
    observation: Observation,
    knowledge: Knowledge,
    key: Array,
    budget: Budget,
    clock: Clock,
) -> Reconstruction | None:
    """A graph of few nodes, whose number is tried: all graphs of each, and then the whole census of each. There are at
    least as many nodes as their rows span dimensions, of which the statistics' rounding may show one too many."""

    def way(share: float, n: int, clock: Clock) -> Reconstruction:
        limits = dataclasses.replace(settings.limits, enumeration_share=share)
        told, within = dataclasses.replace(knowledge, n=n), dataclasses.replace(budget, time_limit=max(clock.left, 0.0))
        return run(dataclasses.replace(settings, limits=limits), observation, told, key=key, budget=within)

    span = input_subspace(observation, knowledge, settings.tolerances.span)
    sizes = range(
        max(2, span.rank - 1 if span.informative else 0),
        min(settings.limits.enumerated_nodes, rounds_of(knowledge, settings.limits)[-1][-1]) + 1,
    )
    found = small_numbers([partial(way, share) for share in (1.0, settings.limits.enumeration_share)], sizes, clock)
    if found is None:
        return None
    told = {name: value for name, value in found.info.items() if name != "options"}
    return dataclasses.replace(found, info={**told, **_options(settings), "seconds": clock.elapsed})


class Answer(NamedTuple):
    """What one of the searches found.

    Attributes:
      conditions: what was assumed.
      found: the graphs.
      most: largest number of nodes that was searched.
    """

    conditions: tuple[str, ...]
    found: AnonymitySet
    most: int


class Settled(NamedTuple):
    """An open list of graphs whose nodes all differ, beside which graphs are counted as if the nodes need not."""

    problem: CensusProblem
    answer: Answer

    def beside(self, other: Answer) -> Answer:
        """Both under the assumption: where the other list is complete and has all of this one, its graphs whose nodes
        differ, so that an assumption makes no list weaker; else those of both, open."""
        kept = tuple(one for one in other.found.graphs if differing(one.graph))
        found = dataclasses.replace(other.found, graphs=kept)
        if found.exhausted and self.answer.found.forms <= found.forms:
            return Answer((DIFFER, *other.conditions), found, other.most)
        return self.answer._replace(found=self.answer.found.joined(found))


def _certified(
    problem: CensusProblem, answer: Answer, info: Mapping[str, Any], clock: Clock, *, late: bool, again: bool = False
) -> Reconstruction:
    """The graphs of an answer, at least one, with their certificate. ``late``: the search, or a part of it, ran out of
    time; ``again``: so did the search under fewer conditions."""
    certified = certify(problem, answer.conditions, answer.found, answer.most, clock)
    ended = answer.found.exhausted
    cut = (MORE_CONDITIONS if again else None) if ended else (OUT_OF_TIME if late or again else None)
    info = {**info, **({} if cut is None else {"reason": cut}), "seconds": clock.elapsed}
    return Reconstruction(certified.graphs, certified.distance, "match", certificate=certified.certificate, info=info)


def _enumerated(
    problem: CensusProblem, candidates: CensusCandidates, clock: Clock, unsolved: Sequence[Attempted]
) -> tuple[Answer, dict[str, Any]]:
    """All small graphs: within bounds from the last equations that left counts open, or else of all possible nodes.
    Half of the time is kept for the random search, where that follows."""
    most = min(problem.most_nodes, problem.limits.enumerated_nodes)
    clock = clock.part(0.5) if searchable(problem) else clock
    largest, last = problem.knowledge.max_degree, unsolved[-1] if unsolved else None
    known = () if largest is None else (f"no node has more than {largest} neighbours, which is known",)
    if last is not None and last.solution is not None and problem.knowledge.space.degree is not None:
        part, nodes = clock.part(0.5), candidates.start.nodes
        found = enumerated(problem, nodes, shares(problem, last.levels, last.solution, part), part)
        if found.graphs:
            whole = dataclasses.replace(found, exhausted=found.exhausted and last.levels.complete)
            return Answer((*last.levels.conditions, *known), whole, most), {"enumerated": found.partials}
    starts = [start for start in candidates.enumerable if may_be_small(problem, start.nodes)]
    answer, partials = Answer((), AnonymitySet(exhausted=False), most), 0
    for left, start in zip(range(len(starts), 0, -1), starts, strict=True):
        found = enumerated(problem, start.nodes, None, clock.part(1.0 / left))
        answer, partials = Answer((*start.conditions, *known), found, most), partials + found.partials
        if found.graphs:
            break
    return answer, {"enumerated": partials}


def _searched(problem: CensusProblem, candidates: CensusCandidates, clock: Clock) -> tuple[Answer, dict[str, Any]]:
    """Graphs that parallel tempering finds."""
    if not candidates.enumerable:
        return Answer((), AnonymitySet(exhausted=False), 0), {}
    levels, found, facts = searched(problem, candidates.enumerable[0].nodes, clock)
    conditions = () if levels is None else levels.conditions
    return Answer(conditions, found, problem.rounds[0][-1]), facts


def _problem(
    observation: Observation, knowledge: Knowledge, settings: CensusSettings, clock: Clock, budget: Budget
) -> CensusProblem:
    """The problem; where the number of nodes is needed and unknown, it is derived from the returned statistics."""
    if not observation.model.returns_statistics or knowledge.n is not None:
        return CensusProblem.of(observation, knowledge, settings)
    part = clock.part(settings.limits.hop_share)
    counted = dataclasses.replace(knowledge, n=number_of_nodes(observation, knowledge, settings, part, budget))
    return dataclasses.replace(CensusProblem.of(observation, counted, settings), n_counted=True)


def _taken_again(problem: CensusProblem, candidates: CensusCandidates, answer: Attempted, clock: Clock) -> Attempted:
    """The answer under fewer conditions, where the limits allow: with all degrees, where nodes of few neighbours were
    tried first, and then, where its search was exhausted or its candidates alone leave it open (``conic``), under the
    conditions of ``checks.WEAKEST``."""
    all_degrees = candidates.of_all_degrees(answer.levels)
    answer = _wider(problem, answer, all_degrees, clock)
    start = answer.levels.start
    some_blocks = start is not None and start.complete and not answer.levels.complete
    weakest = candidates.weakest(answer.levels) if answer.found.exhausted or some_blocks else None
    answer = _wider(problem, answer, weakest, clock)
    candidates.hurried |= clock.left <= 0 and not (all_degrees is None and weakest is None)
    return answer


def _wider(problem: CensusProblem, answer: Attempted, weaker: Levels | None, clock: Clock) -> Attempted:
    """The answer from ``weaker``, candidates under fewer conditions (None: there are none). It replaces the first one
    if its search was exhausted and it has every graph of the first. Otherwise graphs that only it has refute the first
    one's conditions: they are added, and the search counts as not exhausted.
    """
    if weaker is None or (weaker.nodes is answer.levels.nodes and weaker.conditions == answer.levels.conditions):
        return answer
    again = counted(problem, weaker, clock)
    if again.found.exhausted and answer.found.forms <= again.found.forms:
        return again
    both = answer.found.joined(again.found)
    if len(both.graphs) == len(answer.found.graphs):
        return answer
    likely = dataclasses.replace(both, exhausted=False).likely(problem.fit)
    return dataclasses.replace(again, found=likely, most=max(answer.most, again.most))


def _options(settings: CensusSettings) -> dict[str, Any]:
    changed = changed_options(settings, DEFAULTS)
    return {"options": changed} if changed else {}


def unsupported(observation: Observation, knowledge: Knowledge, *, limits: SpanLimits = LIMITS) -> str | None:
    """Why the census cannot run here, or None."""
    model = observation.model
    if not knowledge.space.discrete:
        return (
            "it enumerates feature values, and this feature space has real-valued ones; use discrete features "
            "(--no-attributes leaves the others out)"
        )
    if knowledge.features is None and (reason := unread(knowledge.space, limits)) is not None:
        return reason
    mixing = [n.kind for n in model.norms.values() if n.of_nodes == "all" and not n.returns_statistics]
    if mixing:
        return (
            f"the norm {mixing[0]!r} depends on all nodes, so a neighbourhood alone does not determine a node's state"
        )
    if model.returns_statistics and (knowledge.noise is not None or observation.pruned):
        return "in training mode it takes sums over nodes from the norms' gradients, which noise and pruning change"
    if model.returns_statistics and observation.statistics is None:
        return "no running statistics were returned, and without the batch's statistics no node's state is known"
    if model.frozen and model.returns_statistics:
        return "in training mode it needs the gradients of all norms and of the maps before them; train all parts"
    shows_upstream = model.readout.first_map if model.readout.additive == "pooled" else model.readout.last_map
    if model.readout.additive is not None and not model.trains("readout", *shows_upstream):
        return (
            f"it takes the gradient at the sum over nodes from the readout, where {', '.join(model.frozen)} is frozen; "
            "use gradient matching (such as dlg)"
        )
    if model.frozen and not leak_points(observation, 0):
        return (
            f"the weights that take the nodes' own rows are frozen ({', '.join(model.frozen)}), so that feature values "
            "cannot be checked; use gradient matching (such as dlg)"
        )
    if not leak_points(observation, 0):
        if model.returns_statistics:
            return (
                "batch normalisation in training mode after the first layer hides a direction of the input rows, and "
                "the returned statistics do not show it where the map is nearly singular or narrower than these rows"
            )
        return (
            "no linear map takes the nodes' own rows (GINE adds them up behind an activation), so that feature values "
            "cannot be checked; it needs an encoder, or a readout that sees the input"
        )
    if observation.batch_size > 1 and (reason := batch_unsupported(observation, knowledge)) is not None:
        return reason
    if model.readout.additive is None:
        return "it needs a readout that adds up over nodes: 'node_mlp', or 'pooled' with mean, sum or both, without max"
    try:
        resolved(knowledge.prior, knowledge.space)
    except ValueError as error:
        return str(error)
    if model.node_level and observation.scaled:
        return "the update was clipped, and node labels show only in its length; use a graph task, or no clipping"
    if not knowledge.connected:
        return "it assembles connected graphs only; keep connected=True"
    if model.node_level and Loss.of(observation.loss).regression:
        return "node regression has no finite set of labels; use a classification task"
    return None


def census(settings: CensusSettings = DEFAULTS) -> Attack:
    """The registry entry with its settings."""

    def configure(given: Mapping[str, str | float]) -> Attack:
        return census(with_options(settings, given))

    return Attack(
        name="census",
        run=partial(run, settings),
        unsupported=partial(unsupported, limits=settings.limits.span),
        several=True,
        edge_classes=True,
        frozen=True,
        with_options=configure,
    )


CENSUS = census()
