"""Labels follow from the last bias's gradient: every loss, readout and class; counts of a batch; targets."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.closed_form.labels import (
    _unbalanced,
    at_classes,
    contradiction,
    infer_counts,
    infer_label,
    infer_node_labels,
    infer_target,
    infer_tasks,
    names_no_class,
    prior_probability,
    target_hidden,
    tasks_hidden,
    too_large,
)
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.matching.problem import unsupported
from jgleak.defenses import parse
from jgleak.federated import Knowledge, LocalTraining, Observation, fedsgd
from jgleak.federated.client import node_gradients, target_gradient
from jgleak.gnn import GNN, MLP, BatchNorm, GCNConv, Layer, LayerNorm, NodeMLP, NodeScores, Pooled
from jgleak.graph import Graph

READOUTS: Any = [
    {"readout": "node_mlp"},
    {"readout": "pooled", "readout_widths": (5,)},
    {"readout": "pooled", "readout_widths": ()},
    {"readout": "flattened", "slots": 8},
]


@pytest.mark.parametrize("loss", ["bce", "ce"])
@pytest.mark.parametrize("fields", READOUTS, ids=lambda f: f["readout"])
def test_the_sign_names_the_class(lab: Any, loss: str, fields: dict[str, Any]) -> None:
    model = lab.model(hidden=8, classes=4, **fields)
    graph = lab.random(6, 1)
    for label in range(4):
        labelled = dataclasses.replace(graph, y=label)
        assert infer_label(fedsgd(model, lab.params(model), [labelled], lab.space, loss=loss)) == label


def test_every_node_tells_its_class(lab: Any) -> None:
    graph = lab.random(7, 2)
    labels = np.array([0, 3, 1, 1, 2, 0, 3])
    nodes = Graph(graph.x, graph.edges, labels)
    for last in (False, True):
        model = lab.model(
            conv="gcn", hidden=8, classes=4, readout="node_scores", bias=True, act="sigmoid", last_act=last
        )
        seen = node_gradients(model, lab.params(model), nodes, lab.space, loss="ce")
        np.testing.assert_array_equal(infer_node_labels(seen), labels)
        assert infer_label(target_gradient(model, lab.params(model), [nodes], lab.space, loss="ce")) == 0
        with pytest.raises(ConditionFailed, match="sums over several labels"):
            infer_label(seen)


def test_counts_of_a_batch(lab: Any) -> None:
    graphs = [dataclasses.replace(lab.random(6, seed), y=seed % 3) for seed in range(8)]
    model = lab.model(hidden=8, classes=3, readout="pooled", readout_widths=())
    for loss in ("ce", "bce"):
        seen = fedsgd(model, lab.params(model), graphs, lab.space, loss=loss)
        public = [lab.random(6, seed) for seed in range(20, 40)]
        batch = [_logits(lab, model, graph) for graph in public]
        counts = infer_counts(seen, prior_probability(seen, np.stack(batch)))
        np.testing.assert_array_equal(counts, [3, 3, 2])
        with pytest.raises(ConditionFailed, match="infer_counts"):
            infer_label(seen)


def _logits(lab: Any, model: Any, graph: Graph) -> np.ndarray:
    parts = [jnp.asarray(part) for part in (lab.space.encode(graph.x), graph.adjacency, np.ones(graph.n, bool))]
    return np.asarray(model.apply({"params": lab.params(model)}, *parts))


@pytest.mark.parametrize("readout_widths", [(), (6,), (6, 5)])
def test_targets_of_a_regression(lab: Any, readout_widths: tuple[int, ...]) -> None:
    model = lab.model(hidden=8, classes=1, readout="pooled", readout_widths=readout_widths)
    for y in (-3.25, 0.0, 1.5):
        seen = fedsgd(model, lab.params(model), [dataclasses.replace(lab.random(6, 4), y=y)], lab.space, loss="mse")
        assert infer_target(seen) == pytest.approx(y, abs=1e-4)
        for defense in ("prune:0.5", "prune:0.5+gaussian:1e-9"):  # noise hides which entries were left out
            sent = parse(defense).apply(seen.update, key=jax.random.key(0))
            with pytest.raises(ConditionFailed, match="were pruned"):
                infer_target(dataclasses.replace(seen, update=jax.tree.map(np.asarray, sent), pruned=True))
    with pytest.raises(ConditionFailed, match="a regression has no classes"):
        infer_label(seen)


def test_what_hides_a_target_is_named(lab: Any) -> None:
    graph = dataclasses.replace(lab.random(6, 4), y=1.5)
    nodes = lab.model(hidden=8, classes=1, readout="node_mlp")
    with pytest.raises(ConditionFailed, match="a pooled readout"):
        infer_target(fedsgd(nodes, lab.params(nodes), [graph], lab.space, loss="mse"))
    drops = lab.model(hidden=8, classes=1).clone(readout=Pooled("mean", MLP((5, 1), dropout=0.5)))
    with pytest.raises(ConditionFailed, match="drops entries"):
        infer_target(fedsgd(drops, lab.params(drops), [graph], lab.space, loss="mse", key=jax.random.key(0)))
    model = lab.model(hidden=8, classes=1, readout="pooled", readout_widths=())
    seen = fedsgd(model, lab.params(model), [graph], lab.space, loss="mse")
    for change in ({"protocol": "fedavg", "local": LocalTraining(0.1, 2)}, {"scaled": True}):
        with pytest.raises(ConditionFailed, match="length of one gradient"):
            infer_target(dataclasses.replace(seen, **change))
    met = dataclasses.replace(seen, update=jax.tree.map(np.zeros_like, seen.update))
    with pytest.raises(ConditionFailed, match="already equals the target"):
        infer_target(met)
    dead = lab.model(hidden=8, classes=1).clone(readout=Pooled("mean", MLP((5, 1))))
    params = lab.params(dead)
    params["readout"]["mlp"]["linears_0"]["bias"] -= 1e3
    with pytest.raises(ConditionFailed, match="no unit behind the pooling is on"):
        infer_target(fedsgd(dead, params, [graph], lab.space, loss="mse"))
    tasks = dead.clone(readout=Pooled("mean", MLP((5, 2))))
    params, two = lab.params(tasks), dataclasses.replace(graph, y=np.array([[1.0, 2.0]], np.float32))
    params["readout"]["mlp"]["linears_0"]["bias"] -= 1e3
    unlit = fedsgd(tasks, params, [two], lab.space, loss="masked_mse")
    with pytest.raises(ConditionFailed, match="no unit behind the pooling is on"):
        infer_tasks(unlit)
    assert "no unit behind the pooling is on, so" in str(unsupported(unlit, Knowledge(lab.space)))
    signs = fedsgd(tasks, params, [dataclasses.replace(two, y=two.y % 2)], lab.space, loss="masked_bce")
    np.testing.assert_array_equal(infer_tasks(signs), [1.0, 0.0], "signs need no row")
    fixed = model.clone(frozen=("readout",))
    with pytest.raises(ConditionFailed, match="are frozen"):
        infer_target(fedsgd(fixed, lab.params(fixed), [graph], lab.space, loss="mse"))


@pytest.mark.parametrize("mean_over", ["batch", "task"])
def test_labels_of_tasks_show_under_either_mean(lab: Any, mean_over: str) -> None:
    model = lab.model(hidden=8, classes=3, readout="pooled", readout_widths=())
    wanted = np.array([[-2.0, np.nan, 0.75]], np.float32)
    graph = dataclasses.replace(lab.random(6, 4), y=wanted)
    found = infer_tasks(fedsgd(model, lab.params(model), [graph], lab.space, loss=f"masked_mse+over:{mean_over}"))
    np.testing.assert_allclose(found, wanted[0], atol=1e-4)
    binary = dataclasses.replace(graph, y=np.array([[1.0, np.nan, 0.0]], np.float32))
    found = infer_tasks(fedsgd(model, lab.params(model), [binary], lab.space, loss=f"masked_bce+over:{mean_over}"))
    np.testing.assert_array_equal(found, [1.0, np.nan, 0.0])


def test_what_hides_labels_of_tasks_is_named(lab: Any) -> None:
    model = lab.model(hidden=8, classes=2, readout="pooled", readout_widths=())
    graph = dataclasses.replace(lab.random(6, 4), y=np.array([[1.0, 0.0]], np.float32))
    seen = fedsgd(model, lab.params(model), [graph], lab.space, loss="masked_bce")
    still = model.clone(frozen=("readout",))
    fixed = fedsgd(still, lab.params(still), [graph], lab.space, loss="masked_bce")
    errors = dataclasses.replace(seen, loss="masked_mse")
    nodes = model.clone(readout=NodeMLP(MLP((2,))))
    per_node = fedsgd(nodes, lab.params(nodes), [graph], lab.space, loss="masked_mse")
    random = model.clone(readout=Pooled("mean", MLP((5, 2), dropout=0.5)))
    dropped = fedsgd(random, lab.params(random), [graph], lab.space, loss="masked_mse", key=jax.random.key(0))
    reasons = {
        "not of several tasks": tasks_hidden(dataclasses.replace(seen, loss="ce")),
        "are frozen": tasks_hidden(fixed),
        "several graphs": tasks_hidden(dataclasses.replace(seen, batch_size=2)),
        "noise hides": tasks_hidden(seen, 1e-3),
        "pruning left out": tasks_hidden(dataclasses.replace(seen, pruned=True)),
        "on which side": tasks_hidden(dataclasses.replace(seen, loss="masked_mae")),
        "one gradient": tasks_hidden(dataclasses.replace(errors, protocol="fedavg", local=LocalTraining(0.01, 5))),
        "gradient's length": tasks_hidden(dataclasses.replace(errors, scaled=True)),
        "a pooled readout": tasks_hidden(per_node),
        "drops entries": tasks_hidden(dropped),
    }
    assert all(reason is not None and said in reason for said, reason in reasons.items())
    assert tasks_hidden(seen) is tasks_hidden(errors) is None
    with pytest.raises(ConditionFailed, match="see infer_tasks"):
        infer_label(seen)


def test_what_hides_a_class_is_named(lab: Any) -> None:
    model = lab.model(hidden=8, classes=3, readout="pooled", readout_widths=())
    seen = lab.observe(model, lab.random(5, 5), loss="ce")
    with pytest.raises(ConditionFailed, match="smoothing"):
        infer_label(dataclasses.replace(seen, loss="ce+smoothing:0.1"))
    with pytest.raises(ConditionFailed, match="come summed up"):
        infer_node_labels(seen)
    with pytest.raises(ValueError, match="one entry for each of 3 classes"):
        infer_counts(seen, np.full(2, 0.5))
    graph = lab.random(7, 2)
    nodes = Graph(graph.x, graph.edges, np.array([0, 3, 1, 1, 2, 0, 3]))
    curved = lab.model(conv="gcn", hidden=8, classes=4, readout="node_scores", bias=True, act="gelu", last_act=True)
    with pytest.raises(ConditionFailed, match="GELU"):
        infer_node_labels(node_gradients(curved, lab.params(curved), nodes, lab.space, loss="ce"))


def test_signs_that_fit_no_class_are_refused(lab: Any) -> None:
    model = lab.model(hidden=8, classes=3, readout="pooled", readout_widths=())
    seen = lab.observe(model, lab.random(5, 5), loss="ce")
    noisy = jax.tree.map(lambda leaf: -np.abs(leaf), seen.update)
    with pytest.raises(ConditionFailed, match="fit no class"):
        infer_label(dataclasses.replace(seen, update=noisy))
    bare = lab.model(hidden=8, readout="node_scores")
    graph = lab.random(5, 5)
    sent = node_gradients(bare, lab.params(bare), Graph(graph.x, graph.edges, graph.x[:, 0] % 2), lab.space, loss="ce")
    with pytest.raises(ConditionFailed, match="adds no bias"):
        infer_node_labels(sent)


@pytest.mark.parametrize(
    ("parts", "jump"), [({"norm": BatchNorm()}, "last"), ({"norm": LayerNorm()}, "last"), ({}, "cat"), ({}, "max")]
)
def test_a_bias_that_does_not_reach_the_logits_alone_names_no_class(lab: Any, parts: dict[str, Any], jump: str) -> None:
    """The last bias meets a norm, or other layers' states stand between it and the logits."""
    width = 2 if jump == "cat" else 4
    layers = tuple(Layer(GCNConv(width, bias=True), "identity", **parts) for _ in range(2))
    model = GNN(lab.space.width, layers, NodeScores(4), jump=jump)
    model.check()
    graph = lab.random(5, 5)
    labelled = Graph(graph.x, graph.edges, np.array([3, 0, 1, 2, 0]))
    with pytest.raises(ConditionFailed, match="adds no bias"):
        infer_label(target_gradient(model, lab.params(model), [labelled], lab.space, loss="ce"))


