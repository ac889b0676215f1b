"""Plots as inline SVG: colours and type come from the page's style sheet, every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from jgleak.audit.record import SIZES
from jgleak.audit.report.rows import Estimate, Panel, Row, panels
from jgleak.audit.report.tables import EXACT, GSM2, SETS, STATUSES, LeakRow, Measure, Sets, by_size, symbols
from jgleak.plural import counted

WIDTH = 360
"""Width of a plot: about the pixels of a phone, so that its text is never scaled down."""

COLOURS = 8
"""Number of series colours in the style sheet; further series repeat them with other marks."""

WIDEST = 64
"""Width of the widest bar of a histogram."""

LONGEST = 52
"""Characters of a label that fit; the full label is in the element's title."""

TEXT = Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>')
LINE = Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>')
MARKS = (
    Markup('<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'),
    Markup('<rect x="{w:.1f}" y="{n:.1f}" width="7" height="7"/>'),
    Markup('<path d="M{x:.1f},{n:.1f}l4.5,7.5h-9z"/>'),
    Markup('<path d="M{x:.1f},{n:.1f}m0,-1.5l5,5l-5,5l-5,-5z"/>'),
)


class Plot(NamedTuple):
    """One small plot with its heading."""

    title: str
    svg: Markup


class Figure(NamedTuple):
    """Plots that share a legend of name and swatch."""

    legend: list[tuple[str, Markup]]
    plots: list[Plot]


def size_figure(found: Sequence[Row]) -> Figure:
    """Exact rate and GSM-2 by the size of the graph, where there is no defence (or under each panel's first one)."""
    order, plots, shown = _order(found), [], []
    for panel in panels([row for row in found if row.done]):
        first = next((row.defense for row in panel.rows if row.undefended), panel.rows[0].defense)
        chosen = [row for row in panel.rows if row.defense == first]
        shown += chosen
        for measure in (EXACT, GSM2):
            title = f"{_panel(panel, found)}{measure.name} by size, {chosen[0].under}"
            plots.append(Plot(title, _sizes(chosen, measure, order, title)))
    return Figure(_legend(shown, order), plots)


def defence_figure(found: Sequence[LeakRow]) -> Figure:
    """Exact rate and GSM-2 of every attack under every defence."""
    order, plots = _order([leak.row for leak in found]), []
    leaks = {leak.row.key: leak for leak in found if leak.done}
    for panel in panels([leak.row for leak in found if leak.done]):
        for measure in (EXACT, GSM2):
            title = f"{_panel(panel, [leak.row for leak in found])}{measure.name} by defence"
            lanes = [(row, leaks[row.key].estimates[measure.name]) for row in panel.rows]
            plots.append(Plot(title, _defences(lanes, order, title)))
    return Figure(_legend([leak.row for leak in leaks.values()], order), plots)


def sets_figure(found: Sequence[Sets]) -> Figure:
    """How many graphs explain an update equally well: certificates by status and size."""
    rows = [one.row for one in found]
    plots, bins = [], _bins(found)
    for one in found:
        title = f"{_panel(one.row, rows)}{one.row.attack}, {one.row.under}"
        plots.append(Plot(title, _histogram(one, bins, title)))
    names = [*STATUSES, "no certificate"]
    swatches = [Markup('<rect x="1" y="1" width="10" height="10" class="set{}"/>').format(i) for i in range(len(names))]
    return Figure(list(zip(names, swatches, strict=True)), plots)


def _panel(panel: Panel | Row, rows: Iterable[Row]) -> str:
    """Data and model, where there are several."""
    return f"{panel.data}, {panel.model}: " if len({(row.data, row.model) for row in rows}) > 1 else ""


def _order(rows: Iterable[Row]) -> dict[str, int]:
    """A number for each attack, which decides its colour and its mark in every plot."""
    return {name: i for i, name in enumerate(dict.fromkeys(row.attack for row in rows))}


def _legend(rows: Iterable[Row], order: dict[str, int]) -> list[tuple[str, Markup]]:
    shown = {row.attack for row in rows}
    return [(name, _mark(i, 6, 6)) for name, i in order.items() if name in shown]


