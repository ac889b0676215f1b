"""What a server sees of one user, what everyone knows, and what an attack says about the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.federated.recommender import OPEN, ClientUpdate, Parameters, Protection, Recommender
from jgleak.federated.recommender.update import Neighbours


class Sighting(NamedTuple):
    """One round of one user, as the server sees it.

    Attributes:
      params: the parameters that the server sent.
      update: the update that came back.
    """

    params: Parameters
    update: ClientUpdate


@dataclasses.dataclass(frozen=True)
class PublicKnowledge:
    """What everyone knows about the system.

    Attributes:
      model: the model.
      levels: the values that a rating can take, ascending.
      protection: what the clients do before sending; its kind and its strengths are no secrets.
      neighbours: whether neighbour users are in the graphs.
      limit: neighbours that a user has, where they are fixed; trainable ones are in the updates.
      prior: share of each level among ratings, as published ratings show it; uniform by default.

    Raises:
      ValueError: levels that do not ascend, shares that do not sum to one over the levels, unknown ``neighbours``, or
        fixed neighbours without their number.
    """

    model: Recommender
    levels: tuple[float, ...]
    protection: Protection = OPEN
    neighbours: Neighbours = "off"
    limit: int = 0
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.levels) < 2 or np.any(np.diff(self.levels) <= 0):
            raise ValueError(f"levels: need two or more ascending ratings, got {self.levels}")
        if self.prior is not None and (
            len(self.prior) != len(self.levels) or min(self.prior) < 0 or abs(sum(self.prior) - 1.0) > 1e-6
        ):
            raise ValueError(
                f"prior: needs a share for each of {len(self.levels)} levels, summing to 1, got {self.prior}"
            )
        if self.neighbours not in get_args(Neighbours):
            raise ValueError(
                f"neighbours: unknown {self.neighbours!r}; choose one of {', '.join(get_args(Neighbours))}"
            )
        if (self.neighbours == "fixed") != (self.limit > 0):
            raise ValueError(
                f"limit: fixed neighbours need their number, others have none; got {self.limit} with "
                f"neighbours {self.neighbours!r}"
            )

    @property
    def mean(self) -> float:
        """Prior mean of a rating."""
        return float(np.average(self.levels, weights=self.prior))

    @property
    def deviation(self) -> float:
        """Prior standard deviation of a rating; of a hundredth of the levels' range at least."""
        variance = np.average((np.asarray(self.levels) - self.mean) ** 2, weights=self.prior)
        return float(max(np.sqrt(variance), 0.01 * (self.levels[-1] - self.levels[0])))


@dataclasses.dataclass(frozen=True, eq=False)
class Profile:
    """What an attack says about one user.

    Attributes:
      items: every item that the user sent in some round, ascending ``(S,)``.
      scores: higher where the user more surely rated the item ``(S,)``; only their order means something.
      reported: the history that the attack reports ``(S,)``.
      ratings: posterior means ``(S,)``, in the levels' unit; the prior's where the item is not reported.
      deviations: posterior standard deviations ``(S,)``; near the prior's where the updates say nothing.
      info: ``rounds``; ``size``, the history's length as the attack sees it; ``certainty``, the share of the reported
        items that it expects to be rated; ``misfit``, root mean square of what the reported ratings leave unexplained,
        in units of the noise (or of rounding): far above 1, they explain nothing.
    """

    items: Int[np.ndarray, " S"]
    scores: Float[np.ndarray, " S"]
    reported: Bool[np.ndarray, " S"]
    ratings: Float[np.ndarray, " S"]
    deviations: Float[np.ndarray, " S"]
    info: Mapping[str, float]

    def nearest(self, levels: Sequence[float]) -> Float[np.ndarray, " S"]:
        """The level nearest to each rating."""
        steps = np.asarray(levels)
        return steps[np.abs(self.ratings[:, None] - steps).argmin(axis=1)]


def check(public: PublicKnowledge, sightings: Sequence[Sighting]) -> None:
    """That sightings are one user's, of this model, and finite.

    Raises:
      ValueError: naming what is wrong and in which round.
    """
    if not sightings:
        raise ValueError("sightings: there is none; an attack needs at least one round of one user")
    model, width = public.model, public.model.width + int(public.model.bias)
    tables = {"users": (model.n_users, width), "items": (model.n_items, width)}
    for number, (params, update) in enumerate(sightings):
        if update.user != sightings[0].update.user:
            raise ValueError(
                f"sightings: users {sightings[0].update.user} and {update.user}; attack one user at a time"
            )
        for name, shape in tables.items():
            if np.shape(getattr(params, name)) != shape:
                raise ValueError(
                    f"params: {name} of round {number} have shape {np.shape(getattr(params, name))}, the model {shape}"
                )
        shapes = [{k: np.shape(v) for k, v in weights.items()} for weights in (params.network, update.network)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"params: the network of round {number} is {shapes[0]}, its gradient {shapes[1]}")
        size = len(update.items)
        if np.shape(update.item_gradients) != (size, width) or np.shape(update.user_gradient) != (width,):
            raise ValueError(
                f"update: round {number} has gradients {np.shape(update.item_gradients)} of {size} items and "
                f"{np.shape(update.user_gradient)} of the user; the model's width is {width}"
            )
        if size and not (0 <= update.items.min() and update.items.max() < model.n_items):
            raise ValueError(f"update: round {number} has items outside 0..{model.n_items - 1}")
        held = (update.network, update.item_gradients, update.user_gradient, update.neighbour_gradients)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(held)):
            raise ValueError(f"update: round {number} is not finite; training diverged, or the update is damaged")
    if not any(len(update.items) for _, update in sightings):
        raise ValueError(f"update: user {sightings[0].update.user} sent no item in any round; there is no history")
