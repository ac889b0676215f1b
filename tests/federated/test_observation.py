"""The observation and its file: exact round trips, and one clear error for everything that can be wrong with it."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import flat
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from jgleak.features import FeatureSpace, onehot
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import (
    FORMAT,
    LocalTraining,
    Observation,
    flatten,
    load,
    model_from_json,
    model_to_json,
    save,
    unflatten,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, world: Any) -> Path:
    path = tmp_path_factory.mktemp("observations") / "round.safetensors"
    save(path, world.observation(), world.fitted())
    return path


def rewritten(file: Path, target: Path, spoil: Any) -> Path:
    """A copy of an observation file whose tensors and header ``spoil(tensors, header)`` changed."""
    with safe_open(str(file), framework="numpy") as opened:
        header = json.loads(opened.metadata()["jgleak"])
    tensors = load_file(str(file))
    header = spoil(tensors, header) or header
    save_file(tensors, str(target), metadata={"jgleak": header if isinstance(header, str) else json.dumps(header)})
    return target


def assert_equal_bits(a: Any, b: Any) -> None:
    flat_a, flat_b = flatten(a), flatten(b)
    assert flat_a.keys() == flat_b.keys()
    for name, leaf in flat_a.items():
        got, want = np.asarray(leaf), np.asarray(flat_b[name])
        assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes(), name


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_round_trip_keeps_every_bit(world: Any, tmp_path: Path, dtype: str) -> None:
    def cast(tree: Any) -> Any:
        return jax.tree.map(lambda w: w.astype(jnp.dtype(dtype)), tree)

    model = world.model(conv="gat", heads=2, bias=True, last_act=True, act="gelu", readout_widths=(7, 5))
    update = jax.tree.map(lambda w: w * np.float32(1e-30), world.params(model, 4))
    update["layers_0"]["conv"]["kernel"][0, 0] = -0.0
    sent = Observation(model, cast(world.params(model, 3)), cast(update), "ce", batch_size=3)
    save(tmp_path / "a.safetensors", sent, world.fitted())
    back, space = load(str(tmp_path / "a.safetensors"))
    assert_equal_bits(back.params, sent.params)
    assert_equal_bits(back.update, sent.update)
    assert (back.model, back.loss, back.batch_size, back.protocol) == (model, "ce", 3, "fedsgd")
    assert space.features == world.space.features
    np.testing.assert_array_equal(space.mean, world.fitted().mean)


def test_round_trip_of_device_arrays_and_of_any_memory_order(world: Any, tmp_path: Path) -> None:
    sent = world.observation()
    twisted = dataclasses.replace(
        sent, params=jax.tree.map(jnp.asarray, sent.params), update=jax.tree.map(np.asfortranarray, sent.update)
    )
    save(tmp_path / "a.safetensors", twisted, world.space)
    back, space = load(tmp_path / "a.safetensors")
    assert_equal_bits(back.params, sent.params)
    assert_equal_bits(back.update, sent.update)
    assert space.mean is None


def test_a_file_without_a_space_is_read_with_one(world: Any, tmp_path: Path) -> None:
    sent = world.observation()
    save(tmp_path / "o", sent)
    with pytest.raises(ValueError, match="does not say what the columns"):
        load(tmp_path / "o")
    with pytest.raises(ValueError, match="this space has 12 columns, the model takes 13"):
        load(tmp_path / "o", world.space.without("ring"))
    observation, space = load(tmp_path / "o", world.space)
    assert observation.model == sent.model and space is world.space


@pytest.mark.parametrize("mark", ["scaled", "pruned"])
def test_a_file_says_what_was_done_to_the_update(world: Any, tmp_path: Path, mark: str) -> None:
    sent = world.observation()
    save(tmp_path / "o", dataclasses.replace(sent, **{mark: True}), world.space)
    found = load(tmp_path / "o")[0]
    assert {"scaled": found.scaled, "pruned": found.pruned} == {"scaled": False, "pruned": False, mark: True}


def test_older_files_say_nothing_of_clipping_and_pruning(file: Path, tmp_path: Path) -> None:
    def without(tensors: Any, header: Any) -> Any:
        return {name: value for name, value in header.items() if name not in ("scaled", "pruned", "noise")}

    found, _ = load(rewritten(file, tmp_path / "old", without))
    assert (found.scaled, found.pruned, found.noise) == (False, False, None)


def test_files_with_rate_and_steps_side_by_side_load(world: Any, tmp_path: Path) -> None:
    """So they lay until local training became an object of its own; other protocols stated them too."""
    averaged = world.observation(protocol="fedavg", local=LocalTraining(0.05, steps=2))
    for sent, steps, rate in ((averaged, 2, 0.05), (world.observation(), 1, 0.0)):
        save(tmp_path / "new", sent, world.space)

        def old(tensors: Any, header: Any, steps: int = steps, rate: float = rate) -> Any:
            return {k: v for k, v in header.items() if k != "local"} | {"local_steps": steps, "local_rate": rate}

        assert load(rewritten(tmp_path / "new", tmp_path / "old", old))[0].local == sent.local


def test_a_file_s_steps_take_no_more_graphs_than_the_client_has(world: Any, tmp_path: Path) -> None:
    for loader in (None, 1, 3):
        local = LocalTraining(0.1, 2, loader=loader)
        save(tmp_path / "o", world.observation(protocol="fedavg", local=local, batch_size=3), world.space)
        assert load(tmp_path / "o")[0].local == local
    beyond = world.observation(protocol="fedavg", local=LocalTraining(0.1, 2, loader=4), batch_size=3)
    with pytest.raises(ValueError, match="loader: a step takes 4 graphs, and the client has batch_size=3"):
        save(tmp_path / "o", beyond, world.space)


def test_a_stated_noise_comes_back(world: Any, tmp_path: Path) -> None:
    for noise in (0.0, 0.25):
        save(tmp_path / "o", world.observation(noise=noise), world.space)
        assert load(tmp_path / "o")[0].noise == noise


def test_the_given_space_counts_before_the_file_s_and_that_before_the_default(world: Any, tmp_path: Path) -> None:
    save(tmp_path / "with", world.observation(), world.space)
    save(tmp_path / "without", world.observation())
    narrow, fitted = world.space.without("ring"), world.fitted()
    assert load(tmp_path / "with", default=fitted)[1].mean is None
    assert load(tmp_path / "with", fitted, default=world.space)[1] is fitted
    assert load(tmp_path / "without", default=fitted)[1] is fitted
    for name, fields, where in (
        ("with", {"space": narrow}, "^features: this space has 12 columns"),
        (
            "without",
            {"default": narrow},
            "without: nothing says what its columns mean, .* default space has 12 columns",
        ),
    ):
        with pytest.raises(ValueError, match=where) as error:
            load(tmp_path / name, **fields)
        assert "each feature's integer" not in str(error.value)
    integers = FeatureSpace(tuple(onehot(f"part {i}", range(2)) for i in range(world.space.width)))
    with pytest.raises(ValueError, match="26 columns, the model takes 13; .* each feature's integer in one column"):
        load(tmp_path / "with", integers)


def test_files_of_torch_are_told_apart(file: Path, tmp_path: Path) -> None:
    """A ZIP archive, or a pickle; a safetensors file may begin with a pickle's byte too, and is damaged here."""
    whole = file.read_bytes()
    length = int.from_bytes(whole[:8], "little") // 256 * 256 + 128
    for content, of_torch in (
        (b"PK\x03\x04" + bytes(60), True),
        (b"PK\x03\x05" + bytes(60), False),
        (pickle.dumps({"a": 1}), True),
        (b"\x81" + bytes(60), False),
        (length.to_bytes(8, "little") + whole[8:60], False),
    ):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(ValueError, match=f"cannot read {tmp_path / 'other'}") as error:
            load(tmp_path / "other")
        assert ("it looks like a file of torch.save" in str(error.value)) == of_torch