def _mark(series: int, x: float, y: float) -> Markup:
    turn = (series + series // COLOURS) % len(MARKS)
    shape = MARKS[turn].format(x=x, y=y, w=x - 3.5, n=y - 3.5)
    return Markup('<g class="series{} mark">{}</g>').format(series % COLOURS, shape)


def _svg(height: float, title: str, parts: Iterable[Markup]) -> Markup:
    frame = Markup('<svg viewBox="0 0 {} {:.0f}" class="plot" role="img" aria-label="{}">{}</svg>')
    return frame.format(WIDTH, height, title, Markup("").join(parts))


def _short(text: str) -> Markup:
    if len(text) <= LONGEST:
        return Markup.escape(text)
    return Markup("{}…<title>{}</title>").format(text[: LONGEST - 1], text)


def _sizes(found: Sequence[Row], measure: Measure, order: dict[str, int], title: str) -> Markup:
    left, right, top, bottom = 34, WIDTH - 8, 10, 170
    step = (right - left) / len(SIZES)
    parts = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        y = bottom + tick * (top - bottom)
        parts += [LINE.format(left, y, right, y, "grid"), TEXT.format(left - 6, y + 4, "tick end", f"{tick:g}")]
    columns = [by_size(row, measure) for row in found]
    for k, (name, _, _) in enumerate(SIZES):
        middle = left + (k + 0.5) * step
        most = max((one.clients for column in columns if (one := column[name]) is not None), default=0)
        parts.append(TEXT.format(middle, bottom + 17, "tick middle", f"{symbols(name)} nodes"))
        parts.append(TEXT.format(middle, bottom + 31, "tick middle faint", counted(most, "client")))
    gap = min(14.0, 0.8 * step / max(1, len(found)))
    for i, (row, column) in enumerate(zip(found, columns, strict=True)):
        points = []
        for k, (name, _, _) in enumerate(SIZES):
            one = column[name]
            if one is not None:
                x = left + (k + 0.5) * step + (i - (len(found) - 1) / 2) * gap
                points.append((x, *(bottom + v * (top - bottom) for v in (one.mean, one.low, one.high))))
        parts.append(_series(points, order[row.attack]))
    return _svg(bottom + 38, title, parts)


def _series(points: Sequence[tuple[float, float, float, float]], series: int) -> Markup:
    """Marks with upright intervals, joined by a thin line."""
    along = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
    parts = [Markup('<polyline points="{}" class="join"/>').format(along)] if len(points) > 1 else []
    parts += [LINE.format(x, low, x, high, "interval") for x, _, low, high in points]
    parts += [_mark(series, x, y) for x, y, _, _ in points]
    return Markup('<g class="series{}">{}</g>').format(series % COLOURS, Markup("").join(parts))


def _defences(lanes: Sequence[tuple[Row, Estimate | None]], order: dict[str, int], title: str) -> Markup:
    left, right, lane, y = 8, WIDTH - 40, 15, 14.0
    marks, labels = [], []
    for defense in dict.fromkeys(row.defense for row, _ in lanes):
        group = [(row, one) for row, one in lanes if row.defense == defense]
        labels.append(TEXT.format(left, y, "label", _short(group[0][0].under)))
        for row, one in group:
            y += lane
            if one is None:
                continue
            x, low, high = (left + v * (right - left) for v in (one.mean, one.low, one.high))
            marks.append(
                Markup('<g class="series{}">{}{}</g>').format(
                    order[row.attack] % COLOURS,
                    LINE.format(low, y, high, y, "interval"),
                    _mark(order[row.attack], x, y),
                )
            )
            labels.append(TEXT.format(WIDTH - 2, y + 4, "tick end", f"{one.mean:.2f}"))
        y += 25
    bottom = y - 14
    grid = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x = left + tick * (right - left)
        anchor = "" if tick == 0 else " end" if tick == 1 else " middle"
        grid += [LINE.format(x, 20, x, bottom, "grid"), TEXT.format(x, bottom + 14, f"tick{anchor}", f"{tick:g}")]
    return _svg(bottom + 20, title, [*grid, *labels, *marks])


def _bins(found: Sequence[Sets]) -> list[str]:
    """The columns of all histograms: from the smallest to the largest size that occurs in any of them."""
    names = [name for name, _, _ in SETS]
    filled = [
        k for k, name in enumerate(names) if any(one.counts[status][name] for one in found for status in STATUSES)
    ]
    return names[filled[0] : filled[-1] + 1] if filled else []


def _histogram(one: Sets, bins: Sequence[str], title: str) -> Markup:
    left, right, top, bottom = 8, WIDTH - 8, 18, 150
    columns = [(name, [one.counts[status][name] for status in STATUSES] + [0]) for name in bins]
    if one.bare:
        columns.append(("none", [0] * len(STATUSES) + [one.bare]))
    most, step = max(sum(parts) for _, parts in columns), (right - left) / len(columns)
    wide = min(0.7 * step, WIDEST)
    parts = [LINE.format(left, bottom, right, bottom, "axis")]
    for k, (name, stack) in enumerate(columns):
        x, y = left + k * step, float(bottom)
        for kind, count in enumerate(stack):
            if count:
                height = count / most * (bottom - top)
                y -= height
                box = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="set{}"/>')
                parts.append(box.format(x + (step - wide) / 2, y, wide, height, kind))
        if sum(stack):
            parts.append(TEXT.format(x + step / 2, y - 5, "tick middle", str(sum(stack))))
        parts.append(TEXT.format(x + step / 2, bottom + 16, "tick middle", symbols(name)))
    parts.append(TEXT.format((left + right) / 2, bottom + 33, "tick middle faint", "graphs that explain the update"))
    return _svg(bottom + 40, title, parts)
