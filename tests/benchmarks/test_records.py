"""Records as JSON lines."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks.lib import records
from benchmarks.lib.recovered import recovered
from jgleak.metrics import rate


def test_what_was_said_is_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(records, "RESULTS", tmp_path / "results")
    said = records.Records()
    said.say({"host": "h"})
    said.say({"exact": 0.5})
    said.write("run", "the page")
    written = (tmp_path / "results" / "run.jsonl").read_text(encoding="utf-8")
    assert written == capsys.readouterr().out
    assert [json.loads(line) for line in written.splitlines()] == said == [{"host": "h"}, {"exact": 0.5}]
    assert records.read(tmp_path / "results" / "run.jsonl") == said and records.read(tmp_path / "none.jsonl") == []
    assert (tmp_path / "results" / "run.md").read_text(encoding="utf-8") == "the page"


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records of an earlier run, in its order."""
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    earlier = ({"row": "b", "epochs": 20, "exact": 1}, {"row": "a", "epochs": 5, "exact": 2})
    (tmp_path / "study.jsonl").write_text("".join(json.dumps(one) + "\n" for one in earlier))
    return tmp_path / "study.jsonl"


def _kept(*, write: bool) -> records.Kept:
    return records.Kept("study", {"row": ("b", "a"), "epochs": None}, lambda lines: f"{len(lines)} rows", write=write)


def test_a_row_measured_again_replaces_its_record_and_others_stay_in_order(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, again, new = _kept(write=True), {"row": "b", "epochs": 20, "exact": 9}, {"row": "b", "epochs": 3, "exact": 4}
    assert {"row": "a", "epochs": 5} in kept and {"row": "a", "epochs": 20} not in kept
    kept.put(again)
    kept.put(new)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said == [again, new]
    assert list(kept) == records.read(stored) == [new, again, {"row": "a", "epochs": 5, "exact": 2}]
    assert stored.with_suffix(".md").read_text() == "3 rows"


def test_rates_of_recovered_graphs_count_updates() -> None:
    one = {"certificate": None, "truth_in_set": True, "stop": "match", "n_nodes": 5, "failure": None, "seconds": 1.0}
    graphs = [{**one, "exact": place < 6} for place in range(12)]
    for size in (1, 4):
        found, wanted = (
            recovered(graphs, (), size=size),
            rate([1.0] * 6 + [0.0] * 6, clusters=[i // size for i in range(12)]),
        )
        assert found["exact"] == dataclasses.asdict(wanted)
    assert recovered(graphs, (), size=4)["truth_in_set"]["low"] == pytest.approx(0.025 ** (1 / 3))


def test_nothing_is_written_or_said_unless_asked(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = stored.read_bytes()
    kept = _kept(write=False)
    kept.put({"row": "a", "epochs": 5, "exact": 3}, say=False)
    assert [one["exact"] for one in kept] == [1, 3] and capsys.readouterr().out == ""
    assert stored.read_bytes() == before and not stored.with_suffix(".md").exists()
