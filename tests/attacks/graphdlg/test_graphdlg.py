"""GraphDLG: exact where its parts are, many clients as one, known edges, batches, options, and clear refusals."""

from __future__ import annotations

import dataclasses
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.closed_form.recursion import recover
from jgleak.attacks.graphdlg import graphdlg, refined
from jgleak.attacks.graphdlg.graphdlg import GRAPHDLG, GRAPHDLG_NO_ADAPTER
from jgleak.attacks.graphdlg.mixtures import mixtures
from jgleak.attacks.graphdlg.refined import GRAPHDLG_REFINED, RECIPE, Learn, Start
from jgleak.attacks.matching.loop import invert_many
from jgleak.attacks.matching.problem import pose
from jgleak.attacks.matching.starts import normal
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.gnn import GNN, GCNConv, Layer, LayerNorm, Pooled, SAGEConv
from jgleak.graph import Graph

FIELDS = {"hidden": 16, "readout": "pooled", "readout_widths": (), "last_act": True}


def public(lab: Any) -> tuple[Graph, ...]:
    return tuple(lab.random(7, seed) for seed in range(4))


def run(attack: Attack, observation: Observation, knowledge: Knowledge, **options: str) -> Reconstruction:
    return attack.with_options(options)(observation, knowledge, key=jax.random.key(0))


@pytest.mark.long
def test_a_public_graph_is_recognised(lab: Any) -> None:
    """The decoder has learnt it by heart, and the embedding is that of the client."""
    graphs = public(lab)
    model = lab.model(**FIELDS)
    observations = [lab.observe(model, g, loss="ce") for g in graphs]
    known = Knowledge(lab.space, n=7, auxiliary=graphs)
    found = GRAPHDLG.with_options({"steps": "200", "adapter": "0"}).on_many(
        observations, [known] * 4, keys=[jax.random.key(i) for i in range(4)], budget=Budget()
    )
    for one, graph in zip(found, graphs, strict=True):
        assert one.best is not None and one.adjacency is not None
        np.testing.assert_array_equal(one.best.adjacency, graph.adjacency)
        np.testing.assert_array_equal(one.adjacency >= 0.5, graph.adjacency > 0)
    alone = run(GRAPHDLG, observations[2], known, steps="200", adapter="0")
    assert alone.best is not None and alone.best.isomorphic(Graph(found[2].best.x, graphs[2].edges))  # type: ignore[union-attr]


def test_features_are_the_recursions_rows(lab: Any) -> None:
    truth, model = lab.random(7, 9), lab.model(**FIELDS, pooling="sum")
    observation = lab.observe(model, truth, loss="ce")
    known = Knowledge(lab.space, adjacency=truth.adjacency, auxiliary=public(lab))
    found = run(GRAPHDLG, observation, known)
    rows = recover(model, observation.params, [observation.update], [truth.adjacency])[0].states[0]
    assert found.best is not None and found.features is not None
    shares = mixtures(lab.space, np.asarray(rows))
    np.testing.assert_allclose(found.features, shares, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.best.x, lab.space.decode(shares))
    np.testing.assert_array_equal(found.best.edges, truth.edges)
    assert found.stop == "done" and found.gradient_distance is not None and found.gradient_distance > 0.01


def test_a_graph_that_is_known_whole_matches(lab: Any) -> None:
    """Its label is the one that does, or the given one."""
    truth, model = lab.random(7, 9), lab.model(**FIELDS)
    observation = lab.observe(model, truth, loss="ce")
    known = Knowledge(lab.space, adjacency=truth.adjacency, features=truth.x, auxiliary=public(lab))
    found = run(GRAPHDLG, observation, known)
    assert found.stop == "match" and found.gradient_distance is not None and found.gradient_distance < 1e-3
    assert found.best is not None and found.best.y == truth.y and found.features is not None
    np.testing.assert_allclose(found.features, lab.space.encode(truth.x), rtol=1e-6)
    given = run(GRAPHDLG, observation, dataclasses.replace(known, labels=np.array([1 - truth.y])))
    assert given.best is not None and given.best.y == 1 - truth.y


