"""What users point at: names, files, their own code; and what they say over it."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from models import some_params
from typer.testing import CliRunner, Result

import jgleak
from jgleak.cli import app
from jgleak.datasets import MOLECULE_SPACE
from jgleak.exposure.clients import Clients
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.reading import DEPLOYED, clients_of, read
from jgleak.exposure.registry import exposure_of
from jgleak.exposure.stated import RATE, Stated
from jgleak.exposure.text import clients_text
from jgleak.federated import LocalTraining, Observation, save
from jgleak.gnn import Pooled, standard
from jgleak.interop.description import described
from jgleak.precision import rounding_of
from tests.exposure.conftest import SPACE, pooled, sent

MINE = """
from flax import linen, nnx
from jgleak.datasets import MOLECULE_SPACE
from jgleak.gnn import standard

MODEL = standard(MOLECULE_SPACE.width, hidden=8)
OTHER = 3

def made():
    return MODEL

def sized(width, *, depth, norm=None):
    return MODEL

def seen():
    from jgleak.federated import load
    return load("FILE", MOLECULE_SPACE)[0]

class Flax(linen.Module):
    @linen.compact
    def __call__(self, rows, edges):
        return rows

FLAX = Flax()

class Nnx(nnx.Module):
    def __call__(self, rows, edges):
        return rows

def broken():
    raise RuntimeError("two\\nlines")

def leaving():
    raise SystemExit(3)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(MINE, encoding="utf-8")
    return file


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


def test_every_deployed_model_is_made_and_trains_as_it_says() -> None:
    for name, entry in DEPLOYED.items():
        deployment, title = read(name, None, MOLECULE_SPACE, Stated())
        assert title.startswith(entry.title) and entry.source in title
        clients = deployment.clients
        assert clients.local is not None and clients.batch_size == 512
        assert ("Adam" in title) == (clients.local.optimiser == "adam")
        assert ("dropout" in title) == deployment.model.drops
        assert ("BatchNorm" in title) == deployment.model.returns_statistics
        assert f"{deployment.model.depth} x {deployment.model.layers[0].features}" in title


def test_a_class_of_our_own_models_is_no_foreign_module(tmp_path: Path) -> None:
    """Models of jgleak are flax's modules too; such a class is asked for what it takes."""
    (tmp_path / "own.py").write_text("from jgleak.gnn import GNN\n\n\nclass Own(GNN):\n    pass\n", encoding="utf-8")
    result = run(f"{tmp_path / 'own.py'}:Own")
    assert result.exit_code == 2 and "takes in_features, layers" in result.stderr


def test_what_is_said_goes_over_what_the_description_says() -> None:
    stated = Stated({"batch_size": 1}, {"steps": 0}, 0.0)
    deployment, _ = read("openfgl-gin", None, MOLECULE_SPACE, stated)
    assert deployment.clients == Clients(batch_size=1) and not deployment.model.drops
    deployment, _ = read("fedml-gcn", None, MOLECULE_SPACE, Stated({"batch_size": 4}, {"momentum": 0.9, "loader": 0}))
    assert deployment.clients.local == LocalTraining(0.03, 2560, 0.9, shuffled=True)


def test_local_training_that_nobody_describes_has_a_rate() -> None:
    plain = Deployment(pooled(), SPACE)
    assert Stated().over(plain).clients == Clients()
    assert Stated({}, {"optimiser": "adam"}).over(plain).clients.local == LocalTraining(RATE, optimiser="adam")
    assert Stated({}, {"steps": 5}).over(plain).clients.local == LocalTraining(RATE, 5)
    with pytest.raises(ValueError, match="0 is one gradient"):
        Stated({}, {"steps": 0, "rate": 0.1}).over(plain)


def test_an_observation_file_says_how_its_client_trains(tmp_path: Path) -> None:
    deployment = Deployment(pooled(), SPACE, Clients(defense="clip:1+prune:0.5"))
    save(tmp_path / "one.safetensors", sent(deployment), SPACE)
    found, _ = read(str(tmp_path / "one.safetensors"), None, MOLECULE_SPACE, Stated())
    assert found.model == deployment.model and found.space.width == SPACE.width
    assert found.clients.protection.scales and found.clients.protection.drops
    assert found.clients.ways == deployment.clients.ways
    again = jgleak.check(sent(deployment), SPACE)
    assert again.deployment.clients == found.clients


