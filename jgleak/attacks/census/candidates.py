"""Blocks of every hop for the census, from the strongest checks to the weakest that can be afforded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census import receptive_field
from jgleak.attacks.census.prior import PRIORS, resolved
from jgleak.attacks.public.blocks import CONDITION, beside
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.filter import BlockFilter
from jgleak.attacks.span.hops import (
    Blocks,
    Nodes,
    next_hop,
    next_hop_count,
    next_search,
    one_hop_count,
    reciprocal,
)
from jgleak.attacks.span.leak_points import LeakPoint, leak_points
from jgleak.attacks.span.levels import find_nodes, input_site
from jgleak.attacks.span.onehop import likely, one_hop
from jgleak.attacks.span.rank_completion import completed
from jgleak.federated.observation import Knowledge, Observation

KEPT = 20_000
"""Most blocks of a hop; with more, the next hop cannot be afforded."""

MOST = 5_000
"""Most top blocks whose contributions are computed."""

MANY = 1_000_000_000
"""With more 1-hop candidates than this, usual nodes are tried first, where the prior knows any."""

SHARE = 0.5
"""Part of the time left that one hop of one attempt may take."""

LOOSER = (4.0, 8.0)
"""Under noise spans are not completed. Their missing dimensions are those under the noise floor, where all rows are
short; so a row is allowed this many times what noise explains instead."""

TOLD = "the nodes have the feature rows that were told"
"""The condition that takes the place of an input check: graphs of other rows are not looked for."""

WEAK_BLOCKS, WEAK_CANDIDATES = 300, 3_000_000
"""A certificate rests on the weakest checks alone when there are no more unchecked blocks below the last hop, and
candidates of the last hop, than this."""


@dataclasses.dataclass(frozen=True)
class Attempt:
    """Which checks are demanded.

    Attributes:
      below: of the blocks below the last hop.
      top: of the last hop's blocks.
      completed: dimensions that the spans of the node checks are taken to lack (see ``rank_completion``; under noise
        ``LOOSER``).
    """

    below: tuple[str, ...]
    top: tuple[str, ...]
    completed: int = 0


ATTEMPTS = (
    Attempt(("node", "hidden"), ("readout", "node", "hidden")),
    Attempt(("node", "hidden"), ("aggregate",)),
    Attempt(("node", "hidden"), ()),
    Attempt(("node",), ("readout", "node", "hidden"), completed=1),
    Attempt(("node",), ("aggregate",), completed=1),
    Attempt(("node",), (), completed=1),
    Attempt(("aggregate", "hidden"), ("readout", "hidden")),
    Attempt(("node",), ("readout", "node", "hidden"), completed=2),
    Attempt((), ("readout", "hidden")),
    Attempt(("aggregate", "hidden"), ("aggregate",)),
    Attempt((), ()),
)
"""Widened one after another while a true block is missing."""

WEAKEST = Attempt((), ("readout",))


@dataclasses.dataclass(frozen=True)
class Levels:
    """Candidate blocks of every hop.

    Attributes:
      nodes: feature vectors.
      hops: blocks of 1, 2, .. L hops, each entry of the last with a partner for every neighbour.
      conditions: what was assumed to leave other blocks out.
      complete: nothing was left out for a budget or a prior.
    """

    nodes: Nodes
    hops: tuple[Blocks, ...]
    conditions: tuple[str, ...]
    complete: bool


Chosen = tuple[tuple[str, SpanCheck, str], ...]
"""The checks of one hop: a name, the check and its condition."""


class CensusCandidates:
    """Candidate blocks of one observation.

    Args:
      observation: what the server saw.
      knowledge: what the attacker knows.
      clock: ends every search.
      budget: bounds every search.

    Attributes:
      checked: candidates looked at so far.

    Raises:
      TooManyCandidates: the input span says too little about nodes.
    """

    def __init__(self, observation: Observation, knowledge: Knowledge, clock: Clock, budget: Budget) -> None:
        self.observation, self.knowledge, self.clock = observation, knowledge, clock
        self.budget = dataclasses.replace(budget, blocks=min(budget.blocks, KEPT))
        self.nodes = find_nodes(observation, knowledge, clock=clock.part(SHARE))
        told = knowledge.features is not None
        self.says = TOLD if told else _says(input_site(observation, knowledge), 0)
        self.kept: dict[tuple[object, ...], Blocks] = {}
        self.spans: dict[tuple[object, ...], list[SpanCheck]] = {}
        self.checked = 0
        self._weak = receptive_field.ends_linear(observation.model) or knowledge.space.degree is None

    def attempts(self) -> Iterator[Levels]:
        """Candidates of ever weaker checks; attempts that cannot be afforded or repeat an earlier one are left out."""
        for nodes, condition in self._node_sets():
            seen: set[tuple[object, ...]] = set()
            for attempt in ATTEMPTS:
                for chosen in self._chosen(attempt, nodes):
                    key = _key(chosen)
                    if key not in seen and self.clock.left > 0:
                        seen.add(key)
                        levels = self._levels(nodes, condition, chosen)
                        if levels is not None:
                            yield levels

    def weakest(self) -> Levels | None:
        """Candidates that only the readout (if anything) restricts, where there are few enough."""
        if self.clock.left <= 0 or not self.nodes.degrees.size or one_hop_count(self.nodes) > WEAK_BLOCKS:
            return None
        chosen = next(self._chosen(WEAKEST, self.nodes))
        return self._levels(self.nodes, (), chosen, most=WEAK_CANDIDATES)

    def _node_sets(self) -> Iterator[tuple[Nodes, tuple[str, ...]]]:
        public, space = self.knowledge.auxiliary, self.knowledge.space
        if public and self._weak and one_hop_count(self.nodes) > MOST:
            yield beside(self.nodes, public), (CONDITION,)
        usual = PRIORS[resolved(self.knowledge.prior, self.knowledge.space)].usual
        if usual is not None and one_hop_count(self.nodes) > MANY:
            mask = usual(self.nodes.codes, space)
            if mask.any() and not mask.all():
                yield (
                    _part(self.nodes, mask),
                    (f"{np.sum(~mask)} of {mask.size} feature vectors are unusual: left out",),
                )
        yield self.nodes, ()

    def _chosen(self, attempt: Attempt, nodes: Nodes) -> Iterator[list[Chosen]]:
        """The checks of every hop; several choices where a completed span has several candidates."""
        observation, most = self.observation, self.knowledge.max_nodes
        hops: list[Chosen] = []
        last, linear = receptive_field.hops(observation.model), receptive_field.ends_linear(observation.model)
        for hop in range(1, last + 1):
            wanted = attempt.below if hop < last else set(attempt.top) - ({"node"} if linear else set())
            found = [site for site in leak_points(observation, hop) if site.name in wanted]
            pairs = [(site, SpanCheck.at(site, most=most, noise=self.knowledge.noise)) for site in found]
            hops.append(tuple((site.name, check, _says(site, hop)) for site, check in pairs if check is not None))
        if not attempt.completed:
            yield hops
        elif self.knowledge.noise is not None:
            yield [*(_loosened(hop, LOOSER[attempt.completed - 1]) for hop in hops[:-1]), *hops[-1:]]
        elif observation.model.layers[0].conv.hidden_kernel is None:
            yield from self._completed(attempt.completed, nodes, hops, [])

    def _completed(
        self, lacking: int, nodes: Nodes, hops: Sequence[Chosen], done: Sequence[Chosen]
    ) -> Iterator[list[Chosen]]:
        """The node checks of the hops below the last completed one after another, each on the blocks of those before.

        A span whose rows agree where the adjacency is singular lacks nothing: it stays as it is.
        """
        hop = len(done) + 1
        if hop == len(hops):
            yield [*done, *hops[-1:]]
            return
        grown = self._grown(nodes, done)
        if not hops[hop - 1] or len(grown) < len(done):
            return
        says = f"{hop}-hop blocks in the span of the node check plus {lacking} dimension(s) that several of them share"
        key = (lacking, nodes.degrees.size, nodes.listed is None, *_key(done))
        if key not in self.spans:
            self.spans[key] = self._completions(lacking, nodes, grown, hops[hop - 1][0][1])
        for number, completion in enumerate(self.spans[key]):
            named = (f"completed {lacking}.{number}", completion, says)
            yield from self._completed(lacking, nodes, hops, [*done, (named,)])
        yield from self._completed(lacking, nodes, hops, [*done, hops[hop - 1]])

    def _completions(self, lacking: int, nodes: Nodes, grown: Sequence[Blocks], check: SpanCheck) -> list[SpanCheck]:
        model, params, clock = self.observation.model, self.observation.params, self.clock.part(SHARE)
        if grown:
            search, requests = next_search(*model.layer_at(params, len(grown)), nodes, grown[-1], [])
        else:
            search = BlockFilter(*model.layer_at(params, 0), nodes.rows, nodes.degrees)
            known = one_hop(model, params, nodes, [check], clock=clock, budget=self.budget, mutual=False)
            requests = likely(nodes, known)
        spans = [check.subspace]
        for _ in range(lacking):
            spans = [more for span in spans for more in completed(search, requests, span, clock)]
        return [SpanCheck.of(span, view=check.view, fixed=check.fixed) for span in spans]

    def _levels(
        self, nodes: Nodes, conditions: Sequence[str], chosen: Sequence[Chosen], *, most: float = np.inf
    ) -> Levels | None:
        """None where nothing passes, a hop has too many blocks, or there are more than ``most`` candidates."""
        hops = self._grown(nodes, chosen, most)
        if len(hops) < len(chosen):
            return None
        top = reciprocal(hops[-1])
        if not 0 < top.size <= MOST:
            return None
        conditions = [*conditions, self.says]
        for hop, (blocks, checks) in enumerate(zip(hops, chosen, strict=True), start=1):
            conditions += [says for _, _, says in checks]
            if blocks.condition:
                conditions.append(blocks.condition)
            if blocks.unsearched:
                left = sum(part.size for part in blocks.unsearched)
                conditions.append(f"{left} candidates of {hop}-hop blocks were not looked at")
        complete = nodes is self.nodes and nodes.complete and not any(blocks.unsearched for blocks in hops)
        return Levels(nodes, (*hops[:-1], top), tuple(conditions), complete)

    def _grown(self, nodes: Nodes, chosen: Sequence[Chosen], most: float = np.inf) -> list[Blocks]:
        """Blocks hop by hop, up to the first hop that has too many or more than ``most`` candidates."""
        hops: list[Blocks] = []
        for hop, checks in enumerate(chosen, start=1):
            ways = one_hop_count(nodes) if hop == 1 else next_hop_count(hops[-1])
            if ways > (most if checks else min(most, KEPT)):
                break
            key = (nodes.degrees.size, nodes.listed is None, *_key(chosen[:hop]))
            if key not in self.kept:
                self.kept[key] = self._grow(nodes, hops, [check for _, check, _ in checks])
                self.checked += self.kept[key].checked
            if self.kept[key].size > KEPT:
                break
            hops.append(self.kept[key])
        return hops

    def _grow(self, nodes: Nodes, hops: Sequence[Blocks], checks: Sequence[SpanCheck]) -> Blocks:
        model, params, bounds = self.observation.model, self.observation.params, self.budget
        clock = self.clock.part(SHARE)
        if not hops:
            return one_hop(model, params, nodes, checks, clock=clock, budget=bounds)
        layer = model.layer_at(params, len(hops))
        return next_hop(*layer, nodes, hops[-1], checks, clock=clock, budget=bounds)


def _loosened(chosen: Chosen, factor: float) -> Chosen:
    """Checks that allow a row more than the noise explains: its part along directions that do not stand above it."""
    out = []
    for name, check, says in chosen:
        more = f"{says}, off by at most {factor:g} times what noise explains"
        out.append((f"{name} x{factor:g}", check.loosened(factor), more))
    return tuple(out)


def _says(site: LeakPoint, hop: int) -> str:
    what = f"{hop}-hop blocks" if hop else "nodes"
    return f"{site.name} check of {what}: {site.condition}"


def _key(chosen: Sequence[Chosen]) -> tuple[tuple[str, ...], ...]:
    """The names of the checks of every hop: equal names are equal checks of the same nodes."""
    return tuple(tuple(name for name, _, _ in hop) for hop in chosen)


def _part(nodes: Nodes, mask: Bool[np.ndarray, " T"]) -> Nodes:
    return Nodes(nodes.codes[mask], nodes.rows[mask], nodes.degrees[mask], complete=nodes.complete)


def degrees_assumed(knowledge: Knowledge, nodes: Nodes) -> tuple[str, ...]:
    """The condition that comes with features that do not state degrees."""
    if knowledge.space.degree is not None or not nodes.degrees.size:
        return ()
    return (f"no node has more than {int(np.max(nodes.degrees))} neighbours",)
