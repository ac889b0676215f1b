"""Each statistic by its definition, item by item and round by round; what everyone knows, and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom, norm

from jgleak.attacks.recommender import statistics
from jgleak.attacks.recommender.combined import _standard, certainty, combined, ratio
from jgleak.attacks.recommender.history import history, size
from jgleak.attacks.recommender.observation import Profile, PublicKnowledge, Sighting, check
from jgleak.attacks.recommender.star import view
from jgleak.attacks.recommender.trace import CONTROLS, network, traces, user
from jgleak.attacks.recommender.trace import _standard as in_units
from jgleak.defenses import parse
from jgleak.federated.recommender import Protection, Recommender
from jgleak.federated.recommender.model import Parameters
from jgleak.federated.recommender.update import ClientUpdate

Watch = Callable[..., tuple[PublicKnowledge, list[list[Sighting]]]]

USERS, ITEMS, WIDTH = 3, 9, 4
SENT = ([0, 2, 3, 7], [0, 3, 5, 7, 8], [0, 1, 7])
"""Items of three rounds: two are in all, one in two of them."""


def known(pseudo: int = 2, dropout: float = 0.0, defense: str = "", **more: Any) -> PublicKnowledge:
    model = Recommender(USERS, ITEMS, WIDTH, "gcn", dropout, False, 3.0, 1.5, 0.5, "mean", None)
    protection = Protection(pseudo, parse(defense)) if defense else Protection(pseudo)
    return PublicKnowledge(model, (1.0, 2.0, 3.0, 5.0), protection, **more)


def rounds(sent: Any = SENT, seed: int = 0) -> list[Sighting]:
    rng = np.random.default_rng(seed)
    params = Parameters({}, jnp.zeros((USERS, WIDTH)), jnp.zeros((ITEMS, WIDTH)))
    out = []
    for items in sent:
        gradients = rng.normal(size=(len(items), WIDTH)).astype(np.float32)
        none = np.zeros(0, np.int64), np.zeros((0, WIDTH), np.float32)
        update = ClientUpdate(1, {}, np.array(items, np.int64), gradients, np.zeros(WIDTH, np.float32), *none)
        out.append(Sighting(params, update))
    return out


def row(one: Sighting, item: int) -> np.ndarray:
    return np.asarray(one.update.item_gradients[one.update.items.tolist().index(item)], np.float64)


def with_row(one: Sighting, item: int, new: np.ndarray) -> Sighting:
    gradients = one.update.item_gradients.copy()
    gradients[one.update.items.tolist().index(item)] = new
    return one._replace(update=dataclasses.replace(one.update, item_gradients=gradients))


def having(seen: list[Sighting], item: int) -> list[Sighting]:
    return [one for one in seen if item in one.update.items]


def test_items_and_rows_are_those_that_were_sent() -> None:
    seen = rounds()
    items = statistics.sent_items(seen)
    assert items.tolist() == [0, 1, 2, 3, 5, 7, 8]
    there, rows = statistics.presence(seen, items), statistics.rows(seen, items)
    for r, one in enumerate(seen):
        for s, item in enumerate(items.tolist()):
            assert there[r, s] == (item in SENT[r])
            np.testing.assert_array_equal(rows[r, s], row(one, item) if there[r, s] else 0.0)
    assert statistics.pairs(seen, items).tolist() == [6, 0, 0, 2, 0, 6, 0]


def test_lengths_and_directions_are_means_over_the_rounds_that_have_the_item() -> None:
    seen, public = rounds((*SENT, [7])), known()
    items = statistics.sent_items(seen)
    lengths, cosines = statistics.norm(public, seen, items), statistics.direction(public, seen, items)
    for item, length, cosine in zip(items.tolist(), lengths, cosines, strict=True):
        rows = [row(one, item) for one in having(seen, item)]
        means = [np.mean([row(one, other) for other in one.update.items], axis=0) for one in having(seen, item)]
        assert length == pytest.approx(np.linalg.norm(np.mean(rows, axis=0)), rel=1e-5)
        wanted = np.mean([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(rows, means, strict=True)])
        assert cosine == pytest.approx(wanted, rel=1e-5)


def test_agreement_is_the_mean_product_over_pairs_of_rounds() -> None:
    seen = rounds((*SENT, [7]))
    items = statistics.sent_items(seen)
    found = statistics.agreement(known(), seen, items)
    for item, value in zip(items.tolist(), found, strict=True):
        centred = []
        for one in having(seen, item):
            every = np.array([row(one, other) for other in one.update.items.tolist()])
            spread = np.sqrt(((every - every.mean(axis=0)) ** 2).sum()) or 1.0  # an item alone is its round's mean
            centred.append((row(one, item) - every.mean(axis=0)) / spread)
        products = [a @ b for a, b in permutations(centred, 2)]
        assert value == pytest.approx(np.mean(products) if products else 0.0, abs=1e-5)


@pytest.mark.parametrize("defense", ["", "clip-inf:0.1", "clip:1"])
def test_zeros_are_as_likely_as_dropout_makes_them(defense: str) -> None:
    """None of so many entries of a rated item is zero with the binomial's probability, of another's with certainty."""
    seen, public = rounds(), known(dropout=0.3, defense=defense)
    seen[1] = with_row(seen[1], 3, np.array([1.0, 0.0, 2.0, 1.0]))
    items = statistics.sent_items(seen)
    found = dict(zip(items.tolist(), statistics.zeros(public, seen, items), strict=True))
    assert found[3] == statistics.SURE
    for item in (0, 1, 7):
        entries = WIDTH * len(having(seen, item))
        assert found[item] == pytest.approx(np.log(binom.pmf(0, entries, 0.3)))
    for other in (
        known(),
        known(dropout=0.3, defense="clip-inf:0.1+laplace:1"),
        known(dropout=0.3, defense="prune:0.5"),
    ):
        assert not statistics.zeros(other, seen, items).any()


def test_zeros_of_an_items_bias_are_no_dropout() -> None:
    """It is the entry behind those of the embedding."""
    public = known(dropout=0.3)
    biased = dataclasses.replace(public, model=dataclasses.replace(public.model, width=WIDTH - 1, bias=True))
    seen = rounds()
    for item, place in ((0, WIDTH - 1), (7, WIDTH - 2)):
        seen[0] = with_row(seen[0], item, np.where(np.arange(WIDTH) == place, 0.0, row(seen[0], item)))
    items = statistics.sent_items(seen)
    found = dict(zip(items.tolist(), statistics.zeros(biased, seen, items), strict=True))
    assert found[7] == statistics.SURE and found[0] == pytest.approx(3 * (WIDTH - 1) * np.log(0.7))


def test_repetition_is_the_ratio_of_chances() -> None:
    """Of nine items two are the history, in rounds of four: two of the seven others in each."""
    seen = rounds(([0, 2, 3, 7], [0, 3, 5, 7], [0, 1, 5, 7]))
    items = statistics.sent_items(seen)
    found = dict(zip(items.tolist(), statistics.repetition(known(2), seen, items), strict=True))
    assert size(known(2), seen) == 2
    assert found[0] == found[7] == pytest.approx(-3 * np.log(2 / 7))
    assert found[2] == found[1] == -statistics.SURE + 1 and found[3] == found[5] == -statistics.SURE + 2
    certain = statistics.repetition(known(0), rounds([SENT[0]] * 2), np.array(SENT[0]))
    assert certain.tolist() == [2 * 1.0] * 4, "without pseudo items every item sent is the history"
    for sent, score in ((8, 2.0), (9, 0.0)):
        every = statistics.repetition(known(0), rounds([range(sent)] * 2), np.arange(sent))
        assert every.tolist() == [score] * sent, "nothing is told apart where everything is rated"


@pytest.mark.parametrize(
    ("pseudo", "sent", "wanted"), [(2, 5, 3), (2, 9, 7), (8, 9, 1), (9, 9, 1), (1, 5, 4), (0, 4, 4)]
)
def test_the_number_of_items_is_what_pseudo_items_leave(pseudo: int, sent: int, wanted: int) -> None:
    seen = rounds((range(sent), range(max(sent, 5))))
    assert size(known(pseudo), seen) == wanted


def test_the_history_is_what_every_round_has_with_a_gradient() -> None:
    seen = rounds()
    assert history(known(), seen).tolist() == [0, 7]
    seen[1] = with_row(seen[1], 7, np.array([0.0, 0.0, 1e-9, 0.0]))
    assert history(known(), seen).tolist() == [0, 7], "one entry is enough"
    seen[1] = with_row(seen[1], 7, np.zeros(4))
    assert history(known(), seen).tolist() == [0]


@pytest.mark.parametrize(("mean", "share"), [(3.0, 0.1), (1.5, 0.5), (2.0, 0.9)])
def test_the_ratio_is_that_of_the_likeliest_mixture(mean: float, share: float) -> None:
    """Against the likelihood of all means on a grid."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=400) + mean * (rng.random(400) < share)
    grid = np.linspace(0.0, 6.0, 2401)
    likelihood = [np.log((1 - share) * norm.pdf(score) + share * norm.pdf(score, m)).sum() for m in grid]
    best = grid[int(np.argmax(likelihood))]
    np.testing.assert_allclose(ratio(score, share), norm.logpdf(score, best) - norm.logpdf(score), atol=0.05)
    np.testing.assert_allclose(ratio(score, 1.0), norm.logpdf(score, score.mean()) - norm.logpdf(score), atol=1e-6)
    assert not ratio(-np.abs(score), share).any(), "a mean below zero is none"


