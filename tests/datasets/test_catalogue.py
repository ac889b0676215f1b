"""Loading by name: samples, bounds, defaults and clear refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jgleak.datasets import embedded, load, names, tasks
from jgleak.datasets.fit import fit


def test_names() -> None:
    assert {"embedded", "tox21", "clintox", "bbbp", "freesolv", "mutag", "ptc_mr", "enzymes", "nci1", "coil-rag"} | {
        "citeseer",
        "facebook",
        "github",
        "pokec",
        "synthetic-er",
        "synthetic-ba",
        "synthetic-regular",
        "synthetic-tree",
        "synthetic-glg",
    } <= set(names())
    assert tasks("tox21")[0] == "NR-AR" and len(tasks("tox21")) == 13 and tasks("embedded") == ()
    assert tasks("pokec")[0] == "gender" and tasks("synthetic-er") == ("graph", "node")


def test_a_sample_keeps_the_statistics_of_the_whole() -> None:
    whole, sample = load("embedded"), load("Embedded", graphs=7, min_nodes=10, max_nodes=20, seed=3)
    assert whole.space.mean is not None and sample.space.mean is not None
    assert np.array_equal(whole.space.mean, sample.space.mean)
    assert len(sample.graphs) == 7 and all(10 <= g.n <= 20 for g in sample.graphs)
    assert sample.report.kept + sum(sample.report.dropped.values()) == sample.report.rows
    smaller = load("embedded", graphs=3, min_nodes=10, max_nodes=20, seed=3)
    assert [g.name for g in smaller.graphs] == [g.name for g in sample.graphs][:3]
    assert [g.name for g in load("embedded", graphs=7, seed=4).graphs] != [g.name for g in sample.graphs]


def test_fit_in_chunks_is_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = embedded()
    monkeypatch.setattr("jgleak.datasets.fit.NODES", 50)
    direct, chunked = dataset.space.fit(g.x for g in dataset.graphs), fit(dataset.space, dataset.graphs)
    assert direct.mean is not None and chunked.mean is not None
    assert direct.std is not None and chunked.std is not None
    np.testing.assert_allclose(chunked.mean, direct.mean, atol=1e-12)
    np.testing.assert_allclose(chunked.std, direct.std, atol=1e-12)


def test_synthetic_by_name() -> None:
    dataset = load("synthetic-tree", graphs=5, max_nodes=8, task="node", seed=1)
    assert len(dataset.graphs) == 5 and all(g.n == 8 for g in dataset.graphs) and dataset.task == "node"
    assert all(40 <= g.n <= 45 for g in load("synthetic-er", graphs=2, min_nodes=40, max_nodes=45).graphs)
    glg = load("synthetic-glg", graphs=3)
    assert [g.n for g in glg.graphs] == [50] * 3 and glg.space.width == 100 and not glg.space.discrete
    assert {g.n for g in load("synthetic-glg", graphs=3, max_nodes=20).graphs} == {20}


def test_numbers_behind_a_generators_name() -> None:
    """The mean degree, and GLG's number of features; without them it has the usual ones."""
    dense = load("synthetic-er:12", graphs=20, min_nodes=25, max_nodes=25)
    edges = sum(len(g.edges) for g in dense.graphs)
    assert dense.name == "synthetic-er:12" and abs(edges - 20 * 150) < 5 * np.sqrt(20 * 300 * 0.25)
    assert {len(g.edges) for g in load("synthetic-glg:9:10", graphs=2, max_nodes=10).graphs} == {45}
    assert (
        load("synthetic-glg:9:10", graphs=2).space.width == 10 and load("synthetic-glg:9", graphs=2).space.width == 100
    )
    assert {2 * len(g.edges) // g.n for g in load("Synthetic-Regular:6", graphs=3).graphs} == {6}
    same = load("synthetic-ba:4", graphs=3, seed=2), load("synthetic-ba", graphs=3, seed=2)
    assert [[np.array_equal(g.edges, h.edges) for g, h in zip(*(d.graphs for d in same), strict=True)]] == [[True] * 3]
    assert tasks("synthetic-er:8") == ("graph", "node")
    assert load("synthetic-glg:0.9:1", graphs=2, max_nodes=3).space.width == 1


@pytest.mark.parametrize(
    "name",
    ["synthetic-er:", "synthetic-er:x", "synthetic-er:0", "synthetic-er:inf", "synthetic-er:nan", "synthetic-er:4:10"]
    + [
        "synthetic-ba:5",
        "synthetic-ba:2.5",
        "synthetic-tree:3",
        "synthetic-glg:4:0",
        "synthetic-glg:4:2.5",
        "synthetic-glg:4:10:1",
    ],
)
def test_numbers_that_a_generator_does_not_take(name: str) -> None:
    with pytest.raises(ValueError, match=f"no data set '{name}': behind a generator's name stands its mean degree"):
        load(name)
    with pytest.raises(ValueError, match=f"no data set '{name}': behind a generator's name"):
        tasks(name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "tox2"}, "no data set 'tox2'; did you mean 'tox21'"),
        ({"name": "qqqqq"}, "known are embedded, .*tox21"),
        ({"name": "tu:../x"}, "is not a TUDataset name"),
        ({"name": "tox21", "task": "SR-P53"}, "task: tox21 has no task 'SR-P53'; choose one of NR-AR"),
        ({"name": "embedded", "task": "x"}, "it has only one, leave task out"),
        ({"name": "embedded", "path": "."}, "path: embedded is not read from files"),
        ({"name": "embedded", "graphs": 0}, "graphs: must be at least 1"),
        ({"name": "embedded", "min_nodes": 9, "max_nodes": 5}, "expected 1 <= min_nodes <= max_nodes"),
        ({"name": "embedded", "min_nodes": 500}, r"has 0 graphs of 500\.\.any nodes"),
        ({"name": "embedded", "graphs": 500}, "graphs of 1..any nodes, 500 are wanted"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(**arguments)


def test_any_other_tudataset(tmp_path: Path) -> None:
    folder = tmp_path / "NEW"
    folder.mkdir()
    for part, text in {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n2\n", "graph_labels": "4\n5\n"}.items():
        (folder / f"NEW_{part}.txt").write_text(text)
    dataset = load("tu:NEW", path=tmp_path)
    assert dataset.name == "tu:NEW" and [g.n for g in dataset.graphs] == [2, 1]


@pytest.mark.usefixtures("data")
def test_citeseer_clients_follow_grain() -> None:
    dataset = load("citeseer")
    sizes = [g.n for g in dataset.graphs]
    assert len(sizes) == 100 and dataset.space.width == 3803 and dataset.space.degree == "degree"
    for part, (low, high) in ((sizes[:20], (1, 10)), (sizes[20:60], (10, 20)), (sizes[60:90], (20, 30))):
        assert low <= min(part) and max(part) <= high
    assert 30 <= min(sizes[90:]) and max(sizes[90:]) <= 40
    assert dataset.space.encode(dataset.graphs[-1].x).shape == (sizes[-1], 3803)


@pytest.mark.usefixtures("data")
@pytest.mark.long
def test_pokec_and_facebook_clients() -> None:
    pokec = load("pokec", task="region", graphs=4, min_nodes=25, max_nodes=30)
    assert pokec.name == "pokec/region" and all(25 <= g.n <= 30 and g.connected for g in pokec.graphs)
    facebook = load("facebook", task="node", graphs=3)
    assert facebook.task == "node" and all(g.n <= 100 and g.connected for g in facebook.graphs)
