"""Where features state no degree: at how many neighbours a search stops, and what a certificate says of it."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from models import some_params

from jgleak.attacks.attack import Budget
from jgleak.attacks.registry import get_attack
from jgleak.attacks.span.levels import degree_bound
from jgleak.attacks.span.settings import SpanLimits
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, fedsgd
from jgleak.gnn import standard
from jgleak.graph import Graph

SPACE = FeatureSpace((onehot("colour", "abcdefgh"),))
K6 = Graph(np.arange(6)[:, None], np.array(list(itertools.combinations(range(6), 2))), 1)
TRIED = "the most that is tried where features state no degree"


@pytest.mark.parametrize(
    ("knowledge", "wanted"),
    [
        (Knowledge(SPACE), (4, TRIED)),
        (Knowledge(dataclasses.replace(SPACE, max_degree=3)), (4, TRIED)),
        (Knowledge(dataclasses.replace(SPACE, max_degree=7), auxiliary=(K6,)), (7, "as in the public data")),
        (Knowledge(dataclasses.replace(SPACE, max_degree=4)), (4, TRIED)),
        (Knowledge(SPACE, auxiliary=(K6,)), (5, "as in the public data")),
        (Knowledge(SPACE, auxiliary=(K6,), max_degree=2), (2, "which is known")),
    ],
)
def test_the_bound_is_known_or_public_or_four(knowledge: Knowledge, wanted: tuple[int, str]) -> None:
    assert degree_bound(knowledge) == wanted


def test_where_nothing_is_public_no_bound_is_said_to_be() -> None:
    """Also of a limit below every degree that a public graph could have."""
    assert degree_bound(Knowledge(SPACE), SpanLimits(unknown_degree=0)) == (0, TRIED)
    assert degree_bound(Knowledge(SPACE, auxiliary=(K6,)), SpanLimits(unknown_degree=6)) == (6, TRIED)


def test_statistics_of_degrees_that_are_left_out_keep_the_largest() -> None:
    space = FeatureSpace((onehot("colour", "ab"), onehot("degree", range(10))), "degree")
    fitted = space.fit([np.array([[0, 1], [1, 6], [1, 2]])])
    bare = fitted.without("degree")
    assert bare.max_degree == 6 and FeatureSpace.from_json(bare.to_json()).max_degree == 6
    assert space.without("degree").max_degree is None, "nothing was published"
    with pytest.raises(ValueError, match="max_degree: a number of neighbours is not negative"):
        dataclasses.replace(SPACE, max_degree=-1)


def test_a_certificate_says_where_it_stopped() -> None:
    truth = Graph(np.array([[0], [1], [2]]), np.array([[0, 1], [1, 2]]), 1)
    model = standard(SPACE.width, "sage", hidden=32)
    seen = fedsgd(model, some_params(model), [truth], SPACE, loss="ce")
    found = get_attack("census")(seen, Knowledge(SPACE, max_n=4), key=jax.random.key(1), budget=Budget(time_limit=30))
    assert found.certificate is not None
    said = [condition for condition in found.certificate.conditions if "neighbours" in condition]
    assert said == [f"no node has more than 3 neighbours, {TRIED}"], "four nodes have no more"
