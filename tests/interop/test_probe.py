"""What a model's forward calls its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jgleak.interop.probe import Probe, _arguments

PROBE = Probe("the rows", "the edges", "whose")


class Model:
    """A module with a forward and no layers; no torch is needed for its names."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward

    def modules(self) -> list[Any]:
        return []


def test_arguments_go_by_their_names_in_any_order() -> None:
    assert _arguments(Model(lambda edge_index, x, batch: None), PROBE) == (
        (),
        {"edge_index": "the edges", "x": "the rows", "batch": "whose"},
    )
    assert _arguments(Model(lambda atoms, edge_index: None), PROBE)[1] == {
        "atoms": "the rows",
        "edge_index": "the edges",
    }


@pytest.mark.parametrize(
    ("forward", "name"), [(lambda x, links: None, "links"), (lambda edge_index, atoms: None, "atoms")]
)
def test_a_name_that_is_not_known_is_named_beside_those_that_are(forward: Callable[..., Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"its forward needs {name!r}, a name that is not known") as error:
        _arguments(Model(forward), PROBE)
    said = str(error.value)
    assert all(f" {word}" in said for word in ("x, rows", "edge_index, edges", "batch,", "edge_attr,", "Rename it"))
