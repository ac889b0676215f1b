"""Tolerances of the span checks and limits of their searches. Sizes that affect speed alone stay beside the code."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class SpanTolerances:
    """What counts as inside a span, and what as rounding.

    Attributes:
      rank_floor: singular values below this share of the largest are rounding noise of float32 gradients, whatever the
        gap.
      rank_gap: smallest ratio between the singular values on both sides of the rank; below it the rank is unclear. 0:
        no gap is needed, and all directions above rounding are taken.
      noise_edge: singular values up to this multiple of the largest one that noise alone has count as noise.
      coordinate_floor: smallest scale of a coordinate, relative to the median: a coordinate without gradient must be
        zero in every row.
      row_margin: a row may be off by this multiple of the inverse of the gap, relative to its length: the error of the
        last direction kept.
      row_least: lower bound of what a row may be off, relative to its length.
      row_most: upper bound of it (GRAIN finds any fixed threshold in [1e-4, 1e-2] to work, Figure 6).
      statistics_row: lower bound of it where a batch's statistics enter, which follow from rounded running statistics.
      row_rounding: relative distance of a row from the space that rounding alone explains, where noise is modelled as
        well.
      device_rounding: residual that float32 arithmetic alone can leave on the device, relative to the row.
      device_margin: the device's check of whole rows allows this multiple of what the host's check, which follows,
        allows.
      chance_rate: enough null vectors are used when a random row passes all of them at most this often.
      live_unit: smallest size of a coordinate, relative to the median of those that are not off, to be chosen beside
        the pivots: a unit that is off in every row rejects nothing.
      dead_unit: largest size of a coordinate that is off, relative to the largest.
      partial_margin: partial rows are compared at this multiple of the tolerance: they are shorter than the whole row.
      relation_floor: singular values of a part of the basis below this share of a row's tolerance show no dimension.
      word_entry: largest error of an entry that should be 0 or 1, and of vectors of words that should be equal
        (relative).
      word_row: a row of words is kept where no entry is farther from 0 and 1 than this multiple of that error.
      word_nothing: words whose vectors are shorter than this share of the longest, or of the whole, are rounding.
      word_sum: largest error of the sum of a partition's words, relative to the sum.
      word_precise: where rounding moves rows by more than this, relative to their length, a row of words may be lost.
      word_rank: singular values of words below this share of the largest are zero.
      outside_row: smallest relative residual of a row whose direction outside a span is looked at: a smaller one is
        mostly noise.
      same_row: residuals that agree up to this are one row's: many candidates have equal embeddings.
      same_direction: largest distance between unit vectors that count as one direction.
      completed_margin: the margin of a completed span is this many times as wide as before.
    """

    rank_floor: float = 3e-7
    rank_gap: float = 10.0
    noise_edge: float = 1.1
    coordinate_floor: float = 1e-2
    row_margin: float = 10.0
    row_least: float = 1e-5
    row_most: float = 1e-2
    statistics_row: float = 1e-3
    row_rounding: float = 1e-5
    device_rounding: float = 4e-6
    device_margin: float = 1.05
    chance_rate: float = 1e-6
    live_unit: float = 0.3
    dead_unit: float = 1e-9
    partial_margin: float = 10.0
    relation_floor: float = 0.1
    word_entry: float = 0.02
    word_row: float = 5.0
    word_nothing: float = 1e-4
    word_sum: float = 1e-4
    word_precise: float = 1e-3
    word_rank: float = 1e-3
    outside_row: float = 1e-2
    same_row: float = 1e-4
    same_direction: float = 2e-3
    completed_margin: float = 10.0


@dataclasses.dataclass(frozen=True)
class SpanLimits:
    """Where the searches of candidates end, beside the user's budget.

    Attributes:
      unknown_degree: largest degree tried where the features do not state it and ``Knowledge.max_degree`` gives none.
      partial_rows: most partial feature vectors that survive; with more the input span says too little.
      partial_checks: most partial feature vectors checked in one step.
      word_features: binary features from which a schema counts as wordy.
      word_faces: most faces of the words' polytope that are looked at.
      centres_together: centres with equally few candidates that are searched before their results are used.
      whole_candidates: most candidates of a search through all 1-hop neighbourhoods; beyond it the other centres are
        searched only next to blocks found, which is a condition of the result.
      passing_blocks: a centre with more blocks than this that pass the cheap check is given up: its span rejects too
        little.
      completion_candidates: most candidates whose directions outside a span are compared; small neighbourhoods first.
      completion_cells: most groups of near directions that are examined, the largest first.
      completion_cell: most directions of one group that are compared with each other.
      completion_rows: fewest rows that must share a direction.
      completions: most directions that are tried.
    """

    unknown_degree: int = 4
    partial_rows: int = 500_000
    partial_checks: int = 10_000_000
    word_features: int = 64
    word_faces: int = 20_000
    centres_together: int = 32
    whole_candidates: int = 30_000_000
    passing_blocks: int = 1_000_000
    completion_candidates: int = 3_000_000
    completion_cells: int = 4_000
    completion_cell: int = 200
    completion_rows: int = 3
    completions: int = 3


TOLERANCES, LIMITS = SpanTolerances(), SpanLimits()
"""The defaults."""
