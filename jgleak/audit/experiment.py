"""From a specification to results: honest clients compute updates, an attack inverts each, metrics compare."""

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

import jax.numpy as jnp
import numpy as np

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.facts.fact import Facts
from jgleak.attacks.facts.registry import facts
from jgleak.attacks.side_information import apart
from jgleak.audit.compilations import Compiled, compilations
from jgleak.audit.programs import forget_programs
from jgleak.audit.round import AttackedClient, chosen_attack, client, refusal
from jgleak.audit.setup import Setup, prepare, stream_key
from jgleak.audit.specification import Specification
from jgleak.audit.workers import Processes, enough, share
from jgleak.features import FeatureSpace
from jgleak.federated import Observation
from jgleak.graph import Graph
from jgleak.metrics import (
    Score,
    SoftScore,
    guess_rate,
    match_batch,
    match_graphs,
    score,
    soft_score,
    target_error,
    truth_in_set,
)

REAL_TOLERANCE = 1e-3
"""Real-valued features this close count as recovered exactly."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """An attack's answer for one graph of a client.

    Attributes:
      index: position of the graph among all clients' graphs.
      observation: what the server saw; None where the client's update could not be computed.
      reconstruction: the attack's answer for this graph.
      whole: the attack's answer for the client, with all of its graphs.
      own: which of ``whole.members`` is this graph's.
      seconds: wall-clock time of the attack; of graphs attacked side by side, each one's share.
      compiled: what XLA compiled during the attack, and how many of its seconds that took; of graphs attacked side by
        side, each one's share of the seconds, and the first has the number.
      discarded: seconds of earlier attacks on it, which compilation had cut short (audits only).
      cut_short: compilation cut this one short as well (audits only).
      failure: the traceback where the attack failed on this client, or why it could not be attacked; the reconstruction
        is empty then.
      facts: what the update shows without a search; None where there is no update, and for all but the first graph of a
        batch.
    """

    index: int
    observation: Observation | None
    reconstruction: Reconstruction
    seconds: float
    compiled: Compiled
    discarded: float = 0.0
    cut_short: bool = False
    failure: str | None = None
    facts: Facts | None = None
    whole: Reconstruction | None = None
    own: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result(Answer):
    """An answer compared with the private graph; a client with several graphs has a result for each.

    Attributes:
      truth: the private graph.
      score: comparison of the best reconstruction with the truth.
      truth_in_set: the truth is among the listed reconstructions.
      guess_rate: how often one of the listed reconstructions, drawn at random, is the truth.
      soft: comparison of edges and features with the truth, soft where the attack returns soft ones; None where nothing
        was found.
      target_error: RNMSE of the target's features, under the protocol ``target_node``.
    """

    truth: Graph
    score: Score
    truth_in_set: bool
    guess_rate: float
    soft: SoftScore | None = None
    target_error: float | None = None


def run(
    specification: Specification,
    setup: Setup | None = None,
    *,
    workers: int | None = 1,
    started: Processes | None = None,
) -> Iterator[Result]:
    """Attack the clients, yielding each result as it is finished (one by one, or many side by side).

    An exception inside an attack ends that client only: its result has an empty reconstruction, ``stop`` is
    ``"error"`` and ``failure`` holds the traceback. The same holds for an update that cannot be computed (where
    training diverges, for example) or that the attack refuses: ``failure`` states why.

    Args:
      specification: the experiment.
      setup: the result of ``prepare`` for it; by default it is made here.
      workers: processes that share the clients, of which this is one; results come in the order in which they are
        finished. None: chosen by ``workers.enough``.
      started: the other processes, where they were started before (``workers.Processes``); they are not ended here.

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
        yield from _shared(specification, setup, work, workers, started)
        return
    for firsts in work:
        yield from run_chunk(specification, setup, firsts)


