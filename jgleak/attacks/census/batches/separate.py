"""The graphs of a batch one by one: how many nodes of each have every block.

A block's weight is an integer combination of the graphs' factors, in one or several ways, and a graph's counts obey its
balances (``choices``). Each choice is compared with the model: the graph's own outputs and a label give its factor,
which must be the one found from the weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.choices import cheapest, choices
from jgleak.attacks.census.batches.factors import Combinations, Factor, factors
from jgleak.attacks.census.batches.upstream import own_upstreams
from jgleak.attacks.census.batches.weights import Weights
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.local_path import moved
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Rules

TRIED = 24
"""Most choices of one graph's counts that are compared with the model."""

COVERS = (1, 2, 3)
"""Largest multiple of a graph's factor that the common divisor of all its weights may be."""

OWN, OWN_FLOOR = 3e-5, 3e-6
"""How far a factor may be from the model's own, relative to itself and to that of the label that gives the largest."""

OWN_MOVED = 1e-2
"""The same along several local steps, relative to itself: outputs move, and training on the graphs decides."""

SAME = 1e-3
"""Weights of one graph are nearer to each other than this share of themselves."""

COPIES = 3
"""Most equal graphs."""


@dataclasses.dataclass(frozen=True)
class Share:
    """One graph's share of a batch.

    Attributes:
      counts: of its nodes by top block ``(K,)``; under a mean readout every multiple has the same gradient.
      factor: what one of its nodes and its copies' add to the weight of its block ``(r,)``.
      label: the class that gives this factor.
      copies: equal graphs in the batch.
      only: the weights and the model allow this factor no other counts.
    """

    counts: Int[np.ndarray, " K"]
    factor: Float[np.ndarray, " r"]
    label: int
    copies: int
    only: bool


def separated(problem: CensusProblem, levels: Levels, weights: Weights, clock: Clock) -> list[Share]:
    """The graphs whose own outputs give the factor found from the weights of their blocks.

    Graphs found are subtracted from the weights, which shows the factors of graphs that share many blocks. Where some
    weights stay unexplained, graphs are missing.
    """
    found = list[Share]()
    while clock.left > 0:
        left = weights.values - sum(_alike(weights, share.counts)[:, None] * share.factor for share in found)
        unknown = np.isinf(weights.errors).any(axis=1)
        shown = np.any(np.abs(left) > weights.errors, axis=1) & ~unknown
        if not shown.any():
            break
        live = np.flatnonzero(shown | unknown)
        more = _more(problem, levels, weights, (live, left[live]), clock)
        if not more:
            break
        found += more
    rules = Rules.of(levels.top, np.arange(levels.top.size))
    return found if problem.absolute else [_smallest(share, rules) for share in found]


def _alike(weights: Weights, counts: Int[np.ndarray, " K"]) -> Int[np.ndarray, " K"]:
    """Of every block how many nodes have it, or one that is alike."""
    return np.bincount(weights.alike, counts).astype(np.int64)[weights.alike]


Live = tuple[Int[np.ndarray, " k"], Float[np.ndarray, "k r"]]
"""Blocks with weight, and their weights."""


def _more(problem: CensusProblem, levels: Levels, weights: Weights, live: Live, clock: Clock) -> list[Share]:
    """Graphs of the factors that these weights show, each the smallest that is possible."""
    some, values = live
    rules, (_, first, alike) = Rules.of(levels.top, some), np.unique(weights.alike[some], True, True)
    values, errors = values[first], weights.errors[some[first]]
    shown = np.isfinite(errors).all(axis=1)
    for least in (2, 1):
        known = factors(values[shown], errors[shown], least)
        if not known:
            continue
        ways = Combinations(known)
        for times in COVERS:
            out = list[Share]()
            for number, one in enumerate(known):
                part = Factor(one.value / times, one.error / times)
                if times > 1:
                    ways = Combinations([*known[:number], part, *known[number + 1 :]])
                tried = cheapest(choices(values, errors, ways, number), alike, rules, TRIED, clock)
                share = _share(problem, weights, some, tried, part)
                if share is not None and not ways.complete:
                    share = dataclasses.replace(share, only=False)
                out += [] if share is None or any(_same(share, other) for other in out) else [share]
            if out:
                return out
    return []


def _share(
    problem: CensusProblem,
    weights: Weights,
    some: Int[np.ndarray, " k"],
    tried: Iterator[Int[np.ndarray, " k"] | None],
    factor: Factor,
) -> Share | None:
    """The first counts of these blocks that the model confirms; where all weights are known, it is said whether no
    others are."""
    found: Share | None = None
    known = bool(np.isfinite(weights.errors[some]).all())
    for few in tried:
        if few is None:
            return found
        counts = np.zeros(len(weights.values), np.int64)
        counts[some] = few
        label = _label(problem, weights, counts, factor)
        if label is not None and found is not None:
            return found
        if label is not None:
            found = Share(counts, factor.value, *label, only=False)
            if not known:
                return found
    return None if found is None else dataclasses.replace(found, only=True)


def _same(one: Share, other: Share) -> bool:
    """One graph, from its factor and from integer parts of it."""
    weights = [share.counts[:, None] * share.factor for share in (one, other)]
    return bool(np.linalg.norm(weights[0] - weights[1]) < SAME * np.linalg.norm(weights[0]))


def _smallest(share: Share, rules: Rules) -> Share:
    """The graph's share with all counts divided by the largest number for which they may still be a graph's."""
    common, n = int(np.gcd.reduce(share.counts)), int(share.counts.sum())
    divisor = next(
        d for d in range(common, 0, -1) if common % d == 0 and (d == 1 or rules.hold(share.counts // d, n // d))
    )
    return dataclasses.replace(share, counts=share.counts // divisor, factor=share.factor * divisor)


def _label(
    problem: CensusProblem, weights: Weights, counts: Int[np.ndarray, " K"], factor: Factor
) -> tuple[int, int] | None:
    """The label whose loss gives the factor, and the number of copies."""
    observation = problem.observation
    nodes = 1 if problem.absolute else int(counts.sum())
    own = own_upstreams(observation, counts @ weights.added / nodes) / (nodes * observation.batch_size)
    seen, blur = factor.value @ weights.upstream.rows, factor.error @ np.abs(weights.upstream.rows)
    largest = float(np.linalg.norm(own, axis=1).max())
    near = OWN_MOVED if moved(observation) or len(problem.path) > 1 else OWN
    for copies in range(1, COPIES + 1):
        off = np.linalg.norm(seen - copies * own, axis=1)
        allowed = near * copies * np.linalg.norm(own, axis=1) + OWN_FLOOR * largest + np.linalg.norm(blur)
        if np.any(off <= allowed):
            return int((off - allowed).argmin()), copies
    return None
