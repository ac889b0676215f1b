"""Records as JSON lines: on the screen as they come, and in files of ``results/``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"

Record = dict[str, Any]


class Records(list[Record]):
    """The records of one run, in order."""

    def say(self, record: Record) -> None:
        """Print a record and keep it."""
        self.append(record)
        print(json.dumps(record), flush=True)

    def write(self, name: str, page: str | None = None) -> None:
        """All of them into ``results/NAME.jsonl``, their page into ``results/NAME.md``, in place of what was there."""
        RESULTS.mkdir(exist_ok=True)
        lines = "".join(json.dumps(record) + "\n" for record in self)
        (RESULTS / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        if page is not None:
            (RESULTS / f"{name}.md").write_text(page, encoding="utf-8")


def read(file: Path) -> list[Record]:
    """The records of a file; none where there is no such file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]
