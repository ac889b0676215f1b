"""GI-GAN and GRA-GFA: their generators learn public graphs, and gradients are matched through them."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.matching import gi_gan, gra_gfa, loop, molgan
from jgleak.attacks.matching.molgan import Generator, PublicGraphs
from jgleak.attacks.matching.options import configured
from jgleak.attacks.matching.problem import Problem, Setting, normalisation, pose
from jgleak.attacks.matching.recipe import Recipe
from jgleak.attacks.matching.starts import Variables
from jgleak.features import FeatureSpace, binary, onehot, real
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.graph import DenseGraph, Graph

N, NODES = 8, 40
BRIEF = dataclasses.replace(molgan.TRAINING, training_steps=150)
BOTH = pytest.mark.parametrize("module", [gi_gan, gra_gfa], ids=["gi-gan", "gra-gfa"])


def auxiliary(lab: Any) -> tuple[Graph, ...]:
    return tuple(lab.random(5 + seed % 4, seed) for seed in range(80))


@pytest.fixture(scope="module")
def client(lab: Any) -> tuple[Graph, Observation, Knowledge]:
    truth = lab.random(7, 1000)
    model = lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
    seen = fedsgd(model, lab.params(model), [truth], lab.space, loss="ce")
    return truth, seen, Knowledge(lab.space, n=7, auxiliary=auxiliary(lab))


@pytest.fixture(scope="module")
def public(client: Any) -> PublicGraphs:
    return gi_gan.public([client[1]], [client[2]], NODES)


@pytest.fixture(scope="module")
def priors(public: PublicGraphs) -> dict[Any, Any]:
    return {gi_gan: molgan.trained(public, BRIEF), gra_gfa: gra_gfa.trained(public, gra_gfa.TRAINING)}


def untrained(slots: int, public: PublicGraphs) -> Any:
    generator = Generator(slots, public.graphs.nodes.shape[-1])
    return molgan.initial(generator, np.random.default_rng(1), np.zeros(molgan.LATENT, np.float32))


def posed(client: Any, prior: Any, **known: Any) -> tuple[Setting, Problem]:
    return pose(client[1], dataclasses.replace(client[2], **known), infer=True, prior=prior)


@pytest.mark.slow
def test_generated_graphs_come_near_the_public_ones(public: PublicGraphs, priors: dict[Any, Any]) -> None:
    weights, gaps = priors[gi_gan]
    fresh = untrained(N, public)
    latents = jax.random.normal(jax.random.key(2), (len(public.graphs.mask), molgan.LATENT))

    @jax.jit
    def made(weights: Any) -> DenseGraph:
        make = jax.vmap(lambda latent, mask: molgan.generate(weights, public.groups, latent, mask))
        return DenseGraph(*make(latents, jnp.asarray(public.graphs.mask)), public.graphs.mask)

    before, after, wanted = _shares(made(fresh)), _shares(made(weights)), _shares(public.graphs)
    assert np.abs(after - wanted).max() < 0.12 and np.abs(before - wanted).max() > 0.2
    assert np.abs(after - wanted).mean() < 0.4 * np.abs(before - wanted).mean()
    assert gaps[-20:].mean() < 0.6 * gaps[:60].max()


def _shares(graphs: DenseGraph) -> np.ndarray:
    """Edge density, and the mean of every column."""
    nodes, adjacency, mask = (np.asarray(part) for part in graphs)
    sizes = mask.sum(axis=1)
    return np.r_[adjacency.sum() / (sizes * (sizes - 1)).sum(), nodes[mask].mean(axis=0)]


def test_features_follow_from_edges(lab: Any, public: PublicGraphs, priors: dict[Any, Any]) -> None:
    """The second feature of these graphs is the degree, so a generator that reads edges tells it."""
    weights, losses = priors[gra_gfa]
    assert losses[-20:].mean() < 0.85 * losses[:5].mean()
    degree, hits, common = public.groups[1], [], []
    make = jax.jit(lambda *parts: gra_gfa.features(weights, public.groups, *parts))
    for seed in range(2000, 2030):
        graph, rows = lab.random(N, seed), jax.random.uniform(jax.random.key(seed), (N, gra_gfa.WIDTH))
        columns = make(rows, jnp.asarray(graph.adjacency), jnp.ones(N, bool))[
            :, degree.start : degree.start + degree.columns
        ]
        hits.append(np.asarray(columns).argmax(axis=1) == graph.degree)
        common.append(np.bincount(graph.degree, minlength=6) / N)
    assert np.mean(hits) > np.mean(common, axis=0).max() + 0.1


def test_a_generated_graph_is_symmetric_and_masked(public: PublicGraphs) -> None:
    """Also where the generator was made for larger graphs than the client's."""
    make = jax.jit(lambda latent, mask: molgan.generate(untrained(2 * N, public), public.groups, latent, mask))
    nodes, edges = make(np.ones(molgan.LATENT), np.arange(N) < 5)
    np.testing.assert_array_equal(edges, edges.T)
    assert not edges.diagonal().any() and not edges[5:].any() and not nodes[5:].any()
    assert 0 < edges[0, 1] < 1
    first = public.groups[0]
    np.testing.assert_allclose(nodes[:5, first.start : first.start + first.columns].sum(axis=1), 1.0, rtol=1e-5)


