"""From an audit's folder to one HTML page or one Markdown file, the same bytes for the same store."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from jgleak.audit.report.content import content
from jgleak.audit.report.gallery import gallery
from jgleak.audit.report.plots import defence_figure, sets_figure, size_figure
from jgleak.audit.report.rows import Estimate
from jgleak.audit.report.tables import symbols
from jgleak.audit.results import Audit, open_audit
from jgleak.plural import counted

SUFFIXES = {".html": "report.html.jinja", ".md": "report.md.jinja"}
"""Formats by the suffix of the file to write, with their templates."""

WHOLE = 24
"""Characters of a piece of a name that is never broken; a longer one may be too wide for a phone."""

WHOLE_PIECE = Markup('<span class="whole">{}</span>')

MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~$&])")
"""Characters that Markdown, or HTML inside it, would not read as text."""


def write_report(folder: Path, file: Path, *, pictures: bool = True) -> None:
    """Write the report on the audit in ``folder``; the suffix of ``file``, ``.html`` or ``.md``, chooses the format.

    Args:
      folder: what `jgleak audit --out` wrote, finished or not.
      file: the file to write; an existing one is replaced.
      pictures: show private graphs beside their reconstructions, with their names; otherwise the page holds rates
        alone.

    Raises:
      ValueError: no store or a broken one, another suffix, or a file that cannot be written.
    """
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"out: the suffix chooses the format, .html or .md, got {file.name!r}")
    audit = open_audit(folder)
    text = render_html(audit, folder if pictures else None) if suffix == ".html" else render_markdown(audit)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"out: cannot write {file} ({error.strerror}); choose another file") from error


def render_html(audit: Audit, folder: Path | None = None) -> str:
    """The page as one self-contained file without scripts.

    Args:
      audit: the store's content.
      folder: where the private graphs and the reconstructions lie; None leaves pictures and names out.
    """
    template = _environment(markdown=False).get_template(SUFFIXES[".html"])
    filled = content(audit)
    return template.render(
        filled,
        size_figure=size_figure(filled["rows"]),
        defence_figure=defence_figure(filled["table"]),
        sets_figure=sets_figure(filled["sets"]),
        walls=None if folder is None else gallery(folder, filled["rows"]),
    )


def render_markdown(audit: Audit) -> str:
    """The same words and tables without plots, pictures and names."""
    return _environment(markdown=True).get_template(SUFFIXES[".md"]).render(content(audit))


@cache
def _environment(markdown: bool) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jgleak.audit.report", "."),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=not markdown,
        finalize=_markdown if markdown else None,
    )
    environment.globals |= {"mean": _mean, "interval": _interval, "cell": _cell, "fenced": _fenced, "symbols": symbols}
    environment.globals |= {"counted": counted, "broken": _broken}
    return environment


def _mean(estimate: Estimate, rate: bool = True) -> str:
    return f"{estimate.mean:.3f}" if rate else _rounded(estimate.mean)


def _interval(estimate: Estimate, rate: bool = True) -> str:
    low, high = estimate.low, estimate.high
    return f"{low:.3f}–{high:.3f}" if rate else f"{_rounded(low)} to {_rounded(high)}"


def _rounded(number: float) -> str:
    """Two significant figures, in powers of ten where the number is far from 1."""
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", f"{number:.2g}").replace("e+", "e")


def _cell(estimate: Estimate | None, rate: bool = True, of: int | None = None) -> str:
    """Mean and interval on one line; how many graphs, where these are fewer than ``of``."""
    if estimate is None:
        return "-"
    fewer = "" if of is None or estimate.graphs == of else f", {counted(estimate.graphs, 'graph')}"
    return f"{_mean(estimate, rate)} ({_interval(estimate, rate)}{fewer})"


def _broken(name: str) -> Markup:
    """A name that may be broken after a colon or a plus, and not within a number (``1e-3``)."""
    pieces = (piece if len(piece) > WHOLE else WHOLE_PIECE.format(piece) for piece in re.split(r"(?<=[:+])", name))
    return Markup("<wbr>").join(pieces)


def _markdown(value: Any) -> Any:
    """Escape a value that a template prints, as text on one line; values marked as safe are unchanged."""
    if isinstance(value, Markup):
        return value
    return MARKDOWN.sub(r"\\\1", " ".join(str(value).split()))


def _fenced(text: str) -> Markup:
    """A code block that no text inside can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}toml\n{text.rstrip()}\n{fence}")
