"""The benchmark of encryption at a tiny size: sums agree, and popularity gives items away as it should."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
from typer.testing import CliRunner

from benchmarks.speed import encryption_cost


def test_every_part_runs(tmp_path: Path) -> None:
    ratings = np.arange(12)[:, None] >= np.arange(6)  # item i has 12 - i raters: popularity tells all
    with h5py.File(tmp_path / "tiny.mat", "w") as file:
        file["M"] = (5.0 * ratings).T
    options = ["--width", "8", "--neighbours", "2", "--bits", "256", "--clients", "2", "--rows", "2"]
    found = CliRunner().invoke(encryption_cost.app, [str(tmp_path / "tiny.mat"), *options])
    assert found.exit_code == 0, found.output
    head, expansion, attack, packed, single = map(json.loads, found.output.splitlines())
    assert (head["users"], head["ratings"]) == (12, int(ratings.sum()))
    assert expansion["neighbours_a_user"] > 1
    assert attack["own"] == 1.0
    assert (packed["slots"], packed["ciphertexts"], single["slots"], single["ciphertexts"]) == (7, 4, 1, 10)
    assert packed["extrapolated"]["all_items"]["client_uploads_megabytes"] == round(6 * 2 * 64 / 1e6, 3)
