"""From a specification to ratings in three parts, the clients' protection and the keys."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from jgleak.attacks.options import with_options
from jgleak.attacks.recommender.noise import noise
from jgleak.attacks.recommender.tolerances import RecommenderSettings
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.tuned import TUNED, UNTRIED, Tuned
from jgleak.datasets import ratings
from jgleak.defenses import parse
from jgleak.federated.recommender import Biases, Protection, biases
from jgleak.ratings import Ratings

VALIDATION = 0.1
"""Share of the training ratings by which epochs are chosen."""


class RecommenderSetup(NamedTuple):
    """The data and settings of an experiment.

    Attributes:
      name: name of the data set.
      rest: the training ratings without the validation part.
      held: the validation part.
      test: the test ratings, used once, after training.
      protection: protection of the clients' updates.
      tuned: constants for this set.
      baseline: offsets of users and items learnt from ``rest``: the baseline for every method.
      attack: the attack's tolerances and limits.
    """

    name: str
    rest: Ratings
    held: Ratings
    test: Ratings
    protection: Protection
    tuned: Tuned
    baseline: Biases
    attack: RecommenderSettings = RecommenderSettings()


def prepare(specification: RecommenderSpecification) -> RecommenderSetup:
    """Load and split.

    Raises:
      ValueError: an unknown data set, a damaged file, a defence that cannot be read or is not one of updates; where
        users are attacked, one that the attack cannot read, or an option that it lacks.
      FileNotFoundError: the data set is not here and may not be downloaded.
    """
    options = {str(name): str(value) for name, value in specification.options}
    attack = with_options(RecommenderSettings(), options)
    protection = Protection(specification.pseudo, parse(specification.defense))
    if specification.attack:
        noise(protection)  # refuses what the attack cannot read, before anything is trained
    split = ratings(specification.dataset, seed=specification.seed, path=specification.path)
    rest, held = split.train.validation(VALIDATION, np.random.default_rng(specification.seed))
    tuned = TUNED.get(specification.dataset, UNTRIED)
    baseline = biases(rest, users=tuned.user_penalty, items=tuned.item_penalty)
    return RecommenderSetup(split.name, rest, held, split.test, protection, tuned, baseline, attack)


def stream_key(specification: RecommenderSpecification, stream: str) -> Array:
    """A separate key for ``parameters``, ``training``, ``expansion`` and ``attack``."""
    number = ("parameters", "training", "expansion", "attack").index(stream)
    return jax.random.fold_in(jax.random.key(specification.seed), number)
