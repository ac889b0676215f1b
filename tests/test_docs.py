"""The pages are true where a machine can tell: examples run, links lead somewhere, every page is in the menu."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", ["adding-a-defence.md", pytest.param("index.md", marks=pytest.mark.slow)])
def test_examples_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict = {}
    for code in blocks(page):
        exec(compile(code, page, "exec"), names)
    if page == "index.md":
        assert "Certificate(" in capsys.readouterr().out and names["found"].best is not None
    else:
        kernel = names["update"]["kernel"]
        assert set(kernel.ravel().tolist()) == {0.0, 2.0}, "entries are dropped or doubled"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_relative_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    missing = [target for target in local if not (page.parent / target).exists()]
    assert not missing


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert f": {name}\n" in menu, f"{name} is not in mkdocs.yml"
    for name in re.findall(r": ([\w/-]+\.md)\n", menu):
        assert (ROOT / "docs" / name).exists(), f"mkdocs.yml names {name}, which does not exist"
