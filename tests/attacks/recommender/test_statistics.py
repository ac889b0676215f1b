"""Real against pseudo items: what each statistic is worth, and when it is worth nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.recommender import (
    STATISTICS,
    Estimates,
    PublicKnowledge,
    Sighting,
    attack,
    history,
    real_scores,
    recommender,
)
from jgleak.attacks.recommender.combined import certainty, combined, ratio
from jgleak.attacks.recommender.history import size
from jgleak.attacks.recommender.tolerances import LIMITS, TOLERANCES
from jgleak.defenses import parse
from jgleak.federated.recommender import Protection
from jgleak.metrics.recommender import leak
from jgleak.ratings import Ratings

Watch = Callable[..., tuple[PublicKnowledge, list[list[Sighting]]]]

ITEMS = 80
FEW = tuple(range(0, 20, 2))
"""Users with short histories, all padded to one length for one compilation."""


def auc(made: Ratings, public: PublicKnowledge, sightings: list[list[Sighting]], statistic: str) -> float:
    """Mean over users of the probability that a real item beats a pseudo one."""
    values = []
    for seen in sightings:
        items, scores = real_scores(public, seen, statistic)
        real = np.isin(items, made.items[made.users == seen[0].update.user])
        beats = np.sign(scores[real][:, None] - scores[~real])
        values.append(0.5 + beats.mean() / 2.0)
    return float(np.mean(values))


def test_repetition_finds_the_history_among_fresh_pseudo_items(made: Ratings, watch: Watch) -> None:
    public, sightings = watch(FEW, protection=Protection(20), rounds=5)
    assert auc(made, public, sightings, "repetition") > 0.99
    assert auc(made, public, sightings, "combined") > 0.99
    items, scores = real_scores(public, sightings[0], "repetition")
    k = int((made.users == 0).sum())
    np.testing.assert_allclose(scores.max(), -5 * np.log(20 / (ITEMS - k)))
    assert np.isin(made.items[made.users == 0], history(public, sightings[0])).all()
    assert size(public, sightings[0]) == k


def test_items_that_never_come_twice_do_not_drown_repetition(made: Ratings, watch: Watch) -> None:
    public, sightings = watch(FEW, protection=Protection(5, parse("clip-inf:0.1+laplace:1")), rounds=5)
    _, scores = real_scores(public, sightings[0], "agreement")
    assert np.median(np.abs(scores - np.median(scores))) == 0
    assert auc(made, public, sightings, "combined") > 0.99


def test_one_round_of_noise_says_nothing(made: Ratings, watch: Watch) -> None:
    public, sightings = watch(FEW, protection=Protection(20, parse("clip-inf:0.1+laplace:1000")))
    for statistic in STATISTICS:
        assert abs(auc(made, public, sightings, statistic) - 0.5) < 0.15, statistic
    assert auc(made, public, sightings, "repetition") == auc(made, public, sightings, "zeros") == 0.5


def test_dropout_marks_real_items_in_one_round(made: Ratings, watch: Watch) -> None:
    public, sightings = watch(FEW, dropout=0.2, protection=Protection(20, parse("clip-inf:0.1")))
    assert auc(made, public, sightings, "zeros") > 0.9  # at width 8 one row in six has no zero
    assert auc(made, public, sightings, "repetition") == 0.5


def test_the_network_and_the_user_show_real_items(made: Ratings, watch: Watch) -> None:
    public, sightings = watch(FEW, centre=0.0, protection=Protection(20))
    assert auc(made, public, sightings, "network") > 0.6
    assert auc(made, public, sightings, "user") > 0.55


def test_real_gradients_repeat_and_pseudo_ones_do_not(made: Ratings, watch: Watch) -> None:
    public, sightings = watch(FEW, protection=Protection(20), rounds=6)
    assert auc(made, public, sightings, "agreement") > 0.75


def test_pseudo_items_that_stay_say_nothing_by_repetition(watch: Watch) -> None:
    public, (seen,) = watch([4], protection=Protection(20))
    _, scores = real_scores(public, seen * 5, "repetition")
    assert np.unique(scores).size == 1


def test_all_items_sent_hide_the_number_and_show_a_bound(made: Ratings, watch: Watch) -> None:
    public, (seen,) = watch([4], protection=Protection(ITEMS - 3))
    assert len(seen[0].update.items) == ITEMS and size(public, seen) == 3
    assert np.unique(real_scores(public, seen, "repetition")[1]).size == 1


def test_equal_scores_are_reported_by_number_and_doubted_by_all_statistics(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of 80 items are rated, and repetition tells none; ratings are asked for with the doubt that is reported."""
    public, (seen,) = watch([4], protection=Protection(ITEMS - 3))
    asked: dict[str, Any] = {}

    def estimated(public: Any, sightings: Any, items: np.ndarray, **given: Any) -> Estimates:
        asked.update(given, items=items.tolist())
        return Estimates(np.full(3, 4.0), np.full(3, 0.5), 1.5)

    monkeypatch.setattr(recommender, "estimate", estimated)
    limits, tolerances = dataclasses.replace(LIMITS, sweeps=7), dataclasses.replace(TOLERANCES, unsure=1.0)
    found = attack(public, seen, statistic="repetition", tolerances=tolerances, limits=limits)
    assert np.flatnonzero(found.reported).tolist() == asked["items"] == [0, 1, 2]
    assert found.ratings.tolist() == [4.0] * 3 + [public.mean] * (ITEMS - 3)
    assert found.deviations.tolist() == [0.5] * 3 + [public.deviation] * (ITEMS - 3)
    sure = certainty(combined(public, seen, found.items)[:3], 3 / ITEMS)
    assert 0 < sure < 1 and asked["certainty"] == found.info["certainty"] == pytest.approx(sure)
    assert (asked["limits"], asked["tolerances"]) == (limits, tolerances)
    assert [found.info[name] for name in ("rounds", "size", "misfit")] == [1.0, 3.0, 1.5]


@pytest.mark.parametrize("mean", [0.0, 4.0])
def test_the_ratio_learns_how_much_a_statistic_is_worth(mean: float) -> None:
    rng = np.random.default_rng(0)
    real = rng.random(20000) < 0.1
    found = ratio(rng.normal(size=real.size) + mean * real, 0.1)
    slope = (found.max() - found.min()) / 8.0
    assert slope < 1.0 if mean == 0 else abs(found[real].mean() - mean**2 / 2) < 1.0


def test_the_statistics_feed_the_metrics(made: Ratings, watch: Watch) -> None:
    public, sightings = watch(FEW[:3], protection=Protection(20), rounds=5)
    for seen in sightings:
        mine = made.users == seen[0].update.user
        scored = leak(attack(public, seen), made.items[mine], made.values[mine], made.levels)
        assert scored.auc > 0.95 and scored.recall == scored.precision
