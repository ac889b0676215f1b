"""Where a model's gradient shows the rows of blocks: the span checks, and the condition of each.

====================  =====================================  ==============================================
check                 row of a block's root ``v``            span
====================  =====================================  ==============================================
node (GRAIN)          ``H_l[v]``                             ``dL/dW_l``, or the self weight of GraphSAGE
aggregate (ours)      mixed rows, GCN ``(A H_{l-1})[v]``     the weight they meet
hidden (ours)         GIN's hidden row                       GIN's second weight
readout               ``[X | H_L][v]``                       first readout weight, one MLP for every node
====================  =====================================  ==============================================

They follow from the linear maps inside each part and the rows that enter them (``Tap``). Batch normalisation in
training mode hides a direction of them (``mean_rows``); a check whose span would lack it is left out.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from jaxtyping import Float

from jgleak.attacks.span.mean_rows import whole_gradient
from jgleak.federated.observation import Observation

View = Literal["state", "hidden", "aggregate"]
"""Which row a layer offers for a check: its output, its hidden row, or the mixed rows before any weight."""

SINGULAR = "does not hold under a singular adjacency"
"""Of conditions of maps whose gradient has passed the mixing."""


@dataclasses.dataclass(frozen=True)
class LeakPoint:
    """One weight whose gradient spans the rows of blocks.

    Attributes:
      name: ``node``, ``aggregate``, ``hidden`` or ``readout``.
      hop: the rows are those of blocks of this many hops (0: input rows).
      view: which row of the last convolution inside the block.
      fixed: leading coordinates that the block's centre decides (the readout sees its input row).
      gradient: ``dL/dW`` ``(d, out)``.
      condition: when every true row lies in the span.
    """

    name: Literal["node", "aggregate", "hidden", "readout"]
    hop: int
    view: View
    fixed: int
    gradient: Float[np.ndarray, "d out"]
    condition: str


def leak_points(observation: Observation, hop: int) -> list[LeakPoint]:
    """Every place where blocks of ``hop`` hops can be checked, the strongest first.

    At hop 0 the readout comes first: its condition does not depend on the adjacency. Later the readout and the node
    check come before the aggregate check, whose rows are linear in the features and so pass more often by accident.
    Frozen weights have no gradient, and leak nothing.
    """
    model, update = observation.model, observation.update
    found: list[LeakPoint] = []
    if model.readout.additive == "nodes" and model.trains("readout", *model.readout.first_map):
        kernel = model.readout.head_span(model.readout_of(update))
        condition = "the readout's upstream rows are independent"
        if hop == 0 and model.readout.sees_input:
            found.append(LeakPoint("readout", 0, "state", 0, kernel[: model.in_features], condition))
        elif hop == model.depth and model.jumping.keeps is not None:
            fixed = kernel.shape[0] - model.layers[-1].features  # the input row, states after fewer layers
            found.append(LeakPoint("readout", hop, "state", fixed, kernel, condition))
    if hop > 0:
        full = f"the gradient at the output of convolution {hop - 1} has full row rank"
        taps = [tap for tap in model.layers[hop - 1].taps if model.trains(f"layers_{hop - 1}", *tap.path)]
        inside = {tap.rows: whole_gradient(observation, hop - 1, tap.path) for tap in taps}
        if (hidden := inside.get("hidden")) is not None:
            found.insert(0, LeakPoint("hidden", hop, "hidden", 0, hidden, full))
        if (mixed := inside.get("mixed")) is not None:
            found.append(LeakPoint("aggregate", hop, "aggregate", 0, mixed, full))
    if hop < model.depth and (own := _own_rows(observation, hop)) is not None:
        found.insert(sum(site.name in ("readout", "hidden") for site in found), own)
    return found


def _own_rows(observation: Observation, hop: int) -> LeakPoint | None:
    """All maps that the nodes' own rows enter: the same rows lie in the spans of all of their gradients' columns.

    None where no map takes them (GINE: a neighbour's row passes an activation first), or what hides behind a norm is
    not known.
    """
    model, update = observation.model, observation.update
    if hop == 0 and model.encoder.taps:
        if not model.trains("encoder"):
            return None
        seen = [np.asarray(tap.inside("encoder").of(update)) for tap in model.encoder.taps]
        return LeakPoint("node", 0, "state", 0, np.hstack(seen), "the gradient at the encoded rows has full row rank")
    taps = [tap for tap in model.layers[hop].taps if model.trains(f"layers_{hop}", *tap.path)]
    own, mixed = ([tap for tap in taps if tap.rows == rows] for rows in ("own", "mixed"))
    if not own:
        return None
    condition = f"the gradient at the rows that enter convolution {hop} has full row rank"
    if {tap.path for tap in own} == {tap.path for tap in mixed}:  # the gradient there has passed the mixing
        condition += f", which {SINGULAR}"
    parts = [part for tap in own if (part := whole_gradient(observation, hop, tap.path)) is not None]
    return LeakPoint("node", hop, "state", 0, np.hstack(parts), condition) if parts else None
