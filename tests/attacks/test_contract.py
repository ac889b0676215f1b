"""What every attack keeps to: it sees no truth, repeats itself, ignores node order, and leaves its input alone."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.fedgig import autoencoder
from jgleak.attacks.graphdlg.attack import GRAPHDLG, GRAPHDLG_NO_ADAPTER
from jgleak.attacks.matching import gra_gfa, molgan
from jgleak.attacks.registry import ATTACKS
from jgleak.federated import Knowledge, Observation, load, save
from jgleak.federated.client import node_gradients, target_gradient
from jgleak.federated.observation import flatten, unflatten
from jgleak.graph import Graph


@pytest.fixture(scope="module", autouse=True)
def brief_training() -> Iterator[None]:
    """Generators learn little from public graphs: the contract does not ask for success."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (molgan, gra_gfa, autoencoder):
            patch.setattr(module, "STEPS", 20)
        yield


LEARNERS = (GRAPHDLG, GRAPHDLG_NO_ADAPTER)
"""Their steps are those of learning from public graphs; they search nothing, so they restart nothing."""

KIN = ("gi-gan", "gra-gfa", "fedgig-ordered", "graphdlg-refined")
"""Slow to compile, and built from the parts of others that stay: tested here with the slow tests alone."""


def every(*attacks: Attack) -> pytest.MarkDecorator:
    """A test of each of some attacks."""
    marks = {name: pytest.mark.slow for name in KIN}
    return pytest.mark.parametrize("attack", [pytest.param(a, id=a.name, marks=marks.get(a.name, ())) for a in attacks])


EVERY = every(*ATTACKS.values())


@pytest.fixture(scope="module")
def truth(lab: Any) -> Graph:
    return lab.graph([0, 1, 2, 3, 0, 1], [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5)])


def observe(lab: Any, attack: Attack, graph: Graph) -> Observation:
    """What the server sees of one client, under the first protocol that the attack reads."""
    if attack.protocols[0] == "fedsgd":
        model = (
            lab.model() if attack.many is None else lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
        )
        return lab.observe(model, graph)
    model = lab.model(conv="sage", hidden=16, readout="node_scores", bias=True)
    labelled = Graph(graph.x, graph.edges, graph.x[:, 0] % 2)
    if attack.protocols[0] == "target_node":
        return target_gradient(model, lab.params(model), [labelled], lab.space, loss="ce")
    return node_gradients(model, lab.params(model), labelled, lab.space, loss="ce")


def know(lab: Any, attack: Attack) -> Knowledge:
    """All that an attack may need, and nothing else of the client (of 6 nodes)."""
    n = 6 if "n" in attack.needs else None
    return Knowledge(lab.space, n=n, max_nodes=12, auxiliary=public(lab))


@functools.cache
def public(lab: Any) -> tuple[Graph, ...]:
    """Always the same graphs, so that attacks that learn from them do so once."""
    return tuple(lab.random(5, seed) for seed in range(3))


def run(attack: Attack, observation: Observation, knowledge: Knowledge, seed: int = 0) -> Reconstruction:
    return quick(attack)(observation, knowledge, key=jax.random.key(seed), budget=Budget(seconds=600.0))


@functools.cache
def quick(attack: Attack) -> Attack:
    """Searches by steps make few: the contract does not ask for success."""
    if attack.many is None:
        return attack
    return attack.configure({"steps": "20"} if attack in LEARNERS else {"steps": "20", "restarts": "2"})


def bits(found: Reconstruction) -> list[Any]:
    """Everything but times."""
    graphs = [(g.x.tobytes(), g.x.dtype, g.edges.tobytes(), np.asarray(g.y).tobytes()) for g in found.graphs]
    soft = [None if a is None else a.tobytes() for a in (found.adjacency, found.features)]
    counts = {k: v for k, v in found.info.items() if not k.startswith("seconds")}
    return [graphs, soft, found.gradient_distance, found.stop, counts]


@EVERY
def test_no_attack_sees_the_truth(attack: Attack, lab: Any, truth: Graph, tmp_path: Path) -> None:
    """The same file, first beside the true graph, then with another graph and zeros in the places of the first."""
    private = Graph(truth.x.copy(), truth.edges.copy(), truth.y, truth.name)
    save(tmp_path / "seen", observe(lab, attack, private), lab.space)
    first = run(attack, load(tmp_path / "seen")[0], know(lab, attack))
    private.x[:], private.edges[:] = 0, 0
    other = lab.random(9, 1)
    second = run(attack, load(tmp_path / "seen")[0], know(lab, attack))
    assert bits(first) == bits(second)
    assert other.n == 9


@EVERY
def test_same_key_same_result_and_nothing_is_changed(attack: Attack, lab: Any, truth: Graph) -> None:
    observation = observe(lab, attack, truth)
    knowledge = know(lab, attack)
    before = [{k: np.array(v) for k, v in flatten(tree).items()} for tree in (observation.params, observation.update)]
    known = [(g.x.copy(), g.edges.copy()) for g in knowledge.auxiliary]
    frozen = copy.deepcopy(observation)
    for array in (*flatten(frozen.params).values(), *flatten(frozen.update).values()):
        array.setflags(write=False)
    first, again = run(attack, frozen, knowledge, 5), run(attack, observation, knowledge, 5)
    assert bits(first) == bits(again)
    after = [{k: np.array(v) for k, v in flatten(tree).items()} for tree in (observation.params, observation.update)]
    jax.tree.map(np.testing.assert_array_equal, before, after)
    for g, (x, edges) in zip(knowledge.auxiliary, known, strict=True):
        np.testing.assert_array_equal(g.x, x)
        np.testing.assert_array_equal(g.edges, edges)


@every(*(a for a in ATTACKS.values() if a.protocols != ("node_losses",)))
def test_node_order_does_not_matter(attack: Attack, lab: Any, truth: Graph) -> None:
    """One gradient does not show the nodes' order, so the answers agree (the target node stays where it is)."""
    shuffled = truth.permute(np.array([0, 5, 3, 4, 1, 2]))
    one = run(attack, observe(lab, attack, truth), know(lab, attack))
    two = run(attack, observe(lab, attack, shuffled), know(lab, attack))
    assert one.best is not None and two.best is not None
    assert one.best.isomorphic(two.best)
    assert one.gradient_distance == pytest.approx(two.gradient_distance, abs=1e-4)


@EVERY
def test_results_are_graphs_of_the_schema(attack: Attack, lab: Any, truth: Graph) -> None:
    found = run(attack, observe(lab, attack, truth), know(lab, attack))
    assert found.best is not None and found.gradient_distance is not None and found.gradient_distance >= 0
    for g in found.graphs:
        lab.space.check(g.x)
        assert g.n <= 12 or "target_node" in attack.protocols
        assert np.isin(np.asarray(g.y), (0, 1)).all()


@EVERY
def test_a_spoilt_gradient_is_refused(attack: Attack, lab: Any, truth: Graph) -> None:
    observation = observe(lab, attack, truth)
    spoilt = copy.deepcopy(flatten(observation.update))
    name = sorted(spoilt)[0]
    spoilt[name].flat[0] = np.nan
    with pytest.raises(ValueError, match=f"'{name}' holds NaN"):
        run(attack, _with(observation, spoilt), know(lab, attack))
    other = flatten(lab.params(lab.model(hidden=64)))
    with pytest.raises(ValueError, match="another model"):
        run(attack, _with(observation, other), know(lab, attack))


def _with(observation: Observation, flat: dict[str, np.ndarray]) -> Observation:
    return dataclasses.replace(observation, update=unflatten(flat))
