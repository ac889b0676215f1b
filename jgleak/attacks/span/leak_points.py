"""Where a model's gradient shows the rows of blocks: the span checks there are, and what each takes for granted.

====================  =====================================  ==============================================
check                 row of a block's root ``v``            span
====================  =====================================  ==============================================
node (GRAIN)          ``H_l[v]``                             ``dL/dW_l``, or the self weight of GraphSAGE
aggregate (ours)      mixed rows, GCN ``(A H_{l-1})[v]``     the weight they meet
hidden (ours)         GIN's hidden row                       GIN's second weight
readout               ``[X | H_L][v]``                       first readout weight, one MLP for every node
====================  =====================================  ==============================================
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from jaxtyping import Float

from jgleak.federated.observation import Observation

View = Literal["state", "hidden", "aggregate"]
"""Which row a layer offers for a check: its output, its hidden row, or the mixed rows before any weight."""


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
    """
    model, update = observation.model, observation.update
    found: list[LeakPoint] = []
    if model.readout.additive == "nodes":
        kernel, fixed = model.readout.head_span(model.readout_of(update)), model.in_features
        condition = "the readout's upstream rows are independent"
        if hop == 0 and model.readout.sees_input:
            found.append(LeakPoint("readout", 0, "state", 0, kernel[:fixed], condition))
        elif hop == model.depth:
            found.append(
                LeakPoint("readout", hop, "state", fixed if model.readout.sees_input else 0, kernel, condition)
            )
    if hop > 0:
        below, conv = model.conv_of(update, hop - 1), model.layers[hop - 1].conv
        full = f"the gradient at the output of convolution {hop - 1} has full row rank"
        if conv.hidden_kernel is not None:
            found.insert(0, LeakPoint("hidden", hop, "hidden", 0, np.asarray(below[conv.hidden_kernel]), full))
        if conv.aggregate_kernel is not None:
            found.append(LeakPoint("aggregate", hop, "aggregate", 0, np.asarray(below[conv.aggregate_kernel]), full))
    if hop < model.depth:
        conv = model.layers[hop].conv
        kernel = np.asarray(model.conv_of(update, hop)[conv.span_kernel])
        condition = f"the gradient at the rows that enter convolution {hop} has full row rank"
        if conv.span_kernel == conv.aggregate_kernel:  # the gradient there has passed the mixing
            condition += ", which a singular adjacency spoils"
        place = sum(site.name in ("readout", "hidden") for site in found)
        found.insert(place, LeakPoint("node", hop, "state", 0, kernel, condition))
    return found
