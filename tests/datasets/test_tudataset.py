"""The TUDataset layout: exact round trips, published statistics of the real sets, and named faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jgleak.datasets import tudataset

TOY = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "3\n7\n3\n7\n7\n",
}


def _write(folder: Path, files: dict[str, str], name: str = "TOY") -> Path:
    target = folder / name
    target.mkdir(exist_ok=True)
    for part, text in files.items():
        (target / f"{name}_{part}.txt").write_text(text)
    return target


def test_toy_set(tmp_path: Path) -> None:
    dataset = tudataset("TOY", path=_write(tmp_path, TOY))
    first, second = dataset.graphs
    assert first.edges.tolist() == [[0, 1], [1, 2]] and first.x.tolist() == [[0], [1], [0]] and first.y == 0
    assert second.edges.tolist() == [[0, 1]] and second.x.tolist() == [[1], [1]] and second.y == 1
    assert dataset.space.features[0].values == (3, 7) and dataset.task == "binary"


def test_attributes_come_after_labels_and_degree_last(tmp_path: Path) -> None:
    _write(tmp_path, TOY | {"node_attributes": "0.5, 1\n1e-3,2\n0,0\n1,1\n2,2\n"})
    dataset = tudataset("TOY", degree=True, path=tmp_path)
    assert [f.name for f in dataset.space.features] == ["label", "attribute_0", "attribute_1", "degree"]
    assert dataset.graphs[0].x.tolist() == [[0, 0.5, 1, 1], [1, 1e-3, 2, 2], [0, 0, 0, 1]]
    assert dataset.space.degree == "degree"


def test_degree_stands_in_for_missing_features(tmp_path: Path) -> None:
    files = {part: text for part, text in TOY.items() if part != "node_labels"}
    dataset = tudataset("TOY", path=_write(tmp_path, files))
    assert [f.name for f in dataset.space.features] == ["degree"]
    for g in dataset.graphs:
        stated = dataset.space.degrees(g.x)
        assert stated is not None and np.array_equal(stated, g.degree)


def test_empty_graphs_self_loops_and_repeats(tmp_path: Path) -> None:
    files = TOY | {"graph_labels": "1\n2\n1\n", "A": TOY["A"] + "1, 1\n1, 2\n"}
    dataset = tudataset("TOY", path=_write(tmp_path, files))
    assert dataset.graphs[0].edges.tolist() == [[0, 1], [1, 2]]
    assert dataset.report.dropped == {"no nodes": 1} and dataset.report.examples == {"no nodes": ("graph 3",)}


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**31 - 1))
def test_round_trip_of_random_sets_in_any_node_order(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, nodes = int(rng.integers(2, 5)), int(rng.integers(5, 15))
    owner = np.r_[np.arange(count), rng.integers(count, size=nodes)]
    rng.shuffle(owner)
    labels = rng.integers(2, 6, size=owner.size)
    upper = np.triu(rng.random((owner.size, owner.size)) < 0.5, 1) & (owner[:, None] == owner)
    pairs = np.argwhere(upper | upper.T)
    files = {
        "A": "".join(f"{u + 1}, {v + 1}\n" for u, v in pairs),
        "graph_indicator": "".join(f"{i + 1}\n" for i in owner),
        "graph_labels": "".join(f"{i % 2}\n" for i in range(count)),
        "node_labels": "".join(f"{k}\n" for k in labels),
    }
    dataset = tudataset("TOY", path=_write(tmp_path, files))
    values = np.array(dataset.space.features[0].values)
    for i, g in enumerate(dataset.graphs):
        own = np.flatnonzero(owner == i)
        assert np.array_equal(values[g.x[:, 0]], labels[own])
        assert np.array_equal(g.adjacency.astype(bool), (upper | upper.T)[np.ix_(own, own)])


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("A", "1, 2\n2, x\n", r"TOY_A\.txt, line 2: 'x' is not an integer"),
        ("A", "1, 2\n2\n", r"TOY_A\.txt, line 2: expected 2 entries, found 1"),
        ("A", "1, 2\n\n2, 1\n", r"TOY_A\.txt, line 2: expected 2 entries"),
        ("A", "1, 2\n2, 9\n", r"TOY_A\.txt, line 2: node id 9 is outside 1\.\.5"),
        ("A", "1, 2\n3, 4\n", r"TOY_A\.txt, line 2: nodes 3 and 4 lie in different graphs"),
        ("A", "1, 99999999999999999999\n", r"TOY_A\.txt, line 1: '9+' is not an integer"),
        ("graph_indicator", "1\n1\n1\n2\n3\n", r"graph_indicator\.txt, line 5: graph id 3 is outside 1\.\.2"),
        ("graph_indicator", "", r"graph_indicator\.txt: is empty"),
        ("graph_labels", "1\n1.5\n", r"graph_labels\.txt, line 2: '1\.5' is not an integer"),
        ("node_labels", "1\n2\n", r"node_labels\.txt: has 2 lines for 5 nodes"),
        ("node_attributes", "1\n2\nnan\n1\n1\n", r"node_attributes\.txt, line 3: 'nan' is not a finite number"),
        ("node_attributes", "1,2\n2,3\n1\n1,1\n1,1\n", r"node_attributes\.txt, line 3: expected 2 entries, found 1"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, part: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tudataset("TOY", path=_write(tmp_path, TOY | {part: text}))


def test_binary_rubbish(tmp_path: Path) -> None:
    _write(tmp_path, TOY)
    (tmp_path / "TOY/TOY_A.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"TOY_A\.txt: not UTF-8 text"):
        tudataset("TOY", path=tmp_path)


@pytest.mark.parametrize("name", ["../MUTAG", "", "a/b", ".."])
def test_names_cannot_leave_the_folder(name: str) -> None:
    with pytest.raises(ValueError, match="is not a TUDataset name"):
        tudataset(name)


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges", "classes"),
    [("MUTAG", 188, 17.93, 19.79, 2), ("PTC_MR", 344, 14.29, 14.69, 2), ("ENZYMES", 600, 32.63, 62.14, 6)],
)
def test_published_statistics(data: Path, name: str, graphs: int, nodes: float, edges: float, classes: int) -> None:
    dataset = tudataset(name, path=data)
    assert len(dataset.graphs) == graphs and dataset.classes == classes
    assert round(float(np.mean([g.n for g in dataset.graphs])), 2) == nodes
    assert round(float(np.mean([len(g.edges) for g in dataset.graphs])), 2) == edges
