"""Values, kinds and units that show, from updates of which it is known what they are made of."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import LINEAR, NOISE, PROTOCOLS, Silent
from jgleak.attacks.facts.feature_values import DISPROPORTIONATE, feature_values, occurring
from jgleak.attacks.facts.node_kinds import described, different_nodes, node_kinds, rank_of_rows, vectors
from jgleak.attacks.facts.units import units
from jgleak.features import Feature, FeatureSpace, binary, number, onehot
from jgleak.federated import LocalTraining, Observation
from jgleak.gnn import GNN, MLP, GATConv, GCNConv, Layer, LayerNorm, NodeMLP, Pooled, SAGEConv

from .known_updates import NODES, PLAIN, SPACE, UNITS, WEIGHTS, evidence, model

OCCUR = {"colour": ["r", "g"], "size": [1, 2, 3], "ring": [1], "kind": ["a", "b"]}
RNG = np.random.default_rng(8)


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Every test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(8).bit_generator.state


def test_values_are_those_of_rows_that_moved() -> None:
    found = feature_values(evidence(PLAIN))
    assert found.value == OCCUR
    assert found.line == "these values occur: colour r, g; size 1, 2, 3; ring 1; kind a, b"
    assert found.exact_under == tuple(p for p in PROTOCOLS if p != NOISE)
    off = PLAIN.copy()
    off[7] = 0.0
    assert feature_values(evidence(off)).value == {k: v for k, v in OCCUR.items() if k != "ring"}


def test_values_under_weight_decay_are_those_of_rows_with_a_sign_that_weights_do_not_have() -> None:
    assert feature_values(evidence(PLAIN + 1e-3 * WEIGHTS)).value == OCCUR
    weightless = WEIGHTS.copy()
    weightless[2] = 0.0  # an absent value whose row neither decays nor moves
    assert feature_values(evidence(PLAIN + 1e-3 * weightless, weights=weightless)).value == OCCUR
    whole = FeatureSpace((onehot("colour", "rg"), onehot("kind", "ab")))
    nodes = np.array([[0, 0], [1, 1]], np.int32)
    moved = whole.encode(nodes).T @ RNG.normal(size=(2, UNITS)) + 0.1 * WEIGHTS[:4]
    seen = evidence(moved, whole, built=model().clone(in_features=4), weights=WEIGHTS[:4])
    assert seen.decay == pytest.approx(0.1)
    with pytest.raises(Silent, match="every row of the first kernel moved"):
        feature_values(seen)


def test_nothing_is_told_of_rows_that_noise_moved_unless_its_size_is_known() -> None:
    noisy = 10.0 * PLAIN + 1e-3 * RNG.normal(size=PLAIN.shape)
    with pytest.raises(Silent, match="every row of the first kernel moved, as under noise"):
        feature_values(evidence(noisy))
    found = feature_values(evidence(noisy, noise=1e-3))
    assert found.value == OCCUR and found.exact_under == PROTOCOLS
    assert feature_values(evidence(PLAIN, noise=0.0)).value == OCCUR, "noise of no size moves no row"


@pytest.mark.parametrize("kind", ["normal", "laplace"])
def test_rows_of_noise_alone_are_no_values(kind: str) -> None:
    """The bound is passed by less than one update in 100,000; a row twice as long as noise counts."""
    rng = np.random.default_rng(1)
    alone = {"normal": rng.normal, "laplace": lambda size: rng.laplace(scale=np.sqrt(0.5), size=size)}[kind]
    for _ in range(20):
        with pytest.raises(Silent, match="no row of a first kernel shows a value"):
            feature_values(evidence(alone(size=PLAIN.shape), noise=1.0))
    rows, width = PLAIN.shape
    most = width + 6.0 * np.sqrt(5.0 * width) + np.log(rows * width * 1e5) ** 2 / 2.0
    row = np.zeros(PLAIN.shape)
    for share, values in ((1.01, {"colour": ["b"]}), (0.99, None)):
        row[2] = 0.3 * np.sqrt(share * most / width)
        try:
            assert feature_values(evidence(row, noise=0.3)).value == values
        except Silent:
            assert values is None


def test_values_of_normalised_columns_stand_beside_the_row_of_absent_ones() -> None:
    """Of fourteen values ten are absent."""
    space = FeatureSpace((onehot("colour", "rgbkwyvo"), onehot("size", (1, 2, 3, 4)), binary("ring"), binary("acid")))
    public = np.array([[k % 8, k % 4, k % 3 == 0, k % 5 == 0] for k in range(64)], np.int32)
    nodes = np.array([[0, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]], np.int32)
    normal = space.fit([public])
    weights, upstream = RNG.normal(size=(14, UNITS)), RNG.normal(size=(3, UNITS))
    moved = normal.encode(nodes).astype(np.float64).T @ upstream
    built, occur = model().clone(in_features=14), {"colour": ["r", "g"], "size": [2], "ring": [1]}
    for decay in (0.0, 0.2):
        found = feature_values(evidence(moved + decay * weights, normal, built=built, weights=weights))
        assert found.value == occur and found.exact_under == LINEAR
    for scale in (1e-4, 1.0, 1e4):
        single = evidence(scale * moved, normal, built=built, weights=weights, kind=np.float32)
        assert feature_values(single).value == occur, scale
    hidden: tuple[tuple[str, dict[str, Any]], ...] = (
        ("something beside training changed", {"pruned": True}),
        ("something beside training changed", {"noise": 1e-9}),
    )
    for said, marks in hidden:
        with pytest.raises(Silent, match=said):
            feature_values(evidence(moved, normal, built=built, weights=weights, **marks))
    all_occur = normal.encode(public).T @ RNG.normal(size=(64, UNITS))
    with pytest.raises(Silent, match="no row stands out"):
        feature_values(evidence(all_occur, normal, built=built, weights=weights))
    # Two absent colours trade a little: a row is another one from a hundredth beside that of absent values on.
    black, white = 3, 4
    assert normal.mean is not None and normal.std is not None and normal.mean[black] == normal.mean[white]
    others = moved[black] * normal.std[black] / normal.mean[black]
    across = np.zeros(UNITS)
    across[:2] = others[1], -others[0]
    across *= np.linalg.norm(others) / np.linalg.norm(across)
    for share, more in ((0.98e-2, []), (1.02e-2, ["k", "w"]), (2e-2, ["k", "w"])):
        beside = moved.copy()
        beside[black] += share * across * normal.mean[black] / normal.std[black]
        beside[white] -= share * across * normal.mean[white] / normal.std[white]
        assert feature_values(evidence(beside, normal, built=built, weights=weights)).value["colour"] == [
            "r",
            "g",
            *more,
        ]
        for rate, unsure in ((1.0, False), (1e-4, True)):  # a short way is known less well: by 100 times its error
            local = LocalTraining(rate)
            rough = evidence(beside, normal, built=built, weights=weights, protocol="fedavg", local=local)
            assert feature_values(rough).value["colour"] == (["r", "g"] if unsure else ["r", "g", *more]), rate
    weightless = weights * (np.arange(14) == black)[:, None]  # the last ones again, of which one row alone is rounded
    error = 2.0**-23 * np.linalg.norm(weights[black]) * normal.std[black] / normal.mean[black]
    shortest = 100.0 * error / (1e-2 * np.linalg.norm(others))
    for share, more in ((0.95, ["w"]), (1.05, ["k", "w"])):
        short = {"protocol": "fedavg", "local": LocalTraining(share * shortest)}
        told = feature_values(evidence(beside, normal, built=built, weights=weightless, **short))
        assert told.value["colour"] == ["r", "g", *more]


def test_more_nodes_than_dimensions_are_as_certain_as_the_values_that_tell_them() -> None:
    space = FeatureSpace((onehot("colour", "rgbkwyvo"), onehot("size", (1, 2, 3, 4)), binary("ring"), binary("acid")))
    normal = space.fit([np.array([[k % 8, k % 4, k % 3 == 0, k % 5 == 0] for k in range(64)], np.int32)])
    nodes = np.array([[0, 1, 0, 0], [1, 1, 0, 0], [2, 1, 0, 0], [3, 1, 1, 0]], np.int32)
    rows, weights, built = normal.encode(nodes).astype(np.float64), RNG.normal(size=(14, UNITS)), model()
    full = RNG.normal(size=(4, UNITS))
    for upstream, condition in ((full, None), (full[[0, 0, 1, 1]] * [[1.0], [2.0], [1.0], [-2.0]], DISPROPORTIONATE)):
        found = different_nodes(evidence(rows.T @ upstream, normal, built=built.clone(in_features=14), weights=weights))
        assert (found.value, found.condition) == (4, condition)


def test_columns_that_are_constant_or_stayed_raw_among_normalised_ones_name_no_values() -> None:
    """Their rows are no multiples of that of absent values, whatever occurs."""
    space = FeatureSpace((onehot("colour", "rgbkwyvo"), onehot("kind", "ab"), binary("ring"), binary("acid")))
    public = np.array([[k % 8, 0, k % 3 == 0, k % 5 == 0] for k in range(64)], np.int32)
    fitted = space.fit([public])
    assert fitted.mean is not None and fitted.std is not None
    acid = np.arange(12) == 11
    normal = dataclasses.replace(fitted, mean=np.where(acid, 0.0, fitted.mean), std=np.where(acid, 1.0, fitted.std))
    upstream, weights = RNG.normal(size=(3, UNITS)), RNG.normal(size=(12, UNITS))
    for sour in (0, 1):
        nodes = np.array([[0, 0, 0, sour], [1, 0, 0, 0], [0, 0, 1, sour]], np.int32)
        gradient = normal.encode(nodes).astype(np.float64).T @ upstream
        seen = evidence(gradient, normal, built=model().clone(in_features=12), weights=weights)
        assert feature_values(seen).value == {"colour": ["r", "g"], "ring": [1]}


@pytest.mark.parametrize("width", [1, 2])
def test_all_rows_of_one_entry_are_multiples_of_one(width: int) -> None:
    space = FeatureSpace((onehot("kind", "abcdefgh"),)).fit([np.arange(8, dtype=np.int32)[:, None]])
    gradient = space.encode(np.array([[0], [1]], np.int32)).astype(np.float64).T @ RNG.normal(size=(2, width))
    built = model(conv=GCNConv(width)).clone(in_features=8)
    seen = evidence(gradient, space, built=built, weights=RNG.normal(size=(8, width)))
    if width == 1:
        with pytest.raises(Silent, match="multiples of one"):
            feature_values(seen)
    else:
        assert feature_values(seen).value == {"kind": ["a", "b"]}
    assert occurring(seen, of_one_direction=True) == {"kind": ["a", "b"]}


@pytest.mark.parametrize("absent", [12, 10])
@pytest.mark.parametrize("alike", [False, True])
def test_absent_values_are_most_of_the_columns_and_agree(alike: bool, absent: int) -> None:
    """Where no more than half are absent nothing is told, and nothing where every node has one gradient: there values
    agree by their numbers alone. Otherwise the fact states what else would agree."""
    space = FeatureSpace((*(binary(f"w{k}") for k in range(20)), onehot("kind", "ab")))
    often = np.arange(20) * 4 + 10  # of a hundred public nodes
    normal = space.fit([np.c_[np.arange(100)[:, None] < often, np.arange(100) % 2].astype(np.int32)])
    nodes = np.random.default_rng(1).integers(2, size=(6, 21))
    nodes[0, : 20 - absent], nodes[:, 20 - absent : 20] = 1, 0
    gradient = normal.encode(nodes).astype(np.float64).T @ RNG.normal(size=(6, UNITS))[[0] * 6 if alike else slice(6)]
    seen = evidence(gradient, normal, built=model().clone(in_features=22), weights=RNG.normal(size=(22, UNITS)))
    if alike or absent < 12:
        with pytest.raises(Silent, match="multiples of one" if absent == 12 else "no row stands out"):
            feature_values(seen)
    else:
        found = feature_values(seen)
        assert found.value == {f"w{k}": [1] for k in range(20 - absent)} | {"kind": ["a", "b"]}
        assert found.condition is not None and found.condition in found.line


def test_few_normalised_columns_show_no_absent_row() -> None:
    """Of four columns two agree and the others lie on either side: half is no majority."""
    nodes, upstream = np.array([[0], [1]], np.int32), np.array([[1.0], [-1.0]]) * (0.1 + RNG.random((2, UNITS)))
    for values, said in (("abc", "too few are there"), ("abcd", "no row stands out")):
        public = np.arange(len(values), dtype=np.int32)[:, None]
        space, built = FeatureSpace((onehot("kind", values),)).fit([public]), model().clone(in_features=len(values))
        gradient = space.encode(nodes).astype(np.float64).T @ upstream
        with pytest.raises(Silent, match=said):
            feature_values(evidence(gradient, space, built=built, weights=WEIGHTS[: len(values)]))


def test_vectors_are_all_of_values_that_occur_with_what_they_determine() -> None:
    space = FeatureSpace(
        (
            Feature("mass", (1, 12, 14), "onehot", "element", (1, 2, 0)),
            onehot("element", "CNH"),
            binary("ring"),
            onehot("kind", "ab"),
        )
    )
    nodes = np.array([[1, 0, 0, 1], [0, 2, 1, 1]], np.int32)  # carbon and hydrogen, of kind b
    gradient = space.encode(nodes).T @ RNG.normal(size=(2, UNITS))
    seen = evidence(gradient, space, built=model().clone(in_features=9), weights=RNG.normal(size=(9, UNITS)))
    assert seen.space.width == 9
    wanted = [[{0: 1, 2: 0}[e], e, r, 1] for e, r in itertools.product((0, 2), (0, 1))]
    np.testing.assert_array_equal(vectors(seen), wanted)
    assert described(space, np.array([1, 0, 0, 1])) == {"element": "C", "kind": "b"}
    assert described(space, np.array([1, 0, 1, 1])) == {"element": "C", "ring": 1, "kind": "b"}
    none = PLAIN.copy()
    none[8:] = 0.0  # no kind
    with pytest.raises(Silent, match="make 0 vectors"):
        vectors(evidence(none))


def test_too_many_vectors_are_not_looked_through() -> None:
    space = FeatureSpace(tuple(onehot(f"f{k}", range(38)) for k in range(3)))
    nodes = np.array([[k, k, k] for k in range(36)] + [[36, 35, 34]], np.int32)  # 37 x 36 x 36 = 47,952
    wide = np.concatenate([nodes, [[0, 36, 0]]]).astype(np.int32)  # 37 x 37 x 36 = 49,284
    wider = np.concatenate([wide, [[0, 0, 36]]]).astype(np.int32)  # 37 x 37 x 37 = 50,653
    built, weights = model(conv=GCNConv(50)).clone(in_features=114), RNG.normal(size=(114, 50))
    for some, count in ((nodes, 47_952), (wide, 49_284), (wider, None)):
        gradient = space.encode(some).T @ RNG.normal(size=(len(some), 50))
        seen = evidence(gradient, space, built=built, weights=weights)
        if count is None:
            with pytest.raises(Silent, match="make 50653 vectors, of which 50000 are looked through"):
                vectors(seen)
        else:
            assert len(vectors(seen)) == count


def test_kinds_are_the_vectors_in_the_span_and_needed_ones_those_that_hold_it_up() -> None:
    found = node_kinds(evidence(PLAIN)).value
    encoded = SPACE.encode(vectors(evidence(PLAIN))).astype(np.float64)
    basis = SPACE.encode(NODES).astype(np.float64)

    def rank(rows: np.ndarray) -> int:
        return int(np.linalg.matrix_rank(rows))

    inside = [k for k, row in enumerate(encoded) if rank(np.vstack([basis, row])) == 5]
    every = [described(SPACE, vectors(evidence(PLAIN))[k]) for k in inside]
    needed = [k for k in range(len(inside)) if rank(encoded[np.delete(inside, k)]) < 5]
    assert found == {"dimensions": 5, "in_span": every, "needed": needed}
    assert {tuple(sorted(described(SPACE, row).items())) for row in NODES} <= {tuple(sorted(k.items())) for k in every}


@pytest.mark.parametrize("different", [1, 2])
def test_kinds_that_are_as_many_as_dimensions_are_all_needed(different: int) -> None:
    """No sum and difference of two vectors is a third one."""
    nodes = np.array([[0, 0, 0, 0], [1, 1, 0, 0]], np.int32)[[0, different - 1]]
    found = node_kinds(evidence(SPACE.encode(nodes).T @ RNG.normal(size=(2, UNITS)))).value
    kinds = [described(SPACE, row) for row in nodes[:different]]
    assert found == {"dimensions": different, "in_span": kinds, "needed": list(range(different))}


def test_a_vector_beside_four_of_which_each_is_made_of_the_others_is_needed() -> None:
    """Of two colours and two sizes in every combination any may be missing."""
    nodes = np.array([[0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [2, 2, 1, 1]], np.int32)
    found = node_kinds(evidence(SPACE.encode(nodes).T @ RNG.normal(size=(5, UNITS)))).value
    assert found["dimensions"] == 4 and len(found["in_span"]) == 5
    assert [found["in_span"][k] for k in found["needed"]] == [described(SPACE, nodes[4])]


def test_what_hides_kinds() -> None:
    listed = FeatureSpace((onehot("colour", "rgbk"), number("charge", (0, 1)), onehot("kind", "ab")))
    numbers = evidence(PLAIN[:7], listed, built=model().clone(in_features=7), weights=WEIGHTS[:7])
    for said, seen in (
        ("neither one-hot nor binary", numbers),
        ("under noise a vector lies near the span or not", evidence(PLAIN, noise=1e-6)),
        ("do not add up", evidence(np.sign(PLAIN))),
        ("no two features", colours()),
    ):
        with pytest.raises(Silent, match=said):
            node_kinds(seen)


def colours() -> Evidence:
    """An update of a schema with one feature."""
    one = FeatureSpace(SPACE.features[:1])
    return evidence(PLAIN[:4], one, built=model().clone(in_features=4), weights=WEIGHTS[:4])


def test_different_nodes_are_as_many_as_the_rank_or_as_values_of_one_feature() -> None:
    assert different_nodes(evidence(PLAIN)).value == 5 and different_nodes(evidence(PLAIN)).exact_under == LINEAR
    assert [different_nodes(evidence(scale * PLAIN)).value for scale in (1e-6, 1e6)] == [5, 5]
    signs = different_nodes(evidence(np.sign(PLAIN)))
    assert signs.value == 3 and signs.exact_under == tuple(p for p in PROTOCOLS if p != NOISE)
    same = np.array([[0, 0, 0, 0], [1, 1, 0, 0]], np.int32)
    two = evidence(SPACE.encode(same).T @ RNG.normal(size=(2, UNITS)))
    assert different_nodes(two).value == 2 and different_nodes(two).exact_under != LINEAR, "values say as much"
    assert different_nodes(two).line == "at least 2 different feature vectors, so at least 2 nodes"
    noisy = different_nodes(evidence(1e3 * PLAIN, noise=1e-3))
    assert noisy.value == 5 and noisy.exact_under == (*LINEAR, NOISE)
    with pytest.raises(Silent, match="every row|do not add up"):
        different_nodes(evidence(PLAIN + 0.1 * RNG.normal(size=PLAIN.shape)))


def test_a_rank_as_large_as_a_span_can_have_says_nothing() -> None:
    """Two sums agree of six rows that moved: a plain gradient has a rank of four at most."""
    moved = [0, 1, 4, 5, 8, 9]
    for rank in range(1, 7):
        rows = np.zeros(PLAIN.shape)
        rows[moved] = RNG.normal(size=(6, rank)) @ RNG.normal(size=(rank, UNITS))
        seen = evidence(rows, noise=1e-9)
        if rank <= 4:
            assert rank_of_rows(seen) == rank
        else:
            with pytest.raises(Silent, match="as many dimensions as it can have"):
                rank_of_rows(seen)
    with pytest.raises(Silent, match="no two features"):
        rank_of_rows(colours())
    narrow = evidence(PLAIN[:, :5], built=model(conv=GCNConv(5)), weights=WEIGHTS[:, :5])
    with pytest.raises(Silent, match="as many dimensions as it can have"):
        rank_of_rows(narrow)


def test_units_that_were_on_are_those_with_a_gradient() -> None:
    layers = Layer(GCNConv(UNITS)), Layer(GCNConv(4, bias=True), "tanh")
    built = GNN(SPACE.width, layers, Pooled("mean", MLP((6, 3, 2))))
    off = PLAIN.copy()
    off[:, [2, 5, 7]] = 0.0
    row, bias = np.zeros((4, 6)), np.zeros(6)
    row[1, 0], bias[3] = 1.0, 1.0
    back = {"readout/mlp/linears_0/kernel": row, "readout/mlp/linears_0/bias": bias}
    back |= {"readout/mlp/linears_1/kernel": np.ones((6, 3))}
    found = units(evidence(off, built=built, back=back))
    assert found.value == {
        "layers_0": {"on": 13, "of": 16},
        "readout/linears_0": {"on": 2, "of": 6},
        "readout/linears_1": {"on": 3, "of": 3},
    }
    assert found.line.endswith("13 of 16 in layers_0, 2 of 6 in readout/linears_0, 3 of 3 in readout/linears_1")
    fixed = built.clone(frozen=("readout/mlp/linears_0",))
    back = {"readout/mlp/linears_1/kernel": np.ones((6, 3))}
    assert set(units(evidence(off, built=fixed, back=back)).value) == {"layers_0", "readout/linears_1"}


def test_what_shows_no_units() -> None:
    moved = PLAIN.copy()
    moved[2:4] = 1.0
    for said, seen in (
        ("noise moves every column", evidence(PLAIN, noise=1e-9)),
        ("weight decay may move every column", evidence(PLAIN + 0.25 * WEIGHTS)),
    ):
        with pytest.raises(Silent, match=said):
            units(seen)
    for conv, norm, act, shown in (
        (GCNConv(UNITS), None, "relu", True),
        (SAGEConv(UNITS), None, "relu", True),
        (GCNConv(UNITS), None, "tanh", False),
        (GATConv(UNITS), None, "relu", False),
        (GCNConv(UNITS), LayerNorm(), "relu", False),
    ):
        built = GNN(SPACE.width, (Layer(conv, act, norm=norm), Layer(GCNConv(2), "tanh")), NodeMLP(MLP((3, 2), "tanh")))
        shapes = jax.eval_shape(lambda built=built: built.initial(key=jax.random.key(0)))
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape), shapes)
        first = {name: PLAIN if leaf.shape == PLAIN.shape else leaf for name, leaf in zeros["layers_0"]["conv"].items()}
        update = zeros | {"layers_0": zeros["layers_0"] | {"conv": first}}
        params = jax.tree.map(np.ones_like, zeros)
        seen = dataclasses.replace(evidence(PLAIN), observation=Observation(built, params, update, "ce"))
        if shown:
            assert set(units(seen).value) == {"layers_0"}
        else:
            with pytest.raises(Silent, match="no ReLU stands behind a linear map"):
                units(seen)


def test_steps_of_adam_show_values_and_no_kinds() -> None:
    adam = {"protocol": "fedavg", "local": LocalTraining(0.1, optimiser="adam")}
    seen = evidence(np.sign(PLAIN), **adam)
    assert feature_values(seen).value == OCCUR
    with pytest.raises(Silent, match="adaptive optimiser"):
        node_kinds(seen)
