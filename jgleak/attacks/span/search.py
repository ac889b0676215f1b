"""All candidate blocks around a centre, filtered by one span check. Candidates stay index ranges until they survive."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.span import tiles
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Neighbourhoods, Slot, chunks, neighbourhoods, total
from jgleak.gnn import GNN, Params

TILE = (16, 4096)
FLAT = (1, 65536)
TABLES = (64, 256, 1024, 4096)
COLUMNS = (16, 32, 48, 64, 96)
CONFIRM = 256
"""Padded sizes: prefix and tail rows of a tile (the same without prefixes), table rows, columns, rows confirmed."""

SMALL = 512
"""Up to this many candidates are confirmed at once; a tile would be mostly padding."""

PASSING = 100_000
"""A centre with more blocks than this that pass the cheap check is given up: its span rejects too little."""

AHEAD = 32
"""Tiles in flight before the host waits for the first."""


@dataclasses.dataclass(frozen=True)
class Found:
    """Blocks around one centre that passed.

    Attributes:
      neighbours: sorted table rows of each block's neighbours ``(S, k)``.
      states: embedding of the centre in each block ``(S, D)``.
      distances: relative span distances ``(S,)``.
      checked: candidates looked at.
      complete: False when the budget ended the search early.
    """

    neighbours: Int[np.ndarray, "S k"]
    states: Float[np.ndarray, "S D"]
    distances: Float[np.ndarray, " S"]
    checked: int
    complete: bool


class BlockSearch:
    """One level's rows, one convolution, one span check; ``around`` searches one centre.

    Args:
      model: the attacked model.
      params: its parameters.
      layer: index of the convolution that mixes the rows.
      rows: the level below, one row an entry, as that convolution's input ``(T, F)``.
      degrees: number of neighbours of each entry ``(T,)``.
      check: the span the new embeddings must lie in, or None to keep every candidate.
      distinct: no entry occurs twice among a centre's neighbours.
    """

    def __init__(
        self,
        model: GNN,
        params: Params,
        layer: int,
        rows: Float[np.ndarray, "T F"],
        degrees: Int[np.ndarray, " T"],
        check: SpanCheck | None,
        *,
        distinct: bool = False,
    ) -> None:
        self.model, self.layer, self.check, self.distinct = model, layer, check, distinct
        self.weights = params[f"conv_{layer}"]
        self.degrees = degrees.astype(np.float32)
        padded = tiles.pad(rows.astype(np.float32), TABLES)
        self.projected = np.asarray(tiles.project(model, layer, self.weights, padded))
        self.everything = jnp.arange(model.width(layer + 1))
        if check is not None:
            self.columns = jnp.asarray(tiles.pad(check.columns, COLUMNS))
            self.scale = jnp.asarray(tiles.pad(check.state_scale.astype(np.float32), COLUMNS))
            self.null = jnp.asarray(tiles.pad(check.state_null.astype(np.float32), COLUMNS))

    def around(
        self, centre: int, slots: Sequence[Slot], fixed: Float[np.ndarray, " m"], *, clock: Clock, candidates: int
    ) -> Found:
        """Every way to fill the slots around a centre whose embedding passes the check.

        Args:
          centre: table row of the centre.
          slots: what its neighbours may be.
          fixed: the part of the checked row that the centre decides (width 0 for a convolution's span).
          clock: stops at its limit and returns what was found until then.
          candidates: with more candidates than this the centre is not searched.
        """
        size = total(slots, distinct=self.distinct)
        plan = neighbourhoods(slots, distinct=self.distinct) if 0 < size <= candidates else None
        if plan is None or clock.left <= 0:
            nothing = np.zeros((0, sum(s.count for s in slots)), np.int64)
            return Found(nothing, np.zeros((0, self.everything.size)), np.zeros(0), 0, size == 0)
        if self.check is None or size <= SMALL:
            survivors, complete = plan.all(), True
        else:
            survivors, complete = self._survivors(centre, plan, self.check, fixed, clock)
        return self._confirm(centre, survivors, fixed, size, complete)

    def _terms(self, centre: int, members: Int[np.ndarray, " U"], columns: Array) -> Float[np.ndarray, "A U+1 C"]:
        """The centre's own term, then the members' in order."""
        table = tiles.terms(
            self.model,
            self.layer,
            self.weights,
            self.projected[centre],
            self.degrees[centre],
            tiles.pad(self.projected[members], TABLES),
            tiles.pad(self.degrees[members], TABLES),
            columns,
        )
        return np.asarray(table)[:, : members.size + 1]

    def _survivors(
        self, centre: int, plan: Neighbourhoods, check: SpanCheck, fixed: Float[np.ndarray, " m"], clock: Clock
    ) -> tuple[Int[np.ndarray, "S k"], bool]:
        members = plan.members
        table = self._terms(centre, members, self.columns)
        own, others = table[:, :1], table[:, 1:]
        scaled = fixed * check.fixed_scale
        centre_part = np.r_[scaled @ check.fixed_null, scaled @ scaled].astype(np.float32)
        tail = others[:, np.searchsorted(members, plan.tail.members)].sum(axis=2)
        prefix_size, tail_size = FLAT if plan.prefix_count == 1 and tail.shape[1] > TILE[1] else TILE
        flying: deque[tuple[Array, Array, np.ndarray, np.ndarray]] = deque()
        found = [np.zeros((0, plan.width), np.int64)]
        for number in chunks(plan.prefix_count, prefix_size):
            prefix_members, last = plan.prefix(number)
            prefix = own + others[:, np.searchsorted(members, prefix_members)].sum(axis=2)
            for start in range(plan.begin(int(last.min())), tail.shape[1], tail_size):
                part = slice(start, start + tail_size)
                tile = tiles.accepted(
                    self.model,
                    self.layer,
                    self.weights,
                    self.columns,
                    self.scale,
                    self.null,
                    tiles.fill(prefix, prefix_size, axis=1),
                    tiles.fill(last, prefix_size),
                    tiles.fill(tail[:, part], tail_size, axis=1),
                    tiles.fill(plan.tail.first[part], tail_size),
                    centre_part,
                    np.float32(check.bound),
                    np.array([prefix.shape[1], tail[:, part].shape[1], int(plan.strict)], np.int32),
                )
                flying.append((*tile, prefix_members, plan.tail.members[part]))
                if len(flying) > AHEAD:
                    _land(flying.popleft(), found)
                    if clock.left <= 0 or sum(map(len, found)) > PASSING:
                        return np.concatenate(found), False
        while flying:
            _land(flying.popleft(), found)
        return np.concatenate(found), True

    def _confirm(
        self,
        centre: int,
        survivors: Int[np.ndarray, "S k"],
        fixed: Float[np.ndarray, " m"],
        checked: int,
        complete: bool,
    ) -> Found:
        """Embed the survivors whole and keep those within the tolerance in all coordinates."""
        members = np.unique(survivors)
        states = [np.zeros((0, self.everything.size), np.float32)]
        if survivors.shape[0]:
            table = self._terms(centre, members, self.everything)
            places = np.searchsorted(members, survivors) + 1
            for part in chunks(survivors.shape[0], CONFIRM):
                sums = tiles.fill(table[:, :1] + table[:, places[part]].sum(axis=2), CONFIRM, axis=1)
                whole = tiles.embed(self.model, self.layer, self.weights, sums, self.everything)
                states.append(np.asarray(whole)[: part.size])
        all_states = np.concatenate(states)
        distances = np.zeros(survivors.shape[0])
        if self.check is not None and survivors.shape[0]:
            distances = self.check.distances(np.broadcast_to(fixed, (survivors.shape[0], fixed.size)), all_states)
        keep = distances <= (np.inf if self.check is None else self.check.subspace.tolerance)
        return Found(np.sort(survivors[keep], axis=1), all_states[keep], distances[keep], checked, complete)


def _land(tile: tuple[Array, Array, np.ndarray, np.ndarray], found: list[np.ndarray]) -> None:
    """Read one tile's count, and its survivors only where there are any."""
    number, mask, prefixes, tails = tile
    if int(number):
        p, q = np.nonzero(np.asarray(mask))
        found.append(np.c_[prefixes[p], tails[q]])
