"""Records as JSON lines: on the screen as they come, and in a file of ``results/`` at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


class Lines(list[dict[str, Any]]):
    """The records of one run, in order."""

    def say(self, record: dict[str, Any]) -> None:
        """Print a record and keep it."""
        self.append(record)
        print(json.dumps(record), flush=True)

    def write(self, name: str) -> None:
        """All of them into ``results/NAME.jsonl``, in place of what was there."""
        RESULTS.mkdir(exist_ok=True)
        lines = "".join(json.dumps(record) + "\n" for record in self)
        (RESULTS / f"{name}.jsonl").write_text(lines, encoding="utf-8")
