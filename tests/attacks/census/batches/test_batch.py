"""Whole batches: every graph found, certified and checked; what is missing is said."""

from __future__ import annotations

import dataclasses
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from models import some_params
from scipy.spatial import KDTree

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.census.assemble import Form
from jgleak.attacks.census.batches import unannounced
from jgleak.attacks.census.batches.number_of_graphs import numbers_of_graphs
from jgleak.attacks.census.batches.unannounced import FEWEST, counted
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.span.levels import input_subspace, most_rows
from jgleak.audit.certified import read, verify, write
from jgleak.audit.outcome import PART, outcome
from jgleak.datasets import embedded
from jgleak.features import FeatureSpace
from jgleak.federated import Knowledge, LocalTraining, fedsgd, save
from jgleak.gnn import GNN, MLP, Pooled
from jgleak.gnn.standard import standard
from jgleak.graph import Graph

from ..brute import MATCH, small_graphs
from ..test_anonymity import typed, weights

DATA = embedded()
NAMES = ("histamine", "valproic acid", "metformin")
GRAPHS = [graph for graph in DATA.graphs if graph.name.split(":")[0] in NAMES]


def model_of(width: int, in_features: int, *head: int) -> GNN:
    return standard(in_features, "gcn", Pooled("mean", MLP(head)), hidden=width, last_act=True)


def attacked(
    model: GNN, params: Any, graphs: list[Graph], space: Any, seconds: float = 600.0, **known: Any
) -> Reconstruction:
    observation = fedsgd(model, params, graphs, space, loss="bce")
    return CENSUS(observation, Knowledge(space, **known), key=jax.random.key(0), budget=Budget(time_limit=seconds))


def forms(graphs: Any) -> list[Form]:
    return sorted(graph.canonical_form() for graph in graphs)


@pytest.fixture(scope="module")
def found() -> Reconstruction:
    model = model_of(64, DATA.space.width, 64, 2)
    return attacked(model, some_params(model), GRAPHS, DATA.space, prior="molecule")


def test_every_molecule_is_in_its_list_and_the_batch_has_the_gradient(found: Reconstruction) -> None:
    assert found.stop == "match" and found.gradient_distance is not None and found.gradient_distance < 1e-5
    assert len(found.members) == len(found.graphs) == 3 and found.certificate is not None
    told = [found.info[name] for name in ("graphs", "rank", "masks", "found", "attempts")]
    assert told == [3, 3, True, 3, 1], "nothing is searched after all were found"
    lists = [forms(member.graphs) for member in found.members]
    for truth in GRAPHS:
        assert sum(truth.canonical_form() in one for one in lists) == 1
    for member, graph in zip(found.members, found.graphs, strict=True):
        assert member.certificate is not None and member.certificate.size == len(member.graphs)
        assert member.graphs[0] is graph and graph.y is not None


def test_a_bound_on_one_graph_bounds_no_rank_of_a_batch() -> None:
    """The gradient spans more rows than the largest graph has nodes."""
    model, many = model_of(64, DATA.space.width, 64, 2), [graph for graph in DATA.graphs if graph.n <= 6]
    observation = fedsgd(model, some_params(model), many, DATA.space, loss="bce")
    alone, told = Knowledge(DATA.space), Knowledge(DATA.space, max_n=6)
    assert most_rows(observation, alone) is None and most_rows(observation, told) == 6 * len(many)
    assert input_subspace(observation, told).rank == input_subspace(observation, alone).rank > 6


@pytest.mark.long
def test_graphs_behind_a_readout_a_node_are_told_apart_by_weights() -> None:
    """GRAIN's own model."""
    model = standard(DATA.space.width, hidden=64)
    found = attacked(model, some_params(model), GRAPHS[:2], DATA.space, prior="molecule")
    assert found.stop == "match" and found.gradient_distance is not None and found.gradient_distance < 1e-5
    assert found.info["graphs"] == 2 and "rank" not in found.info, "no pooled row is looked for"
    lists = [forms(member.graphs) for member in found.members]
    assert all(any(truth.canonical_form() in one for one in lists) for truth in GRAPHS[:2])


def test_a_saved_batch_is_verified_as_a_whole(found: Reconstruction, tmp_path: Path) -> None:
    model = model_of(64, DATA.space.width, 64, 2)
    observation = fedsgd(model, some_params(model), GRAPHS, DATA.space, loss="bce")
    save(tmp_path / "seen.safetensors", observation, DATA.space)
    file = tmp_path / "found.json"
    write(file, found, tmp_path / "seen.safetensors")
    report = verify(file)
    assert report.holds and "graphs found: 3 of 3" in report.text
    assert [len(member.graphs) for member in read(file).members] == [len(member.graphs) for member in found.members]
    wrong = dataclasses.replace(found.members[0], graphs=(GRAPHS[0],) * 2)
    write(file, dataclasses.replace(found, members=(wrong, *found.members[1:])), tmp_path / "seen.safetensors")
    assert not verify(file).holds
    write(file, dataclasses.replace(found, members=found.members[:2], certificate=None), tmp_path / "seen.safetensors")
    assert verify(file).holds and "others are missing" in verify(file).text


