"""What the server learns about single users from the updates of a trained recommender, defence by defence."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from jgleak.attacks.recommender import PublicKnowledge, Sighting, attack
from jgleak.audit.recommender.setup import RecommenderSetup, stream_key
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.training import Fitted
from jgleak.federated.recommender import OPEN, ClientUpdate, Parameters, Protection, observe
from jgleak.metrics import Interval
from jgleak.metrics.recommender import RecommenderLeak, blind, leak, summarise
from jgleak.ratings import Ratings


class Attacked(NamedTuple):
    """The attack on one user.

    Attributes:
      title: name of the protection.
      rounds: number of updates that the server had seen.
      user: the user's number.
      done: users attacked so far under this protection, with this number of updates.
      users: number of users to attack.
      leak: what was found, compared with the truth.
      guess: the same for a guess.
    """

    title: str
    rounds: int
    user: int
    done: int
    users: int
    leak: RecommenderLeak
    guess: RecommenderLeak


class AttackedUsers(NamedTuple):
    """What some users' updates showed under one protection after so many rounds.

    Attributes:
      title: name of the protection.
      protection: what the clients did.
      rounds: updates of each user that the server had seen.
      users: how many users were attacked.
      means: over users, by the names of ``jgleak.metrics.recommender.Leak``.
      guesses: the same for a guess: any order of the items, and one rating for all of them.
      seconds: time of the attack on one user.
    """

    title: str
    protection: Protection
    rounds: int
    users: int
    means: Mapping[str, Interval]
    guesses: Mapping[str, Interval]
    seconds: float


def ladder(protection: Protection) -> dict[str, Protection]:
    """The protection and its parts, by title: nothing, pseudo items alone, the defence alone, both."""
    steps = {"none": OPEN}
    if protection.pseudo:
        steps[f"M = {protection.pseudo}"] = Protection(protection.pseudo)
    if protection.defense.steps:
        steps[str(protection.defense)] = Protection(0, protection.defense)
    if protection.pseudo and protection.defense.steps:
        steps[f"{protection.defense}, M = {protection.pseudo}"] = protection
    return steps


def leaks(
    specification: RecommenderSpecification,
    setup: RecommenderSetup,
    fitted: Fitted,
    protections: Mapping[str, Protection] | None = None,
) -> Iterator[Attacked | AttackedUsers]:
    """Attack the same users under each protection, all at the trained parameters; each user, then their means.

    Each user sends ``max(rounds)`` consecutive updates with new noise, pseudo items and dropout; the attack sees the
    first ones. It knows the model, the protection, the levels and how often each occurs over the users that are not
    attacked (where all are, nothing).

    Args:
      specification: users, rounds and seed.
      setup: the ratings.
      fitted: the trained model.
      protections: by title; ``ladder`` of the experiment's by default.
    """
    trained = fitted.trained
    users = attacked(setup.rest, specification.users, specification.seed)
    levels = np.asarray(setup.rest.levels)
    published = setup.rest.take(~np.isin(setup.rest.users, users))
    known = published if len(published) else setup.rest
    shares = np.mean(known.values[:, None] == levels, axis=0)
    mean, commonest = float(known.values.mean()), float(levels[shares.argmax()])
    mode = trained.neighbours.mode
    for title, protection in (ladder(setup.protection) if protections is None else protections).items():
        public = PublicKnowledge(
            *(fitted.model, setup.rest.levels, protection, mode),
            limit=specification.neighbours if mode == "fixed" else 0,
            prior=tuple(shares.tolist()) if len(published) else None,
        )
        seen = observe(
            *(fitted.model, trained.params, trained.clients, users.tolist()),
            key=stream_key(specification, "attack"),
            protection=protection,
            neighbours=trained.neighbours,
            rounds=max(specification.rounds),
        )
        for rounds in specification.rounds:
            pairs, seconds = list[tuple[RecommenderLeak, RecommenderLeak]](), 0.0
            for updates in seen:
                start = time.perf_counter()
                pairs.append(_judged(setup, public, trained.params, updates[:rounds], mean, commonest))
                seconds += (time.perf_counter() - start) / len(users)
                yield Attacked(title, rounds, updates[0].user, len(pairs), len(users), *pairs[-1])
            found, guessed = (summarise(column) for column in zip(*pairs, strict=True))
            yield AttackedUsers(title, protection, rounds, len(users), found, guessed, seconds)


def attacked(ratings: Ratings, count: int, seed: int) -> Int[np.ndarray, " n"]:
    """A sample of the users who rated anything; all of them where there are fewer than ``count``."""
    active = np.flatnonzero(ratings.counts())
    return np.sort(np.random.default_rng(seed).permutation(active)[:count])


def _judged(
    setup: RecommenderSetup,
    public: PublicKnowledge,
    params: Parameters,
    updates: Sequence[ClientUpdate],
    mean: float,
    commonest: float,
) -> tuple[RecommenderLeak, RecommenderLeak]:
    """The attack on one user and a guess, both compared with the truth."""
    ratings, settings = setup.rest, setup.attack
    seen = [Sighting(params, update) for update in updates]
    profile = attack(public, seen, tolerances=settings.tolerances, limits=settings.limits)
    own = np.flatnonzero(ratings.users == updates[0].user)
    truth = ratings.items[own], ratings.values[own], ratings.levels
    guess = blind(profile, *truth, mean=mean, commonest=commonest)
    return leak(profile, *truth), guess
