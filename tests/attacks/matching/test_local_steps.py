"""Guesses that make the client's local steps: their update is the client's, and their search finds more."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.matching.dlg import IDLG
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.problem import pose
from jgleak.attacks.matching.recipe import hard_distance
from jgleak.federated import Knowledge, LocalTraining, fedavg
from jgleak.graph import Graph, GraphBatch

WAYS = [LocalTraining(0.3, 3), LocalTraining(0.1, 3, 0.9, 0.05), LocalTraining(0.3, 3, loader=2)]


def guess_of(lab: Any, graphs: list[Graph], classes: int) -> Guess:
    """The client itself, as a guess."""
    batch = GraphBatch.from_graphs(graphs, lab.space)
    labels = np.eye(classes, dtype=np.float32)[np.asarray(batch.labels)]
    return Guess(*map(jax.numpy.asarray, (batch.nodes, batch.adjacency, labels)))


@pytest.mark.parametrize("local", WAYS)
@pytest.mark.parametrize("frozen", [(), ("layers_0",)])
def test_the_client_itself_has_its_update(lab: Any, local: LocalTraining, frozen: tuple[str, ...]) -> None:
    """Through momentum and decay, over two graphs; taken for one gradient it is far."""
    graphs = [lab.ring([0, 1, 2, 0, 3]), lab.path([0, 1, 1, 2])]
    model = lab.model(hidden=16).clone(frozen=frozen)
    seen = fedavg(model, lab.params(lab.model(hidden=16)), graphs, lab.space, loss="ce", local=local)
    known, far = Knowledge(lab.space, n=5, sizes=(5, 4)), {}
    for way in ("steps", "none"):
        setting, problem = pose(seen, known, infer=False, replay=way)
        far[way] = float(jax.jit(partial(hard_distance, setting))(problem, guess_of(lab, graphs, model.outputs)))
    assert far["steps"] < 1e-5 < 1e-3 < far["none"]


def test_steps_that_see_some_graphs_each_and_very_many_are_taken_for_one_gradient(lab: Any) -> None:
    graphs, model = [lab.path([0, 1]), lab.path([1, 2])], lab.model(hidden=8)
    seen = fedavg(model, lab.params(model), graphs, lab.space, loss="ce", local=LocalTraining(0.1, 2))
    known = Knowledge(lab.space, n=2)
    for local in (LocalTraining(0.1, 2, loader=1), LocalTraining(0.1, 1000), LocalTraining(0.1)):
        assert pose(dataclasses.replace(seen, local=local), known, infer=False)[0].local is None
    assert pose(seen, known, infer=False)[0].local == seen.local
    assert pose(seen, known, infer=False, replay="none")[0].local is None


@pytest.mark.long
def test_a_search_compares_what_the_option_says(lab: Any) -> None:
    """Whose features and edges are known: what is left is the reading of the update."""
    graph, model = lab.path([0, 1, 2]), lab.model(hidden=16)
    seen = fedavg(model, lab.params(model), [graph], lab.space, loss="ce", local=WAYS[0])
    known = Knowledge(lab.space, n=3, features=graph.x, adjacency=graph.adjacency)
    run, found = {"key": jax.random.key(0), "budget": Budget(time_limit=60)}, {}
    for way in ("steps", "none"):
        found[way] = IDLG.with_options({"replay": way, "steps": "1"})(seen, known, **run).info["matching_loss"]
    assert found["steps"] < 1e-10 < 1e-6 < found["none"]
