"""The recursion's rows as mixtures of rows that exist.

Without the last slopes every row comes back as a multiple of what it should be, with a factor that nothing in the
recursion tells (see ``closed_form.recursion``), and not always a positive one. The schema tells it: the columns of a
one-hot feature sum to 1. The most likely value changes only where the sign was wrong. It is ours: the paper gives no
step after the recursion. Such sets are shown raw. Where columns are standardised, a factor leaves the
raw columns' sum at 1 and cannot be told: only what lies outside of [0, 1] is mended.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from jgleak.features import FeatureSpace


def mixtures(space: FeatureSpace, rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
    """Encoded rows, those of one-hot features turned and scaled to shares of its values; binary ones cut to [0, 1].

    A group of columns whose sum is negative changes its sign; then what is below 0 becomes 0, and the sum 1. Columns
    of zeros stay; so do real features, whose scale no schema tells.
    """
    shift, scale = (0.0, 1.0) if space.mean is None or space.std is None else (space.mean, space.std)
    raw = np.asarray(rows, np.float64) * scale + shift
    for feature, start in zip(space.features, space.offsets, strict=True):
        columns = slice(start, start + feature.columns)
        if feature.kind == "onehot":
            part = raw[:, columns]
            shares = np.maximum(np.where(part.sum(axis=1, keepdims=True) < 0, -part, part), 0.0)
            total = shares.sum(axis=1, keepdims=True)
            raw[:, columns] = shares / np.where(total > 0, total, 1.0)
        elif feature.kind == "binary":
            raw[:, columns] = np.clip(raw[:, columns], 0.0, 1.0)
    return space.normalise(raw)
