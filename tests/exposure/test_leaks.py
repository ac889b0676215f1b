"""What is said to leak by construction, beside what facts find in real updates; and silence where it is closed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import optax
import pytest

from jgleak.attacks.facts.registry import facts
from jgleak.attacks.registry import get_attack
from jgleak.attacks.span.subspace import Subspace
from jgleak.exposure.clients import Clients
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.dropout import dropping
from jgleak.exposure.finding import Finding
from jgleak.exposure.findings.spans import room
from jgleak.exposure.registry import FINDINGS
from jgleak.features import FeatureSpace, number
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.federated.observation import flatten
from jgleak.gnn import MLP, BatchNorm, GINEConv, LinearEncoder, NodeMLP, Pooled, standard
from jgleak.gnn.gine import one_hot_rows
from jgleak.graph import Graph
from jgleak.interop.weights import mean_gradient, rounding
from tests.exposure.conftest import GRAPHS, SPACE, STEPS, adam, pooled, sent, trained

NORMALISED = SPACE.fit([graph.x for graph in GRAPHS])
PLAIN = Clients(batch_size=2, local=LocalTraining(0.1, STEPS))


def only(name: str, deployment: Deployment) -> Finding:
    found = list(FINDINGS[name](deployment))
    assert len(found) == 1 and found[0].id == name
    return found[0]


def values(seen: Observation, deployment: Deployment) -> dict[str, Any]:
    found = facts(seen, deployment.space, noise=deployment.knowledge.noise).found.get("feature_values")
    return {} if found is None else {name: set(several) for name, several in found.value.items()}


Case = tuple[Deployment, Callable[[Deployment], Observation]]
LEAKING: Mapping[str, Case] = {
    "one gradient of two graphs": (Deployment(pooled(), SPACE, Clients(batch_size=2)), lambda d: sent(d, 2)),
    "steps": (Deployment(pooled(), SPACE, PLAIN), lambda d: trained(d, optax.sgd(0.1), 0.1, 2)),
    "Adam, a batch and dropout at once": (
        Deployment(dropping(pooled(), 0.3), SPACE, adam(2)),
        lambda d: trained(d, optax.adam(1e-3), 1e-3, 2),
    ),
    "AdamW": (
        Deployment(pooled(), SPACE, adam(2, weight_decay=0.01)),
        lambda d: trained(d, optax.adamw(1e-3, weight_decay=0.01), 1e-3, 2),
    ),
    "masked input": (Deployment(pooled(dropout=0.2), SPACE, Clients(batch_size=2)), lambda d: sent(d, 2)),
    "a readout that sees the input": (
        Deployment(standard(SPACE.width, hidden=16), SPACE, Clients(batch_size=2)),
        lambda d: sent(d, 2),
    ),
    "pruning": (
        Deployment(pooled(), SPACE, Clients(batch_size=2, defense="prune:0.5")),
        lambda d: sent(d, 2),
    ),
}


@pytest.mark.parametrize("name", LEAKING)
def test_values_leak_where_it_is_said(name: str, occurring: dict[str, set[Any]]) -> None:
    deployment, client = LEAKING[name]
    finding = only("input-rows", deployment)
    assert finding.level == "leaks" and finding.shown_by == "fact:feature_values"
    shown = values(client(deployment), deployment)
    assert shown and all(shown[name] <= occurring[name] for name in shown)
    assert len(shown["colour"]) >= 3, "nodes got gradients"


def test_tables_of_embeddings_leak_like_other_first_maps(occurring: dict[str, set[Any]]) -> None:
    deployment = Deployment(pooled(encoder=LinearEncoder(8, bias=False)), SPACE, Clients(batch_size=2))
    assert only("embedding-rows", deployment).level == "leaks" and not list(FINDINGS["input-rows"](deployment))
    shown = values(sent(deployment, 2), deployment)
    assert shown["colour"] == occurring["colour"] and "e" not in shown["colour"]
    biased = Deployment(pooled(encoder=LinearEncoder(8)), SPACE)
    assert only("input-rows", biased).level == "leaks" and not list(FINDINGS["embedding-rows"](biased))


def test_what_noise_or_normalisation_may_hide_is_not_called_certain() -> None:
    assert only("input-rows", Deployment(pooled(), SPACE, Clients(defense="gaussian:0.001"))).level == "open"
    normalised = Deployment(pooled(NORMALISED), NORMALISED)
    assert only("input-rows", normalised).level == "open"
    assert not values(sent(normalised), normalised), "most values of so few occur"


def test_columns_of_numbers_show_no_value() -> None:
    """No more than the fact, which names values of one-hot and binary columns alone."""
    numbers = FeatureSpace((number("colour", range(5)), number("degree", range(5))), degree="degree")
    deployment = Deployment(pooled(numbers), numbers)
    finding = only("input-rows", deployment)
    assert finding.level == "closed" and "their columns are numbers" in finding.why
    client = Graph(np.array([[1, 1], [2, 2], [4, 1]]), np.array([[0, 1], [1, 2]]), 1)
    seen = fedsgd(deployment.model, deployment.params, [client], numbers, loss=deployment.loss)
    assert not values(seen, deployment)


def stated(deployment: Deployment, optimiser: optax.GradientTransformation) -> Observation:
    """Weights that came back from what the deployment says, with their rounding."""
    local, params = deployment.clients.local, deployment.params
    assert local is not None
    state = optimiser.init(params)
    for _ in range(local.steps):
        gradient = fedsgd(deployment.model, params, GRAPHS, SPACE, loss=deployment.loss).update
        change, state = optimiser.update(gradient, state, params)
        params = jax.device_get(optax.apply_updates(params, change))
    update = jax.tree.map(lambda a, b: mean_gradient(np.asarray(a), np.asarray(b), local), deployment.params, params)
    noise = rounding(flatten(deployment.params), flatten(params), local)
    return dataclasses.replace(sent(deployment, 2), update=update, protocol="fedavg", local=local, noise=noise)


@pytest.mark.parametrize("decay", [1e-4, 5e-4, 0.01])
def test_values_leak_under_adamw_and_steps_of_a_batch_at_once(decay: float, occurring: dict[str, set[Any]]) -> None:
    """The decay is taken off, as the protocol states it; Adam with L2 moves every row, and is none of AdamW."""
    deployment = Deployment(pooled(), SPACE, adam(2, weight_decay=decay))
    finding = only("input-rows", deployment)
    assert finding.level == "leaks" and "decoupled (AdamW)" in finding.why and "together too" in finding.why
    assert "stay as they are except for the decay" in finding.why
    shown = facts(stated(deployment, optax.adamw(1e-3, weight_decay=decay)), SPACE).found["feature_values"].value
    assert all(set(shown[name]) <= occurring[name] for name in shown) and len(shown["colour"]) >= 3
    coupled = optax.chain(optax.add_decayed_weights(decay), optax.adam(1e-3))
    untold = dataclasses.replace(stated(deployment, coupled), local=LocalTraining(1e-3, STEPS), noise=None)
    assert "every row" in facts(untold, SPACE).silent["feature_values"]


@pytest.mark.parametrize("defense", ["prune:0.5", "quantise:2", "sign", "clip:1"])
def test_what_no_fact_proves_together_with_the_rest_is_open(defense: str) -> None:
    """Rows of absent values that decayed and were changed again may be no multiples of their weights."""
    clients = Clients(local=LocalTraining(0.1, STEPS, weight_decay=0.01), defense=defense)
    finding = only("input-rows", Deployment(pooled(), SPACE, clients))
    assert finding.level == "open" and "(each proved by itself)" in finding.why and "may show" in finding.what
    without = dataclasses.replace(clients, local=LocalTraining(0.1, STEPS))
    known = only("input-rows", Deployment(pooled(), SPACE, without))
    assert known.level == ("open" if defense == "sign" else "leaks"), "all of these keep zeros"


@pytest.mark.parametrize(
    ("deployment", "client"),
    [
        (Deployment(pooled(frozen=("layers_0",)), SPACE), sent),
        (Deployment(pooled(NORMALISED), NORMALISED, Clients(defense="quantise:2")), sent),
        (Deployment(pooled(NORMALISED), NORMALISED, adam()), lambda d: trained(d, optax.adam(1e-3), 1e-3)),
    ],
    ids=["frozen", "normalised and quantised", "normalised under Adam"],
)
def test_no_value_shows_where_it_is_closed(deployment: Deployment, client: Any) -> None:
    finding = only("input-rows", deployment)
    assert finding.level == "closed"
    if deployment.space is NORMALISED:
        assert "raw columns" in finding.instead and only("input-rows", Deployment(pooled(), SPACE)).level == "leaks"
    assert not values(client(deployment), deployment)


def test_gine_without_an_encoder_shows_no_values() -> None:
    space = type(SPACE)(SPACE.features, SPACE.degree, edge_classes=("single", "double"))
    deployment = Deployment(
        standard(space.width, GINEConv(8, edge_rows=one_hot_rows(2)), NodeMLP(see_input=False)), space
    )
    finding = only("input-rows", deployment)
    assert finding.level == "closed" and "encoder" in finding.instead
    encoded = Deployment(deployment.model.clone(encoder=LinearEncoder(8)), space)
    assert only("input-rows", encoded).level == "leaks"


def training(**clients: Any) -> Deployment:
    model = pooled()
    layers = tuple(layer.clone(norm=BatchNorm(training=True)) for layer in model.layers)
    return Deployment(model.clone(layers=layers), SPACE, Clients(**clients))


def together(deployment: Deployment) -> Observation:
    """Both graphs as one of two parts: a norm in training mode means the same over them."""
    first, second = GRAPHS
    both = Graph(np.concatenate([first.x, second.x]), np.concatenate([first.edges, second.edges + first.n]), 1)
    return fedsgd(deployment.model, deployment.params, [both], SPACE, loss="bce")


def batch_means(seen: Observation) -> Any:
    """The means that the buffers of the first norm show."""
    return np.array(facts(seen, SPACE).found["batch_statistics"].value["layers_0/norm"]["mean"])


def test_buffers_leak_of_one_step_and_only_where_they_come_back() -> None:
    leaking = only("buffers", training())
    assert leaking.level == "leaks" and leaking.details["norms"] == {"layers_0/norm": 32, "layers_1/norm": 32}
    seen = sent(training())
    shown = facts(seen, SPACE).found["batch_statistics"].value
    rows = SPACE.encode(GRAPHS[0].x)
    adjacency = GRAPHS[0].adjacency + np.eye(4)
    scale = 1.0 / np.sqrt(adjacency.sum(axis=1))
    kernel, bias = (np.asarray(seen.params["layers_0"]["conv"][name]) for name in ("kernel", "bias"))
    entering = (scale[:, None] * adjacency * scale) @ rows @ kernel + bias
    np.testing.assert_allclose(shown["layers_0/norm"]["mean"], entering.mean(axis=0), atol=1e-5)

    kept = training(statistics=False)
    assert only("buffers", kept).level == "closed" and kept.seen is not None
    assert "batch_statistics" in facts(kept.seen, SPACE).silent
    several = training(batch_size=2)
    assert only("buffers", several).level == "leaks"
    batch = dataclasses.replace(together(several), batch_size=2)
    own = [batch_means(fedsgd(several.model, several.params, [one], SPACE, loss="bce")) * one.n for one in GRAPHS]
    np.testing.assert_allclose(batch_means(batch), sum(own) / sum(one.n for one in GRAPHS), atol=1e-5)
    stepped = training(local=LocalTraining(0.1, 3))
    assert only("buffers", stepped).level == "open" and "here there are 3" in only("buffers", stepped).why
    assert not list(FINDINGS["buffers"](Deployment(pooled(), SPACE))), "no norm, nothing to say"


@pytest.mark.parametrize(
    "clients",
    [
        {"local": LocalTraining(0.1, momentum=0.9)},
        {"local": LocalTraining(1e-3, weight_decay=0.01, optimiser="adam")},
        {"defense": "clip-inf:0.1"},
        {"defense": "sign"},
    ],
    ids=str,
)
def test_one_step_leaks_buffers_whatever_is_done_to_the_gradient(clients: dict[str, Any]) -> None:
    deployment = training(**clients)
    plain = sent(training())
    protection = deployment.clients.protection
    seen = fedsgd(plain.model, plain.params, GRAPHS[:1], SPACE, loss="bce", defense=protection, key=jax.random.key(0))
    told = {"protocol": "fedavg", "local": deployment.clients.local} if deployment.clients.local else {}
    assert only("buffers", deployment).level == "leaks"
    np.testing.assert_array_equal(batch_means(dataclasses.replace(seen, **told)), batch_means(plain))


def test_buffers_of_disturbed_activations_are_not_called_those_of_the_rows() -> None:
    disturbed = training(defense="activations:0.5")
    assert only("buffers", disturbed).level == "open" and "activations:0.5" in only("buffers", disturbed).why
    assert only("buffers", training(defense="activations:0.5", local=LocalTraining(0.1, 2))).why.endswith("are 2.")


def test_values_leak_behind_batch_normalisation_over_a_batch_of_graphs(occurring: dict[str, set[Any]]) -> None:
    several = training(batch_size=2)
    assert several.seen is not None and only("input-rows", several).level == "leaks"
    shown = values(together(several), training())
    assert len(shown["colour"]) >= 3 and all(shown[name] <= occurring[name] for name in shown)


def label_of(seen: Observation) -> dict[str, Any]:
    return {name: fact.value for name, fact in facts(seen, SPACE).found.items() if name in ("label", "classes")}


def test_signs_name_labels_where_it_is_said() -> None:
    one, two = Deployment(pooled(), SPACE), Deployment(pooled(), SPACE, Clients(batch_size=2))
    assert (only("labels", one).level, only("labels", two).level) == ("leaks", "open")
    assert only("labels", one).shown_by == "fact:label" and label_of(sent(one)) == {"label": 1}
    assert only("labels", two).shown_by == "fact:classes" and set(label_of(sent(two, 2))["classes"]) <= {0, 1}
    stepped = Deployment(dropping(pooled(), 0.3), SPACE, adam())
    assert only("labels", stepped).level == "leaks"
    assert label_of(trained(stepped, optax.adam(1e-3), 1e-3)) == {"label": 1}
    decayed = Deployment(pooled(), SPACE, adam(weight_decay=0.01))
    assert only("labels", decayed).level == "open" and "blurs" in only("labels", decayed).why


TASKS = pooled().clone(readout=Pooled("mean", MLP((16, 4))))
OF_TASKS = Graph(GRAPHS[0].x, GRAPHS[0].edges, np.array([[1.0, 0.0, np.nan, 1.0]]))


def defended(defense: str, loss: str) -> tuple[Finding, dict[str, Any]]:
    """What is said of labels, and what facts read of a client's."""
    deployment = Deployment(TASKS, SPACE, Clients(loss=loss, defense=defense))
    graph, key = OF_TASKS if loss == "masked_bce" else GRAPHS[0], jax.random.key(0)
    fields: dict[str, Any] = {"loss": loss, "defense": deployment.clients.protection, "key": key}
    seen = fedsgd(TASKS, deployment.params, [graph], SPACE, **fields)
    fact = facts(seen, SPACE, noise=deployment.knowledge.noise).found.get("label")
    return only("labels", deployment), {} if fact is None else {"label": fact.value}


