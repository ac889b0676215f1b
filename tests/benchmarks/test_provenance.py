"""Every stored number says where it comes from."""

from __future__ import annotations

import datetime
import json
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = "import json; from benchmarks.lib.provenance import provenance; print(json.dumps(provenance()))"


def test_the_command_is_what_was_typed(tmp_path: Path) -> None:
    (tmp_path / "study.py").write_text(SCRIPT)
    arguments = ["--rows", "a b", "--write"]
    paths = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": ""}
    run = [sys.executable, "-m", "study", *arguments]
    said = json.loads(subprocess.run(run, env=paths, capture_output=True, check=True, text=True).stdout)
    assert shlex.split(said["command"]) == ["python", "-m", "study", *arguments]
    assert datetime.date.fromisoformat(said["date"])
    assert said["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"jgleak", "jax", "numpy"} <= set(said["versions"]) and len(said["sources"]) == 16
