"""A gradient-matching attack as data: how it starts, relaxes, compares and steps. ``loop.py`` runs it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import logit
from jaxtyping import Array, Bool, Float, Int

from jgleak.attacks import relaxations
from jgleak.attacks.matching.objectives import Guess, Objective, distance, gradients, squared
from jgleak.attacks.matching.problem import REPLAYS, Problem, Setting
from jgleak.attacks.matching.reduction import Reduction
from jgleak.attacks.matching.starts import Start, Variables
from jgleak.attacks.public.training import PublicTraining
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.gnn.dropout import MASKS
from jgleak.pytree import pytree


@pytree
@dataclasses.dataclass(frozen=True)
class State:
    """One restart on one client.

    Attributes:
      variables: where it is.
      memory: the optimiser's.
      best: the variables of the smallest data term so far.
      value: that data term.
      step: steps made.
      done: it has reached the target or what noise explains, made all steps, or its numbers stopped being finite; it
        stays where it is.
    """

    variables: Variables
    memory: Any
    best: Variables
    value: Float[Array, ""]
    step: Int[Array, ""]
    done: Bool[Array, ""]


MASKINGS = ("searched", "averaged", "none")
"""What a search may do about dropout."""

KEEPS = ("best", "last")
"""Which variables of a restart are its answer."""


def _no_penalty(setting: Setting, guess: Guess, step: Int[Array, ""]) -> Float[Array, ""]:
    return jnp.zeros(())


def _anywhere(setting: Setting, problem: Problem, variables: Variables) -> Variables:
    return variables


def _nothing(observations: Sequence[Observation], knowledges: Sequence[Knowledge], training: Any) -> None:
    return None


def threshold(adjacency: Float[np.ndarray, "n n"], rng: np.random.Generator) -> Float[np.ndarray, "n n"]:
    """Edges where the soft adjacency reaches 0.5."""
    return (adjacency >= 0.5).astype(np.float32)


def sampled(adjacency: Float[np.ndarray, "n n"], rng: np.random.Generator) -> Float[np.ndarray, "n n"]:
    """Every edge with its entry as the chance, one toss a pair (GLG, algorithms 2 and 3)."""
    return np.triu(rng.random(adjacency.shape) < adjacency).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything that sets one gradient-matching attack apart from another.

    The functions are pure and see one client: the loop compiles them once, and maps them over restarts and clients.
    One that has numbers of its own is a frozen dataclass that can be called; users may set its fields (``--option``).

    Attributes:
      start: variables of one restart, from a key.
      relax: variables to the relaxed graph that the model is shown, at a step.
      objective: the data term.
      penalty: what is added to it.
      project: applied to the variables after each step.
      optimiser: from a learning rate to an optax transformation; L-BFGS gets the value and the function as well.
      lr: the learning rate.
      steps: how many.
      restarts: how many starts, side by side.
      target: a data term below this ends a restart; a negative one never does.
      keep: which variables of a restart are its answer, a name of ``KEEPS``: its ``best``, or its ``last`` (where the
        relaxation tightens as it goes).
      combine: restarts to one answer, on the host; by default the one with the smallest data term.
      rounding: soft edges to 0/1 edges, on the host.
      hard: report the rounded adjacency as the soft one too ("+BP", binary projection).
      infer_labels: take the labels from the gradient's signs (iDLG); they are searched for otherwise.
      learn: trains on public graphs, once for all clients that share them; the result is ``Problem.prior``.
      training: how it does (its last argument); None where nothing is trained, or nothing of it is to be set.
      finish: soft nodes and edges of the answer, refined by what was learnt, on the host.
      dummy: edges of the dummy graphs, where the attack does not search for the client's own.
      latent: the start's variables are the recipe's own (a latent vector), so that no other start fits them.
      reduce: search along the feature directions that the gradient shows (features must be free), and how these are
        told from rounding; None: in all columns.
      cautious: end a restart where the update's known noise explains what is left (the discrepancy principle), so that
        what the start says is given up only for what the gradient says for sure; under ``squared`` only.
      masks: of a client that trains with dropout, a name of ``MASKINGS``: its masks are searched for beside the graph
        (Scheliga et al. 2023), from evaluation mode on; or a guess's gradient is the mean over some draws, the same
        ones all along; or it is that of evaluation mode.
      draws: how many.
      replay: of a client that makes several local steps, a name of ``problem.REPLAYS``.

    Raises:
      ValueError: an unknown word, a count below 1, or a rate or target that is no finite number.
      TypeError: a function that cannot be called.
    """

    start: Start
    relax: Callable[[Setting, Problem, Variables, Int[Array, ""]], Guess]
    objective: Objective = squared
    penalty: Callable[[Setting, Guess, Int[Array, ""]], Float[Array, ""]] = _no_penalty
    project: Callable[[Setting, Problem, Variables], Variables] = _anywhere
    optimiser: Callable[[float], Any] = optax.adam
    lr: float = 0.1
    steps: int = 500
    restarts: int = 1
    target: float = 1e-9
    keep: str = "best"
    combine: Callable[[Setting, Problem, Guess, Float[np.ndarray, " K"]], Guess] | None = None
    rounding: Callable[[Float[np.ndarray, "n n"], np.random.Generator], Float[np.ndarray, "n n"]] = threshold
    hard: bool = False
    infer_labels: bool = True
    learn: Callable[[Sequence[Observation], Sequence[Knowledge], Any], Any] = _nothing
    training: PublicTraining | None = None
    finish: Callable[[Setting, Problem, Guess], Guess] | None = None
    dummy: Callable[[], Float[np.ndarray, "n n"]] | None = None
    latent: bool = False
    reduce: Reduction | None = None
    cautious: bool = False
    masks: str = "searched"
    draws: int = 8
    replay: str = "steps"

    def __post_init__(self) -> None:
        for field, words in (("keep", KEEPS), ("masks", MASKINGS), ("replay", REPLAYS)):
            if getattr(self, field) not in words:
                raise ValueError(f"{field}: expected one of {', '.join(words)}, got {getattr(self, field)!r}")
        for field in ("steps", "restarts", "draws"):
            count = getattr(self, field)
            if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
                raise ValueError(f"{field}: expected a whole number from 1, got {count!r}")
        for field in ("lr", "target"):
            number = getattr(self, field)
            if not isinstance(number, Real) or not math.isfinite(number):
                raise ValueError(f"{field}: expected a finite number, got {number!r}")
        for field in (*_FUNCTIONS, *(name for name in _WITHOUT if getattr(self, name) is not None)):
            if not callable(getattr(self, field)):
                raise TypeError(f"{field}: expected a function, got {getattr(self, field)!r:.60}")


