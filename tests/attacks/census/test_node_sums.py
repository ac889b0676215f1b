"""What is remembered of neighbourhoods, and whose weights' gradients are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jgleak import Knowledge
from jgleak.attacks.census import node_sums as module
from jgleak.attacks.census.node_sums import SMALL, NodeSums, _small
from jgleak.attacks.census.problem import CensusProblem
from jgleak.gnn import GNN

from .test_search import CODES, MOST, SPACE, drawn, observed, padded


def test_a_full_memory_is_emptied_before_the_next_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """And their misfits are the same as ever."""
    rng = np.random.default_rng(2)
    graphs = [drawn(rng, 7) for _ in range(4)]
    sums = NodeSums(CensusProblem.of(observed(graphs[0]), Knowledge(SPACE)), CODES, MOST)
    wanted = sums.misfits(*padded(graphs))
    number, first = sums.columns.size, sums.states
    monkeypatch.setattr(module, "REMEMBERED", number)
    np.testing.assert_array_equal(sums.misfits(*padded(graphs)), wanted)
    assert sums.states is first and sums.columns.size == number, "so many may be remembered"
    monkeypatch.setattr(module, "REMEMBERED", number - 1)
    np.testing.assert_allclose(sums.misfits(*padded(graphs[:1])), wanted[:1], atol=1e-6)
    assert sums.states is not first and 0 < sums.columns.size < number


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ({"a": SMALL, "b": SMALL + 1, "c": 1}, {"a", "c"}),
        ({"a": SMALL + 1, "b": SMALL + 2}, {"a"}),
        ({"a": 5, "b": 7}, {"a", "b"}),
    ],
    ids=["up to the bound", "at least the smallest", "all"],
)
def test_gradients_of_small_weights_are_compared(sizes: dict[str, int], kept: set[str]) -> None:
    """In a tree like that of all weights."""
    tree: Any = {"readout": {name: {"kernel": np.full(size, 2.0)} for name, size in sizes.items()}, "layers_0": {}}
    model = object.__new__(GNN)
    object.__setattr__(model, "evidence", lambda update: update)
    found = _small(model, tree)
    assert set(found) == {"readout"} and set(found["readout"]) == kept
    assert all(found["readout"][name]["kernel"] is tree["readout"][name]["kernel"] for name in kept)
