"""What one FedGNN client sends: its gradient, hidden among pseudo items, clipped and disturbed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jgleak.defenses import Defense, parse
from jgleak.federated.recommender.clients import Client, Clients, alone
from jgleak.federated.recommender.linear import root
from jgleak.federated.recommender.model import Local, Parameters, Recommender
from jgleak.federated.recommender.star import Weights
from jgleak.gnn.precise import precise

Neighbours = Literal["off", "fixed", "trainable"]
"""Neighbour users: left out; with embeddings as they were at the graph expansion; with the current, learnt ones."""


class NeighbourUsers(NamedTuple):
    """Whether neighbour users are in the graphs, and with which embeddings.

    Attributes:
      mode: left out, fixed or trainable.
      embeddings: those that an expansion handed out ``(H, w)``; None for the current ones, which trainable ones are.
    """

    mode: Neighbours = "off"
    embeddings: Float[Array, "H w"] | None = None

    def table(self, params: Parameters) -> Float[Array, "H w"]:
        """The embeddings that the graphs' neighbour rows point into."""
        return params.users if self.embeddings is None or self.mode == "trainable" else self.embeddings


NO_NEIGHBOURS = NeighbourUsers()
"""Users alone with their items."""


@dataclasses.dataclass(frozen=True)
class Protection:
    """What a client does before anything leaves (section 3.3).

    Attributes:
      pseudo: number of unrated items ``M`` that are sent with made-up gradients.
      defense: on the whole update, in FedGNN ``clip-inf:delta+laplace:deviation``.

    Raises:
      ValueError: a negative number of pseudo items, or a defence inside the forward pass of another kind of model.
    """

    pseudo: int = 0
    defense: Defense = Defense()

    def __post_init__(self) -> None:
        if self.pseudo < 0:
            raise ValueError(f"pseudo: must not be negative, got {self.pseudo}")
        if self.defense.inside:
            raise ValueError(f"defense: {self.defense} disturbs layers of a GNN; a recommender defends its update")


OPEN = Protection()
"""No protection at all."""

FEDGNN = Protection(1000, parse(f"clip-inf:0.1+laplace:{0.2 * np.sqrt(2.0)}"))
"""The paper's: delta = 0.1, lambda = 0.2 (the scale of the Laplace noise), M = 1,000."""


class Upload(NamedTuple):
    """A client's update on the device, padded.

    Attributes:
      gradient: of the network, the user, the items sent and the neighbours.
      items: numbers of the items sent ``(K + M,)``, rated ones first (the server gets them sorted: ``ClientUpdate``).
      sent: False at padding ``(K + M,)``.
    """

    gradient: Local
    items: Int[Array, "... S"]
    sent: Bool[Array, "... S"]


@dataclasses.dataclass(frozen=True, eq=False)
class ClientUpdate:
    """One client's update as the server sees it, on the host.

    The paper's clients send the gradients of the network and of the user and item embeddings (section 3.2 and its
    footnote 4); of the neighbours' embeddings only where those are trainable.

    Attributes:
      user: the row that the user embedding's gradient belongs to, which names the client.
      network: gradient of the network's weights.
      items: numbers of the items sent, ascending ``(S,)``.
      item_gradients: their gradients ``(S, w)``.
      user_gradient: gradient of the user's embedding ``(w,)``.
      neighbours: trainable neighbours, ascending ``(p,)``; empty otherwise.
      neighbour_gradients: their gradients ``(p, w)``.
    """

    user: int
    network: Weights
    items: Int[np.ndarray, " S"]
    item_gradients: Float[np.ndarray, "S w"]
    user_gradient: Float[np.ndarray, " w"]
    neighbours: Int[np.ndarray, " p"]
    neighbour_gradients: Float[np.ndarray, "p w"]


def upload(
    model: Recommender,
    params: Parameters,
    handed_out: Float[Array, "H w"],
    client: Client,
    *,
    neighbours: Neighbours,
    protection: Protection,
    key: Array,
) -> Upload:
    """One client's update. It reads nothing but ``client`` and the parameters.

    Pseudo items are drawn among those that the user has not rated (fewer than ``M`` where there are fewer). Their
    gradients are Gaussian with the mean and the covariance ``sum_k (g_k - mean)(g_k - mean)^T / K`` of the real ones'.
    Then the defence works on everything that leaves. Defences that count entries (``prune``) count padding too.
    """
    dropping, hiding, defending = jax.random.split(key, 3)
    client = client if neighbours != "off" else alone(client)
    gradient = jax.grad(model.loss)(model.local(params, client, handed_out), client, key=dropping)
    items, sent = client.items, client.mask
    if protection.pseudo:
        pseudo, unrated, made_up = pseudo_items(gradient.items, client, model.n_items, protection.pseudo, key=hiding)
        items, sent = jnp.concatenate([items, pseudo]), jnp.concatenate([sent, unrated])
        gradient = gradient._replace(items=jnp.concatenate([gradient.items, made_up]))
    if neighbours != "trainable":
        gradient = gradient._replace(neighbours=gradient.neighbours[:0])
    gradient = protection.defense.apply(gradient, key=defending)
    gradient = gradient._replace(items=jnp.where(sent[:, None], gradient.items, 0.0))
    if neighbours == "trainable":
        gradient = gradient._replace(neighbours=jnp.where(client.near[:, None], gradient.neighbours, 0.0))
    return Upload(gradient, items, sent)


