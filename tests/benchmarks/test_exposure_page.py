"""The page of ``jgleak check`` shows what the command prints today."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from benchmarks import exposure_page
from jgleak.cli import app
from jgleak.exposure.reading import DEPLOYED

PAGE = exposure_page.PAGE.read_text(encoding="utf-8")


def test_the_page_has_what_is_printed_of_every_deployed_model() -> None:
    _, mark, generated = PAGE.partition(exposure_page.MARK)
    assert mark and generated == exposure_page.generated(), "python -m benchmarks.exposure_page --write"
    shown = dict(re.findall(r"### ([\w-]+)\n\n```text\n(.*?)```\n", generated, re.DOTALL))
    assert list(shown) == list(DEPLOYED) and len(shown) == 8
    for name in ("openfgl-gin", "fedml-gcn"):
        assert CliRunner().invoke(app, ["check", name]).stdout == shown[name]


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"<!-- test: check -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "check.md", "exec"), {})
    said = capsys.readouterr().out
    assert "input-rows" in said and "fact:feature_values" in said
