"""Numbers and their nouns in what commands print."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from jgleak.attacks.certificate import Certificate
from jgleak.audit.grid_table import Name, _table, audit_table
from jgleak.audit.store import _claim
from jgleak.cli.inverted import line
from jgleak.datasets import LoadReport
from jgleak.plural import counted


@pytest.mark.parametrize(("size", "words"), [(1, "1 graph or more"), (2, "2 graphs or more")])
def test_one_graph_is_no_graphs(size: int, words: str) -> None:
    certificate = Certificate("at_least_k", size, 6, False, 0.0, ())
    record = {"certificate": {"status": "at_least_k", "size": size}, "graphs": [{}], "exact": None, "file": "a"}
    record |= {"members": []}
    assert f"; {words}; 1.0 s" in line(record | {"outcome": "found", "stop": "match", "seconds": 1.0})
    assert _claim(certificate).startswith(f"at least {words.removesuffix(' or more')} up to")


def test_certificates_of_some_graphs_of_a_batch_are_counted_on_its_line() -> None:
    members = [{"certificate": status and {"status": status}} for status in ("unique", "k_graphs", None)]
    record = {"certificate": None, "graphs": [{}] * 3, "exact": None, "file": "a", "batch_size": 4, "outcome": "part"}
    record |= {"stop": "time", "seconds": 1.0}
    assert line(record | {"members": members}) == "a: part; 1 of 4 certified unique by themselves; 1.0 s"
    assert line(record | {"members": members[1:]}) == "a: part; no certificate; 1.0 s"


def test_the_sum_of_seconds_says_that_it_is_one() -> None:
    """The report's column is a mean, and is called so."""
    assert [str(column.header) for column in audit_table(()).columns][-1] == "seconds\nin all"


def test_a_number_has_its_noun() -> None:
    assert [counted(n, "true row") for n in (0, 1, 1200)] == ["0 true rows", "1 true row", "1,200 true rows"]


def test_a_report_of_rows_says_what_was_left_out() -> None:
    assert str(LoadReport(72, 4, {"not drawn": 68})) == "4 of 72 rows (left out: 68 not drawn)"


def test_names_of_an_audit_are_not_cut_at_80_columns() -> None:
    long = "clip:0.1+gaussian:1e-6+prune:0.99+quantise:8"
    rows = {("tox21", "GCN, width 64", "census", one): [40, 0.5, 0.5, 0.5, 0.5, "1234.5"] for one in (long, "none")}
    console = Console(width=80, file=io.StringIO())
    with console.capture() as said:
        console.print(_table(rows, ("units", "exact", "gsm0", "gsm1", "gsm2", "seconds in all")))
    lines = [line.split() for line in said.get().splitlines()]
    assert "".join(line[0] for line in lines[4:] if line and line[0] != "none") == long


def test_names_of_an_audit_go_on_after_a_colon() -> None:
    """Not in the midst of a number, where there is any other place."""
    names, console = ("gaussian:1e-3+prune:0.9", "a name of words", "longestword", "mean-adjacency"), Console(width=10)
    with console.capture() as said:
        console.print(*map(Name, names))
    lines = [line.rstrip() for line in said.get().splitlines()]
    assert lines == [
        *("gaussian:", "1e-3+", "prune:0.9"),
        "a name of",
        "words",
        "longestwor",
        "d",
        "mean-",
        "adjacency",
    ]
