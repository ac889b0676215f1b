"""Each sentence of a diagnosis beside updates that have its cause, just have it, or say themselves why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.facts.diagnosis import (
    _altered,
    _columns,
    _loss,
    _mixed,
    _moved,
    _one_length,
    _ranks,
    _skipped,
    _steps,
)
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Silent
from jgleak.federated import LocalTraining
from jgleak.gnn import GNN, MLP, GATConv, GCNConv, Layer, LayerNorm, NodeMLP, Pooled

from .known_updates import MOVED, NODES, NORMAL, PLAIN, SPACE, UNITS, UPSTREAM, WEIGHTS, evidence, model

ADAM = {"protocol": "fedavg", "local": LocalTraining(0.1, optimiser="adam")}
TWO = {"protocol": "fedavg", "local": LocalTraining(0.25, 2)}
ONE = {"protocol": "fedavg", "local": LocalTraining(0.25, 1)}
RNG = np.random.default_rng(2)
NOISY = PLAIN + 0.1 * RNG.normal(size=PLAIN.shape)


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Every test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(2).bit_generator.state


KINDLESS = np.array([1, 1, 1, 0], np.int32)
"""Leaves all nodes of one kind, whose column is zero when it is normalised."""


def said(check: Callable[[Evidence], Iterator[str]], found: Evidence) -> str:
    """The sentences of one check; none where it does not apply."""
    try:
        return " ".join(check(found))
    except (Silent, ConditionFailed):
        return ""


def test_several_steps_are_said() -> None:
    """Where they moved rows far."""
    far, near = ({"protocol": "fedavg", "local": LocalTraining(rate, 2)} for rate in (100.0, 1e-6))
    assert "in 2 local steps of 100 a convolution moved rows" in said(_steps, evidence(PLAIN, **far))
    adam = {"protocol": "fedavg", "local": LocalTraining(100.0, 2, optimiser="adam")}
    for marks in ({}, ONE, ADAM, adam, near):
        assert not said(_steps, evidence(PLAIN, **marks))
    place = "readout/mlp/linears_0/kernel"
    head = {"sent": {place: np.ones((2, 2))}, "back": {place: np.ones((2, 2))}}
    assert not said(_steps, evidence(0.0 * PLAIN, **head, **far)), "a readout is no convolution"


@pytest.mark.parametrize("shape", [(10, 16), (16, 3), (4, 2, 6)])
def test_rows_move_along_the_largest_change_relative_to_what_the_kernel_makes_of_them(shape: tuple[int, ...]) -> None:
    """A change of rank one; of several heads, the kernels stand below each other."""
    kernel = RNG.normal(size=shape)
    across = RNG.normal(size=kernel.size // shape[-1])
    way = across / np.linalg.norm(across)
    change = 0.3 * np.outer(way, np.eye(shape[-1])[0]) + 0.1 * np.outer(_beside(way), np.eye(shape[-1])[1])
    wanted = 0.3 / np.linalg.norm(way @ kernel.reshape(-1, shape[-1]))
    assert _moved(kernel, change.reshape(shape)) == pytest.approx(wanted)
    assert _moved(0.0 * kernel, change.reshape(shape)) == 0.0


def _beside(way: np.ndarray) -> np.ndarray:
    """A direction of length 1 at right angles to another one."""
    other = np.eye(way.size)[0] - way[0] * way
    return other / np.linalg.norm(other)


def test_columns_that_are_not_those_of_the_schema_are_said() -> None:
    raw = "rows of the first gradient are exactly zero"
    varied = NORMAL.fit([np.concatenate([NODES, [[2, 0, 0, 0], [3, 1, 1, 1]]]).astype(np.int32)])
    alike = NORMAL.fit([np.concatenate([NODES, [[2, 0, 0, 0], [3, 1, 1, 1]]]).astype(np.int32) * KINDLESS])
    assert raw in said(_columns, evidence(PLAIN, varied))
    assert raw in said(_columns, evidence(PLAIN, varied, kind=np.float32))
    for quiet in (
        evidence(PLAIN),
        evidence(PLAIN, varied, kind=np.float16),
        evidence(PLAIN, varied, pruned=True),
        evidence(0.0 * PLAIN, varied),
        evidence(PLAIN, varied, weights=WEIGHTS * np.any(PLAIN, axis=1)[:, None]),
        evidence(MOVED + 1e-3, varied),
        evidence(alike.encode(NODES * KINDLESS).astype(np.float64).T @ UPSTREAM, alike),
        evidence(PLAIN, dataclasses.replace(SPACE, mean=np.zeros(SPACE.width), std=np.ones(SPACE.width))),
    ):
        assert raw not in said(_columns, quiet)


def shown(bias: Any, **marks: Any) -> Evidence:
    return evidence(PLAIN, built=model(Pooled("mean", MLP((3,)))), back={"readout/mlp/linears_0/bias": bias}, **marks)


def test_signs_that_no_class_has_are_said_unless_one_negative_entry_stands_beside_rounding() -> None:
    assert "the loss is not 'ce': if the 3 outputs are tasks" in said(_loss, shown([-0.2, -0.3, 0.5]))
    assert said(_loss, shown([-0.4, 0.0, 0.1])) and not said(_loss, shown([-0.4, 0.3, 0.1]))
    assert said(_loss, shown([-0.2, -0.3, 0.5], kind=np.float16)), "two are no rounding"
    assert not said(_loss, shown([-0.4, 0.0, 0.1], kind=np.float16)), "one and a zero may be"
    assert not said(_loss, shown([-0.2, -0.3, 0.5], noise=1e-9)) and not said(_loss, shown([0.0, 0.0, 0.0]))


def test_entries_of_one_length_are_said() -> None:
    def lengths(share: float, moved: int = 150, off: float = 0.0, scale: float = 1.0, **marks: Any) -> str:
        flat = np.zeros(PLAIN.size)
        flat[:moved] = RNG.uniform(0.1, 0.9, moved)
        flat[: round(share * moved)] = 1.0 - off
        flat[0] = 1.0
        flat *= scale * np.sign(RNG.normal(size=flat.size))
        return said(_one_length, evidence(flat.reshape(PLAIN.shape), **marks))

    assert "60% of the entries that moved are of one length, 1" in lengths(0.6)
    assert lengths(0.5) and not lengths(0.49)
    for scale in (0.01, 1.0, 100.0):
        assert lengths(0.6, off=0.019, scale=scale) and not lengths(0.6, off=0.021, scale=scale)
    assert lengths(1.0, moved=100) and not lengths(1.0, moved=99)
    assert lengths(0.6, off=0.04, noise=0.01) and not lengths(0.6, off=0.06, noise=0.01), "and three deviations"
    assert lengths(1.0, noise=0.07) and not lengths(1.0, noise=0.08), "noise of a quarter's length explains it"
    assert lengths(0.6, **ONE) and not lengths(0.6, **TWO) and not lengths(0.6, **ADAM)


def test_rows_that_do_not_add_up_and_weight_decay_are_said() -> None:
    assert "do not add up over features" in said(_altered, evidence(NOISY))
    assert "holds 0.25 times the weights: weight decay" in said(_altered, evidence(PLAIN + 0.25 * WEIGHTS))
    for quiet in (
        evidence(PLAIN),
        evidence(PLAIN + 0.25 * WEIGHTS, noise=1e-9),
        evidence(PLAIN + 0.25 * WEIGHTS, **ADAM),
        evidence(PLAIN + 0.25 * WEIGHTS, built=model().clone(dropout=0.5)),
    ):
        assert not said(_altered, quiet)


LAST = 12


def headed(rank: int, graphs: int = 1, **marks: Any) -> Evidence:
    built = GNN(SPACE.width, (Layer(GCNConv(UNITS)), Layer(GCNConv(LAST, bias=True))), Pooled("mean", MLP((6, 2))))
    rows, deltas = RNG.normal(size=(rank, LAST)), RNG.normal(size=(rank, 6))
    back = {"readout/mlp/linears_0/kernel": rows.T @ deltas, "readout/mlp/linears_0/bias": deltas.sum(axis=0)}
    return evidence(PLAIN, built=built, back=back, batch_size=graphs, **marks)


def test_more_rows_than_graphs_are_said() -> None:
    assert "has rank 2, and one gradient of 1 graph has at most 1: the update mixes 2" in said(_mixed, headed(2))
    assert "rank 4, and one gradient of 3 graphs has at most 3" in said(_mixed, headed(4, 3))
    assert "rank 3, and one gradient of 2 graphs has at most 2" in said(_mixed, headed(3, 2))
    assert not said(_mixed, headed(1)) and not said(_mixed, headed(3, 3)) and not said(_mixed, headed(2, **TWO))


def passed(units: int, off: int = 6, pooling: str = "mean", **fields: Any) -> str:
    """A pooled row in which so many units are not zero, though they got no gradient."""
    conv = fields.pop("conv", GCNConv(LAST, bias=True))
    frozen, jump, drops = fields.pop("frozen", ()), fields.pop("jump", "last"), fields.pop("dropout", 0.0)
    layers = (Layer(GCNConv(UNITS), dropout=drops), Layer(conv, **fields.pop("last", {})))
    built = GNN(SPACE.width, layers, Pooled(pooling, MLP((6, 2))), frozen=frozen, jump=jump)
    width = LAST + UNITS * (jump == "cat")
    row, head = np.ones(width), RNG.uniform(1.0, 2.0, size=(width, 6))
    row[units:off] = fields.pop("faint", 0.0)
    row *= fields.pop("loud", 1.0)
    head[0] *= fields.pop("unheard", 1.0)
    kernel = np.ones((UNITS, LAST))
    kernel[:, :off] = 0.0
    back = {
        "layers_1/conv/kernel": kernel,
        "layers_1/conv/bias": np.ones(LAST) if fields.pop("moved", False) else kernel[0],
        "readout/mlp/linears_0/kernel": np.outer(row, np.ones(6)),
        "readout/mlp/linears_0/bias": np.ones(6),
    }
    if fields.pop("bare", False):
        back = {place: leaf for place, leaf in back.items() if not place.startswith("layers_1")}
    return said(
        _skipped, evidence(PLAIN, built=built, back=back, sent={"readout/mlp/linears_0/kernel": head}, **fields)
    )


def test_units_that_something_passed_by_are_said() -> None:
    assert "3 units of convolution 2 are off at every node and yet not zero" in passed(3)
    assert not passed(2) and "6 units" in passed(6) and "6 units" in passed(6, pooling="sum")
    for loud in (0.01, 1.0, 100.0):
        assert not passed(2, faint=0.9e-3, loud=loud), "less than a thousandth of the largest is nothing"
        assert "6 units" in passed(2, faint=1.1e-3, loud=loud)
    assert "5 units" in passed(6, unheard=1e-4), "units that the head does not hear have no gradient anyway"
    assert passed(6, **ONE)


@pytest.mark.parametrize(
    "fields",
    [
        {"pooling": "max"},
        {"conv": GATConv(LAST), "bare": True},
        {"last": {"norm": LayerNorm()}},
        {"last": {"act": "tanh"}},
        {"frozen": ("layers_1",), "bare": True},
        {"jump": "cat"},
        {"dropout": 0.5},
        {"moved": True},
        {"noise": 1e-6},
        {"pruned": True},
        TWO,
    ],
    ids=str,
)
def test_what_makes_units_that_are_off_no_accusation(fields: dict[str, Any]) -> None:
    assert not passed(6, **fields)


def test_spans_that_lack_dimensions_or_exclude_nothing_are_said() -> None:
    """Five different nodes at least enter a second convolution."""
    built = GNN(SPACE.width, (Layer(GCNConv(UNITS)), Layer(GCNConv(8))), Pooled("mean", MLP((2,))))

    def second(rank: int, first: np.ndarray = PLAIN, **marks: Any) -> str:
        rows = RNG.normal(size=(UNITS, rank)) @ RNG.normal(size=(rank, 8))
        rows += marks.get("noise", 0.0) * RNG.normal(size=rows.shape)
        return said(_ranks, evidence(first, built=built, back={"layers_1/conv/kernel": rows}, **marks))

    assert "the gradient of convolution 2 has the largest rank its width allows, 8: it excludes nothing" in second(8)
    assert "convolution 2 has rank 4, and 5 different nodes or more enter: it lacks 1 dimension at least" in second(4)
    assert "it lacks 3 dimensions at least, and true neighbourhoods lie outside its span" in second(2)
    for quiet in (second(5), second(6), second(2, pruned=True), second(2, **TWO), second(2, NOISY)):
        assert not quiet
    assert not second(2, np.sign(PLAIN)), "three values occur, but signs have no span"
    assert "lacks 3 dimensions" in second(2, **ONE) and "lacks 3 dimensions" in second(2, noise=0.03)


def test_a_span_that_excludes_nothing_is_said_once() -> None:
    """Where a convolution's own rows enter it, not again where its output does."""
    layers = Layer(GCNConv(4)), Layer(GCNConv(8))
    built = GNN(SPACE.width, layers, Pooled("mean", MLP((2,))))
    rows = {"layers_1/conv/kernel": RNG.normal(size=(4, 3)) @ RNG.normal(size=(3, 8))}
    words = said(_ranks, evidence(PLAIN[:, :4], built=built, weights=WEIGHTS[:, :4], back=rows))
    assert words == "the gradient of convolution 1 has the largest rank its width allows, 4: it excludes nothing"


@pytest.mark.parametrize("last", [{"act": "identity"}, {"act": "relu"}, {"act": "identity", "norm": LayerNorm()}])
def test_one_dimension_a_graph_is_the_models_doing_where_nothing_bends_behind_it(last: dict[str, Any]) -> None:
    """Every node sends the same gradient back, unless an activation or a norm stands between."""
    layers = Layer(GCNConv(UNITS)), Layer(GCNConv(8), **last)
    rows = np.outer(RNG.normal(size=UNITS), RNG.normal(size=8))
    for readout, straight in (
        (Pooled("mean", MLP((2,))), len(last) == 1),
        (NodeMLP(MLP((2,)), see_input=False), False),
    ):
        built = GNN(SPACE.width, layers, readout)
        words = said(_ranks, evidence(PLAIN, built=built, back={"layers_1/conv/kernel": rows}))
        alike = SPACE.encode(NODES[[0] * 5]).astype(np.float64).T @ UPSTREAM
        assert not said(_ranks, evidence(alike, built=built, back={"layers_1/conv/kernel": rows})), "one kind of node"
        straight &= last["act"] == "identity"
        assert ("as always where no activation stands" in words) == straight, words
        assert ("true neighbourhoods lie outside its span" in words) != straight
