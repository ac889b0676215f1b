"""What ``jgleak invert`` prints beside an answer."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from jgleak import Reconstruction
from jgleak.audit.inversion import Beside
from jgleak.audit.outcome import NOTHING, Outcome
from jgleak.cli.inverted import show
from jgleak.datasets import load
from jgleak.graph import Graph

DATA = load("embedded")


def printed(*graphs: Graph, beside: Beside | None = None) -> str:
    one: Any = SimpleNamespace(
        found=Reconstruction(graphs, None, "match", info={"notes": ["one was not used"]}),
        seconds=(1.0, 0.0),
        worth=Outcome(NOTHING, "", ()),
        why=[],
        beside=beside,
        shown=graphs,
        molecules=[None] * len(graphs),
        space=DATA.space,
    )
    console = Console(record=True, width=200)
    show(one, console, verbose=False)
    return console.export_text()


@pytest.mark.parametrize("graphs", [0, 1])
def test_notes_stand_beside_what_was_found_and_beside_nothing(graphs: int) -> None:
    assert printed(*DATA.graphs[:graphs]).count("one was not used\n") == 1


@pytest.mark.parametrize(("y", "text"), [(1, "label 1\n"), (None, "label unknown\n")])
def test_a_label_that_the_update_does_not_show_is_called_unknown(y: int | None, text: str) -> None:
    title = printed(dataclasses.replace(DATA.graphs[0], y=y)).splitlines(keepends=True)[1]
    assert title.rstrip().endswith(text.strip())


@pytest.mark.parametrize(
    ("label", "text"), [(None, "exact\n"), (True, "exact, the label too\n"), (False, "exact, but the label is wrong\n")]
)
def test_the_truth_tells_the_label_apart_from_the_graph(label: bool | None, text: str) -> None:
    assert f"beside the truth: {text}" in printed(DATA.graphs[0], beside=Beside(True, True, 1.0, label))