def test_a_batch_gets_one_structure_in_every_size(lab: Any) -> None:
    model = lab.model(**FIELDS)
    graphs = [lab.random(n, seed) for n, seed in ((7, 5), (4, 6), (7, 7))]
    observation = fedsgd(model, lab.params(model), graphs, lab.space, loss="ce")
    known = Knowledge(lab.space, sizes=(7, 4, 7), auxiliary=public(lab))
    found = run(GRAPHDLG, observation, known, steps="20")
    assert [g.n for g in found.graphs] == [7, 4, 7]
    assert found.adjacency is not None and found.adjacency.shape == (3, 7, 7)
    np.testing.assert_array_equal(found.adjacency[0], found.adjacency[2])
    np.testing.assert_array_equal(found.adjacency[1, :4, :4], found.adjacency[0, :4, :4])
    assert not found.adjacency[1, 4:].any() and not found.adjacency[1, :, 4:].any()
    assert found.gradient_distance is None and found.stop == "done", "of one graph of several it says nothing"
    one_number = run(GRAPHDLG, observation, Knowledge(lab.space, n=7, auxiliary=public(lab)), steps="20")
    assert [g.n for g in one_number.graphs] == [7, 7, 7]
    wrong = Knowledge(lab.space, sizes=(7, 4), auxiliary=public(lab))
    assert "sizes of 2 graph(s) are given and 3 are behind the update" in str(GRAPHDLG.refusal(observation, wrong))


