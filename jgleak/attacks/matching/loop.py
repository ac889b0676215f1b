"""The one loop of all gradient-matching attacks: from many observations to compiled runs, and back to graphs."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.distance import MATCH, Fit
from jgleak.attacks.matching.discretise import Answer, choose, read
from jgleak.attacks.matching.objectives import Guess, squared
from jgleak.attacks.matching.options import configured, settings
from jgleak.attacks.matching.problem import Problem, Setting, mask_keys, pose, steps_made, unsupported
from jgleak.attacks.matching.recipe import Recipe, hard_distance, on_device
from jgleak.attacks.matching.reduction import reduce
from jgleak.attacks.matching.run import STRIDE, MatchingRun, axes, side_by_side, whole_strides
from jgleak.attacks.side_information import size
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation

MEMORY = 2 << 30
"""Bytes that the states and derivatives of one compiled run may take, roughly; decides speed alone."""

COPIES = 12
"""Arrays as large as the gradient and the rows that one member's second derivative keeps alive, roughly; decides speed
alone."""

LARGEST = 16 << 30
"""Bytes, estimated in the same way, above which one client is refused."""

TICK = 1e-6
"""Seconds: shorter times between two looks at the clock count as this."""

NOTHING_TOLD = "noise of the known deviation explains the start: no gradient was matched, the answer is the start"

Progress = Callable[[int, Float[np.ndarray, "B K"]], None]
"""Called after 1, 3, 9, 27, 77, .. steps (then every ``STRIDE``, earlier where time runs out; on an accelerator after
every ``STRIDE``) with the number of steps made and the data terms of all clients and restarts."""


def matching(name: str, recipe: Recipe, **fields: Any) -> Attack:
    """A registry entry that runs ``recipe`` in this loop; ``fields`` go to ``Attack``."""

    def configure(options: Mapping[str, str | float]) -> Attack:
        return matching(name, configured(recipe, options), **fields)

    given: dict[str, Any] = {"needs": ("n",), "several": True, "dropout": True, "frozen": True} | fields
    other = given.pop("unsupported", unsupported)

    def refused(observation: Observation, knowledge: Knowledge) -> str | None:
        return other(observation, knowledge) or too_large(recipe, observation, knowledge)

    return Attack(
        name,
        partial(invert, recipe),
        **given,
        unsupported=refused,
        many=partial(invert_many, recipe),
        with_options=configure,
    )


def too_large(recipe: Recipe, observation: Observation, knowledge: Knowledge) -> str | None:
    """Why one client's restarts do not fit into memory, else None."""
    n, drawn = size(observation, knowledge), observation.model.drops and recipe.masks == "averaged"
    needed = _bytes(recipe, observation, observation.batch_size * (n or 0), n or 0, recipe.draws if drawn else 1)
    if needed <= LARGEST:
        return None
    draws = f", {recipe.draws} draws of masks each," if drawn else ""
    return (
        f"{recipe.restarts} starts side by side{draws} of a graph of {n} nodes take about {needed / 2**30:,.0f} GiB, "
        f"and {LARGEST / 2**30:.0f} are allowed; take fewer (--option restarts=...), or attack a smaller client"
    )


def _bytes(recipe: Recipe, observation: Observation, rows: int, slots: int, draws: int) -> float:
    """What one client's states and derivatives take, roughly, with so many rows of nodes and slots for neighbours."""
    model = observation.model
    leaves = jax.tree.leaves(observation.params)
    widths = model.in_features + sum(sum(np.shape(leaf)) for leaf in leaves if np.ndim(leaf) > 1)
    gradients = sum(np.size(leaf) for leaf in jax.tree.leaves(observation.update))
    made = steps_made(observation) if recipe.replay == "steps" else None
    times = 1 if made is None else made.steps
    return 4.0 * recipe.restarts * COPIES * times * (gradients + draws * rows * (slots + widths))


def invert(
    recipe: Recipe, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget
) -> Reconstruction:
    """Attack one client; the arguments are those of ``invert_many``."""
    return invert_many(recipe, [observation], [knowledge], keys=[key], budget=budget)[0]


