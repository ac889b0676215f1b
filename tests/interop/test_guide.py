"""The guide's snippets that need no other framework run as they stand."""

from __future__ import annotations

import json
import re
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

from jgleak.audit.certified import read
from jgleak.cli import app
from jgleak.datasets import MOLECULE_SPACE
from jgleak.features import ogb_bonds
from jgleak.features.atoms import OGB
from jgleak.federated import Observation, load
from jgleak.gnn import GINEConv, Pooled
from jgleak.interop import from_arrays, read_schema
from jgleak.interop.graphs import dense
from jgleak.interop.guard import Decision
from jgleak.interop.layers import GIN, WORDS, BatchNorm, Conv, Embeddings, Linear, Norm, called
from jgleak.interop.spaces import feature_space
from tests.interop.conftest import UNCOMPARED, Stranger

pytestmark = UNCOMPARED

DOCS = Path(__file__).parents[2] / "docs"
GUIDE, RECORDING = ((DOCS / page).read_text(encoding="utf-8") for page in ("bring-your-own-model.md", "recording.md"))


def run(name: str, page: str = GUIDE, **names: Any) -> dict[str, Any]:
    blocks = dict(re.findall(r"<!-- test: (\w+) -->\n```python\n(.*?)```", page, re.DOTALL))
    exec(compile(blocks[name], name, "exec"), names)
    return names


def test_arrays_of_a_file_and_of_a_flower_client(
    strangers: dict[str, Stranger], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = strangers["gcn"]
    trees = {"state": one.state, "gradient": one.gradient}
    arrays = {f"{part}.{k}": np.ascontiguousarray(v) for part, tree in trees.items() for k, v in tree.items()}
    save_file(arrays, tmp_path / "round.safetensors")
    monkeypatch.chdir(tmp_path)
    first = run("file")
    model = types.SimpleNamespace(state_dict=lambda: one.state)
    sent = list(one.state.values())
    returned = [w - 0.1 * one.gradient[name] for name, w in one.state.items()]
    second = run("flower", model=model, sent=sent, returned=returned, layers=first["layers"])
    assert first["observation"].model == second["observation"].model
    assert second["observation"].local.steps == 5 and 0 < second["noise"] < 1e-5


def test_the_schema_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "schema.json").write_text(text)
    space = read_schema(tmp_path / "schema.json")
    assert space.width == 10 and [f.name for f in space.features] == [f["name"] for f in json.loads(text)["features"]]


def test_every_layer_has_its_row() -> None:
    kinds = [*Conv.__subclasses__(), *Norm.__subclasses__(), Linear, *Linear.__subclasses__(), Embeddings]
    for kind in kinds:
        assert f"| `{kind.__name__}` |" in GUIDE
    for word in WORDS:
        assert f'`"{word}"`' in GUIDE or f"`{word}`" in GUIDE


def test_a_space_of_ones_own_features() -> None:
    x = np.array([[0, 1, 2, 30], [2, 0, 1, 31]])
    names = run("space", RECORDING, x=x)
    space = names["space"]
    assert space.width == 3 + 1 + 5 + 1 and space.degree == "degree" and not names["wider"].discrete
    np.testing.assert_allclose(space.encode(x).mean(axis=0), 0.0, atol=1e-6)


@pytest.mark.parametrize("outcome", ["sent", "dropped", "unread"])
def test_a_guard_in_a_loop_of_ones_own(outcome: str) -> None:
    def decision(*_: Any, graphs: int) -> Decision:
        assert graphs == 2
        if outcome == "unread":
            raise ValueError("no such round")
        return Decision("sent", {"w": np.ones(1)} if outcome == "sent" else None, None, 0.0, outcome)

    said, left = list[str](), list[Any]()
    given = {"sent": {}, "returned": {}, "graphs": "ab", "log": said.append, "send": left.append}
    run("guarded", RECORDING, guard=types.SimpleNamespace(decision=decision), **given)
    assert len(left) == (outcome == "sent") and len(said) == 1


def test_names_describe_a_model_where_its_arrays_say_the_kinds(strangers: dict[str, Stranger]) -> None:
    one = strangers["gcn"]

    def from_pyg(model: Stranger, layers: Any, **given: Any) -> Observation:
        return from_arrays(model.state, model.gradient, layers, **{**given, "loss": one.loss})

    public = {"x": one.example.rows, "edge_index": one.example.edges, "output": one.example.output}
    seen = run("names", model=one, from_pyg=from_pyg, **public)["observation"]
    assert seen.model == from_arrays(**one.given).model


def test_rows_and_bonds_for_a_loop_of_ones_own() -> None:
    rows = run("rows")
    assert rows["x"].shape == (rows["graph"].n, MOLECULE_SPACE.width) and rows["edge_index"].shape[0] == 2
    bonds = run("bonds", model=None, output=np.zeros(2), from_pyg=lambda model, **given: given)
    example, edges = bonds["observation"]["example"], len(bonds["data"].graphs[0].edges)
    assert example.edge_rows.shape == (2 * edges, 4) and np.all(example.edge_rows.sum(axis=1) == 1)