@pytest.mark.parametrize("times", [1, 4])
def test_all_statistics_together_are_the_sum_of_their_ratios(times: int, watch: Watch) -> None:
    """Dropout's zeros show half of the items; scores of several rounds are as large as one's by the root of them."""
    public, (seen,) = watch([4], dropout=0.1, protection=Protection(6), rounds=times)
    items = statistics.sent_items(seen)
    share = size(public, seen) / len(items)
    wanted = statistics.repetition(public, seen, items) + statistics.zeros(public, seen, items)
    for part in (network, user):
        wanted = wanted + ratio(part(public, seen, items) / np.sqrt(times), share)
    if times > 1:
        beside = _standard(statistics.agreement(public, seen, items), statistics.pairs(seen, items))
        wanted = wanted + ratio(beside, share)
    assert np.ptp(statistics.zeros(public, seen, items)) > 0 and np.ptp(wanted) > 0
    np.testing.assert_allclose(combined(public, seen, items), wanted, rtol=1e-5)


def test_certainty_is_the_mean_of_posterior_odds() -> None:
    ratios = np.array([-1.0, 0.0, 3.0])
    odds = 0.25 / 0.75 * np.exp(ratios)
    assert certainty(ratios, 0.25) == pytest.approx(np.mean(odds / (1 + odds)))
    assert certainty(ratios, 1.0) == certainty(np.zeros(0), 0.25) == 1.0


