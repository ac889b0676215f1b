"""FedGIG: its sparse binary edges, where its limits come from, and that its ablations leave out what they say."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.attack import Attack, Reconstruction
from jgleak.attacks.fedgig import fedgig
from jgleak.attacks.matching.options import configured, settings
from jgleak.attacks.matching.problem import Problem, Setting, pose
from jgleak.attacks.matching.starts import normal
from jgleak.attacks.relaxations import sparsest
from jgleak.federated import Knowledge
from jgleak.graph import Graph


@pytest.fixture(scope="module")
def truth(lab: Any) -> Graph:
    return lab.graph([0, 1, 2, 3, 0, 1], [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5)])


@pytest.fixture(scope="module")
def found(lab: Any, truth: Graph) -> dict[str, Reconstruction]:
    """What each entry makes of one client whose features are known."""
    model = lab.model(hidden=32, readout="pooled", readout_widths=())
    auxiliary = tuple(lab.random(7, seed) for seed in range(8))
    knowledge = Knowledge(lab.space, features=truth.x, max_degree=2, auxiliary=auxiliary)
    observation = lab.observe(model, truth, loss="ce")

    def run(attack: Attack) -> Reconstruction:
        brief = {"training_steps": "20"} if attack is fedgig.FEDGIG else {}
        return attack.with_options({"steps": "300"} | brief)(observation, knowledge, key=jax.random.key(0))

    return {a.name: run(a) for a in (fedgig.FEDGIG, fedgig.FEDGIG_NO_AUTOENCODER)}  # the same compiled functions


def test_the_top_entries_of_every_row_remain() -> None:
    edges = np.array([[0, 0.9, 0.8, 0.7], [0.9, 0, 0.4, 0.2], [0.8, 0.4, 0, 0.1], [0.7, 0.2, 0.1, 0]], np.float32)
    one = np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_array_equal(sparsest(jnp.asarray(edges), jnp.asarray(1.0)), one)
    np.testing.assert_array_equal(sparsest(jnp.asarray(edges), jnp.asarray(9.0), 0.75)[0], [0, 1, 1, 0])


def test_the_derivative_passes_through() -> None:
    edges = jnp.asarray(np.random.default_rng(0).random((5, 5)), jnp.float32)
    weights = jnp.arange(25.0).reshape(5, 5)
    slope = jax.grad(lambda e: jnp.sum(weights * sparsest(e, jnp.asarray(2.0))))(edges)
    np.testing.assert_allclose(slope, weights, rtol=1e-6)


def test_edges_are_binary_sparse_and_symmetric_without_the_autoencoder(found: dict[str, Reconstruction]) -> None:
    edges = found["fedgig-no-autoencoder"].adjacency
    assert edges is not None and set(np.unique(edges)) <= {0.0, 1.0}
    np.testing.assert_array_equal(edges, edges.T)
    assert not edges.diagonal().any()
    assert edges.sum() <= 2 * 2 * len(edges)  # every row keeps two, and an edge may stay for its other end


def test_the_autoencoder_softens_what_was_found(found: dict[str, Reconstruction]) -> None:
    full, bare = found["fedgig"].adjacency, found["fedgig-no-autoencoder"].adjacency
    assert full is not None and bare is not None and not np.allclose(full, bare)
    assert 0 < full.max() < 1
    np.testing.assert_allclose(full, full.T, atol=1e-6)


def test_without_the_constraint_edges_are_soft(lab: Any, truth: Graph) -> None:
    setting, problem = _posed(lab, truth, Knowledge(lab.space, n=6))
    values = jax.jit(partial(normal, setting))(problem, jax.random.key(0))
    step = jnp.asarray(500)
    sparse, free = (jax.jit(partial(relax, setting)) for relax in (fedgig.Sparsest(), fedgig.WITHOUT_CONSTRAINT.relax))
    guess = sparse(problem, values, step)
    hard = guess.adjacency[0]
    soft = free(problem, values, step).adjacency[0]
    assert set(np.unique(hard)) <= {0.0, 1.0}
    assert np.unique(soft).size > 10
    penalty = fedgig.Penalty(2e-3)
    assert float(penalty(setting, guess, step)) == pytest.approx(2e-3 * float(hard.sum()), rel=1e-5)
    assert fedgig.WITHOUT_CONSTRAINT.penalty(setting, guess, step) == 0


def test_fewer_edges_of_a_node_remain_at_every_step_until_n_max(lab: Any) -> None:
    """Equation 5 with the paper's rate: ``n(t) = max(n_0 - .15 t, n_max)``, read off the rows that relaxation keeps.

    Every edge is more likely than not, and node 0's are the least likely ones of their other ends: these would keep
    one only if they kept all of theirs, so that node 0 has exactly its own ``n(t)``.
    """
    n, most = 40, 3
    setting, problem = _posed(lab, lab.ring([0] * n), Knowledge(lab.space, n=n))
    values = np.triu(np.random.default_rng(0).uniform(1.0, 2.0, (n, n)), 1)
    values[0, 1:] = np.random.default_rng(1).permutation(np.linspace(0.1, 0.5, n - 1))
    variables = {
        "nodes": jnp.zeros((1, n, lab.space.width)),
        "adjacency": jnp.asarray((values + values.T)[None], jnp.float32),
    }
    relax = jax.jit(partial(fedgig.Sparsest(), setting))
    limits = []
    for t in (0, 20, 100, 160, 180, 200, 999):
        row = np.asarray(relax(problem, variables, jnp.asarray(t)).adjacency[0, 0])
        limits.append(int(row.sum()))
        np.testing.assert_array_equal(np.flatnonzero(row), np.sort(1 + np.argsort(-values[0, 1:])[: limits[-1]]))
    assert limits[0] == fedgig.Sparsest().first_degree < n - 1
    assert limits == [max(fedgig.Sparsest().first_degree - fall, most) for fall in (0, 3, 15, 24, 27, 30, 149.85)]


def test_n_max_comes_from_public_knowledge(lab: Any) -> None:
    auxiliary = (lab.ring([0] * 5), lab.graph([0] * 6, [(0, i) for i in range(1, 6)]))
    known = Knowledge(lab.space, n=6, auxiliary=auxiliary)
    assert fedgig.LearnDegree()([], [known], None).most == 5
    assert fedgig.LearnDegree()([], [dataclasses.replace(known, max_degree=3)], None).most == 3
    assert fedgig.LearnDegree()([], [Knowledge(lab.space, n=6)], None).most == fedgig.LearnDegree().usual_degree


def test_known_edges_stay(lab: Any, truth: Graph) -> None:
    setting, problem = _posed(lab, truth, Knowledge(lab.space, adjacency=truth.adjacency))
    relax = jax.jit(partial(fedgig.Sparsest(), setting))
    guess = relax(problem, jax.jit(partial(normal, setting))(problem, jax.random.key(0)), 0)
    kept = fedgig.finish(setting, problem, guess).adjacency[0, :6, :6]
    np.testing.assert_array_equal(kept, truth.adjacency)


def test_public_graphs_are_needed_for_the_autoencoder(lab: Any, truth: Graph) -> None:
    observation = lab.observe(lab.model(), truth)
    with pytest.raises(ValueError, match="--know auxiliary"):
        fedgig.FEDGIG(observation, Knowledge(lab.space, n=6), key=jax.random.key(0))
    assert fedgig.FEDGIG_NO_AUTOENCODER.refusal(observation, Knowledge(lab.space, n=6)) is None


def test_users_set_how_it_learns_from_public_graphs() -> None:
    assert settings(configured(fedgig.RECIPE, {"training_rate": "1e-3"}))["training_rate"] == 1e-3
    with pytest.raises(ValueError, match="option 'training_nodes': expected a whole number from 1"):
        fedgig.FEDGIG.with_options({"training_nodes": "0"})
    with pytest.raises(ValueError, match="option 'training_rate': unknown"):
        fedgig.FEDGIG_NO_AUTOENCODER.with_options({"training_rate": "1e-3"})


def _posed(lab: Any, truth: Graph, knowledge: Knowledge) -> tuple[Setting, Problem]:
    prior = fedgig.DegreePrior(3.0)
    return pose(lab.observe(lab.model(), truth), knowledge, infer=True, prior=prior)
