"""Shared fixtures: the real data, when the machine has it, and a cache folder of the test's own."""

from __future__ import annotations

import os
from pathlib import Path

import pooch
import pytest


@pytest.fixture
def data() -> Path:
    """The folder named by JGLEAK_DATA; skips without it."""
    folder = os.environ.get("JGLEAK_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("JGLEAK_DATA does not name a folder with the benchmark data")
    return Path(folder)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no JGLEAK_DATA."""
    monkeypatch.delenv("JGLEAK_DATA", raising=False)
    folder = tmp_path / "cache"
    monkeypatch.setattr(pooch, "os_cache", lambda name: folder)
    return folder
