"""Which of the explaining graphs comes first: plainness for any graph, the prior for molecules."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.certify import _ranked
from jgleak.attacks.census.prior import MISMATCH, PRIORS, molecule_scores, resolved, usual_atoms
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.structure_prior import arbitrary, plainness, rings, surroundings
from jgleak.datasets import load
from jgleak.datasets.molecules import MOLECULE_SPACE, molecule_graph
from jgleak.federated import Knowledge
from jgleak.graph import Graph
from tests.clocks import HELD


def test_rings_and_surroundings(lab: Any) -> None:
    two = lab.graph([0] * 6, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)])
    assert sorted(map(sorted, rings(two))) == [[0, 1, 2], [3, 4, 5]]
    assert (surroundings(two), plainness(two)[:3]) == (2, (6, 6, 2)), "ends and bridge ends, each twice"
    hexagon = lab.ring([0] * 6)
    assert plainness(hexagon)[:3] == (6, 6, 1)
    assert surroundings(lab.path([0, 1, 2, 3])) == 4


def test_plainness_ignores_the_order_of_nodes(lab: Any) -> None:
    for seed in range(5):
        graph = lab.random(9, seed, extra=2)
        assert plainness(graph.permute(np.random.default_rng(seed).permutation(9))) == plainness(graph)


def test_the_arbitrary_order_knows_nothing(lab: Any) -> None:
    """It is one of graphs, not of their numbering, and neither size nor plainness shows in it."""
    graphs = [lab.random(3 + seed % 8, seed, extra=seed % 3) for seed in range(400)]
    shuffled = [g.permute(np.random.default_rng(i).permutation(g.n)) for i, g in enumerate(graphs)]
    keys = [arbitrary(graph) for graph in graphs]
    assert keys == [arbitrary(graph) for graph in shuffled]
    places = np.argsort(np.argsort(keys))
    for known in ([g.n for g in graphs], [len(g.edges) - g.n for g in graphs], [surroundings(g) for g in graphs]):
        assert abs(np.corrcoef(places, known)[0, 1]) < 3 / np.sqrt(len(graphs))


def test_auto_is_chemistry_where_features_name_atoms(lab: Any) -> None:
    assert resolved("auto", MOLECULE_SPACE) == "molecule" and resolved("auto", lab.space) == "plain"
    assert [resolved(name, MOLECULE_SPACE) for name in PRIORS] == list(PRIORS)
    with pytest.raises(ValueError, match="prior 'rings' is unknown; choose one of auto, none, plain, molecule"):
        resolved("rings", MOLECULE_SPACE)
    with pytest.raises(ValueError, match="'molecule' needs the features aromatic, atomic_number, hydrogens"):
        resolved("molecule", lab.space)


def test_the_ranking_decides_the_order_of_a_set_and_nothing_else(lab: Any) -> None:
    """A ring and its covers have one gradient: only ``none`` does not put the smallest first."""
    observation, sets = lab.observe(lab.model(), lab.ring([0, 1, 2])), {}
    for prior in ("none", "plain", "auto"):
        known = Knowledge(lab.space, max_n=12, prior=prior)
        found = CENSUS(observation, known, key=jax.random.key(0), budget=Budget(time_limit=60))
        assert found.certificate is not None and found.certificate.status == "k_graphs"
        sets[prior] = list(found.graphs)
    assert [g.n for g in sets["plain"]] == [g.n for g in sets["auto"]] == [3, 6, 9, 12]
    assert [arbitrary(g) for g in sets["none"]] == sorted(arbitrary(g) for g in sets["plain"])


def test_where_time_is_up_the_rest_of_a_list_comes_behind_what_was_ranked(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers of a ring, all tied: time ends after the first two were looked at, which are sorted; nobody is lost."""
    knowledge = Knowledge(lab.space, max_n=12, prior="plain")
    problem = CensusProblem.of(lab.observe(lab.model(), lab.ring([0, 1, 2])), knowledge)
    rings = [lab.ring([0, 1, 2] * times) for times in (3, 2, 4, 1)]
    found = AnonymitySet(tuple(ExplainingGraph(ring, 1e-7, ring.canonical_form()) for ring in rings))
    assert _ranked(problem, found, Budget().start()) == [3, 1, 0, 2]
    asked: list[int] = []
    monkeypatch.setattr(Clock, "left", property(lambda _: asked.append(1) or 2.5 - len(asked)))
    assert _ranked(problem, found, Budget().start()) == [1, 0, 2, 3]


