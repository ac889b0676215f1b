"""The guide's worked example is real: it runs, it comes closer, and it stays short."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def blocks() -> dict[str, str]:
    return dict(re.findall(r"<!-- test: (\w+) -->\n```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL))


def test_the_worked_example_runs() -> None:
    code = blocks()
    assert sum(part.count("\n") for part in code.values()) < 80
    names: dict = {}
    exec(compile(code["recipe"] + code["run"], str(GUIDE), "exec"), names)
    traced = names["DECIDED"].configure({"restarts": 2}).many  # as the guide runs it, so that nothing compiles again
    again = traced(names["seen"], names["known"], keys=names["keys"], budget=names["Budget"](), trace=True)
    for found, one in zip(names["found"], again, strict=True):
        assert found.info["matching_loss"] < min(trace[0] for trace in one.info["trace"])