@pytest.mark.parametrize("defense", ["quantise:2", "float16", "sign"])
def test_labels_of_tasks_are_open_under_what_keeps_signs_and_may_make_zeros(defense: str) -> None:
    finding, read = defended(defense, "masked_bce")
    assert finding.level == "open" and "may show" in finding.what and read == {"label": [1, 0, None, 1]}
    assert defense == "sign" or finding.details["ways"] == ["quantisation"]


@pytest.mark.parametrize("defense", ["gaussian:0.001", "prune:0.5"])
def test_noise_and_pruning_hide_which_labels_miss_and_leave_a_class_open(defense: str) -> None:
    finding, read = defended(defense, "masked_bce")
    assert finding.what.startswith("No sign") and not read
    finding, read = defended(defense, "ce")
    assert finding.level == "open" and read == {"label": 1}
    unknown = Deployment(TASKS, SPACE, Clients(loss="ce", defense="prune:0.5+gaussian:0.001"))
    assert only("labels", unknown).what.startswith("No sign"), "of noise before or behind pruning nobody knows the size"


@pytest.mark.parametrize(
    "deployment",
    [
        Deployment(pooled(frozen=("readout/mlp/linears_1/bias",)), SPACE),
        Deployment(pooled(), SPACE, Clients(loss="ce+smoothing:0.3")),
    ],
    ids=["frozen", "smoothed"],
)
def test_where_signs_name_no_label_the_graph_may_show_it(deployment: Deployment) -> None:
    """The census returns a label with each graph that it finds, so that only what stops it closes the label."""
    finding = only("labels", deployment)
    assert finding.what.startswith("No sign") and label_of(sent(deployment)) == {}
    assert finding.level == "open" and "census returns" in finding.what
    stopped = deployment.changed(clients=dataclasses.replace(adam(), loss=deployment.loss))
    assert only("labels", stopped).level == "closed" and "census" not in only("labels", stopped).what


