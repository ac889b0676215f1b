"""What an attack is given, what it refuses before it begins, and how long it may take."""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.attack import NEEDS, Attack, Budget, Clock, Reconstruction
from jgleak.attacks.baselines import EMPTY, FILE_HABIT, MEAN_ADJACENCY, RANDOM
from jgleak.features import FeatureSpace, binary, onehot
from jgleak.federated import Knowledge, LocalTraining, Observation
from jgleak.federated.observation import PROTOCOLS
from jgleak.gnn import GNN, MLP, BatchNorm, GCNConv, GINEConv, Layer, LinearEncoder, NodeScores, Pooled
from jgleak.gnn.gine import one_hot_rows
from jgleak.gnn.tree import at
from jgleak.graph import Graph

SPACE = FeatureSpace((onehot("colour", "rgb"), binary("ring")))
BONDED = dataclasses.replace(SPACE, edge_classes=("single", "double"))
PATH = Graph(np.zeros((2, 2), np.int32), np.array([[0, 1]]))
ROWS = Graph(np.zeros((2, 4)), PATH.edges)
PLAIN = GNN(SPACE.width, (Layer(GCNConv(3)),), Pooled("mean", MLP((4, 2))))


@pytest.fixture(scope="module")
def key() -> jax.Array:
    return jax.random.key(3)


def seen(model: GNN = PLAIN, **marks: Any) -> Observation:
    """An update that is zero: what is refused does not depend on it."""
    model.check()
    shapes = jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))
    params = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), shapes)
    update = jax.tree.map(np.zeros_like, params)
    if model.returns_statistics:
        names = ("mean", "variance")
        kept = {layer: {norm: {k: at(params, (layer, norm))[k] for k in names}} for layer, norm in model.norms}
        marks = {"statistics": kept} | marks
    return Observation(model, params, update, marks.pop("loss", "ce"), **marks)


def knowing(known: Mapping[str, Any]) -> Knowledge:
    """Of the space, unless another is given."""
    return Knowledge(known.get("space", SPACE), **{name: value for name, value in known.items() if name != "space"})


def echo(**fields: Any) -> Attack:
    """An attack that returns what it was called with."""

    def run(observation: Observation, knowledge: Knowledge, *, key: jax.Array, budget: Budget) -> Reconstruction:
        return Reconstruction((), None, "done", info={"got": (observation, knowledge, key, budget)})

    return Attack("echo", run, **fields)


ADAM = LocalTraining(0.1, 2, optimiser="adam")
STEPS = LocalTraining(0.1, 2)
BONDS = PLAIN.clone(layers=(Layer(GINEConv(3, edge_rows=one_hot_rows(2))),))
NORMED = PLAIN.clone(layers=(Layer(GCNConv(3), norm=BatchNorm(training=True)),))
INSIDE = PLAIN.clone(layers=(Layer(GCNConv(3), dropout=0.5),))
BEHIND = PLAIN.clone(encoder=LinearEncoder(3), dropout=0.5)
FROZEN = PLAIN.clone(frozen=("layers_0",))
NODES = GNN(SPACE.width, (Layer(GCNConv(3)), Layer(GCNConv(2, bias=True))), NodeScores(2))

