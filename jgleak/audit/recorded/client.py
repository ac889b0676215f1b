"""A recorded client: the content of its file, the attacker's knowledge, and why it may not be attacked."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from jgleak.audit.clients import public_graphs
from jgleak.audit.recorded.recorded import Recorded
from jgleak.audit.recorded.truth import labelled, truth_file, truths
from jgleak.audit.round import AttackedClient, chosen_attack
from jgleak.audit.setup import Setup, knowledge_of
from jgleak.audit.specification import Specification
from jgleak.datasets import Dataset
from jgleak.datasets.dataset import LoadReport
from jgleak.features import FeatureSpace
from jgleak.federated import Knowledge, Observation, load
from jgleak.graph import Graph
from jgleak.interop.spaces import feature_space, names_schema
from jgleak.reading import check_file


class Refused(ValueError):
    """The file is valid, but the attack cannot work with it, or needs knowledge from a truth that is missing."""


KEPT = 4
"""Files that stay in memory: the attacks of a grid take the same file in turn."""

UNREADABLE = b"unreadable"
"""Replaces the digest of a file that is missing or cannot be read."""


def file_digest(specification: Specification) -> str:
    """SHA-256 over the observation file, its truth, and the schema file where one is named; missing files count as
    missing."""
    source = _source(specification)
    file = Path(source.file)
    parts = [_digest(file), b"none"]
    if source.truth is not None:
        try:
            truth = truth_file(Path(source.truth), file)
            parts[1] = b"none" if truth is None else _digest(truth)
        except ValueError:
            parts[1] = UNREADABLE
    if source.features is not None and names_schema(source.features):
        parts.append(_digest(Path(source.features)))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _digest(file: Path) -> bytes:
    try:
        check_file(file)
        return hashlib.sha256(file.read_bytes()).digest()
    except (OSError, ValueError):
        return UNREADABLE


def recorded_client(specification: Specification) -> AttackedClient:
    """The client of the file, with the attacker's knowledge from the specification.

    Raises:
      Refused: the attack cannot work with this file.
      ValueError: the file or its truth is missing, broken, or belongs to another feature space.
    """
    source, attack = _source(specification), chosen_attack(specification)
    observation, space = _loaded(source.file, source.features, file_digest(specification))
    if source.noise is not None:
        observation = dataclasses.replace(observation, noise=source.noise)
    place = None if source.truth is None else Path(source.truth)
    graphs = [] if place is None else truths(place, Path(source.file), space, observation.batch_size)
    _check_told(specification, graphs, observation)
    knowledge = _knowledge(specification, space, graphs, observation)
    reason = attack.refusal(observation, knowledge)
    if reason is not None:
        raise Refused(f"attack {attack.name!r} cannot run here: {reason}")
    return AttackedClient(0, graphs, observation, knowledge)


@lru_cache(KEPT)
def _loaded(file: str, features: str | None, digest: str) -> tuple[Observation, FeatureSpace]:
    """The content of the file; ``digest``, over the file and its schema, is part of the cache's key."""
    return load(file, None if features is None else feature_space(features))


def _check_told(specification: Specification, graphs: Sequence[Graph], observation: Observation) -> None:
    """Raise ``Refused`` where the attacker should know something from a truth that is missing."""
    told = sorted(set(specification.know) - {"auxiliary"})
    if told and not graphs:
        raise Refused(
            f"know: {', '.join(told)} is taken from the truth, and this file has none; give the truth, or leave that "
            "out of know"
        )
    if "labels" in told and not labelled(graphs):
        raise Refused("know: the truth of this file has no labels (y); add them, or leave labels out of know")
    if observation.batch_size != specification.batch_size:
        raise ValueError("the file's number of graphs has changed since the audit began; bring it back")


def _knowledge(
    specification: Specification, space: FeatureSpace, graphs: Sequence[Graph], observation: Observation
) -> Knowledge:
    """The attacker's knowledge by the specification, from the truth where there is one."""
    name, report = Path(_source(specification).file).name, LoadReport(len(graphs), len(graphs))
    data = Dataset(name, graphs, space, "binary", observation.model.outputs, report)
    public: Sequence[Graph] = ()
    if "auxiliary" in specification.know:
        if specification.auxiliary == "same" or specification.auxiliary.startswith("split:"):
            raise Refused('auxiliary: this client is of no data set; name one, as auxiliary = "tox21"')
        public = public_graphs(dataclasses.replace(specification, bonds=bool(space.edge_classes)), data)
    if not graphs:
        return Knowledge(space, max_n=specification.max_n, auxiliary=tuple(public), prior=specification.prior)
    setup = Setup(data, observation.model, observation.params, observation.loss, public=tuple(public))
    return knowledge_of(specification, setup, graphs, observation)


def _source(specification: Specification) -> Recorded:
    assert specification.recorded is not None
    return specification.recorded
