"""One compiled run: clients and restarts side by side, dealt to the cores of a CPU."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.problem import Problem, Setting, shared
from jgleak.attacks.matching.recipe import Recipe, State, answer, init, step
from jgleak.pytree import filled

STRIDE = 50
"""Most steps between two looks at the clock and at which restarts are done; a compiled shape."""

CACHED = 32
"""Members that a core of a CPU steps together: more of them leave its cache between two operations."""


class MatchingRun:
    """All restarts of all clients of one setting, advanced together.

    A CPU runs the many small operations of a step on one core each, one after another. So there the clients are dealt
    to as many lanes as there are cores, a thread each, and a lane steps few at a time (``CACHED``); on an accelerator
    one lane has them all.

    Args:
      recipe: the attack, its compiled part.
      setting: what the clients have in common.
      problems: the clients; their number is a power of two, so that few shapes compile.
      keys: one a client.
    """

    def __init__(self, recipe: Recipe, setting: Setting, problems: Sequence[Problem], keys: Sequence[Array]) -> None:
        self.recipe, self.setting = recipe, setting
        self._lanes = lanes(len(problems))
        size = piece(len(problems), recipe.restarts)
        parts = [slice(start, start + size) for start in range(0, len(problems), size)]
        self._problems = [jax.device_put(side_by_side(problems[part], setting)) for part in parts]
        drawn = [jnp.stack(keys[part]) for part in parts]
        self._states = [begin(recipe, setting, *part) for part in zip(self._problems, drawn, strict=True)]
        self._resting: list[Float[np.ndarray, "b K 1"] | None] = [None] * len(parts)
        self._compiled = False

    def advance(self, steps: int = STRIDE) -> Float[np.ndarray, "B K S"]:
        """Some steps, and the data terms before each. Pieces that are done rest: nothing moves there any more.

        Raises:
          ValueError: the steps are not 1 to ``STRIDE``.
        """
        if not 1 <= steps <= STRIDE:
            raise ValueError(f"steps: expected 1 to {STRIDE}, got {steps}")
        rest = range(1, len(self._states))
        first = [] if self._compiled else [self._advance(steps, 0)]  # one thread compiles
        with ThreadPoolExecutor(self._lanes) as pool:
            others = rest if first else range(len(self._states))
            values = [*first, *pool.map(partial(self._advance, steps), others)]
        self._compiled = True
        return np.concatenate(values)

    def _advance(self, steps: int, number: int) -> Float[np.ndarray, "b K S"]:
        last = self._resting[number]
        if last is not None:
            return np.repeat(last, steps, axis=-1)
        run = whole_stride if whole_strides() else advance
        states, values = run(self.recipe, self.setting, self._problems[number], self._states[number], steps)
        self._states[number], values = states, np.asarray(values)[..., :steps]
        if bool(jnp.all(states.done)):
            self._resting[number] = np.asarray(values[..., -1:])
        return values

    @property
    def done(self) -> bool:
        """Every restart stays where it is."""
        return all(last is not None for last in self._resting)

    @property
    def steps(self) -> Int[np.ndarray, "B K"]:
        """Steps made."""
        return np.concatenate([np.asarray(states.step) for states in self._states])

    @property
    def values(self) -> Float[np.ndarray, "B K"]:
        """The smallest data terms so far."""
        return np.concatenate([np.asarray(states.value) for states in self._states])

    def answers(self) -> tuple[Guess, Float[np.ndarray, "B K"]]:
        """What every restart ends with, and its data term."""
        ended = zip(self._problems, self._states, strict=True)
        found = jax.device_get([_answers(self.recipe, self.setting, *part) for part in ended])
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)


def lanes(clients: int) -> int:
    """Threads that share a run of so many clients (a power of two)."""
    if jax.default_backend() != "cpu":
        return 1
    cores = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    return min(clients, 2 ** (cores.bit_length() - 1))


def piece(clients: int, restarts: int) -> int:
    """How many of so many clients (a power of two) are one compiled piece."""
    each = clients // lanes(clients)
    if jax.default_backend() != "cpu":
        return each
    return min(each, 2 ** (max(CACHED // restarts, 1).bit_length() - 1))


@partial(jax.jit, static_argnames=("recipe", "setting"))
def begin(recipe: Recipe, setting: Setting, problems: Problem, keys: Array) -> State:
    """The first states ``(B, K, ..)`` of all clients and restarts."""

    def one(problem: Problem, key: Array) -> State:
        return jax.vmap(lambda k: init(recipe, setting, problem, key=k))(jax.random.split(key, recipe.restarts))

    return jax.vmap(one, (axes(setting), 0))(problems, keys)


ONE_CORE: Any = {"xla_cpu_multi_thread_eigen": False}
"""A CPU's lanes take a core each; products dealt to all cores would wait for each other (other devices ignore it)."""


def whole_strides() -> bool:
    """Whether every stride has ``STRIDE`` steps, a number that is compiled. Where it is not, an accelerator asks the
    host before each step whether there is another."""
    return jax.default_backend() != "cpu"


def _advance(
    recipe: Recipe, setting: Setting, problems: Problem, states: State, steps: Int[Array, ""] | int
) -> tuple[State, Float[Array, "B K stride"]]:
    """So many steps of all clients and restarts, at most ``STRIDE``, and their data terms, zeros behind them."""

    def one(problem: Problem, state: State) -> tuple[State, Array]:
        def body(i: Int[Array, ""], so_far: tuple[State, Array]) -> tuple[State, Array]:
            state, data = step(recipe, setting, problem, so_far[0])
            return state, so_far[1].at[i].set(data)

        return jax.lax.fori_loop(0, steps, body, (state, jnp.zeros(STRIDE, state.value.dtype)))

    return jax.vmap(jax.vmap(one, (None, 0)), (axes(setting), 0))(problems, states)


_COMPILED: Any = {"donate_argnames": ("states",), "compiler_options": ONE_CORE}
advance = jax.jit(_advance, static_argnames=("recipe", "setting"), **_COMPILED)
whole_stride = jax.jit(_advance, static_argnames=("recipe", "setting", "steps"), **_COMPILED)


def compilations_of_the_loop() -> int:
    """How many shapes the loop's stepping has been compiled for in this process."""
    compiled: Any = advance  # JAX counts by function, so this is also of ``whole_stride``
    return compiled._cache_size()


@partial(jax.jit, static_argnames=("recipe", "setting"))
def _answers(recipe: Recipe, setting: Setting, problems: Problem, states: State) -> tuple[Guess, Array]:
    def one(problem: Problem, state: State) -> tuple[Guess, Array]:
        return answer(recipe, setting, problem, state)

    return jax.vmap(jax.vmap(one, (None, 0)), (axes(setting), 0))(problems, states)


def axes(setting: Setting) -> Any:
    """Where the clients lie in every field of ``Problem``: in front, or nowhere in what they share."""
    fields = [f.name for f in dataclasses.fields(Problem)]
    axes: dict[str, Any] = {name: None if name in shared(setting) else 0 for name in fields}
    return filled(Problem, axes)


def side_by_side(parts: Sequence[Any], setting: Setting) -> Any:
    """Problems (or other pytrees) of several clients as one, ``B`` in front; what clients share is the first's."""
    if isinstance(parts[0], Problem):
        fields = {f.name: [getattr(p, f.name) for p in parts] for f in dataclasses.fields(Problem)}
        together = {k: v[0] if k in shared(setting) else side_by_side(v, setting) for k, v in fields.items()}
        return filled(Problem, together)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)
