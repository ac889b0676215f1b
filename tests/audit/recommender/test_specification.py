"""What may be asked of a recommender experiment."""

from __future__ import annotations

from typing import Any

import pytest

from jgleak.attacks.recommender.tolerances import RecommenderSettings
from jgleak.audit.recommender.setup import prepare
from jgleak.audit.recommender.specification import GRAPHS, RecommenderSpecification
from jgleak.federated.recommender.star import NETWORKS


def test_json_and_back() -> None:
    specification = RecommenderSpecification(
        dataset="douban", rounds=(1, 3), defense="clip-inf:0.1", pseudo=5, attack=True, options=(("sweeps", 5),)
    )
    assert RecommenderSpecification.from_json(specification.to_json()) == specification
    with pytest.raises(ValueError, match="unknown field 'colour'"):
        RecommenderSpecification.from_json({"colour": 1})


def test_the_networks_are_those_there_are() -> None:
    assert set(GRAPHS) == set(NETWORKS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"network": "sage"}, "network: unknown 'sage'; choose one of gat, gcn, ggnn"),
        ({"method": "svd"}, "method: unknown 'svd'"),
        ({"settings": "best"}, "settings: unknown 'best'"),
        ({"expansion": "open"}, "expansion: unknown 'open'"),
        ({"neighbours": -1}, "neighbours: must be at least 0"),
        ({"pseudo": -1}, "pseudo: must be at least 0"),
        ({"epochs": 0}, "epochs: must be at least 1"),
        ({"users": 0}, "users: must be at least 1"),
        ({"rounds": (0, 1)}, "rounds: need numbers from 1, got 0, 1"),
        ({"rounds": ()}, "rounds: need numbers from 1, got none"),
        ({"seed": -1}, "seed: must lie in"),
        ({"method": "fcf", "attack": True}, "fcf only serves to compare errors"),
        ({"method": "bias", "pseudo": 3}, "bias only serves to compare errors"),
        ({"method": "fedmf", "settings": "paper"}, "gives no constants for fedmf"),
        ({"expansion": "encrypted", "neighbours": 0}, "only FedGNN with neighbours expands graphs"),
    ],
)
def test_nonsense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RecommenderSpecification(**fields)


def test_options_of_the_attack_are_set_before_anything_is_trained() -> None:
    told = RecommenderSpecification(attack=True, options=(("sweeps", "5"), ("unsure", 3)))
    chosen = prepare(told).attack
    assert (chosen.limits.sweeps, chosen.tolerances.unsure) == (5, 3.0)
    assert prepare(RecommenderSpecification(attack=True)).attack == RecommenderSettings()
    with pytest.raises(ValueError, match="sweps.*did you mean 'sweeps'"):
        prepare(RecommenderSpecification(attack=True, options=(("sweps", "5"),)))
    with pytest.raises(ValueError, match="give --attack"):
        RecommenderSpecification(options=(("sweeps", "5"),))