def shown(bias: Any, loss: str = "ce", **marks: Any) -> Observation:
    """An update of which only the last bias is not zero."""
    bias = np.asarray(bias, np.float32)
    model = GNN(3, (Layer(GCNConv(bias.size)),), marks.pop("readout", Pooled("mean", MLP((bias.size,)))))
    params = jax.tree.map(
        lambda s: np.zeros(s.shape, s.dtype), jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))
    )
    update = jax.tree.map(lambda leaf: bias if leaf.shape == bias.shape else leaf, params)
    return Observation(model, params, update, loss, **marks)


TWO_STEPS = {"protocol": "fedavg", "local": LocalTraining(0.1, 2)}
ADAM = {"protocol": "fedavg", "local": LocalTraining(0.1, 2, optimiser="adam")}
OTHER_TASKS = "if the outputs are tasks of their own, the loss is masked_bce"

SIGNS: dict[str, tuple[Observation, bool]] = {
    "a class": (shown([0.2, -0.5, 0.3]), False),
    "two negative entries": (shown([-0.2, -0.3, 0.5]), True),
    "a batch has two": (shown([-0.2, -0.3, 0.5], batch_size=2), False),
    "pruned": (shown([-0.2, -0.3, 0.5], pruned=True), False),
    "a smoothed label leaves two": (shown([-0.2, -0.3, 0.5], "ce+smoothing:0.1"), False),
    "tasks have two": (shown([-0.2, -0.3, 0.5], "masked_bce"), False),
    "a certain class": (shown([0.4, -0.4, 0.0]), False),
    "a zero beside a sum": (shown([0.4, -0.1, 0.0]), True),
    "Adam leaves sums": (shown([1.0, -0.1, 0.0], **ADAM), False),
    "BCE met its target": (shown([0.4, 0.0, 0.2], "bce"), False),
    "BCE met two": (shown([0.4, 0.0, 0.0], "bce"), True),
    "BCE met another's": (shown([0.4, -0.2, 0.0], "bce"), True),
    "no bias": (shown([0.4, -0.1, 0.0], readout=NodeScores(3)), False),
    "BCE names a class": (shown([0.3, -0.5, 0.2], "bce"), False),
    "nodes have two": (shown([-0.2, -0.3, 0.5], readout=NodeMLP(MLP((3,)), per_node=True)), False),
}