def test_scores_of_pairs_are_in_units_of_the_bulk() -> None:
    rng = np.random.default_rng(0)
    pairs = np.r_[np.repeat([2, 6], 4000), 0]
    score = np.r_[rng.normal(size=8000) * 0.7 / np.sqrt(pairs[:-1]) + 0.0, 5.0]
    found = _standard(score, pairs)
    assert found[-1] == 0.0, "without a pair there is nothing to say"
    for number in (2, 6):
        assert np.std(found[pairs == number]) == pytest.approx(1.0, rel=0.05)
    assert np.median(found[:-1]) == pytest.approx(0.0, abs=1e-9)
    assert not _standard(np.ones(3), np.array([2, 2, 2])).any() and not _standard(np.ones(2), np.zeros(2, int)).any()


@pytest.mark.parametrize("unsent", [CONTROLS, CONTROLS - 1])
def test_traces_are_in_units_of_the_items_that_were_not_sent(unsent: int) -> None:
    """Of all, where those are few."""
    every, sent = np.random.default_rng(0).normal(2.0, 3.0, unsent + 2), np.array([1, 4])
    null = np.delete(every, sent) if unsent >= CONTROLS else every
    np.testing.assert_allclose(in_units(every, sent), (every[sent] - null.mean()) / null.std())


def test_the_prior_has_the_moments_of_its_shares() -> None:
    shares, levels = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1.0, 2.0, 3.0, 5.0])
    public = known(prior=tuple(shares.tolist()))
    assert public.mean == pytest.approx(shares @ levels)
    assert public.deviation == pytest.approx(np.sqrt(shares @ (levels - shares @ levels) ** 2))
    assert known().mean == pytest.approx(levels.mean()) and known().deviation == pytest.approx(levels.std())
    assert known(prior=(0.0, 1.0, 0.0, 0.0)).deviation == pytest.approx(0.04), "a hundredth of the range"


