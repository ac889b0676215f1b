"""Lists of a client's graphs after training on each of them again."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.batches import joint
from jgleak.attacks.census.batches import trained_again as module
from jgleak.attacks.census.batches.trained_again import of_trained, trained_again
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import MATCH
from jgleak.federated import LocalTraining, fedavg
from jgleak.graph import Graph
from tests.clocks import HELD


def listed(*graphs: Graph) -> Reconstruction:
    return Reconstruction(graphs, 0.0, "match")


@pytest.mark.parametrize("seconds", [1e6, 1e-9])
def test_only_graphs_stay_that_return_the_update(lab: Any, seconds: float) -> None:
    """A graph in another order of nodes stays; one with other neighbours, or another label, goes, also from the front.
    Where no time is left the first graphs stay alone."""
    first, second = lab.path([0, 1, 1, 2, 0], y=1), lab.ring([1, 3, 2, 0], y=0)
    model = lab.model()
    local = LocalTraining(0.05, 2, loader=1)
    seen = fedavg(model, lab.params(model), [first, second], lab.space, loss="bce", local=local, key=jax.random.key(0))
    wrong, turned = lab.path([0, 1, 2, 1, 0], y=1), first.permute(np.arange(first.n)[::-1])
    lists = [listed(wrong, turned, first), listed(second, dataclasses.replace(second, y=1))]
    found, far = trained_again(seen, lab.space, lists, [first, second], Budget(time_limit=seconds).start())
    assert far <= MATCH
    assert [len(answer.graphs) for answer in found] == [2, 1]
    assert not any(graph.isomorphic(wrong) for graph in found[0].graphs) and found[1].graphs == (second,)


def test_firsts_that_fit_with_each_other_alone_stay_in_front(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list has a graph that fits beside the other's first one, and these two do not fit together. Of a long list
    the first graphs are trained."""
    first, second, other, more = (lab.path(colours) for colours in ([0, 1], [1, 2], [2, 3], [3, 0]))
    fitting, asked = [(first, second), (other, second), (first, more)], list[tuple[Graph, ...]]()

    def replayed(seen: Any, space: Any, graphs: Any) -> float:
        asked.append(tuple(graphs))
        return 0.0 if tuple(graphs) in fitting else 1.0

    monkeypatch.setattr(module, "replayed", replayed)
    monkeypatch.setattr(module, "LISTED", 2)
    clock = HELD
    lists = [listed(other, first, more), listed(more, second)]
    seen = lab.observe(lab.model(), first)
    found, far = trained_again(seen, lab.space, lists, [first, second], clock)
    assert far == 0.0 and asked == [(other, second), (first, more), (other, more), (first, second)]
    assert [answer.graphs for answer in found] == [(first, other), (second, more)]
    asked.clear()
    late = module._kept(seen, lab.space, lists[0], [first, second], 0, Clock(0.0, 0.0))
    assert late.graphs == (first,) and not asked, "without time no other graph is trained"


def test_a_list_is_as_far_as_its_farthest_graph(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the search claimed of distances in another gradient; a batch is as far as any that is listed."""
    first, second, near, far = (lab.path(colours) for colours in ([0, 1], [1, 2], [2, 3], [3, 0]))
    offs = {(first, second): 1e-7, (near, second): 0.5 * MATCH, (far, second): 2.0 * MATCH}
    monkeypatch.setattr(module, "replayed", lambda _, __, graphs: offs[tuple(graphs)])
    made = Certificate("k_graphs", 3, 9, True, 1e-3, ("said",))
    lists = [dataclasses.replace(listed(*some), certificate=made) for some in ((first, near, far), (second,))]
    seen = lab.observe(lab.model(), first)
    found, off = trained_again(seen, lab.space, lists, [first, second], HELD)
    assert off == 1e-7 and found[0].graphs == (first, near)
    assert [answer.certificate.residual for answer in found if answer.certificate] == [0.5 * MATCH, 0.0]
    assert of_trained(found, off).residual == 0.5 * MATCH


def test_each_graph_is_trained_in_its_own_place(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the first graphs of the other lists; of every list the largest distance counts, and of too few none."""
    a, b, c, d, e = (lab.path(colours) for colours in ([0, 1], [1, 2], [2, 3], [3, 0], [0, 2]))
    asked = list[tuple[Graph, ...]]()

    def replayed(seen: Any, space: Any, graphs: Any) -> float:
        asked.append(tuple(graphs))
        return len(asked) / 8

    monkeypatch.setattr(joint, "replayed", replayed)
    local = LocalTraining(0.1, 2, loader=1)
    seen = dataclasses.replace(lab.observe(lab.model(), a), protocol="fedavg", local=local, batch_size=3)
    found = joint.together(seen, lab.space, [(a, b), (c,), (d, e)])
    assert asked == [(a, c, d), (b, c, d), (a, c, d), (a, c, d), (a, c, e), (a, c, d)]
    assert (found.furthest, found.most) == ([2 / 8, 3 / 8, 5 / 8], MATCH) and "7.5e-01" in found.text
    few = joint.together(seen, lab.space, [(a, b), (c,)])
    assert few.furthest == [np.inf] * 2 and "others are missing" in few.text and len(asked) == 6


def test_a_batch_that_was_trained_is_one_of_those_that_were(lab: Any) -> None:
    """Beside the first graphs one of three others, in two lists of 2 and 3, which have six choices."""
    rings = [lab.ring([0] * n) for n in (3, 4, 5, 6, 7)]
    answers = [
        Reconstruction(
            tuple(part), 0.0, "match", certificate=Certificate("k_graphs", len(part), 9, True, 1e-7, ("said",))
        )
        for part in (rings[:2], rings[2:])
    ]
    certificate = of_trained(answers, 1e-6)
    assert (certificate.status, certificate.size, certificate.residual) == ("k_graphs", 4, 1e-6)
    assert of_trained([answers[0]], 1e-6).size == 2
