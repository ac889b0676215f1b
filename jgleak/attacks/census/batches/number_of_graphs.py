"""How many graphs are behind an update, where the number is not given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches import masks
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.parts import parts_of
from jgleak.attacks.census.local_path import moved
from jgleak.federated.observation import Observation

MOST = 8
"""Most graphs that are tried, unless the update shows more;"""

REPEATED = 4
"""most graphs with the pooled row of another graph."""


def numbers_of_graphs(observation: Observation, clock: Clock) -> Iterator[int]:
    """Numbers to try, the fewest first.

    The rank of the gradient of a pooling readout's first map is a lower bound. Where the pooled rows are found too, so
    is the gradient at each graph's logits with its share ``1/B``, and the labels have to add up to ``B`` graphs: then
    that is the only number. After several local steps none of this is known. Twice as many graphs, each of them twice,
    have the same mean gradient and cannot be distinguished.

    Args:
      observation: the update, of any ``batch_size``.
      clock: ends the search for pooled rows.
    """
    fewest = 1
    if observation.model.readout.additive == "pooled" and not moved(observation):
        head = HeadGradient.of(observation)
        fewest = max(1, head.rank)
        rows = masks.pooled_rows(head, clock)
        for number in range(fewest, fewest + REPEATED + 1):
            if rows is not None and _counted(head, rows, number):
                yield number
                return
    yield from range(fewest, max(fewest, MOST) + 1)


def _counted(head: HeadGradient, rows: Float[np.ndarray, "r P"], number: int) -> bool:
    """Whether ``number`` graphs explain the labels."""
    observation = dataclasses.replace(head.observation, batch_size=number)
    labels = [part.labels for part in parts_of(dataclasses.replace(head, observation=observation), rows)]
    known = len(labels) == len(rows) and all(label is not None for own in labels for label in own)
    return known and sum(map(len, labels)) == number
