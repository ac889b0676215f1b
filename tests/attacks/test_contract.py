"""What every attack keeps to: it sees no truth, repeats itself, ignores node order, and leaves its input alone."""

from __future__ import annotations

import copy
import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.graphdlg.graphdlg import GRAPHDLG, GRAPHDLG_NO_ADAPTER
from jgleak.attacks.registry import ATTACKS
from jgleak.federated import Knowledge, Observation, load, save
from jgleak.federated.client import node_gradients, target_gradient
from jgleak.federated.observation import flatten, unflatten
from jgleak.graph import Graph

LEARNERS = (GRAPHDLG, GRAPHDLG_NO_ADAPTER)
"""Their steps are those of learning from public graphs; they search nothing, so they restart nothing."""

KIN = ("gi-gan", "gra-gfa", "fedgig-ordered", "graphdlg-refined")
"""Slow to compile, and built from the parts of others that stay: tested here with the slow tests alone."""


def every(*attacks: Attack) -> pytest.MarkDecorator:
    """A test of each of some attacks."""
    marks = {name: pytest.mark.slow for name in KIN}
    return pytest.mark.parametrize("attack", [pytest.param(a, id=a.name, marks=marks.get(a.name, ())) for a in attacks])


def brief(attack: Attack) -> Attack:
    """Generators learn little from public graphs: the contract does not ask for success."""
    generative = ("gi-gan", "gra-gfa", "fedgig", "fedgig-ordered", "fedgig-no-constraint")
    return attack.with_options({"training_steps": "20"}) if attack.name in generative else attack


BRIEF = tuple(map(brief, ATTACKS.values()))
EVERY = every(*BRIEF)


@functools.cache
def made(lab: Any) -> Graph:
    """The client's graph."""
    return lab.graph([0, 1, 2, 3, 0, 1], [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5)])


def observe(lab: Any, attack: Attack, graph: Graph) -> Observation:
    """What the server sees of one client, under the first protocol that the attack reads."""
    if attack.protocols[0] == "fedsgd":
        model = (
            lab.model() if attack.many is None else lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
        )
        return lab.observe(model, graph)
    model = lab.model(conv="sage", hidden=16, readout="node_scores", bias=True)
    labelled = Graph(graph.x, graph.edges, graph.x[:, 0] % 2, graph.name)
    if attack.protocols[0] == "target_node":
        return target_gradient(model, lab.params(model), [labelled], lab.space, loss="ce")
    return node_gradients(model, lab.params(model), labelled, lab.space, loss="ce")


def know(lab: Any, attack: Attack) -> Knowledge:
    """All that an attack may need, and nothing else of the client (of 6 nodes)."""
    n = 6 if "n" in attack.needs else None
    return Knowledge(lab.space, n=n, max_n=12, auxiliary=public(lab))


@functools.cache
def public(lab: Any) -> tuple[Graph, ...]:
    """Always the same graphs, so that attacks that learn from them do so once."""
    return tuple(lab.random(5, seed) for seed in range(3))


def run(attack: Attack, observation: Observation, knowledge: Knowledge) -> Reconstruction:
    return quick(attack)(observation, knowledge, key=jax.random.key(0), budget=Budget(time_limit=600.0))


@functools.cache
def attacked(attack: Attack, lab: Any) -> Reconstruction:
    """The client's graph, attacked once for several tests."""
    return run(attack, observe(lab, attack, made(lab)), know(lab, attack))


@functools.cache
def quick(attack: Attack) -> Attack:
    """Searches by steps make few: the contract does not ask for success."""
    if attack.many is None:
        return attack
    return attack.with_options({"steps": "20"} if attack in LEARNERS else {"steps": "20", "restarts": "2"})


def bits(found: Reconstruction) -> list[Any]:
    """Everything but times."""
    graphs = [(g.x.tobytes(), g.x.dtype, g.edges.tobytes(), np.asarray(g.y).tobytes()) for g in found.graphs]
    soft = [None if a is None else a.tobytes() for a in (found.adjacency, found.features)]
    counts = {k: v for k, v in found.info.items() if not k.startswith("seconds")}
    return [graphs, soft, found.gradient_distance, found.stop, counts]


