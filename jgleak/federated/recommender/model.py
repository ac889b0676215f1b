"""FedGNN's model: embeddings, a graph network on the user's star, a dot product; seen from one client."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jgleak.federated.recommender.clients import Client
from jgleak.federated.recommender.star import HEADS, NETWORKS, Star, Weights, initial
from jgleak.gnn.precise import precise

Reduction = Literal["mean", "sum"]
"""How a client's loss gathers the squared errors of its ratings."""


class Parameters(NamedTuple):
    """All that is learnt; ``w`` is the width of an embedding with its bias.

    Attributes:
      network: weights of the graph network.
      users: embeddings of all users ``(U, w)``.
      items: embeddings of all items ``(I, w)``.
    """

    network: Weights
    users: Float[Array, "U w"]
    items: Float[Array, "I w"]


class Local(NamedTuple):
    """The parameters that one client works with, and the form of its gradient.

    Attributes:
      network: weights of the graph network.
      user: the user's own embedding ``(w,)``.
      items: embeddings of its rated items ``(K, w)``.
      neighbours: embeddings of its anonymous neighbours ``(P, w)``.
    """

    network: Weights
    user: Float[Array, " w"]
    items: Float[Array, "K w"]
    neighbours: Float[Array, "P w"]


@dataclasses.dataclass(frozen=True)
class Recommender:
    """FedGNN's model (Wu et al. 2022, sections 3.2 and 4.1): ``h = GNN(star)``, rating ``centre + scale h_u . h_i``.

    The defaults are the paper's; what it leaves open: ``spread``, two attention heads, no activation after the graph
    network, dropout on the embeddings.

    Attributes:
      n_users: number of users ``U``.
      n_items: number of items ``I``.
      width: of the embeddings and of the hidden states ``D``.
      network: ``gat``, ``gcn`` or ``ggnn``.
      dropout: share of the embeddings' entries that a client drops in training.
      bias: every embedding has one more entry, added to the rating; not the paper's.
      centre: rating that a zero dot product stands for; the paper's is 0, tuned models take the training ratings' mean.
      scale: of the dot product and of the loss; tuned models take the training ratings' standard deviation.
      spread: standard deviation of the initial embeddings.
      reduction: of the loss over the client's ratings, ``mean`` (section 3.2) or ``sum``.
      own: penalty of the user's offset (``offset``), which the device subtracts from its ratings before training, adds
        to its predictions and does not send, though updates depend on it; None, as in the paper, has no offset.

    Raises:
      ValueError: an unknown network or reduction, a width that the heads do not divide, a dropout outside [0, 1), no
        scale, a penalty that is not positive.
    """

    n_users: int
    n_items: int
    width: int = 256
    network: str = "gat"
    dropout: float = 0.2
    bias: bool = False
    centre: float = 0.0
    scale: float = 1.0
    spread: float = 0.1
    reduction: Reduction = "mean"
    own: float | None = None

    def __post_init__(self) -> None:
        if self.network not in NETWORKS:
            raise ValueError(f"network: unknown {self.network!r}; choose one of {', '.join(NETWORKS)}")
        if self.width < 1 or (self.network == "gat" and self.width % HEADS):
            raise ValueError(f"width: {self.width} is not a positive multiple of the {HEADS} attention heads")
        if not 0 <= self.dropout < 1 or self.scale <= 0:
            raise ValueError(f"dropout, scale: must lie in [0, 1) and above 0, got {self.dropout} and {self.scale}")
        if self.reduction not in get_args(Reduction):
            raise ValueError(f"reduction: unknown {self.reduction!r}; choose one of {', '.join(get_args(Reduction))}")
        if self.own is not None and self.own <= 0:
            raise ValueError(f"own: the penalty must be positive, got {self.own}; None has no offset")

    def initial(self, *, key: Array) -> Parameters:
        """Random embeddings and weights; biases are zero."""
        first, second, third = jax.random.split(key, 3)

        def table(rows: int, own: Array) -> Array:
            drawn = self.spread * jax.random.normal(own, (rows, self.width))
            return jnp.pad(drawn, ((0, 0), (0, int(self.bias))))

        return Parameters(
            initial(self.network, self.width, key=third), table(self.n_users, first), table(self.n_items, second)
        )

    def local(self, params: Parameters, client: Client, handed_out: Float[Array, "H w"]) -> Local:
        """What a client downloads; ``handed_out`` is the table its neighbours' embeddings come from."""
        return Local(
            params.network, params.users[client.user], params.items[client.items], handed_out[client.neighbours]
        )

    def predict(
        self, local: Local, client: Client, asked: Float[Array, "m w"] | None = None, *, key: Array | None = None
    ) -> Float[Array, " m"]:
        """Predicted ratings of the client's items, or of items outside its graph with the embeddings ``asked``.

        A ``key`` turns dropout on.
        """
        return self.offset(client) + self.shared(local, client, asked, key=key)

    def shared(
        self, local: Local, client: Client, asked: Float[Array, "m w"] | None = None, *, key: Array | None = None
    ) -> Float[Array, " m"]:
        """``predict`` without the user's offset: what follows from what the server knows, and no rating enters."""
        return self.centre + self.scale * self._score(local, client, asked, key)

    def offset(self, client: Client) -> Float[Array, ""]:
        """How far the user rates above ``centre``: ``sum_k (t_k - centre) / (K + own)``; 0 where ``own`` is None."""
        if self.own is None:
            return jnp.zeros(())
        above = jnp.where(client.mask, client.values - self.centre, 0.0)
        return above.sum() / (client.mask.sum() + self.own)

    def loss(self, local: Local, client: Client, *, key: Array | None = None) -> Float[Array, ""]:
        """Squared errors of the client's ratings less ``offset``, in units of ``scale``, gathered by ``reduction``.

        The mean without an offset is section 3.2's; 0 without ratings.
        """
        above = client.values - self.offset(client) - self.centre
        total = jnp.sum(jnp.where(client.mask, (self._score(local, client, None, key) - above / self.scale) ** 2, 0.0))
        return total / self.addends(client)

    def addends(self, client: Client) -> Int[Array, ""]:
        """What the loss divides the sum of squared errors by: the number of ratings (1 at least), or 1."""
        return jnp.maximum(client.mask.sum(), 1) if self.reduction == "mean" else jnp.ones((), int)

    @precise
    def _score(self, local: Local, client: Client, asked: Array | None, key: Array | None) -> Array:
        width = self.width
        rows = jnp.concatenate([local.user[None], local.items, local.neighbours])[:, :width]
        rows = rows if key is None or self.dropout == 0 else self._dropped(rows, key)
        items = rows[1 : 1 + local.items.shape[0]]
        wanted = items if asked is None else asked[:, :width]
        star = Star(rows[0], rows[1:], jnp.concatenate([client.mask, client.near]), wanted)
        biases = local.items[:, width:] if asked is None else asked[:, width:]
        states = NETWORKS[self.network](local.network, star)
        return states.asked @ states.user + biases.sum(axis=1) + local.user[width:].sum()

    def _dropped(self, rows: Array, key: Array) -> Array:
        kept = jax.random.bernoulli(key, 1.0 - self.dropout, rows.shape)
        return jnp.where(kept, rows / (1.0 - self.dropout), 0.0)
