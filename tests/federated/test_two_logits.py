"""Files before format 3, in which one output under BCE is two logits ``(0, z)``: the client's own update comes back."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.federated.observation import flatten, load, save
from jgleak.federated.two_logits import one_output
from jgleak.gnn.tree import at

FIELDS: dict[str, Any] = {"readout": "pooled", "readout_widths": (5,)}
SMOOTHED = "+smoothing:0.2"


def widened(tree: Any, factor: float) -> Any:
    """``z`` beside ``factor z``, as jgleak kept one output before."""
    maps = tree["readout"]["mlp"]
    last = {
        name: np.concatenate([np.float32(factor) * leaf, leaf], axis=-1) for name, leaf in maps["linears_1"].items()
    }
    return {**tree, "readout": {"mlp": {**maps, "linears_1": last}}}


def written(path: Path, seen: Observation, space: Any, number: int) -> Observation:
    """Read again, as a file of that format."""
    save(path, seen, space)
    with safe_open(str(path), framework="numpy") as file:
        header = json.loads(file.metadata()["jgleak"]) | {"format": number}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    save_file(tensors, str(path), metadata={"jgleak": json.dumps(header)})
    return load(path)[0]


@pytest.fixture(scope="module")
def sent(world: Any) -> Observation:
    model = world.model(classes=1, **FIELDS)
    return fedsgd(model, world.params(model), [world.graph(4, 1)], world.space, loss=f"bce{SMOOTHED}")


@pytest.fixture(scope="module")
def kept(world: Any, sent: Observation) -> Observation:
    trees = {"params": widened(sent.params, 0.0), "update": widened(sent.update, -1.0)}
    return dataclasses.replace(sent, model=world.model(classes=2, **FIELDS), loss=f"ce{SMOOTHED}", **trees)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("frozen", [(), ("readout/mlp/linears_1",)])
def test_the_one_output_comes_back(
    steps: int, frozen: tuple[str, ...], world: Any, sent: Observation, kept: Observation, tmp_path: Path
) -> None:
    """Of several steps too: the update that came back was the one output's, and was widened afterwards."""
    local = {} if steps == 1 else {"protocol": "fedavg", "local": LocalTraining(0.1, steps)}
    own, old = (
        dataclasses.replace(
            one,
            model=one.model.clone(frozen=frozen),
            update=one.model.clone(frozen=frozen).trained(one.update),
            **local,
        )
        for one in (sent, kept)
    )
    found = written(tmp_path / "old", old, world.space, 2)
    assert found.loss == f"bce{SMOOTHED}" and found.model == own.model and found.local == own.local
    for part in ("params", "update"):
        jax.tree.map(np.testing.assert_array_equal, flatten(getattr(found, part)), flatten(getattr(own, part)))
    assert written(tmp_path / "new", old, world.space, 3).model == old.model, "files of today have what was meant"


@pytest.mark.parametrize("other", ["a column that is not 0", "another update", "all zeros", "bce"])
def test_two_outputs_stay_two(other: str, world: Any, kept: Observation, tmp_path: Path) -> None:
    part = {"a column that is not 0": "params", "another update": "update"}.get(other)
    if part is not None:
        tree = jax.tree.map(np.array, getattr(kept, part))
        tree["readout"]["mlp"]["linears_1"]["kernel"][0, 0] += 1e-7
        kept = dataclasses.replace(kept, **{part: tree})
    elif other == "all zeros":
        kept = dataclasses.replace(kept, params=widened(sent_zero(kept.params), 0.0))
    else:
        kept = dataclasses.replace(kept, loss="bce")
    assert written(tmp_path / "old", kept, world.space, 2).model.outputs == 2


def sent_zero(params: Any) -> Any:
    """One output whose last map is 0."""
    maps = params["readout"]["mlp"]
    last = {name: np.zeros_like(leaf[..., 1:]) for name, leaf in maps["linears_1"].items()}
    return {**params, "readout": {"mlp": {**maps, "linears_1": last}}}


@pytest.mark.parametrize("fields", [{"classes": 3, **FIELDS}, {"readout": "flattened", "slots": 6}])
def test_other_readouts_stay_as_they_are(fields: dict[str, Any], world: Any) -> None:
    """Of three outputs, or with a slot for each node, though the first two columns look like one output's."""
    model = world.model(**fields)
    params, update = world.params(model, 1), world.params(model, 2)
    place = ("readout", *model.readout.last_map)
    for leaf in at(params, place).values():
        leaf[..., 0] = 0.0
    for leaf in at(update, place).values():
        leaf[..., 0] = -leaf[..., 1]
    assert one_output(model, params, update, "ce") == {}