@pytest.mark.parametrize(
    ("readout", "loss", "y"),
    [
        (Pooled("mean", MLP((1,))), "mse", 1.25),
        (Pooled("sum", MLP((16, 1))), None, -2.0),
        (Pooled("mean,sum", MLP((16, 1))), None, -2.0),
        (Pooled("mean", MLP((16, 3))), "masked_mse", np.array([[0.5, np.nan, -1.0]])),
    ],
)
def test_targets_of_a_regression_show_in_one_gradient(readout: Pooled, loss: str | None, y: Any) -> None:
    deployment = Deployment(pooled().clone(readout=readout), SPACE, Clients(loss=loss))
    finding = only("labels", deployment)
    graph = dataclasses.replace(GRAPHS[0], y=y)
    seen = fedsgd(deployment.model, deployment.params, [graph], SPACE, loss=deployment.loss)
    read = facts(seen, SPACE).found["label"].value
    np.testing.assert_allclose(np.array(read, float), np.ravel(y), atol=1e-3)
    assert finding.level == "leaks" and finding.shown_by == "fact:label" and "2 (o - y)" in finding.why
    assert ("tasks" in finding.what) == (loss == "masked_mse") == ("number of labels" in finding.why)
    assert ("freeze" in finding.instead) == (readout.maps == 1), "behind two maps a kernel shows what the bias does"
    rounded = only("labels", deployment.changed(clients=Clients(loss=loss, defense="float16")))
    assert rounded.what.startswith("No fact shows a target")


