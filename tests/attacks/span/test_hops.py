"""How many blocks of each hop there are, and which have partners, by brute force; and the work of a device."""

from __future__ import annotations

import dataclasses
from itertools import chain, combinations, combinations_with_replacement, product
from math import comb, prod

import numpy as np
import pytest
from models import some_params

from jgleak.attacks.span.hops import (
    Blocks,
    Nodes,
    encoded,
    fixed_rows,
    next_hop_count,
    one_hop_count,
    partnered,
    reciprocal,
    turned,
)
from jgleak.attacks.span.kernels import fill, padded
from jgleak.attacks.span.ranges import Cut, _ranges
from jgleak.gnn import GNN, MLP, GCNConv, Layer, LinearEncoder, NodeMLP


def nodes(degrees: list[int], classes: int) -> Nodes:
    zeros = np.zeros((len(degrees), 1))
    return Nodes(zeros.astype(np.int32), zeros, np.array(degrees, np.int64), classes=classes)


def drawn(rng: np.random.Generator, entries: int, classes: int) -> Blocks:
    """Up to eight different blocks of up to three neighbours."""
    number = int(rng.integers(1, 9))
    pairs = {
        (int(rng.integers(entries)), tuple(sorted(rng.integers(entries * classes, size=rng.integers(1, 4)).tolist())))
        for _ in range(number)
    }
    roots, around = zip(*sorted(pairs), strict=True)
    zeros = np.zeros(len(roots))
    root = np.array(roots, np.int64)
    return Blocks(root, root, around, zeros[:, None], zeros[:, None], zeros, 0, classes=classes)


@pytest.mark.parametrize("classes", [1, 2])
def test_neighbourhoods_of_nodes_are_counted(classes: int) -> None:
    """Around every node as many of those that have neighbours as it has, along edges of every class."""
    degrees = [0, 1, 2, 2, 3, 0]
    around = [classes * t + k for t, degree in enumerate(degrees) if degree for k in range(classes)]
    wanted = sum(len(list(combinations_with_replacement(around, degree))) for degree in degrees)
    assert one_hop_count(nodes(degrees, classes)) == wanted
    assert one_hop_count(nodes([], classes)) == 0


def holds(blocks: Blocks, entry: int, root: int, neighbour: int) -> bool:
    """Whether a block's root is the neighbour, and the other root a neighbour of it along an edge of that class."""
    other, mine = turned(root, neighbour, blocks.classes)
    return int(blocks.roots[entry]) == other and mine in blocks.neighbours[entry]


@pytest.mark.parametrize("classes", [1, 2])
def test_blocks_of_one_hop_more_are_counted(classes: int) -> None:
    """For every neighbour one of the blocks that hold the root, whatever their order."""
    rng, counted = np.random.default_rng(0), 0
    for _ in range(40):
        blocks, number = drawn(rng, 3, classes), 0
        for root, around in zip(blocks.roots.tolist(), blocks.neighbours, strict=True):
            options = {t: [e for e in range(blocks.size) if holds(blocks, e, root, t)] for t in set(around)}
            number += prod(comb(len(some) + around.count(t) - 1, around.count(t)) for t, some in options.items())
        assert next_hop_count(blocks) == number
        counted += number
    assert counted > 50


@pytest.mark.parametrize("classes", [1, 2])
def test_blocks_with_partners_are_the_most_that_hold_each_other(classes: int) -> None:
    """All subsets in which every neighbour of a block has a block that holds its root, together."""
    rng, kept = np.random.default_rng(1), 0
    for _ in range(40):
        blocks = drawn(rng, 2, classes)
        among, every = rng.random(blocks.size) < 0.8, range(blocks.size)
        whole, some = np.zeros(blocks.size, bool), np.zeros(blocks.size, bool)
        for subset in chain.from_iterable(combinations(every, number) for number in range(blocks.size + 1)):
            if all(
                any(holds(blocks, e, int(blocks.roots[k]), t) for e in subset)
                for k in subset
                for t in blocks.neighbours[k]
            ):
                whole[list(subset)] = True
                some[list(subset)] |= bool(among[list(subset)].all())
        assert partnered(blocks, among).tolist() == some.tolist()
        left = reciprocal(blocks)
        assert left.neighbours == tuple(one for one, there in zip(blocks.neighbours, whole, strict=True) if there)
        assert left.roots.tolist() == blocks.roots[whole].tolist()
        kept += int(whole.sum())
    assert kept > 20