def test_noise_of_a_file_is_rounding_where_it_is_as_large() -> None:
    """Weights of size 1 are off by 2**-23 / sqrt(12) at most, and by that over the rate in an update."""
    plain = sent(Deployment(pooled(), SPACE, Clients()))
    left = lambda noise, **fields: clients_of(dataclasses.replace(plain, noise=noise, **fields))  # noqa: E731
    small, large = left(1e-8), left(1e-2)
    assert "rounding of returned weights leaves at a rate of" in small.whence and large.whence == "as the file says"
    local = {"protocol": "fedavg", "local": LocalTraining(rate=0.1, steps=2)}
    assert left(1e-8, **local).whence == "rounding of the returned weights"
    assert left(1e-3, **local).whence == "as the file says"
    half = dataclasses.replace(plain, update=jax.tree.map(lambda leaf: np.asarray(leaf, np.float16), plain.update))
    assert clients_of(dataclasses.replace(half, noise=1e-7)).whence == "rounding to 16 bits"
    assert clients_of(dataclasses.replace(half, noise=0.5)).whence == "as the file says"
    rounded = clients_of(dataclasses.replace(half, rounding=rounding_of("float16")))
    assert (rounded.defense, rounded.noise, rounded.whence) == ("float16", None, "")
    assert clients_of(dataclasses.replace(half, rounding=rounding_of("bfloat16"), noise=0.5)).noise == 0.5
    for clients in (small, large):
        said = clients_text(clients, "ce")
        assert "defence" not in said and "noise of deviation 1.0e-0" in said
        assert clients.ways == Clients(defense=f"gaussian:{clients.noise}").ways, "facts reckon with it all the same"


def test_own_code_is_taken_as_an_object_or_as_what_makes_it(mine: Path) -> None:
    for name in ("MODEL", "made"):
        deployment, title = read(f"{mine}:{name}", None, MOLECULE_SPACE, Stated({"batch_size": 2}))
        assert deployment.model.layers[0].features == 8 and deployment.clients.batch_size == 2 and not title


def test_own_code_finds_modules_beside_it_and_replaces_none(tmp_path: Path) -> None:
    """Whose name is that of a module of Python's own, and which imports a neighbour first and another when called."""
    (tmp_path / "first_beside.py").write_text("from jgleak.gnn import standard\n", encoding="utf-8")
    (tmp_path / "then_beside.py").write_text("WIDTH = 12\n", encoding="utf-8")
    (tmp_path / "json.py").write_text(BESIDE, encoding="utf-8")
    path = list(sys.path)
    deployment, _ = read(f"{tmp_path}/json.py:made", None, MOLECULE_SPACE, Stated())
    assert deployment.model.layers[0].features == 12
    assert sys.modules["json"] is json and sys.path == path


BESIDE = """
import dataclasses
from first_beside import standard
from jgleak.datasets import MOLECULE_SPACE

@dataclasses.dataclass
class Sizes:
    width: "int"

def made():
    from then_beside import WIDTH
    return standard(MOLECULE_SPACE.width, hidden=Sizes(WIDTH).width)
"""