@EVERY
def test_no_attack_sees_the_truth(attack: Attack, lab: Any, tmp_path: Path) -> None:
    """A ring of six and two triangles of other names, behind one observation, get one answer.

    Every node has its like in the other graph, and so have its neighbours, and theirs: no gradient of a message-passing
    model tells the two apart. What rounding does to either is made one. The ring is attacked as it was observed,
    the triangles from a file.
    """
    colours = [0, 1, 2] * 2
    ring = dataclasses.replace(lab.ring(colours), name="ring")
    triangles = dataclasses.replace(
        lab.graph(colours, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]), name="two triangles"
    )
    assert not ring.isomorphic(triangles)
    seen = observe(lab, attack, ring)
    first = run(attack, seen, know(lab, attack))
    other = observe(lab, attack, triangles)
    assert_close(other, seen)
    save(tmp_path / "seen", dataclasses.replace(other, update=seen.update), lab.space)
    second = run(attack, load(tmp_path / "seen")[0], know(lab, attack))
    assert bits(first) == bits(second)


def assert_close(one: Observation, two: Observation) -> None:
    """The same observation, up to rounding of its update."""
    a, b = flatten(one.update), flatten(two.update)
    scale = max(np.abs(leaf).max() for leaf in b.values())
    for name in a.keys() | b.keys():
        np.testing.assert_allclose(a[name], b[name], rtol=0, atol=1e-6 * scale)
    fields = {field.name for field in dataclasses.fields(Observation)} - {"params", "update"}
    assert {name: getattr(one, name) for name in fields} == {name: getattr(two, name) for name in fields}
    assert one.params is two.params


@EVERY
def test_same_key_same_result_and_nothing_is_changed(attack: Attack, lab: Any) -> None:
    observation = observe(lab, attack, made(lab))
    knowledge = know(lab, attack)
    frozen = copy.deepcopy(observation)
    before = [{k: np.array(v) for k, v in flatten(tree).items()} for tree in (frozen.params, frozen.update)]
    known = [(g.x.copy(), g.edges.copy()) for g in knowledge.auxiliary]
    for array in (*flatten(frozen.params).values(), *flatten(frozen.update).values()):
        array.setflags(write=False)
    assert bits(run(attack, frozen, knowledge)) == bits(attacked(attack, lab))
    after = [{k: np.array(v) for k, v in flatten(tree).items()} for tree in (frozen.params, frozen.update)]
    jax.tree.map(np.testing.assert_array_equal, before, after)
    for g, (x, edges) in zip(knowledge.auxiliary, known, strict=True):
        np.testing.assert_array_equal(g.x, x)
        np.testing.assert_array_equal(g.edges, edges)


@every(*(a for a in BRIEF if a.protocols != ("node_losses",)))
def test_node_order_does_not_matter(attack: Attack, lab: Any) -> None:
    """One gradient does not show the nodes' order, so the answers agree (the target node stays where it is)."""
    shuffled = made(lab).permute(np.array([0, 5, 3, 4, 1, 2]))
    one = attacked(attack, lab)
    two = run(attack, observe(lab, attack, shuffled), know(lab, attack))
    assert one.best is not None and two.best is not None
    assert one.best.isomorphic(two.best)
    assert one.gradient_distance == pytest.approx(two.gradient_distance, abs=1e-4)


@EVERY
def test_results_are_graphs_of_the_schema(attack: Attack, lab: Any) -> None:
    found = attacked(attack, lab)
    assert found.best is not None and found.gradient_distance is not None and found.gradient_distance >= 0
    for g in found.graphs:
        lab.space.check(g.x)
        assert g.n <= 12 or "target_node" in attack.protocols
        assert np.isin(np.asarray(g.y), (0, 1)).all()


@EVERY
def test_a_spoilt_gradient_is_refused(attack: Attack, lab: Any) -> None:
    observation = observe(lab, attack, made(lab))
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