@pytest.mark.parametrize(
    "clients",
    [
        Clients(batch_size=2),
        Clients(local=LocalTraining(0.1, STEPS)),
        Clients(local=LocalTraining(0.1, 1)),
        Clients(defense="prune:0.5"),
        Clients(defense="gaussian:0.001"),
        Clients(loss="masked_mae"),
    ],
)
def test_targets_that_no_fact_shows(clients: Clients) -> None:
    model = pooled().clone(readout=Pooled("mean", MLP((16, 1))))
    deployment = Deployment(model, SPACE, clients)
    finding = only("labels", deployment)
    assert finding.what.startswith("No fact shows a target")
    by_graph = deployment.refusal(get_attack("census")) is None
    assert (finding.level == "open") == by_graph == ("census" in finding.what) == (finding.shown_by == "attack:census")
    assert bool(finding.instead) == (not by_graph), "what would open it is no remedy of what is open"
    masked = deployment.loss.startswith("masked")
    graphs = [dataclasses.replace(g, y=np.array([[0.5]]) if masked else 0.5) for g in GRAPHS[: clients.batch_size]]
    sending: dict[str, Any] = {"defense": clients.protection, "key": jax.random.key(0)}
    seen = fedsgd(model, deployment.params, graphs, SPACE, loss=deployment.loss, **sending)
    if clients.local is not None:
        seen = dataclasses.replace(seen, protocol="fedavg", local=clients.local)
    assert "label" not in facts(seen, SPACE, noise=deployment.knowledge.noise).found
    drops = model.clone(readout=Pooled("mean", MLP((16, 1), dropout=0.5)))
    assert only("labels", deployment.changed(model=drops, clients=Clients())).what == "No fact shows a target."


