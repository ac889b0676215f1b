"""1-hop blocks searched beside those that were found: nothing of the true graph is missed, and much less looked at."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.span import onehop
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import total
from jgleak.attacks.span.filter import FoundBlocks
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.attacks.span.settings import SpanLimits
from jgleak.federated import Observation

from .molecules import FOREVER, seen, true_blocks

ALL = Budget(time_limit=1e6)


FEW = SpanLimits(whole_candidates=1)
"""Only centres of one neighbour are searched in full."""


def search(observation: Observation, nodes: Nodes, check: SpanCheck, **more: Any) -> Blocks:
    return onehop.one_hop(observation.model, observation.params, nodes, [check], clock=FOREVER, budget=ALL, **more)


def named(blocks: Blocks) -> set[tuple[int, tuple[int, ...]]]:
    return set(zip(blocks.roots.tolist(), blocks.neighbours, strict=True))


@pytest.mark.parametrize(
    "smiles", ["CC(C)Cc1ccc(cc1)C(C)C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CC(=O)Oc1ccccc1C(=O)O"]
)
def test_beside_what_was_found_nothing_is_missed(smiles: str) -> None:
    graph, observation, nodes, check = seen(smiles)
    whole = search(observation, nodes, check)
    assert whole.condition is None and true_blocks(graph, nodes) <= named(whole)
    beside = search(observation, nodes, check, limits=FEW)
    assert beside.condition == "some node has fewer than 2 neighbours"
    assert true_blocks(graph, nodes) <= named(beside) <= named(whole)
    assert beside.checked < whole.checked and not beside.unsearched
    assert named(beside) == named(search(observation, nodes, check, limits=FEW)), "deterministic"


def test_a_graph_without_a_searched_node_breaks_the_condition() -> None:
    graph, observation, nodes, check = seen("c1ccc2ccccc2c1")
    assert graph.degree.min() == 2
    beside = search(observation, nodes, check, limits=FEW)
    assert beside.size == 0 and beside.condition == "some node has fewer than 2 neighbours"


def test_what_the_clock_left_out_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock ends after the cheap centres: the neighbourhoods still to be looked at must not count as looked at."""
    _, observation, nodes, check = seen("CC(C)Cc1ccc(cc1)C(C)C(=O)O")
    beside, ended = onehop._beside, Budget(time_limit=1e-9).start()

    def late(searching: Any, *arguments: Any) -> list[FoundBlocks]:
        return beside(searching._replace(clock=ended), *arguments)

    monkeypatch.setattr(onehop, "_beside", late)
    assert search(observation, nodes, check, limits=FEW).unsearched


@pytest.mark.long
def test_one_sided_blocks_are_kept_where_true_ones_fail() -> None:
    """A singular adjacency pushes some true rows out of the span: their neighbours' blocks have no partner."""
    graph, observation, nodes, check = seen("CNC(=O)ON=CC(C)(C)S(C)=O")
    mutual, all_of_them = (named(search(observation, nodes, check, mutual=m)) for m in (True, False))
    true = true_blocks(graph, nodes)
    assert len(mutual & true) < len(all_of_them & true) < len(true)


def test_likely_neighbourhoods_hold_a_node_that_holds_the_centre() -> None:
    _, observation, nodes, check = seen("CC(=O)Oc1ccccc1C(=O)O")
    blocks = search(observation, nodes, check)
    requests = onehop.likely(nodes, blocks)
    beside = requests[: -nodes.degrees.size]
    assert [centre for centre, _ in requests[-nodes.degrees.size :]] == list(range(nodes.degrees.size))
    pairs = {(int(t), root) for root, ts in named(blocks) for t in ts}
    assert {(centre, int(slots[0].options[0])) for centre, slots in beside} == pairs
    for centre, slots in beside:
        assert sum(slot.count for slot in slots) == nodes.degrees[centre]
        assert total(slots) <= total(requests[centre - nodes.degrees.size][1])
    empty = dataclasses.replace(blocks.keep(np.zeros(blocks.size, bool)))
    assert len(onehop.likely(nodes, empty)) == nodes.degrees.size
