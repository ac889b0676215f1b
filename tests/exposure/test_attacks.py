"""Attacks run where they are said to apply, refuse where they are said to, and changes turn that as it is said."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.registry import ATTACKS, get_attack
from jgleak.exposure.changes import CLOSERS, OPENERS, Neighbours
from jgleak.exposure.clients import Clients
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.dropout import dropping
from jgleak.exposure.findings.attacks import attacks
from jgleak.exposure.registry import FINDINGS, exposure_of
from jgleak.federated import Knowledge, LocalTraining
from jgleak.gnn import MLP, BatchNorm, GCNConv, NodeMLP, NodeScores, standard
from jgleak.graph import GraphBatch
from jgleak.metrics import score
from jgleak.names.attacks import BASELINES
from tests.exposure.conftest import GRAPHS, SPACE, adam, pooled, sent, trained

BUDGET = Budget(time_limit=60)
CENSUS = get_attack("census")


def standing(deployment: Deployment) -> dict[str, Any]:
    """Of every attack the finding that speaks of it."""
    return {name: finding for finding in attacks(deployment) for name in finding.details["attacks"]}


def attacked(deployment: Deployment, name: str = "census") -> Any:
    knowledge = Knowledge(SPACE, n=GRAPHS[0].n)
    return get_attack(name)(sent(deployment), knowledge, key=jax.random.key(0), budget=BUDGET)


def test_every_attack_stands_somewhere_and_baselines_nowhere() -> None:
    assert set(standing(Deployment(pooled(), SPACE))) == set(ATTACKS) - set(BASELINES)


def test_the_census_finds_the_graph_where_it_is_said_to_apply() -> None:
    finding = standing(Deployment(pooled(), SPACE))["census"]
    assert finding.level == "open" and "How often it succeeds: no record exists for such features" in finding.why
    assert score(GRAPHS[0], attacked(Deployment(pooled(), SPACE)).best, SPACE).exact


def some_a_step(loader: int, graphs: int = 3) -> Clients:
    return Clients(batch_size=graphs, nodes=4, local=LocalTraining(0.01, -(-graphs // loader), loader=loader))


def test_attacks_by_spans_that_may_be_full_are_said_to_find_nothing_then() -> None:
    """As the finding about spans says: 10 x 32 holds 9 rows. Where only a later span may be full, neither says so."""
    model = pooled().clone(readout=NodeMLP(MLP((16, 2)), see_input=False))
    for nodes, full in ((9, False), (10, True)):
        deployment = Deployment(model, SPACE, Clients(nodes=nodes))
        found, (spans,) = standing(deployment), FINDINGS["spans"](deployment)
        for name in ("census", "grain"):
            said = f"{name} applies, but {name} finds nothing where more than 9 of up to 10 rows differ"
            assert (said in found[name].what) == full and (full or "applies." in found[name].what)
        assert ("census and grain find nothing" in spans.what) == full and "nothing" not in found["dlg"].what
    layers = pooled().layers[0], pooled().layers[1].clone(conv=GCNConv(3, bias=True))
    later = Deployment(pooled().clone(layers=layers), SPACE, Clients(nodes=9))
    (spans,) = FINDINGS["spans"](later)
    assert spans.what.startswith("Some spans") and "nothing" not in standing(later)["census"].what


@pytest.mark.parametrize(
    ("defense", "changes"),
    [
        ("", ""),
        ("clip:0.1+gaussian:0.001", ""),
        ("quantise:8+float16", ""),
        ("sign", "sign"),
        ("percentile:10.0+clip-inf:0.01", "percentile:10.0 or clip-inf:0.01"),
        ("sparse-vector:0.1+laplace:0.1", "sparse-vector:0.1"),
        ("activations:0.1", "activations:0.1"),
    ],
)
def test_attacks_by_spans_are_said_to_find_nothing_behind_what_leaves_no_gradient(defense: str, changes: str) -> None:
    found = standing(Deployment(pooled(), SPACE, Clients(defense=defense)))
    said = f"census finds nothing where {changes} changed the update by more than rounding"
    assert (said in found["census"].what) == ("changed" in found["census"].what) == bool(changes)
    assert "changed" not in found["dlg"].what


@pytest.mark.parametrize("lit", [0.0, 100.0])
def test_units_that_graphs_leave_dark_are_counted_at_given_weights(lit: float) -> None:
    """Of three graphs each must leave 2 dark for the others and 8 to be told from chance."""
    bare = Deployment(pooled(), SPACE, some_a_step(1))
    assert (
        "each must leave 10 or more dark that others light: that depends on the weights" in standing(bare)["census"].why
    )
    params = jax.tree.map(np.asarray, bare.params)
    params["readout"]["mlp"]["linears_0"]["bias"] = params["readout"]["mlp"]["linears_0"]["bias"] + np.float32(lit)
    given = dataclasses.replace(bare, given=params)
    lit_by = []
    for graph in given.knowledge.auxiliary:
        batch = (jnp.asarray(part[0]) for part in GraphBatch.from_graphs([graph], SPACE).dense)
        row = pooled().apply({"params": params}, *batch, method=pooled_row)
        first = params["readout"]["mlp"]["linears_0"]
        lit_by.append(np.asarray(row) @ first["kernel"] + first["bias"] > 0)
    counts = [int(np.sum(np.any(lit_by, axis=0) & ~own)) for own in lit_by]
    said = standing(given)["census"].why
    assert f"random graphs leave {min(counts)} to {max(counts)} of 16" in said
    assert ("which are too few" in said) == (max(counts) < 10) and (lit == 0.0 or counts == [0, 0, 0])
    assert ("census will hardly find a graph" in standing(given)["census"].what) == (max(counts) < 10)
    assert "hardly" not in standing(bare)["census"].what, "weights are not known"


def test_one_graph_with_enough_dark_units_is_not_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    lit = iter([np.arange(16) < 16, np.arange(16) < 4, np.arange(16) < 0])
    monkeypatch.setattr("jgleak.exposure.dark_units._lit", lambda *_: next(lit))
    bare = Deployment(pooled(), SPACE, some_a_step(1))
    said = standing(dataclasses.replace(bare, given=bare.params))["census"].why
    assert "random graphs leave 0 to 16 of 16. " in said


def pooled_row(model: Any, *graph: Any) -> Any:
    return model.readout.pool(model.states(*graph)[-1], graph[2])


@pytest.mark.parametrize(
    "clients", [Clients(batch_size=3), some_a_step(3), Clients(local=LocalTraining(0.01, 2)), some_a_step(1, graphs=1)]
)
def test_no_dark_units_are_needed_of_one_graph_or_of_all_in_every_step(clients: Clients) -> None:
    assert "dark" not in standing(Deployment(pooled(), SPACE, clients))["census"].why
    assert "dark" not in standing(Deployment(standard(SPACE.width, hidden=16), SPACE, some_a_step(1)))["census"].why


DROPPING = Deployment(dropping(pooled(), 0.2), SPACE)


def test_an_attack_that_is_said_to_refuse_does_so_for_the_same_reason() -> None:
    found = standing(DROPPING)
    assert found["census"].level == "closed" and found["dlg"].level == "open"
    with pytest.raises(ValueError) as error:
        attacked(DROPPING)
    assert str(error.value).removeprefix("attack 'census' cannot run here: ") in found["census"].why


def test_the_change_that_is_said_to_open_an_attack_opens_it() -> None:
    turns = standing(DROPPING)["census"].details["turns"]
    assert turns == ["no dropout"]
    opened = next(change for change in OPENERS if change.name == "no dropout").make(DROPPING)
    assert score(GRAPHS[0], attacked(opened).best, SPACE).exact


def test_no_change_is_named_that_is_not_needed() -> None:
    """Adam and dropout stand in the way of a pooled model, a batch in every step does not; both are needed."""
    deployment = Deployment(dropping(pooled(), 0.2), SPACE, adam(8))
    neighbours = Neighbours(deployment)
    chosen = neighbours.opening(CENSUS)
    assert {change.name for change in chosen} == {"no dropout", "plain gradient steps instead of Adam"}
    assert neighbours.after(chosen).refusal(CENSUS) is None
    for change in chosen:
        assert neighbours.after([other for other in chosen if other is not change]).refusal(CENSUS) is not None


@pytest.mark.parametrize("pooling", ["max", "max,sum"])
def test_max_pooling_is_named_where_nothing_else_stands_in_the_way(pooling: str) -> None:
    assert standing(Deployment(pooled(pooling=pooling), SPACE))["census"].details["turns"] == ["no max in the pooling"]


STOPPED = standing(Deployment(pooled(), SPACE))["census"].details["turns"]


@pytest.mark.parametrize(
    "change", [change for change in CLOSERS if change.name != "Adam"], ids=lambda change: change.name
)
def test_a_change_that_is_said_to_stop_the_census_stops_it(change: Any) -> None:
    """The real client of the changed deployment is refused; that of one that is not named is not."""
    after = change.make(Deployment(pooled(), SPACE))
    if after.clients.batch_size > 1 or after.clients.steps > 1:
        assert (after.refusal(CENSUS) is not None) == (change.name in STOPPED)
        return
    refusal = CENSUS.refusal(sent(after), after.knowledge)
    assert (refusal is not None) == (change.name in STOPPED)


@pytest.mark.slow
def test_withheld_statistics_stop_the_census_behind_batch_normalisation() -> None:
    model = pooled()
    layers = tuple(layer.clone(norm=BatchNorm(training=True)) for layer in model.layers)
    deployment = Deployment(model.clone(layers=layers), SPACE)
    found = standing(deployment)["census"]
    assert found.level == "open" and "running statistics kept by the client" in found.details["turns"]
    assert score(GRAPHS[0], attacked(deployment).best, SPACE).exact
    withheld = Deployment(deployment.model, SPACE, Clients(statistics=False))
    closed = standing(withheld)["census"]
    assert closed.level == "closed" and closed.details["turns"] == ["batch normalisation in evaluation mode"]


@pytest.mark.long
def test_no_attack_is_said_to_read_steps_of_adam_and_the_census_finds_nothing_in_them() -> None:
    deployment = Deployment(pooled(), SPACE, adam())
    found = standing(deployment)
    assert {finding.level for finding in found.values()} == {"closed"}
    seen = trained(deployment, optax.adam(1e-3), 1e-3)
    told = dataclasses.replace(seen, local=deployment.clients.local)
    refusal = CENSUS.refusal(told, deployment.knowledge)
    assert refusal is not None and refusal in found["census"].why and "steps divide by running squares" in refusal
    assert not list(FINDINGS["spans"](deployment)), "Adam's directions lie in no span of rows"
    nothing = CENSUS(seen, Knowledge(SPACE, n=4), key=jax.random.key(0), budget=Budget(time_limit=1))
    assert nothing.best is None


def test_grain_and_the_closed_form_name_what_they_lack() -> None:
    found = standing(Deployment(pooled(), SPACE))
    assert found["grain"].level == "closed" and "per-node readout" in found["grain"].why
    scored = pooled().clone(readout=NodeScores(32))
    by_node = standing(Deployment(scored, SPACE, Clients(loss="ce")))
    assert "node_losses" in by_node["closed-form"].why


def test_several_graphs_with_batch_normalisation_are_refused_by_all_attacks() -> None:
    model = pooled()
    layers = tuple(layer.clone(norm=BatchNorm(training=True)) for layer in model.layers)
    deployment = Deployment(model.clone(layers=layers), SPACE, Clients(batch_size=4))
    assert deployment.seen is not None
    found = standing(deployment)["census"]
    assert "mixes the nodes of all graphs of a step" in found.why
    assert found.details["turns"] == ["one graph an update"]


def test_findings_are_plain_data_the_gravest_first() -> None:
    exposure = exposure_of(Deployment(pooled(), SPACE, Clients(local=LocalTraining(0.1, 2))))
    levels = [finding.level for finding in exposure.findings]
    assert levels == sorted(levels, key=["leaks", "open", "closed"].index) and len(set(levels)) == 3
    data = exposure.to_json()
    assert data["clients"]["local"]["steps"] == 2 and data["clients"]["loss"] == "bce"
    assert all(set(one) >= {"id", "level", "what", "why", "instead", "shown_by"} for one in data["findings"])
    assert np.all([finding.what.endswith(".") and finding.why for finding in exposure.findings])
