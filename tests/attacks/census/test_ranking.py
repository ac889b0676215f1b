"""Which of the explaining graphs comes first: plainness for any graph, the prior for molecules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jgleak.attacks.census.plain import plainness, rings, surroundings
from jgleak.attacks.census.prior import PRIORS, molecule_scores, usual_atoms
from jgleak.datasets import load
from jgleak.datasets.molecules import MOLECULE_SPACE, molecule_graph
from jgleak.graph import Graph


def test_rings_and_surroundings(lab: Any) -> None:
    two = lab.graph([0] * 6, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)])
    assert sorted(map(sorted, rings(two))) == [[0, 1, 2], [3, 4, 5]]
    assert (surroundings(two), plainness(two)) == (2, (6, 2)), "ends and bridge ends, each twice"
    hexagon = lab.ring([0] * 6)
    assert plainness(hexagon) == (6, 1)
    assert surroundings(lab.path([0, 1, 2, 3])) == 4


def test_plainness_ignores_the_order_of_nodes(lab: Any) -> None:
    for seed in range(5):
        graph = lab.random(9, seed, extra=2)
        assert plainness(graph.permute(np.random.default_rng(seed).permutation(9))) == plainness(graph)


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
    assert PRIORS["none"].scores([graph, graph], lab.space) == [0.0, 0.0]
    for call in (lambda: molecule_scores([graph], lab.space), lambda: usual_atoms(graph.x, lab.space)):
        with pytest.raises(ValueError, match="needs the features aromatic, atomic_number, hydrogens"):
            call()
