"""Models of tests in one line each: the fields that a stack of equal layers has."""

from __future__ import annotations

from typing import Any

from jgleak.gnn import GNN
from jgleak.gnn.version_1 import model_of


def flat(**fields: Any) -> GNN:
    """A model of equal layers by ``version_1.DEFAULTS`` and the given fields."""
    return model_of(fields)