def test_a_file_holds_no_more_than_the_server_saw(file: Path) -> None:
    with safe_open(str(file), framework="numpy") as opened:
        assert {name.split("/")[0] for name in opened.keys()} == {"params", "update"}  # noqa: SIM118 - not a dict
        header = json.loads(opened.metadata()["jgleak"])
    public = {
        "format",
        "model",
        "loss",
        "batch_size",
        "protocol",
        "local",
        "scaled",
        "pruned",
        "noise",
        "rounding",
        "space",
    }
    assert set(header) == public


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "hinge"}, r"loss: unknown 'hinge'; choose one of"),
        ({"loss": "mse"}, "loss: 'mse' is the squared error of one output, this model has 2 outputs"),
        ({"pruned": "false"}, "pruned: must be true or false, got 'false'"),
        (
            {"protocol": "fedprox"},
            "protocol: unknown 'fedprox'; choose one of fedsgd, fedavg, target_node, node_losses",
        ),
        ({"protocol": "fedavg"}, "local: clients train under 'fedavg' alone, .* got None"),
        ({"local": LocalTraining(0.1)}, "local: clients train under 'fedavg' alone, .* under 'fedsgd'"),
        ({"batch_size": 0}, "batch_size: must be a whole number from 1, got 0"),
        ({"batch_size": 1.5}, "batch_size: must be a whole number from 1, got 1.5"),
        ({"noise": -1.0}, "noise: a standard deviation is finite and not negative, got -1.0"),
        ({"noise": np.inf}, "noise: a standard deviation is finite and not negative, got inf"),
        ({"noise": np.nan}, "noise: a standard deviation"),
        ({"protocol": "target_node"}, "protocol: 'target_node' needs a node task, this model labels graphs"),
        ({"protocol": "node_losses"}, "protocol: 'node_losses' needs a node task"),
        ({"update": None}, "update: expected a nested dict of arrays named like the model's, got NoneType"),
        ({"params": [1.0]}, "params: expected a nested dict"),
        ({"model": flat(in_features=13, hidden=4, act="swish")}, "activation: unknown 'swish'"),
        ({"model": flat(in_features=13, hidden=4, layers=3, readout_widths=(5, 3))}, "lacks the tensors of 'layers_2'"),
        ({"model": flat(in_features=13, hidden=4, layers=1, readout_widths=(5, 3))}, "params: .*another model"),
        (
            {"model": flat(in_features=13, hidden=5, readout_widths=(5, 3))},
            r"has shape \(13, 4\), this model has \(13, 5\)",
        ),
        (
            {"model": flat(in_features=13, hidden=4, bias=True, readout_widths=(5, 3))},
            "params: lacks tensor 'layers_0/conv/bias'",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_an_observation_that_contradicts_itself_is_refused(world: Any, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        world.observation(**change)


def test_a_loss_has_one_spelling(world: Any) -> None:
    assert world.observation(loss="bce+smoothing:.10").loss == "bce+smoothing:0.1"


@pytest.mark.filterwarnings("error")
def test_a_nan_that_signals_is_refused_without_a_warning(world: Any) -> None:
    tree = jax.tree.map(lambda w: np.asarray(w).astype(jnp.bfloat16), world.params(world.model()))
    tree["layers_1"]["conv"]["kernel"].view(np.uint16)[2, 1] = 0x7F81
    with pytest.raises(ValueError, match="update: 'layers_1/conv/kernel' holds NaN"):
        world.observation(update=tree)


@pytest.mark.parametrize("part", ["params", "update"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(world: Any, part: str, value: float) -> None:
    tree = world.params(world.model())
    tree["layers_1"]["conv"]["kernel"][2, 1] = value
    with pytest.raises(ValueError, match=f"{part}: 'layers_1/conv/kernel' holds NaN or infinite values"):
        world.observation(**{part: tree})


def test_an_observation_tells_its_steps_and_gradients(world: Any) -> None:
    one = world.observation(noise=0.0)
    assert (one.steps, one.gradients, one.adaptive, one.noise) == (1, None, False, 0.0)
    averaged = world.observation(protocol="fedavg", local=LocalTraining(0.1, 3))
    assert (averaged.steps, averaged.gradients, averaged.adaptive) == (3, None, False)
    adam = LocalTraining(0.1, 2, optimiser="adam")
    assert world.observation(protocol="fedavg", local=adam).adaptive
    model = world.model(readout="node_scores")
    params = world.params(model)
    side_by_side = jax.tree.map(lambda leaf: np.stack([leaf] * 5), params)
    nodes = Observation(model, params, side_by_side, "ce", protocol="node_losses")
    assert nodes.gradients == 5
    side_by_side["layers_0"]["conv"]["kernel"] = side_by_side["layers_0"]["conv"]["kernel"][:4]
    with pytest.raises(ValueError, match="has shape"):
        Observation(model, params, side_by_side, "ce", protocol="node_losses")


def test_what_is_frozen_may_be_left_out_and_does_not_move(world: Any) -> None:
    model = world.model().clone(frozen=("layers_1",))
    params, update = world.params(model), world.params(model, 1)
    del update["layers_1"]
    seen = Observation(model, params, update, "bce")
    assert seen.update["layers_1"]["conv"]["kernel"].shape == params["layers_1"]["conv"]["kernel"].shape
    assert not seen.update["layers_1"]["conv"]["kernel"].any()
    update["layers_1"] = jax.tree.map(np.array, params["layers_1"])
    with pytest.raises(ValueError, match="update: 'layers_1/conv/kernel' is frozen in this model, and moved"):
        Observation(model, params, update, "bce")


def test_missing_and_unexpected_tensors_are_named(world: Any) -> None:
    update = world.params(world.model())
    del update["readout"]["mlp"]["linears_0"]["bias"]
    with pytest.raises(ValueError, match="update: lacks tensor 'readout/mlp/linears_0/bias'"):
        world.observation(update=update)
    del update["layers_1"]
    with pytest.raises(ValueError, match="update: lacks the tensors of 'layers_1'"):
        world.observation(update=update)
    params = world.params(world.model()) | {"extra": {"kernel": np.zeros(2)}}
    with pytest.raises(ValueError, match="params: has an unexpected tensor 'extra/kernel'"):
        world.observation(params=params)


def drop(name: str) -> Any:
    return lambda tensors, header: tensors.__delitem__(name)


def put(name: str, value: Any) -> Any:
    return lambda tensors, header: tensors.__setitem__(name, np.asarray(value))


def set_header(**fields: Any) -> Any:
    return lambda tensors, header: header | fields


REAL = {"name": "a", "values": [], "kind": "real", "determined_by": None, "mapping": []}


def set_space(**fields: Any) -> Any:
    return lambda tensors, header: header | {"space": header["space"] | fields}


def set_model(**fields: Any) -> Any:
    return lambda tensors, header: header | {"model": header["model"] | fields}


def set_layer(**fields: Any) -> Any:
    def spoil(tensors: Any, header: Any) -> Any:
        first, *others = header["model"]["layers"]
        return header | {"model": header["model"] | {"layers": [first | fields, *others]}}

    return spoil


def set_conv(**fields: Any) -> Any:
    def spoil(tensors: Any, header: Any) -> Any:
        return set_layer(conv=header["model"]["layers"][0]["conv"] | fields)(tensors, header)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop("update/layers_0/conv/kernel"), "update: lacks tensor 'layers_0/conv/kernel'"),
        (drop("params/layers_1/conv/kernel"), "params: lacks the tensors of 'layers_1'"),
        (
            put("update/layers_0/conv/kernel", np.full((13, 4), np.nan, np.float32)),
            "update: 'layers_0/conv/kernel' holds NaN",
        ),
        (
            put("update/layers_0/conv/kernel", np.zeros((4, 13), np.float32)),
            r"has shape \(4, 13\), this model has \(13, 4\)",
        ),
        (
            put("update/layers_0/conv/kernel", np.zeros((13, 4), np.int32)),
            "tensor 'update/layers_0/conv/kernel' has type I32",
        ),
        (put("update/layers_0/conv/kernel", np.zeros((13, 4), np.complex64)), "has type C64; an observation holds F32"),
        (put("params/layers_0", np.zeros(3, np.float32)), "is a tensor and a folder of tensors at once"),
        (set_header(format=FORMAT + 1), "written by a newer jgleak .*; upgrade to read it"),
        (set_header(format="1"), "spoilt.safetensors: format: expected a whole number, got '1'"),
        (set_header(format=0), "format: counted from 1, got 0"),
        (set_header(loss="hinge"), "loss: unknown 'hinge'"),
        (set_header(protocol="fedprox"), "protocol: unknown 'fedprox'"),
        (set_header(protocol="fedavg"), "local: clients train under 'fedavg' alone"),
        (set_header(protocol="fedavg", local={"rate": -1.0}), "rate: a client's learning rate lies above 0, got -1.0"),
        (set_header(protocol="fedavg", local={"adam": 0.9}), "local.adam: unknown field; known ones are rate"),
        (set_header(protocol="fedavg", local={"rate": "x"}), "local.rate: expected a number, got 'x'"),
        (set_header(protocol="fedavg", local={"rate": 0.1, "steps": 2.5}), "local.steps: expected a whole number"),
        (set_header(batch_size="many"), "batch_size: expected a whole number, got 'many'"),
        (set_header(batch_size=True), "batch_size: expected a whole number, got True"),
        (
            set_header(batch_size=10**400),
            r"batch_size: .* at most 64 bits, got 1000.*\(401 char",
        ),
        (set_header(protocol=None), "protocol: expected a word, got None"),
        (set_header(noise="x"), "noise: expected a number, got 'x'"),
        (set_header(noise=-1.0), "noise: a standard deviation is finite and not negative"),
        (set_header(loss=7), "loss: expected a word, got 7"),
        (set_header(pruned=1), "pruned: expected true or false, got 1"),
        (set_header(space=[]), "space: expected fields by name"),
        (set_space(mean="x"), "space.mean: expected a list, got 'x'"),
        (set_space(std=["a"]), r"space.std\[0\]: expected a number, got 'a'"),
        (set_space(degree=5), "space.degree: expected a word, got 5"),
        (set_space(features=7), "feature space: malformed description"),
        (set_space(features=[{"name": "a", "values": [10**400]}]), r"features.values\[0\]: .* at most 64 bits"),
        (set_space(features=[{"name": "a", "values": [0], "mapping": "x"}]), "features.mapping: expected a list"),
        (
            set_space(features=[REAL], degree=None, mean=None, std=None),
            "spoilt.safetensors: this space has 1 columns, the model takes 13",
        ),
        (set_header(space={}), "feature space: malformed description"),
        (set_header(model=[]), "model: expected fields by name"),
        (set_header(model=None), "model: expected fields by name"),
        (set_model(width=3), "model: unknown field 'width'; known ones are in_features, layers, readout"),
        (set_model(parent="os"), "model: unknown field 'parent'"),
        (set_model(in_features={}), "model.in_features: expected a whole number, got {}"),
        (set_model(layers=10**9), "model.layers: expected a list, got 1000000000"),
        (set_model(layers=[]), "layers: a model needs at least one"),
        (set_model(layers=[{"kind": "layer"}]), "conv"),
        (set_model(layers=[{"kind": "os"}]), r"model.layers\[0\]: expected a part of the kind layer, got 'os'"),
        (set_model(readout="mlp"), "model.readout: expected a part of the kind .*node_mlp.*, got 'mlp'"),
        (set_model(readout={"kind": "pooled", "width": 4}), "model.readout: unknown field 'width'"),
        (set_layer(act={}), r"model.layers\[0\].act: expected a word, got {}"),
        (set_layer(act="cosine"), "activation: unknown 'cosine'"),
        (set_conv(kind="gcnn"), r"model.layers\[0\].conv: expected a part of the kind .*gcn.*, got 'gcnn'"),
        (set_conv(features=10**12), "features: must be at most 2147483647, got 1000000000000"),
        (set_conv(features=2**30), "features: layers of .* columns have kernels of over 1073741824 entries"),
        (set_conv(features="wide"), r"conv.features: expected a whole number, got 'wide'"),
        (set_conv(features=64.0), r"conv.features: expected a whole number, got 64.0"),
        (set_conv(kind=["gcn"]), r"model.layers\[0\].conv: expected a part of the kind .*gcn.*"),
        (set_conv(features=True), r"conv.features: expected a whole number, got True"),
        (set_conv(features=0), "features: must be at least 1"),
        (set_conv(bias=1), r"conv.bias: expected true or false, got 1"),
        (
            lambda tensors, header: {k: v for k, v in header.items() if k != "loss"},
            r"malformed .* \(KeyError\('loss'\)\)",
        ),
        (lambda tensors, header: {k: v for k, v in header.items() if k != "format"}, r"malformed .*'format'"),
        (lambda tensors, header: "not json", "spoilt.safetensors: not JSON"),
        (lambda tensors, header: "[]", "spoilt.safetensors: file: expected fields by name"),
        (lambda tensors, header: "[" * 100_000, "too many brackets within each other"),
        (lambda tensors, header: "9" * 5_000, "a number has thousands of digits"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_spoilt_file_is_explained(file: Path, tmp_path: Path, spoil: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(rewritten(file, tmp_path / "spoilt.safetensors", spoil))


def test_a_tensor_type_that_numpy_lacks_is_explained(tmp_path: Path) -> None:
    entry = {"update/a": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}, "__metadata__": {"jgleak": "{}"}}
    header = json.dumps(entry).encode()
    path = tmp_path / "small.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
    with pytest.raises(ValueError, match="tensor 'update/a' has type F8_E4M3"):
        load(path)


def test_other_safetensors_files_are_told_apart(tmp_path: Path) -> None:
    save_file({"weight": np.zeros(3)}, str(tmp_path / "other.safetensors"))
    with pytest.raises(ValueError, match="not a jgleak observation .*write one with jgleak.save"):
        load(tmp_path / "other.safetensors")


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, bytes(range(256)) * 4, b'{"a": 1}' * 20])
def test_other_files_are_told_apart(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "noise").write_bytes(content)
    with pytest.raises(ValueError, match="cannot read .*noise as a safetensors file"):
        load(tmp_path / "noise")


def test_missing_files_and_folders_are_explained(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "absent", "no such file"), (tmp_path, "is a folder")):
        with pytest.raises(ValueError, match=f"^{path}: {reason}; give one that"):
            load(path)


def test_a_file_that_nobody_may_open_is_none_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise PermissionError("not yours")

    (tmp_path / "closed").write_bytes(pickle.dumps({"a": 1}))
    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(ValueError, match="cannot read .*closed as a safetensors file"):
        load(tmp_path / "closed")


def test_an_unwritable_place_is_explained(world: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "absent" / "a.safetensors", tmp_path / "file" / "a.safetensors", tmp_path):
        with pytest.raises(ValueError, match="cannot write .*; choose a folder you may write to"):
            save(path, world.observation(), world.space)


@given(noise=st.binary(max_size=400))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_are_refused(tmp_path: Path, noise: bytes) -> None:
    (tmp_path / "noise").write_bytes(noise)
    with pytest.raises(ValueError, match="cannot read|not a jgleak observation"):
        load(tmp_path / "noise")


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_never_raises_anything_but_a_value_error(file: Path, tmp_path: Path, data: st.DataObject) -> None:
    whole = file.read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:start] + data.draw(
        st.one_of(st.just(b""), st.binary(min_size=1, max_size=3).map(lambda b: b + whole[start + len(b) :]))
    )
    (tmp_path / "damaged").write_bytes(damaged)
    try:
        load(tmp_path / "damaged")
    except ValueError as error:
        assert str(error)
    else:
        assert len(damaged) == len(whole), "a truncated file must be refused"


