"""A file whose client computed in 32 bits and rounded what it sent: said on the command line, found, and verified."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from jgleak import standard
from jgleak.cli import app
from jgleak.datasets import load
from jgleak.federated import Observation, fedsgd, save
from jgleak.precision import rounding_of


@pytest.mark.long
def test_rounding_that_is_said_gives_the_graph_and_a_result_that_verifies(tmp_path: Path) -> None:
    data = load("embedded")
    graph = next(one for one in data.graphs if one.n == 5)
    model = standard(data.space.width, hidden=64)
    seen = fedsgd(model, model.initial(key=jax.random.key(0)), [graph], data.space, loss="bce")
    short = jax.tree.map(lambda leaf: np.asarray(jnp.asarray(leaf).astype(jnp.bfloat16)), seen.update)
    file = tmp_path / "seen.safetensors"
    save(file, Observation(model, jax.tree.map(np.asarray, seen.params), short, "bce"), data.space)

    jgleak = lambda *words: CliRunner().invoke(app, [str(word) for word in words])  # noqa: E731
    found = jgleak("invert", file, "--n", 5, "--rounded-to", "bfloat16", "--json", "--out", tmp_path)
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    nodes = [[node[feature.name] for feature in data.space.features] for node in record["graphs"][0]["nodes"]]
    wanted = [[f.values[code] for f, code in zip(data.space.features, row, strict=True)] for row in graph.x]
    assert sorted(map(repr, nodes)) == sorted(map(repr, wanted))
    assert any(
        f"rounding of {rounding_of('bfloat16'):.1e} of each entry" in says
        for says in record["certificate"]["conditions"]
    )
    verified = jgleak("verify", tmp_path / "reconstruction.json")
    assert verified.exit_code == 0, verified.output
    assert json.loads((tmp_path / "reconstruction.json").read_text())["said"] == {"rounding": rounding_of("bfloat16")}

    wrong = jgleak("invert", file, "--rounded-to", "int8")
    assert wrong.exit_code == 2 and "rounded_to: expected one of float16, bfloat16, got 'int8'" in wrong.stderr
