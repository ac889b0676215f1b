"""The benchmark of encryption at a tiny size: sums agree, and popularity gives items away as it should."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.speed import encryption_cost
from jgleak.ratings import Ratings, RatingSplit


def test_every_part_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    rated = np.arange(12)[:, None] >= np.arange(6)  # item i has 12 - i raters: popularity tells all
    users, items = np.nonzero(rated)
    every = Ratings(users, items, np.full(len(users), 5.0), 12, 6, (5.0,))
    held_out = np.arange(len(users)) % 3 == 0
    split = RatingSplit("tiny", every.take(~held_out), every.take(held_out))
    asked: Any = {"tiny": split}
    monkeypatch.setattr(encryption_cost, "load_ratings", asked.__getitem__)
    options = ["--sets", "tiny", "--width", "8", "--neighbours", "2", "--bits", "256", "--clients", "2", "--rows", "2"]
    found = CliRunner().invoke(encryption_cost.app, options)
    assert found.exit_code == 0, found.output
    head, size, expansion, attack, packed, single = map(json.loads, found.output.splitlines())
    assert "command" in head and {one["set"] for one in (size, expansion, attack, packed, single)} == {"tiny"}
    assert (size["users"], size["ratings"]) == (12, int(rated.sum()))
    assert expansion["neighbours_a_user"] > 1
    assert attack["own"] == 1.0
    assert (packed["slots"], packed["ciphertexts"], single["slots"], single["ciphertexts"]) == (7, 4, 1, 10)
    assert packed["extrapolated"]["all_items"]["client_uploads_megabytes"] == round(6 * 2 * 64 / 1e6, 3)
