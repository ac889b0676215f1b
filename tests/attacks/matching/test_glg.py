"""GLG's penalties, and its node attacker 1: what the loss of one node tells of its features, and what it cannot."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import optax
import pytest

from jgleak.attacks.attack import Attack
from jgleak.attacks.matching import glg
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.problem import pose
from jgleak.attacks.matching.recipe import Recipe, init, step
from jgleak.audit.experiment import run
from jgleak.audit.specification import Specification
from jgleak.datasets.catalogue import load
from jgleak.federated import Knowledge

SPECIFICATION = Specification(
    dataset="synthetic-glg",
    graphs=2,
    min_nodes=12,
    max_nodes=12,
    hidden=40,
    activation="sigmoid",
    last_activation=True,
    bias=True,
    loss="ce",
    normalise=False,
    readout="node_scores",
    node_task=True,
    protocol="target_node",
    attack="glg-node-1",
    options=(("steps", "600"),),
)


def errors(model: str) -> list[float]:
    found = [unit.target_error for unit in run(dataclasses.replace(SPECIFICATION, model=model))]
    return [error for error in found if error is not None]


def least_errors() -> list[float]:
    """Of a GCN's target: the expected RNMSE of the best estimate from all that the two layers mix.

    The gradients depend on features through the mixed rows ``S_j X`` of the target's closed neighbourhood alone. Of
    independent standard normal features, ``c`` being the target's column of these rows ``R``, the best estimate from
    rows and edges has the variance ``1 - cᵀ (R Rᵀ)⁺ c`` an entry.
    """
    deviations = []
    for graph in load("synthetic-glg", task="node", graphs=2, min_nodes=12, max_nodes=12).graphs:
        closed = np.eye(graph.n)
        closed[tuple(graph.edges.T)] = closed[tuple(graph.edges.T[::-1])] = 1.0
        mixing = closed / np.sqrt(np.outer(closed.sum(axis=1), closed.sum(axis=1)))
        rows = mixing[closed[0] > 0]
        deviations.append(np.sqrt(1.0 - rows[:, 0] @ np.linalg.pinv(rows @ rows.T) @ rows[:, 0]))
    return deviations


@pytest.mark.long
def test_a_graphsage_target_comes_back() -> None:
    assert len(found := errors("sage")) == 2 and max(found) < 0.1


@pytest.mark.long
def test_a_gcn_target_is_hidden_among_its_neighbours() -> None:
    """No attack is nearer than the best estimate, which knows more; one that were would have seen the truth."""
    assert np.mean(errors("gcn")) > 0.9 * np.mean(least_errors()) > 0.5


def published(x: np.ndarray, values: np.ndarray) -> float:
    """``1e-9 tr(Xᵀ L X) + 1e-7 |A|²`` of the symmetric part ``A`` of some values, ``L`` being networkx's Laplacian."""
    edges = (values + values.T) / 2
    laplacian = nx.normalized_laplacian_matrix(nx.from_numpy_array(edges)).toarray()
    return 1e-9 * float(np.trace(x.T @ laplacian @ x)) + 1e-7 * float(np.sum(edges**2))


def slope(x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Central differences of ``published`` in every feature and in every pair of different nodes."""
    found = np.zeros_like(x), np.zeros_like(values)
    for which, whole in enumerate((x, values)):
        for place in np.ndindex(whole.shape):
            if which and place[0] == place[1]:
                continue
            ends = []
            for sign in (1, -1):
                moved = [x.copy(), values.copy()]
                moved[which][place] += sign * 1e-4
                ends.append(published(*moved))
            found[which][place] = (ends[0] - ends[1]) / 2e-4
    return found


@pytest.mark.parametrize(
    ("attack", "weight"),
    [pytest.param(a, w, id=a.name) for a, w in ((glg.GLG_GRAPH, 1), (glg.GLG_NODE_2, 1), (glg.GLG_NODE_1, 0))],
)
def test_a_search_is_drawn_by_the_published_penalties(attack: Attack, weight: int, lab: Any) -> None:
    """Where all gradients match, a step follows the derivative of equation 14's other terms (node attacker 1: none)."""
    n, rate, rng = 5, 1e5, np.random.default_rng(0)
    observation = lab.observe(lab.model(hidden=8, layers=1, readout="pooled", readout_widths=()), lab.ring([0] * n))
    setting, problem = pose(observation, Knowledge(lab.space, n=n), infer=True)
    many: Any = attack.many
    recipe: Recipe = dataclasses.replace(
        many.args[0], objective=lambda found, seen: jnp.zeros(()), target=-1.0, optimiser=optax.sgd, lr=rate
    )
    x, edges = 10 * rng.normal(size=(n, lab.space.width)), np.triu(rng.uniform(0.3, 0.7, (n, n)), 1)
    edges += edges.T
    state = init(recipe, setting, problem, key=jax.random.key(0))
    padded = {name: np.zeros(state.variables[name].shape, np.float32) for name in ("nodes", "adjacency")}
    padded["nodes"][0, :n], padded["adjacency"][0, :n, :n] = x, edges
    begun = dataclasses.replace(state, variables=jax.tree.map(jnp.asarray, padded))
    moved = jax.jit(partial(step, recipe, setting))(problem, begun)[0].variables
    for name, before, down in zip(("nodes", "adjacency"), (x, edges), slope(x, edges), strict=True):
        after = np.asarray(moved[name])[0, :n, : before.shape[1]]
        assert np.abs(rate * down).mean() > 1e-4
        np.testing.assert_allclose(before - after, weight * rate * down, rtol=1e-2, atol=1e-5)


@pytest.mark.usefixtures("unchecked")  # neither labels nor a setting are looked at
def test_penalties_have_the_published_weights(lab: Any) -> None:
    """Section 5's, on a soft graph."""
    rng = np.random.default_rng(1)
    x, edges = 10 * rng.normal(size=(6, 4)), np.triu(rng.uniform(size=(6, 6)), 1)
    edges += edges.T
    nodes, adjacency = (jnp.asarray(part[None], jnp.float32) for part in (x, edges))
    nothing: Any = None
    found = glg.Penalty()(nothing, Guess(nodes, adjacency, nothing), jnp.asarray(7))
    assert float(found) == pytest.approx(published(x, edges), rel=1e-4)


@pytest.mark.parametrize("degree", [1, 2, 3, 10])
def test_the_dummy_of_node_attacker_1_is_a_balanced_tree_of_depth_two(degree: int) -> None:
    np.testing.assert_array_equal(glg.Tree(degree)(), nx.to_numpy_array(nx.balanced_tree(degree, 2)))