def test_the_habits_have_room_for_the_largest_client(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = lab.model(**FIELDS), list[int]()
    observations = [lab.observe(model, lab.random(n, n), loss="ce") for n in (4, 20, 11)]
    knowledges = [Knowledge(lab.space, n=n, auxiliary=public(lab)) for n in (4, 20, 11)]
    monkeypatch.setattr(refined, "learnt", lambda *_: None)
    monkeypatch.setattr(refined, "position_frequencies", lambda graphs, space, slots, habit: asked.append(slots))
    Learn()(observations, knowledges, None)
    Learn()(observations[:1], knowledges[:1], None)
    assert asked == [24, 8]


@pytest.mark.long
def test_the_refinement_begins_at_every_graphs_own_places(lab: Any) -> None:
    model = lab.model(**FIELDS)
    graphs = [lab.random(n, seed) for n, seed in ((7, 5), (4, 6))]
    observation = fedsgd(model, lab.params(model), graphs, lab.space, loss="ce")
    known = Knowledge(lab.space, sizes=(7, 4), auxiliary=public(lab))
    prior = Learn()([observation], [known], None)
    setting, problem = pose(observation, known, infer=False, prior=prior)
    begun = Start()(setting, problem, jax.random.key(0))
    noise = Start().start_spread * normal(setting, problem, jax.random.key(0))["nodes"]
    for g, n in enumerate((7, 4)):
        expected = np.asarray(prior.positions.node_logits(jnp.asarray(n), problem.mask.shape[1]))
        np.testing.assert_allclose(np.asarray(begun["nodes"] - noise)[g], expected, atol=1e-5)
    found = run(GRAPHDLG_REFINED, observation, known, steps="2")
    assert [g.n for g in found.graphs] == [7, 4]


def test_the_adapter_changes_the_decoder(lab: Any) -> None:
    observation = lab.observe(lab.model(**FIELDS), lab.random(7, 9), loss="ce")
    known = Knowledge(lab.space, n=7, auxiliary=public(lab))
    both = [run(attack, observation, known, steps="40") for attack in (GRAPHDLG, GRAPHDLG_NO_ADAPTER)]
    assert both[0].adjacency is not None and both[1].adjacency is not None
    assert not np.array_equal(both[0].adjacency, both[1].adjacency)


def test_a_zero_gradient_says_so(lab: Any) -> None:
    observation = lab.observe(lab.model(**FIELDS), lab.random(7, 9), loss="ce")
    nothing = dataclasses.replace(observation, update=jax.tree.map(np.zeros_like, observation.update))
    found = run(GRAPHDLG, nothing, Knowledge(lab.space, n=7, auxiliary=public(lab)), steps="20")
    assert found.stop == "no candidates" and "observe another round" in found.info["failed"]


def test_clients_of_one_round_are_taught_by_one_decoder_and_edges_begin_at_a_half(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the decoder says is known here: exactly a half of one pair, and less of another."""
    truth, asked = lab.random(7, 9), list[int]()
    soft = truth.adjacency.astype(np.float32)
    (u, v), (x, y) = np.argwhere(np.triu(soft == 0, 1))[:2]
    soft[[u, v], [v, u]], soft[[x, y], [y, x]] = 0.5, 0.49

    def edges(training: Any, observations: Any, knowledges: Any) -> Any:
        asked.append(len(observations))
        return [[soft] for _ in observations]

    monkeypatch.setattr(graphdlg, "edges", edges)
    monkeypatch.setattr(graphdlg, "time", SimpleNamespace(monotonic=partial(next, iter((10.0, 16.0)))))
    observation = lab.observe(lab.model(**FIELDS), truth, loss="ce")
    known, keys = Knowledge(lab.space, n=7, auxiliary=public(lab)), list(jax.random.split(jax.random.key(0), 2))
    found = GRAPHDLG.on_many([observation] * 2, [known] * 2, keys=keys)
    assert asked == [2]
    for one in found:
        assert one.best is not None and one.best.adjacency[u, v] == 1 and one.best.adjacency[x, y] == 0
        assert len(one.best.edges) == len(truth.edges) + 1
        assert one.info["seconds"] == 3.0 and one.features is not None, "clients share the time"
        rows = recover(observation.model, observation.params, [observation.update], [one.best.adjacency])[0].states[0]
        np.testing.assert_allclose(one.features, mixtures(lab.space, np.asarray(rows)), rtol=1e-5, atol=1e-6)


def test_edges_that_are_known_stay_beside_those_of_another_client(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = lab.random(7, 9)
    odds = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    monkeypatch.setattr(graphdlg, "learnt", lambda *_: None)
    monkeypatch.setattr(graphdlg, "_logits", lambda decoder, embeddings: np.stack([odds] * len(embeddings)))
    observation = lab.observe(lab.model(**FIELDS), truth, loss="ce")
    known = [Knowledge(lab.space, adjacency=truth.adjacency), Knowledge(lab.space, n=5)]
    (mine,), (other,) = graphdlg.edges(graphdlg.DecoderTraining(), [observation] * 2, known)
    np.testing.assert_array_equal(mine, truth.adjacency)
    np.testing.assert_allclose(other, np.where(np.eye(5), 0.0, 1 / (1 + np.exp(-odds[:5, :5]))), rtol=1e-6)


def test_one_client_without_a_gradient_takes_nothing_from_the_others(lab: Any) -> None:
    """Their decoder is theirs alone then; the answers keep their order."""
    observation = lab.observe(lab.model(**FIELDS), lab.random(7, 9), loss="ce")
    nothing = dataclasses.replace(observation, update=jax.tree.map(np.zeros_like, observation.update))
    known, keys = Knowledge(lab.space, n=7, auxiliary=public(lab)), list(jax.random.split(jax.random.key(0), 2))
    attack = GRAPHDLG.with_options({"steps": "20"})
    found = attack.on_many([nothing, observation], [known] * 2, keys=keys)
    assert "observe another round" in found[0].info["failed"] and not found[0].graphs
    alone = attack(observation, known, key=keys[0])
    assert found[1].adjacency is not None and alone.adjacency is not None
    np.testing.assert_allclose(found[1].adjacency, alone.adjacency, atol=1e-5)


def test_clients_of_two_rounds_have_no_common_refinement(lab: Any) -> None:
    observation = lab.observe(lab.model(**FIELDS), lab.random(7, 9), loss="ce")
    later = dataclasses.replace(observation, params=jax.tree.map(np.copy, observation.params))
    known = Knowledge(lab.space, n=7, auxiliary=public(lab))
    with pytest.raises(ValueError, match="a decoder fits the parameters of one round"):
        Learn()([observation, later], [known] * 2, None)


@pytest.mark.long
def test_the_refinement_comes_closer(lab: Any) -> None:
    observation = lab.observe(lab.model(**FIELDS), lab.random(7, 9), loss="ce")
    known = Knowledge(lab.space, n=7, auxiliary=public(lab))
    recipe = dataclasses.replace(RECIPE, steps=100)
    found = invert_many(
        recipe, [observation], [known], keys=[jax.random.key(0)], budget=Budget(time_limit=60.0), trace=True
    )[0]
    curve = found.info["trace"][0]
    assert min(curve) < 0.7 * curve[0]
    assert found.adjacency is not None and found.features is not None


@pytest.mark.parametrize("attack", [GRAPHDLG, GRAPHDLG_REFINED], ids=lambda attack: attack.name)
def test_refusals_say_what_instead(lab: Any, attack: Attack) -> None:
    truth = lab.random(7, 9)
    known = Knowledge(lab.space, n=7, auxiliary=public(lab))
    recursive = attack is GRAPHDLG
    for fields, word in (
        ({"readout": "node_mlp"}, "--readout pooled"),
        ({**FIELDS, "conv": "sage"}, "--model gcn" if recursive else None),
        ({**FIELDS, "act": "gelu"}, "slope of 'gelu'" if recursive else None),
    ):
        reason = attack.refusal(lab.observe(lab.model(**fields), truth), known)
        assert reason is None if word is None else word in str(reason)
    observation = lab.observe(lab.model(**FIELDS), truth)
    assert "--know auxiliary" in str(attack.refusal(observation, Knowledge(lab.space, n=7)))
    assert attack.refusal(observation, known) is None


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ((Layer(GCNConv(8), norm=LayerNorm()), Layer(GCNConv(8))), "convolutions and activations alone"),
        ((Layer(GCNConv(8, normalise=False)), Layer(GCNConv(8))), "different ways"),
        ((Layer(GCNConv(8)), Layer(SAGEConv(8))), "not of 'sage'"),
    ],
)
def test_the_recursion_is_for_equal_bare_convolutions(lab: Any, layers: tuple[Layer, ...], says: str) -> None:
    model = GNN(lab.space.width, layers, Pooled())
    params, known = lab.params(model), Knowledge(lab.space, n=7, auxiliary=public(lab))
    assert says in str(GRAPHDLG.refusal(Observation(model, params, params, "ce"), known))


@pytest.mark.long
def test_the_refinement_needs_no_recursion(lab: Any) -> None:
    """Another convolution and activation, and public graphs whose rows are encoded already."""
    observation = lab.observe(lab.model(**{**FIELDS, "conv": "sage", "act": "gelu"}), lab.random(7, 9), loss="ce")
    rows = tuple(Graph(lab.space.encode(g.x), g.edges, g.y) for g in public(lab))
    for graphs in (public(lab), rows):
        found = run(GRAPHDLG_REFINED, observation, Knowledge(lab.space, n=7, auxiliary=graphs), steps="5")
        assert found.best is not None and found.best.n == 7 and found.features is not None


def test_options_say_what_they_take() -> None:
    for given, words in (
        ({"lr": "1"}, "choose from steps, adapter, rate, nodes, seed"),
        ({"steps": "0"}, "whole number from 1"),
        ({"adapter": "-1"}, "a number from 0"),
        ({"adapter": "nan"}, "a number from 0"),
    ):
        with pytest.raises(ValueError, match=words):
            GRAPHDLG.with_options(given)
