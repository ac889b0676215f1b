"""Blocks as unfolding trees and padded tables, before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.census import equations as system
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import Table, Trees, _at, _contributions, root_value, unfold, used_parts
from jgleak.attacks.census.local_path import Point
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.training_norms import Pull, TrainingNorm
from jgleak.attacks.span.hops import Blocks, Nodes
from tests.clocks import HELD

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


ENDED = Budget(time_limit=0.0).start()
NODES = Nodes(np.zeros((3, 1), int), np.arange(6.0).reshape(3, 2), np.array([1, 2, 3]))


def bare(model: Any, *path: Point) -> CensusProblem:
    some = object.__new__(CensusProblem)
    some.__dict__.update(observation=SimpleNamespace(model=model, loss="ce"), path=path)
    return some


@pytest.mark.parametrize("number", [1, 16, 40])
def test_columns_are_computed_in_batches(number: int, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its block's tree and its own label; what fills up a batch is left out."""
    model, asked = lab.model(per_node=True), list[tuple[Any, ...]]()
    trees = unfold([level([k % 3 for k in range(20)], [(k % 6,) for k in range(20)])])
    blocks, labels = np.arange(number) // 2, np.arange(number, dtype=np.int32) % 2
    pull = Pull(*(np.ones(2, np.float32) for _ in range(4)))
    norm = TrainingNorm(("layers_0", "norm"), pull, np.zeros(2), np.ones(2), 1)

    def columns(*given: Any) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        asked.append(given)
        part, tags = given[-2:]
        assert tags.size == 16
        return np.c_[part.nodes[:, :2], tags], part.nodes[:, :1] + 10, [tags[:, None] + 20]

    monkeypatch.setattr(system, "_columns", columns)
    point, vectors, table = Point({"weights": 1}, {}, 1.0), {"signs": 1}, Table.of(NODES)
    found = _at(bare(model), point, (vectors, table, trees), (blocks, labels), [norm], HELD)
    assert found is not None
    nodes = trees.nodes[blocks]
    np.testing.assert_array_equal(found[0], np.c_[nodes[:, :2], labels])
    np.testing.assert_array_equal(found[1], nodes[:, :1] + 10)
    np.testing.assert_array_equal(found[2][0], labels[:, None] + 20)
    assert len(asked) == -(-number // 16) and len(found[2]) == 1
    static, upstream, given = asked[0][:4], asked[0][4], asked[0][5:]
    assert static == (model, "ce", (norm.path,), {"weights": 1}) and given[0] == [pull]
    assert given[1] is vectors and given[2] is table
    assert upstream.shape == (model.outputs,) and not upstream.any(), "losses need no upstream gradient"
    assert _at(bare(model), point, (vectors, table, trees), (blocks, labels), [norm], ENDED) is None


@pytest.mark.parametrize(("fields", "state"), [({"per_node": True}, 7.0), ({"readout": "pooled"}, 6.4)])
def test_contributions_of_steps_are_added_up(
    fields: dict[str, Any], state: float, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their shares of the update; states that are pooled by their shares in the pooled row."""
    path = Point({}, {"first": 1}, 0.25), Point({}, {"second": 1}, 0.75)
    parts = {id(path[0]): (2.0, 4.0), id(path[1]): (6.0, 8.0)}
    levels = Levels(NODES, tuple(LEVELS), (), True)

    def found(_: Any, point: Point, given: Any, columns: Any, norms: Any, clock: Any) -> Any:
        assert given[0] == {"signs": 1} and given[1].rows.shape == (256, 2) and given[2].nodes.shape[0] == 2
        gradient, row = parts[id(point)]
        return None if clock is ENDED else (np.full((2, 3), gradient), np.full((2, 1), row), [np.full((2, 1), row)])

    monkeypatch.setattr(system, "_at", found)
    monkeypatch.setattr(system, "root_shares", lambda *_: np.array([0.4, 0.6]))
    problem, columns = bare(lab.model(**fields), *path), (np.arange(2), np.zeros(2, np.int32))
    made = _contributions(problem, {"signs": 1}, levels, columns, [], HELD)
    assert made is not None
    np.testing.assert_allclose(made[0], np.full((2, 3), 5.0))
    np.testing.assert_allclose(made[1], np.full((2, 1), state))
    np.testing.assert_allclose(made[2][0], np.full((2, 1), 8.0))
    assert _contributions(problem, {"signs": 1}, levels, columns, [], ENDED) is None
