"""Options that take several names."""

from __future__ import annotations

import pytest
import typer

from benchmarks.lib.options import chosen


def test_names_come_in_the_order_that_is_asked_for() -> None:
    assert chosen("c, a,", ["a", "b", "c"], "--rows") == ["c", "a"]
    assert chosen(None, ["a", "b"], "--rows") == ["a", "b"] and chosen("", ["a"], "--rows") == []


def test_an_unknown_name_is_a_mistake() -> None:
    with pytest.raises(typer.BadParameter, match="no 'd'; choose of a, b"):
        chosen("a,d", ["a", "b"], "--rows")
