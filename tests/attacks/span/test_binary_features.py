"""The filter for sparse word features: brute force on tiny schemas, recovery on large ones."""

from __future__ import annotations

import dataclasses
import time
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jgleak.attacks.attack import Budget
from jgleak.attacks.span import binary_features, levels
from jgleak.attacks.span.binary_features import (
    RAW,
    _distinct,
    _functionals,
    _groups,
    _numbered,
    _partition,
    _rows,
    _unity,
    passing_words,
    unread,
    wordy,
)
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.attacks.span.settings import LIMITS, TOLERANCES, SpanLimits
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import FeatureSpace, binary, number, onehot
from jgleak.federated import Knowledge
from tests.clocks import HELD

DEGREES = 4

NEAR = 2e-4
"""Words' vectors that differ by less are one."""


def fitted(words: int, seed: int) -> FeatureSpace:
    """Word columns and a degree, with statistics of a public collection in which every word occurs."""
    rng = np.random.default_rng(seed)
    bare = FeatureSpace((*(binary(f"w{g}") for g in range(words)), onehot("degree", range(DEGREES))), degree="degree")
    public = np.c_[rng.random((300, words)) < rng.uniform(0.02, 0.3, words), rng.integers(DEGREES, size=300)]
    public[np.arange(words) % 300, np.arange(words)] = 1
    return bare.fit([public.astype(np.int32)])


def span_of(space: FeatureSpace, nodes: np.ndarray, seed: int) -> Subspace:
    rng = np.random.default_rng(seed)
    rows = space.encode(nodes)
    return Subspace.of_gradient(rows.T @ rng.normal(size=(len(nodes), 100)).astype(np.float32))


def as_set(codes: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(row) for row in codes.tolist()}


