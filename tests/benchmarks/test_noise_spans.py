"""The study of noise beside spans, at a small size: what it counts is what noise of no and of any size does."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from benchmarks.studies.noise_spans import calibration, nodes, spans
from jgleak import Observation, fedsgd, standard
from jgleak.datasets import Dataset, load


@pytest.fixture(scope="module")
def world() -> tuple[Dataset, list[Observation]]:
    data = load("embedded", graphs=2, max_nodes=6)
    model = standard(data.space.width, hidden=64)
    params = jax.tree.map(np.asarray, model.initial(key=jax.random.key(0)))
    return data, [fedsgd(model, params, [graph], data.space, loss="bce") for graph in data.graphs]


def test_true_rows_exceed_a_quantile_at_about_its_rate() -> None:
    found = calibration((40.0, 10.0, 8.0, 6.0), 100, 0)
    assert found["rows"] == 400 and 0.05 < found["exceed"]["1e-01"] < 0.2 and found["exceed"]["1e-04"] == 0.0


@pytest.mark.parametrize(("name", "lost"), [("0", 0), ("1e-4", 0), ("100", 2)])
def test_nodes_are_lost_under_large_noise_alone(world: tuple[Dataset, list[Observation]], name: str, lost: int) -> None:
    data, clean = world
    found = nodes(name, clean, data, 60.0, 0)
    assert found["lost"] + found["unended"] == lost and found["relative"] == pytest.approx(float(name), rel=1e-3)


def test_what_can_be_seen_does_not_depend_on_the_size_of_the_update(
    world: tuple[Dataset, list[Observation]],
) -> None:
    one = world[1][0]
    larger = Observation(one.model, one.params, jax.tree.map(lambda leaf: 8 * leaf, one.update), one.loss)
    told, again = dict(spans(one)), dict(spans(larger))
    assert {"readout 0", "node 0", "readout 2"} <= told.keys()
    assert again == pytest.approx(told, rel=1e-4)
