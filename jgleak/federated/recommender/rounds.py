"""FedGNN's server: rounds of clients, their mean, a step; a whole epoch is one compiled scan."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from jgleak.federated.recommender.clients import Client, Clients, apart
from jgleak.federated.recommender.evaluate import rmse
from jgleak.federated.recommender.model import Parameters, Recommender
from jgleak.federated.recommender.update import OPEN, Neighbours, NeighbourUsers, Protection, Upload, upload
from jgleak.ratings import Ratings

Expand = Callable[[Float[Array, "U w"]], tuple[Int[np.ndarray, "U P"], Float[Array, "H w"]]]
"""A graph expansion: from everyone's embeddings to a table of embeddings that are handed out, and everyone's rows in
it, -1 where there are no more."""


class RecommenderPlan(NamedTuple):
    """How training goes; the defaults are the paper's (section 4.1).

    Attributes:
      epochs: times that every user takes part.
      clients: users of a round.
      optimiser: of the server, ``sgd`` or ``adam``.
      rate: its learning rate.
      decay: decoupled weight decay of the server's step.
      mean: over what the server divides a sum of gradients: ``clients`` of the round (algorithm 1, line 19), or the
        ``senders`` of each row of the embeddings.
      weight: of a client in the mean: ``equal`` (algorithm 1), or its number of ``ratings`` (FedAvg), which it tells.
      neighbours: neighbour users in the graphs, from the expansion on.
      expand_at: epochs before the expansion.
      patience: epochs without a better validation RMSE after which training stops; None never stops early.
      bias_share: of every step, what the embeddings' biases take of it; with 0 they stay as they are.
      graph_share: the same of the network and of the rest of the embeddings.
    """

    epochs: int = 3
    clients: int = 128
    optimiser: Literal["sgd", "adam"] = "sgd"
    rate: float = 0.01
    decay: float = 0.0
    mean: Literal["clients", "senders"] = "clients"
    weight: Literal["equal", "ratings"] = "equal"
    neighbours: Neighbours = "fixed"
    expand_at: int = 2
    patience: int | None = None
    bias_share: float = 1.0
    graph_share: float = 1.0


class TrainedRecommender(NamedTuple):
    """The outcome of training.

    Attributes:
      params: the parameters, those of the best epoch where there was a validation set.
      clients: everyone's data, with the neighbours that the last expansion found.
      neighbours: how they took part in those parameters' epoch; before the expansion with the initial embeddings.
      epoch: the number of epochs behind ``params``.
      validation: RMSE on the validation ratings after every epoch.
      seconds: of every epoch; those in which the scan compiles (the first, and the first after the expansion) take
        longer.
      clients_per_second: of the fastest epoch.
    """

    params: Parameters
    clients: Clients
    neighbours: NeighbourUsers
    epoch: int
    validation: list[float]
    seconds: list[float]
    clients_per_second: float


def train(
    model: Recommender,
    params: Parameters,
    clients: Clients,
    plan: RecommenderPlan,
    *,
    key: Array,
    protection: Protection = OPEN,
    validation: Ratings | None = None,
    expand: Expand | None = None,
) -> TrainedRecommender:
    """Federated training (algorithm 1): the last outcome of ``epochs``, which has the arguments' meaning."""
    outcomes = epochs(
        model, params, clients, plan, key=key, protection=protection, validation=validation, expand=expand
    )
    return deque(outcomes, maxlen=1)[0]


