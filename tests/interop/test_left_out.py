"""A part that a description leaves out on purpose: refused by its name, or warned of where nothing shows it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.gnn import AddedRow, LayerNorm
from jgleak.interop import Linear, from_arrays
from jgleak.interop.bridge import UNCOMPARED as WARNING
from jgleak.interop.graphs import dense
from jgleak.interop.layers import Step, called
from tests.interop.conftest import LAYERS, UNCOMPARED, Stranger


def without(steps: list[Step], left: str) -> list[Step]:
    return [step for step in steps if called(step) != left]


@UNCOMPARED
@pytest.mark.parametrize(
    ("left", "message"),
    [
        ("encoder", r"'encoder.bias' .*Linear\('encoder'\) before the first convolution is the encoder"),
        ("norm1", r"'norm1.bias' .* a normalisation: write BatchNorm\('norm1'\) or LayerNorm\('norm1'\) after"),
        ("norm2", r"'norm2.bias' .* LayerNorm\('norm2'\) after its convolution"),
        ("skip", r"'skip.bias' .* Residual\('skip'\) after an activation is added to the layer"),
    ],
)
def test_a_part_with_arrays_is_named_by_them(left: str, message: str, strangers: dict[str, Stranger]) -> None:
    """With an example and without, by the arrays alone."""
    one = strangers["composed"]
    for example in (one.example, None):
        with pytest.raises(ValueError, match=message):
            from_arrays(**{**one.given, "layers": without(one.layers, left)}, example=example)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "one residual": ({"layers_1": {"residual": AddedRow()}}, r"with 'add' \(a residual\) after convolution 2 it"),
    "residuals": ({f"layers_{i}": {"residual": AddedRow()} for i in (0, 1)}, r"'add' \(a residual\) after every conv"),
    "one norm": ({"layers_0": {"norm": LayerNorm()}}, "a layer normalisation without weights after convolution 1 it"),
    "norms": ({f"layers_{i}": {"norm": LayerNorm()} for i in (0, 1)}, "normalisation without weights after every conv"),
    "activations": ({f"layers_{i}": {"act": "elu"} for i in (0, 1)}, "with 'elu' after every convolution it"),
}
"""What a client's model has that its description does not, and what the refusal says."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_part_without_arrays_is_named_by_the_example_and_warned_of_without(
    name: str, strangers: dict[str, Stranger]
) -> None:
    one, (changes, message) = strangers["sage"], CHANGES[name]
    given: dict[str, Any] = {**one.given}
    rows, edges = one.example.rows, one.example.edges
    if "residual" in name:  # where the first layer keeps its width
        state = {**given["state"], "enter.weight": np.eye(6, rows.shape[1], dtype=np.float32)}
        gradients = {**given["gradients"], "enter.weight": np.zeros((6, rows.shape[1]), np.float32)}
        given |= {
            "layers": [Linear("enter"), *LAYERS["sage"]],
            "state": widened(state),
            "gradients": widened(gradients),
        }
    with pytest.warns(UserWarning, match="nothing compares") as caught:
        plain = from_arrays(**given)
    assert [str(warning.message) for warning in caught] == [WARNING]
    layers, params = list(plain.model.layers), dict(plain.params)
    for path, change in changes.items():
        place = int(path.removeprefix("layers_"))
        layers[place] = layers[place].clone(**change)
        if "norm" in change:
            features = layers[place].features
            norm = {"scale": np.ones(features, np.float32), "bias": np.zeros(features, np.float32)}
            params[path] = {**params[path], "norm": norm}
    model = plain.model.clone(layers=tuple(layers))
    inputs = jnp.asarray(rows), jnp.asarray(dense(edges, len(rows))), jnp.ones(len(rows), bool)
    output = np.asarray(model.apply({"params": params}, *inputs))
    with pytest.raises(ValueError, match=f"the description's output differs from the model's by .*{message}"):
        from_arrays(**given, example=(rows, edges, output))


def widened(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The first layer's maps for rows of six columns."""
    first = {name: np.resize(arrays[name], (6, 6)) for name in ("conv1.lin_l.weight", "conv1.lin_r.weight")}
    return {**arrays, **first}