@pytest.mark.parametrize("case", SIGNS)
def test_signs_that_no_class_has_under_its_loss(case: str) -> None:
    observation, refuted = SIGNS[case]
    assert names_no_class(observation) is refuted
    if refuted:
        assert str(contradiction(observation)).endswith(OTHER_TASKS)


def test_a_probability_less_a_label_is_at_most_one() -> None:
    """So is a mean of such; sums of several steps and directions alone say nothing of it."""
    squares = shown([-3.1], "bce")
    assert (
        "'bce'" in str(too_large(squares))
        and "'mse'" in str(too_large(squares))
        and "is 3.1" in str(too_large(squares))
    )
    assert "'mse'" not in str(too_large(shown([1.5, -1.5])))
    tasks = shown([-1.75, 0.2], "masked_bce")
    assert "larger than 1," in str(too_large(tasks)) and "'masked_mse'" in str(too_large(tasks))
    assert too_large(dataclasses.replace(tasks, loss="masked_bce+pos_weight:1,2")) is None
    assert "larger than 1.5," in str(too_large(dataclasses.replace(tasks, loss="masked_bce+pos_weight:1,1.5")))
    for changed in ({"scaled": True}, {"noise": 0.3}, {"local": LocalTraining(0.1, 2), "protocol": "fedavg"}):
        assert too_large(dataclasses.replace(squares, **changed)) is None, changed
    for fits in (shown([-1.0], "bce"), shown([1.0, -1.0]), shown([-3.1], "mse"), shown([-3.1, 2.0], "masked_mse")):
        assert too_large(fits) is None
    assert too_large(dataclasses.replace(squares, noise=0.2)) is not None


