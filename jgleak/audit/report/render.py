"""From an audit's folder to one HTML page or one Markdown file, the same bytes for the same store."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from jgleak.audit.report.gallery import gallery
from jgleak.audit.report.plots import defence_figure, sets_figure, size_figure
from jgleak.audit.report.rows import TRIVIAL, Estimate, Row, clients, panels, rows
from jgleak.audit.report.summary import summary
from jgleak.audit.report.tables import EXACT, MEASURES, SETS, STATUSES, by_seed, by_size, leaks, sets, symbols
from jgleak.audit.report.threat import assumptions
from jgleak.audit.results import Audit, Unit, open_audit

SUFFIXES = {".html": "report.html.jinja", ".md": "report.md.jinja"}
"""Formats by the suffix of the file to write, with their templates."""

MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~$&])")
"""What Markdown, or the HTML inside it, would read as something else than text."""


def write_report(folder: Path, file: Path, *, pictures: bool = True) -> None:
    """Write the report on the audit in ``folder``; the suffix of ``file``, ``.html`` or ``.md``, chooses the format.

    Args:
      folder: what `jgleak audit --out` wrote, finished or not.
      file: the file to write, anew where there is one.
      pictures: show private graphs beside their reconstructions, with their names; without, the page holds rates alone.

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
    """The page: everything on it is in it, and nothing in it runs.

    Args:
      audit: the store's content.
      folder: where the private graphs and the reconstructions lie; None leaves pictures and names out.
    """
    page = jinja2.Environment(autoescape=True, **_options())
    walls = None if folder is None else gallery(folder, rows(audit))
    return page.get_template(SUFFIXES[".html"]).render(**_content(audit), walls=walls, **_figures(audit))


def render_markdown(audit: Audit) -> str:
    """The same words and tables without plots, pictures and names."""
    page = jinja2.Environment(autoescape=False, finalize=_markdown, **_options())
    return page.get_template(SUFFIXES[".md"]).render(**_content(audit))


def _options() -> dict[str, Any]:
    return {
        "loader": jinja2.PackageLoader("jgleak.audit.report", "."),
        "undefined": jinja2.StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
    }


def _content(audit: Audit) -> dict[str, Any]:
    """What both templates are filled with."""
    found = rows(audit)
    table = leaks(found)
    groups = panels(found)
    return {
        "audit": audit,
        "summary": summary(audit, table),
        "measures": MEASURES,
        "leaks": {id(leak.row): leak for leak in table},
        "panels": groups,
        "sizes": [(row, by_size(row, EXACT)) for row in found if row.done],
        "seeds": [(row, by_seed(row)) for row in found if len({u.cell["seed"] for u in row.units}) > 1],
        "sets": sets(found),
        "set_names": [name for name, _, _ in SETS],
        "statuses": STATUSES,
        "assumptions": [assumptions(panel) for panel in groups],
        "ended": _ended(found),
        "facts": _facts(audit),
        "trivial": sorted(TRIVIAL),
        "key": id,
        "clients": clients,
        "mean": _mean,
        "interval": _interval,
        "cell": _cell,
        "defense": lambda row: "none" if row.undefended else row.defense,
        "named": lambda row: f"{row.data}, {row.model}, {row.attack}, {'no defence' if row.undefended else row.defense}",
        "fenced": _fenced,
        "symbols": symbols,
    }


def _figures(audit: Audit) -> dict[str, Any]:
    found = rows(audit)
    return {
        "size_figure": size_figure(found),
        "defence_figure": defence_figure(leaks(found)),
        "sets_figure": sets_figure(sets(found)),
    }


def _ended(found: Sequence[Row]) -> list[tuple[Row, str, str, int]]:
    """Failures and skips: row, status, the reason's last line, how often."""
    counted: dict[tuple[int, str, str], int] = {}
    by_id = {id(row): row for row in found}
    for row in found:
        for unit in (*row.of("failed"), *row.of("skipped")):
            lines = (unit.reason or "no reason was stored").strip().splitlines()
            key = id(row), unit.status, lines[-1]
            counted[key] = counted.get(key, 0) + 1
    return [(by_id[key], status, reason, times) for (key, status, reason), times in counted.items()]


def _facts(audit: Audit) -> dict[str, str]:
    """What it takes to run the audit again, and what it ran on."""
    units = audit.units
    versions = sorted({f"{name} {version}" for unit in units for name, version in unit.versions.items()})
    seeds = dict.fromkeys(unit.cell["seed"] for unit in units)
    times = sorted(unit.finished_at for unit in units)
    return {
        "Devices": _words(units, lambda unit: unit.device),
        "Versions": ", ".join(versions) or "none",
        "Seeds": ", ".join(seeds) or "none",
        "Finished": "nothing yet" if not times else f"{times[0]} to {times[-1]}",
        "Time in attacks": f"{sum(unit.seconds for unit in units):,.0f} s",
    }


def _words(units: Sequence[Unit], word: Callable[[Unit], str]) -> str:
    return ", ".join(dict.fromkeys(map(word, units))) or "none"


def _mean(estimate: Estimate, rate: bool = True) -> str:
    return f"{estimate.mean:.3f}" if rate else f"{estimate.mean:.2g}"


def _interval(estimate: Estimate, rate: bool = True) -> str:
    low, high = estimate.low, estimate.high
    return f"{low:.3f}–{high:.3f}" if rate else f"{low:.2g} to {high:.2g}"


def _cell(estimate: Estimate | None, rate: bool = True, of: int | None = None) -> str:
    """Mean and interval on one line; how many clients, where these are fewer than ``of``."""
    if estimate is None:
        return "-"
    fewer = "" if of is None or estimate.clients == of else f", {estimate.clients} clients"
    return f"{_mean(estimate, rate)} ({_interval(estimate, rate)}{fewer})"


def _markdown(value: Any) -> Any:
    """Every value that a template prints, as text on one line; what is marked as safe passes."""
    if isinstance(value, Markup):
        return value
    return MARKDOWN.sub(r"\\\1", " ".join(str(value).split()))


def _fenced(text: str) -> Markup:
    """A code block that no text inside can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}toml\n{text.rstrip()}\n{fence}")
