"""A small set of ratings, models for it, and what a server sees of its users."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
import pytest

from jgleak.attacks.recommender import PublicKnowledge, Sighting
from jgleak.federated.recommender import OPEN, Clients, Protection, Recommender, neighbour_users, observe
from jgleak.federated.recommender.model import Reduction
from jgleak.federated.recommender.update import Neighbours, NeighbourUsers
from jgleak.ratings import Ratings

USERS, ITEMS, LEVELS, LIMIT = 60, 80, (1.0, 2.0, 3.0, 4.0, 5.0), 3

Watch = Callable[..., tuple[PublicKnowledge, list[list[Sighting]]]]


@pytest.fixture(scope="session")
def made() -> Ratings:
    """Ratings of 6 items (the first users) to 24 (the last)."""
    rng = np.random.default_rng(0)
    counts = np.linspace(6, 24, USERS).astype(int)
    items = np.concatenate([np.sort(rng.permutation(ITEMS)[:count]) for count in counts])
    values = rng.integers(1, 6, items.size).astype(float)
    return Ratings(np.repeat(np.arange(USERS), counts), items, values, USERS, ITEMS, LEVELS)


@pytest.fixture(scope="session")
def watch(made: Ratings) -> Watch:
    """From settings to what everyone knows, and what the server sees of some users."""
    clients = Clients.from_ratings(made, neighbour_users(made, LIMIT, np.random.default_rng(1)))

    def run(
        users: Sequence[int],
        *,
        network: str = "gcn",
        dropout: float = 0.0,
        bias: bool = False,
        centre: float = 3.0,
        neighbours: Neighbours = "off",
        protection: Protection = OPEN,
        rounds: int = 1,
        reduction: Reduction = "mean",
        own: float | None = None,
        of: Clients = clients,
    ) -> tuple[PublicKnowledge, list[list[Sighting]]]:
        model = Recommender(USERS, ITEMS, 8, network, dropout, bias, centre, 1.5, 0.5, reduction, own)
        params = model.initial(key=jax.random.key(0))
        key = jax.random.key(5)
        near = NeighbourUsers(neighbours)
        seen = observe(model, params, of, users, key=key, protection=protection, neighbours=near, rounds=rounds)
        public = PublicKnowledge(model, LEVELS, protection, neighbours, LIMIT if neighbours == "fixed" else 0)
        return public, [[Sighting(params, update) for update in one] for one in seen]

    return run
