"""What an attack is, what it returns, and the one list of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.blas import one_thread
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.side_information import size
from jgleak.federated.fits import check_space
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.loss import Loss
from jgleak.federated.observation import PROTOCOLS, Observation
from jgleak.graph import Graph
from jgleak.precision import smallest_noise
from jgleak.renamed import renamed


@dataclasses.dataclass(frozen=True)
class Reconstruction:
    """What an attack found.

    Attributes:
      graphs: candidate graphs, best first; empty when nothing was found. For an update over a batch of several graphs
        they are the batch, in no order.
      gradient_distance: ``|g - g*| / |g*|`` of the first graph's gradient against the observed one, over all
        parameters (0 is a perfect match), of a batch that of all its graphs together; None when no graph was found, or
        where an attack does not compute it for a batch.
      stop: why the attack ended, in a word or two: ``match`` (the first graph has the observed gradient, up to rounding
        and known noise), ``exhausted``, ``time``, ``steps``, ``done``, ..
      adjacency: soft adjacency ``(n, n)`` where the attack has one; ``(B, n, n)`` for a batch, ``n`` of its
        largest graph.
      features: soft encoded features ``(n, m)`` where the attack has them; ``(B, n, m)`` for a batch.
      certificate: what is known about other graphs with the same gradient, where the attack looks for them.
      info: counts and seconds by stage, for people and benchmarks.
      members: of a batch, where the attack takes its graphs one by one, what was found of each that was, in the order
        of ``graphs``: its own list, best first, with its own certificate.

    Raises:
      ValueError: ``graphs`` holds something else, the distance is no number, or the reason is no text.
    """

    graphs: tuple[Graph, ...]
    gradient_distance: float | None
    stop: str
    adjacency: Float[np.ndarray, "*B n n"] | None = None
    features: Float[np.ndarray, "*B n m"] | None = None
    certificate: Certificate | None = None
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    members: tuple[Reconstruction, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.graphs, tuple) or not all(isinstance(graph, Graph) for graph in self.graphs):
            raise ValueError(f"graphs: expected a tuple of Graph, best first, got {self.graphs!r:.60}")
        distance = self.gradient_distance
        array = isinstance(distance, jax.Array | np.ndarray)
        if array and distance.ndim == 0 and jnp.issubdtype(distance.dtype, jnp.floating):  # as JAX computes it
            object.__setattr__(self, "gradient_distance", float(distance))
        elif not isinstance(distance, Real | None):
            raise ValueError(f"gradient_distance: expected a number or None, got {distance!r:.60}")
        if not isinstance(self.stop, str):
            raise ValueError(f"stop: expected a word, such as 'done', got {self.stop!r:.60}")

    @property
    def best(self) -> Graph | None:
        """The top-ranked graph."""
        return self.graphs[0] if self.graphs else None


OUT_OF_TIME = "the time limit ended the search, so that there may be other graphs; a longer --time-limit may find them"
"""``info["reason"]`` of an attack that found graphs and whose search the time limit ended."""

MORE_CONDITIONS = (
    "the time limit ended the search under fewer conditions; a longer --time-limit may leave some conditions of the "
    "certificate out"
)
"""``info["reason"]`` of an attack whose certificate has conditions that more time might have left out."""

LATE = (OUT_OF_TIME, MORE_CONDITIONS)
"""Reasons by which more time might have made a certificate stronger."""


@renamed(seconds="time_limit")
@dataclasses.dataclass(frozen=True)
class Budget:
    """The bounds of a search. It stops cleanly at either and returns what it has.

    Attributes:
      time_limit: wall-clock seconds of one attack.
      candidates: most blocks checked for one centre.
      blocks: most blocks of one hop that are kept.

    Raises:
      ValueError: a time limit that is no number from 0.
    """

    time_limit: float = 60.0
    candidates: int = 1_000_000_000
    blocks: int = 100_000

    def __post_init__(self) -> None:
        if isinstance(self.time_limit, bool) or not isinstance(self.time_limit, Real) or not self.time_limit >= 0:
            raise ValueError(f"time_limit: seconds, a number from 0, got {self.time_limit!r}")

    def start(self) -> Clock:
        """Begin counting."""
        return Clock(time.monotonic(), self.time_limit)


@dataclasses.dataclass(frozen=True)
class Clock:
    """A wall-clock budget that is running.

    Attributes:
      begun: ``time.monotonic()`` at its start.
      seconds: that it lasts.
    """

    begun: float
    seconds: float

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float:
        """Seconds until the limit (negative when past it)."""
        return self.seconds - self.elapsed

    def part(self, share: float) -> Clock:
        """A clock that ends when ``share`` of the time left is spent."""
        return Clock(self.begun, self.elapsed + share * self.left)


@runtime_checkable
class AttackFunction(Protocol):
    """The function of an attack. Its arguments hold everything that it may look at."""

    def __call__(
        self, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget
    ) -> Reconstruction: ...


@runtime_checkable
class RunMany(Protocol):
    """The function of an attack on many clients side by side; each gets ``budget.time_limit`` seconds."""

    def __call__(
        self,
        observations: Sequence[Observation],
        knowledges: Sequence[Knowledge],
        *,
        keys: Sequence[Array],
        budget: Budget,
    ) -> list[Reconstruction]: ...


def _with_noise(observation: Observation, knowledge: Knowledge) -> Knowledge:
    """The knowledge, with the noise that the observation states where the knowledge has none, and with that of the
    smallest numbers, at least, where the client rounded them."""
    noise = observation.noise if knowledge.noise is None else knowledge.noise
    if noise is not None and observation.rounding is not None:
        noise = max(noise, smallest_noise(observation.rounding))
    return knowledge if noise == knowledge.noise else dataclasses.replace(knowledge, noise=noise)


def _no_reason(observation: Observation, knowledge: Knowledge) -> str | None:
    return None


def _no_options(options: Mapping[str, str | float]) -> Attack:
    raise ValueError(f"option {next(iter(options))!r}: this attack has no options; leave --option out")


@renamed(configure="with_options")
@dataclasses.dataclass(frozen=True)
class Attack:
    """An attack: its function, what it needs to know, and where it cannot work.

    Attributes:
      name: what users type.
      run: the attack.
      unsupported: returns why (and what instead) when the attack cannot work on this observation, else None.
      protocols: the protocols whose updates it can read; the mean gradient of ``fedavg`` is read as one gradient,
        which it nearly is while the client's weights move little.
      needs: fields of ``Knowledge`` without which it cannot begin; for ``n``, known edges or features will do.
      several: it can attack an update over a batch of several graphs.
      edge_classes: it finds the classes of edges, where the model tells them apart.
      dropout: it works where clients train with dropout.
      frozen: it works without the gradients of frozen parts, or says itself which ones it needs.
      rows: it takes public graphs whose features are the model's input rows themselves (random ones).
      many: the attack on many clients side by side, where that is faster than one by one.
      with_options: the attack with other options (``--option``).

    Raises:
      ValueError: an unknown protocol or need.
      TypeError: a function that cannot be called.
    """

    name: str
    run: AttackFunction
    unsupported: Callable[[Observation, Knowledge], str | None] = _no_reason
    protocols: tuple[str, ...] = ("fedsgd", "fedavg")
    needs: tuple[str, ...] = ()
    several: bool = False
    edge_classes: bool = False
    dropout: bool = False
    frozen: bool = False
    rows: bool = False
    many: RunMany | None = None
    with_options: Callable[[Mapping[str, str | float]], Attack] = _no_options

    def __post_init__(self) -> None:
        for field, words, known in (("protocols", self.protocols, PROTOCOLS), ("needs", self.needs, NEEDS)):
            if not isinstance(words, tuple) or not set(words) <= set(known):
                raise ValueError(f"{field} of {self.name!r}: expected a tuple of {', '.join(known)}, got {words!r}")
        for field in ("run", "unsupported", "with_options", "many"):
            if not callable(getattr(self, field)) and (field, self.many) != ("many", None):
                raise TypeError(f"{field} of {self.name!r}: expected a function, got {getattr(self, field)!r:.60}")

    def refusal(self, observation: Observation, knowledge: Knowledge) -> str | None:
        """Why (and what instead) the attack cannot work on this observation with this knowledge, else None."""
        if observation.protocol not in self.protocols:
            known = " or ".join(repr(p) for p in self.protocols)
            return f"it reads updates of the protocol {known}, not {observation.protocol!r}; let the client send that"
        if observation.adaptive:
            return (
                "the client trained with Adam, whose steps divide by running squares: no gradient can be read off the "
                "weights, only zeros and signs of entries; jgleak.facts says what these tell for certain"
            )
        if observation.batch_size > 1 and not self.several:
            return (
                f"the update mixes {observation.batch_size} graphs and it attacks one; record batches of one, "
                "or take an attack on batches (census, or gradient matching, such as dlg)"
            )
        if observation.model.returns_statistics and (observation.batch_size > 1 or observation.steps > 1):
            return (
                "batch normalisation in training mode mixes the nodes of all graphs of a step, so that no graph's "
                f"gradient can be recomputed alone; behind the update are {observation.batch_size} graph(s) and "
                f"{observation.steps} step(s), and attacks need one of each. What the update shows by itself holds "
                "all the same"
            )
        if observation.model.edge_classes and not self.edge_classes:
            return (
                "the model tells edge classes (bond types) apart, and it looks for edges that are there or not; take "
                "'census' or 'grain', or a model that sees edges alone"
            )
        if observation.model.drops and not self.dropout:
            shown = "What enters the first weight is not masked: the span of its gradient still shows those rows"
            return (
                "the client trains with dropout, whose masks are unknown, so that no graph's gradient can be "
                "recomputed; use gradient matching (such as dlg), which searches for the masks, or let the client "
                f"train without{'' if observation.model.masks_input else f'. {shown}'}"
            )
        frozen = self._frozen(observation)
        if frozen is not None:
            return frozen
        if knowledge.sizes and len(knowledge.sizes) != observation.batch_size:
            given, graphs = len(knowledge.sizes), observation.batch_size
            return (
                f"sizes of {given} graph(s) are given and {graphs} are behind the update; give one number for all "
                "graphs, or one each"
            )
        for need in self.needs:
            if not _given(need, observation, knowledge):
                return f"it needs {NEEDS[need]}; give it (Knowledge({need}=...); `jgleak attack --know {need}`)"
        if not self.rows and any(g.x.shape[1] != len(knowledge.space.features) for g in knowledge.auxiliary):
            return "the public graphs hold rows for the model, not features of the space; give graphs of a data set"
        try:
            for graph in knowledge.auxiliary:
                knowledge.space.check_edges(graph.edge_class, len(graph.edges))
        except ValueError as error:
            return f"the public graphs do not fit the feature space: {error}"
        return self.unsupported(observation, knowledge)

    def _frozen(self, observation: Observation) -> str | None:
        """Why frozen parts stand in the way, or None."""
        model, parts = observation.model, ", ".join(observation.model.frozen)
        if model.frozen and not self.frozen:
            return (
                f"parts of the model are frozen ({parts}), and it reads the gradients of all parts; take gradient "
                "matching (such as dlg), which leaves them out"
            )
        labelled = model.node_level or Loss.of(observation.loss).masked
        if labelled and not all(model.trains(*place) for place in model.nearest_output[:1]):
            return (
                f"the map next to the output is frozen ({parts}), whose gradient shows labels of nodes and of several "
                "tasks; train it, or take a task with one label a graph"
            )
        return None

    def __call__(
        self, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget | None = None
    ) -> Reconstruction:
        """Check that the attack can work here, then run it.

        Args:
          observation: what the server saw.
          knowledge: what the attacker may assume.
          key: of everything that the attack draws.
          budget: by default one of 60 seconds.

        Raises:
          ValueError: the attack cannot work here, with the reason and what to do instead; or what it returned is no
            reconstruction in the feature space.
        """
        knowledge = _with_noise(observation, knowledge)
        observation = self._checked(observation, knowledge)
        with one_thread():
            return self._answer(self.run(observation, knowledge, key=key, budget=budget or Budget()), knowledge)

    def on_many(
        self,
        observations: Sequence[Observation],
        knowledges: Sequence[Knowledge],
        *,
        keys: Sequence[Array],
        budget: Budget | None = None,
    ) -> list[Reconstruction]:
        """Attack many clients, side by side where the attack can; each gets ``budget.time_limit`` seconds.

        Args:
          observations: what the server saw of each client.
          knowledges: what the attacker may assume of each, in the same order.
          keys: one a client.
          budget: by default one of 60 seconds.

        Raises:
          ValueError: as for one client; or other than one key a client.
        """
        if len(keys) != len(observations):
            wanted = f"{len(observations)}, one a client"
            raise ValueError(f"keys: expected {wanted}, got {len(keys)}; jax.random.split makes several")
        knowledges = [_with_noise(o, k) for o, k in zip(observations, knowledges, strict=True)]
        checked = [self._checked(o, k) for o, k in zip(observations, knowledges, strict=True)]
        budget = budget or Budget()
        with one_thread():
            if self.many is not None:
                found = self.many(checked, knowledges, keys=keys, budget=budget) if checked else []
                if not isinstance(found, Sequence) or len(found) != len(checked):
                    raise ValueError(f"attack {self.name!r} gave no list of {len(checked)} answers, one a client")
            else:
                each = zip(checked, knowledges, keys, strict=True)
                found = [self.run(o, k, key=key, budget=budget) for o, k, key in each]
            return [self._answer(one, k) for one, k in zip(found, knowledges, strict=True)]

    def _answer(self, found: object, knowledge: Knowledge) -> Reconstruction:
        if not isinstance(found, Reconstruction):
            raise ValueError(f"attack {self.name!r} returned {type(found).__name__}; it has to be a Reconstruction")
        for graph in found.graphs:
            try:
                knowledge.space.check(graph.x)
            except ValueError as error:
                raise ValueError(f"attack {self.name!r} returned a graph outside the schema: {error}") from error
        return found

    def _checked(self, observation: Observation, knowledge: Knowledge) -> Observation:
        check_space(observation.model, knowledge.space)
        reason = self.refusal(observation, knowledge)
        if reason is not None:
            raise ValueError(f"attack {self.name!r} cannot run here: {reason}")
        return dataclasses.replace(observation, update=jax.tree.map(np.asarray, observation.update))


NEEDS = {
    "n": "the number of nodes",
    "adjacency": "the client's edges",
    "features": "the client's node features",
    "labels": "the labels",
    "auxiliary": "public graphs of the same kind",
}
"""What an attack may be unable to begin without, in words."""


def _given(need: str, observation: Observation, knowledge: Knowledge) -> bool:
    if need == "n":
        return size(observation, knowledge) is not None
    value = getattr(knowledge, need)
    return value is not None and (need != "auxiliary" or len(value) > 0)