@pytest.mark.parametrize(("act", "bounded"), [("sigmoid", True), ("gelu", False)])
def test_a_slope_above_1_leaves_the_last_bias_unbounded(lab: Any, act: str, bounded: bool) -> None:
    graph = dataclasses.replace(lab.random(7, 2), y=np.array([0, 3, 1, 1, 2, 0, 3]))
    last = {"readout": "node_scores", "bias": True, "last_act": True, "layers": 1}
    model = lab.model(conv="gcn", hidden=8, classes=4, act=act, **last)
    seen = target_gradient(model, lab.params(model), [graph], lab.space, loss="ce")
    far = dataclasses.replace(seen, update=jax.tree.map(lambda leaf: 100.0 * leaf, seen.update))
    assert (too_large(far) is not None) == bounded


def test_noise_may_have_made_a_sign_and_zeros_say_nothing_then() -> None:
    two, zero = shown([-0.2, -0.3, 0.5]), shown([0.4, 0.0, 0.0], "bce")
    assert [names_no_class(two, doubt) for doubt in (0.0, 0.19, 0.2)] == [True, True, False]
    assert [names_no_class(zero, doubt) for doubt in (0.0, 1e-9)] == [True, False]
    assert contradiction(dataclasses.replace(two, noise=0.019)) == (
        f"the last bias's gradient has 2 negative entries, which no class has under 'ce'; {OTHER_TASKS}"
    )
    assert contradiction(dataclasses.replace(two, noise=0.021)) is None
    assert contradiction(zero) == (
        f"the last bias's gradient has 0 negative entries and 2 zeros, which no class has under 'bce'; {OTHER_TASKS}"
    )


