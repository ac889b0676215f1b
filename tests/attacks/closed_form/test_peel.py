"""What is said of features and edges that a model shows in part, of models with one layer and of doubtful answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jgleak.attacks.closed_form import peel
from jgleak.attacks.closed_form.gcn_inversion import Inverted
from jgleak.graph import Graph
from tests.attacks.closed_form.test_closed_form import attack, error, model_of, observe, space_of

PATH = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])


@pytest.mark.parametrize(
    ("rank", "misfit", "doubt", "note"),
    [
        (5, 1e-4, 1e-4, "exact"),
        (5, 1e-4, 2e-4, "partial: rounding or noise hides some of 5 of 5 nodes; expected RNMSE 2.0e-04"),
        (5, 2e-4, 0.0, "partial: its gradients are 2.0e-04 from the observed; was the update changed?"),
        (4, 2e-4, 0.0, "failed: the gradients have rank 4, and the edges pass 5 directions of 5 nodes on"),
        (4, 1e-4, 2e-4, "partial: the gradients have rank 4, and the edges pass 5 directions of 5 nodes on; expected"),
    ],
)
def test_what_is_said_of_a_gcn_follows_from_its_misfit_and_its_doubt(
    rank: int, misfit: float, doubt: float, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the tolerance both are taken for rounding."""
    rng, space = np.random.default_rng(0), space_of("gaussian", 20)
    graph = Graph(rng.normal(size=(5, 20)), np.vstack([PATH, [[0, 4]]]), 1)
    seen = observe(model_of("gcn", "graph", 20, layers=1), graph, space)

    def found(*_: Any) -> Inverted:
        return Inverted(np.asarray(graph.x, np.float64), np.full(5, doubt), misfit, rank)

    monkeypatch.setattr(peel, "inverted", found)
    assert attack(seen, space, adjacency=graph.adjacency).info["features"].startswith(note)


def test_features_show_where_the_edges_of_one_layer_do_not() -> None:
    """Of a path that reads the same from both ends; the graph then has no edges."""
    rng, space = np.random.default_rng(4), space_of("gaussian", 20)
    graph = Graph(rng.normal(size=(5, 20))[[0, 1, 2, 1, 0]], PATH, 0)
    seen = observe(model_of("sage", "graph", 20, layers=1), graph, space)
    found = attack(seen, space)
    assert found.info["features"] == "exact" and "which whose does not show" in found.info["adjacency"]
    assert found.best is not None and found.best.edges.shape == (0, 2) and error(found, graph, space) < 1e-4
    told = attack(seen, space, features=graph.x)
    assert told.best is None and told.info["adjacency"].endswith("the proposition needs full row rank 5")
