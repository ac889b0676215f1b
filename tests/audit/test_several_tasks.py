"""All tasks of a data set at once: from its file over the command line to records, certificates and audits."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from jgleak.audit.certified import read
from jgleak.audit.grid import read_grid
from jgleak.audit.plan import plan
from jgleak.audit.round import client
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.cli import app
from jgleak.federated import load
from jgleak.federated import save as save_observation

ROWS = "CCO,1,0\nCCN,,1\nCC(C)=O,0,\nCCCO,0,1\nNCCO,1,1\n"
WORDS = ("--dataset", "clintox", "--task", "all", "--hidden", "64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ClinTox as a small file."""
    found = tmp_path_factory.mktemp("clintox")
    (found / "clintox.csv.gz").write_bytes(gzip.compress(f"smiles,FDA_APPROVED,CT_TOX\n{ROWS}".encode()))
    return found


def jgleak(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.long
def test_the_command_line_from_attack_to_verification(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shown = jgleak("attack", "census", *WORDS, "--path", str(folder), "--json", "--out", str(out))
    assert shown.exit_code == 0, shown.output
    *records, summary = [json.loads(line) for line in shown.stdout.splitlines()]
    assert all(r["exact"] and r["loss"] == "masked_bce" for r in records) and summary["summary"]["exact"]["mean"] == 1
    labels = [read(out / "reconstructions" / f"00{i}.json").graphs[0].y for i in range(5)]
    np.testing.assert_array_equal(np.concatenate(labels), [[1, 0], [np.nan, 1], [0, np.nan], [0, 1], [1, 1]])  # type: ignore[arg-type]
    assert jgleak("verify", str(out / "reconstructions" / "001.json")).stdout.splitlines()[-1].startswith("holds: ")
    document = json.loads((out / "reconstructions" / "001.json").read_text())
    document["graphs"][0]["y"] = [[0.0, 1.0]]
    (out / "reconstructions" / "001.json").write_text(json.dumps(document))
    assert "y: with its label array([[0., 1.]]) its gradient is" in jgleak(
        "verify", str(out / "reconstructions" / "001.json")
    ).stdout.replace("\n", " ")
    found = jgleak("invert", str(out / "observations" / "001.safetensors"))
    assert "labels - 1" in found.stdout and "SMILES" in found.stdout


@pytest.mark.long
def test_a_file_with_another_loss_is_read_with_the_right_one(folder: Path, tmp_path: Path) -> None:
    """One-hot BCE was the only loss of several outputs once, and files of tasks say so."""
    assert jgleak("attack", "empty", *WORDS, "--path", str(folder), "--out", str(tmp_path)).exit_code == 0
    file = tmp_path / "observations" / "001.safetensors"
    observation, space = load(file)
    save_observation(file, dataclasses.replace(observation, loss="bce"), space)
    lost = " ".join(jgleak("invert", str(file)).stdout.split())
    assert "nothing found" in lost and "if the 2 outputs are tasks of their own, give --loss masked_bce" in lost
    found = jgleak("invert", str(file), "--loss", "masked_bce", "--out", str(tmp_path))
    assert found.exit_code == 0 and "labels - 1" in found.stdout
    assert jgleak("verify", str(tmp_path / "reconstruction.json")).stdout.splitlines()[-1].startswith("holds: ")
    wrong = jgleak("invert", str(file), "--loss", "masked_bce+pos_weight:1")
    assert wrong.exit_code == 2 and "1 entries of pos_weight, this model has 2 outputs" in wrong.stderr


def test_what_the_attacker_is_told_of_labels(folder: Path) -> None:
    """Rows in an order of their own, so that they tell none."""
    fields: dict[str, Any] = {"dataset": "clintox", "task": "all", "path": str(folder), "hidden": 8}
    specification = Specification(**fields, know=("labels",), batch_size=5, attack="random")
    setup = prepare(specification)
    known = client(specification, setup, 0).knowledge.labels
    np.testing.assert_array_equal(known, [[np.nan, 1], [0, np.nan], [0, 1], [1, 0], [1, 1]])  # type: ignore[arg-type]
    for loss, message in (("bce", "task is binary of 2 columns; choose one of masked_bce"), ("mse", "does not fit")):
        with pytest.raises(ValueError, match=message):
            prepare(dataclasses.replace(specification, loss=loss))
    weighted = "masked_bce+pos_weight:1.0,3.0+over:task"
    assert prepare(dataclasses.replace(specification, loss=weighted)).loss == weighted
    nodes = prepare(Specification(**fields, node_task=True))
    assert nodes.dataset.tasks == () and nodes.loss == "bce"


def test_an_audit_takes_all_tasks(folder: Path) -> None:
    grid = f"""
skip_impossible = true
[[data]]
dataset = "clintox"
task = "all"
path = "{folder}"
graphs = 2
[[model]]
hidden = 8
loss = "masked_bce+over:task"
[[attack]]
attack = "census"
[[attack]]
attack = "dlg"
know = ["n"]
[[defense]]
[[defense]]
defense = "gaussian:0.1"
"""
    planned = plan(read_grid(grid))
    impossible = [p.impossible for p in planned]
    assert [bool(reason) for reason in impossible] == [False, False, False, True]
    assert "noise hides which task labels are missing" in str(impossible[-1])
