"""Updates of which it is known what they are made of, without a model that ran."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jgleak.attacks.facts.evidence import Evidence
from jgleak.features import FeatureSpace, binary, onehot
from jgleak.federated import Observation
from jgleak.gnn import GNN, MLP, GCNConv, Layer, Pooled

SPACE = FeatureSpace((onehot("colour", "rgbk"), onehot("size", (1, 2, 3)), binary("ring"), onehot("kind", "ab")))
"""Three sums that agree, of ten columns."""

NODES = np.array([[0, 0, 0, 0], [1, 2, 1, 0], [1, 1, 0, 1], [0, 2, 0, 1], [0, 0, 1, 1]], np.int32)
"""Colours r and g, all sizes and kinds; five vectors of rank five."""

UNITS = 16
_rng = np.random.default_rng(4)
WEIGHTS = _rng.normal(size=(SPACE.width, UNITS))
UPSTREAM = _rng.normal(size=(len(NODES), UNITS))
PLAIN = SPACE.encode(NODES).astype(np.float64).T @ UPSTREAM
NORMAL = dataclasses.replace(SPACE, mean=SPACE.encode(NODES).mean(axis=0), std=SPACE.encode(NODES).std(axis=0))
MOVED = NORMAL.encode(NODES).astype(np.float64).T @ UPSTREAM


HEAD = Pooled("mean", MLP((2,)))


def model(readout: Any = HEAD, **fields: Any) -> GNN:
    """Two layers, the first of ``UNITS``."""
    return GNN(SPACE.width, (Layer(fields.pop("conv", GCNConv(UNITS))), Layer(GCNConv(2))), readout, **fields)


def evidence(
    gradient: np.ndarray,
    space: FeatureSpace = SPACE,
    noise: float | None = None,
    *,
    kind: Any = np.float64,
    built: GNN | None = None,
    weights: np.ndarray = WEIGHTS,
    sent: Mapping[str, np.ndarray] = {},
    back: Mapping[str, np.ndarray] = {},
    **marks: Any,
) -> Evidence:
    """Of an update that is ``gradient`` in the first kernel.

    Args:
      gradient: of the first kernel.
      space: the public feature space.
      noise: that is known.
      kind: type of the update's entries.
      built: the model.
      weights: of the first kernel.
      sent: other weights that are not zero, by their place (``readout/mlp/linears_0/bias``).
      back: entries of the update that are not zero, likewise.
      marks: fields of the observation.
    """
    built = built or model()
    shapes = jax.eval_shape(lambda: built.initial(key=jax.random.key(0)))

    def filled(first: np.ndarray, others: Mapping[str, np.ndarray]) -> Any:
        given = {"layers_0/conv/kernel": first, **others}

        def one(path: Any, leaf: Any) -> np.ndarray:
            value = given.pop("/".join(part.key for part in path), None)
            return np.zeros(leaf.shape) if value is None else np.asarray(value, np.float64)

        tree = jax.tree_util.tree_map_with_path(one, shapes)
        assert not given, f"the model has no {given.keys()}"
        return tree

    update = jax.tree.map(lambda leaf: leaf.astype(kind), filled(gradient, back))
    return Evidence(Observation(built, filled(weights, sent), update, marks.pop("loss", "ce"), **marks), space, noise)
