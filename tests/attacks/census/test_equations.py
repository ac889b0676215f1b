"""Blocks as unfolding trees and padded tables, before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.census.equations import Table, Trees, root_value, unfold, used_parts
from jgleak.attacks.span.hops import Blocks, Nodes

CLASSES, WIDTH = 2, 4
"""Edge classes, and the least width that neighbourhoods are padded to."""


def level(roots: list[int], neighbours: Sequence[tuple[int, ...]]) -> Blocks:
    size = len(roots)
    blank, numbers = np.zeros((size, 1)), np.array(roots)
    return Blocks(numbers, numbers, tuple(neighbours), blank, blank, np.zeros(size), size, classes=CLASSES)


LEVELS = [level([0, 1, 2], [(3,), (0, 5), ()]), level([1, 0], [(1, 4), (3,)])]
"""Blocks of one hop and of two; a neighbour is twice an entry of the level below, plus the class of its edge."""


def places(depth: int, entry: int, kind: int, down_to: int) -> list[tuple[int, int]]:
    """The entries ``down_to`` levels above the nodes in the tree of one entry, each with the class of its edge."""
    if depth == down_to:
        return [(entry, kind)]
    found = [(-1, 0)] * (1 + WIDTH)
    if entry >= 0:
        blocks = LEVELS[depth - 1]
        own = [(int(blocks.roots[entry]), 0), *(divmod(number, CLASSES) for number in blocks.neighbours[entry])]
        found[: len(own)] = own
    return [place for part in found for place in places(depth - 1, *part, down_to)]


def test_a_block_is_written_out_as_its_tree() -> None:
    trees = unfold(LEVELS)
    assert trees.nodes.shape == (2, (1 + WIDTH) ** 2) and len(trees.along) == 2
    for block in range(2):
        lowest, above = places(2, block, 0, 0), places(2, block, 0, 1)
        assert trees.nodes[block].tolist() == [node for node, _ in lowest]
        assert [along[block].tolist() for along in trees.along] == [[k for _, k in lowest], [k for _, k in above]]


def test_a_wide_neighbourhood_widens_all_of_them() -> None:
    assert unfold([level([0, 0], [(0,) * 5, ()])]).nodes.shape == (2, 9)
    assert unfold([level([0], [(1,) * 4])]).nodes.tolist() == [[0] * 5]


def test_part_of_the_trees_is_padded_by_its_last() -> None:
    whole = unfold(LEVELS)
    part = whole.part(np.array([1, 0]), 4)
    for own, all_of in zip(jax.tree.leaves(part), jax.tree.leaves(whole), strict=True):
        assert own.dtype == np.int32
        np.testing.assert_array_equal(own, all_of[[1, 0, 0, 0]])
    assert isinstance(part, Trees)


def test_a_table_is_padded_with_zeros() -> None:
    rows, degrees = np.arange(6.0).reshape(3, 2), np.array([1, 2, 3])
    table = Table.of(Nodes(np.zeros((3, 1), int), rows, degrees))
    assert table.rows.shape == (256, 2) and table.degrees.shape == (256,) and table.rows.dtype == np.float32
    np.testing.assert_array_equal(table.rows[:3], rows)
    np.testing.assert_array_equal(table.degrees[:4], [1, 2, 3, 0])
    assert not table.rows[3:].any() and not table.degrees[3:].any()


@pytest.mark.parametrize(
    ("fields", "value"),
    [({"readout": "pooled"}, "pooled"), ({}, "nodes"), ({"per_node": True}, "labelled")],
    ids=["pooled", "nodes", "labelled"],
)
def test_a_pooled_readout_s_own_gradient_makes_no_equations(fields: dict[str, Any], value: str, lab: Any) -> None:
    model = lab.model(hidden=4, readout_widths=(3,), **fields)
    params = lab.params(model)
    assert root_value(model) == value
    assert ("readout" in used_parts(model, params)) == (value != "pooled")
    assert set(used_parts(model, params)) >= {"layers_0", "layers_1"}
