"""Fixtures of the block filter's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jgleak.attacks.span import combinations as planning
from jgleak.attacks.span import filter as filtering
from jgleak.attacks.span import ranges

from .stars import Stars


@pytest.fixture
def tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small enumerations go through ranges and tiles too, and fill several of them."""
    sizes = {"TILE": (2, 8), "REACH": 8, "RANGE": 128, "FINE_REACH": 0, "SMALL": 0, "SCREEN": 32, "CONFIRM": 16}
    shapes = {"TABLES": (16,), "COLUMNS": (12,), "TAILS": (24,), "WIDTHS": (4,), "PLACES": (4,)}
    for name, value in (sizes | shapes).items():
        for module in (filtering, ranges):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(ranges, "accelerated", lambda mesh: False)  # tiles are those above on any device
    monkeypatch.setattr(planning, "LITTLE", 10)
    monkeypatch.setattr(planning, "SPREAD", 2)


@pytest.fixture(scope="module")
def stars(lab: Any) -> Callable[..., Stars]:
    made: dict[Any, Stars] = {}

    def of(conv: str, layer: int = 0) -> Stars:
        if (conv, layer) not in made:
            made[conv, layer] = Stars(lab, conv, layer)
        return made[conv, layer]

    return of