def test_loading_executes_nothing(file: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "executed",)

    (tmp_path / "pickled").write_bytes(pickle.dumps(Bomb()))
    np.save(tmp_path / "array.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    for name in ("pickled", "array.npy"):
        with pytest.raises(ValueError, match="cannot read"):
            load(tmp_path / name)
    payload = f"__import__('pathlib').Path({str(tmp_path / 'executed')!r}).touch()"
    for spoil in (
        set_layer(act=payload),
        set_conv(kind=payload),
        set_model(readout=payload),
        set_header(loss=payload),
        set_header(protocol=payload),
    ):
        with pytest.raises(ValueError, match="__import__"):
            load(rewritten(file, tmp_path / "spoilt.safetensors", spoil))
    assert not (tmp_path / "executed").exists()


def test_models_survive_json(world: Any) -> None:
    model = world.model(conv="gat", readout="pooled", pooling="max", slots=3, last_act=True)
    assert model_from_json(json.loads(json.dumps(model_to_json(model)))) == model


def test_flatten_and_unflatten_are_inverse(world: Any) -> None:
    params = world.params(world.model())
    assert_equal_bits(unflatten(flatten(params)), params)
    assert set(flatten({"a": {"b": 1, "c": {"d": 2}}})) == {"a/b", "a/c/d"}
    for names in ({"a": 1, "a/b": 2}, {"a/b": 2, "a": 1}):
        with pytest.raises(ValueError, match="'a' is a tensor and a folder of tensors at once"):
            unflatten(names)


def test_knowledge_is_checked(world: Any) -> None:
    assert Knowledge(world.space).max_n is None
    assert Knowledge(world.space, n=60, max_n=50).max_n == 60
    with pytest.raises(ValueError, match="n: a graph has at least one node, got 0"):
        Knowledge(world.space, n=0)
    for name, n, most in (("n", 10**8, None), ("max_n", None, 10**8)):
        with pytest.raises(
            ValueError, match=f"^{name}: 100000000 nodes; graphs are dense here, .* at most 10,000 nodes"
        ):
            Knowledge(world.space, n=n, max_n=most)
    assert Knowledge(world.space, n=10_000).n == 10_000
    with pytest.raises(ValueError, match="max_n: must be at least 1, got 0"):
        Knowledge(world.space, max_n=0)
    assert Knowledge(world.space, n=1, max_n=1).n == 1 and Knowledge(world.space, noise=0.0).noise == 0.0
    for noise in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="noise: a standard deviation is finite and not negative"):
            Knowledge(world.space, noise=noise)