MASKED: dict[str, tuple[Observation, str | None]] = {
    "adds up": (shown([0.2, -0.5, 0.3]), None),
    "does not add up": (shown([0.2, -0.5, 0.2]), "adds up to zero, and here it does not"),
    "nor in a batch": (shown([0.2, -0.5, 0.2], batch_size=4), "adds up to zero, and here it does not"),
    "nor after steps": (shown([0.2, -0.5, 0.2], **TWO_STEPS), "adds up to zero, and here it does not"),
    "Adam divides sums": (shown([1.0, -0.5, 1.0], **ADAM), None),
    "pruned": (shown([0.2, -0.5, 0.2], pruned=True), None),
    "nothing moved": (shown([0.0, 0.0, 0.0]), None),
    "rounding": (shown([0.5, -0.5 + 1e-4, 0.0]), None),
    "rounding of a sum over many": (shown([50.0, -50.0 + 1e-2, 0.0]), None),
    "more than rounding": (shown([0.5, -0.5 + 2e-3, 0.0]), "adds up to zero, and here it does not"),
    "noise": (shown([0.5, -0.4, 0.2], noise=0.02), None),
    "less noise": (shown([0.5, -0.4, 0.2], noise=0.009), "adds up to zero, and here it does not"),
    "one pull": (shown([0.25, -0.25, 0.0], "masked_mae"), None),
    "two pulls": (shown([0.25, -0.2, 0.0], "masked_mae"), "all labels pull alike"),
    "two faint pulls": (shown([0.0025, -0.002, 0.0], "masked_mae"), "all labels pull alike"),
    "two pulls of a batch": (shown([0.25, -0.2, 0.0], "masked_mae", batch_size=2), None),
    "two pulls of steps": (shown([0.25, -0.2, 0.0], "masked_mae", **TWO_STEPS), None),
    "two pulls of Adam": (shown([1.0, -0.2, 0.0], "masked_mae", **ADAM), None),
    "two pulls and noise": (shown([0.25, -0.2, 0.0], "masked_mae", noise=0.003), None),
    "two pulls and little noise": (shown([0.25, -0.2, 0.0], "masked_mae", noise=0.002), "all labels pull alike"),
    "pulls below noise": (shown([0.25, -0.02, 0.25], "masked_mae", noise=0.004), None),
}


@pytest.mark.parametrize("case", MASKED)
def test_what_a_last_bias_cannot_be_is_said(case: str) -> None:
    observation, said = MASKED[case]
    found = contradiction(observation)
    assert found is None if said is None else said in str(found)


