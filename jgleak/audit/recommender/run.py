"""From a specification to events: epochs, the outcome, then what leaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax

from jgleak.audit.recommender.leaks import Attacked, AttackedUsers, leaks
from jgleak.audit.recommender.setup import RecommenderSetup, prepare
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.training import Epoch, Learnt, learn
from jgleak.audit.record import plain
from jgleak.version import __version__

Event = Epoch | Learnt | Attacked | AttackedUsers


def run(specification: RecommenderSpecification, setup: RecommenderSetup | None = None) -> Iterator[Event]:
    """Train, yielding an ``Epoch`` as each is over and ``Learnt`` at the end; then attack, yielding an
    ``Attacked`` for each user and an ``AttackedUsers`` for each protection and number of rounds.

    Args:
      specification: the experiment.
      setup: what ``prepare`` returned for it; made here when left out.

    Raises:
      ValueError: as ``prepare``; or training diverges.
    """
    setup = setup or prepare(specification)
    learnt = None
    for event in learn(specification, setup):
        yield event
        learnt = event
    if specification.attack and isinstance(learnt, Learnt) and learnt.fitted is not None:
        yield from leaks(specification, setup, learnt.fitted)


def event_record(event: Event, specification: RecommenderSpecification) -> dict[str, Any]:
    """An event as plain data, ready for JSON, under its kind: ``epoch``, ``learnt``, ``user`` or ``leak``.

    Infinite and undefined numbers become None: a defence without a guarantee has ``epsilon`` None.
    """
    if isinstance(event, Epoch):
        return plain({"epoch": event._asdict()})
    if isinstance(event, Learnt):
        privacy = None if event.privacy is None else dataclasses.asdict(event.privacy)
        about = {"device": jax.devices()[0].device_kind, "version": __version__}
        fields = {name: value for name, value in event._asdict().items() if name != "fitted"}
        return plain({"learnt": {**fields, "privacy": privacy, **about, "specification": specification.to_json()}})
    if isinstance(event, Attacked):
        return plain({"user": {**event._asdict(), "leak": event.leak._asdict(), "guess": event.guess._asdict()}})
    fields = {name: value for name, value in event._asdict().items() if name != "protection"}
    protection = {"defense": str(event.protection.defense), "pseudo": event.protection.pseudo}
    means, guesses = (
        {name: dataclasses.asdict(interval) for name, interval in part.items()} for part in (event.means, event.guesses)
    )
    return plain({"leak": {**fields, **protection, "means": means, "guesses": guesses}})