def test_json_and_text_say_the_same(mine: Path) -> None:
    result = run(f"{mine}:MODEL", "--batch-size", "2", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["clients"]["batch_size"] == 2
    text = run(f"{mine}:MODEL", "--batch-size", "2").stdout
    flat = " ".join(text.split())
    for finding in said["findings"]:
        assert f"{finding['id']}: {finding['what']}" in flat and finding["why"] in flat
        assert finding["instead"] in flat
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody",), "is no deployed model"),
        (("missing.safetensors",), "no such file"),
        (("{mine}:NOTHING",), "has no 'NOTHING'"),
        (("{mine}:OTHER",), "is a int"),
        (("nowhere.at.all:x",), "cannot be imported"),
        (("{mine}:sized",), "takes width, depth; give a function without arguments"),
        (("{mine}:broken",), "broken() failed (RuntimeError: two lines)"),
        (("{mine}:leaving",), "leaving() failed (SystemExit: 3)"),
        (("{beside}/torn.py:x",), "torn.py cannot be imported (SyntaxError"),
        (("{beside}/lonely.py:x",), "lonely.py cannot be imported (ModuleNotFoundError: No module named 'nobody')"),
        (("{mine}:MODEL", "--batch-size", "0"), "batch_size: a whole number from 1"),
        (("{mine}:MODEL", "--local-optimiser", "lion"), "choose one of sgd, adam"),
        (("{mine}:MODEL", "--local-optimiser", "adam", "--local-momentum", "0.9"), "leave it out beside 'adam'"),
        (("openfgl-gin", "--local-steps", "0", "--local-optimiser", "adam"), "one gradient, which has no rate"),
        (("{mine}:MODEL", "--batch-size", "2", "--local-loader", "3"), "a step takes 3 graphs"),
        (("{mine}:MODEL", "--loss", "mse"), "mse"),
        (("{mine}:MODEL", "--dropout", "1.5"), "dropout"),
        (("{mine}:MODEL", "--defense", "wish"), "defense: unknown"),
        (("{mine}:MODEL", "--features", "molecules+bonds"), "edge classes"),
    ],
)
def test_mistakes_are_one_line(mine: Path, arguments: tuple[str, ...], words: str) -> None:
    (mine.parent / "torn.py").write_text("def x(:", encoding="utf-8")
    (mine.parent / "lonely.py").write_text("from nobody import x", encoding="utf-8")
    result = run(*(argument.format(mine=mine, beside=mine.parent) for argument in arguments))
    assert result.exit_code == 2 and result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and words in lines[0]


def test_what_is_no_model_is_refused_in_python() -> None:
    with pytest.raises(ValueError, match="expected a jgleak.GNN"):
        jgleak.check(3, SPACE)


def test_a_module_is_read_in_its_mode_with_its_dropout() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    geometric: Any = pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

    class Net(torch.nn.Module):
        """What people write, with one score."""

        def __init__(self) -> None:
            super().__init__()
            self.conv = geometric.nn.GCNConv(SPACE.width, 16)
            self.norm = torch.nn.BatchNorm1d(16)
            self.drop = torch.nn.Dropout(0.4)
            self.out = torch.nn.Linear(16, 1)

        def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
            x = self.drop(self.norm(self.conv(x, edge_index)).relu())
            return self.out(geometric.nn.global_mean_pool(x, batch))

    module = Net()
    training = jgleak.check(module, SPACE).deployment
    assert training.model.returns_statistics and training.model.layers[0].dropout == 0.4 and module.training
    assert training.loss == "bce" and training.model.outputs == 1
    assert (
        jgleak.check(module, SPACE, Clients(loss="mse")).deployment.loss == described(module, loss="mse").loss == "mse"
    )
    module.eval()
    still = jgleak.check(module, SPACE, Clients(batch_size=3)).deployment
    assert not still.model.drops and not still.model.returns_statistics and still.clients.batch_size == 3
    module.out.weight.requires_grad_(False)
    assert jgleak.check(module, SPACE).deployment.model.frozen == ("readout/mlp/linears_0/kernel",)


@pytest.mark.parametrize(("flag", "trained", "rate"), [("self.training", True, 0.3), ("self.training", False, 0.0)])
def test_dropout_as_a_function_counts_with_its_flag(tmp_path: Path, flag: str, trained: bool, rate: float) -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    text = FUNCTIONAL.replace("FLAG", flag).replace("MODE", "train()" if trained else "eval()")
    (tmp_path / "functional.py").write_text(text, encoding="utf-8")
    torch.random.manual_seed(1)
    before = torch.random.get_rng_state()
    deployment, title = read(f"{tmp_path}/functional.py:make", MOLECULE_SPACE, MOLECULE_SPACE, Stated())
    assert not title
    assert deployment.model.layers[0].dropout == rate and deployment.model.drops == (rate > 0)
    assert bool((torch.random.get_rng_state() == before).all()), "random numbers of the training stay what they were"
    (tmp_path / "one.py").write_text(text.replace("Linear(8, 2)", "Linear(8, 1)"), encoding="utf-8")
    assert read(f"{tmp_path}/one.py:make", MOLECULE_SPACE, MOLECULE_SPACE, Stated()).deployment.loss == "bce"