def epochs(
    model: Recommender,
    params: Parameters,
    clients: Clients,
    plan: RecommenderPlan,
    *,
    key: Array,
    protection: Protection = OPEN,
    validation: Ratings | None = None,
    expand: Expand | None = None,
) -> Iterator[TrainedRecommender]:
    """The outcome so far after every epoch of federated training (algorithm 1).

    Rounds are dealt, not drawn: in an epoch every user with ratings takes part once, and every round gets its share of
    each group of ``clients``, so that all rounds of all epochs have one shape. The expansion hands the users' current
    embeddings to their neighbours; until then these are in the graphs' arrays, but not in the graphs.

    Args:
      model: the model.
      params: where to start.
      clients: everyone's training data.
      plan: epochs, rounds and the server's step.
      key: orders the clients, and draws all that they draw.
      protection: what the clients do before sending.
      validation: ratings of the same users outside their graphs; the best epoch's parameters are returned.
      expand: the expansion; by default the neighbours that ``clients`` has, with the embeddings of that moment.

    Raises:
      ValueError: no epoch, no client with a rating, patience without validation ratings, embeddings to train that an
        expansion handed out without their users, or training diverges.
    """
    _check_plan(plan, validation, expand)
    active = _active(clients)
    total = sum(rows.size for rows in active)
    how = CompiledRounds(model, plan.optimiser, plan.mean, plan.weight, plan.neighbours, protection)
    rates = ServerRates(plan.rate, plan.decay, plan.bias_share, plan.graph_share)
    memory, handed_out = how.step(rates).init(params), params.users
    scores, seconds = [], []
    best = params, clients, NeighbourUsers(plan.neighbours), 0
    for epoch in range(plan.epochs):
        ordering, drawing = jax.random.split(jax.random.fold_in(key, epoch))
        now: Neighbours = plan.neighbours if epoch >= plan.expand_at else "off"
        if epoch == plan.expand_at:
            handed_out = params.users
            if expand is not None:
                rows, handed_out = expand(params.users)
                clients = clients.with_neighbours(rows)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(ordering)).tolist())
        count = -(-total // plan.clients)
        dealt, keys = deal(active, count, rng), jax.random.split(drawing, count)
        groups = clients.groups if now != "off" else tuple(map(apart, clients.groups))
        start = time.perf_counter()
        params, memory = jax.block_until_ready(_epoch(how, rates, (params, memory), handed_out, groups, dealt, keys))
        seconds.append(time.perf_counter() - start)
        _check_finite(params, plan, epoch)
        neighbours = NeighbourUsers(now, params.users if now == "trainable" else handed_out)
        if validation is not None:
            scores.append(rmse(model, params, clients, validation, neighbours=neighbours))
        if validation is None or scores[-1] <= min(scores):
            best = params, clients, neighbours, epoch + 1
        yield TrainedRecommender(*best, list(scores), list(seconds), total / min(seconds))
        if plan.patience is not None and epoch + 1 - best[-1] >= plan.patience:
            return


def _active(clients: Clients) -> list[Int[np.ndarray, " _n"]]:
    """The rows of each group that have a rating."""
    active = [np.flatnonzero(np.asarray(group.mask.any(axis=1))) for group in clients.groups]
    if not any(rows.size for rows in active):
        raise ValueError("clients: no user has rated anything")
    return active


def _check_plan(plan: RecommenderPlan, validation: Ratings | None, expand: Expand | None) -> None:
    if plan.patience is not None and validation is None:
        raise ValueError("patience: stopping early needs validation ratings; take them from the training ratings")
    if plan.epochs < 1:
        raise ValueError(f"epochs: must be at least 1, got {plan.epochs}")
    if expand is not None and plan.neighbours == "trainable":
        raise ValueError("neighbours: an expansion does not say whose embeddings it handed out; keep them fixed")


def _check_finite(params: Parameters, plan: RecommenderPlan, epoch: int) -> None:
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(params)):
        raise ValueError(
            f"rate: training diverged in epoch {epoch + 1}; take less than {plan.rate}, clip the updates "
            "(clip-inf:0.1), or give the model the ratings' centre and scale"
        )