@settings(max_examples=40, deadline=None)
@given(st.integers(8, 10), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**31))
def test_tiny_schemas_are_brute_force(words: int, used: int, nodes: int, seed: int) -> None:
    """Most words occur in no node, as in a large vocabulary."""
    space = fitted(words, 1)
    rng = np.random.default_rng(seed)
    truth = np.zeros((nodes, words + 1), np.int32)
    truth[:, rng.choice(words, min(used, words // 2 - 1), replace=False)] = 1
    truth[:, :words] *= rng.random((nodes, words)) < 0.6
    truth[:, -1] = rng.integers(DEGREES, size=nodes)
    subspace = span_of(space, truth, seed)
    assume(subspace.informative)
    every = np.array([(*bits, d) for bits in product((0, 1), repeat=words) for d in range(DEGREES)])
    inside = every[subspace.distances(space.encode(every)) <= subspace.tolerance]
    assert as_set(truth) <= as_set(inside)
    assert as_set(passing_words(space, subspace).codes) == as_set(inside)


@pytest.mark.parametrize(("nodes", "words"), [(1, 200), (6, 300), (15, 600), (30, 1200)])
def test_rows_of_sparse_matrices_are_recovered(nodes: int, words: int) -> None:
    space = fitted(words, 2)
    assert wordy(space)
    rng = np.random.default_rng(nodes)
    common = rng.random(words) ** 4 * 0.25
    truth = np.c_[rng.random((nodes, words)) < common, rng.integers(DEGREES, size=nodes)].astype(np.int32)
    found, complete = passing_words(space, span_of(space, truth, 0))
    assert complete and as_set(truth) <= as_set(found)
    assert len(found) <= nodes + 3


@pytest.mark.parametrize(("kind", "raw"), [(onehot, False), (number, False), (onehot, True)])
def test_of_a_small_vocabulary_most_words_may_occur(kind: Any, raw: bool) -> None:
    """Columns of the few absent words agree, whatever the others say; a degree may stand in one column of numbers. In
    raw columns a one-hot degree says that every row has one."""
    words, nodes, rng = 70, 16, np.random.default_rng(3)
    bare = FeatureSpace((*(binary(f"w{g}") for g in range(words)), kind("degree", range(20))), degree="degree")
    every = np.c_[rng.random((400, words)) < 0.12, rng.integers(20, size=400)].astype(np.int32)
    space, truth = bare if raw else bare.fit([every]), every[:nodes]
    absent = words - np.count_nonzero(truth[:, :words].any(axis=0))
    assert 3 <= absent < words / 4
    found, complete = passing_words(space, span_of(space, truth, 0))
    assert complete and as_set(found) == as_set(truth)


def test_nodes_with_the_same_words_may_have_other_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words leave open how far to go from one of two such nodes towards the other: every number passes, at every node,
    and no node is lost. Two columns of numbers may be open at once."""
    words, nodes, rng = 70, 8, np.random.default_rng(3)
    for numbers in (1, 2):
        features = (*(binary(f"w{g}") for g in range(words)), *(number(f"n{k}", range(1, 6)) for k in range(numbers)))
        every = np.c_[rng.random((400, words)) < 0.06, rng.integers(5, size=(400, numbers))].astype(np.int32)
        every[1:3, :words] = every[0, :words]
        every[:3, words:] = np.array([[0, 1], [3, 1], [2, 4]])[:, :numbers]
        space, truth = FeatureSpace(features).fit([every]), every[:nodes]
        subspace = span_of(space, truth, 0)
        found, complete = passing_words(space, subspace)
        rows = np.unique(truth[:, :words], axis=0)
        all_numbers = np.array([(*row, *some) for row in rows for some in product(range(5), repeat=numbers)])
        assert complete and as_set(truth) <= as_set(all_numbers) <= as_set(found)
        assert np.all(subspace.distances(space.encode(found)) <= subspace.tolerance)
    monkeypatch.setattr(binary_features, "MOST_ENTRIES", 100 * space.width)
    with pytest.raises(TooManyCandidates, match="feature vectors open"):
        passing_words(space, subspace)


@pytest.mark.parametrize("where", [slice(None), slice(1)])
def test_words_of_the_same_nodes_are_no_absent_ones(where: slice) -> None:
    """Those of equal means agree as well, also where they are more than the absent ones, whose means differ."""
    space, rng = fitted(80, 1), np.random.default_rng(0)
    assert space.mean is not None and space.std is not None
    mean, std = space.mean.copy(), space.std.copy()
    mean[:20], std[:20] = 0.4, np.sqrt(0.24)
    space = dataclasses.replace(space, mean=mean, std=std)
    truth = np.c_[rng.random((6, 80)) < 0.25, np.arange(6) % DEGREES].astype(np.int32)
    truth[:, :20], truth[where, :20] = 0, 1
    truth[:, 20:32] = 0
    found, complete = passing_words(space, span_of(space, truth, 0))
    assert complete and as_set(truth) <= as_set(found)
    truth[0, 20:80] = 1
    with pytest.raises(TooManyCandidates, match="different frequency"):
        passing_words(space, span_of(space, truth, 0))


def test_thousands_of_columns_are_grouped_in_a_moment() -> None:
    """The groups of the plain loop over pairs; of 4,000 columns that loop takes over ten seconds."""
    rng = np.random.default_rng(0)
    few = rng.integers(3, size=(60, 3)) + rng.uniform(-0.05, 0.05, (60, 3))
    near, left, wanted = rng.uniform(0.02, 0.2, 60), set(range(60)), list[list[int]]()
    for i in range(60):
        if i in left:
            wanted.append([j for j in sorted(left) if np.linalg.norm(few[j] - few[i]) <= near[i]])
            left -= set(wanted[-1])
    assert [group.tolist() for group in _groups(few, near)] == sorted(wanted, key=len, reverse=True)
    many, began = rng.normal(size=(4000, 100)), time.process_time()
    assert len(_groups(many, np.full(4000, 1e-3))) == 4000
    assert time.process_time() - began < 3.0


def test_without_absent_words_nothing_shows_the_means() -> None:
    space, rng = fitted(12, 1), np.random.default_rng(0)
    truth = np.c_[rng.random((3, 12)) < 0.5, np.arange(3)].astype(np.int32)
    truth[0, :12] = 1
    with pytest.raises(TooManyCandidates, match="absent"):
        passing_words(space, span_of(space, truth, 0))


@pytest.mark.parametrize("share", [1e-1, 2e-2, 1e-2, 3e-3])
def test_a_node_of_a_small_gradient_is_found(share: float) -> None:
    """Two such nodes in a span of twenty, one of them another with a word more: words that they tell apart differ by
    little."""
    words, nodes, rng = 80, 20, np.random.default_rng(3)
    space = FeatureSpace((*(binary(f"w{g}") for g in range(words)), onehot("kind", "ab")))
    truth = np.c_[rng.random((nodes, words)) < 0.15, np.arange(nodes) % 2].astype(np.int32)
    truth[:, -3:-1] = 0
    truth[-2] = truth[0]
    truth[-2:, -3] = 1
    truth[-1, -2] = 1
    gradient = np.ones(nodes)
    gradient[-2:] = share
    rows = space.encode(truth)
    upstream = gradient[:, None] * rng.normal(size=(nodes, 200))
    subspace = Subspace.of_gradient((rows.T @ upstream).astype(np.float32))
    found, complete = passing_words(space, subspace)
    inside = subspace.distances(rows) <= subspace.tolerance
    assert complete and inside.all() and as_set(truth) <= as_set(found)


def test_of_an_inexact_span_rows_may_be_lost() -> None:
    """Under noise, or where few digits are sent."""
    space, rng = fitted(120, 2), np.random.default_rng(6)
    truth = np.c_[rng.random((8, 120)) < 0.1, rng.integers(DEGREES, size=8)].astype(np.int32)
    gradient = space.encode(truth).T @ rng.normal(size=(8, 100))
    exact, coarse = (Subspace.of_gradient(gradient.astype(kind)) for kind in (np.float32, np.float16))
    noisy = Subspace.of_gradient(gradient + 1e-5 * rng.normal(size=gradient.shape), noise=1e-5)
    assert exact.tolerance < TOLERANCES.word_precise < coarse.tolerance
    for span, complete in ((exact, True), (coarse, False), (noisy, False)):
        found = passing_words(space, span)
        assert as_set(truth) <= as_set(found.codes) and found.complete is complete


def test_a_search_that_was_cut_short_says_so() -> None:
    """By the clock or the number of branches: what is there is there, and more may be missing."""
    space, rng = fitted(300, 2), np.random.default_rng(6)
    truth = np.c_[rng.random((18, 300)) < 0.05, rng.integers(DEGREES, size=18)].astype(np.int32)
    subspace = span_of(space, truth, 0)
    whole, complete = passing_words(space, subspace)
    part, cut = passing_words(space, subspace, limits=SpanLimits(word_faces=3))
    assert complete and not cut and as_set(part) < as_set(whole)
    assert not passing_words(space, subspace, clock=Budget(time_limit=1e-9).start()).complete
    assert passing_words(space, subspace, clock=HELD).complete


def test_a_search_that_was_cut_short_is_certain_of_no_vector(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of words a, b; a, c; d, b any three nodes make the fourth with d, c. Where half of the branches are looked at, as
    many vectors as the span has dimensions are found, and some of them are no node's."""
    space, truth = fitted(80, 2), np.zeros((18, 81), np.int32)
    for row, (group, words) in zip(truth, product(range(6), ((0, 1), (0, 2), (3, 1))), strict=True):
        row[[4 * group + word for word in words]] = 1
    subspace = span_of(space, truth, 0)
    monkeypatch.setattr(levels, "input_subspace", lambda *_: subspace)
    seen, known = lab.observe(lab.model(), lab.path([0, 1, 2])), Knowledge(space)
    sizes = list[int]()
    for branches in range(8, 16):
        found = levels.find_nodes(seen, known, clock=HELD, limits=SpanLimits(word_faces=branches))
        sizes.append(found.codes.shape[0])
        assert not found.certain and (as_set(truth) <= as_set(found.codes)) is found.complete
    assert subspace.rank == 18 and 18 in sizes and sizes[-1] == 24 and found.complete
    assert not levels.find_nodes(seen, known, clock=Budget(time_limit=1e-9).start()).complete


def test_what_counts_as_wordy() -> None:
    most = SpanLimits().word_features
    assert not wordy(fitted(most - 1, 0))
    assert wordy(fitted(most, 0)) and wordy(fitted(3, 0), SpanLimits(word_features=3))


def test_words_in_raw_columns_need_a_one_hot_feature_beside_them() -> None:
    """Or columns normalised; of a few words, which are no matter of this filter, nothing is said."""
    words = tuple(binary(f"w{g}") for g in range(5))
    bare, beside = FeatureSpace(words), FeatureSpace((*words, onehot("kind", "ab")))
    wordy_from = SpanLimits(word_features=5)
    assert unread(bare, wordy_from) == RAW
    assert unread(bare) is unread(beside, wordy_from) is unread(fitted(5, 0), wordy_from) is None


def test_a_span_that_says_nothing_is_refused() -> None:
    space = fitted(10, 0)
    for gradient in (np.zeros((space.width, 30)), np.random.default_rng(0).normal(size=(space.width, 30))):
        with pytest.raises(TooManyCandidates):
            passing_words(space, Subspace.of_gradient(gradient))
    bare = FeatureSpace(tuple(binary(f"w{g}") for g in range(10)))
    with pytest.raises(TooManyCandidates, match="need a one-hot feature beside them, or columns normalised"):
        passing_words(bare, span_of(bare, np.eye(10, dtype=np.int32)[:2], 0))


@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e2])
def test_the_columns_of_three_absent_words_agree(unit: float) -> None:
    """Up to rounding relative to their length, and of different frequency; two may agree by chance."""
    rng = np.random.default_rng(0)
    shown, others = rng.normal(size=4), rng.normal(size=(6, 4))
    absent = shown + 0.1 * TOLERANCES.word_entry * rng.uniform(-1, 1, (3, 4))
    means = np.array([0.1, 0.2, 0.3, *rng.uniform(0.1, 0.5, 6)])
    found = _unity(unit * np.r_[absent, others], means, TOLERANCES)
    np.testing.assert_allclose(found, unit * shown, rtol=TOLERANCES.word_entry, atol=unit * TOLERANCES.word_entry)
    for columns, frequencies in ((absent[1:], means[1:]), (absent, np.full(9, 0.2))):
        with pytest.raises(TooManyCandidates, match="different frequency"):
            _unity(unit * np.r_[columns, others], frequencies, TOLERANCES)


@pytest.mark.parametrize("open_", [1, 2])
def test_from_every_row_every_choice_of_numbers_is_reached(open_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along the open directions alone; not where these are more than can be looked at."""
    rng = np.random.default_rng(0)
    free, rows = np.linalg.qr(rng.normal(size=(6, open_)))[0], rng.normal(size=(3, 6))
    numbers, values = rng.normal(size=(open_, 6)), [np.array([1.0, 2.0, 5.0]), np.array([0.0, 7.0])][:open_]
    choices, width = sorted(product(*(one.tolist() for one in values))), 11
    monkeypatch.setattr(binary_features, "MOST_ENTRIES", 3 * len(choices) * width)
    found = _numbered(rows, free, numbers, values, width)
    assert found.shape == (3 * len(choices), 6)
    for row, moved in zip(rows, np.split(found, 3), strict=True):
        reached = np.round(moved @ numbers.T, 6)
        np.testing.assert_allclose(sorted(map(tuple, reached.tolist())), choices)
        away = moved - row
        np.testing.assert_allclose(away @ free @ free.T, away, atol=1e-9)
    monkeypatch.setattr(binary_features, "MOST_ENTRIES", 3 * len(choices) * width - 1)
    with pytest.raises(TooManyCandidates, match=f"leave {3 * len(choices)} feature vectors open"):
        _numbered(rows, free, numbers, values, width)
    assert _numbered(rows, free[:, :0], numbers, values, width) is rows


def marked(size: int, *chosen: tuple[int, ...]) -> np.ndarray:
    """Rows with ones at these places."""
    return np.array([[float(place in one) for place in range(size)] for one in chosen]).reshape(-1, size)


@pytest.mark.parametrize(
    ("patterns", "parts"),
    [
        (marked(4, (0,), (1,), (2,), (3,)), 4),
        (marked(4, (0,), (1, 2, 3), (2, 3), (0, 2, 3)), 3),
        (marked(3, (0, 1), (1, 2), (0, 2)), 3),
        (marked(3, (0,)), 2),
        (marked(5, *combinations(range(5), 2), (4,)), 3),
        (marked(5, *combinations(range(5), 2)), 2),
        (marked(3, (), (0, 1, 2)), 0),
        (marked(3), 0),
        (marked(5, (0, 1), (2,), (3, 4)) * [1.0, 2.0, 3.0, 4.0, 5.0], 3),
    ],
    ids=[
        "all",
        "finest",
        "complements",
        "one and its complement",
        "pairs and one",
        "pairs alone",
        "not proper",
        "none",
        "unequal",
    ],
)
def test_a_partition_is_as_fine_as_patterns_and_complements_allow(patterns: np.ndarray, parts: int) -> None:
    """Of the pairs of five alone a linear programme takes halves; in whole numbers they are one and its complement."""
    one = np.max(patterns, axis=0, initial=1.0)
    found = _partition(patterns, one, NEAR, TOLERANCES, None)
    assert _partition(patterns, 0.0 * one, NEAR, TOLERANCES, None) is None
    if not parts:
        assert found is None
        return
    assert found is not None and found.shape == (parts, one.size) and np.allclose(found.sum(axis=0), one)
    allowed = [*patterns, *(one - patterns)]
    assert all(any(np.allclose(row, other) for other in allowed) for row in found)


def test_the_clock_ends_the_search_for_a_partition() -> None:
    whole = marked(4, (0,), (1,), (2,), (3,))
    found = _partition(whole, np.ones(4), NEAR, TOLERANCES, HELD)
    assert found is not None and len(found) == 4
    assert _partition(whole, np.ones(4), NEAR, TOLERANCES, Budget(time_limit=1e-9).start()) is None


def test_patterns_that_rounding_moves_are_one_and_the_commonest_is_first() -> None:
    """Each the mean of its copies."""
    near = 0.5 * NEAR
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0 + near], [1.0 + 4 * near, 0.0], [0.0, 1.0 - near]])
    np.testing.assert_allclose(_distinct(rows, NEAR), [[0.0, 1.0], [1.0, 0.0], [1.0 + 4 * near, 0.0]], atol=1e-12)
    np.testing.assert_allclose(_distinct(100 * rows, NEAR), 100 * _distinct(rows, NEAR))
    assert _distinct(rows[:0], NEAR).shape == (0, 2)
    assert _distinct(0.0 * rows, NEAR).tolist() == [[0.0, 0.0]]


def test_a_word_that_never_occurs_in_public_says_nothing() -> None:
    space, nodes = fitted(30, 2), np.eye(4, 31, dtype=np.int32)
    assert space.mean is not None and space.std is not None
    never = np.arange(space.width) == 20
    rare = dataclasses.replace(space, mean=np.where(never, 0.0, space.mean), std=np.where(never, 0.0, space.std))
    assert as_set(passing_words(rare, span_of(rare, nodes, 0)).codes) >= as_set(nodes)


@pytest.mark.parametrize("scale", [1e-2, 1e2])
def test_coordinates_may_have_any_unit(scale: float) -> None:
    space, nodes = fitted(30, 2), np.eye(4, 31, dtype=np.int32)
    words, unity = _functionals(space, span_of(space, nodes, 0))
    rows, complete = _rows(words, unity, 1e-4, TOLERANCES, None, LIMITS)
    again = _rows(scale * words, scale * unity, 1e-4, TOLERANCES, None, LIMITS)
    assert complete and again[1] and len(rows) >= 4
    np.testing.assert_allclose(scale * again[0], rows, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_parts_add_up_as_far_as_rounding_lets_them(scale: float) -> None:
    """Relative to the whole, however large it is."""
    rng = np.random.default_rng(0)
    off = 0.1 * TOLERANCES.word_sum * rng.choice([-1.0, 1.0], (6, 6))
    patterns = np.r_[np.eye(6) + off, marked(6, (0, 1), (2, 3, 4))]
    found = _partition(scale * patterns, scale * np.ones(6), NEAR, TOLERANCES, None)
    assert (
        found is not None
        and found.shape == (6, 6)
        and np.allclose(found.sum(axis=0), scale, rtol=3 * TOLERANCES.word_sum)
    )


def test_rows_that_are_no_words_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows less a third one lie in the span and have the total of a row; where the two share a word, it occurs
    twice, and where the third alone has one, it occurs less than never."""
    space = fitted(30, 2)
    nodes = np.zeros((4, 31), np.int32)
    for node, words in enumerate([(0, 1), (0, 2), (3,), (4, 5)]):
        nodes[node, list(words)] = 1
    subspace = span_of(space, nodes, 0)
    own = (space.encode(nodes) / subspace.scale) @ subspace.basis
    mixed = np.array([1.0, 1.0, -1.0, 0.0]) @ own
    for rows, wanted in ((own, nodes), (np.r_[own[:2], mixed[None]], nodes[:2]), (own[:0], nodes[:0])):
        monkeypatch.setattr(binary_features, "_rows", lambda *_, rows=rows: (rows, False))
        found = passing_words(space, subspace)
        assert as_set(found.codes) == as_set(wanted) and found.codes.shape == wanted.shape and not found.complete
