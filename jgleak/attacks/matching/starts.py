"""Where a search begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jgleak.attacks.matching.problem import Problem, Setting
from jgleak.attacks.options import from_zero
from jgleak.federated.loss import Loss

Variables = dict[str, Any]
"""What is searched for: ``nodes (G, N, m)``, ``adjacency (G, N, N)``, ``labels (G, ...)`` as far as unknown, and
whatever a recipe adds (a latent vector, embeddings); ``masks`` of dropout, a tree of logits beside their chances."""

Start = Callable[[Setting, Problem, Array], Variables]


def normal(setting: Setting, problem: Problem, key: Array) -> Variables:
    """Standard normal variables for all that is unknown (DLG)."""
    graphs, slots = problem.mask.shape
    keys = jax.random.split(key, 3)
    variables = {}
    if problem.nodes is None:
        variables["nodes"] = jax.random.normal(keys[0], (graphs, slots, problem.mean.size))
    if problem.adjacency is None:
        variables["adjacency"] = jax.random.normal(keys[1], (graphs, slots, slots))
    return variables | labels(setting, problem, keys[2])


def labels(setting: Setting, problem: Problem, key: Array) -> Variables:
    """Standard normal logits (or targets) for labels that are unknown."""
    if setting.labels_known:
        return {}
    shape = problem.mask.shape if setting.model.node_level else problem.mask.shape[:1]
    classes = Loss.of(setting.loss).classes(setting.model.outputs)
    return {"labels": jax.random.normal(key, shape if setting.loss == "mse" else (*shape, classes))}


def bernoulli(setting: Setting, problem: Problem, key: Array) -> Variables:
    """Standard normal features, and edges that are there with probability a half (GLG, section 5)."""
    variables = normal(setting, problem, key)
    if "adjacency" in variables:
        tossed = jax.random.bernoulli(jax.random.fold_in(key, 1), 0.5, variables["adjacency"].shape)
        variables["adjacency"] = tossed.astype(jnp.float32)
    return variables


@dataclasses.dataclass(frozen=True)
class Sparse:
    """Small normal features and every edge a little: near the sparse graphs that are looked for.

    Attributes:
      start_edge: of every edge: about the density of a sparse graph of a hundred nodes.
    """

    start_edge: float = from_zero(0.05)

    def __call__(self, setting: Setting, problem: Problem, key: Array) -> Variables:
        variables = normal(setting, problem, key)
        small = {"nodes": lambda v: 0.1 * v, "adjacency": lambda v: jnp.full(v.shape, self.start_edge)}
        return {name: small[name](v) if name in small else v for name, v in variables.items()}


def at(value: float, setting: Setting, problem: Problem, key: Array) -> Variables:
    """All features and edges at one value (GLG, appendix F.3, "the effect of initialization")."""
    variables = normal(setting, problem, key)
    return {name: v if name == "labels" else jnp.full(v.shape, value) for name, v in variables.items()}


@dataclasses.dataclass(frozen=True)
class Frequent:
    """Logits near the public frequencies of every feature's values, for relaxations by softmax.

    The server has the frequencies: they are what the feature space subtracts. A random mixture instead has a little of
    every rare value, which standardising makes large: on Tox21 its gradients are twenty times as long as a client's.

    Attributes:
      start_spread: deviation of logits around the public frequencies.
      start_rarest: no value of a feature starts as less likely than this.
    """

    start_spread: float = from_zero(0.3)
    start_rarest: float = 1e-3

    def __call__(self, setting: Setting, problem: Problem, key: Array) -> Variables:
        variables = normal(setting, problem, key)
        if "nodes" not in variables:
            return variables
        drawn, mean, scale, rarest = variables["nodes"], problem.mean, problem.scale, self.start_rarest
        odds = jnp.clip(mean, rarest, 1 - rarest)
        onehot = jnp.log(jnp.maximum(mean, rarest)) + self.start_spread * drawn
        binary = jnp.where(mean > 0, jnp.log(odds) - jnp.log1p(-odds), 0.0) + self.start_spread * drawn
        other = mean + drawn / jnp.where(scale > 0, scale, 1.0)
        kinds = np.repeat([group.kind for group in setting.groups], [group.columns for group in setting.groups])
        # by column, not feature by feature: XLA takes minutes for the parts of thousands of words
        return variables | {"nodes": jnp.select([kinds == "onehot", kinds == "binary"], [onehot, binary], other)}


NAMED: dict[str, Start] = {"normal": normal, "bernoulli": bernoulli, "sparse": Sparse()}


def named(text: str) -> Start:
    """A start by its name, or ``at`` the number that ``text`` is.

    Raises:
      ValueError: neither a name nor a number.
    """
    if text in NAMED:
        return NAMED[text]
    try:
        return _at(float(text))
    except ValueError:
        raise ValueError(f"option 'init': expected a number or one of {', '.join(NAMED)}, got {text!r}") from None


@cache
def _at(value: float) -> Start:
    """The same object for the same value, so that nothing compiles twice."""
    return partial(at, value)
