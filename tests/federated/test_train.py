"""Training lowers the loss, is repeatable, and needs enough graphs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jgleak.federated.train import BATCH, train, trainable


def test_training_fits_what_can_be_told_apart(world: Any) -> None:
    """Labels that say whether a graph is larger than four nodes."""
    rng = np.random.default_rng(0)
    graphs = [world.graph(n, seed, node_labels=False) for seed, n in enumerate(rng.integers(2, 8, 2 * BATCH).tolist())]
    graphs = [type(g)(g.x, g.edges, int(g.n > 4)) for g in graphs]
    model = world.model(conv="gcn", readout="node_mlp", hidden=16, readout_widths=(16,))
    start = world.params(model)
    first = train(model, start, graphs, world.space, loss="bce", epochs=30, seed=1)
    again = train(model, start, graphs, world.space, loss="bce", epochs=30, seed=1)
    assert len(first.losses) == 30 and first.losses[-1] < 0.7 * first.losses[0]
    jax.tree.map(np.testing.assert_array_equal, first.params, again.params)
    assert jax.tree.structure(first.params) == jax.tree.structure(start)
    with pytest.raises(ValueError, match="too few"):
        train(model, start, graphs[: BATCH - 1], world.space, loss="bce", epochs=1)


def test_a_flattened_readout_trains_on_what_its_slots_hold(world: Any) -> None:
    sizes = np.random.default_rng(0).integers(2, 12, 2 * BATCH).tolist()
    graphs = [world.graph(n, seed, node_labels=False) for seed, n in enumerate(sizes)]
    graphs = [type(g)(g.x, g.edges, int(g.n > 4)) for g in graphs]
    model = world.model(conv="gcn", readout="flattened", slots=16, hidden=8)
    assert len(train(model, world.params(model), graphs, world.space, loss="bce", epochs=2).losses) == 2
    small = world.model(conv="gcn", readout="flattened", slots=4, hidden=8)
    with pytest.raises(ValueError, match="of at most 4 nodes, which the readout has slots for, are too few"):
        train(small, world.params(small), graphs, world.space, loss="bce", epochs=1)


def test_as_many_graphs_as_a_step_takes_are_enough(world: Any) -> None:
    """And those count that fill all slots, but none that is larger."""
    graphs = [world.graph(4, seed) for seed in range(BATCH)]
    for model in (world.model(), world.model(readout="flattened", slots=4)):
        assert trainable(model, graphs) == graphs
    with pytest.raises(ValueError, match=f"train: {BATCH - 1} public graphs of at most 4 nodes"):
        trainable(world.model(readout="flattened", slots=4), [*graphs[1:], world.graph(5, 0)])
