"""The pages are true where a machine can tell: examples run, commands exist, links lead somewhere, every page is in the
menu.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import struct
from pathlib import Path
from typing import NamedTuple

import jax
import pytest
import typer

from jgleak import fedsgd, standard
from jgleak.cli import app
from jgleak.datasets import load
from jgleak.federated.observation import serialise

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
EVERYWHERE = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

HERE = ("docs/adding-a-defence.md", "docs/check.md", "docs/defenses.md", "docs/index.md", "README.md")
"""Pages whose examples run as they stand."""

ELSEWHERE = {
    "CONTRIBUTING.md": "tests/test_contributing.py",
    "docs/adding-a-dataset.md": "tests/datasets/test_guide.py",
    "docs/adding-a-model.md": "tests/gnn/test_guide.py",
    "docs/auditing.md": "tests/audit/test_audit.py",
    "docs/bring-your-own-model.md": "tests/interop/test_guide.py",
    "docs/recording.md": "tests/interop/test_guide.py",
}
"""Pages whose examples need a file, a client, or a model of another framework, and the tests that have them."""

MARKED = re.compile(r"(?:<!-- test: (\w+) -->\n)?```python\n(.*?)```", re.DOTALL)
"""A block and the name under which a test runs it, where it has one."""

UNFINISHED = "import torch"
"""Where an example needs a module of the reader's own, it is not run here; another page's test runs the same lines."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", HERE)
def test_examples_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict = {}
    for code in blocks(ROOT / page, "python"):
        if UNFINISHED not in code:
            exec(compile(code, page, "exec"), names)
    printed = capsys.readouterr().out
    if page in ("docs/index.md", "README.md"):
        assert "explain" in printed or "were not excluded" in printed, printed
        assert names["found"].best is not None
    elif page == "docs/check.md":
        assert "input-rows The update shows which feature values occur" in printed
    elif page == "docs/defenses.md":
        assert "epsilon" in printed
    else:
        assert set(names["update"]["kernel"].ravel().tolist()) == {0.0, 2.0}, "entries are dropped or doubled"


def test_every_example_has_a_test() -> None:
    for page in EVERYWHERE:
        name = page.relative_to(ROOT).as_posix()
        if blocks(page, "python"):
            assert (name in HERE) != (name in ELSEWHERE), name
    for name, test in ELSEWHERE.items():
        named = MARKED.findall((ROOT / name).read_text(encoding="utf-8"))
        marks, used = [mark for mark, _ in named if mark], _used(ROOT / test)
        assert Path(name).name in used.strings and "exec" in used.calls, f"{test} does not run blocks of {name}"
        assert len(marks) in (0, len(named)) and len(set(marks)) == len(marks), f"{name}: blocks without a name"
        run = set[str]().union(*(_used(file).first for file in (ROOT / test).parent.glob("test_*.py")))
        assert not set(marks) - run, f"{name}: no test beside {test} runs these blocks"


class Used(NamedTuple):
    """What a test runs: the first arguments of its calls, other strings, and the functions that it calls by name."""

    first: set[str]
    strings: set[str]
    calls: set[str]


def _used(file: Path) -> Used:
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    calls = [
        (node.func.id, node.args) for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    asked = [node.slice for node in nodes if isinstance(node, ast.Subscript)]
    first = [*(args[0] for name, args in calls if name == "run" and args), *asked]
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    constants = {node.value for node in first if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return Used(constants, strings, {name for name, _ in calls})


@pytest.mark.parametrize("page", [page for page in EVERYWHERE if blocks(page, "python")], ids=lambda p: p.name)
def test_examples_import_what_exists(page: Path) -> None:
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jgleak"):
                if node.module in ("jgleak.interop.flower", "jgleak.interop.nvflare"):
                    continue  # they import their frameworks
                namespace: dict = {}
                exec(compile(ast.Module([node], []), page.name, "exec"), namespace)


def commands(page: Path) -> list[str]:
    """The lines that call jgleak, without what surrounds them in a shell."""
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    calls = [re.split(r" && | \|\| | ;", line) for line in lines]
    return [call.strip() for line in calls for call in line if call.strip().startswith("jgleak ")]


@pytest.mark.parametrize("page", [page for page in EVERYWHERE if commands(page)], ids=lambda p: p.name)
def test_commands_are_understood(page: Path) -> None:
    group = typer.main.get_group(app)
    for line in commands(page):
        _, name, *words = shlex.split(line, comments=True)
        command = group.get_command(group.make_context("jgleak", [name]), name)
        assert command is not None, line
        command.make_context(name, words)  # it raises a usage error where an option or a value is not known


@pytest.mark.parametrize("page", EVERYWHERE, ids=lambda p: p.name)
def test_relative_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    missing = [target for target in local if not (page.parent / target).exists()]
    assert not missing


def test_formulas_are_code_and_not_tex() -> None:
    """The site has no script that would set TeX; GitHub and the terminal have none either."""
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    for file in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        texts[file.name] = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    for name, text in texts.items():
        prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
        assert not re.search(r"\$\$|\$[^$\n]+\$|\\\(", prose), name


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    tutorials = [ROOT / "docs" / "tutorials" / file.name for file in (ROOT / "notebooks").glob("*.ipynb")]
    for page in (*PAGES, *tutorials):
        name = page.relative_to(ROOT / "docs").as_posix()
        assert f": {name}\n" in menu, f"{name} is not in mkdocs.yml"
    for name in re.findall(r": ([\w/-]+\.(?:md|ipynb))\n", menu):
        assert (ROOT / "docs" / name).exists(), f"mkdocs.yml names {name}, which does not exist"


def test_the_page_of_formats_has_every_field_of_the_header() -> None:
    data = load("embedded", graphs=1, max_nodes=6)
    model = standard(data.space.width, hidden=4)
    seen = fedsgd(model, model.initial(key=jax.random.key(0)), data.graphs, data.space, loss="bce")
    text = serialise(seen, data.space)
    header = json.loads(text[8 : 8 + struct.unpack("<Q", text[:8])[0]])["__metadata__"]["jgleak"]
    page = (ROOT / "docs" / "file-formats.md").read_text(encoding="utf-8")
    for field in json.loads(header):
        assert f"| `{field}` |" in page, field
