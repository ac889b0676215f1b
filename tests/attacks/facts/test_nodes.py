"""The number of nodes and of graphs, from updates whose shares and rows are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Silent
from jgleak.attacks.facts.graphs import graphs, head_rank
from jgleak.attacks.facts.nodes import nodes, share_of_nodes
from jgleak.features import FeatureSpace
from jgleak.federated import LocalTraining
from jgleak.gnn import GNN, MLP, GATConv, GCNConv, Layer, LayerNorm, NodeMLP, Pooled

from .known_updates import PLAIN, SPACE, UNITS, WEIGHTS, evidence

LAST = 12
RNG = np.random.default_rng(3)
KERNEL, DELTA, ROW = RNG.normal(size=(LAST, 5)), RNG.normal(size=5), RNG.random(LAST)
STEPS = {"protocol": "fedavg", "local": LocalTraining(0.1, 2)}


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Every test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state


def built(pooling: str = "mean", width: int = LAST, **last: Any) -> GNN:
    ending = Layer(last.pop("conv", GCNConv(width, bias=True)), **last)
    return GNN(SPACE.width, (Layer(GCNConv(UNITS)), ending), Pooled(pooling, MLP((5, 2))))


def counted(
    on: Sequence[float],
    n: float,
    row: np.ndarray = ROW,
    kernel: np.ndarray = KERNEL,
    pooling: str = "mean",
    **fields: Any,
) -> Evidence:
    """Of ``n`` nodes, at ``on[k]`` of which unit ``k`` of the last convolution is on."""
    model = fields.pop("built", built(pooling, len(on)))
    sent = {"readout/mlp/linears_0/kernel": kernel}
    back = {
        "layers_1/conv/bias": kernel[: len(on)] @ DELTA * np.asarray(on) / n,
        "readout/mlp/linears_0/kernel": np.outer(row, DELTA),
        "readout/mlp/linears_0/bias": DELTA,
    }
    return evidence(PLAIN, built=model, sent=sent, back=back | fields.pop("back", {}), **fields)


def test_conditions_add_up() -> None:
    """Shares of more nodes lie closer together than rounding tells apart; another doubt is beside that one."""
    found = nodes(counted((7, 0, 3, 1) * 3, 7))
    assert found.condition == "there are at most 1,000 nodes" and found.line.startswith(f"if {found.condition}, ")
    assert found.provided("it is so").to_json()["condition"] == "it is so and there are at most 1,000 nodes"


def told(on: Sequence[float], n: float, **fields: Any) -> Any:
    try:
        return nodes(counted(on, n, **fields)).value
    except Silent as reason:
        return str(reason)


@pytest.mark.parametrize(
    ("on", "n"),
    [
        ((7, 0, 3, 1, 2, 5, 6, 4, 7, 1, 0, 3), 7),
        ((6, 0, 2, 4, 6, 2, 0, 4, 6, 2, 0, 6), 6),
        ((12, 0, 4, 6, 3, 9, 8, 12, 6, 3, 0, 8), 12),
        ((199, 0, 1, 198, 50, 70, 3, 199, 99, 100, 0, 1), 199),
        ((200, 1) * 6, 200),
        ((2, 0, 1) * 4, 2),
        ((101, 0, 50, 51) * 3, 101),
        ((100, 33, 67, 0) * 3, 100),
        ((50, 49, 1, 0) * 3, 50),
    ],
)
def test_the_number_of_nodes_is_a_multiple_of_the_least_common_denominator(on: tuple[int, ...], n: int) -> None:
    assert told(on, n) == {"multiple_of": math.lcm(*(n // math.gcd(k, n) for k in on))}


def test_at_most_a_thousand_nodes_are_counted() -> None:
    """Where nothing cancels, so that rounding is least."""
    clear = np.tile(DELTA, (LAST, 1))
    assert told((1000, 1) * 6, 1000, kernel=clear) == {"multiple_of": 1000}
    assert "no number up to 1000" in told((1001, 1) * 6, 1001, kernel=clear)


FULL = (7, 0, 3, 1, 2, 5, 6, 4, 7, 1, 0, 3)
SILENT: dict[str, tuple[str, dict[str, Any]]] = {
    "all or none": ("on at all nodes or at none", {"on": (7, 0) * 6}),
    "never all": ("no unit is on at all nodes", {"on": (6, 0, 3, 1, 2, 5, 6, 4, 6, 1, 0, 3)}),
    "more than all": ("on at more than all nodes", {"on": (7.2, *FULL[1:])}),
    "less than none": ("on at more than all nodes", {"on": (7, -0.2, *FULL[2:])}),
    "too many nodes": ("too few units by which nodes could be counted", {"on": (1009, 1) * 6, "n": 1009}),
    "a batch": ("only pooled states of one graph", {"batch_size": 2}),
    "steps": ("counted in one gradient", STEPS),
    "noise": ("counted in one gradient", {"noise": 1e-9}),
    "decay": ("counted in one gradient", {"decayed": 0.25}),
    "sum": ("nodes are counted under a mean", {"pooling": "sum"}),
    "maximum": ("nodes are counted under a mean", {"pooling": "max"}),
    "no bias": ("behind a convolution with a bias", {"built": built(conv=GCNConv(LAST)), "without": True}),
    "another activation": ("and a ReLU", {"built": built(act="tanh")}),
    "a norm": ("behind a convolution with a bias and a ReLU", {"built": built(norm=LayerNorm())}),
    "attention": ("behind a convolution with a bias", {"built": built(conv=GATConv(LAST, bias=True))}),
    "dropout": ("behind a convolution with a bias", {"built": built(dropout=0.5)}),
    "other layers": ("under a mean", {"built": built().clone(jump="cat"), "row": np.ones(LAST + UNITS), "wide": True}),
}


@pytest.mark.parametrize("case", SILENT)
def test_what_counts_no_nodes(case: str) -> None:
    said, fields = SILENT[case]
    fields = {"on": FULL, "n": 7} | fields
    on, n = fields.pop("on"), fields.pop("n")
    if "decayed" in fields:  # the head decays too, so that it keeps its rank
        factor = fields.pop("decayed")
        decayed = factor * KERNEL + np.outer(ROW, DELTA)
        found = counted(on, n, back={"readout/mlp/linears_0/kernel": decayed}, **fields)
        kernel = found.observation.update["layers_0"]["conv"]["kernel"]
        kernel += factor * WEIGHTS
    elif fields.pop("without", False):
        sent, back = {"readout/mlp/linears_0/kernel": KERNEL}, {"readout/mlp/linears_0/kernel": np.outer(ROW, DELTA)}
        found = evidence(PLAIN, sent=sent, back=back | {"readout/mlp/linears_0/bias": DELTA}, **fields)
    elif fields.pop("wide", False):
        found = counted(on, n, kernel=np.vstack([KERNEL, np.ones((UNITS, 5))]), **fields)
    else:
        found = counted(on, n, **fields)
    with pytest.raises(Silent, match=said):
        nodes(found)


@pytest.mark.parametrize(("width", "faint", "enough"), [(12, 4, True), (12, 5, False), (40, 30, True), (40, 31, False)])
def test_a_quarter_of_the_units_and_eight_must_be_above_rounding(width: int, faint: int, enough: bool) -> None:
    """Those whose gradient nearly cancels say nothing, whatever they show."""
    drawn = np.random.default_rng(0).normal(size=(width, 5))
    across = drawn - np.outer(drawn @ DELTA, DELTA) / (DELTA @ DELTA)
    kernel = across + np.outer(np.where(np.arange(width) < faint, 1e-5, 1.0), DELTA)
    on = np.resize((7, 0, 3, 1), width).astype(float)
    on[:faint] = 33.3
    found = told(on.tolist(), 7, kernel=kernel, row=np.ones(width))
    assert found == {"multiple_of": 7} if enough else "too few units" in str(found)


def test_where_no_unit_is_above_rounding_nothing_is_said_of_all_nodes() -> None:
    kernel = KERNEL - np.outer(KERNEL @ DELTA, DELTA) / (DELTA @ DELTA) + 1e-5 * DELTA
    with pytest.raises(Silent, match="too few units"):
        nodes(counted((7, 0, 3, 1) * 3, 7, kernel=kernel))


def test_units_without_a_gradient_have_no_share() -> None:
    kernel = KERNEL.copy()
    kernel[0] = 0.0
    readout = built().readout
    assert isinstance(readout, Pooled)
    share, error = share_of_nodes(counted(FULL, 7, kernel=kernel), readout)
    np.testing.assert_allclose(share, np.array(FULL[1:]) / 7)
    bound = 8 * 2.0**-24 * np.abs(kernel[1:]) @ np.abs(DELTA) / np.abs(kernel[1:] @ DELTA)
    np.testing.assert_allclose(error, bound)


@pytest.mark.parametrize("pooling", ["mean,sum", "sum,mean"])
def test_a_sum_beside_a_mean_is_so_many_times_as_large(pooling: str) -> None:
    def beside(total: np.ndarray, mean: np.ndarray = ROW) -> Any:
        row = np.concatenate([mean, total] if pooling.startswith("mean") else [total, mean])
        kernel = np.vstack([KERNEL, KERNEL])
        model = GNN(SPACE.width, (Layer(GCNConv(UNITS)), Layer(GCNConv(LAST, bias=True))), Pooled(pooling, MLP((5, 2))))
        return told(FULL, 7, row=row, kernel=kernel, built=model)

    across = np.where(np.arange(LAST) == 0, 1.0, 0.0)
    across -= ROW * ROW[0] / (ROW @ ROW)
    across *= np.linalg.norm(ROW) / np.linalg.norm(across)
    none = "no whole multiple"
    for total, exactly in (
        (7 * ROW, 7),
        (1 * ROW, 1),
        (7.019 * ROW, 7),
        (7.021 * ROW, none),
        (7.5 * ROW, none),
        (0.01 * ROW, none),
        (7 * (ROW + 0.019 * across), 7),
        (7 * (ROW + 0.021 * across), none),
    ):
        found = beside(total)
        assert found == {"exactly": exactly} if exactly != none else none in str(found)
    assert none in str(beside(ROW, 0 * ROW)), "a mean of zeros"


def head(rank: int, **fields: Any) -> Evidence:
    """A head's gradient of so many rows; a bias that is one of their sums."""
    rng = np.random.default_rng(rank)
    rows, deltas = rng.normal(size=(rank, LAST)), rng.normal(size=(rank, 5))
    back = {"readout/mlp/linears_0/kernel": rows.T @ deltas, "readout/mlp/linears_0/bias": deltas.sum(axis=0)}
    sent = {"readout/mlp/linears_0/kernel": KERNEL, "readout/mlp/linears_0/bias": DELTA}
    factor = fields.pop("decayed", 0.0)
    back = {place: leaf + factor * sent[place] for place, leaf in back.items()}
    noisy = fields.pop("plus", 0.0)
    defaults = {"built": built(), "sent": sent, "back": back}
    return evidence(PLAIN + factor * WEIGHTS + noisy, **(defaults | fields))


