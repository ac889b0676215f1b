"""Frozen parts: what clients do not train is no evidence, for any attack."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.distance import gradient_distances
from jgleak.attacks.matching.leaves import Untrained
from jgleak.attacks.matching.objectives import squared
from jgleak.attacks.matching.problem import pose
from jgleak.attacks.registry import get_attack
from jgleak.defenses import parse
from jgleak.federated import Knowledge, LocalTraining, Observation, fedavg, fedsgd, load, save
from jgleak.gnn import MLP, Pooled, standard
from jgleak.gnn.tree import at

FIRST, LAST = "layers_0", "readout/mlp/linears_1"


def observed(lab: Any, *frozen: str, **fields: Any) -> tuple[Observation, Any]:
    """A client of a path, whose labels are of class 1, and its graph."""
    model, graph = lab.model(hidden=64, **fields).clone(frozen=frozen), lab.path([0, 1, 2, 0, 3])
    return lab.observe(model, graph), graph


def test_a_client_leaves_frozen_parts_as_they_are_whatever_its_defence(lab: Any) -> None:
    model, graph = lab.model(hidden=8).clone(frozen=(FIRST, LAST)), lab.random(5, 0)
    params, whole = lab.params(model), lab.observe(model.clone(frozen=()), graph).update
    sent = fedsgd(
        model, params, [graph], lab.space, loss="bce", defense=parse("gaussian:1e-3"), key=jax.random.key(0)
    ).update
    steps = fedavg(model, params, [graph], lab.space, loss="bce", local=LocalTraining(0.5, 3)).update
    for update in (sent, steps):
        for path in (("layers_0",), ("readout", "mlp", "linears_1")):
            assert not any(np.any(leaf) for leaf in jax.tree.leaves(at(update, path)))
            assert all(np.any(leaf) for leaf in jax.tree.leaves(at(whole, path)))
    kernels = [update["layers_1"]["conv"]["kernel"] for update in (lab.observe(model, graph).update, whole)]
    np.testing.assert_allclose(*kernels, rtol=1e-6)


def test_an_update_may_lack_frozen_parts_and_so_do_files(lab: Any, tmp_path: Any) -> None:
    seen, _ = observed(lab, FIRST, LAST)
    bare = dataclasses.replace(seen, update={name: part for name, part in seen.update.items() if name != FIRST})
    assert not np.any(bare.update[FIRST]["conv"]["kernel"])
    save(tmp_path / "seen", bare, lab.space)
    again, _ = load(tmp_path / "seen")
    assert again.model.frozen == (FIRST, LAST)
    jax.tree.map(np.testing.assert_array_equal, again.update, seen.update)
    with pytest.raises(ValueError, match=r"'layers_1/conv/kernel' is frozen in this model, and moved"):
        dataclasses.replace(seen, model=seen.model.clone(frozen=(FIRST, LAST, "layers_1")))
    with pytest.raises(ValueError, match="frozen: the model has no part 'conv_0'; it has layers_0, layers_1, readout"):
        dataclasses.replace(seen, model=seen.model.clone(frozen=("conv_0",)))
    with pytest.raises(ValueError, match="frozen: the model has no part 'conv_0'"):
        lab.observe(seen.model.clone(frozen=("conv_0",)), lab.random(5, 0))
    with pytest.raises(ValueError, match="frozen: no part is trained"):
        dataclasses.replace(seen, model=seen.model.clone(frozen=("layers_0", "layers_1", "readout")))


def test_frozen_leaves_never_enter_matching_or_distances(lab: Any) -> None:
    """Other zeros than a client's: a frozen leaf's own gradient may be anything."""
    seen, graph = observed(lab, FIRST)
    assert gradient_distances(seen, lab.space, [graph])[0][0] < 1e-5
    taken = dataclasses.replace(seen, model=seen.model.clone(frozen=()))
    assert gradient_distances(taken, lab.space, [graph])[0][0] > 0.1, "as evidence the zeros mislead"
    setting, problem = pose(seen, Knowledge(lab.space, n=graph.n), infer=True)
    assert isinstance(problem.update[FIRST]["conv"]["kernel"], Untrained)
    gap = {"a": problem.update[FIRST]["conv"]["kernel"], "b": jnp.ones((1, 3))}
    assert float(squared({"a": jnp.full((1, 9), 7.0), "b": jnp.ones((1, 3))}, gap)) == 0.0
    assert setting.labels_known


@pytest.mark.parametrize("frozen", [FIRST, "layers_1"])
def test_the_census_is_exact_where_the_rows_still_show(lab: Any, frozen: str) -> None:
    """Under GRAIN's readout, which sees the rows: without the first layer's gradient, and without the second's."""
    seen, graph = observed(lab, frozen)
    found = get_attack("census")(seen, Knowledge(lab.space, n=graph.n), key=jax.random.key(0), budget=Budget(60.0))
    assert any(graph.isomorphic(one) for one in found.graphs), found.info


def test_attacks_refuse_what_frozen_parts_hide(lab: Any) -> None:
    pooled = standard(lab.space.width, "gcn", Pooled("mean", MLP((8, 2))), hidden=16)
    graph, knowledge = lab.random(5, 0), Knowledge(lab.space, n=5, auxiliary=(lab.random(5, 1),))
    for attack, frozen, reason in (
        ("census", FIRST, "weights that take the nodes' own rows are frozen"),
        ("census", "readout", "from the readout, where readout is frozen"),
        ("closed-form", "layers_1", "parts of the model are frozen"),
        ("graphdlg", "readout/mlp/linears_0", "first map is frozen"),
    ):
        model = pooled.clone(frozen=(frozen,))
        said = get_attack(attack).refusal(lab.observe(model, graph), knowledge)
        assert said is not None and reason in said and "gradient matching" in said
    model = lab.model(hidden=16)
    blind = model.clone(frozen=(FIRST,), readout=model.readout.clone(see_input=False))
    assert "0-hop blocks are frozen" in str(get_attack("grain").refusal(lab.observe(blind, graph), knowledge))


def test_matching_runs_with_a_frozen_encoder_and_searches_for_the_label_behind_a_frozen_head(lab: Any) -> None:
    pooled = standard(lab.space.width, "gcn", Pooled("mean", MLP((2,))), hidden=16, layers=1).clone(frozen=("readout",))
    seen = lab.observe(pooled, lab.random(5, 0))
    attack = get_attack("idlg").with_options({"steps": "60"})
    found = attack(seen, Knowledge(lab.space, n=5), key=jax.random.key(0), budget=Budget(60.0))
    assert found.best is not None and found.info["matching_loss"] < 0.1
