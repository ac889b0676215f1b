"""Numbers of nodes in turn, where statistics do not determine them."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from models import some_params

from jgleak import Budget, Knowledge, get_attack
from jgleak.attacks.attack import Clock, Reconstruction
from jgleak.attacks.census import census
from jgleak.attacks.census.number_of_nodes import NumberUnknown, number_of_nodes
from jgleak.attacks.census.settings import DEFAULTS, CensusSettings
from jgleak.attacks.census.small_numbers import TRIED, WithNumber, with_each_number
from jgleak.attacks.certificate import Certificate
from jgleak.datasets import load
from jgleak.datasets.molecules import molecule_graph
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Observation, fedsgd
from jgleak.gnn import GNN, MLP, BatchNorm, GINConv, Layer, Pooled
from jgleak.graph import Graph
from tests.clocks import HELD

CERTIFICATE = Certificate("unique", 1, 5, True, 1e-8, ("the graph is connected",))
FOUND = Reconstruction((), 1e-8, "match", certificate=CERTIFICATE, info={"attempts": 1})
NOTHING = Reconstruction((), None, "no candidates")


SPACE = FeatureSpace((onehot("kind", range(3)),))
SHARE = 0.25
SETTINGS = dataclasses.replace(DEFAULTS, limits=dataclasses.replace(DEFAULTS.limits, enumeration_share=SHARE))
Asked = list[tuple[float, int | None, int]]
"""The share that is kept for small graphs, the number of nodes, and the seconds."""


def found_from(least: dict[float, int], asked: Asked) -> WithNumber:
    """A census that finds a graph from some number of nodes on, by the share that is kept for small graphs."""

    def single(settings: CensusSettings, knowledge: Knowledge, clock: Clock) -> Reconstruction:
        share, n = settings.limits.enumeration_share, knowledge.n
        asked.append((share, n, round(clock.left)))
        assert n is not None and knowledge.max_n == 20 and knowledge.space is SPACE
        return FOUND if n >= least[share] else NOTHING

    return single


def tried(least: dict[float, int], asked: Asked, sizes: range, clock: Clock) -> Reconstruction | None:
    return with_each_number(found_from(least, asked), sizes, SETTINGS, Knowledge(SPACE, max_n=20), clock)


def test_the_first_number_with_a_graph_is_an_open_list_and_every_number_gets_its_share() -> None:
    """All numbers are tried by enumeration alone, then with the share that the settings say."""
    asked: Asked = []
    found = tried({1.0: 9, SHARE: 5}, asked, range(2, 8), Budget(time_limit=3600).start())
    assert [n for _, n, _ in asked] == [2, 3, 4, 5, 6, 7, 2, 3, 4, 5]
    assert [share for share, _, _ in asked] == 6 * [1.0] + 4 * [SHARE]
    np.testing.assert_allclose([left for *_, left in asked], [3600 / k for k in range(12, 2, -1)], atol=10)
    assert found is not None and found.info == FOUND.info and found.certificate is not None
    certificate = found.certificate
    assert (certificate.status, certificate.n_known, certificate.n_max) == ("at_least_k", False, 5)
    assert certificate.conditions == (*CERTIFICATE.conditions, TRIED.format(5))


def test_nothing_is_found_where_no_number_has_a_graph_and_nothing_begins_late() -> None:
    asked: Asked = []
    never, at_once = {1.0: 9, SHARE: 9}, {1.0: 2, SHARE: 2}
    assert tried(never, asked, range(2, 4), HELD) is None and len(asked) == 4
    assert tried(at_once, asked, range(2, 4), Clock(0.0, 0.0)) is None and len(asked) == 4


def client(smiles: str) -> tuple[Graph, Observation, FeatureSpace]:
    """A molecule behind a GIN with norms in training mode, and raw columns."""
    data = load("embedded")
    space = dataclasses.replace(data.space, mean=None, std=None)
    layers = tuple(Layer(GINConv(32, bias=True), norm=BatchNorm(training=True)) for _ in range(2))
    model = GNN(space.width, layers, Pooled(mlp=MLP((16, 2))))
    graph = dataclasses.replace(molecule_graph(smiles), y=1)
    return graph, fedsgd(model, some_params(model), [graph], space, loss="ce"), space


def nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> int:
        raise NumberUnknown("nobody knows")

    monkeypatch.setattr(census, "number_of_nodes", none)


def test_numbers_are_those_from_the_dimensions_of_rows_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the reason names the numbers that were tried, if any was."""
    graph, observation, space = client("OCC(CO)CO")
    rank = int(np.linalg.matrix_rank(space.encode(graph.x)))
    assert 2 < rank < graph.n
    asked: list[range] = []
    nobody_knows(monkeypatch)
    monkeypatch.setattr(census, "with_each_number", lambda _, sizes, *__: asked.append(sizes))
    for most, limit, last in ((None, 12, 12), (20, 12, 12), (5, 12, 5), (20, 0, None)):
        attack = get_attack("census").with_options({"enumerated_nodes": limit})
        answer = attack(observation, Knowledge(space, max_n=most), key=jax.random.key(1), budget=Budget(60.0))
        assert answer.stop == "no information"
        tail = "" if last is None else f"; no graph of up to {last} nodes was found without it"
        assert answer.info["reason"] == "nobody knows" + tail
    assert asked == [range(rank - 1, 13), range(rank - 1, 13), range(rank - 1, 6)]


def test_a_share_that_is_over_before_it_is_used_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _, observation, space = client("OCC(CO)CO")
    found: list[Reconstruction] = []

    def late(single: WithNumber, sizes: range, settings: CensusSettings, knowledge: Knowledge, _: Clock) -> None:
        found.append(single(settings, dataclasses.replace(knowledge, n=sizes[-1]), Clock(0.0, 0.0)))

    nobody_knows(monkeypatch)
    monkeypatch.setattr(census, "with_each_number", late)
    get_attack("census")(observation, Knowledge(space), key=jax.random.key(1), budget=Budget(time_limit=60))
    assert [one.stop for one in found] == ["time"]


@pytest.mark.long
@pytest.mark.parametrize(("most", "found"), [(None, True), (6, False)], ids=["any size", "up to 6 nodes"])
def test_a_molecule_whose_number_of_atoms_no_statistics_give_is_found(most: int | None, found: bool) -> None:
    """A triol of seven atoms with raw columns: the blocks that pass the checks before the norm have no such moments."""
    graph, observation, space = client("OCC(CO)CO")
    limit, knowledge = Budget(time_limit=60 if found else 10), Knowledge(space, prior="none", max_n=most)
    with pytest.raises(NumberUnknown):
        number_of_nodes(observation, knowledge, DEFAULTS, limit.start(), limit)
    answer = get_attack("census")(observation, knowledge, key=jax.random.key(1), budget=limit)
    assert any(one.isomorphic(graph) for one in answer.graphs) == found
    if found:
        assert answer.certificate is not None and answer.certificate.status == "at_least_k"
        assert TRIED.format(7) in answer.certificate.conditions
        assert "options" not in answer.info and answer.info["seconds"] <= 60
    else:
        assert not answer.graphs and answer.stop in ("no information", "time")
