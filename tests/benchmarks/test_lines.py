"""Records as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lines


def test_what_was_said_is_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lines, "RESULTS", tmp_path / "results")
    said = lines.Lines()
    said.say({"host": "h"})
    said.say({"exact": 0.5})
    said.write("run")
    written = (tmp_path / "results" / "run.jsonl").read_text(encoding="utf-8")
    assert written == capsys.readouterr().out
    assert [json.loads(line) for line in written.splitlines()] == said == [{"host": "h"}, {"exact": 0.5}]