_FUNCTIONS = ("start", "relax", "objective", "penalty", "project", "optimiser", "rounding", "learn")
"""The fields of a recipe that hold functions, without which it cannot do."""

_WITHOUT = ("combine", "finish", "dummy")
"""Those that may be None."""


def on_device(recipe: Recipe) -> Recipe:
    """The part of a recipe that is compiled: attacks that differ on the host alone share their functions."""
    return dataclasses.replace(
        recipe,
        combine=None,
        rounding=threshold,
        hard=False,
        learn=_nothing,
        training=None,
        finish=None,
        dummy=None,
        cautious=False,
        draws=1,
        replay="steps",
    )


def init(recipe: Recipe, setting: Setting, problem: Problem, *, key: Array) -> State:
    """The state of one restart before its first step."""
    variables = recipe.project(setting, problem, recipe.start(setting, problem, key))
    if recipe.masks == "searched" and setting.model.drops:
        variables["masks"] = jax.tree.map(jnp.zeros_like, _chances(setting, problem))
    memory = recipe.optimiser(recipe.lr).init(variables)
    variables, memory = jax.tree.map(_strong, (variables, memory))
    return State(
        variables=variables,
        memory=memory,
        best=variables,
        value=jnp.full((), jnp.inf, jnp.float32),
        step=jnp.zeros((), jnp.int32),
        done=jnp.zeros((), bool),
    )


def _strong(part: Any) -> Array:
    """Of the type that a step leaves it in: a weak one would compile the second stride again."""
    return jnp.array(part, jnp.asarray(part).dtype)


def step(recipe: Recipe, setting: Setting, problem: Problem, state: State) -> tuple[State, Float[Array, ""]]:
    """One step, and the data term before it."""

    def total(variables: Variables) -> tuple[Float[Array, ""], Float[Array, ""]]:
        guess = relaxed(recipe, setting, problem, variables, state.step)
        data = recipe.objective(gradients(setting, problem, guess), problem.update)
        return data + recipe.penalty(setting, guess, state.step), data

    (value, data), slope = jax.value_and_grad(total, has_aux=True)(state.variables)
    optimiser = optax.with_extra_args_support(recipe.optimiser(recipe.lr))
    change, memory = optimiser.update(
        slope, state.memory, state.variables, value=value, grad=slope, value_fn=lambda v: total(v)[0]
    )
    stepped: Any = optax.apply_updates(state.variables, change)
    moved = recipe.project(setting, problem, stepped)
    sound = jnp.isfinite(value) & _finite(slope, moved)
    better = sound & (data < state.value) & ~state.done
    stay = state.done | ~sound | (data < jnp.maximum(recipe.target, problem.explained))
    return State(
        variables=_choose(stay, state.variables, moved),
        memory=_choose(stay, state.memory, memory),
        best=_choose(better, state.variables, state.best),
        value=jnp.where(better, data, state.value),
        step=state.step + ~stay,
        done=stay | (state.step + 1 >= recipe.steps),
    ), data