def invert_many(
    recipe: Recipe,
    observations: Sequence[Observation],
    knowledges: Sequence[Knowledge],
    *,
    keys: Sequence[Array],
    budget: Budget,
    progress: Progress | None = None,
    trace: bool = False,
) -> list[Reconstruction]:
    """Attack many clients at once; the results are those of one at a time, up to rounding.

    Clients of one model, parameters, padded size and kind of knowledge share a compiled run; the number of clients in
    it is a power of two (the last one is repeated), so that few shapes compile.

    Args:
      recipe: the attack.
      observations: what the server saw of each client.
      knowledges: what is given about each.
      keys: one a client.
      budget: every client gets ``time_limit`` seconds.
      progress: called whenever the clock is looked at (``Progress``).
      trace: keep every step's data term of every restart, ``(K, steps)``, in ``info["trace"]``.
    """
    public: dict[int, list[int]] = defaultdict(list)
    for i, knowledge in enumerate(knowledges):
        public[id(knowledge.auxiliary)].append(i)
    clients = {}
    for same in public.values():
        seen, known = [observations[i] for i in same], [knowledges[i] for i in same]
        prior = recipe.learn(seen, known, recipe.training)
        for i in same:
            posed = _posed(recipe, observations[i], knowledges[i], prior, keys[i])
            clients[i] = _Client(observations[i], knowledges[i], keys[i], *posed)
    runs: dict[Any, list[int]] = defaultdict(list)
    for i, client in clients.items():
        setting, problem = client.setting, client.problem
        arrays, form = jax.tree.flatten((problem.update, problem.mask, problem.shares))
        shapes = form, tuple(np.shape(leaf) for leaf in arrays)
        given = (problem.nodes is None, problem.adjacency is None)
        params = None if setting.own_params else id(client.observation.params)
        public_graphs, space = id(client.knowledge.auxiliary), id(client.knowledge.space)
        runs[setting, params, space, public_graphs, shapes, given].append(i)
    results: dict[int, Reconstruction] = {}
    for members in runs.values():
        most = _together(recipe, clients[members[0]])
        for start in range(0, len(members), most):
            part = members[start : start + most]
            found = _run(recipe, [clients[i] for i in part], budget, progress, trace)
            results.update(zip(part, found, strict=True))
    return [results[i] for i in range(len(observations))]


class _Client(NamedTuple):
    observation: Observation
    knowledge: Knowledge
    key: Array
    setting: Setting
    problem: Problem
    basis: Float[np.ndarray, "m r"] | None


def _posed(
    recipe: Recipe, observation: Observation, knowledge: Knowledge, prior: Any, key: Array
) -> tuple[Setting, Problem, Float[np.ndarray, "m r"] | None]:
    seen, basis = observation, None
    if recipe.reduce is not None and not observation.pruned:  # what was left out lies along all directions
        seen, basis = reduce(observation, _known_rows(knowledge), recipe.reduce)
    dummy = None if recipe.dummy is None else recipe.dummy()
    chosen = {"infer": recipe.infer_labels, "basis": basis, "dummy": dummy, "prior": prior, "replay": recipe.replay}
    setting, problem = pose(seen, knowledge, **chosen)
    if recipe.cautious:
        explained = np.asarray(_explained(recipe, setting, observation, knowledge.noise), np.float32)
        problem = dataclasses.replace(problem, explained=explained)
    if recipe.masks == "averaged" and observation.model.drops:
        problem = dataclasses.replace(problem, masks=mask_keys(recipe.draws, key))
    return setting, problem, basis


def _explained(recipe: Recipe, setting: Setting, observation: Observation, noise: float | None) -> float:
    """A value of the ``squared`` objective that noise explains; 0 of several gradients, and under other objectives.

    A clipped update bounds what is left beside the guess's direction, ``1 - cos^2 <= e``; its guesses are stretched to
    the update's length, which leaves ``2 (1 - cos)``.
    """
    if noise is None or recipe.objective is not squared or observation.gradients is not None:
        return 0.0
    most = Fit.of(observation, noise).most ** 2
    if not setting.scaled:
        return most
    return 2.0 * (1.0 - math.sqrt(1.0 - most)) if most < 1.0 else math.inf


def _known_rows(knowledge: Knowledge) -> Float[np.ndarray, "n m"] | None:
    """The encoded rows that are known, of all graphs of a batch."""
    if knowledge.features is None:
        return None
    features = np.asarray(knowledge.features)
    return knowledge.space.encode(features.reshape(-1, features.shape[-1]))


def _together(recipe: Recipe, client: _Client) -> int:
    """The power of two of clients that fit into ``MEMORY``."""
    losses, graphs, slots = client.problem.shares.shape
    draws = 1 if client.problem.masks is None else len(client.problem.masks)
    fit = MEMORY / _bytes(recipe, client.observation, losses * graphs * slots, slots, draws)
    return max(1, 2 ** int(np.log2(max(fit, 1.0))))