REFUSED: Mapping[str, tuple[str, Observation, Mapping[str, Any], Mapping[str, Any]]] = {
    "protocol": (
        "it reads updates of the protocol 'fedsgd', not 'fedavg'; let the client send that",
        seen(protocol="fedavg", local=STEPS),
        {"protocols": ("fedsgd",)},
        {},
    ),
    "two protocols": ("'fedsgd' or 'fedavg', not 'target_node'", seen(NODES, protocol="target_node"), {}, {}),
    "Adam": ("the client trained with Adam", seen(protocol="fedavg", local=ADAM), {}, {}),
    "batch": ("the update mixes 2 graphs and it attacks one", seen(batch_size=2), {}, {}),
    "statistics of a batch": (
        "behind the update are 2 graph(s) and 1 step(s)",
        seen(NORMED, batch_size=2),
        {"several": True},
        {},
    ),
    "statistics of steps": (
        "behind the update are 1 graph(s) and 2 step(s)",
        seen(NORMED, protocol="fedavg", local=STEPS),
        {},
        {},
    ),
    "bonds": ("the model tells edge classes (bond types) apart", seen(BONDS), {}, {"space": BONDED}),
    "dropout": ("let the client train without. What enters the first weight is not masked", seen(INSIDE), {}, {}),
    "dropout of input": ("let the client train without", seen(PLAIN.clone(dropout=0.5)), {}, {}),
    "frozen": ("parts of the model are frozen (layers_0)", seen(FROZEN), {}, {}),
    "frozen output of tasks": (
        "the map next to the output is frozen (readout)",
        seen(PLAIN.clone(frozen=("readout",)), loss="masked_bce"),
        {"frozen": True},
        {},
    ),
    "frozen output of nodes": (
        "the map next to the output is frozen (layers_1), whose gradient shows labels of nodes",
        seen(NODES.clone(frozen=("layers_1",))),
        {"frozen": True},
        {},
    ),
    "sizes": (
        "sizes of 2 graph(s) are given and 3 are behind the update",
        seen(batch_size=3),
        {"several": True},
        {"sizes": (2, 3)},
    ),
    "number of nodes": ("it needs the number of nodes; give it (Knowledge(n=...)", seen(), {"needs": ("n",)}, {}),
    "labels": ("it needs the labels; give it (Knowledge(labels=...)", seen(), {"needs": ("n", "labels")}, {"n": 2}),
    "public graphs": ("it needs public graphs of the same kind", seen(), {"needs": ("auxiliary",)}, {}),
    "input rows": (
        "the public graphs hold rows for the model, not features of the space",
        seen(),
        {},
        {"auxiliary": (PATH, ROWS)},
    ),
    "edges of classes": (
        "the public graphs do not fit the feature space: ",
        seen(),
        {},
        {"auxiliary": (PATH, dataclasses.replace(PATH, edge_class=np.array([1])))},
    ),
    "its own": ("never", seen(), {"unsupported": lambda observation, knowledge: "never"}, {}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_every_attack_refuses(case: str, key: jax.Array) -> None:
    said, observation, fields, known = REFUSED[case]
    attack, knowledge = echo(**fields), knowing(known)
    assert said in str(attack.refusal(observation, knowledge))
    with pytest.raises(ValueError, match="attack 'echo' cannot run here: "):
        attack(observation, knowledge, key=key)
    with pytest.raises(ValueError, match="attack 'echo' cannot run here: "):
        attack.on_many([observation], [knowledge], keys=[key])


ALLOWED: Mapping[str, tuple[Observation, Mapping[str, Any], Mapping[str, Any]]] = {
    "plain": (seen(), {}, {}),
    "steps": (seen(protocol="fedavg", local=STEPS), {}, {}),
    "batch": (seen(batch_size=2), {"several": True}, {"sizes": (2, 3)}),
    "statistics": (seen(NORMED), {}, {}),
    "bonds": (seen(BONDS), {"edge_classes": True}, {"space": BONDED}),
    "dropout": (seen(INSIDE), {"dropout": True}, {}),
    "frozen": (seen(FROZEN), {"frozen": True}, {}),
    "frozen output of one label": (seen(PLAIN.clone(frozen=("readout",))), {"frozen": True}, {}),
    "frozen below the output of tasks": (seen(FROZEN, loss="masked_bce"), {"frozen": True}, {}),
    "frozen farther from the output": (
        seen(PLAIN.clone(frozen=("readout/mlp/linears_0",)), loss="masked_bce"),
        {"frozen": True},
        {},
    ),
    "edges tell the number of nodes": (seen(), {"needs": ("n", "adjacency")}, {"adjacency": np.zeros((2, 2))}),
    "public graphs": (seen(), {"needs": ("auxiliary",)}, {"auxiliary": (PATH,)}),
    "input rows": (seen(), {"rows": True}, {"auxiliary": (ROWS,)}),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_is_not_refused(case: str) -> None:
    observation, fields, known = ALLOWED[case]
    assert echo(**fields).refusal(observation, knowing(known)) is None


@pytest.mark.parametrize(("model", "said"), [(INSIDE, True), (BEHIND, True), (PLAIN.clone(dropout=0.5), False)])
def test_dropout_behind_the_first_weight_leaves_its_rows(model: GNN, said: bool) -> None:
    refusal = echo().refusal(seen(model), Knowledge(SPACE))
    assert refusal is not None and ("the span of its gradient still shows those rows" in refusal) is said


def test_an_attack_is_run_with_numpy_and_the_budget_of_a_minute(key: jax.Array) -> None:
    sent = seen()
    sent = dataclasses.replace(sent, update=jax.tree.map(jax.numpy.asarray, sent.update))
    got = echo()(sent, Knowledge(SPACE), key=key).info["got"]
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(got[0].update))
    assert got[2] is key and got[3] == Budget(60.0, 1_000_000_000, 100_000)
    own = Budget(1.0)
    assert echo()(seen(), Knowledge(SPACE), key=key, budget=own).info["got"][3] is own


def test_another_feature_space_is_refused(key: jax.Array) -> None:
    other = Knowledge(FeatureSpace((onehot("colour", "rgb"),)))
    with pytest.raises(ValueError, match="takes 4 features a node, but the feature space has 3"):
        echo()(seen(), other, key=key)
    with pytest.raises(ValueError, match="takes 4 features a node, but the feature space has 3"):
        echo().on_many([seen()], [other], keys=[key])


@pytest.mark.parametrize(
    ("stated", "known", "used"), [(None, None, None), (0.1, None, 0.1), (None, 0.2, 0.2), (0.1, 0.2, 0.2)]
)
def test_the_noise_that_an_observation_states_is_known(
    stated: float | None, known: float | None, used: float | None, key: jax.Array
) -> None:
    each = echo().on_many([seen(noise=stated)], [Knowledge(SPACE, noise=known)], keys=[key])
    one = echo()(seen(noise=stated), Knowledge(SPACE, noise=known), key=key)
    assert [found.info["got"][1].noise for found in (*each, one)] == [used, used]


def test_many_clients_are_attacked_in_their_order_with_their_own_keys(key: jax.Array) -> None:
    clients, keys = [seen(noise=float(k)) for k in (1, 2)], list(jax.random.split(key))
    known, own = [Knowledge(SPACE, n=k) for k in (4, 5)], Budget(2.0)
    found = [one.info["got"] for one in echo().on_many(clients, known, keys=keys, budget=own)]
    assert [one[0].noise for one in found] == [1.0, 2.0] and [one[1].n for one in found] == [4, 5]
    assert [one[2] is own for one, own in zip(found, keys, strict=True)] == [True, True]
    assert all(one[3] is own for one in found)
    assert echo().on_many(clients, known, keys=keys)[0].info["got"][3] == Budget()
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        echo().on_many(clients, known[:1], keys=keys)


def test_an_attack_on_many_at_once_is_asked_once_and_never_for_nobody(key: jax.Array) -> None:
    asked = list[Any]()

    def many(observations: Any, knowledges: Any, *, keys: Any, budget: Budget) -> list[Reconstruction]:
        asked.append((len(observations), len(knowledges), keys, budget))
        return [Reconstruction((), None, "done")] * len(observations)

    attack, keys = echo(many=many), list(jax.random.split(key, 3))
    assert len(attack.on_many([seen()] * 3, [Knowledge(SPACE)] * 3, keys=keys)) == 3
    assert asked == [(3, 3, keys, Budget())]
    assert attack.on_many([], [], keys=[]) == [] and len(asked) == 1


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "returned NoneType; it has to be a Reconstruction"),
        (Reconstruction((Graph(np.full((2, 2), 99), np.zeros((0, 2), int)),), 0.0, "done"), "node 0 has code 99"),
    ],
)
def test_what_is_no_answer_is_refused_by_the_attack_s_name(returned: Any, said: str, key: jax.Array) -> None:
    own, many = Attack("echo", lambda *_, **__: returned), echo(many=lambda *_, **__: [returned])
    for call in (
        lambda: own(seen(), Knowledge(SPACE), key=key),
        lambda: own.on_many([seen()], [Knowledge(SPACE)], keys=[key]),
        lambda: many.on_many([seen()], [Knowledge(SPACE)], keys=[key]),
    ):
        with pytest.raises(ValueError, match=f"attack '.*' returned .*{said.removeprefix('returned ')}"):
            call()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"graphs": ("C",)}, r"graphs: expected a tuple of Graph, best first, got \('C',\)"),
        ({"graphs": []}, r"graphs: expected a tuple of Graph, best first, got \[\]"),
        ({"gradient_distance": "small"}, "gradient_distance: expected a number or None, got 'small'"),
        ({"stop": 3}, "stop: expected a word, such as 'done', got 3"),
    ],
)
def test_a_reconstruction_holds_what_it_says(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Reconstruction(**{"graphs": (), "gradient_distance": np.float32(0.1), "stop": "done", **fields})


@pytest.mark.usefixtures("unchecked")
def test_a_distance_that_jax_computed_is_a_number() -> None:
    one: Any = jnp.float32(0.5)
    row: Any = jnp.ones(1)
    other: Any = np.array("a")
    assert type(Reconstruction((), one, "done").gradient_distance) is float
    with pytest.raises(ValueError, match="gradient_distance: expected a number"):
        Reconstruction((), row, "done")
    with pytest.raises(ValueError, match="gradient_distance: expected a number"):
        Reconstruction((), other, "done")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"needs": ("edges",)}, "needs of 'own': expected a tuple of n, adjacency, .*, got .'edges',."),
        ({"needs": "n"}, "needs of 'own': expected a tuple of n, adjacency, .*, got 'n'"),
        ({"protocols": ("sgd",)}, "protocols of 'own': expected a tuple of fedsgd, .*, got .'sgd',."),
        ({"needs": None}, "needs of 'own': expected a tuple of n, adjacency, .*, got None"),
        ({"many": 3}, "many of 'own': expected a function, got 3"),
        ({"run": None}, "run of 'own': expected a function, got None"),
        ({"unsupported": "no"}, "unsupported of 'own': expected a function, got 'no'"),
        ({"with_options": {}}, "with_options of 'own': expected a function, got {}"),
    ],
)
def test_an_attack_is_checked_when_it_is_made(fields: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        Attack(**{"name": "own", "run": echo().run, **fields})
    assert echo(protocols=PROTOCOLS, needs=tuple(NEEDS)).needs == tuple(NEEDS), "it may take and need everything"


def test_each_client_has_a_key_and_an_answer(key: jax.Array) -> None:
    few = echo(many=lambda *_, **__: [])
    for answers in ([], None):
        many: Any = lambda *_, answers=answers, **__: answers  # noqa: E731
        with pytest.raises(ValueError, match="attack 'echo' gave no list of 1 answers, one a client"):
            Attack("echo", few.run, many=many).on_many([seen()], [Knowledge(SPACE)], keys=[key])
    for attack in (few, echo()):
        with pytest.raises(ValueError, match="keys: expected 1, one a client, got 2"):
            attack.on_many([seen()], [Knowledge(SPACE)], keys=list(jax.random.split(key)))


@pytest.mark.parametrize("limit", [-1.0, float("nan"), "60", None, True])
def test_a_time_limit_is_a_number_from_zero(limit: Any) -> None:
    with pytest.raises(ValueError, match="time_limit: seconds, a number from 0, got"):
        inspect.unwrap(Budget.__post_init__)(SimpleNamespace(time_limit=limit))
    assert Budget(0).start().left <= 0.0 and Budget(float("inf")).start().left == float("inf")


def test_an_attack_without_options_names_the_one_that_it_got() -> None:
    with pytest.raises(ValueError, match="option 'steps': this attack has no options"):
        echo().with_options({"steps": 3, "rate": 1})


def test_a_clock_tells_what_is_left_and_parts_of_that() -> None:
    now = time.monotonic()
    clock = Clock(now - 4.0, 10.0)
    assert clock.elapsed == pytest.approx(4.0, abs=0.5) and clock.left == pytest.approx(6.0, abs=0.5)
    half = clock.part(0.5)
    assert half.begun == clock.begun and half.seconds == pytest.approx(7.0, abs=0.5)
    assert half.left == pytest.approx(3.0, abs=0.5)
    assert Clock(now - 4.0, 1.0).left == pytest.approx(-3.0, abs=0.5)
    started = Budget(5.0).start()
    assert started.seconds == 5.0 and started.elapsed < 1.0


def test_the_best_graph_is_the_first() -> None:
    other = dataclasses.replace(PATH, y=1)
    assert Reconstruction((other, PATH), 0.0, "match").best is other
    assert Reconstruction((), None, "no candidates").best is None


@pytest.mark.parametrize("attack", [RANDOM, EMPTY, MEAN_ADJACENCY, FILE_HABIT], ids=lambda attack: attack.name)
def test_a_baseline_guesses_whatever_the_client_did(attack: Attack) -> None:
    """They never look at the gradient; edge classes are guessed by those that need no public edges."""
    public = {"auxiliary": (PATH,), "n": 3}
    for observation in (seen(), seen(batch_size=2), seen(INSIDE), seen(FROZEN), seen(protocol="fedavg", local=STEPS)):
        assert attack.refusal(observation, Knowledge(SPACE, **public)) is None
    bonded = Knowledge(BONDED, n=3, auxiliary=(dataclasses.replace(PATH, edge_class=np.array([1])),))
    assert (attack.refusal(seen(BONDS), bonded) is None) is (attack in (RANDOM, EMPTY))
    alone = attack.refusal(seen(), Knowledge(SPACE, n=3))
    assert (alone is None) is (attack in (RANDOM, EMPTY))
    edges = Knowledge(SPACE, adjacency=np.zeros((3, 3)))
    assert (attack.refusal(seen(), edges) is None) is (attack is not FILE_HABIT)
