"""What secure aggregation shows of several clients: the mean gradient over all their graphs."""

from __future__ import annotations

import dataclasses
import functools
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.datasets import embedded
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.federated.secure import FixedPoint, summed
from jgleak.gnn import standard

DATA = embedded()
MODEL = standard(DATA.space.width, hidden=8)
FINE = FixedPoint(bound=8.0, fraction=40)


@functools.cache
def params() -> Any:
    return MODEL.initial(key=jax.random.key(0))


@functools.cache
def clients() -> list[Observation]:
    """Of one, three and two graphs."""
    parts = DATA.graphs[:1], DATA.graphs[1:4], DATA.graphs[4:6]
    return [fedsgd(MODEL, params(), graphs, DATA.space, loss="bce") for graphs in parts]


def test_noise_adds_up_and_rounding_is_refused() -> None:
    """Of one, three and two graphs; what each client rounded relative to its entries has no bound beside their sum."""
    given = [dataclasses.replace(one, noise=noise) for one, noise in zip(clients(), (0.3, None, 0.2), strict=True)]
    assert summed(given, FINE).noise == pytest.approx(np.hypot(0.3, 2 * 0.2) / 6)
    assert summed(clients(), FINE).noise is None
    with pytest.raises(ValueError, match="observations: the clients rounded their gradients"):
        summed([clients()[0], dataclasses.replace(clients()[1], rounding=1e-3)], FINE)


def test_the_sum_is_the_update_of_one_client_with_all_graphs() -> None:
    """Against the model's own mean over six."""
    seen, whole = summed(clients(), FINE), fedsgd(MODEL, params(), DATA.graphs[:6], DATA.space, loss="bce")
    assert seen.batch_size == whole.batch_size == 6
    for own, other in zip(jax.tree.leaves(seen.update), jax.tree.leaves(whole.update), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-7 * float(np.abs(other).max()) + 1e-9)
    alone = summed(clients()[1:2], dataclasses.replace(FINE, addends=1))
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-9), alone.update, clients()[1].update)
    assert summed(clients(), dataclasses.replace(FINE, addends=3)).batch_size == 6


def test_steps_bound_what_rounding_takes() -> None:
    coarse = FixedPoint(bound=8.0, fraction=12)
    far = [
        float(np.abs(own - other).max())
        for own, other in zip(
            jax.tree.leaves(summed(clients(), coarse).update),
            jax.tree.leaves(summed(clients(), FINE).update),
            strict=True,
        )
    ]
    assert 0.1 * coarse.step / 6 < max(far) <= (len(clients()) / 2 + 1e-3) * coarse.step / 6


def test_clients_of_different_rounds_or_defended_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="a sum needs one client"):
        summed([], FINE)
    with pytest.raises(ValueError, match="not of one round"):
        summed([clients()[0], dataclasses.replace(clients()[1], loss="ce")], FINE)
    with pytest.raises(ValueError, match="not of one round"):
        summed([clients()[0], dataclasses.replace(clients()[1], params=jax.tree.map(np.copy, params()))], FINE)
    averaged = {"protocol": "fedavg", "local": LocalTraining(0.1)}
    for fields in ({"scaled": True}, {"pruned": True}, averaged):
        with pytest.raises(ValueError, match="unclipped and unpruned"):
            summed([clients()[0], dataclasses.replace(clients()[1], **fields)], FINE)
    with pytest.raises(ValueError, match="adds up 1 at most"):
        summed(clients()[:2], dataclasses.replace(FINE, addends=1))
    with pytest.raises(ValueError, match="above the fixed-point bound"):
        summed(clients(), FixedPoint(bound=1e-6, fraction=40))