def deal(active: list[Int[np.ndarray, " _n"]], rounds: int, rng: np.random.Generator) -> tuple[Int[Array, "R _n"], ...]:
    """Rows of each group for every round, in random order, -1 where a round has one client less."""
    out = []
    for rows in active:
        share = -(-rows.size // rounds)
        table = np.full(rounds * share, -1, np.int32)
        table[: rows.size] = rng.permutation(rows)
        out.append(jnp.asarray(rng.permutation(table.reshape(share, rounds).T)))
    return tuple(out)


class ServerRates(NamedTuple):
    """The numbers of the server's step: see ``RecommenderPlan``."""

    rate: float | Array
    decay: float | Array
    bias_share: float | Array
    graph_share: float | Array


class CompiledRounds(NamedTuple):
    """What of training is compiled; its numbers are not: see ``RecommenderPlan``."""

    model: Recommender
    optimiser: Literal["sgd", "adam"]
    mean: Literal["clients", "senders"]
    weight: Literal["equal", "ratings"]
    neighbours: Neighbours
    protection: Protection

    def step(self, rates: ServerRates) -> optax.GradientTransformation:
        """The optimiser, with decoupled weight decay."""
        inner = optax.scale_by_adam() if self.optimiser == "adam" else optax.identity()
        return optax.chain(inner, optax.add_decayed_weights(rates.decay), optax.scale_by_learning_rate(rates.rate))


@partial(jax.jit, static_argnames=("how",))
def _epoch(
    how: CompiledRounds,
    rates: ServerRates,
    start: tuple[Parameters, Any],
    handed_out: Float[Array, "H w"],
    groups: tuple[Client, ...],
    dealt: tuple[Int[Array, "R _n"], ...],
    keys: Array,
) -> tuple[Parameters, Any]:
    optimiser, model, neighbours = how.step(rates), how.model, how.neighbours

    def step(state: tuple[Parameters, Any], inputs: tuple[Any, Array]) -> tuple[tuple[Parameters, Any], None]:
        params, memory = state
        rows, own = inputs
        table = params.users if neighbours == "trainable" else handed_out
        one = partial(upload, model, params, table, neighbours=neighbours, protection=how.protection)
        received = []
        for number, (group, chosen) in enumerate(zip(groups, rows, strict=True)):
            client = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], group)
            theirs = jax.random.split(jax.random.fold_in(own, number), chosen.size)
            update = jax.vmap(lambda c, k: one(c, key=k))(client, theirs)
            count = client.mask.sum(axis=1) if how.weight == "ratings" else jnp.ones(chosen.size)
            received.append((client, update, jnp.where(chosen >= 0, count, 0.0)))
        mixed: Any = aggregate(params, received, how.mean)
        change: Any
        change, memory = optimiser.update(mixed, memory, params)
        share = jnp.full(params.users.shape[1], rates.graph_share).at[model.width :].set(rates.bias_share)
        network = jax.tree.map(lambda leaf: leaf * rates.graph_share, change.network)
        change = Parameters(network, change.users * share, change.items * share)
        moved: Any = optax.apply_updates(params, change)
        return (moved, memory), None

    return jax.lax.scan(step, start, (dealt, keys))[0]


def aggregate(
    params: Parameters, received: list[tuple[Client, Upload, Float[Array, " _n"]]], mean: Literal["clients", "senders"]
) -> Parameters:
    """The weighted mean of clients' gradients, in the form of the parameters.

    ``sum_c w_c g_c / sum_c w_c``, where ``c`` runs over all clients of the round (a client that did not send a row adds
    nothing to it, but counts), or over those that sent the row.
    """
    whole = sum(weight.sum() for _, _, weight in received)

    def network(*leaves: Array) -> Array:
        weighted = zip((weight for _, _, weight in received), leaves, strict=True)
        sums = [jnp.tensordot(weight, leaf, 1, precision="highest") for weight, leaf in weighted]
        return jnp.stack(sums).sum(axis=0) / whole

    users, items = jnp.zeros_like(params.users), jnp.zeros_like(params.items)
    by_user, by_item = jnp.zeros(users.shape[0]), jnp.zeros(items.shape[0])
    for client, update, weight in received:
        g = update.gradient
        users = users.at[client.user].add(weight[:, None] * g.user)
        by_user = by_user.at[client.user].add(weight)
        items = items.at[update.items].add(weight[:, None, None] * g.items)
        by_item = by_item.at[update.items].add(weight[:, None] * update.sent)
        if g.neighbours.shape[1]:
            users = users.at[client.neighbours].add(weight[:, None, None] * g.neighbours)
            by_user = by_user.at[client.neighbours].add(weight[:, None] * client.near)
    if mean == "clients":
        by_user, by_item = whole, whole
    else:
        by_user, by_item = (jnp.where(n > 0, n, 1.0)[:, None] for n in (by_user, by_item))
    mixed = jax.tree.map(network, *(update.gradient.network for _, update, _ in received))
    return Parameters(mixed, users / by_user, items / by_item)
