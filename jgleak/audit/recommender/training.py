"""Training by any method, epoch by epoch, and its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from jgleak.audit.programs import forget_programs
from jgleak.audit.recommender.setup import RecommenderSetup, stream_key
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.tuned import EPOCHS, FACTOR_EPOCHS, FACTOR_PATIENCE, PATIENCE
from jgleak.defenses.privacy import Privacy, privacy
from jgleak.federated.recommender import (
    OPEN,
    Clients,
    Parameters,
    Recommender,
    RecommenderPlan,
    Settings,
    TrainedRecommender,
    encrypted,
    epochs,
    factor_epochs,
    factors_rmse,
    fcf,
    fedmf,
    neighbour_users,
    rmse,
)
from jgleak.federated.recommender.update import Neighbours

PER_ITEM = 10
"""Others of an item that the third party shows a client (``encrypted``)."""


class Epoch(NamedTuple):
    """One epoch is over.

    Attributes:
      epoch: its number, from 1.
      validation: RMSE on the validation ratings.
      seconds: it took; the first one compiles.
      clients_per_second: of this epoch.
    """

    epoch: int
    validation: float
    seconds: float
    clients_per_second: float


class Fitted(NamedTuple):
    """FedGNN's trained model with what is needed to observe its clients."""

    model: Recommender
    trained: TrainedRecommender


class Learnt(NamedTuple):
    """The end of training.

    Attributes:
      test: RMSE on the test ratings, at the epoch with the best validation RMSE.
      validation: that validation RMSE.
      epoch: that epoch; 0 where there are none.
      epochs: all that were run.
      clients_per_second: of the fastest epoch; 0 where there are none.
      seconds: of all epochs, compilation included.
      bias_validation: validation RMSE of offsets alone, on the same ratings.
      bias_test: their test RMSE.
      mean_test: test RMSE of the training ratings' mean.
      privacy: what the defence guarantees the user with most items, over all epochs; None where clients send openly.
      fitted: FedGNN's model; None for other methods.
    """

    test: float
    validation: float
    epoch: int
    epochs: int
    clients_per_second: float
    seconds: float
    bias_validation: float
    bias_test: float
    mean_test: float
    privacy: Privacy | None
    fitted: Fitted | None


def learn(specification: RecommenderSpecification, setup: RecommenderSetup) -> Iterator[Epoch | Learnt]:
    """Train; the last event is ``Learnt``.

    Raises:
      ValueError: training diverges.
    """
    forget_programs()
    if specification.method == "fedgnn":
        yield from _fedgnn(specification, setup)
    elif specification.method == "bias":
        baseline = setup.baseline
        yield _learnt(setup, baseline.rmse(setup.test), baseline.rmse(setup.held), 0, [], 0.0)
    else:
        yield from _factorised(specification, setup)


def most_epochs(specification: RecommenderSpecification, setup: RecommenderSetup) -> int:
    """How many epochs ``learn`` runs at most; it may end earlier, where the validation RMSE no longer falls."""
    if specification.method == "bias":
        return 0
    if specification.method == "fedgnn":
        return plans(specification, setup)[1].epochs
    return specification.epochs or FACTOR_EPOCHS


def _fedgnn(specification: RecommenderSpecification, setup: RecommenderSetup) -> Iterator[Epoch | Learnt]:
    model, plan = plans(specification, setup)
    near, expand = None, None
    if specification.neighbours and specification.expansion != "encrypted":
        near = neighbour_users(setup.rest, specification.neighbours, np.random.default_rng(specification.seed))
    elif specification.neighbours:
        key = stream_key(specification, "expansion")
        expand = encrypted(setup.rest, limit=specification.neighbours, per_item=PER_ITEM, key=key)
    clients = Clients.from_ratings(setup.rest, near)
    params = model.initial(key=stream_key(specification, "parameters"))
    if warm(specification, setup):
        params = _warmed(setup, model, params)
    outcomes = epochs(
        *(model, params, clients, plan),
        key=stream_key(specification, "training"),
        protection=setup.protection,
        validation=setup.held,
        expand=expand,
    )
    trained = None
    for trained in outcomes:
        yield _epoch(setup, trained.validation, trained.seconds)
    assert trained is not None
    test = rmse(model, trained.params, trained.clients, setup.test, neighbours=trained.neighbours)
    fitted = Fitted(model, trained)
    near = specification.neighbours if plan.neighbours == "trainable" else 0
    guarantee = None if setup.protection == OPEN else guaranteed(setup, fitted, len(trained.seconds), near=near)
    yield _learnt(
        *(setup, test, min(trained.validation), trained.epoch, trained.seconds, trained.clients_per_second),
        privacy=guarantee,
        fitted=fitted,
    )


