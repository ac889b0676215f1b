"""From a specification to results: honest clients compute gradients, an attack inverts each, metrics compare."""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxtyping import Array

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.registry import get_attack
from jgleak.audit.compilations import compilations
from jgleak.audit.setup import CLIENTS, Setup, knowledge_of, prepare, stream_key
from jgleak.audit.specification import Specification
from jgleak.features import FeatureSpace
from jgleak.federated import Knowledge, Observation, fedavg, fedsgd
from jgleak.federated.client import node_gradients, target_gradient
from jgleak.graph import Graph
from jgleak.metrics import Score, SoftScore, match_graphs, score, soft_score, target_error, truth_in_set

REAL_TOLERANCE = 1e-3
"""Real-valued features this close count as recovered exactly."""


@dataclasses.dataclass(frozen=True)
class Result:
    """One private graph attacked; a client with several has a result for each.

    Attributes:
      index: position of the client in the data set.
      truth: its private graph.
      observation: what the server saw.
      reconstruction: what the attack made of it.
      score: the best reconstruction beside the truth.
      truth_in_set: the truth is among the listed reconstructions.
      seconds: wall-clock time of the attack; of graphs attacked side by side, each one's share.
      compilations: functions that XLA compiled during the attack; of clients side by side, the first has them all.
      failure: the traceback, when the attack broke down on this client; the reconstruction is empty then.
      soft: edges and features beside the truth, soft where the attack gives them so; None where nothing was found.
      target_error: RNMSE of the target's features, under the protocol ``target_node`` (which shows little else).
    """

    index: int
    truth: Graph
    observation: Observation
    reconstruction: Reconstruction
    score: Score
    truth_in_set: bool
    seconds: float
    compilations: int
    failure: str | None = None
    soft: SoftScore | None = None
    target_error: float | None = None


def run(specification: Specification, setup: Setup | None = None) -> Iterator[Result]:
    """Attack the clients, yielding each result as it is finished (one by one, or many side by side).

    An exception inside an attack ends that client only: its result has an empty reconstruction, ``stop`` is
    ``"error"`` and ``failure`` holds the traceback.

    Args:
      specification: the experiment.
      setup: what ``prepare`` returned for it; made here when left out.

    Raises:
      ValueError: the attack cannot work with this model, task or knowledge.
    """
    setup = setup or prepare(specification)
    attack = get_attack(specification.attack)
    if specification.options:
        attack = attack.configure(dict(specification.options))
    size = specification.together if attack.many is not None else 1
    firsts = range(0, len(setup.dataset.graphs), specification.batch)
    for start in range(0, len(firsts), size):
        clients = [_client(specification, setup, attack, first) for first in firsts[start : start + size]]
        yield from _attacked(specification, attack, clients)


class _Client(NamedTuple):
    """One client: its graphs, the first one's place in the data set, what the server saw and what is told."""

    first: int
    truths: Sequence[Graph]
    observation: Observation
    knowledge: Knowledge


def _client(specification: Specification, setup: Setup, attack: Attack, first: int) -> _Client:
    truths = setup.dataset.graphs[first : first + specification.batch]
    usual = "fedsgd" if "fedsgd" in attack.protocols else attack.protocols[0]
    protocol = specification.protocol or usual
    if protocol not in ("fedsgd", "fedavg") and not setup.model.node_level:
        raise ValueError(f"attack {attack.name!r} attacks node classification ({protocol}); add --node-task")
    observation = _observed(specification, protocol, setup, truths, stream_key(specification, CLIENTS + first))
    knowledge = knowledge_of(specification, setup, truths, observation)
    reason = attack.refusal(observation, knowledge)
    if reason is not None:
        raise ValueError(f"attack {attack.name!r} cannot run here: {reason}")
    return _Client(first, truths, observation, knowledge)


