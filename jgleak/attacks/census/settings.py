"""What the census tolerates, and where its searches end; sizes that only decide speed stay with the code."""

from __future__ import annotations

import dataclasses

from jgleak.attacks.node_order import ORDER, OrderSettings
from jgleak.attacks.options import from_zero
from jgleak.attacks.span.settings import LIMITS, TOLERANCES, SpanLimits, SpanTolerances


@dataclasses.dataclass(frozen=True)
class CensusTolerances:
    """What counts as explained, as whole, and as rounding. Residuals are relative to the right-hand side.

    Attributes:
      equation_floor: smallest scale of an equation, relative to the median of its weight: a part without gradient must
        be zero in every block.
      equation_faint: the same relative to the median of the largest weight in its layer: what is much fainter is
        rounding noise of that weight's size (the gradient of an attention's target vector, which a softmax hardly
        sees).
      equation_cancelled: rounding of a weight's rows beside a louder weight of its layer, relative to the largest row
        of that one: where terms cancel (a softmax hardly sees what is added to all its entries), so much is left of
        them, and it must stay below ``missing_residual`` (measured: up to 4e-6 in GATv2, 6e-7 in GAT).
      equation_rounding: rounding under noise: of an equation, relative to the typical entry of its weight row, and of
        all together.
      missing_residual: residual of the best non-negative solution above which a true block must be missing.
      rules_weight: under noise, the violation of one edge's balance weighs so many times what noise can leave.
      excluded_residual: a group of blocks is excluded where the best solution with one of them leaves more than this
        residual, which rounding of float32 gradients explains, plus ``residual_margin`` times that of the best solution
        of all.
      residual_margin: so many times the residual of the best solution are put down to rounding, beside
        ``excluded_residual`` and ``near_residual``.
      group_weight: weight of a group's total among the equations, whose right-hand side has length one.
      null_direction: singular values of the scaled system below this share of the largest are null directions (float32
        columns).
      free_direction: a count moves along the null directions where its row of them (largest entry 1) is longer than
        this.
      whole_number: how far a count may be from a whole number.
      census_residual: residual of a whole-number solution.
      statistics_margin: where running statistics came back, ``missing_residual`` and ``census_residual`` are at least
        so many times the relative error that their rounding leaves in the deviation of a norm's worst column,
      statistics_residual: and at most this.
      conic_residual: of a column of the last kernel's gradient as a non-negative combination of states (``conic``).
      conic_weight: smallest weight of a state in one, relative to the largest.
      near_residual: residual of one that rounding explains easily, beside ``residual_margin`` times that of the best
        solution.
      near_distance: graphs whose gradient is off by less come first: rounding explains that easily, and ten times as
        much hardly (relative gradient distance).
      path_gain: shares of blocks and the path of several local steps are found in turns (``settled``) while one leaves
        at most this share of the residual of the one before,
      path_residual: and more than this.
      path_settled: residual up to which the two agree; where more is left, nothing is said of other graphs.
      moved_gap: smallest ratio between singular values on both sides of a rank after several local steps (else
        ``SpanTolerances.rank_gap``), which blur it,
      moved_row: and by how much at most a row may be off then (else ``row_most``).
      moved_batch_row: the same of several graphs, all in every step, whose spans have all directions above rounding.
      looser_checks: under noise spans are not completed. Their missing dimensions are those under the noise floor,
        where all rows are short; so a row is allowed this many times what noise explains where one dimension is taken
        to be missing.
      loosest_checks: the same where two dimensions are.
      span: those of the span checks.
    """

    equation_floor: float = 1e-3
    equation_faint: float = 0.1
    equation_cancelled: float = 4e-6
    equation_rounding: float = 1e-6
    missing_residual: float = 1e-3
    rules_weight: float = 10.0
    excluded_residual: float = 1e-5
    residual_margin: float = 10.0
    group_weight: float = 10.0
    null_direction: float = 2e-5
    free_direction: float = 1e-6
    whole_number: float = 0.1
    census_residual: float = 1e-3
    statistics_margin: float = 50.0
    statistics_residual: float = 0.05
    conic_residual: float = 1e-5
    conic_weight: float = 1e-5
    near_residual: float = 1e-5
    near_distance: float = 1e-5
    path_gain: float = 0.7
    path_residual: float = 1e-6
    path_settled: float = 1e-5
    moved_gap: float = 2.0
    moved_row: float = 0.03
    moved_batch_row: float = 1e-3
    looser_checks: float = 4.0
    loosest_checks: float = 8.0
    span: SpanTolerances = TOLERANCES


