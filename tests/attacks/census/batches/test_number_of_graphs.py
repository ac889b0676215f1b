"""How many graphs are tried: from the rank of the head's gradient on, or the number that labels add up to."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from jgleak.attacks.census.batches import number_of_graphs as module
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.number_of_graphs import MOST, REPEATED, numbers_of_graphs
from jgleak.federated import Observation
from jgleak.gnn import GNN, MLP, GCNConv, Layer, NodeMLP, Pooled, Readout
from tests.clocks import HELD as FOREVER


def seen(readout: Readout) -> Observation:
    """An update of ones."""
    model = GNN(3, (Layer(GCNConv(5)),), readout)
    ones = jax.tree.map(lambda s: np.ones(s.shape), jax.eval_shape(lambda: model.initial(key=jax.random.key(0))))
    return Observation(model, ones, ones, "ce")


@pytest.mark.parametrize(
    ("rank", "rows", "counted", "numbers"),
    [
        (2, 2, 2, [2]),
        (2, 2, 2 + REPEATED, [2 + REPEATED]),
        (2, 2, 3 + REPEATED, list(range(2, MOST + 1))),
        (2, None, 2, list(range(2, MOST + 1))),
        (0, 1, 9, list(range(1, MOST + 1))),
        (MOST, 2, 1, [MOST]),
        (MOST + 3, 2, 1, [MOST + 3]),
    ],
)
def test_numbers_begin_at_the_rank_and_end_where_labels_agree(
    rank: int, rows: int | None, counted: int, numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    observation = seen(Pooled("mean", MLP((4, 2))))
    monkeypatch.setattr(module, "moved", lambda _: False)
    monkeypatch.setattr(HeadGradient, "of", lambda _: SimpleNamespace(rank=rank))
    monkeypatch.setattr(module.masks, "pooled_rows", lambda *_: None if rows is None else np.zeros((rows, 3)))
    monkeypatch.setattr(module, "_counted", lambda _, __, number: number == counted)
    assert list(numbers_of_graphs(observation, FOREVER)) == numbers
    every = list(range(1, MOST + 1))
    monkeypatch.setattr(module, "moved", lambda _: True)
    assert list(numbers_of_graphs(observation, FOREVER)) == every, "after local steps the rank is not the graphs'"
    monkeypatch.setattr(module, "moved", lambda _: False)
    assert list(numbers_of_graphs(seen(NodeMLP(MLP((4, 2)))), FOREVER)) == every


@pytest.mark.parametrize(
    ("labels", "number", "explained"),
    [
        ([(1,), (0, 1)], 3, True),
        ([(1,), (0, 1)], 2, False),
        ([(1,), (0, 1)], 4, False),
        ([(1,), (None, 1)], 3, False),
        ([(1, 0, 1)], 3, False),
    ],
)
def test_labels_add_up_where_every_row_has_known_ones(
    labels: list[tuple[int | None, ...]], number: int, explained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, tried = HeadGradient.of(seen(Pooled("mean", MLP((4, 2))))), list[int]()

    def parts(of: HeadGradient, _: np.ndarray) -> list[SimpleNamespace]:
        tried.append(of.observation.batch_size)
        return [SimpleNamespace(labels=own) for own in labels]

    monkeypatch.setattr(module, "parts_of", parts)
    assert module._counted(head, np.zeros((2, 3)), number) is explained and tried == [number]
