"""A small set of ratings with low-rank structure, and a model for it."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.federated.recommender import Clients, Recommender
from jgleak.ratings import Ratings

USERS, ITEMS = 60, 24


@pytest.fixture(scope="session")
def made() -> Ratings:
    """Ratings 1..5 of a third of the pairs: offsets of users and items, rank two, rounded. User 7 rated nothing."""
    rng = np.random.default_rng(0)
    score = 3 + rng.normal(size=(USERS, 1)) * 0.7 + rng.normal(size=ITEMS) * 0.7
    score = score + rng.normal(size=(USERS, 2)) @ rng.normal(size=(2, ITEMS)) * 0.5
    known = rng.random((USERS, ITEMS)) < np.linspace(0.1, 0.6, USERS)[:, None]
    known[7] = False
    users, items = np.nonzero(known)
    return Ratings(users, items, np.clip(np.round(score[known]), 1, 5), USERS, ITEMS, (1.0, 2.0, 3.0, 4.0, 5.0))


@pytest.fixture(scope="session")
def model() -> Recommender:
    """Small and quick to compile, without dropout."""
    return Recommender(USERS, ITEMS, width=8, network="gcn", dropout=0.0, bias=True, centre=3.0)


@pytest.fixture(scope="session")
def clients(made: Ratings) -> Clients:
    """Everyone, with two neighbours."""
    near = np.stack([np.roll(np.arange(USERS), 1), np.full(USERS, -1)], axis=1)
    return Clients.from_ratings(made, near)
