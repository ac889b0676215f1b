"""The round under attack: what a client sends, the side information, and whether the attack applies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from jgleak.attacks.attack import Attack
from jgleak.attacks.registry import get_attack
from jgleak.audit.setup import CLIENTS, Setup, knowledge_of, stream_key
from jgleak.audit.specification import Specification
from jgleak.federated import Knowledge, LocalTraining, Observation, fedavg, fedsgd
from jgleak.federated.client import node_gradients, returned, target_gradient
from jgleak.graph import Graph, GraphBatch


class AttackedClient(NamedTuple):
    """One client: its graphs (none where they are unknown), the first one's place in the data set, what the server saw
    and the side information."""

    first: int
    truths: Sequence[Graph]
    observation: Observation
    knowledge: Knowledge

    @property
    def graphs(self) -> int:
        """How many graphs the client has."""
        return len(self.truths) or self.observation.batch_size


def chosen_attack(specification: Specification) -> Attack:
    """The attack with its options.

    Raises:
      KeyError: an unknown attack.
      ValueError: an option that it does not have.
    """
    attack = get_attack(specification.attack)
    options = {str(name): str(value) for name, value in specification.options}
    return attack.with_options(options) if options else attack


def client(specification: Specification, setup: Setup, first: int) -> AttackedClient:
    """The client whose first graph is number ``first``.

    Raises:
      ValueError: its update cannot be computed, or the attack cannot work with it.
    """
    attack, truths = chosen_attack(specification), setup.dataset.graphs[first : first + specification.batch_size]
    protocol = _protocol(specification, setup, attack, len(truths))
    observation = _observed(specification, protocol, setup, truths, stream_key(specification, CLIENTS + first))
    knowledge = knowledge_of(specification, setup, truths, observation)
    reason = attack.refusal(observation, knowledge)
    if reason is not None:
        raise ValueError(f"attack {attack.name!r} cannot run here: {reason}")
    return AttackedClient(first, truths, observation, knowledge)


def refusal(specification: Specification, setup: Setup) -> str | None:
    """Why the attack cannot work on the first client, else None.

    No gradient is computed: refusals depend on shapes and protocol alone, so gradients are zeros. Running statistics
    are those of the first graph.
    """
    attack, truths = chosen_attack(specification), setup.dataset.graphs[: specification.batch_size]
    try:
        protocol = _protocol(specification, setup, attack, len(truths))
        lead = (truths[0].n,) if protocol == "node_losses" else ()
        batch = GraphBatch.from_graphs(truths[:1], setup.dataset.space, slots=setup.model.readout.slots)
        observation = Observation(
            setup.model,
            setup.params,
            jax.tree.map(lambda leaf: np.zeros(lead + leaf.shape, np.float32), setup.params),
            setup.loss,
            batch_size=len(truths),
            protocol=protocol,
            local=_local(specification) if protocol == "fedavg" else None,
            scaled=setup.defense.scales,
            pruned=setup.defense.drops,
            statistics=returned(setup.model, setup.params, batch, None),
        )
        return attack.refusal(observation, knowledge_of(specification, setup, truths, observation))
    except ValueError as error:
        return str(error)


def _protocol(specification: Specification, setup: Setup, attack: Attack, graphs: int) -> str:
    """What the client sends: as specified, or what the attack reads."""
    usual = "fedsgd" if "fedsgd" in attack.protocols else attack.protocols[0]
    protocol = specification.protocol or usual
    if protocol not in ("fedsgd", "fedavg") and not setup.model.node_level:
        raise ValueError(f"it attacks node classification ({protocol}); add --node-task")
    if protocol in ("node_losses", "target_node") and setup.defense.steps:
        raise ValueError(f"protocol: {protocol!r} is simulated without defences; take fedsgd")
    if protocol == "node_losses" and graphs > 1:
        raise ValueError("protocol: 'node_losses' is simulated with one graph; take fedsgd, or target_node")
    return protocol


def _observed(
    specification: Specification, protocol: str, setup: Setup, truths: Sequence[Graph], key: Array
) -> Observation:
    model, params, space, loss = setup.model, setup.params, setup.dataset.space, setup.loss
    if protocol == "node_losses":
        return node_gradients(model, params, truths[0], space, loss=loss)
    if protocol == "target_node":
        return target_gradient(model, params, truths, space, loss=loss)
    shared: dict[str, Any] = {"loss": loss, "defense": setup.defense, "key": key}
    if protocol == "fedavg":
        return fedavg(model, params, truths, space, local=_local(specification), **shared)
    return fedsgd(model, params, truths, space, **shared)


def _local(specification: Specification) -> LocalTraining:
    return LocalTraining(
        rate=specification.local_rate,
        steps=specification.local_steps,
        momentum=specification.local_momentum,
        weight_decay=specification.local_weight_decay,
        loader=specification.local_loader or None,
    )
