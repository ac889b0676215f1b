"""The census attack: count the blocks, assemble the graphs, certify which other graphs could explain the gradient.

The stages of a search for one graph (``one_graph``), in the order in which they run and are best read:

1. ``candidates`` finds blocks hop by hop; ``checks`` lists the checks of every attempt.
2. ``equations`` computes what every block adds to the gradient; ``sketch`` reduces this to a few hundred numbers.
3. ``solve`` counts the blocks in real numbers; ``presolve`` excludes blocks that no solution has. Whole numbers follow
   (``Arithmetic.censuses``): ``whole_numbers`` for exact gradients, ``sphere_decoder`` for those under noise.
4. ``assemble`` takes one census after another, and ``growth`` builds every graph of each.
5. Where this gives no graph, ``enumerate`` tries all small graphs, within bounds that ``shares`` takes from the
   equations.
6. ``certify`` orders the graphs by the priors (``prior``, ``structure_prior``, ``neighbourhood_prior``), and states
   what the search proves.

Where all nodes are known to differ, ``distinct`` comes first. What an attempt finds is looked for again under
``fewer_conditions``. Stages 5 and later searches without counts are in ``without_counts``; ``small_numbers`` tries one
number of nodes after another where training statistics do not give it.

Where there are few feature vectors and these state no degree, blocks are too many to list and too alike to count. Then
``search`` looks for graphs one by one (``tempering``, by ``moves`` from one to another; ``node_sums`` and
``rooted_states`` compare them with the update).

All stages share one ``CensusProblem``, whose ``arithmetic`` does what differs between exact and noisy gradients.
``system`` holds the values that pass between stages 2 to 4, ``receptive_field`` how many hops a block needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from jaxtyping import Array

from jgleak.attacks.attack import Attack, Budget, Clock, Reconstruction
from jgleak.attacks.census.batches.batch import Single, of_each, reconstructed
from jgleak.attacks.census.batches.in_steps import in_steps
from jgleak.attacks.census.batches.in_turn import in_turn
from jgleak.attacks.census.distinct import DIFFER, ONE_GRAPH
from jgleak.attacks.census.local_path import every_step_whole
from jgleak.attacks.census.number_of_nodes import NumberUnknown, number_of_nodes
from jgleak.attacks.census.one_graph import of_one_graph
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS, CensusSettings
from jgleak.attacks.census.small_numbers import possible_numbers, with_each_number
from jgleak.attacks.census.unsupported import unsupported
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.noise import described
from jgleak.attacks.options import changed_options, with_options
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.federated.knowledge import Knowledge
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
    changed = changed_options(settings, DEFAULTS)
    options = {"options": changed} if changed else {}
    info: dict[str, Any] = {"attempts": 0, "candidates": 0, "blocks": 0, "residual": None, **options}
    try:
        knowledge = of_each(knowledge)
        problem = _problem(observation, knowledge, settings, clock, budget)
        if not problem.fit.informative:
            raise TooManyCandidates(f"{described(knowledge.noise, observation.rounding)} alone explains the update")
        if observation.batch_size == 1:
            return of_one_graph(problem, budget, clock, whole, info)
        return _of_batch(problem, clock, budget, partial(_single, settings, knowledge, key, budget))
    except NumberUnknown as error:
        one = observation.batch_size == 1
        reason, sizes = str(error), possible_numbers(observation, knowledge, settings) if one else range(0)
    except (TooManyCandidates, ConditionFailed) as error:
        reason, sizes = str(error), range(0)
    if sizes:

        def with_number(tried: CensusSettings, told: Knowledge, part: Clock) -> Reconstruction:
            return _single(tried, told, key, budget, observation, part)

        found = with_each_number(with_number, sizes, settings, knowledge, clock)
        if found is not None:
            told = {name: value for name, value in found.info.items() if name != "options"}
            return dataclasses.replace(found, info={**told, **options, "seconds": clock.elapsed})
        reason += f"; no graph of up to {sizes[-1]} nodes was found without it"
    stop = "time" if clock.left <= 0 else "no information"
    return Reconstruction((), None, stop, info={**info, "reason": reason, "seconds": clock.elapsed})


def _of_batch(problem: CensusProblem, clock: Clock, budget: Budget, single: Single) -> Reconstruction:
    """The graphs of a batch, together or one after another."""
    whole_batch = partial(reconstructed, budget=budget, single=single)
    if not problem.several:
        found = whole_batch(problem, clock)
    elif every_step_whole(problem.seen):
        found = in_steps(problem, clock, whole_batch)
    else:
        found = in_turn(problem, clock, budget, single)
    used = found.certificate is not None and DIFFER in found.certificate.conditions  # of the last graph left
    notes = {"notes": [ONE_GRAPH]} if problem.knowledge.distinct_nodes and not used else {}
    return dataclasses.replace(found, info={**found.info, **notes})


def _single(
    settings: CensusSettings, knowledge: Knowledge, key: Array, budget: Budget, observation: Observation, clock: Clock
) -> Reconstruction:
    """The census of an update of one graph, within the time that is left."""
    left = clock.left
    if left <= 0:
        return Reconstruction((), None, "time")
    return run(settings, observation, knowledge, key=key, budget=dataclasses.replace(budget, time_limit=left))


def _problem(
    observation: Observation, knowledge: Knowledge, settings: CensusSettings, clock: Clock, budget: Budget
) -> CensusProblem:
    """The problem; where the number of nodes is needed and unknown, it is derived from the returned statistics."""
    if not observation.model.returns_statistics or knowledge.n is not None:
        return CensusProblem.of(observation, knowledge, settings)
    part = clock.part(settings.limits.hop_share)
    counted = dataclasses.replace(knowledge, n=number_of_nodes(observation, knowledge, settings, part, budget))
    return dataclasses.replace(CensusProblem.of(observation, counted, settings), n_counted=True)


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