@pytest.mark.usefixtures("unchecked")
def test_knowledge_that_disagrees_is_refused(world: Any) -> None:
    edges, rows = np.zeros((3, 3), np.float32), np.zeros((4, len(world.space.features)))
    with pytest.raises(ValueError, match="disagrees: adjacency of 3 nodes, features of 4 nodes"):
        Knowledge(world.space, adjacency=edges, features=rows)
    none = np.zeros((3, 3))
    for wrong, why in (
        (np.zeros((3, 2)), "shape"),
        (np.zeros(3), "shape"),
        (np.triu(np.ones((3, 3)), 1), "not symmetric"),
        (0.5 * np.ones((3, 3)), "1 for an edge"),
        (np.eye(3), "diagonal"),
        (np.stack([none, np.eye(3)]), "diagonal"),
        (np.stack([none, np.triu(np.ones((3, 3)), 1)]), "not symmetric"),
    ):
        with pytest.raises(ValueError, match=f"^adjacency: .*{why}"):
            Knowledge(world.space, adjacency=wrong)
    with pytest.raises(ValueError, match="adjacency of 3 nodes, n of 5 nodes"):
        Knowledge(world.space, adjacency=edges, n=5)
    assert Knowledge(world.space, adjacency=edges, n=3).n == Knowledge(world.space, adjacency=edges).n == 3
    assert Knowledge(world.space, features=rows).n == Knowledge(world.space, features=np.stack([rows, rows])).n == 4
    with pytest.raises(ValueError, match="features: what is known of nodes does not fit the feature space"):
        Knowledge(world.space, features=rows[:, :1])
    with pytest.raises(ValueError, match="adjacency of 3 nodes, n of 3 nodes, the smallest graph of 2 nodes"):
        Knowledge(world.space, adjacency=edges, sizes=(3, 2))


