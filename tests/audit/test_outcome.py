"""What is said of an answer without a graph."""

from __future__ import annotations

import dataclasses

import jax
import pytest

from jgleak import Reconstruction
from jgleak.audit.outcome import outcome
from jgleak.datasets import MOLECULE_SPACE
from jgleak.federated import LocalTraining, Observation
from jgleak.gnn import standard


@pytest.mark.parametrize("stop", ["nothing assembled", "time"])
def test_numbers_of_local_training_are_named_as_what_to_check(stop: str) -> None:
    """By the names of their fields, and only where the file states such training."""
    model = standard(MOLECULE_SPACE.width, hidden=4)
    params = model.initial(key=jax.random.key(0))
    one = Observation(model, params, params, "bce", batch_size=3)
    steps = dataclasses.replace(one, protocol="fedavg", local=LocalTraining(0.05, 6, loader=1))
    plain, hints = (set(outcome(seen, Reconstruction((), None, stop), None).hints) for seen in (one, steps))
    (training,) = hints - plain
    assert plain < hints and "LocalTraining(rate=0.05, steps=6, loader=1) of batch_size=3" in training
