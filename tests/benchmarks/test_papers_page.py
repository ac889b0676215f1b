"""docs/papers.md: every table and figure of the papers, ours beside the printed number, and which is better."""

from __future__ import annotations

import re

import pytest

from benchmarks.papers import page
from benchmarks.papers.page import Number

ALL = {
    "grain": ("Table", range(1, 13), "Figure", ("1", "2", "3a", "3b", "4", "5", "6")),
    "glg": ("Table", range(1, 17), "Figure", range(1, 7)),
    "fedgig": ("Table", ("I", "II"), "Figure", range(1, 4)),
    "graphdlg": ("Table", range(1, 10), "Figure", range(1, 5)),
    "fedgnn": ("Table", range(1, 4), "Figure", range(1, 7)),
}
"""What the five papers have."""


def named(title: str) -> list[str]:
    """``Tables 8, 9`` as Table 8 and Table 9."""
    kind, numbers = title.split(" ", 1)
    return [f"{kind.removesuffix('s')} {number}" for number in numbers.split(", ")]


def test_every_table_and_figure_is_there_once() -> None:
    for paper in page.contents():
        tables, ones, figures, others = ALL[paper["name"]]
        wanted = [f"{tables} {n}" for n in ones] + [f"{figures} {n}" for n in others]
        found = [name for item in paper["item"] for name in named(item["name"])]
        assert sorted(found) == sorted(wanted), paper["name"]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (Number(0.9, 0.8, 1.0), "0.900"),
        (Number(0.9, 0.8, 1.0, 0.8), "0.900 (0.800) same"),
        (Number(0.9, 0.8, 1.0, 0.7), "0.900 (0.700) better"),
        (Number(0.5, 0.4, 0.6, 0.7), "0.500 (0.700) worse"),
        (Number(0.5, 0.4, 0.6, 0.7, error=True), "0.500 (0.700) better"),
        (Number(0.9, 0.8, 1.0, 0.7, error=True), "0.900 (0.700) worse"),
    ],
)
def test_better_is_outside_of_the_interval_and_less_for_errors(number: Number, shown: str) -> None:
    assert str(number) == shown


def test_a_table_has_its_command_and_either_numbers_or_the_reason() -> None:
    grain, glg = page.contents()[:2]
    items = {item["name"]: item for item in grain["item"]}
    text, lines = page.section("grain", items["Table 2"])
    assert "--rows tox21-gcn,tox21-gat,citeseer-gcn,citeseer-gat,pokec-gcn,pokec-gat --attacks grain,dlg,dlg-a," in text
    assert "| Tox21, GCN, `grain` | 0.790 (0.680) better |" in text
    assert [line.own for line in lines if line.title == "Tox21, GCN"] == [True, True, True, True, True, False]
    text, _ = page.section("grain", items["Table 8"])
    assert "`census` (BBBP, GCN). No file of BBBP" in text
    first, fifth = ([item for item in glg["item"] if item["name"] == name][0] for name in ("Figure 1", "Table 5"))
    assert "AP" not in page.section("glg", fifth).text, "the paper's is not of edges"
    assert re.search(r"Figure 1.*\n\nNot run: ", page.section("glg", first).text)


def test_sizes_are_pooled_over_what_was_run() -> None:
    (third,) = [item for item in page.contents()[0]["item"] if item["name"] == "Table 3"]
    grain, census = page.section("grain", third).lines
    assert list(grain.numbers) == ["exact, <=15 nodes", "exact, 16-25 nodes", "exact, >=26 nodes"]
    assert grain.numbers["exact, >=26 nodes"].printed == pytest.approx(0.051)
    assert census.numbers["exact, <=15 nodes"].mean > grain.numbers["exact, <=15 nodes"].mean
