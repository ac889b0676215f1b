"""The MUSAE layout on a small network, its faults, and the published sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jgleak.datasets import musae

TARGET = 'id,name,ml_target\n0,"a, b",1\n1,č,0\n2,c,1\n'


def _write(folder: Path, edges: str = "0,1\n1,2\n2,2\n1,0\n", features: str = "", target: str = TARGET) -> Path:
    (folder / "musae_git_edges.csv").write_text("id_1,id_2\n" + edges)
    (folder / "musae_git_features.json").write_text(features or json.dumps({"0": [2, 0, 2], "1": [], "2": [1]}))
    (folder / "musae_git_target.csv").write_text(target, encoding="utf-8")
    return folder


def test_small_network(tmp_path: Path) -> None:
    network = musae("github", path=_write(tmp_path))
    assert network.x.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert network.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert network.y.tolist() == [1, 0, 1] and network.space.degree is None
    client = musae("github", degree=True, path=tmp_path).subgraph(network.y.nonzero()[0])
    assert client.x.tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]] and client.edges.shape == (0, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": "0,1\n0,3\n"}, r"musae_git_edges\.csv, line 3: node ids must lie in 0\.\.2"),
        ({"edges": "0,1\n0;2\n"}, r"musae_git_edges\.csv, line 3: expected 2 entries"),
        ({"features": "[1]"}, r"musae_git_features\.json: expected a JSON object"),
        ({"features": "{"}, r"musae_git_features\.json: expected a JSON object"),
        ({"features": '{"0": [20000000]}'}, r"musae_git_features\.json: feature id 20000000 asks for 20000001 columns"),
        ({"features": '{"0": [-1]}'}, r"musae_git_features\.json: feature ids must be non-negative"),
        ({"features": '{"0": [1], "1": [1], "2": [1], "9": [1]}'}, "lists 4 nodes, the target file has 3"),
        ({"target": "id,name\n0,a\n"}, r"musae_git_target\.csv: expected a CSV file with columns id and ml_target"),
        ({"target": "id,name,ml_target\n0,a,1\n2,b,0\n"}, "ids must be exactly"),
    ],
)
def test_faults_name_the_file(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        musae("github", path=_write(tmp_path, **changes))


def test_published_sizes(data: Path) -> None:
    network = musae("facebook", path=data)
    assert network.n == 22470 and network.x.shape == (22470, 4714)
    assert network.adjacency.nnz == 2 * (171002 - 179)
    assert [int((network.y == c).sum()) for c in range(4)] == [6495, 6880, 5768, 3327]
