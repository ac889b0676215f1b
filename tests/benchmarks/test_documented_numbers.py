"""One command for the README's numbers: its jobs are real commands, and what ended well is not run again."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import documented_numbers

ROOT = Path(__file__).parents[2]


def test_jobs_name_scripts_and_pages_that_exist() -> None:
    assert len({job.name for job in documented_numbers.JOBS}) == len(documented_numbers.JOBS)
    for job in documented_numbers.JOBS:
        assert (ROOT / job.page).is_file(), job.name
        assert job.command[0] == "-m" and find_spec(job.command[1]) is not None


def test_a_failure_stops_nothing_and_what_is_done_stays_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(command: list[str], **options: Any) -> SimpleNamespace:
        ran.append(command[2])
        return SimpleNamespace(returncode=int("noise" in command[2] and len(ran) < 3))

    monkeypatch.setattr(subprocess, "run", run)
    arguments = ["--only", "noise,sums", "--out", str(tmp_path)]
    first = CliRunner().invoke(documented_numbers.app, arguments)
    assert first.exit_code == 1 and "failed: noise" in first.output and len(ran) == 2
    noted = [json.loads(line)["job"] for line in (tmp_path / "done.jsonl").read_text().splitlines()]
    assert noted == ["sums"]
    assert CliRunner().invoke(documented_numbers.app, arguments).exit_code == 0
    assert len(ran) == 3 and "noise" in ran[2], "the sums are not summed again"
    monkeypatch.setattr(documented_numbers, "sources", lambda: "other code")
    assert CliRunner().invoke(documented_numbers.app, arguments).exit_code == 0
    assert len(ran) == 5, "other code measures both again"


def test_a_table_without_its_data_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"row": "a", "attack": "dlg", "absent": "it refuses"}, {"row": "b", "attack": None, "absent": "no file"}]

    def run(command: list[str], stdout: Any, **options: Any) -> SimpleNamespace:
        stdout.write("".join(json.dumps(row) + "\n" for row in rows))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    arguments = ["--only", "fedgig", "--out", str(tmp_path)]
    assert CliRunner().invoke(documented_numbers.app, arguments).exit_code == 1
    assert not (tmp_path / "done.jsonl").exists()
    rows.pop()
    assert CliRunner().invoke(documented_numbers.app, arguments).exit_code == 0, (
        "an attack that refuses a row is an answer"
    )


def test_an_unknown_job_is_a_mistake() -> None:
    found = CliRunner().invoke(documented_numbers.app, ["--only", "everything", "--list"])
    assert found.exit_code == 2 and "there is no 'everything'" in found.output
