"""Lists of a client's graphs after training on each of them again."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.census.batches.trained_again import trained_again
from jgleak.attacks.distance import MATCH
from jgleak.federated import LocalTraining, fedavg
from jgleak.graph import Graph


def listed(*graphs: Graph) -> Reconstruction:
    return Reconstruction(graphs, 0.0, "match")


@pytest.mark.parametrize("seconds", [1e6, 1e-9])
def test_only_graphs_stay_that_return_the_update(lab: Any, seconds: float) -> None:
    """A graph in another order of nodes stays; one with other neighbours, or another label, goes, also from the front.
    Where no time is left the first graphs stay alone."""
    first, second = lab.path([0, 1, 1, 2, 0], y=1), lab.ring([1, 3, 2, 0], y=0)
    model = lab.model()
    local = LocalTraining(0.05, 2, loader=1)
    seen = fedavg(model, lab.params(model), [first, second], lab.space, loss="bce", local=local, key=jax.random.key(0))
    wrong, turned = lab.path([0, 1, 2, 1, 0], y=1), first.permute(np.arange(first.n)[::-1])
    lists = [listed(wrong, turned, first), listed(second, dataclasses.replace(second, y=1))]
    found, far = trained_again(seen, lab.space, lists, [first, second], Budget(time_limit=seconds).start())
    assert far <= MATCH
    assert [len(answer.graphs) for answer in found] == [2, 1]
    assert not any(graph.isomorphic(wrong) for graph in found[0].graphs) and found[1].graphs == (second,)
