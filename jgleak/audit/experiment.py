"""From a specification to results: honest clients compute gradients, an attack inverts each, metrics compare."""

from __future__ import annotations

import dataclasses
import heapq
import pickle
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.facts.fact import Facts
from jgleak.attacks.facts.registry import facts
from jgleak.audit.compilations import Compiled, compilations
from jgleak.audit.programs import forget_programs
from jgleak.audit.round import AttackedClient, chosen_attack, client, refusal
from jgleak.audit.setup import Setup, prepare, stream_key
from jgleak.audit.specification import Specification
from jgleak.audit.workers import enough, share
from jgleak.features import FeatureSpace
from jgleak.federated import Observation
from jgleak.graph import Graph
from jgleak.metrics import Score, SoftScore, guess_rate, match_graphs, score, soft_score, target_error, truth_in_set

REAL_TOLERANCE = 1e-3
"""Real-valued features this close count as recovered exactly."""


@dataclasses.dataclass(frozen=True)
class Result:
    """One private graph attacked; a client with several has a result for each.

    Attributes:
      index: position of the client in the data set.
      truth: its private graph.
      observation: what the server saw; None where the client's update could not be computed.
      reconstruction: what the attack made of it.
      whole: what it made of the client; of one with several graphs, all of them,
      own: and which of ``whole.members`` stands for this one.
      score: the best reconstruction beside the truth.
      truth_in_set: the truth is among the listed reconstructions.
      guess_rate: how often one of the listed reconstructions, drawn at random, is the truth.
      seconds: wall-clock time of the attack; of graphs attacked side by side, each one's share.
      compiled: what XLA compiled during the attack, and how many of its seconds that took; of clients side by side, the
        first has it all.
      failure: the traceback, when the attack broke down on this client, or why it could not be attacked at all; the
        reconstruction is empty then.
      soft: edges and features beside the truth, soft where the attack gives them so; None where nothing was found.
      facts: what the update shows by itself; None where there is none, or where a batch's first graph has them.
      target_error: RNMSE of the target's features, under the protocol ``target_node`` (which shows little else).
    """

    index: int
    truth: Graph
    observation: Observation | None
    reconstruction: Reconstruction
    score: Score
    truth_in_set: bool
    guess_rate: float
    seconds: float
    compiled: Compiled
    failure: str | None = None
    soft: SoftScore | None = None
    target_error: float | None = None
    facts: Facts | None = None
    whole: Reconstruction | None = None
    own: int | None = None


def run(specification: Specification, setup: Setup | None = None, *, workers: int | None = 1) -> Iterator[Result]:
    """Attack the clients, yielding each result as it is finished (one by one, or many side by side).

    An exception inside an attack ends that client only: its result has an empty reconstruction, ``stop`` is
    ``"error"`` and ``failure`` holds the traceback. So does an update that cannot be computed (training that ran away
    on this client, say) or that the attack refuses: ``failure`` says why.

    Args:
      specification: the experiment.
      setup: what ``prepare`` returned for it; made here when left out.
      workers: processes that share the clients, of which this is one; results come in the order in which they are
        finished. None: as many as pay (``workers.enough``).

    Raises:
      ValueError: the attack cannot work with this model, task or knowledge.
      ChildProcessError: a worker's process died.
    """
    setup = setup or prepare(specification)
    reason = refusal(specification, setup)
    if reason is not None:
        raise ValueError(f"attack {specification.attack!r} cannot run here: {reason}")
    work = chunks(specification, len(setup.dataset.graphs))
    workers = enough(len(work)) if workers is None else workers
    if min(workers, len(work)) > 1:
        yield from _shared(specification, setup, work, workers)
        return
    for firsts in work:
        yield from run_chunk(specification, setup, firsts)