@precise
def pseudo_items(
    real: Float[Array, "K w"], client: Client, n_items: int, count: int, *, key: Array
) -> tuple[Int[Array, " M"], Bool[Array, " M"], Float[Array, "M w"]]:
    """``M`` items that the user has not rated, which of them there really are, and their gradients."""
    choosing, drawing = jax.random.split(key)
    rated = jnp.zeros(n_items, bool).at[jnp.where(client.mask, client.items, n_items)].set(True, mode="drop")
    chance = jnp.where(rated, -1.0, jax.random.uniform(choosing, (n_items,)))
    best, items = jax.lax.top_k(chance, min(count, n_items))
    k = jnp.maximum(client.mask.sum(), 1)
    mean = jnp.where(client.mask[:, None], real, 0.0).sum(axis=0) / k
    centred = jnp.where(client.mask[:, None], real - mean, 0.0)
    rows, width = real.shape
    factor = centred if rows <= width else root(centred.T @ centred)  # as good, and takes fewer random numbers
    drawn = jax.random.normal(drawing, (items.size, factor.shape[0]))
    return items, best >= 0, mean + drawn @ factor / jnp.sqrt(k)


def observe(
    model: Recommender,
    params: Parameters,
    clients: Clients,
    users: Sequence[int],
    *,
    key: Array,
    protection: Protection = OPEN,
    neighbours: NeighbourUsers = NO_NEIGHBOURS,
    rounds: int = 1,
) -> list[list[ClientUpdate]]:
    """What the server sees of some users over rounds at the same parameters.

    Args:
      model: the model.
      params: its parameters, as the server sent them.
      clients: everyone's data.
      users: whose updates; a user without ratings sends zeros (and noise).
      key: of dropout, pseudo items and noise.
      protection: what the clients do before sending.
      neighbours: whether neighbour users are in the graphs (``TrainedRecommender.neighbours``).
      rounds: updates of every user, each with new random numbers.

    Returns:
      For every user, one update a round.

    Raises:
      ValueError: there is no such user, an unknown ``neighbours``, or ``rounds`` below 1.
    """
    if neighbours.mode not in get_args(Neighbours):
        raise ValueError(f"neighbours: unknown {neighbours.mode!r}; choose one of {', '.join(get_args(Neighbours))}")
    if rounds < 1:
        raise ValueError(f"rounds: must be at least 1, got {rounds}")
    mode, table = neighbours.mode, neighbours.table(params)
    out = []
    for user in users:
        client = clients.one(user)
        keys = jax.random.split(jax.random.fold_in(key, user), rounds)
        sent = [jax.device_get(_upload(model, mode, protection, params, table, client, own)) for own in keys]
        out.append([_as_seen(one, client, mode == "trainable") for one in sent])
    return out


@partial(jax.jit, static_argnames=("model", "neighbours", "protection"))
def _upload(
    model: Recommender,
    neighbours: Neighbours,
    protection: Protection,
    params: Parameters,
    handed_out: Array,
    client: Client,
    key: Array,
) -> Upload:
    return upload(model, params, handed_out, client, neighbours=neighbours, protection=protection, key=key)


def _as_seen(one: Upload, client: Client, shown: bool) -> ClientUpdate:
    """Without padding, and in an order that tells nothing."""
    sent = np.flatnonzero(one.sent)
    sent = sent[np.argsort(one.items[sent])]
    near = np.flatnonzero(client.near) if shown else np.zeros(0, np.int64)
    numbers = np.asarray(client.neighbours)[near]
    near, numbers = near[np.argsort(numbers)], np.sort(numbers)
    network, user, rows, others = one.gradient
    items, rows, others = np.asarray(one.items)[sent], np.asarray(rows)[sent], np.asarray(others)[near]
    return ClientUpdate(int(client.user), network, items, rows, np.asarray(user), numbers, others)