def test_flax_trees_of_both_kinds_and_maps_inside_a_layer() -> None:
    """The guide's lines, with gradients of zero in the place of those of linen and of NNX."""
    conv = {"lin": {"kernel": np.eye(3, dtype=np.float32)}, "bias": np.ones(3, np.float32)}
    params = {
        "conv1": conv,
        "conv2": conv,
        "out": {"kernel": np.ones((3, 2), np.float32), "bias": np.zeros(2, np.float32)},
    }
    zeros, edges = jax.tree.map(np.zeros_like, params), np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    mixing = (looped := dense(edges, 3) + np.eye(3)) / np.sqrt(np.outer(looped.sum(0), looped.sum(0)))
    output = (mixing @ (mixing @ np.eye(3) + 1) + 1).mean(axis=0) @ params["out"]["kernel"]
    flax = types.SimpleNamespace(grad=lambda loss: lambda at: zeros, state=lambda model: params)
    names = {"jax": flax, "nnx": flax, "loss": None, "params": params, "model": params}
    found = run("flax", **names, x=np.eye(3, dtype=np.float32), edge_index=edges, output=output)["observation"]
    assert found.model.depth == 2 and isinstance(found.model.readout, Pooled)
    gin, norm, act = run("inside", GIN=GIN, Linear=Linear, BatchNorm=BatchNorm)["fedgraph"]
    assert [called(step) for step in gin.inside] == ["nn.0", "nn.1", "relu", "nn.3"]
    assert (norm.name, act) == ("conv1.nn.4", "relu")


@pytest.mark.long
def test_a_network_of_words_from_its_articles_to_a_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide's lines and commands, with what it says that they print; the best graph is the client's."""
    monkeypatch.chdir(tmp_path)
    client = run("words")["client"]
    (section,) = re.findall(r"\n## A network of words\n(.*?)\n## ", GUIDE, re.DOTALL)
    (lines,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    check, *inversions = (line.split()[1:] for line in lines.splitlines())
    said = CliRunner().invoke(app, check).stdout
    assert "census applies." in said and "with room for 63" in said
    crowded = CliRunner().invoke(app, [*check[:-1], "200"]).stdout
    assert "finds nothing where more than 80 of up to 200 rows differ" in " ".join(crowded.split())
    certificates = list[str]()
    for number, words in enumerate(inversions):
        shown = CliRunner().invoke(app, [*words, "--out", str(number)])
        assert shown.exit_code == 0, shown.output
        (one,) = [line for line in shown.stdout.splitlines() if line.startswith("certificate: ")]
        certificates.append(one)
        assert read(tmp_path / str(number) / "reconstruction.json").graphs[0].isomorphic(client)
    every, sized, differing = certificates
    assert "exactly 5 graphs among connected graphs of up to 40 nodes" in every and "exactly 5 graphs" in section
    assert "no other graph among connected graphs of 8 nodes" in sized and "no other graph" in differing


def test_layers_that_embed_the_attributes_of_bonds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide's lines make a file of a model as OGB writes them; its example's output is compared."""
    rng, width, sizes = np.random.default_rng(0), 6, [len(values) for values in OGB.values()]
    atoms, bonds = "atom_encoder.atom_embedding_list", "convs.0.bond_encoder.bond_embedding_list"
    shapes: dict[str, tuple[int, ...]] = {f"{atoms}.{i}.weight": (size, width) for i, size in enumerate(sizes)}
    shapes |= {f"{bonds}.{i}.weight": (size, width) for i, size in enumerate((5, 6, 2))}
    shapes |= {f"convs.0.mlp.{place}.weight": (width, width) for place in (0, 3)} | {"out.weight": (1, width)}
    shapes |= {f"convs.0.mlp.{place}.bias": (width,) for place in (0, 3)} | {"out.bias": (1,)}
    norm = {
        part: np.full(width, value, np.float32) for part, value in (("weight", 2), ("bias", 1), ("running_mean", 0))
    }
    state = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    state |= {f"convs.0.mlp.1.{part}": values for part, values in (norm | {"running_var": norm["bias"]}).items()}
    x, edges = rng.integers(0, 2, (3, len(sizes))), np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    bond = np.array([[0, 0, 0]] * 2 + [[1, 0, 0]] * 2)
    rows = np.sum([state[f"{atoms}.{i}.weight"][x[:, i]] for i in range(len(sizes))], axis=0)
    along = np.sum([state[f"{bonds}.{i}.weight"][bond[:, i]] for i in range(3)], axis=0)
    mixed = np.array(rows)
    np.add.at(mixed, edges[1], np.maximum(rows[edges[0]] + along, 0))
    inner = mixed @ state["convs.0.mlp.0.weight"].T + state["convs.0.mlp.0.bias"]
    inner = np.maximum(2 * inner / np.sqrt(1 + 1e-5) + 1, 0)
    top = np.maximum(inner @ state["convs.0.mlp.3.weight"].T + state["convs.0.mlp.3.bias"], 0).mean(axis=0)
    trained = {name: np.zeros_like(array) for name, array in state.items() if "running" not in name}
    monkeypatch.chdir(tmp_path)
    run(
        "embedded_bonds",
        model=None,
        from_pyg=lambda model, layers, **given: from_arrays(state, trained, layers, **given),
        **{
            "x": x,
            "edge_index": edges,
            "edge_attr": bond,
            "output": (state["out.weight"] @ top + state["out.bias"])[None],
        },
    )
    observation, _ = load(tmp_path / "bonds.safetensors", feature_space("ogb+bonds"))
    conv = observation.model.layers[0].conv
    assert isinstance(conv, GINEConv) and conv.edge_classes == len(ogb_bonds())
