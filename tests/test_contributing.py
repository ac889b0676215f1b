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
    found, alone = names["found"], names["DECIDED"].configure({"steps": "1"})
    first = alone.on_many(names["seen"], names["known"], keys=names["keys"], budget=names["Budget"]())
    losses = [[one.info["matching_loss"] for one in each] for each in (found, first)]
    assert all(later < sooner for later, sooner in zip(*losses, strict=True))
