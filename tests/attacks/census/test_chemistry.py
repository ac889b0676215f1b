"""What the molecule prior knows of atoms and rings, case by case."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jgleak.attacks.census.prior import (
    COVER,
    EPOXIDE,
    MISMATCH,
    MISPLACED,
    RING_PENALTY,
    STRAINED,
    _bond_orders,
    _is_usual,
    _mismatches,
    _ring_score,
    _spare,
    molecule_scores,
    usual_atoms,
)
from jgleak.datasets import embedded
from jgleak.datasets.molecules import molecule_graph

SPACE = embedded().space


@pytest.mark.parametrize(
    ("atom", "usual"),
    [
        # number, charge, hydrogens, aromatic, degree, hybridisation, chiral
        ((6, 0, 3, 0, 1, "SP3", False), True),
        ((6, 0, 2, 0, 1, "SP3", False), False),  # a valence is left, which sp3 carbon has not
        ((6, 0, 4, 0, 1, "SP3", False), False),  # five bonds
        ((6, 0, 2, 0, 1, "SP2", False), True),
        ((6, 0, 3, 0, 1, "SP2", False), False),  # carbon is not flat without a double bond
        ((7, 0, 2, 0, 1, "SP2", False), True),  # nitrogen is
        ((8, 0, 1, 0, 1, "SP2", False), True),
        ((7, -1, 1, 0, 1, "SP2", False), True),  # with a charge, the element of as many electrons counts
        ((7, 1, 3, 0, 1, "SP2", False), False),
        ((6, 0, 1, 0, 1, "SP", False), True),
        ((6, 0, 2, 0, 1, "SP", False), True),
        ((6, 0, 3, 0, 1, "SP", False), False),
        ((6, 0, 0, 0, 1, "SP", False), False),
        ((1, 0, 0, 0, 1, "S", False), True),
        ((6, 0, 2, 0, 1, "S", False), True),
        ((6, 0, 1, 0, 0, "S", False), False),
        ((6, 0, 1, 0, 0, "UNSPECIFIED", False), True),  # nothing is stated that could contradict
        ((16, 0, 1, 0, 2, "SP3", False), True),  # sulphur has room for more
        ((16, 0, 0, 0, 1, "SP3", False), False),  # but not at an end
        ((16, 0, 1, 0, 1, "SP3", False), True),
        ((7, 0, 0, 0, 2, "SP3", False), False),
        ((6, 0, 1, 1, 2, "SP2", False), True),
        ((6, 0, 2, 1, 1, "SP2", False), False),  # an end of no ring
        ((7, 0, 1, 1, 2, "SP3", False), False),
        ((6, 0, 1, 0, 3, "SP3", True), True),
        ((15, 0, 0, 0, 3, "SP3", True), True),
        ((7, 0, 1, 0, 2, "SP3", True), True),
        ((16, 0, 0, 0, 2, "SP3", True), False),  # two bonds have no hand
        ((6, 0, 1, 0, 2, "SP2", True), False),
        ((7, 1, 4, 0, 0, "SP3", False), True),  # ammonium has carbon's valence
        ((7, 0, 4, 0, 0, "SP3", False), False),
        ((8, -1, 0, 0, 1, "SP3", False), True),
        ((11, 0, 0, 0, 1, "S", False), True),  # a metal has any valence,
        ((11, 1, 0, 0, 1, "S", False), False),  # its ion none
        ((26, 0, 0, 0, 6, "SP3D2", False), True),
        ((26, 0, 1, 0, 2, "SP3", False), False),  # no hydrogen
        ((26, 0, 0, 1, 2, "SP2", False), False),  # and is not aromatic
        ((118, 0, 0, 0, 0, "S", False), True),
        ((119, 1, 0, 0, 0, "S", False), False),
        ((1, 1, 0, 0, 0, "S", False), False),  # no electron is left
        ((2, 1, 0, 0, 1, "S", False), True),
        ((118, -1, 0, 0, 0, "S", False), False),
        ((6, 0, 9, 1, -1, "SP", True), True),  # all are, where no degree is stated
        ((6, 0, 4, 0, 0, "SP3", False), True),
    ],
)
def test_atoms_are_usual_by_their_valence(atom: tuple[int, int, int, int, int, str, bool], usual: bool) -> None:
    assert _is_usual(*atom) is usual


def test_atoms_whose_features_say_less_are_usual_by_what_they_say() -> None:
    """Without charges they are neutral; without degrees all are usual; what is not stated contradicts nothing."""
    ammonium, ethane = molecule_graph("[NH4+]"), molecule_graph("CC")
    codes = np.r_[ammonium.x, ethane.x]
    assert usual_atoms(codes, SPACE).tolist() == [True, True, True]
    every = [True, True, True]
    for name, wanted in (("formal_charge", [False, True, True]), ("degree", every), ("hybridization", every)):
        kept = [g for g, feature in enumerate(SPACE.features) if feature.name != name]
        assert usual_atoms(codes[:, kept], SPACE.without(name)).tolist() == wanted


@pytest.mark.parametrize(
    ("number", "charge", "used", "spare"),
    [
        (6, 0, 3, 1),
        (6, 0, 4, 0),
        (6, 0, 5, None),
        (16, 0, 3, 1),
        (16, 0, 2, 0),
        (7, 1, 3, 1),
        (1, 1, 0, None),
        (118, -1, 0, None),
    ],
)
def test_the_valence_that_is_left_is_that_of_the_smallest_that_suffices(
    number: int, charge: int, used: int, spare: int | None
) -> None:
    assert _spare(number, charge, used) == spare


@pytest.mark.parametrize(
    ("smiles", "penalty"),
    [
        ("CCO", 0.0),
        ("C1CCCCC1", RING_PENALTY[6]),
        ("C1CCCC1", RING_PENALTY[5]),
        ("C1CCCCCC1", RING_PENALTY[7]),
        ("C1CCC1", RING_PENALTY[4]),
        ("C1CC1", RING_PENALTY[3]),
        ("C1CO1", EPOXIDE),
        ("C1NO1", RING_PENALTY[3]),
        ("C1CCCCCCC1", 2.3),
        ("C1CCCCCCCCC1", 2.5),
        ("c1ccccc1", 0.0),
        ("c1ccoc1", RING_PENALTY[5]),
        ("c1ccc2cccc2cc1", RING_PENALTY[5] + RING_PENALTY[7]),
        ("c1ccc2c(c1)CC2", RING_PENALTY[4] + STRAINED),
        ("c1ccc2c(c1)CCC2", RING_PENALTY[5]),
        ("C1CCCCC1C1CC1", RING_PENALTY[3]),
    ],
)
def test_rings_cost_what_their_sizes_do(smiles: str, penalty: float) -> None:
    assert _ring_score(molecule_graph(smiles), SPACE) == pytest.approx(penalty)


def test_an_aromatic_atom_outside_every_aromatic_ring_is_misplaced() -> None:
    """Each counts; a ring of eight is none, and one with an atom that is not aromatic is none either."""
    column, aromatic = SPACE.index("aromatic"), molecule_graph("c1ccccc1")
    for smiles, atoms, wanted in (
        ("CCC", [1], 1),
        ("C1CCC1", [0], 1),
        ("C1CCCCCCC1", range(8), 8),
        ("C1CCCCC1", range(5), 5),
    ):
        graph = molecule_graph(smiles)
        codes = graph.x.copy()
        codes[list(atoms), column] = aromatic.x[0, column]
        found = _ring_score(dataclasses.replace(graph, x=codes), SPACE) - _ring_score(graph, SPACE)
        assert found == pytest.approx(MISPLACED * wanted)


@pytest.mark.parametrize(
    "smiles", ["C=CC=O", "CC#N", "O=C=O", "c1ccncc1", "CS(=O)C", "C[N+](=O)[O-]", "c1ccc2ccccc2c1", "[C]#[C]"]
)
def test_molecules_as_they_are_have_no_mismatch_and_others_one_an_atom(smiles: str) -> None:
    graph = molecule_graph(smiles)
    assert _mismatches(graph, SPACE) == 0
    less = graph.x.copy()
    hydrogens = SPACE.index("hydrogens")
    place = int(np.argmax(less[:, hydrogens]))
    if less[place, hydrogens] > 0:
        less[place, hydrogens] -= 1  # a valence that nothing fills
        assert _mismatches(dataclasses.replace(graph, x=less), SPACE) >= 1


def test_extra_bonds_fill_what_is_missing_as_far_as_they_can() -> None:
    """Butadiene, carbon dioxide, and three atoms in a row that lack one each."""
    for smiles, missing, wanted, left in (
        ("CCCC", (1, 1, 1, 1), {(0, 1): 1, (1, 2): 0, (2, 3): 1}, 0),
        ("CCC", (1, 2, 1), {(0, 1): 1, (1, 2): 1}, 0),
        ("CC", (2, 2), {(0, 1): 2}, 0),
        ("CC", (2, 1), {(0, 1): 1}, 1),
        ("CCC", (1, 0, 1), {(0, 1): 0, (1, 2): 0}, 2),
    ):
        assert _bond_orders(molecule_graph(smiles), missing) == (wanted, left)


def test_scores_add_rings_mismatches_and_covers() -> None:
    """Twice the size of the smallest cheap graph of a set costs one cover; what is not looked at has every mismatch."""
    small, large, three = (molecule_graph(smiles) for smiles in ("C1CCCCC1", "CCCCCCCCCCCC", "C1CC1C"))
    assert molecule_scores([small, large], SPACE) == pytest.approx([0.0, COVER])
    assert molecule_scores([three, large], SPACE) == pytest.approx([RING_PENALTY[3], 0.0]), "its ring is not cheap"
    assert molecule_scores([large, small], SPACE, 1) == pytest.approx([COVER, 6 * MISMATCH])
    assert molecule_scores([large, small], SPACE, 0) == pytest.approx([12 * MISMATCH + COVER, 6 * MISMATCH])