def test_without_time_nothing_is_claimed() -> None:
    model = model_of(64, DATA.space.width, 64, 2)
    params = some_params(model)
    found = attacked(model, params, GRAPHS, DATA.space, seconds=1e-3, prior="molecule")
    assert not found.graphs and found.certificate is None and found.stop == "time"


def test_some_graphs_of_a_batch_are_an_answer(found: Reconstruction) -> None:
    model = model_of(64, DATA.space.width, 64, 2)
    observation = fedsgd(model, some_params(model), GRAPHS, DATA.space, loss="bce")
    some = dataclasses.replace(found, graphs=found.graphs[:2], members=found.members[:2], gradient_distance=None)
    said = outcome(observation, some, Knowledge(DATA.space))
    assert said.kind == PART and "2 of the 3 graphs" in said.text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pruned": True}, "which pruning changes"),
        ({"scaled": True}, "which clipping changes"),
        ({"noise": 1e-6}, "which noise changes"),
        (
            {"noise": 1e-6, "protocol": "fedavg", "local": LocalTraining(0.1)},
            "which noise (what rounding left of a difference of weights counts as noise) changes",
        ),
    ],
)
def test_updates_that_hide_dimensions_are_refused(changed: dict[str, Any], said: str) -> None:
    model = model_of(64, DATA.space.width, 64, 2)
    observation = fedsgd(model, some_params(model), GRAPHS, DATA.space, loss="bce")
    seen = dataclasses.replace(observation, **changed)
    reason = CENSUS.refusal(seen, Knowledge(DATA.space, noise=seen.noise))
    assert reason is not None and said in reason


def test_side_information_of_each_graph_is_refused() -> None:
    model = model_of(64, DATA.space.width, 64, 2)
    observation = fedsgd(model, some_params(model), GRAPHS, DATA.space, loss="bce")
    sizes, most = tuple(graph.n for graph in GRAPHS), max(graph.n for graph in GRAPHS)
    edges = np.zeros((len(GRAPHS), most, most))
    for known in (
        Knowledge(DATA.space, sizes=sizes, adjacency=edges),
        Knowledge(DATA.space, sizes=sizes, features=np.repeat(edges[..., :1], len(DATA.space.features), axis=2)),
    ):
        reason = CENSUS.refusal(observation, known)
        assert reason is not None and "it cannot assign known edges or feature rows to graphs; leave them out" in reason
    assert CENSUS.refusal(observation, Knowledge(DATA.space, sizes=sizes)) is None


PROJECTED = 12
"""Dimensions in which gradients are looked up."""


class Population:
    """Small graphs with both labels, and the whole gradient of each."""

    def __init__(self, model: GNN, params: Any, space: FeatureSpace, graphs: list[Graph]) -> None:
        labelled = [dataclasses.replace(graph, y=y) for graph, y in product(graphs, (0, 1))]
        self.graphs = labelled
        flat = []
        for graph in labelled:
            update = fedsgd(model, params, [graph], space, loss="bce").update
            flat.append(np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(update)]))
        self.flat = np.array(flat)
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(self.flat.shape[1], PROJECTED)))[0]
        self.projected, self.turn = KDTree(self.flat @ turn), turn

    def explaining(self, places: tuple[int, ...]) -> set[tuple[Form, ...]]:
        """The batches of as many graphs with the same gradient, up to isomorphism.

        All graphs but one are taken in every way, and the last is what is missing: one near to that in a projection,
        which brings nothing further apart, and then in full.
        """
        seen, batches = self.flat[list(places)].sum(axis=0), set[tuple[Form, ...]]()
        others = np.array(list(combinations_with_replacement(range(len(self.flat)), len(places) - 1)))
        most = MATCH * float(np.linalg.norm(seen))
        missing = seen @ self.turn - self.projected.data[others].sum(axis=1)
        for chosen, near in zip(others, self.projected.query_ball_point(missing, most), strict=True):
            for last in near:
                whole = [*chosen.tolist(), last]
                if np.linalg.norm(self.flat[whole].sum(axis=0) - seen) <= most:
                    batches.add(tuple(forms([self.graphs[place] for place in whole])))
        return batches


def explained(found: Reconstruction) -> set[tuple[Form, ...]]:
    """The batches that the lists allow."""
    return {tuple(forms(batch)) for batch in product(*(member.graphs for member in found.members))}


@pytest.mark.parametrize(
    ("batches", "size"),
    [(3, 2), (3, 3), pytest.param(200, 2, marks=pytest.mark.slow), pytest.param(200, 3, marks=pytest.mark.slow)],
)
@pytest.mark.long
def test_the_certified_set_of_batches_is_that_of_brute_force(batches: int, size: int) -> None:
    """Pairs and triples of all graphs of up to four nodes of two kinds, under one set of weights."""
    space, rng = typed(2), np.random.default_rng(0)
    model = model_of(32, space.width, 32, 2)
    params = weights(model, 0)
    population = Population(model, params, space, [graph for n in (1, 2, 3, 4) for graph in small_graphs(n, space)])
    answered = 0
    for _ in range(batches):
        places = tuple(rng.choice(len(population.graphs), size, replace=False).tolist())
        found = attacked(model, params, [population.graphs[i] for i in places], space, max_n=4)
        wanted, listed = population.explaining(places), explained(found)
        if found.certificate is None:
            several = {form for pair in wanted for form in pair}
            ended = [m for m in found.members if m.certificate is not None and m.certificate.status != "at_least_k"]
            assert all(several & set(forms(member.graphs)) for member in ended)
            continue
        answered += 1
        assert listed <= wanted
        assert listed == wanted or found.certificate.status == "at_least_k"
    assert answered >= 0.6 * batches


