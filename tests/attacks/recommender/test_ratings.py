"""Ratings: exact without defences, no more than the updates say with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.recommender import PublicKnowledge, Sighting, attack, estimate, history, ratings
from jgleak.attacks.recommender.clipped import clipped
from jgleak.attacks.recommender.noise import noise
from jgleak.attacks.recommender.star import expected, predictions, view
from jgleak.defenses import parse
from jgleak.federated.recommender import Clients, Protection
from jgleak.ratings import Ratings

Watch = Callable[..., tuple[PublicKnowledge, list[list[Sighting]]]]

WATCHED = (20, 24, 28, 32)
"""Users whose histories are padded to one length, for one compilation."""


def truth(made: Ratings, user: int) -> tuple[np.ndarray, np.ndarray]:
    return made.items[made.users == user], made.values[made.users == user]


@pytest.mark.parametrize(
    ("network", "dropout"),
    [
        ("gcn", 0.0),
        ("gcn", 0.2),
        ("gat", 0.2),
        ("ggnn", 0.2),
        *(pytest.param(network, 0.0, marks=pytest.mark.slow) for network in ("gat", "ggnn")),
    ],
)
@pytest.mark.long
def test_without_defences_everything_is_read_exactly(made: Ratings, watch: Watch, network: str, dropout: float) -> None:
    public, sightings = watch(WATCHED, network=network, dropout=dropout)
    for user, seen in zip(WATCHED, sightings, strict=True):
        items, values = truth(made, user)
        found = attack(public, seen)
        assert found.items[found.reported].tolist() == items.tolist()
        np.testing.assert_allclose(found.ratings, values, atol=1e-3)
        assert found.nearest(public.levels).tolist() == values.tolist()
        assert found.deviations.max() < 1e-2 and found.info["misfit"] < 2


def test_an_offset_that_stays_on_the_device_is_read_as_well(made: Ratings, watch: Watch) -> None:
    public, sightings = watch(WATCHED, dropout=0.2, bias=True, reduction="sum", own=5.0)
    for user, seen in zip(WATCHED, sightings, strict=True):
        found = attack(public, seen)
        np.testing.assert_allclose(found.ratings, truth(made, user)[1], atol=1e-2)
        assert found.info["misfit"] < 2


@pytest.mark.parametrize("neighbours", ["trainable", "fixed"])
def test_neighbours_known_and_unknown(made: Ratings, watch: Watch, neighbours: str) -> None:
    public, sightings = watch(WATCHED, dropout=0.2, neighbours=neighbours)
    for user, seen in zip(WATCHED, sightings, strict=True):
        np.testing.assert_allclose(attack(public, seen).ratings, truth(made, user)[1], atol=0.05)


def test_the_expected_gradient_is_the_losses(made: Ratings, watch: Watch) -> None:
    public, ((seen,),) = watch([28])
    items, values = truth(made, 28)
    known = view(public, seen, items, masked=True)
    client = known.client._replace(values=np.pad(values, (0, known.client.items.size - len(values))))
    ours = jax.jit(expected, static_argnums=0)(public.model, known, known.local, client.values)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), ours, known.seen)
    theirs = jax.jit(jax.grad(public.model.loss))(known.local, client)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), ours, theirs)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_an_entry_varies_by_noise_and_by_what_dropout_leaves_of_it(made: Ratings, watch: Watch, dropout: float) -> None:
    """Drawn: an entry that dropout keeps with the chance ``1 - p`` is ``g / (1 - p)``, cut to the bound, else zero."""
    public, ((seen,),) = watch([28], dropout=dropout, protection=Protection(0, parse("clip-inf:0.002+gaussian:0.0001")))
    items = truth(made, 28)[0]
    known = noise(public.protection)
    group = ratings._group(public, known, [view(public, seen, items, masked=False)], np.eye(len(items)), 1e-9)
    shown = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(group.view.shown)]) > 0
    kept = np.random.default_rng(0).random((4000, shown.sum())) >= dropout
    sizes = [leaf.size for leaf in jax.tree.leaves(group.view.seen)]
    tensor = np.repeat(np.arange(len(sizes)), sizes)[shown]
    for one in np.unique(tensor):
        whole = np.clip(group.centre[shown][tensor == one] / (1 - dropout), -0.002, 0.002)
        drawn = np.where(kept[:, tensor == one], whole, 0.0)
        wanted = 0.0001**2 + drawn.var(axis=0).mean()
        np.testing.assert_allclose(1 / group.weight[shown][tensor == one], wanted, rtol=0.05)
    assert not group.weight[~shown].any()
    squares = ratings._squares(public.model, group.view, np.eye(len(items)))
    bend = clipped(group.centre, public.deviation**2 * squares, np.full(squares.size, 0.002 * (1 - dropout)))
    rows = np.arange(squares.size) >= sum(leaf.size for leaf in jax.tree.leaves(group.view.seen.network))
    for ours, theirs in zip(group.bend, bend, strict=True):
        np.testing.assert_allclose(ours[rows], theirs[rows], rtol=1e-6)


def test_an_offset_is_never_dropped(made: Ratings, watch: Watch) -> None:
    """It is the entry behind those of an embedding, and the network's are no embedding's."""
    public, ((seen,),) = watch([28], dropout=0.3, bias=True)
    one = view(public, seen, truth(made, 28)[0], masked=True)
    kept = np.split(ratings._kept(public.model, one), np.cumsum([leaf.size for leaf in jax.tree.leaves(one.seen)])[:-1])
    width, network = public.model.width, len(jax.tree.leaves(one.seen.network))
    assert all(np.all(part == 1.0) for part in kept[:network])
    for part in kept[network:]:
        np.testing.assert_allclose(
            part.reshape(-1, width + 1), np.tile([*[0.7] * width, 1.0], (part.size // (width + 1), 1))
        )


def test_of_no_history_there_are_no_ratings(watch: Watch) -> None:
    public, (seen,) = watch([28])
    found = estimate(public, seen, np.zeros(0, int))
    assert found.ratings.shape == found.deviations.shape == (0,) and found.misfit == 0.0


def test_the_order_of_a_users_ratings_changes_nothing(made: Ratings, watch: Watch) -> None:
    turned = Clients.from_ratings(made.take(np.arange(len(made))[::-1]))
    (public, (seen,)), (_, (other,)) = watch([28], bias=True), watch([28], bias=True, of=turned)
    np.testing.assert_allclose(attack(public, seen).ratings, attack(public, other).ratings, atol=1e-3)


def test_entries_that_are_cut_are_left_out(made: Ratings, watch: Watch) -> None:
    public, (seen,) = watch([28], protection=Protection(0, parse("clip-inf:0.05")))
    assert np.mean(np.abs(seen[0].update.item_gradients) >= 0.05) > 0.1
    found = attack(public, seen)
    np.testing.assert_allclose(found.ratings, truth(made, 28)[1], atol=1e-2)


@pytest.mark.parametrize(
    ("defense", "own"),
    [
        ("laplace:0.02", None),
        ("gaussian:0.02", 5.0),
        pytest.param("laplace:0.02", 5.0, marks=pytest.mark.slow),
        pytest.param("gaussian:0.02", None, marks=pytest.mark.slow),
    ],
)
def test_deviations_are_the_errors(made: Ratings, watch: Watch, defense: str, own: float | None) -> None:
    public, sightings = watch(WATCHED, protection=Protection(0, parse(defense)), rounds=4, own=own)
    found = [attack(public, seen) for seen in sightings]
    errors = [one.ratings - truth(made, user)[1] for user, one in zip(WATCHED, found, strict=True)]
    ratio = np.concatenate(errors) / np.concatenate([one.deviations for one in found])
    assert 0.75 < np.sqrt(np.mean(ratio**2)) < 1.3
    assert max(one.deviations.max() for one in found) < 0.9 * public.deviation
    one = np.concatenate([attack(public, seen[:1]).deviations for seen in sightings])
    many = np.concatenate([one.deviations for one in found])
    precision = [np.median(part**-2.0 - public.deviation**-2) for part in (one, many)]
    assert 2.5 < precision[1] / precision[0] < 6.0


def dense(
    public: PublicKnowledge, seen: list[Sighting], items: np.ndarray, certainty: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """The posterior by whole matrices: ``updates = clip(zero + J^T learnt(ratings)) + noise``, by the line for clip."""
    model, known, count = public.model, noise(public.protection), len(items)
    views = [view(public, one, items, masked=False) for one in seen]

    def flat(tree: Any) -> np.ndarray:
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).astype(np.float64)

    shown, gradient = flat(views[0].shown) > 0, jax.jit(expected, static_argnums=0)

    def at(learnt: np.ndarray) -> np.ndarray:
        padded = np.pad(learnt, (0, views[0].client.items.size - count))
        return flat(gradient(model, views[0], views[0].local, padded))[shown]

    zero, updates = at(np.zeros(count)), np.stack([flat(one.seen)[shown] for one in views])
    jacobian = np.stack([at(row) for row in np.eye(count)]) - zero
    now = np.asarray(jax.jit(predictions, static_argnums=0)(model, views[0], views[0].local))[:count]
    spread = np.eye(count) - (0.0 if model.own is None else 1.0 / (count + model.own))

    def learnt(ratings: np.ndarray) -> np.ndarray:
        return model.centre + spread @ (ratings - model.centre)

    laplace, variance, rows = known.kind == "laplace", known.deviation**2, spread @ jacobian
    gain = (2.0 if laplace else 1.0) / variance
    centre, squares = zero + jacobian.T @ learnt(np.full(count, public.mean)), (rows**2).sum(axis=0)
    bend = clipped(centre, public.deviation**2 * squares, np.full(centre.size, known.bound))
    gram, prior = len(seen) * gain * (rows * bend.slope**2) @ rows.T, np.eye(count) / public.deviation**2
    missed = len(seen) * gain * rows**2 @ (bend.left / np.maximum(squares, 1e-60)) / np.diag(gram)
    back = np.linalg.inv(spread)
    wrong = (1.0 - certainty) * ((now - learnt(np.full(count, public.mean))) ** 2 + public.deviation**2)
    ratings, misfit, wider = np.full(count, public.mean), 0.0, 1.0
    for sweep in range(3):
        residual = updates - bend.expected - bend.slope * (zero + jacobian.T @ learnt(ratings) - centre)
        if sweep == 1:
            misfit = float(np.mean(residual**2) / variance)
            excess = max(misfit - 1.0 - 12.0 / np.sqrt(residual.size), 0.0)
            wider = 1.0 + excess * residual.size / count
        score = known.deviation / np.sqrt(2.0) * np.sign(residual) if laplace and sweep else residual
        told = np.linalg.inv(wider * np.linalg.inv(gram) + back @ np.diag(wrong) @ back + np.diag(missed))
        slope = told @ np.linalg.solve(gram, gain * rows @ (bend.slope * score.sum(axis=0)))
        ratings = ratings + np.linalg.solve(told + prior, slope + prior @ (public.mean - ratings))
    return ratings, np.sqrt(np.diag(np.linalg.inv(told + prior))), float(np.sqrt(misfit))


@pytest.mark.parametrize(
    ("defense", "stated", "own", "certainty"),
    [
        ("gaussian:0.02", "gaussian:0.02", 5.0, 1.0),
        ("gaussian:0.02", "gaussian:0.005", 5.0, 0.6),
        ("laplace:0.02", "laplace:0.02", None, 0.6),
        ("laplace:0.02", "laplace:0.005", None, 1.0),
        ("clip-inf:0.05+gaussian:0.02", "clip-inf:0.05+gaussian:0.02", 5.0, 0.8),
    ],
)
def test_the_posterior_is_that_of_whole_matrices(
    made: Ratings, watch: Watch, defense: str, stated: str, own: float | None, certainty: float
) -> None:
    """Also where there is more noise than is stated, which widens it, and where entries are cut."""
    public, sightings = watch(WATCHED, protection=Protection(0, parse(defense)), rounds=4, own=own)
    public = dataclasses.replace(public, protection=Protection(0, parse(stated)))
    items, seen = truth(made, WATCHED[1])[0], sightings[1]
    found = estimate(public, seen, items[::-1], certainty=certainty)
    wanted, deviations, misfit = dense(public, seen, items, certainty)
    np.testing.assert_allclose(found.ratings, wanted, atol=2e-3)
    np.testing.assert_allclose(found.deviations, deviations, rtol=2e-3)
    assert found.misfit == pytest.approx(misfit, rel=1e-3) and (found.misfit > 2.0) is (stated != defense)


@pytest.mark.parametrize(
    "settings", [{}, {"own": 5.0}, {"own": 5.0, "centre": 2.0, "dropout": 0.5, "bias": True}], ids=str
)
def test_deviations_know_what_clipping_cuts(made: Ratings, watch: Watch, settings: Any) -> None:
    tight = Protection(0, parse("clip-inf:0.01+laplace:0.02"))
    public, sightings = watch(WATCHED, protection=tight, rounds=4, **settings)
    found = [attack(public, seen) for seen in sightings]
    errors = np.concatenate([one.ratings - truth(made, user)[1] for user, one in zip(WATCHED, found, strict=True)])
    deviations = np.concatenate([one.deviations for one in found])
    assert 0.75 < np.sqrt(np.mean((errors / deviations) ** 2)) < 1.3
    assert np.median(deviations) < 0.9 * public.deviation


def test_noise_without_end_gives_the_prior_back(watch: Watch) -> None:
    public, (seen,) = watch([28], protection=Protection(0, parse("clip-inf:0.1+laplace:1000")), rounds=2)
    found = attack(dataclasses.replace(public, prior=(0.0, 0.0, 0.0, 0.5, 0.5)), seen)
    np.testing.assert_allclose(found.ratings, 4.5, atol=1e-2)
    np.testing.assert_allclose(found.deviations, 0.5, rtol=1e-3)


def test_a_wrong_history_is_not_believed(made: Ratings, watch: Watch) -> None:
    public, (seen,) = watch([28], protection=Protection(20))
    items = seen[0].update.items
    wrong = np.setdiff1d(items, truth(made, 28)[0])
    found = estimate(public, seen, np.sort(np.r_[wrong[:10], truth(made, 28)[0][:6]]))
    assert found.misfit > 1e4 and np.median(found.deviations) > 0.5 * public.deviation


def test_noise_that_hides_a_wrong_history_needs_doubt(made: Ratings, watch: Watch) -> None:
    public, (seen,) = watch([28], protection=Protection(0, parse("gaussian:0.02")), rounds=4)
    items = history(public, seen)
    sure, unsure, lost = (estimate(public, seen, items, certainty=share) for share in (1.0, 0.5, 0.0))
    assert np.all(sure.deviations < unsure.deviations) and np.all(unsure.deviations < lost.deviations)
    assert np.all(lost.deviations > 0.65 * public.deviation)
    assert np.abs(lost.ratings - public.mean).sum() < np.abs(sure.ratings - public.mean).sum()
    with pytest.raises(ValueError, match="a share in"):
        estimate(public, seen, items, certainty=1.5)


def test_two_truths_behind_one_update_give_the_same_bits(made: Ratings, watch: Watch) -> None:
    tight = Protection(0, parse("clip-inf:1e-9"))
    same = [
        watch([28], centre=0.0, protection=tight, of=Clients.from_ratings(dataclasses.replace(made, values=values)))
        for values in (np.full(len(made), 5.0), np.full(len(made), 4.0))
    ]
    for a, b in zip(*(jax.tree.leaves(dataclasses.asdict(seen[0][0].update)) for _, seen in same), strict=True):
        np.testing.assert_array_equal(a, b)
    first, second = (attack(public, seen[0]) for public, seen in same)
    for field in ("items", "scores", "reported", "ratings", "deviations"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    np.testing.assert_allclose(first.ratings, 3.0)


def test_rounds_at_other_parameters_count_each_at_its_own(made: Ratings, watch: Watch) -> None:
    public, (seen,) = watch([28], protection=Protection(0, parse("gaussian:0.02")), rounds=2)
    again = [Sighting(one.params._replace(), one.update) for one in seen]
    one, other = (estimate(public, some, history(public, some)) for some in (seen, again))
    np.testing.assert_allclose(one.ratings, other.ratings, atol=1e-3)
    np.testing.assert_allclose(one.deviations, other.deviations, rtol=1e-3)


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_attacked_is_said(watch: Watch) -> None:
    public, (seen,) = watch([28])
    (params, update), items = seen[0], seen[0].update.items
    bad = dataclasses.replace(update, user_gradient=update.user_gradient * np.nan)
    nothing = dataclasses.replace(update, items=items[:0], item_gradients=update.item_gradients[:0])
    other = dataclasses.replace(update, user=3)
    for some, what in (
        ([], "there is none"),
        ([Sighting(params, bad)], "not finite"),
        ([Sighting(params._replace(items=params.items[:3]), update)], "items of round 0"),
        ([Sighting(params._replace(network={}), update)], "network"),
        ([Sighting(params, nothing)], "no history"),
        ([seen[0], Sighting(params, other)], "one user at a time"),
    ):
        with pytest.raises(ValueError, match=what):
            attack(public, some)
    with pytest.raises(ValueError, match="unknown 'luck'; choose one of combined"):
        attack(public, seen, statistic="luck")
    with pytest.raises(ValueError, match="not sent in round 0"):
        estimate(public, seen, np.setdiff1d(np.arange(80), items)[:2])
    with pytest.raises(ValueError, match="prune:0.5 leaves of a rating is not worked out"):
        attack(dataclasses.replace(public, protection=Protection(0, parse("prune:0.5"))), seen)
    for change, what in (
        ({"levels": (2.0, 1.0)}, "ascending"),
        ({"prior": (0.5, 0.5)}, "share for each of 5 levels"),
        ({"neighbours": "fixed"}, "need their number"),
        ({"neighbours": "some"}, "unknown 'some'"),
    ):
        with pytest.raises(ValueError, match=what):
            dataclasses.replace(public, **change)