def _shared(specification: Specification, setup: Setup, work: Sequence[range], workers: int) -> Iterator[Result]:
    """Workers read the setup from a file, so that data are loaded, and models trained, once."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "setup"
        file.write_bytes(pickle.dumps(setup))
        for results in share(_work, [(specification, file, firsts) for firsts in work], workers, here=True):
            yield from results


def _work(specification: Specification, file: Path, firsts: Sequence[int]) -> list[Result]:
    return list(run_chunk(specification, _read(file), firsts))


@lru_cache(1)
def _read(file: Path) -> Setup:
    return pickle.loads(file.read_bytes())  # our own, written by ``_shared`` a moment ago into a folder of its own


def chunks(specification: Specification, graphs: int) -> list[range]:
    """Which clients are attacked side by side: the first graph of each, as many chunks as there are rounds.

    They follow from the specification and the number of graphs alone, and results from the chunks alone.
    """
    size = specification.together if chosen_attack(specification).many is not None else 1
    firsts = range(0, graphs, specification.batch)
    return [firsts[start : start + size] for start in range(0, len(firsts), size)]


def run_chunk(specification: Specification, setup: Setup, firsts: Sequence[int]) -> Iterator[Result]:
    """Attack the clients whose first graphs are given; otherwise as ``run``."""
    forget_programs()
    attack = chosen_attack(specification)
    clients, lost = list[AttackedClient](), list[Result]()
    for first in firsts:
        try:
            clients.append(client(specification, setup, first))
        except ValueError as error:
            lost += _unattacked(specification, setup, first, str(error))
        except Exception:  # a defect on the way to one client's update: the others' must not go with it
            lost += _unattacked(specification, setup, first, traceback.format_exc())
    found = attack_clients(specification, attack, clients) if clients else iter(())
    yield from heapq.merge(lost, found, key=lambda result: result.index)


def _unattacked(specification: Specification, setup: Setup, first: int, reason: str) -> list[Result]:
    """A client that there is nothing to attack of."""
    nothing, space = Reconstruction((), None, "error"), setup.dataset.space
    truths = setup.dataset.graphs[first : first + specification.batch]
    return [
        Result(first + place, truth, None, nothing, score(truth, None, space), False, 0.0, 0.0, Compiled(), reason)
        for place, truth in enumerate(truths)
    ]


def attack_clients(specification: Specification, attack: Attack, clients: Sequence[AttackedClient]) -> Iterator[Result]:
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
                yield from attack_clients(specification, attack, [client])
            return
        failure = traceback.format_exc()
        found = [Reconstruction((), None, "error")]
    seconds = (time.monotonic() - begun) / sum(len(client.truths) for client in clients)
    compiled = compilations().since(compiled)
    for client, reconstruction in zip(clients, found, strict=True):
        for place, (truth, own) in enumerate(zip(client.truths, _order(client, reconstruction), strict=True)):
            first, part = client is clients[0] and place == 0, _part(reconstruction, own, len(client.truths))
            result = _result(client, place, truth, part, seconds, compiled if first else Compiled(), failure)
            yield dataclasses.replace(result, whole=reconstruction, own=own)


def _order(client: AttackedClient, found: Reconstruction) -> list[int | None]:
    """Which graph of a batch's reconstruction stands for each of the client's: matched by size, then by GSM-1; None
    where there is no batch, or none is left."""
    if len(client.truths) == 1 or not found.graphs:
        return [None] * len(client.truths)
    order = match_graphs(client.truths, found.graphs, client.knowledge.space).tolist()
    return [own if own < len(found.graphs) else None for own in order]


def _part(found: Reconstruction, own: int | None, batch: int) -> Reconstruction:
    """One graph of a batch's reconstruction; nothing where it has fewer."""
    if batch == 1:
        return found
    if own is None:
        nothing = {"graphs": (), "adjacency": None, "features": None, "certificate": None, "members": ()}
        return dataclasses.replace(found, **nothing)
    if found.members:
        return found.members[own]
    graph = found.graphs[own]
    adjacency = None if found.adjacency is None else found.adjacency[own, : graph.n, : graph.n]
    features = None if found.features is None else found.features[own, : graph.n]
    return dataclasses.replace(found, graphs=(graph,), adjacency=adjacency, features=features)


def _result(
    client: AttackedClient,
    place: int,
    truth: Graph,
    reconstruction: Reconstruction,
    seconds: float,
    compiled: Compiled,
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
        guess_rate=guess_rate(truth, reconstruction.graphs, tolerance=tolerance) if listed else 0.0,
        seconds=seconds,
        compiled=compiled,
        failure=failure,
        soft=None if found is None or not whole else _soft_score(truth, knowledge.space, reconstruction, found),
        target_error=None if rows is None or whole else target_error(truth, knowledge.space, rows),
        facts=None if place else facts(observation, knowledge.space, noise=knowledge.noise),
    )


def _soft_score(truth: Graph, space: FeatureSpace, found: Reconstruction, best: Graph) -> SoftScore:
    return soft_score(truth, best, space, adjacency=found.adjacency, nodes=found.features)
