"""Archives that grow: refused by what their headers say, before anything is unpacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import pytest

from jgleak import archives
from jgleak.archives import check_growth
from jgleak.interop.arrays import read_arrays


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones: 100,000 bytes, and from 10,000 on at most 5 times."""
    for name, value in (("LARGEST", 100_000), ("SMALL", 10_000), ("PACKED", 5)):
        monkeypatch.setattr(archives, name, value)


@pytest.mark.usefixtures("bounds")
def test_what_grows_beyond_all_bounds_is_refused(tmp_path: Path) -> None:
    for number, (sizes, packing, fine) in enumerate(
        (
            ([10_000], ZIP_DEFLATED, True),  # small, however well packed
            ([5_000, 5_001], ZIP_DEFLATED, False),
            ([50_000, 50_000], ZIP_STORED, True),  # large, and as large packed
            ([50_000, 50_001], ZIP_STORED, False),
        )
    ):
        with ZipFile(tmp_path / f"{number}.zip", "w", packing) as archive:
            for member, size in enumerate(sizes):
                archive.writestr(f"{member}", b"0" * size)
        with ZipFile(tmp_path / f"{number}.zip") as archive:
            if fine:
                check_growth(archive)
                continue
            with pytest.raises(ValueError, match=f"bytes that unpack to {sum(sizes):,}; at most 100,000"):
                check_growth(archive)


@pytest.mark.usefixtures("bounds")
def test_arrays_of_an_archive_that_grows_are_not_read(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"state.a": np.zeros(10_000), "gradient.a": np.zeros(9)}
    np.savez_compressed(tmp_path / "grown.npz", **arrays)
    with pytest.raises(ValueError, match=r"grown\.npz: cannot be read as \.npz \(it holds .* bytes that unpack to 80,"):
        read_arrays(tmp_path / "grown.npz")