def test_numbers_of_nodes_and_graphs_show_where_it_is_said() -> None:
    counting = Deployment(pooled(pooling="mean,sum"), SPACE)
    assert only("sizes", counting).level == "open"
    assert facts(sent(counting), SPACE).found["nodes"].value == {"exactly": 4}
    shared = Deployment(pooled(), SPACE)
    assert only("sizes", shared).level == "open" and "bias" in only("sizes", shared).instead
    assert "nodes" in facts(sent(shared), SPACE).found
    bare = pooled()
    bare = bare.clone(layers=tuple(layer.clone(conv=layer.conv.clone(bias=False)) for layer in bare.layers))
    assert not list(FINDINGS["sizes"](Deployment(bare, SPACE)))
    assert "nodes" in facts(sent(Deployment(bare, SPACE)), SPACE).silent
    two = Deployment(pooled(), SPACE, Clients(batch_size=2))
    assert only("sizes", two).shown_by == "fact:graphs"
    assert facts(sent(two, 2), SPACE).found["graphs"].value == 2
    assert not list(FINDINGS["sizes"](Deployment(pooled(), SPACE, PLAIN)))


def frozen(pooling: str, count: int, part: str) -> Deployment:
    return Deployment(pooled(pooling=pooling, frozen=(part,)), SPACE, Clients(batch_size=count))


