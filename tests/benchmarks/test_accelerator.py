"""The accelerator's page: the device beside the CPU, or the CPU alone."""

from __future__ import annotations

from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Record
from benchmarks.speed.accelerator import document
from jgleak.version import __version__


def _record(platform: str, rate: float, share: float | None) -> Record:
    about = {"what": "filter", "unit": "candidates/s", "rate": rate, "of_peak": share, "platform": platform}
    return (
        about
        | {
            "device": f"a {platform}",
            "devices": 1,
            "peak_flops": 2e12,
            "peak_by": "a product",
        }
        | {**provenance(), "host": "a host"}
    )


def test_the_device_stands_beside_the_cpu() -> None:
    page = document([_record("gpu", 4e9, 0.25), _record("cpu", 2e8, 0.5)])
    assert "| filter | candidates/s | 4,000,000,000 | 25 % | 200,000,000 | 50 % | 20.0 |" in page
    assert f"- gpu: 1 x a gpu, peak 2,000 Gflop/s by a product; host a host; jgleak {__version__}." in page


def test_without_a_device_the_cpu_stands_alone() -> None:
    page = document([_record("cpu", 2.5, None)])
    assert "| filter | candidates/s | none here |  | 2.5 |  |  |" in page and "- gpu" not in page