FUNCTIONAL = """
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv, global_mean_pool

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = GCNConv(242, 8), torch.nn.Linear(8, 2)

    def forward(self, x, edge_index, batch):
        h = F.dropout(self.conv(x, edge_index).relu(), p=0.3, training=FLAG)
        return self.out(global_mean_pool(h, batch))

def make():
    state = torch.random.get_rng_state()
    net = Net().MODE
    torch.random.set_rng_state(state)
    return net
"""


def test_embedding_tables_say_what_a_module_takes(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    (tmp_path / "embedding.py").write_text(EMBEDDING, encoding="utf-8")
    deployment, _ = read(f"{tmp_path}/embedding.py:Net", None, MOLECULE_SPACE, Stated({"loss": "masked_bce"}))
    assert [len(feature.values) for feature in deployment.space.features] == [7, 3] and deployment.loss == "masked_bce"
    assert deployment.space.edge_classes == ("0", "1", "2", "3")
    assert [f.id for f in exposure_of(deployment).of("leaks")][0] == "embedding-rows"


def test_embedded_bonds_are_refused_with_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    text = EMBEDDING.replace(", edge_dim=4", "").replace("edge_index, edge_attr)", "edge_index, self.bonds(edge_attr))")
    text = text.replace("        inside =", "        self.bonds = torch.nn.Embedding(5, 8)\n        inside =")
    (tmp_path / "bonds.py").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"BondEncoder.*build the layers as GINEConv\(.., edge_dim=K\)"):
        read(f"{tmp_path}/bonds.py:Net", None, MOLECULE_SPACE, Stated())


EMBEDDING = """
import torch
from torch_geometric.nn import GINEConv, global_mean_pool

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = torch.nn.ModuleList([torch.nn.Embedding(7, 8), torch.nn.Embedding(3, 8)])
        inside = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
        self.conv, self.out = GINEConv(inside, edge_dim=4), torch.nn.Linear(8, 5)

    def forward(self, x, edge_index, edge_attr, batch):
        h = sum(table(x[:, i]) for i, table in enumerate(self.tables))
        return self.out(global_mean_pool(self.conv(h, edge_index, edge_attr).relu(), batch))
"""


def molecular() -> Observation:
    """An update of two graphs, as zeros, of a model of molecules."""
    model = standard(MOLECULE_SPACE.width, "gcn", Pooled(), hidden=8)
    params = some_params(model)
    return Observation(model, params, jax.tree.map(np.zeros_like, params), "ce", batch_size=2)


def test_what_no_file_names_are_molecules_by_default(tmp_path: Path) -> None:
    """The same space as of own code, and one error where it does not fit."""
    save(tmp_path / "bare.safetensors", molecular())
    found, _ = read(str(tmp_path / "bare.safetensors"), None, MOLECULE_SPACE, Stated())
    assert found.space == MOLECULE_SPACE
    save(tmp_path / "other.safetensors", sent(Deployment(pooled(), SPACE)))
    with pytest.raises(ValueError, match="nothing says what its columns mean, and the default space has 242 columns"):
        read(str(tmp_path / "other.safetensors"), None, MOLECULE_SPACE, Stated())
    assert read(str(tmp_path / "other.safetensors"), SPACE, MOLECULE_SPACE, Stated())[0].space == SPACE


def test_an_observation_of_own_code_is_checked_as_its_file_is(mine: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.safetensors"
    save(file, molecular(), MOLECULE_SPACE)
    mine.write_text(MINE.replace("FILE", str(file)), encoding="utf-8")
    by_file, by_code = (read(text, None, MOLECULE_SPACE, Stated())[0] for text in (str(file), f"{mine}:seen"))
    assert (by_code.model, by_code.clients) == (by_file.model, by_file.clients) and by_code.clients.batch_size == 2


@pytest.mark.parametrize("name", ["Flax", "FLAX", "Nnx"])
def test_a_module_of_flax_is_named_with_what_to_do_instead(mine: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is a module of flax, whose forward pass is not traced; let a function"):
        read(f"{mine}:{name}", None, MOLECULE_SPACE, Stated())