def test_bond_orders_are_worked_out_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them a graph counts as if no atom fitted."""
    benzene = molecule_graph("c1ccccc1")
    fine = molecule_scores([benzene, benzene], MOLECULE_SPACE)[0]
    assert molecule_scores([benzene, benzene], MOLECULE_SPACE, clock=HELD) == [fine] * 2
    monkeypatch.setattr(Clock, "left", property(lambda _: -1.0))
    late = molecule_scores([benzene, benzene], MOLECULE_SPACE, clock=Budget().start())
    assert late == [fine + MISMATCH * benzene.n] * 2


def test_real_atoms_are_usual() -> None:
    data = load("embedded")
    assert all(usual_atoms(graph.x, data.space).all() for graph in data.graphs)


@pytest.mark.parametrize(
    ("name", "value"), [("hydrogens", 4), ("degree", 5), ("formal_charge", 2), ("hybridization", "SP"), ("aromatic", 1)]
)
def test_altered_atoms_are_not(name: str, value: Any) -> None:
    """A carbon of ethane with one feature changed."""
    space, codes = MOLECULE_SPACE, molecule_graph("CC").x.copy()
    g = space.index(name)
    codes[:, g] = space.features[g].values.index(value)
    assert not usual_atoms(codes, space).any()


def scores(*smiles: str) -> list[float]:
    return molecule_scores([molecule_graph(s) for s in smiles], MOLECULE_SPACE)


def test_the_prior_knows_rings() -> None:
    six, five, seven, four, three = scores("C1CCCCC1", "C1CCCC1", "C1CCCCCC1", "C1CCC1", "C1CC1")
    assert six < five < seven < four <= three
    oxirane, cyclopropane = scores("C1CO1", "C1CC1")
    assert oxirane < cyclopropane


def test_the_prior_prefers_a_molecule_to_its_double_cover() -> None:
    space, toluene = MOLECULE_SPACE, molecule_graph("Cc1ccccc1")
    n = toluene.n
    edges = [(u + n * i, v + n * ((u, v) == (1, 2)) * (1 - 2 * i) + n * i) for u, v in toluene.edges for i in (0, 1)]
    cover = Graph(np.r_[toluene.x, toluene.x], np.array([sorted(edge) for edge in edges]))
    assert np.array_equal(np.sort(cover.degree), np.sort(np.r_[toluene.degree, toluene.degree]))
    one, two = molecule_scores([toluene, cover], space)
    assert one < two


def test_the_prior_sees_atoms_that_do_not_fit() -> None:
    """An aromatic atom outside any ring, and one hydrogen too many."""
    space, benzene = MOLECULE_SPACE, molecule_graph("c1ccccc1")
    broken = Graph(benzene.x, benzene.edges[:-1])
    fat = benzene.x.copy()
    fat[:, space.index("hydrogens")] += 1
    fine, open_, hydrogens = molecule_scores([benzene, broken, Graph(fat, benzene.edges)], space)
    assert fine < open_ and fine < hydrogens


def test_priors_need_their_features(lab: Any) -> None:
    graph = lab.path([0, 1])
    assert PRIORS["none"].scores([graph, graph], lab.space, 1, Budget().start()) == [0.0, 0.0]
    for call in (lambda: molecule_scores([graph], lab.space), lambda: usual_atoms(graph.x, lab.space)):
        with pytest.raises(ValueError, match="needs the features aromatic, atomic_number, hydrogens"):
            call()


def test_near_gradients_come_before_plain_graphs(lab: Any) -> None:
    """In whatever order they were found."""
    problem = CensusProblem.of(lab.observe(lab.model(), lab.ring([0, 1, 2])), Knowledge(lab.space, max_n=12))
    ring, cover = lab.ring([0, 1, 2]), lab.ring([0, 1, 2] * 2)
    far, near = (ring, 1.0, ring.canonical_form()), (cover, 1e-7, cover.canonical_form())
    for both, order in (((far, near), [1, 0]), ((near, far), [0, 1])):
        found = AnonymitySet(tuple(ExplainingGraph(*one) for one in both))
        assert _ranked(problem, found, Budget().start()) == order


def test_under_noise_the_nearer_of_two_graphs_is_the_likelier(lab: Any) -> None:
    """Whichever is the plainer one."""
    observation = lab.observe(lab.model(), lab.ring([0, 1, 2]))
    problem = CensusProblem.of(observation, Knowledge(lab.space, max_n=12, noise=1e-3))
    graphs = [lab.ring([0, 1, 2]), lab.ring([0, 1, 2] * 2)]
    near = problem.fit.most / 2
    for distances, order in (((near, 1.2 * near), [0, 1]), ((1.2 * near, near), [1, 0])):
        found = (ExplainingGraph(g, far, g.canonical_form()) for g, far in zip(graphs, distances, strict=True))
        assert problem.fit.excess(distances).max() > 2
        assert _ranked(problem, AnonymitySet(tuple(found)), Budget().start()) == order
