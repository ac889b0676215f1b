"""The pooled embedding under an MLP readout, read off the gradient of the MLP's first layer (GraphDLG, eq. 7, 8)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.gnn import GNN, Params
from jgleak.gnn.pooled import entering


def pooled_embedding(model: GNN, update: Params) -> Float[np.ndarray, " P"]:
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
    first = model.readout.first(model.readout_of(update))
    delta = np.asarray(first["bias"], np.float64)
    if not np.any(delta):
        raise ConditionFailed(
            "the gradient of the readout's first bias is zero, so the pooled embedding does not show; "
            "observe another round"
        )
    return entering(np.asarray(first["kernel"], np.float64), delta)
