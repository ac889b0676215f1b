"""What a server sees of clients whose updates are added up securely: their sum, in fixed point."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import numpy as np

from jgleak.federated.observation import Observation
from jgleak.federated.secure.encoding import FixedPoint


def summed(observations: Sequence[Observation], code: FixedPoint) -> Observation:
    """The mean gradient over all graphs of several clients, as secure aggregation shows it.

    Every client weighs its own mean by its number of graphs, and encodes it; whatever the protocol (masks that cancel,
    or homomorphic encryption), the server learns the sum of the whole numbers and nothing else.

    Args:
      observations: one a client, of one round.
      code: the fixed point that all agreed on; its step bounds what rounding takes from the sum.

    Returns:
      The observation of one client with all of these graphs.

    Raises:
      ValueError: no client, more than the encoding can add up, clients of different rounds, or protocols that are not
        one gradient; or an entry beyond the encoding's bound.
    """
    if not observations:
        raise ValueError("observations: a sum needs one client at least")
    first, graphs = observations[0], sum(one.batch_size for one in observations)
    if len(observations) > code.addends:
        raise ValueError(f"observations: {len(observations)} clients, and the encoding adds up {code.addends} at most")
    for one in observations:
        if one.protocol != "fedsgd" or one.scaled or one.pruned or one.statistics is not None:
            raise ValueError("observations: only plain gradients (fedsgd) are added up here, unclipped and unpruned")
        if one.rounding is not None:
            raise ValueError(
                "observations: the clients rounded their gradients, each entry relative to itself, and nothing bounds "
                "that beside the sum, where entries cancel; let the encoding round instead (FixedPoint)"
            )
        if (one.model, one.loss) != (first.model, first.loss) or one.params is not first.params:
            raise ValueError("observations: the clients are not of one round (model, loss and parameters differ)")

    def total(*leaves: np.ndarray) -> np.ndarray:
        each = zip(observations, leaves, strict=True)
        whole = sum(code.encode(one.batch_size * np.asarray(leaf, np.float64)) for one, leaf in each)
        return (code.decode(np.asarray(whole)) / graphs).astype(np.float32)

    update = jax.tree.map(total, *(one.update for one in observations))
    noises = [one.batch_size * one.noise for one in observations if one.noise is not None]
    noise = math.hypot(*noises) / graphs if noises else None
    return dataclasses.replace(first, update=update, batch_size=graphs, noise=noise)
