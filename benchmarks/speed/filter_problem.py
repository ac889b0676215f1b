"""One centre's candidates and a subspace in which some of them lie: what the methods of ``filter_methods`` filter."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property

import jax
import numpy as np
from jaxtyping import Float, Int

from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Neighbourhoods, Slot, neighbourhoods
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn import GNN, Params, standard

GROUPS = (16, 10, 8, 6, 5, 5)
"""Sizes of the one-hot groups of a node row: 50 columns, as many as a molecule's atoms have."""

HIDDEN = 300
MOST_NEIGHBOURS = 4
"""Largest degree of a neighbour."""

Blocks = frozenset[tuple[int, ...]]
"""Accepted neighbourhoods as sorted table rows."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """One centre (table row 0), its possible neighbours (the whole table), and a subspace with planted neighbourhoods.

    Attributes:
      rank: of the subspace.
      degree: number of neighbours.
      seed: draws everything.
      model: two GCN layers of width 300 with ReLU; the first is filtered.
      params: its parameters.
      rows: distinct rows of one-hot groups ``(T, F)``.
      degrees: number of neighbours of each entry ``(T,)``.
      plan: the numbering of all candidates, a prefix and a tail row each.
      begin: first tail row that is in order with each prefix of the part ``(R,)``.
    """

    rank: int
    degree: int
    seed: int
    model: GNN
    params: Params
    rows: Float[np.ndarray, "T F"]
    degrees: Int[np.ndarray, " T"]
    plan: Neighbourhoods
    begin: Int[np.ndarray, " R"]

    @staticmethod
    def draw(rank: int, degree: int, *, candidates: int, part: int, seed: int) -> Problem:
        """At least ``candidates`` neighbourhoods, of which the first ``part`` or so hold ``rank`` planted ones."""
        rng = np.random.default_rng(seed)
        size = next(t for t in range(1, candidates + 1) if math.comb(t + degree - 1, degree) >= candidates)
        digits = np.unravel_index(rng.choice(math.prod(GROUPS), size, replace=False), GROUPS)
        rows = np.concatenate([np.eye(g)[digit] for g, digit in zip(GROUPS, digits, strict=True)], axis=1)
        degrees = np.r_[degree, rng.integers(1, MOST_NEIGHBOURS + 1, size - 1)]
        plan = neighbourhoods([Slot(np.arange(size), degree)])
        assert plan is not None
        begin = np.searchsorted(plan.tail_first, plan.prefix(np.arange(plan.prefix_count))[1])
        begin = begin[: np.searchsorted(np.cumsum(plan.tail.shape[0] - begin), part) + 1]
        model = standard(rows.shape[1], hidden=HIDDEN)
        params = model.initial(key=jax.random.key(seed))
        problem = Problem(rank, degree, seed, model, params, rows, degrees, plan, begin)
        subspace = problem.check.subspace
        if subspace.rank != rank or not subspace.informative:
            raise ValueError(f"rank {rank}, degree {degree}: the planted rows are dependent; lower the rank")
        return problem

    @cached_property
    def planted(self) -> Int[np.ndarray, "r degree"]:
        """Neighbourhoods in the part, whose states span the subspace."""
        rng = np.random.default_rng((self.seed, self.rank))
        return self.members(*self.pairs(rng.choice(self.part, self.rank, replace=False)))

    @cached_property
    def check(self) -> SpanCheck:
        """The check of the subspace, as a float32 gradient would show it."""
        upstream = np.random.default_rng((self.seed, self.rank, 1)).normal(size=(self.rank, HIDDEN))
        gradient = self.states(self.planted).astype(np.float32).T @ upstream.astype(np.float32)
        return SpanCheck.of(Subspace.of_gradient(gradient))

    @property
    def part(self) -> int:
        """Candidates of the part."""
        return int((self.plan.tail.shape[0] - self.begin).sum())

    @property
    def candidates(self) -> int:
        """All candidates."""
        return math.comb(self.rows.shape[0] + self.degree - 1, self.degree)

    def pairs(self, numbers: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """Prefix and tail row of the part's candidates, numbered from 0."""
        ends = np.cumsum(self.plan.tail.shape[0] - self.begin)
        prefix = np.searchsorted(ends, numbers, side="right")
        return prefix, self.plan.tail.shape[0] - (ends[prefix] - numbers)

    def members(self, prefix: Int[np.ndarray, " n"], tail: Int[np.ndarray, " n"]) -> Int[np.ndarray, "n degree"]:
        """Table rows of the neighbours, sorted."""
        return np.sort(np.c_[self.plan.prefix(prefix)[0], self.plan.tail[tail]], axis=1)

    @cached_property
    def terms(self) -> Float[np.ndarray, "T+1 D"]:
        """What the centre (place 0) and each neighbour (its place + 1) add to the pre-activation, in float64."""
        own = float(self.degrees[0] + 1)
        projected = self.rows @ np.asarray(self.params["layers_0"]["conv"]["kernel"], np.float64)
        return np.r_[projected[:1] / own, projected / np.sqrt(own * (self.degrees + 1.0))[:, None]]

    def states(self, members: Int[np.ndarray, "n degree"]) -> Float[np.ndarray, "n D"]:
        """The centre's state in each neighbourhood."""
        return np.maximum(self.terms[0] + self.terms[members + 1].sum(axis=1), 0.0)

    def confirmed(self, prefix: Int[np.ndarray, " n"], tail: Int[np.ndarray, " n"]) -> Blocks:
        """Those of some candidates that lie in the subspace, in all coordinates and in float64."""
        members = self.members(prefix, tail)
        inside = self.check.distances(np.zeros((prefix.size, 0)), self.states(members)) <= self.check.subspace.tolerance
        return frozenset(map(tuple, members[inside].tolist()))

    def in_part(self, blocks: Blocks) -> Blocks:
        """Those that belong to the part: by the numbering, their smallest members are the prefix."""
        prefixes = self.plan.prefix(np.arange(self.begin.size))[0]
        known = set(map(tuple, np.sort(prefixes, axis=1).tolist()))
        return frozenset(block for block in blocks if block[: prefixes.shape[1]] in known)
