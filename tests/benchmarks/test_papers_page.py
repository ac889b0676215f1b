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
        (Number(0.9998, 0.9996, 0.9999, 1.0), "1.000 (1.000) same"),
        (Number(0.9, 0.9, 0.9, 0.7), "0.900 (0.700) better"),
        (Number(0.9, 0.9, 0.9, 0.7, single=True), "0.900 (0.700)"),
    ],
)
def test_better_is_outside_of_the_interval_and_less_for_errors(number: Number, shown: str) -> None:
    """Equal as they are shown is the same; a single run has no verdict."""
    assert str(number) == shown


@pytest.mark.parametrize(
    ("graphs", "verdict"),
    [((100, 100), "same"), ((1000, 100), "better"), ((100, 1000), "better"), ((1000, 20), "same")],
)
def test_shares_of_two_counts_differ_by_fishers_test(graphs: tuple[int, int], verdict: str) -> None:
    """79 of 100 beside 68 of 100 have p = .11, though .68 lies outside of the interval of 79 of 100."""
    assert Number(0.79, 0.70, 0.865, 0.68, graphs=graphs).verdict == verdict
    assert Number(0.79, 0.70, 0.865, 0.68).verdict == "better"


def test_a_table_has_its_command_and_either_numbers_or_the_reason() -> None:
    grain, glg = page.contents()[:2]
    items = {item["name"]: item for item in grain["item"]}
    text, lines = page.section("grain", items["Table 2"])
    assert "--rows tox21-gcn,tox21-gat,citeseer-gcn,citeseer-gat,pokec-gcn,pokec-gat --attacks grain,dlg,dlg-a," in text
    assert "| Tox21, GCN, `grain` | 0.790 (0.680) same | 0.973 (0.869) better |" in text
    whose = [line.whose for line in lines if line.title == "Tox21, GCN"]
    assert whose == ["own", "rival", "rival", "rival", "rival", "ours"]
    rivals = "`dlg`, `dlg-a`, `tableak`, `tableak-a`"
    some = "tox21-gat, citeseer-gcn, citeseer-gat, pokec-gcn, pokec-gat"
    assert f"Options of some records: `--graphs 20` ({rivals}: {some}); `--time-limit" in text
    assert f"Options of some records: `--graphs 20` ({rivals})." in page.section("grain", items["Table 8"]).text
    text, _ = page.section("grain", items["Table 8"])
    assert "`census` (BBBP, GCN). No file of BBBP" in text
    first, fifth = ([item for item in glg["item"] if item["name"] == name][0] for name in ("Figure 1", "Table 5"))
    text, lines = page.section("glg", fifth)
    assert "| AP |" not in text, "the paper's is a precision"
    whose = {line.attack: line.whose for line in lines}
    assert whose == {**dict.fromkeys(whose, "ours"), "graph-printed": "own", "graph-printed-free": "own"}
    assert re.search(r"Figure 1.*\n\nNot run: ", page.section("glg", first).text)


@pytest.mark.parametrize(
    ("paper", "table", "whose"),
    [
        ("fedgig", "Table I", {"fedgig": "own", "dlg": "rival", "idlg+bp": "rival", "census": "ours"}),
        ("graphdlg", "Table 1", {"graphdlg": "own", "gra-gfa": "rival", "file-habit": "ours"}),
        ("graphdlg", "Table 9", {"graphdlg": "own"}),
        ("glg", "Table 4", {"node-2-printed-free": "own", "node-2-free": "ours", "closed-form": "ours"}),
        ("glg", "Table 7", {"graph-printed": "own", "graph-printed-free": "own", "graph-cosine": "ours"}),
    ],
)
def test_numbers_are_counted_for_those_whose_they_are(paper: str, table: str, whose: dict[str, str]) -> None:
    (items,) = [one["item"] for one in page.contents() if one["name"] == paper]
    (item,) = [one for one in items if one["name"] == table]
    found = {line.attack: line.whose for line in page.section(paper, item).lines}
    assert whose.items() <= found.items()


def test_recommenders_have_the_means_of_their_seeds_alone() -> None:
    (items,) = [one["item"] for one in page.contents() if one["name"] == "fedgnn"]
    (third,) = [item for item in items if item["name"] == "Table 3"]
    lines = [line for line in page.section("fedgnn", third).lines if "offsets" not in line.title]
    assert {line.attack for line in lines} == {"seeds"}
    assert {line.whose for line in lines if "FCF" in line.title or "FedMF" in line.title} == {"rival"}
    assert {line.whose for line in lines if "FedGNN" in line.title} == {"own"}


def test_sizes_are_pooled_over_what_was_run() -> None:
    (third,) = [item for item in page.contents()[0]["item"] if item["name"] == "Table 3"]
    grain, census = page.section("grain", third).lines
    assert list(grain.numbers) == ["exact, <=15 nodes", "exact, 16-25 nodes", "exact, >=26 nodes"]
    assert grain.numbers["exact, >=26 nodes"].printed == pytest.approx(0.051)
    assert census.numbers["exact, <=15 nodes"].mean > grain.numbers["exact, <=15 nodes"].mean