def test_the_nearest_level_is_that_of_each_rating() -> None:
    nothing = np.zeros(5)
    profile = Profile(np.arange(5), nothing, nothing > 0, np.array([-3.0, 1.4, 1.6, 4.1, 9.0]), nothing, {})
    assert profile.nearest((1.0, 2.0, 3.0, 5.0)).tolist() == [1.0, 1.0, 2.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"prior": (0.1, 0.2, 0.3, 0.3)}, "summing to 1"),
        ({"prior": (0.5, 0.5)}, "share for each of 4 levels"),
        ({"prior": (-0.1, 0.3, 0.4, 0.4)}, "prior"),
        ({"limit": 3}, "limit: fixed neighbours need their number, others have none; got 3"),
        ({"neighbours": "fixed"}, "limit: fixed neighbours need their number, others have none; got 0"),
    ],
)
def test_what_nobody_can_know_is_refused(change: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        known(**change)


def test_levels_ascend_and_are_several() -> None:
    for levels in ((1.0,), (1.0, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError, match="two or more ascending ratings"):
            dataclasses.replace(known(), levels=levels)
    assert dataclasses.replace(known(), levels=(1.0, 2.0)).mean == 1.5
    assert known(neighbours="fixed", limit=1).limit == 1


@pytest.mark.usefixtures("unchecked")
def test_a_round_that_does_not_fit_the_model_is_named() -> None:
    seen = rounds()
    check(known(), seen)

    def second(**changes: Any) -> list[Sighting]:
        return [seen[0], seen[1]._replace(update=dataclasses.replace(seen[1].update, **changes))]

    items, gradients = seen[1].update.items, seen[1].update.item_gradients
    for some, what in (
        (second(item_gradients=gradients[:-1]), r"round 1 has gradients \(4, 4\) of 5 items"),
        (second(user_gradient=np.zeros(5, np.float32)), r"\(5,\) of the user; the model's width is 4"),
        (second(items=items + 1), r"round 1 has items outside 0\.\.8"),
        (second(items=items - 1), r"round 1 has items outside 0\.\.8"),
        (second(user=2), "users 1 and 2"),
        (second(item_gradients=gradients * np.inf), "round 1 is not finite"),
        (second(network={"w": np.zeros(2)}), "the network of round 1"),
        ([seen[0]._replace(params=seen[0].params._replace(users=jnp.zeros((USERS, 5))))], "users of round 0"),
    ):
        with pytest.raises(ValueError, match=what):
            check(known(), some)
    with pytest.raises(ValueError, match="users 1 and 2"):
        history(known(), second(user=2))
    biased = dataclasses.replace(known(), model=dataclasses.replace(known().model, width=WIDTH - 1, bias=True))
    check(biased, seen)
    check(known(), [*second(items=items[:0], item_gradients=gradients[:0])])


@pytest.mark.parametrize(("beyond", "length"), [(0.1, 2), (-0.1, 2), (0.1, 1)])
def test_traces_are_the_filters_of_a_graph_convolution_written_out(beyond: float, length: int) -> None:
    """``h_k = x_k W / 2 + b x_u W`` hears the user, and ``h_u`` the items that were sent most often.

    The ratings that are guessed are a tenth of the network's part above the prior's mean, or below it.
    """
    rng, seen = np.random.default_rng(0), rounds()
    drawn = [rng.normal(size=shape) for shape in ((USERS, WIDTH), (ITEMS, WIDTH), (WIDTH, WIDTH))]
    users, rows, kernel = (part.astype(np.float32) for part in drawn)
    params = Parameters({"kernel": jnp.asarray(kernel)}, jnp.asarray(users), jnp.asarray(rows))
    for k, one in enumerate(seen):
        moved = {"kernel": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32)}
        own = rng.normal(size=WIDTH).astype(np.float32)
        seen[k] = Sighting(params, dataclasses.replace(one.update, network=moved, user_gradient=own))
    public, items = known(3 - length), statistics.sent_items(seen)
    assert size(public, seen) == length
    most, degree, centre = [0, 7][:length], length + 1, users[1]  # these two are in every round
    between = 1 / np.sqrt(2 * degree)
    states = rows @ kernel / 2 + between * centre @ kernel
    hidden = centre @ kernel / degree + between * rows[most].sum(axis=0) @ kernel
    part = public.model.scale * float(np.mean(states[most] @ hidden))
    model = dataclasses.replace(public.model, centre=public.mean - (1 - beyond) * part)
    public = dataclasses.replace(public, model=model)
    for k, (_, update) in enumerate(seen):
        shift = update.item_gradients.mean(axis=0) @ kernel / 2
        by_network = (rows @ update.network["kernel"] / 2 + between * centre @ update.network["kernel"]) @ shift
        by_user = states @ (update.user_gradient @ kernel / degree) * np.sign(beyond * part)
        both = traces(public, seen, items, "network")[k], traces(public, seen, items, "user")[k]
        for found, every in zip(both, (by_network, by_user), strict=True):
            there = np.isin(items, update.items)
            np.testing.assert_allclose(found[there], in_units(every, update.items), rtol=2e-3, atol=2e-3)
            assert not found[~there].any()
    np.testing.assert_allclose(network(public, seen, items), traces(public, seen, items, "network").sum(axis=0))


@pytest.mark.parametrize("neighbours", ["off", "trainable", "fixed"])
def test_a_view_is_the_supposed_star_with_what_left_of_it(neighbours: str) -> None:
    """Padded to a power of two; masks are the zeros of the gradients; rows of fixed neighbours are the users' mean."""
    rng = np.random.default_rng(0)
    users, rows = rng.normal(size=(USERS, WIDTH)), rng.normal(size=(ITEMS, WIDTH))
    params = Parameters({}, jnp.asarray(users, jnp.float32), jnp.asarray(rows, jnp.float32))
    public = known(dropout=0.2, neighbours=neighbours, limit=2 * (neighbours == "fixed"))
    one = rounds()[1]
    update = dataclasses.replace(one.update, user_gradient=np.array([0.0, 1.0, 2.0, 3.0], np.float32))
    if neighbours == "trainable":
        sent = rng.normal(size=(2, WIDTH)).astype(np.float32)
        update = dataclasses.replace(update, neighbours=np.array([2, 0]), neighbour_gradients=sent)
    hidden = with_row(Sighting(params, update), 5, np.array([1.0, 0.0, 2.0, 0.0], np.float32))
    items = np.array([0, 3, 5, 7, 8])
    for masked in (True, False):
        seen = jax.tree.map(np.asarray, view(public, hidden, items, masked=masked))
        assert seen.client.items.tolist() == [0, 3, 5, 7, 8, 0, 0, 0]
        assert seen.client.mask.tolist() == [True] * 5 + [False] * 3
        np.testing.assert_allclose(seen.local.items[:5], rows[items], rtol=1e-6)
        np.testing.assert_allclose(seen.local.user, users[1], rtol=1e-6)
        for k, item in enumerate(items.tolist()):
            np.testing.assert_allclose(seen.seen.items[k], row(hidden, item), rtol=1e-6)
        assert not np.any(seen.seen.items[5:]) and not np.any(seen.shown.items[5:])
        assert np.all(seen.shown.items[:5] == 1)
        kept = 1.25 if masked else 1.0
        np.testing.assert_allclose(seen.factor.items[2], [kept, 0, kept, 0] if masked else [1.0] * 4)
        np.testing.assert_allclose(seen.factor.items[[0, 1, 3, 4]], kept)
        np.testing.assert_allclose(seen.factor.user, [0.0 if masked else 1.0, kept, kept, kept])
        assert np.all(seen.shown.user == 1)
        wanted = {"off": users[:0], "trainable": users[[2, 0]], "fixed": np.tile(users.mean(axis=0), (2, 1))}[
            neighbours
        ]
        np.testing.assert_allclose(seen.local.neighbours, wanted, rtol=1e-6)
        assert np.all(seen.shown.neighbours == (neighbours == "trainable"))
    for count, padded in ((1, 4), (2, 4), (4, 4), (5, 8)):
        assert view(public, hidden, items[:count], masked=False).client.items.shape == (padded,), (
            "never fewer than four"
        )