def _observed(
    specification: Specification, protocol: str, setup: Setup, truths: Sequence[Graph], key: Array
) -> Observation:
    model, params, space, loss = setup.model, setup.params, setup.dataset.space, setup.loss
    if protocol in ("node_losses", "target_node"):
        if setup.defense.steps or len(truths) > 1:
            raise ValueError(f"protocol: {protocol!r} is simulated with one graph and no defence; take fedsgd")
        if protocol == "node_losses":
            return node_gradients(model, params, truths[0], space, loss=loss)
        return target_gradient(model, params, truths, space, loss=loss)
    slots = model.slots if model.readout == "flattened" else None
    shared: dict[str, Any] = {"loss": loss, "slots": slots, "defense": setup.defense, "key": key}
    if protocol == "fedavg":
        along = {"steps": specification.local_steps, "rate": specification.local_rate}
        return fedavg(model, params, truths, space, **along, **shared)
    return fedsgd(model, params, truths, space, **shared)


def _attacked(specification: Specification, attack: Attack, clients: Sequence[_Client]) -> Iterator[Result]:
    """Attack clients side by side; where that breaks down, each on its own, so that one client spoils no other's."""
    failure, compiled, begun = None, compilations(), time.monotonic()
    try:
        found = attack.on_many(
            [client.observation for client in clients],
            [client.knowledge for client in clients],
            keys=[stream_key(specification, client.first + 1) for client in clients],
            budget=Budget(seconds=specification.time_limit),
        )
    except Exception:  # any defect of an attack: hours of finished clients and those to come must not go with it
        if len(clients) > 1:
            for client in clients:
                yield from _attacked(specification, attack, [client])
            return
        failure = traceback.format_exc()
        found = [Reconstruction((), None, "error")]
    seconds = (time.monotonic() - begun) / sum(len(client.truths) for client in clients)
    compiled = compilations() - compiled
    for client, reconstruction in zip(clients, found, strict=True):
        for place, (truth, part) in enumerate(zip(client.truths, _parts(client, reconstruction), strict=True)):
            first = client is clients[0] and place == 0
            yield _result(client, place, truth, part, seconds, compiled if first else 0, failure)


def _parts(client: _Client, found: Reconstruction) -> list[Reconstruction]:
    """What of a batch's reconstruction stands for each of the client's graphs: matched one to one by GSM-1."""
    if len(client.truths) == 1 or not found.graphs:
        return [found] * len(client.truths)
    order = match_graphs(client.truths, found.graphs, client.knowledge.space).tolist()
    return [_part(found, own) for own in order]


def _part(found: Reconstruction, own: int) -> Reconstruction:
    """One graph of a batch's reconstruction; nothing where it has fewer."""
    if own >= len(found.graphs):
        return dataclasses.replace(found, graphs=(), adjacency=None, features=None)
    adjacency = None if found.adjacency is None else found.adjacency[own]
    features = None if found.features is None else found.features[own]
    return dataclasses.replace(found, graphs=(found.graphs[own],), adjacency=adjacency, features=features)


def _result(
    client: _Client,
    place: int,
    truth: Graph,
    reconstruction: Reconstruction,
    seconds: float,
    compiled: int,
    failure: str | None,
) -> Result:
    observation, knowledge = client.observation, client.knowledge
    tolerance = 0.0 if knowledge.space.discrete else REAL_TOLERANCE
    quality = score(truth, reconstruction.best, knowledge.space, tolerance=tolerance)
    listed = truth_in_set(truth, reconstruction.graphs, tolerance=tolerance)
    whole = observation.protocol != "target_node"
    found, rows = reconstruction.best, reconstruction.features
    return Result(
        index=client.first + place,
        truth=truth,
        observation=observation,
        reconstruction=reconstruction,
        score=quality,
        truth_in_set=listed,
        seconds=seconds,
        compilations=compiled,
        failure=failure,
        soft=None if found is None or not whole else _soft_score(truth, knowledge.space, reconstruction, found),
        target_error=None if rows is None or whole else target_error(truth, knowledge.space, rows),
    )


def _soft_score(truth: Graph, space: FeatureSpace, found: Reconstruction, best: Graph) -> SoftScore:
    return soft_score(truth, best, space, adjacency=found.adjacency, nodes=found.features)
