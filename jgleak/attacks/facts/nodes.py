"""How many nodes a graph has, where pooling or the bias of the last convolution counts them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import CLIPPING, ONE, Fact, Silent
from jgleak.attacks.facts.graphs import head_rank
from jgleak.gnn import Pooled
from jgleak.plural import counted

MOST = 1000
"""Graphs are taken to have at most so many nodes: shares of more nodes may differ by less than rounding."""

AT_MOST = f"there are at most {counted(MOST, 'node')}"
"""The condition of a divisor."""

WHOLE = 0.02
"""A quotient of a sum and a mean that is this near a whole number is that."""

UNITS = 8
"""Fewest units that have to agree."""


def nodes(evidence: Evidence) -> Fact:
    """The number of nodes of one graph, or a number that divides it.

    Beside a mean, a sum over nodes shows how many there are. Under a mean alone (ReLU last) the gradient of the last
    convolution's bias is ``sum_v u_k [unit k on at v] / n``, and ``u``, the gradient at the pooled row, is known from
    the head: the quotient is the share of nodes at which unit ``k`` is on, a whole number over ``n``.

    Raises:
      Silent: neither is there, or more than one graph or step.
    """
    observation = evidence.observation
    readout = observation.model.readout
    if not isinstance(readout, Pooled) or observation.batch_size > 1:
        raise Silent("only pooled states of one graph count its nodes")
    if not evidence.one_gradient or evidence.noise is not None or evidence.altered:
        raise Silent("nodes are counted in one gradient without noise or weight decay")
    if head_rank(evidence) != 1:
        raise Silent("more than one row entered the first map after pooling")
    if readout.counts_nodes and len(readout.poolings) > 1:
        number = _quotient(evidence, readout)
        return Fact("nodes", {"exactly": number}, (ONE, CLIPPING), f"exactly {counted(number, 'node')}")
    divisor = _divisor(share_of_nodes(evidence, readout), observation.model.layers[-1].features)
    if divisor == 1:
        raise Silent("every unit of the last convolution is on at all nodes or at none, which counts nothing")
    told = Fact("nodes", {"multiple_of": divisor}, (ONE, CLIPPING), f"the number of nodes is a multiple of {divisor}")
    return told.provided(AT_MOST)


def _quotient(evidence: Evidence, readout: Pooled) -> int:
    row = np.asarray(readout.pooled_row(evidence.observation.model.readout_of(evidence.observation.update)), np.float64)
    parts = dict(zip(readout.poolings, np.split(row, len(readout.poolings)), strict=True))
    number = float(parts["sum"] @ parts["mean"]) / max(float(parts["mean"] @ parts["mean"]), 1e-300)
    rest = float(np.linalg.norm(parts["sum"] - round(number) * parts["mean"]))
    if round(number) < 1 or abs(number - round(number)) > WHOLE or rest > WHOLE * float(np.linalg.norm(parts["sum"])):
        raise Silent("the sum over nodes is no whole multiple of their mean")
    return round(number)


def share_of_nodes(evidence: Evidence, readout: Pooled) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Of the last convolution's units the share of nodes at which each is on, and how far it may be off.

    Raises:
      Silent: another pooling, activation or convolution.
    """
    model = evidence.observation.model
    last = model.layers[-1]
    plain = last.conv.peels and last.norm is None and last.act == "relu" and not model.drops
    if readout.pooling != "mean" or model.jumping.keeps != "last" or not plain or not last.conv.bias:
        raise Silent("nodes are counted under a mean, behind a convolution with a bias and a ReLU")
    seen = np.asarray(model.conv_of(evidence.observation.update, model.depth - 1)["bias"], np.float64)
    kernel = np.asarray(readout.first(model.readout_of(evidence.observation.params))["kernel"], np.float64)
    delta = np.asarray(readout.first(model.readout_of(evidence.observation.update))["bias"], np.float64)
    upstream = kernel @ delta
    # Rounding of products and sums in the client's precision, against what cancellation leaves.
    error = 8.0 * evidence.precision * (np.abs(kernel) @ np.abs(delta))
    usable = np.abs(upstream) > 0
    scale = np.where(usable, np.abs(upstream), 1.0)
    share = np.where(usable, seen / np.where(usable, upstream, 1.0), 0.0)
    return share[usable], (error / scale)[usable]


def _divisor(shares: tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]], units: int) -> int:
    """The smallest number of which all shares are whole parts: the number of nodes is a multiple of it.

    Two different fractions of ``number`` and of at most ``MOST`` are ``1 / (number MOST)`` apart or more, so that a
    unit whose share is known to half of that has no fraction of ``number`` within its error but its own.
    """
    least = max(UNITS, units / 4)
    share, error = (each[2.0 * MOST * shares[1] < 1.0] for each in shares)
    if share.size < least:
        raise Silent("rounding leaves too few units by which nodes could be counted")
    if np.any(share < -error) or np.any(share > 1.0 + error):
        raise Silent("no unit is on at more than all nodes: something else entered the last bias")
    if np.all(share < 1.0 - error):
        raise Silent("no unit is on at all nodes, so that nothing shows the scale of the shares")
    for number in range(1, MOST + 1):
        sure = 2.0 * number * MOST * error < 1.0
        if np.sum(sure) < least:
            raise Silent("rounding leaves too few units by which nodes could be counted")
        parts = number * share[sure]
        if np.all(np.abs(parts - np.round(parts)) <= number * error[sure]):
            return number
    raise Silent(f"no number up to {MOST} explains at how many nodes each unit is on")
