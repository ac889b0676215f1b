"""The one loop of all gradient-matching attacks: jitted scans over steps, mapped over restarts and clients."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.options import configured
from jgleak.attacks.matching.problem import SHARED, Problem, Setting, pose
from jgleak.attacks.matching.recipe import Recipe, State, answer, hard_distance, init, step
from jgleak.features import FeatureSpace
from jgleak.federated.observation import Knowledge, Observation
from jgleak.graph import Graph

STRIDE = 50
"""Steps between two looks at the clock and at which restarts are done."""

MEMORY = 2 << 30
"""Bytes that the states and derivatives of one compiled run may take, roughly."""

COPIES = 12
"""Arrays as large as the gradient that one member's second derivative keeps alive, roughly."""

Progress = Callable[[int, Float[np.ndarray, "B K"]], None]
"""Called after every stride with the steps made and the data terms of all clients and restarts."""


def matching(name: str, summary: str, recipe: Recipe, **fields: Any) -> Attack:
    """A registry entry that runs ``recipe`` in this loop; ``fields`` go to ``Attack``."""

    def configure(options: Mapping[str, str]) -> Attack:
        return matching(name, summary, configured(recipe, options), **fields)

    return Attack(
        name,
        summary,
        partial(invert, recipe),
        **({"needs": ("n",), "several": True} | fields),
        many=partial(invert_many, recipe),
        configure=configure,
    )


