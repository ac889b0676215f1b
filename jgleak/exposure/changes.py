"""Realistic changes of a model or of the clients' training, one at a time, that may open an attack or stop it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jgleak.attacks.attack import Attack
from jgleak.attacks.facts.evidence import input_places
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.dropout import dropping
from jgleak.exposure.returned import WHENCE, returned_rounding
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.statistics import evaluated
from jgleak.gnn import GNN, LinearEncoder, Pooled, Readout


class Change(NamedTuple):
    """A change.

    Attributes:
      name: what is done, in words that follow "with".
      make: the deployment after it; the same one where there is nothing to change.
    """

    name: str
    make: Callable[[Deployment], Deployment]


@dataclasses.dataclass(frozen=True)
class Neighbours:
    """A deployment and its variants after changes, each made once.

    Attributes:
      deployment: as it is.
      made: the variants that were needed, by the names of their changes.
    """

    deployment: Deployment
    made: dict[tuple[str, ...], Deployment] = dataclasses.field(default_factory=dict)

    def after(self, changes: Sequence[Change]) -> Deployment:
        """The deployment after some changes, one after another."""
        if not changes:
            return self.deployment
        names = tuple(change.name for change in changes)
        if names not in self.made:
            self.made[names] = changes[-1].make(self.after(changes[:-1]))
        return self.made[names]

    def opening(self, attack: Attack) -> tuple[Change, ...]:
        """A smallest set of ``OPENERS``, found by leaving out one after another, with which an attack that is refused
        applies; empty where it does not apply with all of them."""
        chosen = tuple(change for change in OPENERS if self.after((change,)) is not self.deployment)
        if not self._applies(attack, chosen):
            return ()
        for change in chosen:
            rest = tuple(other for other in chosen if other is not change)
            chosen = rest if self._applies(attack, rest) else chosen
        return chosen

    def stopping(self, attack: Attack) -> tuple[Change, ...]:
        """The ``CLOSERS`` each of which alone makes an attack that applies refuse."""
        return tuple(change for change in CLOSERS if not self._applies(attack, (change,)))

    def _applies(self, attack: Attack, changes: Sequence[Change]) -> bool:
        return self.after(changes).refusal(attack) is None


def _one_graph(deployment: Deployment) -> Deployment:
    """As many passes over one graph, one step for each."""
    local, graphs = deployment.clients.local, deployment.clients.batch_size
    if local is None or graphs == 1:
        return _trained(deployment, batch_size=1)
    passes = max(1, local.steps // local.passes(graphs))
    return _trained(
        deployment, batch_size=1, local=dataclasses.replace(local, steps=passes, loader=None, shuffled=False)
    )


def _one_step(deployment: Deployment) -> Deployment:
    local = deployment.clients.local
    if local is None or local.steps == 1:
        return deployment
    graphs = min(deployment.clients.batch_size, local.loader or deployment.clients.batch_size)
    return _trained(
        deployment, batch_size=graphs, local=dataclasses.replace(local, steps=1, loader=None, shuffled=False)
    )


def _plain_steps(deployment: Deployment) -> Deployment:
    local = deployment.clients.local
    return deployment if local is None else _trained(deployment, local=dataclasses.replace(local, optimiser="sgd"))


def _returned(deployment: Deployment) -> Deployment:
    if not deployment.model.returns_statistics:
        return deployment
    return _trained(deployment, statistics=True)


def _undefended(deployment: Deployment) -> Deployment:
    return _trained(deployment, defense="")


def _exact(deployment: Deployment) -> Deployment:
    return _trained(deployment, noise=None, whence="")


def _trained(deployment: Deployment, **fields: object) -> Deployment:
    clients = dataclasses.replace(deployment.clients, **fields)
    return deployment if clients == deployment.clients else deployment.changed(clients=clients)


def _with_model(deployment: Deployment, model: GNN) -> Deployment:
    return deployment if model == deployment.model else deployment.changed(model=model)


def _no_dropout(deployment: Deployment) -> Deployment:
    return _with_model(deployment, dropping(deployment.model, 0.0))


def _dropout(deployment: Deployment) -> Deployment:
    return deployment if deployment.model.drops else _with_model(deployment, dropping(deployment.model, 0.1))


def _running_statistics(deployment: Deployment) -> Deployment:
    return _with_model(deployment, evaluated(deployment.model)) if deployment.model.returns_statistics else deployment


def _all_trained(deployment: Deployment) -> Deployment:
    return _with_model(deployment, deployment.model.clone(frozen=()))


def _frozen_input(deployment: Deployment) -> Deployment:
    model = deployment.model
    first = [*input_places(model)] + ([("readout", *model.readout.first_map)] if model.readout.sees_input else [])
    return _with_model(deployment, model.clone(frozen=tuple("/".join(place) for place in first)))


def _pooled(deployment: Deployment, wanted: Callable[[Pooled], str]) -> Deployment:
    readout: Readout = deployment.model.readout
    if not isinstance(readout, Pooled) or wanted(readout) == readout.pooling:
        return deployment
    model = deployment.model.clone(readout=readout.clone(pooling=wanted(readout)))
    return dataclasses.replace(deployment, model=model, given=None)  # the head's first map may have another shape


def _without_max(readout: Pooled) -> str:
    return ",".join(pooling for pooling in readout.poolings if pooling != "max") or "mean"


def _encoder(deployment: Deployment) -> Deployment:
    model = deployment.model
    if model.encoder.taps:
        return deployment
    changed = model.clone(encoder=LinearEncoder(model.layers[0].features))
    return dataclasses.replace(deployment, model=changed, given=None)


def _many_graphs(deployment: Deployment) -> Deployment:
    return _trained(deployment, batch_size=64) if deployment.clients.batch_size == 1 else deployment


def _five_steps(deployment: Deployment) -> Deployment:
    local = deployment.clients.local or LocalTraining(0.01)
    return deployment if local.steps > 1 else _trained(deployment, local=dataclasses.replace(local, steps=5))


def _adam(deployment: Deployment) -> Deployment:
    local = deployment.clients.local or LocalTraining(0.001)
    return _trained(deployment, local=dataclasses.replace(local, optimiser="adam", momentum=0.0))


def _kept(deployment: Deployment) -> Deployment:
    return _trained(deployment, statistics=False) if deployment.model.returns_statistics else deployment


def _pruned(deployment: Deployment) -> Deployment:
    return _trained(deployment, defense="prune:0.9")


def _single(deployment: Deployment) -> Deployment:
    local = deployment.clients.local
    if local is None or deployment.clients.inexact:
        return deployment
    return _trained(deployment, noise=returned_rounding(deployment.params, local), whence=WHENCE)


def _noised(deployment: Deployment) -> Deployment:
    return _trained(deployment, defense="gaussian:0.001")


OPENERS = (
    Change("all parts trained", _all_trained),
    Change("no defence", _undefended),
    Change("no noise in the file", _exact),
    Change("running statistics that come back", _returned),
    Change("batch normalisation in evaluation mode", _running_statistics),
    Change("no dropout", _no_dropout),
    Change("plain gradient steps instead of Adam", _plain_steps),
    Change("one local step", _one_step),
    Change("one graph an update", _one_graph),
    Change("a linear encoder before the first layer", _encoder),
    Change("no max in the pooling", lambda deployment: _pooled(deployment, _without_max)),
)
"""Each takes one thing away; ``Neighbours.opening`` leaves out the first ones first."""

CLOSERS = (
    Change("dropout in training", _dropout),
    Change("the maps of the input rows frozen", _frozen_input),
    Change("running statistics kept by the client", _kept),
    Change("64 graphs an update (or the sum of 64 clients)", _many_graphs),
    Change("five local steps", _five_steps),
    Change("weights that are returned in 32 bits", _single),
    Change("Adam", _adam),
    Change("pruning (prune:0.9)", _pruned),
    Change("noise (gaussian:0.001)", _noised),
    Change("max pooling", lambda deployment: _pooled(deployment, lambda _: "max")),
)
"""Each adds one thing."""
