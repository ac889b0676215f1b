"""What ``jgleak invert`` prints beside an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from jgleak import Reconstruction
from jgleak.audit.outcome import NOTHING, Outcome
from jgleak.cli.inverted import show
from jgleak.datasets import load


@pytest.mark.parametrize("graphs", [0, 1])
def test_notes_stand_beside_what_was_found_and_beside_nothing(graphs: int) -> None:
    data = load("embedded")
    found = Reconstruction(tuple(data.graphs[:graphs]), None, "match", info={"notes": ["one was not used"]})
    one: Any = SimpleNamespace(
        found=found,
        seconds=(1.0, 0.0),
        worth=Outcome(NOTHING, "", ()),
        why=[],
        beside=None,
        shown=found.graphs,
        molecules=[None] * graphs,
        space=data.space,
    )
    console = Console(record=True, width=200)
    show(one, console, verbose=False)
    assert console.export_text().count("one was not used\n") == 1