@dataclasses.dataclass(frozen=True)
class CensusLimits:
    """Where the searches end, beside the user's budget.

    Attributes:
      size_rounds: numbers of nodes up to which graphs are looked for where no bound is known: the first, and each
        further one where none was found up to the one before.
      listed: most graphs in an anonymity set.
      partial_graphs: most partial graphs of one census, for the smallest number of nodes that has a graph.
      more_partial_graphs: the same for larger numbers, or where one census was too vast already.
      beam: partial graphs kept at every step where all of them were too many, or where public graphs say which are
        likely.
      search_share: part of the time that all searches may take; the rest is for the order of what they found.
      distinct_share: part of the time for settling neighbourhoods one by one where all nodes differ (``distinct``).
      counting_share: part of the time that blocks may be counted in where graphs can be searched for after that
        (``search``).
      replicas: graphs that this search changes side by side.
      hop_share: part of the time left that the search for nodes, or one hop of one attempt, may take.
      hop_blocks: most blocks of a hop; with more, the next hop cannot be afforded.
      blocks_counted: most top blocks whose contributions are computed; with more 1-hop candidates than this, blocks of
        public graphs are tried first where the gradient hardly tells blocks apart.
      batch_blocks: most top blocks of a batch whose graphs' pooled rows say which of them each may have.
      few_neighbours: where features state no degree, nodes of at most so many neighbours are tried before all.
      usual_first: with more 1-hop candidates than this, usual nodes are tried first, where the prior knows any.
      weak_blocks: a certificate rests on the weakest checks alone when there are no more unchecked 1-hop blocks than
        this,
      weak_candidates: and no more candidates of any hop than this (without a check ``hop_blocks``, if that is less).
      conic_blocks: most blocks whose states are combined (``conic``),
      conic_columns: most columns of the gradient that are explained by them, beside the sum of all,
      conic_classes: most classes of the last layer's units (``unit_classes``),
      conic_rounds: how often each, every time with other blocks preferred,
      conic_steps: and in how many steps at most.
      system_entries: most entries of the system under noise.
      system_products: most entries times columns of that system: what solving it costs.
      exclusions: most groups of blocks tested for exclusion; what is not excluded by then is possible.
      real_blocks: most blocks whose null directions are looked for; with more, whole-number solutions are not.
      freedom: most null directions; with more, whole-number solutions are not searched for.
      programmes: most nodes of the search tree for whole-number solutions, for one number of nodes.
      near_share: part of the time left that the search for near solutions may take, for all numbers of nodes together.
      sphere_blocks: most blocks that are counted by distance.
      sphere_steps: most partial vectors of counts that this looks at for one number of nodes.
      sphere_censuses: most censuses that it finds for one number of nodes (under noise).
      path_turns: most of these turns; 0: paths stay straight.
      whole_steps: most partial vectors of counts looked at for whole censuses in one of them, a number of nodes each,
      whole_replayed: and most of those whose training is run.
      enumerated_nodes: largest graph that is enumerated, where counting blocks ends without an answer, and largest
        number of nodes that is tried, where statistics do not determine it; 0: none is.
      enumeration_share: part of the time that is kept for that, where the graph may be so small.
      bond_orders: most graphs whose bond orders the molecule prior works out.
      solver_rounds: most steps of non-negative least squares, for each unknown (SciPy's default is 3).
      order: how the likeliest order of nodes is searched for.
      span: those of the span checks.
    """

    size_rounds: tuple[int, ...] = (40, 80, 160, 256)
    listed: int = 2_000
    partial_graphs: int = 100_000
    more_partial_graphs: int = 5_000
    beam: int = 200
    search_share: float = 0.9
    distinct_share: float = 0.8
    counting_share: float = 0.6
    replicas: int = 24
    hop_share: float = 0.5
    hop_blocks: int = 20_000
    blocks_counted: int = 5_000
    batch_blocks: int = 20_000
    few_neighbours: int = 3
    usual_first: int = 1_000_000_000
    weak_blocks: int = 300
    weak_candidates: int = 3_000_000
    conic_blocks: int = 200_000
    conic_columns: int = 7
    conic_classes: int = 24
    conic_rounds: int = 4
    conic_steps: int = 200
    system_entries: int = 40_000_000
    system_products: int = 20_000_000_000
    exclusions: int = 200
    real_blocks: int = 1_500
    freedom: int = 64
    programmes: int = 2_000
    near_share: float = 0.5
    sphere_blocks: int = 400
    sphere_steps: int = 200_000
    sphere_censuses: int = 500
    path_turns: int = from_zero(12)
    whole_steps: int = 20_000
    whole_replayed: int = 16
    enumerated_nodes: int = from_zero(12)
    enumeration_share: float = 0.3
    bond_orders: int = 200
    solver_rounds: int = 30
    order: OrderSettings = ORDER
    span: SpanLimits = LIMITS


@dataclasses.dataclass(frozen=True)
class CensusSettings:
    """What users may change (``--option``)."""

    tolerances: CensusTolerances = CensusTolerances()
    limits: CensusLimits = CensusLimits()


DEFAULTS = CensusSettings()
"""As measured."""