@BOTH
def test_variables_receive_gradients(client: Any, priors: dict[Any, Any], module: Any) -> None:
    setting, problem = posed(client, priors[module][0])
    variables = module.start(setting, problem, jax.random.key(0))
    weights = np.random.default_rng(0).standard_normal((2, 100))

    def nodes_and_edges(variables: Variables) -> tuple[Any, Any]:
        nodes, edges, *_ = module.relax(setting, problem, variables, jnp.asarray(0))
        return nodes[0, 0] @ weights[0, : nodes.shape[-1]], edges[0, 0] @ weights[1, :N]

    searched = "latent" if module is gi_gan else "embeddings"
    for slopes in jax.jit(jax.jacrev(nodes_and_edges))(variables):
        assert np.linalg.norm(slopes[searched]) > 1e-3
        assert all(not np.any(slope) for name, slope in slopes.items() if name != searched)


@BOTH
def test_what_is_known_goes_in_as_it_is(client: Any, priors: dict[Any, Any], module: Any) -> None:
    truth = client[0]
    setting, problem = posed(client, priors[module][0], adjacency=truth.adjacency, features=truth.x)
    variables = module.start(setting, problem, jax.random.key(0))
    guess = jax.jit(partial(module.relax, setting))(problem, variables, 0)
    np.testing.assert_array_equal(guess.adjacency[0, :7, :7], truth.adjacency)
    np.testing.assert_array_equal(guess.nodes[0, :7], client[2].space.encode(truth.x))


