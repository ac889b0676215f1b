"""The pooled embedding under an MLP readout, read off the gradient of the MLP's first layer (GraphDLG, eq. 7, 8)."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.gnn import Params


def pooled_embedding(update: Params) -> Float[np.ndarray, " D"]:
    """The vector ``p`` that entered a ``pooled`` readout, from its first linear map's ``dL/dW = p dL/db^T``.

    It is ``dL/dW dL/db / |dL/db|^2``: the least-squares answer over all outputs, where the paper divides one row by one
    entry. The depth of the MLP above does not matter, so nothing has to be peeled off it first (the paper solves
    backwards from the last layer's input). The gradient of a batch is the mean over its graphs, and what comes out is
    a mean of their embeddings, ``sum_g p_g (delta_g . delta) / |delta|^2`` with ``delta`` the sum of the graphs'
    ``delta_g``: weights sum to 1, but may be negative where graphs of several classes pull apart.

    Raises:
      ConditionFailed: the bias gradient is zero (the output already equals the target, or every unit of the layer is
        dead), so nothing shows.
    """
    layer = update["head"]["linears_0"]
    delta = np.asarray(layer["bias"], np.float64)
    if not np.any(delta):
        raise ConditionFailed(
            "the gradient of the readout's first bias is zero, so the pooled embedding does not show; "
            "observe another round"
        )
    return entering(np.asarray(layer["kernel"], np.float64), delta)


def entering(kernel: Any, delta: Any) -> Any:
    """``p (D,)`` of ``dL/dW = p delta^T (D, F)`` by least squares, each entry from its own row's; host or traced.

    Only entries of ``dL/dW`` that are not 0 count: pruning may have left out the others, and of an update that was not
    pruned they are 0 where ``p`` or ``delta`` is, which changes nothing.
    """
    square = (kernel != 0) @ (delta * delta)
    return kernel @ delta / (square + (square == 0))


def pooled_gradient(params: Params, update: Params) -> Float[np.ndarray, " D"]:
    """``dL/dp`` at the pooled vector: the first linear map's kernel times its observed bias gradient."""
    kernel, delta = params["head"]["linears_0"]["kernel"], update["head"]["linears_0"]["bias"]
    return np.asarray(kernel, np.float64) @ np.asarray(delta, np.float64)