@pytest.mark.parametrize("places", [(0, 1), (0, 0, 1)])
def test_the_number_of_graphs_is_read_off_where_nobody_says_it(places: tuple[int, ...]) -> None:
    """Equal graphs share a row, and their labels say how many they are."""
    model = model_of(64, DATA.space.width, 64, 2)
    params, graphs = some_params(model), [GRAPHS[place] for place in places]
    observation = dataclasses.replace(fedsgd(model, params, graphs, DATA.space, loss="bce"), batch_size=1)
    knowledge = Knowledge(DATA.space, prior="molecule")
    seen, found = counted(CENSUS, observation, knowledge, key=jax.random.key(0))
    assert seen.batch_size == len(places) and found.stop == "match"
    lists = [forms(member.graphs) for member in found.members]
    assert all(any(graph.canonical_form() in one for one in lists) for graph in graphs)
    assert found.certificate is not None and FEWEST in found.certificate.conditions
    assert all(m.certificate is not None and FEWEST in m.certificate.conditions for m in found.members)


@pytest.mark.long
def test_a_number_that_nothing_confirms_is_no_answer() -> None:
    """Two steps' worth of update, not the mean of any graphs: no certificate, and the number is said to be unknown."""
    model = model_of(64, DATA.space.width, 64, 2)
    params = some_params(model)
    whole = fedsgd(model, params, GRAPHS[:2], DATA.space, loss="bce")
    observation = dataclasses.replace(whole, update=jax.tree.map(lambda leaf: 0.7 * leaf, whole.update), batch_size=1)
    knowledge = Knowledge(DATA.space, prior="molecule")
    _, found = counted(CENSUS, observation, knowledge, key=jax.random.key(0), budget=Budget(time_limit=3.0))
    assert found.stop != "match" and found.certificate is None
    assert all(member.certificate is None for member in found.members)
    assert "is not known" in found.info["reason"]


def test_one_graph_of_an_unknown_number_is_found_as_one() -> None:
    model = standard(DATA.space.width, hidden=64)
    observation = fedsgd(model, some_params(model), GRAPHS[:1], DATA.space, loss="bce")
    seen, found = counted(CENSUS, observation, Knowledge(DATA.space, prior="molecule"), key=jax.random.key(0))
    assert seen.batch_size == 1 and GRAPHS[0].canonical_form() in forms(found.graphs)


@pytest.mark.slow
def test_a_readout_a_node_is_tried_with_one_graph_more_until_some_are_found() -> None:
    model = standard(DATA.space.width, hidden=64)
    observation = fedsgd(model, some_params(model), GRAPHS[:2], DATA.space, loss="bce")
    assert list(numbers_of_graphs(observation, Budget().start()))[:2] == [1, 2]
    seen, found = counted(CENSUS, observation, Knowledge(DATA.space, prior="molecule"), key=jax.random.key(0))
    assert seen.batch_size == len(found.members) == 2 and found.stop == "match"


def test_what_no_number_of_graphs_explains_is_refused_with_the_attacks_reason() -> None:
    model = model_of(64, DATA.space.width, 64, 2)
    observation = fedsgd(model, some_params(model), GRAPHS, DATA.space, loss="bce")
    with pytest.raises(ValueError, match="which clipping changes"):
        counted(CENSUS, dataclasses.replace(observation, scaled=True), Knowledge(DATA.space), key=jax.random.key(0))


@pytest.mark.parametrize(
    ("answers", "number"),
    [
        ({1: (1, "exhausted"), 2: (2, "exhausted"), 3: (1, "exhausted")}, 2),
        ({1: (2, "exhausted"), 2: (1, "match"), 3: (3, "exhausted")}, 2),
    ],
    ids=["most graphs where nothing is confirmed", "what is confirmed, however few"],
)
def test_which_number_is_answered(
    answers: dict[int, tuple[int, str]], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(observation: Any, knowledge: Any, **_: Any) -> Reconstruction:
        size, stop = answers[observation.batch_size]
        return Reconstruction(tuple(GRAPHS[:size]), 0.0, stop)

    monkeypatch.setattr(unannounced, "numbers_of_graphs", lambda *_: iter(answers))
    model = model_of(8, DATA.space.width, 2)
    observation = fedsgd(model, some_params(model), GRAPHS[:1], DATA.space, loss="bce")
    attack = Attack("stub", run, several=True)
    seen, found = counted(attack, observation, Knowledge(DATA.space), key=jax.random.key(0))
    assert seen.batch_size == number and (len(found.graphs), found.stop) == answers[number]