@BOTH
def test_the_prior_is_the_weights_that_public_graphs_taught(
    client: Any, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(public: PublicGraphs, training: Any) -> tuple[str, str]:
        assert training is BRIEF and public == gi_gan.public([client[1]], [client[2]], BRIEF.training_nodes)
        return "weights", "losses"

    monkeypatch.setattr(molgan if module is gi_gan else gra_gfa, "trained", trained)
    assert module.learn([client[1]], [client[2]], BRIEF) == "weights"


@BOTH
def test_matching_comes_closer(client: Any, priors: dict[Any, Any], module: Any) -> None:
    recipe: Recipe = configured(module.RECIPE, {"steps": "50", "restarts": "2"})
    recipe = dataclasses.replace(recipe, learn=lambda observations, knowledges, training: priors[module][0])
    keys, budget = [jax.random.key(0)], Budget(time_limit=100.0)
    (found,) = loop.invert_many(recipe, [client[1]], [client[2]], keys=keys, budget=budget, trace=True)
    assert found.best is not None and found.best.n == 7
    start, end = np.array(found.info["trace"])[:, 0].min(), found.info["matching_loss"]
    assert end < (0.5 if module is gi_gan else 0.9) * start


def test_columns_are_learnt_as_they_are_and_shown_as_the_model_takes_them(client: Any) -> None:
    """One-hot and binary columns stay between 0 and 1; real ones are normalised; the way to the model undoes it."""
    bare = FeatureSpace((onehot("kind", "abc"), real("size"), binary("flag"), real("always")))
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(3, size=6), rng.normal(50.0, 9.0, 6), rng.integers(2, size=6), np.full(6, 7.0)], axis=1)
    graph = Graph(x, np.array([(i, i + 1) for i in range(5)]), 1)
    space = bare.fit([x])
    public = gi_gan.public([client[1]], [Knowledge(space, n=6, auxiliary=(graph,))], NODES)
    nodes = np.asarray(public.graphs.nodes)
    assert set(np.unique(nodes[..., [0, 1, 2, 4]]).round(5)) == {0.0, 1.0}
    assert nodes[0, :6, 3].mean() == pytest.approx(0.0, abs=1e-5) and not nodes[0, 6:].any()
    mean, scale = normalisation(space)
    problem = dataclasses.replace(posed(client, None)[1], mean=mean, scale=scale, mask=public.graphs.mask)
    shown = np.asarray(gi_gan.encode(problem, public.groups, jnp.asarray(nodes)))
    np.testing.assert_allclose(shown[0, :6], space.encode(x), atol=1e-5)
    always = np.asarray(gi_gan.encode(problem, public.groups, jnp.asarray(nodes + 1.0)))[0, :, 5]
    assert not always.any(), "a number that never changes is shown as the model saw it"


def test_the_error_is_the_mean_over_the_real_nodes(public: PublicGraphs) -> None:
    graphs, key = jax.tree.map(jnp.asarray, public.graphs), jax.random.key(3)
    assert not np.all(graphs.mask), "some graphs are padded"
    rows = jax.random.uniform(key, (*graphs.mask.shape, gra_gfa.WIDTH))
    network = gra_gfa.Features(graphs.nodes.shape[-1])
    shown = [tuple(map(np.asarray, one)) for one in zip(rows, graphs.adjacency, graphs.mask, strict=True)]
    params: Any = jax.jit(network.init)(jax.random.key(4), *shown[0])["params"]
    make = jax.jit(lambda *one: gra_gfa.features(params, public.groups, *one))
    made = [make(*one) for one in shown]
    off = np.stack(made) - np.asarray(graphs.nodes)
    expected = float(np.mean(off[np.asarray(graphs.mask)] ** 2))
    error = jax.jit(lambda: gra_gfa.error(params, public.groups, key, graphs))
    assert float(error()) == pytest.approx(expected, rel=1e-5)


def test_the_generator_holds_every_client_and_the_smaller_public_graphs(lab: Any, client: Any) -> None:
    small, large = auxiliary(lab)[:4], lab.path([0] * 50)

    def shape(n: int, graphs: tuple[Graph, ...]) -> tuple[int, ...]:
        known = Knowledge(lab.space, n=n, auxiliary=graphs)
        return gi_gan.public([client[1]] * 2, [known, client[2]], NODES).graphs.mask.shape

    assert shape(7, small) == (4, 8)
    assert shape(12, small) == (4, 16)
    assert shape(12, (*small, large)) == (4, 16), "larger than NODES and than every client"
    assert shape(60, (*small, large)) == (5, 64)
    assert shape(12, (large,)) == (1, 64)


