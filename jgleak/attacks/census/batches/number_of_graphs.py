"""How many graphs are behind an update, where nobody says it."""

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
"""Most graphs that are tried beside what the update shows,"""

REPEATED = 4
"""and most that have the pooled row of another graph."""


def numbers_of_graphs(observation: Observation, clock: Clock) -> Iterator[int]:
    """Numbers to try, the fewest first.

    A readout that pools shows the rank of its first map's gradient: at least so many graphs. Where the pooled rows show
    too, the gradient at each graph's logits does, its share ``1/B`` included, and the labels have to add up to ``B``
    graphs: then that is the only number. After several local steps none of this shows. Twice as many graphs, each of
    them twice, have the same mean gradient: nobody can tell these apart.

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
    """Whether the labels are those of so many graphs."""
    observation = dataclasses.replace(head.observation, batch_size=number)
    labels = [part.labels for part in parts_of(dataclasses.replace(head, observation=observation), rows)]
    known = len(labels) == len(rows) and all(label is not None for own in labels for label in own)
    return known and sum(map(len, labels)) == number