def test_what_enters_the_first_layer_is_computed_in_64_bits() -> None:
    """The nodes' rows, or what an encoder makes of them."""
    rng, plain = np.random.default_rng(0), nodes([1, 2], 1)
    some = dataclasses.replace(plain, rows=rng.normal(size=(2, 5)))
    layers, readout = (Layer(GCNConv(4)), Layer(GCNConv(3))), NodeMLP(MLP((4, 2)))
    model = GNN(5, layers, readout, encoder=LinearEncoder(3))
    params = some_params(model)
    linear = params["encoder"]["linear"]
    wanted = some.rows @ linear["kernel"].astype(np.float64) + linear["bias"].astype(np.float64)
    np.testing.assert_allclose(encoded(model, params, some), wanted, rtol=1e-12, atol=1e-14)
    assert encoded(GNN(5, layers, readout), params, some) is some.rows


@pytest.mark.parametrize(("jump", "input_seen"), [("last", False), ("last", True), ("cat", False), ("cat", True)])
def test_a_block_s_centre_decides_all_but_the_last_states_of_a_readout_s_row(jump: str, input_seen: bool) -> None:
    rng, some = np.random.default_rng(0), dataclasses.replace(nodes([1, 1], 1), rows=np.array([[1.0], [2.0]]))
    readout = NodeMLP(MLP((4, 2)), see_input=input_seen)
    model = GNN(1, (Layer(GCNConv(4)), Layer(GCNConv(3))), readout, jump=jump)
    ones = dataclasses.replace(drawn(rng, 2, 1))
    ones = dataclasses.replace(ones, states=rng.normal(size=(ones.size, 4)), below=rng.normal(size=(ones.size, 2)))
    inputs = some.rows[ones.kinds] if input_seen else np.zeros((ones.size, 0))
    history = [ones.below, ones.states] if jump == "cat" else []
    np.testing.assert_array_equal(fixed_rows(model, some, ones), np.concatenate([inputs, *history], axis=1))
    np.testing.assert_array_equal(fixed_rows(model, some), some.rows if input_seen else np.zeros((2, 0)))


@pytest.mark.parametrize(
    ("stop", "tail", "devices", "sizes"),
    [
        (100, 10, 1, [64, 36]),
        (64, 10, 1, [64]),
        (100, 10, 4, [32, 32, 32, 4]),
        (3, 10, 4, [3]),
        (100, 50, 1, [24, 24, 24, 24, 4]),
        (20, 2000, 1, [8, 8, 4]),
        (0, 10, 1, []),
    ],
    ids=["as far as a range reaches", "one", "four devices", "less than a tile", "long tails", "a tile each", "none"],
)
def test_prefixes_are_shared_in_whole_tiles(stop: int, tail: int, devices: int, sizes: list[int]) -> None:
    """Tiles of eight prefixes, 64 in a range, a thousand candidates in a range."""
    work = list(_ranges(stop, tail, devices, Cut(8, 4, 64, 1000)))
    assert [one.size for one in work] == sizes
    assert [one.first for one in work] == np.cumsum([0, *sizes])[:-1].tolist()
    assert all((one.row, one.column) == (0, 0) for one in work)


@pytest.mark.parametrize(
    ("tail", "fine", "accelerator", "cut"),
    [
        (100, True, False, Cut(32, 256, 256, 1 << 26)),
        (100_000, False, False, Cut(64, 1024, 2048, 1 << 26)),
        (100, True, True, Cut(256, 1 << 10, 256, 1 << 28)),
        (100, False, True, Cut(1 << 13, 1 << 10, 1 << 14, 1 << 28)),
        (5_000, False, True, Cut(1 << 10, 1 << 13, 1 << 14, 1 << 28)),
        (1 << 17, False, True, Cut(1 << 7, 1 << 16, 1 << 14, 1 << 28)),
    ],
)
def test_tiles_have_as_many_candidates_as_suit_the_device(tail: int, fine: bool, accelerator: bool, cut: Cut) -> None:
    """On an accelerator 8 million, no wider than the padded tail, and no more prefixes than a range has."""
    assert Cut.of(tail, fine=fine, accelerator=accelerator) == cut


def test_a_size_is_padded_to_the_next_of_a_few() -> None:
    """A size beyond the last stays as it is."""
    assert [padded(size, (4, 8)) for size in (0, 3, 4, 5, 8, 9)] == [4, 4, 4, 8, 8, 9]
    array = np.arange(6).reshape(2, 3)
    assert fill(array, 4, value=7).tolist() == [[0, 1, 2], [3, 4, 5], [7, 7, 7], [7, 7, 7]]
    assert fill(array, 5, axis=1).tolist() == [[0, 1, 2, 0, 0], [3, 4, 5, 0, 0]]
    assert fill(array, 2) is array and fill(array, 2, axis=1) is array


def test_an_edge_has_one_class_from_both_ends() -> None:
    for classes, root, neighbour in product((1, 2, 3), range(4), range(8)):
        other, mine = turned(root, neighbour, classes)
        assert turned(other, mine, classes) == (root, neighbour) and mine % classes == neighbour % classes