@pytest.mark.parametrize(
    "deployment",
    [
        frozen("mean,sum", 1, "readout"),
        frozen("mean,sum", 1, "readout/mlp/linears_0/bias"),
        frozen("mean", 1, "layers_1/conv/bias"),
        frozen("mean", 2, "readout/mlp/linears_0/kernel"),
    ],
    ids=lambda deployment: deployment.model.frozen[0],
)
def test_no_number_is_said_to_show_in_a_map_that_is_frozen(deployment: Deployment) -> None:
    count = deployment.clients.batch_size
    assert not list(FINDINGS["sizes"](deployment))
    assert {"nodes", "graphs"} <= set(facts(sent(deployment, count), SPACE).silent)
    trains = dataclasses.replace(deployment, model=deployment.model.clone(frozen=()))
    assert only("sizes", trains).shown_by.removeprefix("fact:") in facts(sent(trains, count), SPACE).found


def test_a_graph_whose_units_are_all_off_hides_its_number_of_nodes() -> None:
    counting = Deployment(pooled(pooling="mean,sum"), SPACE)
    off = jax.tree.map(np.array, counting.params)
    off["layers_1"]["conv"]["bias"][:] = -100.0
    assert "nodes" in facts(sent(dataclasses.replace(counting, given=off)), SPACE).silent


@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (7, 7)])
def test_a_span_fills_with_one_row_more_than_it_has_room_for(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)

    def fault(rows: int) -> str | None:
        return Subspace.of_gradient(rng.normal(size=(shape[0], rows)) @ rng.normal(size=(rows, shape[1]))).fault

    assert fault(room(shape)) is None
    assert "fills" in (fault(room(shape) + 1) or "")


def test_spans_are_measured_against_all_nodes_of_an_update() -> None:
    narrow = pooled()
    layers = tuple(layer.clone(conv=layer.conv.clone(features=3), act="tanh") for layer in narrow.layers)
    narrow = narrow.clone(layers=layers)  # no unit is off, which would leave room
    tight = only("spans", Deployment(narrow, SPACE, Clients(nodes=4)))
    assert "may fill" in tight.what and "census and grain find nothing" in tight.what
    assert {(p["check"], p["hop"], p["most"]) for p in tight.details["points"]} >= {("node", 0, 2), ("node", 1, 2)}
    roomy = only("spans", Deployment(pooled(), SPACE, Clients(nodes=4)))
    assert "exclude others" in roomy.what
    pruned = only("spans", Deployment(pooled(), SPACE, Clients(nodes=9, defense="prune:0.5")))
    assert pruned.what.endswith("exclude others; under pruning rows may lie outside.")
    assert "exclude others" in only("spans", Deployment(pooled(), SPACE, Clients(nodes=9))).what, "10 x 32 holds 9 rows"
    assert "may fill" in only("spans", Deployment(pooled(), SPACE, Clients(nodes=10))).what
    assert "may fill" in only("spans", Deployment(pooled(), SPACE, Clients(nodes=4, batch_size=8))).what
    seen = Subspace.of_gradient(sent(Deployment(narrow, SPACE)).update["layers_0"]["conv"]["kernel"])
    assert not seen.informative, "four nodes of three kinds and more"
    assert Subspace.of_gradient(sent(Deployment(pooled(), SPACE)).update["layers_0"]["conv"]["kernel"]).informative


@pytest.mark.parametrize("count", [1, 2])
def test_one_output_shows_a_class_by_its_sign(count: int) -> None:
    model = pooled().clone(readout=Pooled("mean", MLP((16, 1))))
    deployment = Deployment(model, SPACE, Clients(loss="bce", batch_size=count))
    finding = only("labels", deployment)
    shown = "below 0 where the label is 1" if count == 1 else "below 0 it shows that class 1 occurs"
    assert "it is p - y for the output" in finding.why and shown in finding.why
    for label in (0, 1):
        graphs = [dataclasses.replace(graph, y=label) for graph in GRAPHS[:count]]
        seen = fedsgd(model, deployment.params, graphs, SPACE, loss="bce")
        fact = facts(seen, SPACE).found[finding.shown_by.removeprefix("fact:")]
        assert fact.value == (label if count == 1 else [label])
