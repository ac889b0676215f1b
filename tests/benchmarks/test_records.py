"""Records as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.lib import records


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
