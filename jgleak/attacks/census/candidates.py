"""First stage: blocks of every hop, from the strongest checks to the weakest that the limits allow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census import receptive_field
from jgleak.attacks.census.checks import CONIC, SPARSE, WEAKEST, Attempt, Chosen, NamedCheck, condition_of, names
from jgleak.attacks.census.conic import occurring
from jgleak.attacks.census.hidden_nodes import hidden
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.public_blocks import CONDITION, beside
from jgleak.attacks.census.row_rank import spanning
from jgleak.attacks.census.starts import Start
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.filter import BlockFilter
from jgleak.attacks.span.hops import (
    Blocks,
    Nodes,
    encoded,
    next_hop,
    next_hop_count,
    next_search,
    one_hop_count,
    reciprocal,
)
from jgleak.attacks.span.leak_points import LeakPoint, leak_points
from jgleak.attacks.span.levels import find_nodes, input_site, most_rows, noise_at
from jgleak.attacks.span.nodes import FEWER
from jgleak.attacks.span.onehop import likely, one_hop
from jgleak.attacks.span.rank_completion import completed
from jgleak.federated.knowledge import Knowledge
from jgleak.gnn import Layer

KNOWN_ROWS = "the nodes have the known feature rows"
"""The condition that replaces an input check: graphs with other rows are not searched."""


MOST_NODES = 20_000
"""Most pairs of feature vector and degree that a search begins with: possible neighbours are kept for every two of
them."""

NEXT_GAPS = (1, 2)
"""After several local steps the rank of a span may be at another gap than the largest: the second and third are tried
where the last hop has no check."""


@dataclasses.dataclass(frozen=True)
class Levels:
    """Candidate blocks of every hop.

    Attributes:
      nodes: feature vectors.
      hops: blocks of 1, 2, .. L hops, each entry of the last with a partner for every neighbour.
      conditions: what was assumed to leave other blocks out.
      complete: nothing was left out for a budget or a prior.
      start: where the search began; None where the blocks come from elsewhere.
    """

    nodes: Nodes
    hops: tuple[Blocks, ...]
    conditions: tuple[str, ...]
    complete: bool
    start: Start | None = None

    @property
    def top(self) -> Blocks:
        """The blocks that are counted."""
        return self.hops[-1]


class CensusCandidates:
    """Candidate blocks of one observation; the results of one attempt are reused by the others.

    Args:
      problem: the update and what is known.
      clock: ends every search.
      budget: bounds every search.

    Raises:
      TooManyCandidates: the input span carries too little information about nodes.

    Attributes:
      start: the feature vectors that pass the checks of nodes.
      given_up: messages about what was not searched because it is too large.
      too_many: the message where there are too many feature vectors to begin with, else None.
      hurried: a share of the time ended before all candidates of a hop, or all feature vectors, were checked.
    """

    def __init__(self, problem: CensusProblem, clock: Clock, budget: Budget) -> None:
        self.problem, self.clock, self.limits = problem, clock, problem.limits
        self.budget = dataclasses.replace(budget, blocks=min(budget.blocks, self.limits.hop_blocks))
        observation, knowledge, tolerances = problem.seen, problem.knowledge, problem.tolerances.span
        part = self._share()
        nodes = find_nodes(observation, knowledge, clock=part, tolerances=tolerances, limits=self.limits.span)
        self.hurried = not nodes.complete and part.left <= 0
        known = knowledge.features is not None
        condition = KNOWN_ROWS if known else condition_of(input_site(observation, knowledge, tolerances), 0)
        self.start = Start(nodes, (condition,), nodes.complete)
        rows = problem.observation.batch_size > 1 and observation.model.readout.additive == "pooled"
        self.most_top = self.limits.batch_blocks if rows else self.limits.blocks_counted
        self.kept: dict[tuple[object, ...], Blocks] = {}
        self.spans: dict[tuple[object, ...], list[SpanCheck]] = {}
        self.checks: dict[tuple[int, str, int], SpanCheck | None] = {}
        self.given_up: list[str] = []
        self.too_many: str | None = None

    @property
    def checked(self) -> int:
        """Number of candidates checked so far."""
        return sum(blocks.checked for blocks in self.kept.values())

    def attempts(self, clock: Clock) -> Iterator[Levels]:
        """Candidates of ever weaker checks. Attempts that exceed a limit or repeat an earlier one are left out, and
        none begins after ``clock`` has ended."""
        for start in self._starts():
            if start.nodes.degrees.size > MOST_NODES:
                self.too_many = _too_many(self.problem.knowledge, start.nodes)
                continue
            seen: set[tuple[object, ...]] = set()
            for attempt in start.attempts:
                if clock.left <= 0:
                    return
                if attempt.conic:  # few of thousands of candidates: usual ones before all
                    usual = start.usual(self.problem.knowledge)
                    tried = (self._conic(some, attempt) for some in (usual, start) if some is not None)
                    yield from (dataclasses.replace(levels, start=start) for levels in tried if levels is not None)
                    continue
                for chosen in self._chosen(attempt, start.nodes):
                    key = names(chosen)
                    if key not in seen and clock.left > 0:
                        seen.add(key)
                        levels = self._levels(start, chosen)
                        if levels is not None:
                            yield levels

    def weakest(self, levels: Levels) -> Levels | None:
        """Candidates from the start of ``levels`` that only the readout's check (if any) restricts; None where there
        are too many."""
        start = levels.start
        if start is None or one_hop_count(start.nodes) > self.limits.weak_blocks or self._ended():
            return None
        chosen = next(self._chosen(WEAKEST, start.nodes))
        return self._levels(start, chosen, most=self.limits.weak_candidates)

    def of_all_degrees(self, levels: Levels) -> Levels | None:
        """Candidates of all degrees, where ``levels`` began with nodes of few neighbours; None where it did not, or
        there are too many."""
        if levels.start is None or not levels.start.some_degrees or self._ended():
            return None
        return self._levels(self.start, next(self._chosen(SPARSE[0], self.start.nodes)))

    @cached_property
    def hidden(self) -> tuple[Start, ...]:
        """Feature vectors to begin with where the adjacency hides those of nodes."""
        return hidden(self.problem, self.clock)

    @cached_property
    def enumerable(self) -> tuple[Start, ...]:
        """Feature vectors of the nodes of small graphs: those of ``start``, or, where these do not span what the
        input's gradient spans, the hidden ones, if there are any."""
        starts = (self.start,) if spanning(self.problem, self.start.nodes) else self.hidden or (self.start,)
        return tuple(start for start in starts if start.nodes.degrees.size <= MOST_NODES)

    def _starts(self) -> Iterator[Start]:
        """Feature vectors to begin with: likely ones first, then all, and those of an adjacency that hides nodes
        last."""
        knowledge, number = self.problem.knowledge, one_hop_count(self.start.nodes)
        public, space = knowledge.auxiliary, knowledge.space
        # such a model's gradient, or features that state no degree, hardly tell blocks apart (``public_blocks``)
        hardly = receptive_field.ends_linear(self.problem.observation.model) or space.degree is None
        if public and hardly and number > self.limits.blocks_counted:
            listed, said = beside(self.start.nodes, public), (CONDITION, *self.start.conditions)
            yield dataclasses.replace(self.start, nodes=listed, conditions=said, complete=False)
        if number > self.limits.usual_first and (usual := self.start.usual(knowledge)) is not None:
            yield usual
        if space.degree is None:  # nodes of many neighbours have most neighbourhoods, and are rare
            few = self.limits.few_neighbours
            some = self.start.sparse(few), self.start.scattered(few, self.limits.hop_blocks)
            yield from (start for start in some if start is not None)
        yield self.start
        yield from self.hidden

    def _conic(self, start: Start, attempt: Attempt) -> Levels | None:
        """Candidates of the blocks that the last convolutions' gradients are made of (``conic``)."""
        most, nodes = self.limits.conic_blocks, start.nodes
        last = self.problem.observation.model.depth - 1
        if not last or self.problem.knowledge.noise is not None:
            return None
        chosen = next(self._chosen(attempt, nodes))
        hops = self._grown(nodes, chosen[: last - 1])
        if len(hops) < last - 1:
            return None
        ways = one_hop_count(nodes) if last == 1 else next_hop_count(hops[-1])
        if ways > most:
            self.given_up.append(
                f"{nodes.degrees.size} feature vectors may occur and have {ways:.1g} {last}-hop blocks, more than the "
                f"{most} that can be compared with the gradient of convolution {last}"
            )
        if not 0 < ways <= most:
            return None
        grown = self._grow(nodes, hops, [], most)
        search = self._search(nodes, hops)
        entering = partial(search.entering, grown.roots, grown.neighbours)
        used = occurring(self.problem, grown.states, grown.roots, entering, self._share())
        if used is None:
            return None
        hops.append(reciprocal(grown.keep(used)))
        if last < len(chosen):
            if not hops[-1].size or next_hop_count(hops[-1]) > self.limits.hop_blocks:
                return None
            hops.append(self._grow(nodes, hops, [], self.limits.hop_blocks))
        top = reciprocal(hops[-1])
        if not 0 < top.size <= self.most_top:
            return None
        said = (*start.conditions, CONIC.format(last))
        return Levels(nodes, (*hops[:-1], top), said, complete=False, start=start)

    def _search(self, nodes: Nodes, hops: Sequence[Blocks]) -> BlockFilter:
        """A filter without checks that embeds blocks of one hop more than ``hops``."""
        model, params = self.problem.observation.model, self.problem.observation.params
        if hops:
            return next_search(model, params, nodes, hops, [])[0]
        return BlockFilter(
            *model.layer_at(params, 0), encoded(model, params, nodes), nodes.degrees, classes=nodes.classes
        )

    def _chosen(self, attempt: Attempt, nodes: Nodes) -> Iterator[list[Chosen]]:
        """The checks of every hop; several choices where a completed span has several candidates.

        Where a model ends linear, the top rows' node check is left out: the gradient there has rank 1
        (docs/theory.md, section 1).
        """
        observation = self.problem.seen
        hops, others = list[Chosen](), list[Chosen]()
        last, linear = receptive_field.hops(observation.model), receptive_field.ends_linear(observation.model)
        for hop in range(1, last + 1):
            wanted = set(attempt.below if hop < last else attempt.top) - ({"node"} if linear and hop == last else set())
            wanted |= _screens(self.problem.observation.model.layers[hop - 1], wanted)
            found = [site for site in leak_points(observation, hop) if site.name in wanted]
            hops.append(self._checks(found, hop))
            others += [self._checks(found, hop, place) for place in NEXT_GAPS if hop == 1 and self.problem.several]
        if not attempt.completed:
            yield hops
            yield from ([other, *hops[1:]] for other in others if other and not attempt.top)
        else:
            lacking, arithmetic = attempt.completed, self.problem.arithmetic
            yield from arithmetic.weaker(hops, lacking, lambda: self._completed(lacking, nodes, hops, []))

    def checks_of(self, names: Sequence[str], hop: int) -> Chosen:
        """The checks of one hop by their names, as far as the model offers them."""
        return self._checks([site for site in leak_points(self.problem.seen, hop) if site.name in names], hop)

    def _checks(self, sites: Sequence[LeakPoint], hop: int, place: int = 0) -> Chosen:
        """The checks of one hop that carry information; ``place`` chooses the gap that decides each span's rank."""
        knowledge, tolerances = self.problem.knowledge, self.problem.tolerances.span
        most = most_rows(self.problem.seen, knowledge)
        bounds = {"most": most, "tolerances": tolerances, "place": place}
        for site in sites:
            if (hop, site.name, place) not in self.checks:
                noise = noise_at(site, self.problem.seen, knowledge)
                self.checks[hop, site.name, place] = SpanCheck.at(site, noise=noise, **bounds)
        found = [(site, self.checks[hop, site.name, place]) for site in sites]
        said = f", its rank at gap {place + 1} by size" if place else ""
        return tuple(
            NamedCheck(f"{site.name}{said}", check, f"{condition_of(site, hop)}{said}", not place)
            for site, check in found
            if check is not None
        )

    def _completed(
        self, lacking: int, nodes: Nodes, hops: Sequence[Chosen], done: Sequence[Chosen]
    ) -> Iterator[list[Chosen]]:
        """The node checks of the hops below the last completed one after another, each on the blocks of those before.

        At every hop the uncompleted span comes last: it lacks nothing where the nodes that make the adjacency singular
        have equal rows. Layers with a hidden row (GIN) are not completed.
        """
        if not self.problem.observation.model.layers[0].columnwise("state"):
            return
        hop = len(done) + 1
        if hop == len(hops):
            yield [*done, *hops[-1:]]
            return
        grown = self._grown(nodes, done)
        if not hops[hop - 1] or len(grown) < len(done):
            return
        dimensions = "a dimension" if lacking == 1 else f"{lacking} dimensions"
        says = f"no true {hop}-hop block fails the node check (its span lacks {dimensions} that several blocks share)"
        key = (lacking, *_name(nodes), *names(done))
        if key not in self.spans:
            self.spans[key] = self._completions(lacking, nodes, grown, hops[hop - 1][0].check)
        for number, completion in enumerate(self.spans[key]):
            named = NamedCheck(f"completed {lacking}.{number}", completion, says)
            yield from self._completed(lacking, nodes, hops, [*done, (named,)])
        yield from self._completed(lacking, nodes, hops, [*done, hops[hop - 1]])

    def _completions(self, lacking: int, nodes: Nodes, grown: Sequence[Blocks], check: SpanCheck) -> list[SpanCheck]:
        model, params = self.problem.observation.model, self.problem.observation.params
        clock, limits = self._share(), self.limits.span
        search = self._search(nodes, grown)
        if grown:
            requests = next_search(model, params, nodes, grown, [])[1]
        else:
            bounds = {"clock": clock, "budget": self.budget, "limits": limits}
            requests = likely(nodes, one_hop(model, params, nodes, [check], mutual=False, **bounds))
        spans = [check.subspace]
        for _ in range(lacking):
            spans = [more for span in spans for more in completed(search, requests, span, clock, limits)]
        return [SpanCheck.of(span, view=check.view, fixed=check.fixed) for span in spans]

    def _levels(self, start: Start, chosen: Sequence[Chosen], *, most: float = np.inf) -> Levels | None:
        """Candidates that pass, with their conditions; None where none pass, a hop has too many blocks, or there are
        more than ``most`` candidates."""
        hops = self._grown(start.nodes, chosen, most)
        if len(hops) < len(chosen):
            return None
        top = reciprocal(hops[-1])
        if not 0 < top.size <= self.most_top:
            return None
        conditions = list(start.conditions)
        for hop, (blocks, checks) in enumerate(zip(hops, chosen, strict=True), start=1):
            conditions += [check.condition for check in checks]
            if blocks.condition:
                conditions.append(blocks.condition)
            if blocks.unsearched:
                left = sum(part.size for part in blocks.unsearched)
                conditions.append(f"none of {left} candidates of {hop}-hop blocks that were not looked at occurs")
        likeliest = all(check.likeliest for checks in chosen for check in checks)
        complete = start.complete and likeliest and not any(blocks.unsearched for blocks in hops)
        return Levels(start.nodes, (*hops[:-1], top), tuple(conditions), complete, start)

    def _grown(self, nodes: Nodes, chosen: Sequence[Chosen], most: float = np.inf) -> list[Blocks]:
        """Blocks hop by hop, up to the first hop that has too many or more than ``most`` candidates."""
        hops: list[Blocks] = []
        for hop, checks in enumerate(chosen, start=1):
            ways = one_hop_count(nodes) if hop == 1 else next_hop_count(hops[-1])
            if ways > (most if checks else min(most, self.limits.hop_blocks)):
                break
            key = (*_name(nodes), *names(chosen[:hop]))
            if key not in self.kept:
                self.kept[key] = self._grow(nodes, hops, [check.check for check in checks])
            if self.kept[key].size > self.limits.hop_blocks:
                break
            hops.append(self.kept[key])
        return hops

    def _grow(self, nodes: Nodes, hops: Sequence[Blocks], checks: Sequence[SpanCheck], most: int = 0) -> Blocks:
        model, params = self.problem.observation.model, self.problem.observation.params
        budget = dataclasses.replace(self.budget, blocks=most) if most else self.budget
        part = self._share()
        bounds = {"clock": part, "budget": budget, "limits": self.limits.span}
        if not hops:
            grown = one_hop(model, params, nodes, checks, **bounds)
        else:
            grown = next_hop(model, params, nodes, hops, checks, **bounds)
        self.hurried |= bool(grown.unsearched) and part.left <= 0
        return grown

    def _ended(self) -> bool:
        """True where time is up; that candidates were left out for it is noted in ``hurried``."""
        ended = self.clock.left <= 0
        self.hurried |= ended
        return ended

    def _share(self) -> Clock:
        return self.clock.part(self.limits.hop_share)


def _too_many(knowledge: Knowledge, nodes: Nodes) -> str:
    """The message where there are more feature vectors than any search can try."""
    vectors = np.unique(nodes.codes, axis=0).shape[0]
    numbers = sum(feature.kind == "number" for feature in knowledge.space.features)
    why = f", as {numbers} columns of numbers show {numbers} dimensions at most" if numbers else ""
    return (
        f"{vectors} feature vectors pass the checks of nodes{why}: too many to try; {FEWER}, or use gradient matching "
        "(--attack dlg --n N)"
    )


def _screens(layer: Layer, wanted: set[str]) -> set[str]:
    """A further check where no checked row can be computed column by column (layer norm); without it every candidate
    would have to be embedded in full."""
    alone = layer.columnwise("state") or layer.conv.kernel("hidden") is not None
    return set() if alone or not wanted else {"aggregate"}


def _name(nodes: Nodes) -> tuple[object, ...]:
    """A key that differs between the sets of ``CensusCandidates._starts``."""
    return nodes.codes.tobytes(), nodes.degrees.tobytes(), nodes.listed
