"""What may be imported from jgleak: docs/api/index.md, and names with signatures in tests/public_api.txt.

Public is what a package passes on (``from jgleak.x import Y as Y``) and what the pages of docs/api show. The code is
read and not imported, so that signatures are those of the source. ``python -m benchmarks.check --quick --write`` renews
both files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import griffe

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "api"

ABOUT = """\
# Public names

All that programs may import from jgleak, by module. A name that is not here may change in any version. One that is here
is renamed or taken away only after a minor version in which it still works and warns (`DeprecationWarning`).
`tests/public_api.txt` has the signatures, and a test compares them.
"""


class Name(NamedTuple):
    """One public name.

    Attributes:
      home: the module that it is imported from.
      name: there.
      what: the object, where it is defined.
    """

    home: str
    name: str
    what: griffe.Object


def document() -> str:
    """The page of names."""
    shown = documented()
    parts, home = [ABOUT], ""
    short = {one.what.path: one for one in sorted(public(), key=lambda one: one.home.count("."), reverse=True)}
    for one in public():
        if one is not short[one.what.path]:  # it is imported from a place nearer to the top
            continue
        if one.home != home:
            home = one.home
            parts.append(f"\n## `{home}`\n\n| name | |\n|---|---|\n")
        page = shown.get(one.what.path) or shown.get(one.what.module.path)
        linked = page and one.what.docstring is not None  # pages leave out what has no docstring
        link = f"[`{one.name}`]({page}#{one.what.path})" if linked else f"`{one.name}`"
        parts.append(f"| {link} | {_summary(one.what)} |\n")
    return "".join(parts)


def signatures() -> str:
    """Every name with the object that it stands for, then every object with its signature and its public members."""
    names = [
        f"{one.home}.{one.name} = {one.what.path}" for one in public() if one.home != one.what.path.rpartition(".")[0]
    ]
    objects = {one.what.path: one.what for one in public()}
    lines = [line for path in sorted(objects) for line in _lines(objects[path], path)]
    return "\n".join([*names, "", *lines]) + "\n"


@cache
def public() -> tuple[Name, ...]:
    """Every public name, by module."""
    package = griffe.load("jgleak", search_paths=[ROOT])
    found = list[Name]()
    for module in (package, *_modules(package)):
        if module.path == "jgleak.cli":  # docs/cli.md has it
            continue
        whole = module.path in documented()
        for name, member in module.members.items():
            if name.startswith("_") and name != "__version__":
                continue
            if isinstance(member, griffe.Alias):
                if module.is_init_module and member.target_path.startswith("jgleak."):
                    target = member.final_target
                    if not isinstance(target, griffe.Module):
                        found.append(Name(module.path, name, target))
            elif not isinstance(member, griffe.Module) and (whole or f"{module.path}.{name}" in documented()):
                found.append(Name(module.path, name, member))
    return tuple(sorted(found, key=lambda one: (one.home, one.name.lower(), one.name)))


@cache
def documented() -> dict[str, str]:
    """What the pages of docs/api show, modules and single objects, with the page."""
    return {
        path: page.name
        for page in sorted(PAGES.glob("*.md"))
        for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }


def _modules(module: griffe.Object | griffe.Alias) -> Iterator[griffe.Module]:
    for member in module.members.values():
        if isinstance(member, griffe.Module):
            yield member
            yield from _modules(member)


def _lines(what: griffe.Object | griffe.Alias, path: str) -> Iterator[str]:
    if isinstance(what, griffe.Attribute):
        yield path if what.annotation is None else f"{path}: {what.annotation}"
    elif isinstance(what, griffe.Function):
        yield what.signature(name=path)
    elif isinstance(what, griffe.Class):
        yield what.signature(name=path)
        given = {parameter.name for parameter in what.parameters}
        for name, member in what.members.items():
            if not (name.startswith("_") or name in given or isinstance(member, griffe.Alias)):
                yield from _lines(member, f"{path}.{name}")


def _summary(what: griffe.Object) -> str:
    """The first sentence of an object's docstring; no sentence ends at an abbreviation."""
    text = "" if what.docstring is None else what.docstring.value.split("\n\n")[0]
    sentence = re.split(r"(?<=[.])(?<!\bal\.)(?<!\beq\.)\s(?=[^a-z])", " ".join(text.split()))[0].rstrip(":")
    return sentence.replace("``", "`").replace("|", "\\|")