def invert(
    recipe: Recipe, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget
) -> Reconstruction:
    """Attack one client."""
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
      budget: ``seconds`` are granted for every client.
      progress: called after every ``STRIDE`` steps of a run.
      trace: keep every step's data term of every restart, ``(K, steps)``, in ``info["trace"]``.
    """
    prior = recipe.learn(observations, knowledges, jax.random.fold_in(keys[0], 1))
    posed = [
        pose(o, k, infer=recipe.infer_labels, n=recipe.dummy_nodes, prior=prior)
        for o, k in zip(observations, knowledges, strict=True)
    ]
    runs: dict[Any, list[int]] = defaultdict(list)
    for i, (setting, problem) in enumerate(posed):
        shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves((problem.update, problem.mask, problem.shares)))
        given = (problem.nodes is None, problem.adjacency is None)
        runs[setting, id(observations[i].params), id(knowledges[i].space), shapes, given].append(i)
    results: dict[int, Reconstruction] = {}
    for (setting, *_), members in runs.items():
        most = _together(recipe, posed[members[0]][1])
        for start in range(0, len(members), most):
            part = members[start : start + most]
            found = _run(
                recipe,
                setting,
                [posed[i][1] for i in part],
                [knowledges[i] for i in part],
                [keys[i] for i in part],
                budget,
                progress,
                trace,
            )
            results.update(zip(part, found, strict=True))
    return [results[i] for i in range(len(observations))]


def _together(recipe: Recipe, problem: Problem) -> int:
    """The power of two of clients that fit into ``MEMORY``."""
    floats = sum(np.size(leaf) for leaf in jax.tree.leaves(problem.update))
    slots = problem.mask.size * (problem.mask.shape[1] + problem.mean.size)
    fit = MEMORY / (4 * recipe.restarts * (COPIES * floats + 40 * problem.shares.shape[0] * slots))
    return max(1, 2 ** int(np.log2(max(fit, 1.0))))


def _run(
    recipe: Recipe,
    setting: Setting,
    problems: list[Problem],
    knowledges: list[Knowledge],
    keys: list[Array],
    budget: Budget,
    progress: Progress | None,
    trace: bool,
) -> list[Reconstruction]:
    begun, count = time.monotonic(), len(problems)
    filled = 2 ** int(np.ceil(np.log2(count)))
    together = _stack([*problems, *[problems[-1]] * (filled - count)])
    starts = jnp.stack([*keys, *[keys[-1]] * (filled - count)])
    states = _init(recipe, setting, together, starts)
    stop, history = "steps", []
    for made in range(0, recipe.steps, STRIDE):
        states, values = _advance(recipe, setting, together, states, length=min(STRIDE, recipe.steps - made))
        if trace:
            history.append(np.asarray(values))
        if progress is not None:
            progress(min(made + STRIDE, recipe.steps), np.asarray(states.value)[:count])
        if bool(jnp.all(states.done)):
            stop = "converged"
            break
        if time.monotonic() - begun > budget.seconds * count:
            stop = "time"
            break
    guesses, values = jax.device_get(_answers(recipe, setting, together, states))
    steps = np.asarray(states.step)
    curves = np.concatenate(history, axis=-1) if history else None
    chosen = [
        _choose(recipe, setting, problems[i], Guess(*(part[i] for part in guesses)), values[i]) for i in range(count)
    ]
    finished = [
        _round(recipe, setting, problem, knowledge.space, guess, np.asarray(jax.random.key_data(key)))
        for problem, knowledge, guess, key in zip(problems, knowledges, chosen, keys, strict=True)
    ]
    hard = [guess for _, _, guess in finished]
    distances = np.asarray(_distances(setting, together, _stack([*hard, *[hard[-1]] * (filled - count)])))
    seconds = (time.monotonic() - begun) / count
    return [
        Reconstruction(
            graphs=graphs,
            gradient_distance=float(distances[i]),
            stop="match" if distances[i] < 1e-4 else stop,
            adjacency=soft.adjacency,
            features=soft.nodes,
            info={
                "seconds_matching": seconds,
                "steps": int(steps[i].max()),
                "data_term": float(values[i].min()),
                "data_terms": values[i].tolist(),
                **({"trace": curves[i].tolist()} if curves is not None else {}),
            },
        )
        for i, (graphs, soft, _) in enumerate(finished)
    ]


@partial(jax.jit, static_argnames=("recipe", "setting"))
def _init(recipe: Recipe, setting: Setting, problems: Problem, keys: Array) -> State:
    def one(problem: Problem, key: Array) -> State:
        return jax.vmap(lambda k: init(recipe, setting, problem, key=k))(jax.random.split(key, recipe.restarts))

    return jax.vmap(one, (_axes(problems), 0))(problems, keys)


@partial(jax.jit, static_argnames=("recipe", "setting", "length"), donate_argnames=("states",))
def _advance(
    recipe: Recipe, setting: Setting, problems: Problem, states: State, *, length: int
) -> tuple[State, Float[Array, "B K length"]]:
    def one(problem: Problem, state: State) -> tuple[State, Array]:
        return jax.lax.scan(lambda s, _: step(recipe, setting, problem, s), state, None, length=length)

    return jax.vmap(jax.vmap(one, (None, 0)), (_axes(problems), 0))(problems, states)


@partial(jax.jit, static_argnames=("recipe", "setting"))
def _answers(recipe: Recipe, setting: Setting, problems: Problem, states: State) -> tuple[Guess, Array]:
    def one(problem: Problem, state: State) -> tuple[Guess, Array]:
        return answer(recipe, setting, problem, state)

    return jax.vmap(jax.vmap(one, (None, 0)), (_axes(problems), 0))(problems, states)


@partial(jax.jit, static_argnames=("setting",))
def _distances(setting: Setting, problems: Problem, guesses: Guess) -> Float[Array, " B"]:
    return jax.vmap(partial(hard_distance, setting), (_axes(problems), 0))(problems, guesses)


def _axes(problems: Problem) -> Any:
    """Where the clients lie in every field: in front, or nowhere in what they share."""
    axes = {f.name: None if f.name in SHARED else 0 for f in dataclasses.fields(Problem)}
    return Problem(**axes)


def _stack(parts: Sequence[Any]) -> Any:
    """Clients side by side; what they share is taken from the first."""
    if isinstance(parts[0], Problem):
        fields = {f.name: [getattr(p, f.name) for p in parts] for f in dataclasses.fields(Problem)}
        return Problem(**{k: v[0] if k in SHARED else _stack(v) for k, v in fields.items()})
    return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)


def _choose(
    recipe: Recipe, setting: Setting, problem: Problem, guesses: Guess, values: Float[np.ndarray, " K"]
) -> Guess:
    if recipe.combine is not None:
        guess = recipe.combine(setting, problem, guesses, values)
    else:
        guess = Guess(*(part[int(np.argmin(values))] for part in guesses))
    return guess if recipe.finish is None else recipe.finish(setting, problem, guess)


def _round(
    recipe: Recipe, setting: Setting, problem: Problem, space: FeatureSpace, guess: Guess, seed: np.ndarray
) -> tuple[tuple[Graph, ...], Guess, Guess]:
    """The graphs of a guess, the soft matrices to report (of one graph without the axis ``G``), and the hard guess."""
    rng = np.random.default_rng(seed)
    graphs, nodes, edges = [], np.zeros_like(guess.nodes), np.zeros_like(guess.adjacency)
    labels = np.array(guess.labels)
    if setting.loss != "mse":
        labels = np.eye(setting.model.classes, dtype=np.float32)[labels.argmax(axis=-1)]
    for g, mask in enumerate(problem.mask):
        n = int(np.asarray(mask).sum())
        hard = recipe.rounding(np.asarray(guess.adjacency[g, :n, :n]), rng)
        hard = np.maximum(hard, hard.T) * (1 - np.eye(n, dtype=np.float32))
        x = space.decode(np.nan_to_num(np.asarray(guess.nodes[g, :n])))
        nodes[g, :n], edges[g, :n, :n] = space.encode(x), hard
        graphs.append(Graph(x, np.argwhere(np.triu(hard, 1) > 0), _label(setting, labels[g], n)))
    n = int(np.asarray(problem.mask[0]).sum())
    cut = Guess(guess.nodes[:, :n], (edges if recipe.hard else guess.adjacency)[:, :n, :n], guess.labels)
    return tuple(graphs), cut if len(graphs) > 1 else Guess(*(part[0] for part in cut)), Guess(nodes, edges, labels)


def _label(setting: Setting, label: np.ndarray, n: int) -> Any:
    if setting.loss == "mse":
        return label[:n] if setting.model.node_level else float(label)
    return label[:n].argmax(axis=-1) if setting.model.node_level else int(label.argmax())