def test_nothing_is_learnt_twice_from_equal_graphs(lab: Any, client: Any, public: PublicGraphs, priors: Any) -> None:
    again = gi_gan.public([client[1]], [Knowledge(lab.space, n=7, auxiliary=auxiliary(lab))], NODES)
    assert again == public and again is not public and hash(again) == hash(public)
    assert molgan.trained(again, BRIEF) is priors[gi_gan]
    assert gra_gfa.trained(again, gra_gfa.TRAINING) is priors[gra_gfa]
    fewer = gi_gan.public([client[1]], [Knowledge(lab.space, n=7, auxiliary=auxiliary(lab)[:-1])], NODES)
    assert fewer != public


def test_losses_of_the_critic_and_the_generator_are_the_papers(public: PublicGraphs) -> None:
    """``E D(fake) - E D(real) + 10 E (|grad D| - 1)²`` between both, graph by graph, and ``-E D(fake)``."""
    rng, width = np.random.default_rng(0), public.graphs.nodes.shape[-1]
    generator = untrained(N, public)
    blank = tuple(part[0] for part in public.graphs)
    critic = molgan.initial(molgan.Critic(), rng, *blank)
    draw = molgan.Draws(np.array([3, 0, 5]), rng.normal(size=(3, molgan.LATENT)), rng.random((3, 1, 1)))

    @jax.jit
    def one(row: Any, latent: Any, share: Any) -> tuple[Any, Any, Any]:
        nodes, edges, mask = (jnp.asarray(part)[row] for part in public.graphs)
        fake = molgan.generate(generator, public.groups, latent, mask)
        between = share * nodes + (1 - share) * fake[0], share * edges + (1 - share) * fake[1]
        slopes = jax.grad(molgan._score, (1, 2))(critic, *between, mask)
        length = jnp.sqrt(sum(jnp.sum(part**2) for part in slopes))
        return molgan._score(critic, nodes, edges, mask), molgan._score(critic, *fake, mask), (length - 1) ** 2

    @jax.jit
    def losses(draw: Any) -> Any:
        critics = molgan._critic_loss(critic, generator, public.groups, draw, public.graphs)
        return *critics, molgan._generator_loss(generator, critic, public.groups, draw, public.graphs)

    real, fake, penalty = np.mean([one(*each) for each in zip(*draw, strict=True)], axis=0)
    wanted = 10 * penalty - (real - fake), real - fake, -fake
    np.testing.assert_allclose(losses(draw), wanted, rtol=1e-3)
    kernel = np.asarray(
        molgan.initial(Generator(N, width), rng, np.zeros(molgan.LATENT, np.float32))["Dense_1"]["kernel"]
    )
    assert np.std(kernel) == pytest.approx(1 / np.sqrt(kernel.shape[0]), rel=0.05)


def test_a_critic_is_blind_to_padding_and_to_the_order_of_nodes(public: PublicGraphs) -> None:
    rng = np.random.default_rng(0)
    nodes, edges, mask = (np.asarray(part[1]) for part in public.graphs)
    critic = molgan.initial(molgan.Critic(), rng, nodes, edges, mask)
    score, n = jax.jit(partial(molgan._score, critic)), int(mask.sum())
    order = np.r_[rng.permutation(n), np.arange(n, len(mask))]
    first = float(score(nodes, edges, mask))
    assert first == pytest.approx(float(score(nodes[order], edges[np.ix_(order, order)], mask)), rel=1e-4)
    beyond = np.where(mask[:, None], nodes, 7.0).astype(np.float32)
    assert first == pytest.approx(float(score(beyond, edges, mask)), rel=1e-4) or n == len(mask)
    changed = nodes.copy()
    changed[0] = nodes[1] + 1.0
    assert abs(first - float(score(changed, edges, mask))) > 1e-4
    alike, none = np.tile(nodes[:1], (len(mask), 1)), np.zeros_like(edges)
    lone, *more = (float(score(alike, none, np.arange(len(mask)) < number)) for number in (1, 2, len(mask)))
    assert more == pytest.approx([lone, lone], rel=1e-4), "a mean over nodes"