def _run(
    recipe: Recipe, clients: list[_Client], budget: Budget, progress: Progress | None, trace: bool
) -> list[Reconstruction]:
    """Attack clients that fit into one compiled run."""
    count, setting = len(clients), clients[0].setting
    begun = looked = time.monotonic()
    filled = [*clients, *[clients[-1]] * (2 ** math.ceil(math.log2(count)) - count)]
    together = MatchingRun(on_device(recipe), setting, [c.problem for c in filled], [c.key for c in filled])
    made, possible, late, history = 0, 1.0, False, []
    while made < recipe.steps and not together.done and not late:
        paced = max(1, int(min(STRIDE, recipe.steps - made, 2 * made, possible / 2)))  # steps may become slower
        stride = STRIDE if whole_strides() else paced
        values = together.advance(stride)[..., : recipe.steps - made]
        made = min(made + stride, recipe.steps)
        if trace:
            history.append(values)
        if progress is not None:
            progress(made, together.values[:count])
        now = time.monotonic()
        left = budget.time_limit * count - (now - begun)
        possible = left * stride / max(now - looked, TICK)  # steps at this pace; the first one's includes compilation
        looked, late = now, left < 0 and not together.done
    guesses, values = together.answers()
    steps = together.steps
    curves = np.concatenate(history, axis=-1) if history else None
    answers = [
        read(
            recipe,
            setting,
            client.problem,
            client.knowledge.space,
            choose(recipe, setting, client.problem, jax.tree.map(lambda part, i=i: part[i], guesses), values[i]),
            basis=client.basis,
            rng=np.random.default_rng(np.asarray(jax.random.key_data(client.key))),
        )
        for i, client in enumerate(clients)
    ]
    distances = _hard_distances(recipe, clients, answers)
    seconds = (time.monotonic() - begun) / count
    return [
        Reconstruction(
            graphs=found.graphs,
            gradient_distance=distance,
            stop="match" if distance < MATCH else _stop(recipe, client.problem, values[i], steps[i], late),
            adjacency=np.asarray(found.soft.adjacency if len(found.graphs) > 1 else found.soft.adjacency[0]),
            features=np.asarray(found.soft.nodes if len(found.graphs) > 1 else found.soft.nodes[0]),
            info={
                "seconds_matching": seconds,
                "steps": int(steps[i].max()),
                "options": settings(recipe),
                "matching_loss": float(values[i].min()),
                "matching_losses": values[i].tolist(),
                **({"degrees": "those of the known edges"} if client.problem.degrees is not None else {}),
                **({"trace": curves[i].tolist()} if curves is not None else {}),
                **(
                    {"reason": NOTHING_TOLD}
                    if values[i].min() < client.problem.explained and not steps[i].any()
                    else {}
                ),
            },
        )
        for i, (client, found, distance) in enumerate(zip(clients, answers, distances, strict=True))
    ]


def _stop(
    recipe: Recipe, problem: Problem, values: Float[np.ndarray, " K"], steps: Int[np.ndarray, " K"], late: bool
) -> str:
    """Why one client's restarts ended: a small data term, all steps, the clock, or numbers that are not finite."""
    explained = float(problem.explained) if steps.max() < recipe.steps else 0.0
    if values.min() < max(2 * recipe.target, 1.01 * explained):  # computed again, it may have moved by rounding
        return "converged"
    if steps.max() >= recipe.steps:
        return "steps"
    return "time" if late else "diverged"


def _hard_distances(recipe: Recipe, clients: list[_Client], answers: list[Answer]) -> list[float]:
    """Relative gradient distances of the rounded answers, in all columns: rounded rows leave the few directions."""
    problems, guesses, settings = [], [], []
    for client, found in zip(clients, answers, strict=True):
        setting, problem = client.setting, client.problem
        if client.basis is not None:
            dummy = None if recipe.dummy is None else recipe.dummy()
            chosen = {"infer": recipe.infer_labels, "dummy": dummy, "replay": recipe.replay}
            setting, whole = pose(client.observation, client.knowledge, **chosen)
            problem = dataclasses.replace(whole, masks=problem.masks)
        if client.observation.scaled and setting.loss != "mse":
            setting = dataclasses.replace(setting, scaled=True)  # a class, once rounded, no longer absorbs the clipping
        settings.append(setting)
        problems.append(problem)
        guesses.append(found.hard)
    if len(set(settings)) > 1 or clients[0].basis is not None:
        each = zip(settings, problems, guesses, strict=True)
        return [float(_distances(s, side_by_side([p], s), side_by_side([g], s))[0]) for s, p, g in each]
    fill = 2 ** math.ceil(math.log2(len(clients))) - len(clients)
    one = settings[0]
    found = _distances(
        one, side_by_side(problems + problems[-1:] * fill, one), side_by_side(guesses + guesses[-1:] * fill, one)
    )
    return np.asarray(found)[: len(clients)].tolist()


@partial(jax.jit, static_argnames=("setting",))
def _distances(setting: Setting, problems: Problem, guesses: Guess) -> Float[Array, " B"]:
    return jax.vmap(partial(hard_distance, setting), (axes(setting), 0))(problems, guesses)
