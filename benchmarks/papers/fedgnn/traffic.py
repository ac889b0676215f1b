"""How many numbers FedGNN's clients send a round: the other axis of Figure 6. Nothing is trained."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from benchmarks.lib.records import Record
from jgleak.audit.recommender.setup import prepare
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.training import plans
from jgleak.federated.recommender import neighbour_users
from jgleak.metrics import bootstrap
from jgleak.version import __version__


def traffic(specification: RecommenderSpecification) -> Record:
    """Numbers in one update, in thousands: the mean over users with ratings, the largest, and those of two others.

    An update has the gradients of the network, of the user's embedding, and of those of its rated and pseudo items
    (the paper's footnotes 4 and 15), and of neighbours that are trained on. As many come back. Beside it stand an
    update of the rated items alone (``open``), and one of all items, which hides the history without pseudo items.

    Raises:
      FileNotFoundError: the ratings are not here.
    """
    setup = prepare(specification)
    model, plan = plans(specification, setup)
    key = jax.random.key(0)
    shapes: Any = jax.eval_shape(lambda: model.initial(key=key))
    width = shapes.users.shape[1]
    always = sum(leaf.size for leaf in jax.tree.leaves(shapes.network)) + width
    rated = setup.rest.counts()
    near = np.zeros_like(rated)
    if plan.neighbours == "trainable":
        found = neighbour_users(setup.rest, specification.neighbours, np.random.default_rng(specification.seed))
        near = (found >= 0).sum(axis=1)
    active = rated > 0

    def numbers(items: Any) -> np.ndarray:
        """In thousands, of every user who sends so many items."""
        return (always + width * (items + near)[active]) / 1000

    sent = numbers(np.minimum(rated + setup.protection.pseudo, model.n_items))
    return {
        "means": {"thousand numbers": dataclasses.asdict(bootstrap(sent))},
        "largest": float(sent.max()),
        "open": float(numbers(rated).mean()),
        "all_items": float(numbers(model.n_items).mean()),
        "users": int(active.sum()),
        "width": width,
        "version": __version__,
        "specification": specification.to_json(),
    }
