"""Passages of a page with holes for their numbers, ``benchmarks/quotes/**/*.toml``, filled and compared.

A hole is ``{FILE/KEY:PATH:FORMAT}``: the field ``PATH`` (names by dots) of the record ``KEY`` in
``results/FILE.jsonl``, written as ``FORMAT`` says (``numbers.py``). ``KEY less OTHER`` are the differences of two
attacks, client by client; a ``*`` in ``KEY`` means the least and the greatest of several records. ``each`` repeats a
passage with other values for its ``$names``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import NamedTuple

from benchmarks.quotes.numbers import shown, value

QUOTES = Path(__file__).parent

HOLE = re.compile(r"\{([\w-]+)/([^{}:]*):([^{}:]+):([^{}]+)\}")

NUMBER = r"(?:[-+.,%\[\] \d]|(?<=\d)e(?=[-\d])|(?<= )to(?= ))+?"
"""What may stand in a hole: 97 % [93, 100], .938 to .985, 4.1e-7; no other words."""

Problem = str


class Quote(NamedTuple):
    """One passage.

    Attributes:
      page: from the repository's root.
      text: with holes.
    """

    page: str
    text: str


class Page(NamedTuple):
    """What one file of ``quotes/`` says of a page.

    Attributes:
      page: from the repository's root.
      quotes: its passages.
      unrecorded: first words of tables whose numbers no record has -> why.
    """

    page: str
    quotes: tuple[Quote, ...]
    unrecorded: Mapping[str, str]


def pages(folder: Path = QUOTES) -> list[Page]:
    """Every page that has quotes."""
    found = []
    for file in sorted(folder.rglob("*.toml")):
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        name, quotes = data["page"], []
        for entry in data.get("quote", ()):
            for names in entry.get("each", ({},)):
                quotes += [Quote(name, Template(entry["text"].strip("\n")).substitute(names))]
        found.append(Page(name, tuple(quotes), {one["table"]: one["why"] for one in data.get("unrecorded", ())}))
    return found


def checked(page: Page, text: str) -> tuple[str, list[Problem]]:
    """The page as the records have it, and what differs.

    A passage has to stand there once. Every row of a table with a number behind its first cell has to be in a passage
    or in a table that ``unrecorded`` names.
    """
    problems, covered = list[Problem](), set[int]()
    for quote in page.quotes:
        try:
            wanted, pattern = filled(quote.text), _pattern(quote.text)
        except (KeyError, TypeError, ValueError) as error:  # no record, no such field or format, nothing in it
            problems.append(f"{page.page}: {quote.text[:80]!r}: {error.args[0]}")
            continue
        found = list(pattern.finditer(text))
        if len(found) != 1:
            problems.append(f"{page.page}: stands there {len(found)} times instead of once: {wanted!r}")
            continue
        (match,) = found
        if match.group() != wanted:
            problems.append(f"{page.page}: has {match.group()!r}, the records {wanted!r}")
            text = text[: match.start()] + wanted + text[match.end() :]
        first = text[: match.start()].count("\n")
        covered |= set(range(first, first + wanted.count("\n") + 1))
    problems += [f"{page.page}: neither record nor reason: {line}" for line in _bare(page, text, covered)]
    gone = [table for table in page.unrecorded if f"\n{table}" not in f"\n{text}"]
    return text, [*problems, *(f"{page.page}: no table begins with {table!r}" for table in gone)]


def filled(text: str) -> str:
    """A passage with its numbers.

    Raises:
      KeyError: there is no such record or field; the message names it.
    """
    return HOLE.sub(lambda hole: shown(value(hole[1], hole[2], hole[3]), hole[4]), text)


def _pattern(text: str) -> re.Pattern[str]:
    """The passage with any numbers."""
    holes = [hole.span() for hole in HOLE.finditer(text)]
    if not holes or holes[0][0] == 0 or holes[-1][1] == len(text):
        raise ValueError("a passage needs a hole, and words before its first and behind its last")
    ends = [0, *(end for span in holes for end in span), len(text)]
    parts = [re.escape(text[a:b]) for a, b in zip(ends[::2], ends[1::2], strict=True)]
    return re.compile(NUMBER.join(parts))


def _bare(page: Page, text: str, covered: set[int]) -> Iterator[str]:
    """Rows of tables with numbers that nothing accounts for."""
    named, before = False, ""
    for number, line in enumerate(text.split("\n")):
        if line.startswith("|") and not before.startswith("|"):
            named = any(line.startswith(table) for table in page.unrecorded)
        inner = line.strip("|").partition("|")[2]
        if line.startswith("|") and not named and number not in covered and re.search(r"\d", _plain(inner)):
            if before.startswith("|"):  # below the head
                yield line
        before = line


def _plain(cells: str) -> str:
    """Cells without what is code: names and commands."""
    return re.sub(r"`[^`]*`", "", cells)