@pytest.mark.parametrize("decayed", [0.0, 0.25])
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_a_head_has_the_rank_of_its_rows(rank: int, decayed: float) -> None:
    found = head(rank, decayed=decayed, batch_size=4)
    assert head_rank(found) == rank
    if rank == 1:
        with pytest.raises(Silent, match="a gradient of rank 1"):
            graphs(found)
    else:
        assert graphs(found).value == rank and f"at least {rank} graphs" in graphs(found).line
        assert graphs(found).condition is None
        fewer = graphs(head(rank, decayed=decayed, batch_size=rank - 1))
        assert fewer.value == rank and fewer.condition == "the update is one gradient", (
            "or several steps of fewer graphs"
        )


@pytest.mark.parametrize("rank", [1, 2])
def test_a_rank_of_all_outputs_says_nothing_unless_it_is_one(rank: int) -> None:
    """Some row enters every head that moved; that two did, noise would show as well."""
    rng, outputs = np.random.default_rng(rank), np.arange(5) < rank
    rows, deltas = rng.normal(size=(rank, LAST)), rng.normal(size=(rank, 5)) * outputs
    back = {"readout/mlp/linears_0/kernel": rows.T @ deltas, "readout/mlp/linears_0/bias": deltas.sum(axis=0)}
    if rank == 1:
        assert head_rank(head(1, back=back)) == 1
    else:
        with pytest.raises(Silent, match="as many dimensions as it can have"):
            head_rank(head(2, back=back))


def test_what_hides_the_rank_of_a_head() -> None:
    noisy = 0.1 * np.random.default_rng(0).normal(size=PLAIN.shape)
    one = FeatureSpace(SPACE.features[2:3])
    for said, found in (
        ("as many dimensions as it can have", head(5)),
        ("entries of the update were left out", head(2, pruned=True)),
        ("do not show that the update is a plain gradient", head(2, plus=noisy)),
        ("do not show that the update is a plain gradient", head(2, plus=np.sign(PLAIN) - PLAIN)),
        ("as many dimensions as it can have", head(2, decayed=0.25, noise=1e-9)),
        (
            "do not show that the update is a plain gradient",
            evidence(PLAIN[7:8], one, built=built().clone(in_features=1), weights=WEIGHTS[7:8]),
        ),
        ("weights moved between local steps", head(2, **STEPS)),
        ("no single row a graph", evidence(PLAIN, built=built().clone(readout=NodeMLP(MLP((3, 2)))))),
    ):
        with pytest.raises(Silent, match=said):
            graphs(found)
    assert graphs(head(2, plus=noisy, noise=1e-6)).value == 2, "noise of known size is told from a rank"
    assert head_rank(head(2, **STEPS)) == 2