def test_each_nodes_gradient_adds_up_by_itself() -> None:
    """Not all together, where what one lacks another has too much, and not beside a much larger one."""
    rows = np.array([[50.0, -50.0, 0.0], [0.35, -0.34, 0.0], [0.34, -0.35, 0.0]])
    assert _unbalanced(rows) and not _unbalanced(rows[:1])
    assert _unbalanced(rows[:2]) and _unbalanced(rows[1:])


def test_one_output_raises_one_class_as_much_as_it_lowers_the_other() -> None:
    slopes = np.array([[0.25], [-0.5], [0.0]])
    wanted = np.array([[-0.25, 0.25], [0.5, -0.5], [0.0, 0.0]])
    np.testing.assert_array_equal(at_classes(shown([0.1], "bce"), slopes), wanted)
    np.testing.assert_array_equal(at_classes(shown([0.1], "bce"), slopes[0]), wanted[0])
    np.testing.assert_array_equal(at_classes(shown([0.1, 0.2], "bce"), wanted), wanted)


def test_sums_over_nodes_regressions_and_tasks_have_no_class() -> None:
    nodes = shown([0.2, -0.5, 0.3], readout=NodeMLP(MLP((3,)), per_node=True))
    with pytest.raises(ConditionFailed, match="sums over several labels"):
        infer_label(nodes)
    for loss, said in (("mse", "see infer_target"), ("masked_mse", "see infer_tasks")):
        with pytest.raises(ConditionFailed, match=said):
            infer_counts(shown([-0.3], loss, batch_size=2), np.array([0.5]))
        with pytest.raises(ConditionFailed, match=said):
            infer_label(shown([-0.3], loss))


def test_targets_are_those_of_one_squared_error() -> None:
    assert target_hidden(shown([0.3], "mse")) is None
    for other in (shown([0.3], "bce"), shown([0.3], "mse", batch_size=2)):
        assert "only with one graph, squared error" in str(target_hidden(other))


@pytest.mark.parametrize("loss", ["ce", "bce", "ce+smoothing:0.3"])
def test_counts_are_the_whole_numbers_nearest_to_the_shares(loss: str) -> None:
    """The mean gradient is the mean probability less the (smoothed) shares, divided by the outputs under BCE."""
    probability, counts = np.array([0.5, 0.2, 0.2, 0.1]), np.array([0, 4, 2, 1])
    targets = counts / 7
    if "smoothing" in loss:
        targets = 0.7 * targets + 0.3 / 4
    gradient = (probability - targets) / (4 if loss == "bce" else 1)
    found = infer_counts(shown(gradient, loss, batch_size=7), probability)
    np.testing.assert_array_equal(found, counts)
    rough = probability + np.array([0.01, -0.03, 0.05, -0.03])  # the shares' largest remainders decide
    np.testing.assert_array_equal(infer_counts(shown(gradient, loss, batch_size=7), rough), counts)
    none = probability + np.array([-0.2, 0.1, 0.05, 0.05])  # less than none of the first class is none
    np.testing.assert_array_equal(infer_counts(shown(gradient, loss, batch_size=7), none), counts)


def test_counts_without_any_share_are_even_and_the_first_classes_get_the_rest() -> None:
    found = infer_counts(shown([1.0, 1.0, 1.0], batch_size=8), np.zeros(3))
    np.testing.assert_array_equal(found, [3, 3, 2])
    odd = infer_counts(shown([0.0] * 24, batch_size=6), np.tile([3.0, 5.0], 12))
    np.testing.assert_array_equal(np.flatnonzero(odd), [1, 3, 5, 7, 9, 11])


def test_predicted_probabilities_are_means_of_softmax_or_of_single_outputs() -> None:
    logits = np.log(np.array([[1.0, 2.0, 1.0], [8.0, 1.0, 1.0]]))
    np.testing.assert_allclose(prior_probability(shown([0.0] * 3), logits), [0.525, 0.3, 0.175])
    single = [(1 / 2 + 8 / 9) / 2, (2 / 3 + 1 / 2) / 2, 1 / 2]
    np.testing.assert_allclose(prior_probability(shown([0.0] * 3, "bce"), logits), single)
    assert np.isfinite(prior_probability(shown([0.0] * 3), logits + 1000.0)).all()