def _shared(
    specification: Specification, setup: Setup, work: Sequence[range], workers: int, started: Processes | None
) -> Iterator[Result]:
    """Workers read the setup from a file, so that data are loaded, and models trained, once."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "setup"
        file.write_bytes(pickle.dumps(setup))
        calls = [(specification, file, firsts) for firsts in work]
        for results in share(_work, calls, workers, here=True, started=started):
            yield from results


def _work(specification: Specification, file: Path, firsts: Sequence[int]) -> list[Result]:
    return list(run_chunk(specification, _read(file), firsts))


@lru_cache(1)
def _read(file: Path) -> Setup:
    return pickle.loads(file.read_bytes())  # written by ``_shared`` into its own temporary folder


def chunks(specification: Specification, graphs: int) -> list[range]:
    """Which clients are attacked side by side: the first graph of each, as many chunks as there are rounds.

    They follow from the specification and the number of graphs alone, and results from the chunks alone.
    """
    size = specification.together if chosen_attack(specification).many is not None else 1
    firsts = range(0, graphs, specification.batch_size)
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
        except Exception:  # a defect in computing one client's update must not end the others
            lost += _unattacked(specification, setup, first, traceback.format_exc())
    found = attack_clients(specification, attack, clients) if clients else iter(())
    yield from heapq.merge(lost, found, key=lambda result: result.index)


def _unattacked(specification: Specification, setup: Setup, first: int, reason: str) -> list[Result]:
    """The results of a client without an update, one for each graph, with the reason."""
    nothing, space = Reconstruction((), None, "error"), setup.dataset.space
    truths = setup.dataset.graphs[first : first + specification.batch_size]
    return [
        Result(
            index=first + place,
            observation=None,
            reconstruction=nothing,
            seconds=0.0,
            compiled=Compiled(),
            failure=reason,
            truth=truth,
            score=score(truth, None, space),
            truth_in_set=False,
            guess_rate=0.0,
        )
        for place, truth in enumerate(truths)
    ]


def attack_clients(specification: Specification, attack: Attack, clients: Sequence[AttackedClient]) -> Iterator[Result]:
    """Attack clients side by side, and compare; where that fails, each on its own, so that the failure of one client
    affects no other."""
    for attacked, place, answer in answers(specification, attack, clients):
        yield beside(attacked, place, answer)


def answers(
    specification: Specification, attack: Attack, clients: Sequence[AttackedClient]
) -> Iterator[tuple[AttackedClient, int, Answer]]:
    """The attack's answers for every graph of every client, with the graph's place among the client's; otherwise as
    ``attack_clients``. The truth may be unknown: it only decides which graphs of a batch are compared."""
    failure, compiled, begun = None, compilations(), time.monotonic()
    try:
        found = attack.on_many(
            [client.observation for client in clients],
            [client.knowledge for client in clients],
            keys=[stream_key(specification, client.first + 1) for client in clients],
            budget=Budget(time_limit=specification.time_limit),
        )
    except Exception:  # any defect of an attack: it must not end the other clients
        if len(clients) > 1:
            for client in clients:
                yield from answers(specification, attack, [client])
            return
        failure = traceback.format_exc()
        found = [Reconstruction((), None, "error")]
    graphs = sum(client.graphs for client in clients)
    seconds = (time.monotonic() - begun) / graphs
    compiled = compilations().since(compiled)
    for client, reconstruction in zip(clients, found, strict=True):
        noise = client.knowledge.noise
        for place, own in enumerate(_order(client, reconstruction)):
            yield (
                client,
                place,
                Answer(
                    index=client.first + place,
                    observation=client.observation,
                    reconstruction=_part(reconstruction, own, client.graphs),
                    seconds=seconds,
                    compiled=Compiled(
                        compiled.number if client is clients[0] and place == 0 else 0, compiled.seconds / graphs
                    ),
                    failure=failure,
                    facts=None if place else facts(client.observation, client.knowledge.space, noise=noise),
                    whole=reconstruction,
                    own=own,
                ),
            )


def _order(client: AttackedClient, found: Reconstruction) -> list[int | None]:
    """Which graph of a batch's reconstruction is compared with each of the client's graphs: matched by size, then by
    GSM-1 (target nodes by their features: GLG, section 5.4), or in order where the truth is unknown, or the answer has
    the edges or features that are known of each; None where there is no batch, or no graph is left."""
    if client.graphs == 1 or not found.graphs:
        return [None] * client.graphs
    order = list(range(client.graphs))
    if client.truths and client.observation.protocol == "target_node" and found.features is not None:
        space = client.knowledge.space
        targets = np.stack([space.encode(truth.x)[:1] for truth in client.truths])
        order = match_batch(jnp.asarray(targets), jnp.asarray(found.features[:, :1])).order.tolist()
    elif client.truths and not _as_known(client, found):
        order = match_graphs(client.truths, found.graphs, client.knowledge.space).tolist()
    return [own if own < len(found.graphs) else None for own in order]


def _as_known(client: AttackedClient, found: Reconstruction) -> bool:
    """Whether each graph of the answer has the edges and features that are known of the graph in its place."""
    known = apart(client.observation, client.knowledge)
    return len(found.graphs) == len(known) and all(
        part.n == graph.n
        and (part.adjacency is not None or part.features is not None)
        and (part.adjacency is None or np.array_equal(part.adjacency, graph.adjacency))
        and (part.features is None or np.allclose(part.features, graph.x))
        for part, graph in zip(known, found.graphs, strict=True)
    )


def _part(found: Reconstruction, own: int | None, batch: int) -> Reconstruction:
    """One graph of a batch's reconstruction; an empty one where it has fewer."""
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


def beside(client: AttackedClient, place: int, answer: Answer) -> Result:
    """The answer for one graph of a client, compared with that graph."""
    truth, space, reconstruction = client.truths[place], client.knowledge.space, answer.reconstruction
    tolerance = 0.0 if space.discrete else REAL_TOLERANCE
    listed = truth_in_set(truth, reconstruction.graphs, tolerance=tolerance)
    whole = client.observation.protocol != "target_node"
    found, rows = reconstruction.best, reconstruction.features
    return Result(
        **{field.name: getattr(answer, field.name) for field in dataclasses.fields(Answer)},
        truth=truth,
        score=score(truth, found, space, tolerance=tolerance),
        truth_in_set=listed,
        guess_rate=guess_rate(truth, reconstruction.graphs, tolerance=tolerance) if listed else 0.0,
        soft=None if found is None or not whole else _soft_score(truth, space, reconstruction, found),
        target_error=None if rows is None or whole else target_error(truth, space, rows),
    )


def _soft_score(truth: Graph, space: FeatureSpace, found: Reconstruction, best: Graph) -> SoftScore:
    return soft_score(truth, best, space, adjacency=found.adjacency, nodes=found.features)
