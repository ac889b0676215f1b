"""Several graphs, all of them in every local step: found at the middle of the path, and trained again.

The weights at the middle of the straight path give the mean gradient of the steps up to second order in the rate, so
the update is first taken for a batch's gradient there, with tolerances that allow for it (``switched``,
``moved_batch_row``). Training on the graphs found gives the error of that approximation: the difference between their
mean gradient along the path and their gradient at its middle. Minus this difference of the true graphs, the update is
their gradient at the middle up to rounding; minus that of graphs that are nearly right, it is closer than before, and
is searched again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jgleak.attacks.attack import Clock, Reconstruction
from jgleak.attacks.census.batches.answers import checked, cut
from jgleak.attacks.census.batches.joint import each_gradient, replayed, retrained, summed
from jgleak.attacks.census.batches.trained_again import of_trained, trained_again
from jgleak.attacks.census.local_path import Point
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.distance import MATCH
from jgleak.federated.observation import Observation
from jgleak.graph import Graph

TURNS = 4
"""Most searches."""

FOLLOWED = "the graphs of the batch are among those that were looked at in the middle of the path of the weights"
"""A condition of the certificates of graphs that were in every local step."""

Batch = Callable[[CensusProblem, Clock], Reconstruction]
"""The census of a batch's gradient, within some time."""


def in_steps(problem: CensusProblem, clock: Clock, batch: Batch) -> Reconstruction:
    """The graphs of a client all of which every local step saw; ``stop`` and ``info`` as of other batches.

    Args:
      problem: the client's update, at the middle of the path, and what is known.
      clock: ends the searches.
      batch: takes a batch's gradient.
    """
    seen, space, here = problem.seen, problem.knowledge.space, problem
    best, far = None, np.inf
    for turn in range(1, TURNS + 1):
        found = batch(here, clock.part(0.75))
        if best is not None and len(found.graphs) < len(best.graphs):
            break
        off = replayed(seen, space, found.graphs) if len(found.graphs) == seen.batch_size else np.inf
        if best is not None and not off < far:
            break
        best, far = dataclasses.replace(found, info={**found.info, "searches": turn}), off
        if far <= MATCH or not np.isfinite(far) or clock.left <= 0:
            break
        here = _at_middle(problem, corrected(problem, found.graphs))
    assert best is not None
    return _answered(problem, best, far, clock)


def _at_middle(problem: CensusProblem, here: Observation) -> CensusProblem:
    """The problem of a gradient in the middle of the path."""
    only = Point(here.params, here.model.readout_of(here.update), 1.0)
    return dataclasses.replace(problem, observation=here, path=(only,))


def corrected(problem: CensusProblem, graphs: Sequence[Graph]) -> Observation:
    """The update with the gradient of these graphs at the middle of the path, in place of their mean along it."""
    seen, space, here = problem.seen, problem.knowledge.space, problem.observation
    along, middle = retrained(seen, space, graphs), summed(each_gradient(here, space, graphs))

    def one(update: Any, mean: Any, there: Any) -> np.ndarray:
        return (np.asarray(update, np.float64) - np.asarray(mean, np.float64) + there).astype(np.float32)

    return dataclasses.replace(here, update=jax.tree.map(one, seen.update, along, middle))


def _answered(problem: CensusProblem, found: Reconstruction, far: float, clock: Clock) -> Reconstruction:
    """The answer; with certificates where training on the graphs again returns the update."""
    answers, matched = list(found.members), far <= MATCH
    if matched:
        at_once = dataclasses.replace(corrected(problem, found.graphs), protocol="fedsgd", local=None)
        ordered, _ = checked(_at_middle(problem, at_once), answers)
        firsts = [answer.graphs[0] for answer in ordered]
        answers, far = trained_again(problem.seen, problem.knowledge.space, ordered, firsts, clock)
        matched = far <= MATCH
    distance = far if np.isfinite(far) else None
    answers = [_confirmed(answer, distance, matched) for answer in answers]
    info = {key: value for key, value in found.info.items() if key != "reason" or len(answers) != found.info["graphs"]}
    if len(answers) == found.info["graphs"] and not matched:
        info["reason"] = "training on the graphs that were found does not return the update"
    return Reconstruction(
        graphs=tuple(answer.graphs[0] for answer in answers),
        gradient_distance=distance,
        stop="match" if matched else "time" if clock.left <= 0 else "nothing assembled",
        certificate=of_trained(answers, far) if matched else None,
        info=info | {"seconds": clock.elapsed},
        members=tuple(answers),
    )


def _confirmed(answer: Reconstruction, far: float | None, matched: bool) -> Reconstruction:
    """The answer with the distance of the whole client's update; without a certificate where nothing confirms it."""
    if answer.certificate is None or far is None or not matched:
        return dataclasses.replace(answer, gradient_distance=far, certificate=None)
    conditions = tuple(dict.fromkeys((*answer.certificate.conditions, FOLLOWED)))
    residual = max(far, answer.certificate.residual)
    made = dataclasses.replace(answer.certificate, size=len(answer.graphs), residual=residual, conditions=conditions)
    return cut(dataclasses.replace(answer, gradient_distance=far, certificate=made))
