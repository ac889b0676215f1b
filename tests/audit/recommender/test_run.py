"""Training and attacking a recommender on made-up ratings: what is compared, what is stated, what leaks."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from jgleak.audit.recommender.leaks import Attacked, AttackedUsers, attacked, ladder
from jgleak.audit.recommender.run import event_record, run
from jgleak.audit.recommender.setup import prepare
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.table import epoch_text, errors_table, leaks_table, privacy_text
from jgleak.audit.recommender.training import Epoch, Learnt, guaranteed, learn, most_epochs, plans, warm
from jgleak.defenses import parse
from jgleak.federated.recommender import OPEN, Protection

QUICK = RecommenderSpecification(network="gcn", neighbours=0, epochs=2, users=4, rounds=(1, 2))
FEDGNN = dataclasses.replace(QUICK, defense="clip-inf:0.1+laplace:0.28284271247", pseudo=20)


@pytest.mark.slow
def test_open_training_is_at_least_as_good_as_offsets_with_neighbours_from_three_parties() -> None:
    specification = dataclasses.replace(QUICK, epochs=6, neighbours=3, expansion="encrypted")
    *epochs, learnt = learn(specification, prepare(specification))
    assert [e.epoch for e in epochs if isinstance(e, Epoch)] == list(range(1, len(epochs) + 1))
    assert isinstance(learnt, Learnt)
    assert learnt.validation == min(e.validation for e in epochs if isinstance(e, Epoch))
    assert learnt.validation < 1.01 * learnt.bias_validation and learnt.bias_test < 0.9 * learnt.mean_test
    assert learnt.privacy is None and learnt.clients_per_second > 0


@pytest.mark.parametrize("method", ["bias", "fcf", "fedmf"])
@pytest.mark.long
def test_every_method_stands_beside_offsets(method: str) -> None:
    specification = RecommenderSpecification(method=method, epochs=3)
    setup = prepare(specification)
    *epochs, learnt = learn(specification, setup)
    assert isinstance(learnt, Learnt) and learnt.fitted is None
    assert len(epochs) == most_epochs(specification, setup) == (0 if method == "bias" else 3)
    if method == "bias":
        assert (learnt.test, learnt.validation) == (learnt.bias_test, learnt.bias_validation)
    else:
        assert np.isfinite(learnt.test)


@pytest.mark.long
def test_a_protected_run_starts_from_nothing_and_states_both_epsilons() -> None:
    setup = prepare(FEDGNN)
    assert not warm(FEDGNN, setup) and warm(QUICK, prepare(QUICK))
    *_, learnt = learn(FEDGNN, setup)
    assert isinstance(learnt, Learnt) and learnt.privacy is not None and learnt.fitted is not None
    assert learnt.test < 0.95 * learnt.mean_test  # the devices' own offsets
    model, most = learnt.fitted.model, int(np.minimum(setup.rest.counts() + 20, 60).max())
    entries = model.width**2 + (1 + most) * (model.width + 1)
    assert learnt.privacy.per_coordinate == pytest.approx(1.0)
    assert learnt.privacy.epsilon == pytest.approx(entries * 2, rel=1e-6)  # pure composition over two rounds
    assert "epsilon 1 an entry and round" in privacy_text(learnt.privacy)
    more = guaranteed(setup, learnt.fitted, 2, near=3)  # of neighbours that are learnt on
    assert more.epsilon == pytest.approx(2 * (entries + 3 * (model.width + 1)), rel=1e-6)
    hidden = guaranteed(setup._replace(protection=Protection(20)), learnt.fitted, 2)
    assert privacy_text(hidden).startswith("privacy: none guaranteed")


def test_paper_constants_are_the_papers() -> None:
    specification = dataclasses.replace(QUICK, settings="paper", epochs=None, neighbours=16)
    model, plan = plans(specification, prepare(specification))
    assert (model.width, model.dropout, model.bias, plan.epochs, plan.rate) == (256, 0.2, False, 3, 0.01)
    assert (plan.optimiser, plan.clients, plan.neighbours, plan.expand_at) == ("sgd", 128, "fixed", 2)
    trained = dataclasses.replace(specification, expansion="trainable")
    assert plans(trained, prepare(trained))[1].neighbours == "trainable"


def test_the_ladder_has_each_part_alone() -> None:
    noise = parse("clip-inf:0.1+laplace:0.2")
    assert list(ladder(OPEN).values()) == [OPEN]
    rungs = list(ladder(Protection(7, noise)).values())
    assert rungs == [OPEN, Protection(7), Protection(0, noise), Protection(7, noise)]


@pytest.mark.long
def test_leaks_beside_guesses() -> None:
    specification = dataclasses.replace(QUICK, pseudo=20, attack=True)
    events = list(run(specification, prepare(specification)))
    leaks = {(e.title, e.rounds): e for e in events if isinstance(e, AttackedUsers)}
    assert list(leaks) == [("none", 1), ("none", 2), ("M = 20", 1), ("M = 20", 2)]
    nothing, hidden = leaks["none", 1], leaks["M = 20", 1]
    assert nothing.means["precision_at_size"].mean == nothing.means["recall"].mean == 1.0
    assert nothing.means["rmse_all"].mean < 0.1 < nothing.guesses["rmse_all"].mean
    assert hidden.guesses["auc"].mean == pytest.approx(0.5)
    assert hidden.means["auc"].mean > 0.9
    for event in events:
        assert json.loads(json.dumps(event_record(event, specification)))
    users = [e for e in events if isinstance(e, Attacked) and (e.title, e.rounds) == ("M = 20", 1)]
    assert len({e.user for e in users}) == hidden.users
    assert np.mean([e.leak.auc for e in users]) == pytest.approx(hidden.means["auc"].mean)
    assert leaks_table(list(leaks.values())).row_count == 4


def test_users_attacked_have_rated_something() -> None:
    rest = prepare(QUICK).rest.take(np.arange(30))
    users = attacked(rest, 500, seed=0)
    assert set(users) == set(rest.users.tolist())
    assert attacked(rest, 1, seed=1).size == 1


@pytest.mark.long
def test_texts() -> None:
    assert "1,500 clients/s (with compilation)" in epoch_text(Epoch(1, 0.9, 2.0, 1500.0))
    specification = RecommenderSpecification(method="bias")
    *_, learnt = learn(specification, prepare(specification))
    assert isinstance(learnt, Learnt)
    assert errors_table(learnt, specification).row_count == 2


def test_a_defence_that_the_attack_cannot_read_is_refused_before_training() -> None:
    with pytest.raises(ValueError, match="what prune:0.5 leaves of a rating is not worked out"):
        prepare(dataclasses.replace(QUICK, defense="prune:0.5", attack=True))
    assert prepare(dataclasses.replace(QUICK, defense="prune:0.5", attack=False)).protection.defense.steps
