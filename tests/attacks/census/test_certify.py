"""What every search assumes, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.census.arithmetic import Exact
from jgleak.attacks.census.certify import _conditions
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge

SPACE = FeatureSpace((onehot("kind", range(3)),))
ZERO, CONNECTED = "no row that a span check tests is zero", "the graph is connected"


@pytest.mark.parametrize(
    ("fields", "observed", "wanted"),
    [
        ({}, {}, [ZERO, CONNECTED]),
        ({"connected": False}, {}, [ZERO]),
        ({"public": [0, 1, 2]}, {}, [ZERO, CONNECTED]),
        (
            {"public": [0, 1, 1]},
            {},
            ["no node has a feature value that the public statistics lack", ZERO, CONNECTED],
        ),
        ({}, {"steps": 1}, [ZERO, CONNECTED]),
        (
            {},
            {"steps": 2, "pruned": True},
            [
                ZERO,
                "the local path of 2 steps is that of the listed graphs",
                "along it the rows of blocks move by less than their span checks allow",
                "the entries that pruning left distinguish the gradients of different graphs",
                CONNECTED,
            ],
        ),
    ],
)
def test_conditions_are_those_of_what_is_known(
    fields: dict[str, Any], observed: dict[str, Any], wanted: list[str]
) -> None:
    some, public = object.__new__(CensusProblem), fields.pop("public", None)
    space = SPACE if public is None else SPACE.fit([np.array(public)[:, None]])
    local = SimpleNamespace(steps=observed["steps"]) if "steps" in observed else None
    some.__dict__.update(
        knowledge=Knowledge(space, **fields),
        observation=SimpleNamespace(local=local, pruned=observed.get("pruned", False)),
        seen=SimpleNamespace(statistics=None),
        arithmetic=Exact(DEFAULTS),
        n_counted=False,
    )
    assert list(_conditions(some)) == wanted