def test_sizes_of_a_batch_tell_its_largest_graph(world: Any) -> None:
    known = Knowledge(world.space, sizes=(7, 50, 3))
    assert (known.n, known.max_n) == (50, None)
    assert Knowledge(world.space, n=50, sizes=(7, 50, 3)) == known
    with pytest.raises(ValueError, match="the largest graph has 50 nodes, n says 60"):
        Knowledge(world.space, n=60, sizes=(7, 50, 3))
    with pytest.raises(ValueError, match="at least one node, got 0"):
        Knowledge(world.space, sizes=(7, 0))
    assert Knowledge(world.space, sizes=[7, 50, 3]).sizes == (7, 50, 3)
    padded = np.zeros((2, 7, 7))
    assert Knowledge(world.space, sizes=(7, 3), adjacency=padded).n == 7
    with pytest.raises(ValueError, match="disagrees: adjacency of 7 nodes, the largest graph of 5 nodes"):
        Knowledge(world.space, sizes=(5, 3), adjacency=padded)
    assert Knowledge(world.space, n=7, adjacency=padded).n == 7
    with pytest.raises(ValueError, match="disagrees: adjacency of 7 nodes, n of 5 nodes"):
        Knowledge(world.space, n=5, adjacency=padded)
    with pytest.raises(ValueError, match="sizes: 3 given, and edges or features of another number of graphs"):
        Knowledge(world.space, sizes=(7, 3, 2), adjacency=padded)