def plans(specification: RecommenderSpecification, setup: RecommenderSetup) -> tuple[Recommender, RecommenderPlan]:
    """FedGNN's model, and how it is trained."""
    users, items, network = setup.rest.n_users, setup.rest.n_items, specification.network
    shown: Neighbours = "trainable" if specification.expansion == "trainable" else "fixed"
    neighbours: Neighbours = shown if specification.neighbours else "off"
    if specification.settings == "paper":
        model, plan = Recommender(users, items, network=network), RecommenderPlan(neighbours=neighbours)
    else:
        tuned, values = setup.tuned, setup.rest.values
        model = Recommender(
            *(users, items, tuned.width, network, tuned.dropout),
            bias=True,
            centre=float(values.mean()),
            scale=max(float(values.std()), 1e-6),
            spread=0.05,
        )
        plan = RecommenderPlan(epochs=EPOCHS, patience=PATIENCE, neighbours=neighbours)
        if setup.protection == OPEN:
            plan = plan._replace(optimiser="adam", rate=tuned.rate, mean="senders", weight="ratings", bias_share=0.0)
        else:
            chosen = tuned.protected
            model = dataclasses.replace(model, reduction=chosen.reduction, own=tuned.user_penalty)
            plan = plan._replace(epochs=chosen.epochs, rate=chosen.rate, graph_share=chosen.graph_share)
    return model, plan if specification.epochs is None else plan._replace(epochs=specification.epochs)


def warm(specification: RecommenderSpecification, setup: RecommenderSetup) -> bool:
    """True where training starts from ``biases``: with tuned settings and without a defence, since ``biases`` has
    none."""
    return specification.settings == "tuned" and setup.protection == OPEN


def _warmed(setup: RecommenderSetup, model: Recommender, params: Parameters) -> Parameters:
    users, items = setup.baseline.users / model.scale, setup.baseline.items / model.scale
    return params._replace(users=params.users.at[:, -1].set(users), items=params.items.at[:, -1].set(items))


def guaranteed(setup: RecommenderSetup, fitted: Fitted, rounds: int, *, near: int = 0, delta: float = 1e-5) -> Privacy:
    """The defence's guarantee for the user who sends most: network, own embedding, rated items, pseudo items, and
    ``near`` neighbours."""
    model, params = fitted.model, fitted.trained.params
    most = int(np.minimum(setup.rest.counts() + setup.protection.pseudo, model.n_items).max())
    width = params.users.shape[1]
    sizes = [*(leaf.size for leaf in jax.tree.leaves(params.network)), width, most * width]
    sizes += [near * width] if near else []
    return privacy(setup.protection.defense, sizes, rounds=rounds, delta=delta)


def _factorised(specification: RecommenderSpecification, setup: RecommenderSetup) -> Iterator[Epoch | Learnt]:
    tuned = setup.tuned
    method, decay, spread = (
        (fcf, tuned.fcf_decay, tuned.fcf_spread)
        if specification.method == "fcf"
        else (fedmf, tuned.fedmf_decay, tuned.fedmf_spread)
    )
    values, clients = setup.rest.values, Clients.from_ratings(setup.rest)
    settings = Settings(
        width=10,
        epochs=most_epochs(specification, setup),
        decay=decay,
        centre=float(values.mean()),
        scale=max(float(values.std()), 1e-6),
        spread=spread,
        patience=FACTOR_PATIENCE,
    )
    key, found = stream_key(specification, "training"), None
    for found in factor_epochs(method, clients, settings, key=key, validation=setup.held):
        yield _epoch(setup, found.validation, found.seconds)
    assert found is not None
    test = factors_rmse(found.factors, settings, clients, setup.test)
    yield _learnt(setup, test, min(found.validation), found.epoch, found.seconds, found.clients_per_second)


def _epoch(setup: RecommenderSetup, validation: list[float], seconds: list[float]) -> Epoch:
    active = int(np.count_nonzero(setup.rest.counts()))
    return Epoch(len(seconds), validation[-1], seconds[-1], active / seconds[-1])


def _learnt(
    setup: RecommenderSetup,
    test: float,
    validation: float,
    epoch: int,
    seconds: list[float],
    speed: float,
    *,
    privacy: Privacy | None = None,
    fitted: Fitted | None = None,
) -> Learnt:
    baseline = setup.baseline
    mean = float(np.sqrt(np.mean((setup.test.values - baseline.centre) ** 2)))
    return Learnt(
        *(test, validation, epoch, len(seconds), speed, sum(seconds)),
        *(baseline.rmse(setup.held), baseline.rmse(setup.test), mean, privacy, fitted),
    )
