"""The mean and variance of the batch at every norm in training mode, from the buffers that came back."""

from __future__ import annotations

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import BATCH, CLIPPING, NOISE, ONE, PRUNING, QUANTISATION, Fact, Silent
from jgleak.federated.statistics import of_batch

UNDER = (ONE, BATCH, CLIPPING, PRUNING, QUANTISATION, NOISE)
"""One step, whatever is done to the update."""


def batch_statistics(evidence: Evidence) -> Fact:
    """What entered every norm: the mean and the unbiased variance over the client's nodes, column by column.

    ``running = (1 - m) running + m batch`` is solved for the batch's (``federated.statistics``). What a client does to
    its update does not touch buffers.

    Raises:
      Silent: no running statistics came back, or they moved in several steps.
    """
    observation = evidence.observation
    if observation.steps > 1:
        raise Silent("running statistics moved towards those of several steps, and only a mixture of these shows")
    if observation.statistics is None:
        raise Silent("no running statistics came back")
    batch = of_batch(observation.model, observation.params, observation.statistics)
    value = {
        "/".join(path): {"mean": mean.tolist(), "variance": variance.tolist()}
        for path, (mean, variance) in batch.items()
    }
    said = ", ".join(f"{place} ({len(part['mean'])} columns)" for place, part in value.items())
    return Fact("batch_statistics", value, UNDER, f"mean and variance over the client's nodes at {said}")
