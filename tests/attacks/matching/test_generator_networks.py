"""The networks of GI-GAN and GRA-GFA written out, what their training draws, and its first steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jgleak.attacks.matching import gi_gan, gra_gfa, molgan
from jgleak.attacks.matching.molgan import Critic, Draws, Generator, PublicGraphs
from jgleak.attacks.matching.problem import pose
from jgleak.federated import Knowledge

N = 8


@pytest.fixture(scope="module")
def public(lab: Any) -> PublicGraphs:
    model = lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
    known = Knowledge(lab.space, n=7, auxiliary=tuple(lab.random(5 + seed % 3, seed) for seed in range(5)))
    return gi_gan.public([lab.observe(model, lab.random(7, 9))], [known], 40)


def leaky(rows: np.ndarray) -> np.ndarray:
    return np.where(rows > 0, rows, 0.01 * rows)


def filled(network: Any, *inputs: Any) -> Any:
    """Random parameters, biases too."""
    rng, shapes = np.random.default_rng(0), jax.eval_shape(network.init, jax.random.key(0), *inputs)["params"]
    return jax.tree.map(lambda leaf: (0.3 * rng.normal(size=leaf.shape)).astype(np.float32), shapes)


def test_a_critic_sums_over_neighbours_twice_and_sees_the_nodes_again(public: PublicGraphs) -> None:
    nodes, edges, mask = (np.asarray(part[0]) for part in public.graphs)
    params = filled(Critic(), nodes, edges, mask)
    layers = [params[f"Dense_{k}"] for k in range(7)]
    last = next(layer for layer in layers if layer["kernel"].shape[1] == 1)
    rows = nodes
    for own, others in (layers[:2], layers[2:4]):
        assert "bias" not in others
        rows = leaky(rows @ own["kernel"] + own["bias"] + edges @ rows @ others["kernel"])
    rows = leaky(np.hstack([rows, nodes]) @ layers[4]["kernel"] + layers[4]["bias"])
    dense = next(layer for layer in layers[5:] if layer is not last)
    hidden = leaky(rows[mask].mean(axis=0) @ dense["kernel"] + dense["bias"])
    found = jax.jit(molgan._score)(params, *map(jnp.asarray, (nodes, edges, mask)))
    assert float(found) == pytest.approx((hidden @ last["kernel"] + last["bias"]).item(), rel=1e-4)
    assert not (~mask).all() and mask.sum() < len(mask)


def test_features_are_those_of_two_convolutions_and_a_map_of_both(public: PublicGraphs) -> None:
    nodes, edges, mask = (np.asarray(part[0]) for part in public.graphs)
    network, rng = gra_gfa.Features(nodes.shape[1]), np.random.default_rng(0)
    parts = [jnp.asarray(part, jnp.float32) for part in (rng.random((len(mask), gra_gfa.WIDTH)), edges)]
    params = filled(network, *parts, jnp.asarray(mask))
    looped = edges + np.diag(mask.astype(float))
    degree = np.maximum(looped.sum(axis=1), 1.0)
    mixing, states = looped / np.sqrt(np.outer(degree, degree)), [np.asarray(parts[0])]
    for k in range(2):
        layer = params[f"GCNConv_{k}"]
        states.append(np.maximum(mixing @ states[-1] @ layer["kernel"] + layer["bias"], 0.0))
    wanted = np.hstack(states[1:]) @ params["last"]["kernel"] + params["last"]["bias"]
    found = jax.jit(network.apply)({"params": params}, *parts, jnp.asarray(mask))
    np.testing.assert_allclose(np.asarray(found)[mask], wanted[mask], rtol=1e-4, atol=1e-5)


def test_embeddings_begin_with_inner_products_of_unit_deviation(lab: Any) -> None:
    model = lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
    posed = pose(lab.observe(model, lab.random(7, 9)), Knowledge(lab.space, n=60), infer=True)
    begun = gra_gfa.start(*posed, jax.random.key(0))
    inner = np.einsum("gnd,gmd->gnm", begun["embeddings"], begun["embeddings"])[0]
    assert inner[np.triu_indices(len(inner), 1)].std() == pytest.approx(1.0, rel=0.1)
    assert begun["rows"].shape == (*posed[1].mask.shape, gra_gfa.WIDTH)


def test_every_step_of_either_network_draws_its_own_graphs(
    public: PublicGraphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the first of a step's draws are the critic's; biases begin at zero."""
    asked, training = list[Any](), dataclasses.replace(molgan.TRAINING, training_steps=7, training_batch=4)
    monkeypatch.setattr(molgan, "_fit", lambda *given: asked.extend(given) or ({}, np.zeros(7)))
    molgan.trained(public, training)
    generator, critic, draws = asked[2:5]
    rounds = 7, 1 + molgan.CRITICS, 4
    assert draws.rows.shape == rounds and set(np.unique(draws.rows)) == set(range(len(public.graphs.mask)))
    assert draws.latents.shape == (*rounds, molgan.LATENT) and draws.latents.std() == pytest.approx(1.0, rel=0.1)
    assert draws.shares.shape == (*rounds, 1, 1) and 0 <= draws.shares.min() < 0.1 < 0.9 < draws.shares.max() < 1
    for leaf in (generator["Dense_0"], generator["nodes"], generator["edges"], critic["Dense_0"]):
        assert not leaf["bias"].any() and leaf["kernel"].any()


