"""The guide's convolution and readout are real: they pass what every part passes, and the census reads the gradient."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.gnn import CONVOLUTIONS, READOUTS, Layer, standard
from jgleak.gnn.readout import ReadoutTask
from jgleak.gnn.serial import model_from_json, model_to_json
from tests.attacks.census.test_census import _adds_up
from tests.attacks.conftest import Lab
from tests.gnn import test_layers as layers

GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-model.md"


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """What the guide's blocks, one after the other, leave behind in a module."""
    module = types.ModuleType("adding_a_model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)  # where dataclasses look annotations up
        for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
            exec(compile(code, str(GUIDE), "exec"), module.__dict__)
        yield module.__dict__


@pytest.fixture
def registered(names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the convolution, once both are where users find them."""
    monkeypatch.setitem(CONVOLUTIONS, "cluster_gcn", names["ClusterGCNConv"])
    monkeypatch.setitem(READOUTS, "square_mean", names["SquareMean"])
    return "cluster_gcn"


def test_the_census_finds_the_molecule_and_no_other(names: dict[str, Any]) -> None:
    found = names["found"]
    assert found.best.isomorphic(names["glycine"]) and found.certificate.status == "unique"


@pytest.mark.parametrize(
    "check",
    [
        layers.test_rooted_evaluation_equals_the_dense_layer,
        layers.test_some_columns_of_a_star_need_no_others,
        layers.test_nodes_may_come_in_any_order_and_padding_changes_nothing,
        layers.test_every_map_s_gradient_spans_the_rows_that_enter_it,
    ],
)
def test_the_layer_passes_what_every_layer_passes(
    check: Any, names: dict[str, Any], params_of: Any, graph_of: Any
) -> None:
    check(Layer(names["ClusterGCNConv"](4, bias=True), "tanh"), params_of, graph_of)


def test_the_layer_is_its_formula(names: dict[str, Any], params_of: Any, graph_of: Any) -> None:
    conv, (rows, adjacency, mask) = names["ClusterGCNConv"](4, bias=True), graph_of(5, 6, 3, seed=0)
    weights = params_of(conv, 6, 3, seed=1)
    around = np.stack(
        [np.asarray(rows)[(np.asarray(adjacency[v]) > 0) | (np.arange(6) == v)].mean(axis=0) for v in range(5)]
    )
    wanted = rows[:5] @ weights["self_kernel"] + around @ weights["mixed_kernel"] + weights["bias"]
    np.testing.assert_allclose(conv.apply({"params": weights}, rows, adjacency, mask)[:5], wanted, rtol=1e-5, atol=1e-5)


def test_its_gradient_is_a_sum_of_contributions(registered: str) -> None:
    lab = Lab()
    _adds_up(standard(lab.space.width, registered, hidden=24), lab)


def test_a_registered_part_goes_by_its_name_and_into_files(registered: str) -> None:
    readout = READOUTS["square_mean"].for_task(ReadoutTask(3, False, "relu", "mean", 8))
    model = standard(5, registered, readout, hidden=4)
    assert model_from_json(model_to_json(model)) == model and model.outputs == 3
    assert model.initial(key=jax.random.key(0))["readout"]["linear"]["kernel"].shape == (4, 3)
