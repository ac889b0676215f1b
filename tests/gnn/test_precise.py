"""No matrix product of a model, nor of its derivatives, may be rounded by a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Jaxpr
from jax.flatten_util import ravel_pytree
from models import READOUTS, SLOTS

from jgleak.attacks.matching.product import product, product_left, product_right
from jgleak.attacks.span.kernels import inside, residuals
from jgleak.federated.loss import graph_loss
from jgleak.gnn import CONVOLUTIONS, GCNConv, Layer, standard
from jgleak.graph import DenseGraph

WIDTH = 3

TURNS = [
    (list(CONVOLUTIONS)[i % len(CONVOLUTIONS)], list(READOUTS)[i % len(READOUTS)])
    for i in range(max(len(CONVOLUTIONS), len(READOUTS)))
]
"""Every convolution and every readout: each makes its own products, whatever the other is."""


def products(jaxpr: Jaxpr) -> Iterator[Any]:
    """The precision of every product in it and in what it calls."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation.params["precision"]
        for value in jax.tree.leaves(equation.params):
            inner = getattr(value, "jaxpr", value)  # closed ones hold theirs
            if isinstance(inner, Jaxpr):
                yield from products(inner)


def precisions(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    return list(products(jax.make_jaxpr(function)(*arguments).jaxpr))


@pytest.mark.parametrize(("conv", "readout"), TURNS)
def test_of_a_model(conv: str, readout: str, params_of: Callable[..., Any], graph_of: Callable[..., Any]) -> None:
    """The loss, its gradient, and the gradient of the gradient's length by the features."""
    model = standard(WIDTH, conv, READOUTS[readout](2, "sigmoid"), hidden=4, act="sigmoid")
    params, (rows, adjacency, mask) = params_of(model, SLOTS, WIDTH, 0), graph_of(3, SLOTS, WIDTH, 0, of=model)
    label = jnp.ones(SLOTS, int) if model.node_level else jnp.int32(1)

    def loss(params: Any, rows: Any) -> Any:
        dense, loss = DenseGraph(rows, adjacency, mask), "mse" if model.readout.rates else "ce"
        return graph_loss(model, params, dense, label, loss)

    def length(rows: Any) -> Any:
        return jnp.sum(ravel_pytree(jax.grad(loss)(params, rows))[0] ** 2)

    for found in (precisions(loss, params, rows), precisions(jax.grad(loss), params, rows)):
        assert found and set(found) == {(jax.lax.Precision.HIGHEST,) * 2}
    assert set(precisions(jax.grad(length), rows)) == {(jax.lax.Precision.HIGHEST,) * 2}


@pytest.mark.parametrize("multiply", [product, product_left, product_right])
def test_of_matching(multiply: Callable[..., Any]) -> None:
    a = jnp.ones((2, 3, 3))
    slope = jax.grad(lambda a, b: multiply(a, b).sum(), argnums=(0, 1))
    assert set(precisions(slope, a, a)) == {(jax.lax.Precision.HIGHEST,) * 2}


def test_of_the_span_filter() -> None:
    """A row is inside up to 1e-5 of its length, and a GPU's products are off by far more where they are rounded."""
    rows, basis = jnp.ones((2, WIDTH)), jnp.eye(WIDTH)[:, :2]
    found = precisions(inside, rows, jnp.ones(WIDTH), basis, jnp.zeros(2), jnp.float32(1e-5))
    layer = Layer(GCNConv(WIDTH))
    weights = {"conv": {"kernel": jnp.eye(WIDTH)}}
    table, columns = jnp.ones((1, 4, WIDTH)), jnp.arange(WIDTH)

    def residual(scale: Any, null: Any) -> Any:
        return residuals((layer, "state"), weights, table, columns, scale, null, jnp.ones((2, 5), int))

    assert {*found, *precisions(residual, jnp.ones(WIDTH), basis)} == {(jax.lax.Precision.HIGHEST,) * 2}