@pytest.mark.long
def test_the_first_steps_of_training_are_those_of_adam_with_the_papers_moments(public: PublicGraphs) -> None:
    """Two of the critic on draws of their own before each of the generator; the gap is the last one's."""
    rng, (rate, rounds) = np.random.default_rng(0), (1e-2, (2, 3, 2))
    generator = molgan.initial(Generator(N, public.graphs.nodes.shape[-1]), rng, np.zeros(molgan.LATENT, np.float32))
    critic = molgan.initial(Critic(), rng, *(part[0] for part in public.graphs))
    draws = Draws(
        rng.integers(5, size=rounds),
        rng.standard_normal((*rounds, molgan.LATENT), np.float32),
        rng.random((*rounds, 1, 1), np.float32),
    )
    found, gaps = molgan._fit(public.groups, rate, generator, critic, draws, public.graphs)
    adam = optax.adam(rate, b1=0.0, b2=0.9)

    @jax.jit
    def judge(critic: Any, memory: Any, generator: Any, draw: Any) -> Any:
        slope, gap = jax.grad(molgan._critic_loss, has_aux=True)(critic, generator, public.groups, draw, public.graphs)
        change, memory = adam.update(slope, memory, critic)
        return optax.apply_updates(critic, change), memory, gap

    @jax.jit
    def make(generator: Any, memory: Any, critic: Any, draw: Any) -> Any:
        slope = jax.grad(molgan._generator_loss)(generator, critic, public.groups, draw, public.graphs)
        change, memory = adam.update(slope, memory, generator)
        return optax.apply_updates(generator, change), memory

    judged, made, wanted = adam.init(critic), adam.init(generator), list[float]()
    for step in range(2):
        for k in (1, 2):
            critic, judged, gap = judge(critic, judged, generator, Draws(*(part[step, k] for part in draws)))
        generator, made = make(generator, made, critic, Draws(*(part[step, 0] for part in draws)))
        wanted.append(float(gap))
    np.testing.assert_allclose(gaps, wanted, rtol=1e-3)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(generator), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_a_critic_without_a_slope_has_a_loss_and_a_derivative(public: PublicGraphs) -> None:
    rng = np.random.default_rng(0)
    generator = molgan.initial(Generator(N, public.graphs.nodes.shape[-1]), rng, np.zeros(molgan.LATENT, np.float32))
    critic = jax.tree.map(np.zeros_like, molgan.initial(Critic(), rng, *(part[0] for part in public.graphs)))
    draw = Draws(np.array([1, 2]), rng.normal(size=(2, molgan.LATENT)).astype(np.float32), rng.random((2, 1, 1)))
    loss = jax.jit(lambda critic: molgan._critic_loss(critic, generator, public.groups, draw, public.graphs)[0])
    value, slope = jax.value_and_grad(loss)(critic)
    assert float(value) == pytest.approx(molgan.PENALTY, rel=1e-4)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))
