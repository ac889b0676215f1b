"""What PyTorch Geometric computed, computed again from its arrays: outputs and gradients to 1e-5, without torch."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jgleak.federated.loss import graph_loss
from jgleak.federated.observation import Observation, flatten
from jgleak.interop import from_arrays
from jgleak.interop.graphs import dense
from tests.interop.conftest import LAYERS, Stranger


@pytest.fixture(scope="module")
def observed(strangers: dict[str, Stranger]) -> dict[str, Observation]:
    return {name: from_arrays(**one.given) for name, one in strangers.items()}


def recomputed(seen: Observation, one: Stranger) -> tuple[np.ndarray, Any]:
    """Output and gradient of the observation's own model."""
    rows, edges, _ = one.example
    graph = rows, dense(edges, len(rows)), np.ones(len(rows), bool)

    def value(params: Any) -> Any:
        output = seen.model.apply({"params": params}, *graph)
        return graph_loss(seen.model, params, *graph, one.label, seen.loss), output  # type: ignore[arg-type]

    compiled = jax.jit(jax.grad(value, has_aux=True), compiler_options={"xla_backend_optimization_level": 0})
    gradient, output = compiled(seen.params)
    return np.asarray(output), gradient


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_and_gradients_are_the_original_s(
    name: str, strangers: dict[str, Stranger], observed: dict[str, Observation]
) -> None:
    one, seen = strangers[name], observed[name]
    output, gradient = recomputed(seen, one)
    wanted = one.example[2]
    if name == "gcn":  # one output with BCE: two logits, the first of them zero
        assert seen.loss == "ce" and seen.model.classes == 2 and output[0] == 0.0
        output = output[1:]
    np.testing.assert_allclose(output, wanted, atol=1e-5 * np.abs(wanted).max())
    size = max(np.abs(leaf).max() for leaf in flatten(gradient).values())
    for path, leaf in flatten(seen.update).items():
        np.testing.assert_allclose(leaf, flatten(gradient)[path], atol=1e-5 * size, err_msg=path)
