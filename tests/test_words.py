"""Numbers and their nouns in what commands print."""

from __future__ import annotations

import pytest

from jgleak.attacks.certificate import Certificate
from jgleak.audit.grid_table import audit_table
from jgleak.audit.store import _claim
from jgleak.cli.inverted import line


@pytest.mark.parametrize(("size", "words"), [(1, "1 graph or more"), (2, "2 graphs or more")])
def test_one_graph_is_no_graphs(size: int, words: str) -> None:
    certificate = Certificate("at_least_k", size, 6, False, 0.0, ())
    record = {"certificate": {"status": "at_least_k", "size": size}, "graphs": [{}], "exact": None, "file": "a"}
    assert f"; {words}; 1.0 s" in line(record | {"outcome": "found", "stop": "match", "seconds": 1.0})
    assert _claim(certificate).startswith(f"at least {words.removesuffix(' or more')} up to")


def test_the_sum_of_seconds_says_that_it_is_one() -> None:
    """The report's column is a mean, and is called so."""
    assert [str(column.header) for column in audit_table(()).columns][-1] == "seconds in all"