def relaxed(recipe: Recipe, setting: Setting, problem: Problem, variables: Variables, step: Int[Array, ""]) -> Guess:
    """What the model is shown; degrees that features state and known edges tell are set, not searched for.

    Masks of dropout go through a sigmoid, from their chances on, of which all are kept in evaluation mode.
    """
    guess = recipe.relax(setting, problem, variables, step)
    if "masks" in variables:
        chances = _chances(setting, problem)
        shown = jax.tree.map(lambda v, kept: jax.nn.sigmoid(v + logit(kept)), variables["masks"], chances)
        guess = guess._replace(masks=shown)
    if setting.degree_column is None or problem.degrees is None:
        return guess
    columns = slice(setting.degree_column, setting.degree_column + problem.degrees.shape[-1])
    return guess._replace(nodes=guess.nodes.at[..., columns].set(problem.degrees))


def _chances(setting: Setting, problem: Problem) -> Any:
    """Every entry's chance to be kept by dropout: a tree like the masks of the client's graphs."""
    slots, classes = problem.mask.shape[1], setting.model.edge_classes

    def one(mask: Bool[Array, " N"]) -> Any:
        edges = jnp.zeros((slots, slots, *((classes,) if classes else ())))
        blank = jnp.zeros((slots, setting.model.in_features)), edges, mask
        return setting.model.apply({"params": problem.params}, *blank, mutable=[MASKS])[1][MASKS]

    return jax.vmap(one)(jnp.asarray(problem.mask))


def answer(recipe: Recipe, setting: Setting, problem: Problem, state: State) -> tuple[Guess, Float[Array, ""]]:
    """The relaxed graph a restart ends with, and its data term (infinite where that is not finite)."""
    guess = relaxed(recipe, setting, problem, state.best if recipe.keep == "best" else state.variables, state.step)
    value = recipe.objective(gradients(setting, problem, guess), problem.update)
    return guess, jnp.where(jnp.isfinite(value), value, jnp.inf)


def hard_distance(setting: Setting, problem: Problem, guess: Guess) -> Float[Array, ""]:
    """The relative gradient distance of a finished guess."""
    return distance(gradients(setting, problem, guess), problem.update)


def relaxed_labels(setting: Setting, problem: Problem, variables: Variables) -> Array:
    """Known labels, or the softmax of the logits searched for."""
    if problem.labels is not None:
        return jnp.asarray(problem.labels)
    return variables["labels"] if setting.loss == "mse" else jax.nn.softmax(variables["labels"])


def relax_free(setting: Setting, problem: Problem, variables: Variables, step: Int[Array, ""]) -> Guess:
    """Features as they are, edges through a sigmoid."""
    return Guess(
        known_or(problem.nodes, lambda: jnp.where(problem.mask[..., None], variables["nodes"], 0.0)),
        known_or(problem.adjacency, lambda: relaxations.sigmoid_edges(variables["adjacency"], problem.mask)),
        relaxed_labels(setting, problem, variables),
    )


def relax_structured(setting: Setting, problem: Problem, variables: Variables, step: Int[Array, ""]) -> Guess:
    """Features through a softmax a feature, edges through a sigmoid."""

    def nodes() -> Array:
        raw = relaxations.softmax_features(variables["nodes"], setting.groups)
        return relaxations.encode(raw, problem.mean, problem.scale, problem.mask)

    return relax_free(setting, dataclasses.replace(problem, nodes=known_or(problem.nodes, nodes)), variables, step)


def known_or(known: Any, otherwise: Callable[[], Array]) -> Array:
    """What is known, or else what ``otherwise`` makes."""
    return otherwise() if known is None else jnp.asarray(known)


def _finite(slope: Any, moved: Any) -> Bool[Array, ""]:
    """Every number of two like trees, in one pass over both."""
    both = jax.tree.map(lambda a, b: jnp.all(jnp.isfinite(a) & jnp.isfinite(b)), slope, moved)
    return jax.tree.reduce(jnp.logical_and, both, jnp.asarray(True))


def _choose(first: Bool[Array, ""], yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), yes, no)
