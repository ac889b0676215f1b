"""Which feature vectors a search begins with, where a prior names those that are usual."""

from __future__ import annotations

import numpy as np

from jgleak.attacks.census.prior import usual_atoms
from jgleak.attacks.census.starts import Start
from jgleak.attacks.span.hops import Nodes
from jgleak.datasets.molecules import MOLECULE_SPACE, molecule_graph
from jgleak.federated import Knowledge


def start(codes: np.ndarray, degrees: np.ndarray) -> Start:
    return Start(Nodes(codes, MOLECULE_SPACE.encode(codes), degrees, certain=True), ("before",), complete=True)


def test_usual_vectors_are_a_part_that_says_so() -> None:
    """Ethanol's atoms, and the first of them with far too many hydrogens before and behind."""
    codes = molecule_graph("CCO").x
    strange = codes[:1].copy()
    strange[:, MOLECULE_SPACE.index("hydrogens")] = 4
    every, degrees = np.r_[strange, codes, strange], np.array([1, 1, 2, 1, 3])
    usual = usual_atoms(every, MOLECULE_SPACE)
    assert usual.tolist() == [False, True, True, True, False]
    known, whole = Knowledge(MOLECULE_SPACE), start(every, degrees)
    part = whole.usual(known)
    assert part is not None and not part.complete and not part.nodes.certain
    assert part.conditions == ("none of 2 unusual feature vectors (of 5) occurs", "before")
    assert np.array_equal(part.nodes.codes, codes) and np.array_equal(part.nodes.rows, MOLECULE_SPACE.encode(codes))
    assert part.nodes.degrees.tolist() == [1, 2, 1]
    assert (part.attempts, part.some_degrees) == (whole.attempts, whole.some_degrees), "nothing is left out of degrees"
    assert part.usual(known) is None, "all are usual"
    assert start(every[[0, 4]], degrees[[0, 4]]).usual(known) is None, "none is"
    assert whole.usual(Knowledge(MOLECULE_SPACE, prior="plain")) is None, "the prior knows none"
