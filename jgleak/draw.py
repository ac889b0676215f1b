"""Pictures: the truth beside what was reconstructed, molecules as chemists draw them, other graphs as dots."""

from __future__ import annotations

import dataclasses
import io
import math
import re
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import networkx as nx
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image
from rdkit import Chem
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics.exact import isomorphism
from jgleak.plural import counted
from jgleak.smiles import bond_types

PANEL, SMALL = 5.0, 3.2
"""Width and height of one panel in inches: of two side by side, and of more."""

ASPECT, MARGIN = 0.88, 0.35
"""Height of a graph's picture as a share of its panel's, the rest being its caption's; inches below all, and a line of
the title."""

GAP = 0.08
"""Inches between a graph's picture and its caption."""

LETTERS = 9
"""Letters of the title an inch."""

DPI = 120
"""Pixels an inch, also of the molecules inside an SVG. A picture takes time by its pixels."""

COMPRESSION = 1
"""Of PNG files: a sixth larger than with zlib's own level, in a third of the time."""

SHOWN = 11
"""Most members of a set that are drawn: with the truth they fill four columns and three rows."""

ELEMENTS = 118
"""Atomic numbers beyond the periodic table are drawn as a wildcard atom."""

FRAME = "tab:green"
"""Colour of the frame around a graph that is exactly the truth."""

AROMATIC = Chem.BondType.AROMATIC

VIEW = (240, 190)
"""Units, width and height, of a picture inside a page."""

INKS = {
    7: "#4a78e0",
    8: "#dd4b39",
    9: "#2f9e6e",
    15: "#d07a1f",
    16: "#a98a12",
    17: "#2f9e6e",
    35: "#a8593c",
    53: "#8e5bc0",
}
"""Colours of elements that are legible on white and on black; all others have the page's text colour."""


def draw(truth: Graph, reconstruction: Graph | None, space: FeatureSpace, path: str | Path, *, title: str = "") -> None:
    """Write one picture of the truth (left) and a reconstruction (right), None when nothing was found.

    It is the picture of a set of one graph: see ``draw_set``.
    """
    draw_set(truth, () if reconstruction is None else (reconstruction,), space, path, title=title)


def draw_set(truth: Graph, graphs: Sequence[Graph], space: FeatureSpace, path: str | Path, *, title: str = "") -> None:
    """Write one picture of the truth and the graphs that an attack cannot tell apart, in a grid, row by row.

    A space with the features "atomic_number" and "aromatic" gives molecules, any other one plain graphs, coloured by
    the node's features (its degree, which the eye sees, left out). The graph that is exactly the truth has a frame;
    graphs with the same edges as the truth, up to the order of their nodes, are drawn with its layout. Chemically
    impossible graphs are drawn as they are.

    Args:
      truth: the client's graph, drawn first.
      graphs: what the attack lists, best first; the first ``SHOWN`` are drawn, the others counted.
      space: the feature space of all of them.
      path: where to write; the suffix, ``.png`` or ``.svg``, chooses the format.
      title: a line above all panels.

    Raises:
      ValueError: another suffix, or features outside ``space``.
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"path: the suffix chooses the format, .png or .svg, got {path.name!r}")
    shown, rest = graphs[:SHOWN], graphs[SHOWN:]
    figure, places = _grid(1 + max(1, len(shown)), title)
    _panel(figure, places[0], truth, space, "truth", truth)
    if not shown:
        _title(figure, places[1], "reconstruction")
        figure.text(*places[1].middle, "nothing recovered", ha="center", va="center", color="gray")
    hit = next((i for i, graph in enumerate(graphs) if isomorphism(truth, graph) is not None), None)
    for i, (place, graph) in enumerate(zip(places[1:], shown, strict=False)):
        _panel(figure, place, _like(truth, graph), space, _caption(i, i == hit, len(graphs)), truth)
        if i == hit:
            figure.add_artist(_frame(figure, place))
    if rest:
        among = ", the truth among them" if hit is not None and hit >= SHOWN else ""
        figure.supxlabel(f"... and {len(rest)} more{among}")
    kind = path.suffix.lower()[1:]
    options: dict[str, Any] = {"pil_kwargs": {"compress_level": COMPRESSION}} if kind == "png" else {}
    figure.savefig(path, format=kind, **options)


class _Place(NamedTuple):
    """Where a graph's picture stands, as shares of the figure's width and height."""

    left: float
    bottom: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.left + self.width / 2, self.bottom + self.height / 2


def _grid(panels: int, title: str) -> tuple[Figure, list[_Place]]:
    """An empty figure with the title on it, and the places of its panels, row by row.

    Every place has the size of a molecule's picture, so that pictures are copied into the figure as they are: laying
    the figure out and resampling them takes five times as long. They get no axes, which take as long again.
    """
    columns = panels if panels <= 3 else math.ceil(math.sqrt(panels))
    rows, size = math.ceil(panels / columns), PANEL if panels == 2 else SMALL
    lines = textwrap.wrap(title, round(columns * size * LETTERS))
    width, height = columns * size, rows * size + MARGIN * (1 + len(lines))
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    places = [
        _Place(column / columns, (MARGIN + row * size) / height, 1 / columns, ASPECT * size / height)
        for row in reversed(range(rows))
        for column in range(columns)
    ]
    if lines:
        figure.suptitle("\n".join(lines), y=1 - MARGIN / 4 / height, fontweight="bold")
    return figure, places[:panels]


def inline_svg(graph: Graph, space: FeatureSpace, *, beside: Graph | None = None, label: str = "") -> str:
    """One graph as an ``<svg>`` element for an HTML page: lines in the page's text colour, nothing loaded.

    Args:
      graph: what to draw, a molecule or a plain graph as in ``draw_set``.
      space: its feature space.
      beside: the graph it is compared with, which lends layout and colours.
      label: what a screen reader says; escaped.

    Raises:
      ValueError: features outside ``space``.
    """
    space.check(graph.x)
    beside = graph if beside is None else beside
    graph = _like(beside, graph)
    body = _inline_molecule(graph, beside, space) if is_molecular(space) else _inline_dots(graph, beside, space)
    width, height = VIEW
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" fill="none" '
        f'stroke="currentColor" stroke-width="1.5" stroke-linecap="round">{body}</svg>'
    )


def is_molecular(space: FeatureSpace) -> bool:
    """True when nodes are atoms: the space has features called "atomic_number" and "aromatic"."""
    return None not in (_position(space, "atomic_number"), _position(space, "aromatic"))


def molecule(graph: Graph, space: FeatureSpace) -> Chem.RWMol:
    """An RDKit molecule with 2-D coordinates, built without any check of valences.

    Bonds are of their edge classes where the space names them after RDKit's bond types. Elsewhere graphs carry no bond
    orders: a bond between two aromatic atoms in a ring is aromatic, every other one single.
    Hydrogens are those that a feature "hydrogens" states; none are added.

    Raises:
      ValueError: features outside ``space``.
      KeyError: the space has no feature "atomic_number".
    """
    space.check(graph.x)
    if _position(space, "atomic_number") is None:
        raise KeyError('no feature "atomic_number": nodes of this space are not atoms; draw it as a plain graph')
    mol = Chem.RWMol()
    for v in range(graph.n):
        number = _number(graph, space, v, "atomic_number")
        atom = Chem.Atom(number if 0 <= number <= ELEMENTS else 0)
        atom.SetNoImplicit(True)
        atom.SetFormalCharge(_number(graph, space, v, "formal_charge"))
        atom.SetNumExplicitHs(max(0, _number(graph, space, v, "hydrogens")))
        atom.SetIsAromatic(bool(_number(graph, space, v, "aromatic")))
        mol.AddAtom(atom)
    bridges = {frozenset(edge) for edge in nx.bridges(graph.to_networkx())}
    known = bond_types(graph, space)
    for edge, (u, v) in enumerate(graph.edges.tolist()):
        ring = frozenset((u, v)) not in bridges
        aromatic = ring and mol.GetAtomWithIdx(u).GetIsAromatic() and mol.GetAtomWithIdx(v).GetIsAromatic()
        guess = AROMATIC if aromatic else Chem.BondType.SINGLE
        mol.AddBond(u, v, guess if known is None else known[edge])
        mol.GetBondBetweenAtoms(u, v).SetIsAromatic(mol.GetBondBetweenAtoms(u, v).GetBondType() == AROMATIC)
    mol.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(mol)
    rdDepictor.Compute2DCoords(mol)
    return mol


def _position(space: FeatureSpace, name: str) -> int | None:
    """Place of the feature called ``name``; None where there is none."""
    return next((g for g, f in enumerate(space.features) if f.name == name), None)


def _number(graph: Graph, space: FeatureSpace, node: int, name: str) -> int:
    """The value of a node's feature as an integer; 0 where the space lacks it or the value is a word ("other")."""
    g = _position(space, name)
    if g is None:
        return 0
    entry, values = graph.x[node, g], space.features[g].values
    value = values[int(entry)] if values else float(entry)
    return int(value) if isinstance(value, int | float) else 0


def _like(truth: Graph, graph: Graph) -> Graph:
    """The graph with its nodes in the truth's order where it is the truth, or at least has its edges."""
    order = isomorphism(truth, graph)
    if order is None:
        bare = (dataclasses.replace(g, x=np.zeros((g.n, 1)), edge_class=None) for g in (truth, graph))
        order = isomorphism(*bare)
    return graph if order is None else graph.permute(order)


def _caption(place: int, exact: bool, count: int) -> str:
    if count == 1:
        return "exact reconstruction" if exact else "reconstruction"
    return f"{place + 1}, the truth" if exact else f"{place + 1}"


def _frame(figure: Figure, place: _Place) -> Rectangle:
    corner, size = (place.left + 0.005 * place.width, place.bottom), (0.99 * place.width, 0.99 * place.height)
    return Rectangle(corner, *size, transform=figure.transFigure, fill=False, ec=FRAME, lw=2.5)


def _title(figure: Figure, place: _Place, caption: str) -> None:
    middle, top = place.middle[0], place.bottom + place.height
    figure.text(middle, top + GAP / figure.get_figheight(), caption, ha="center", va="bottom", fontsize="large")


def _panel(figure: Figure, place: _Place, graph: Graph, space: FeatureSpace, caption: str, truth: Graph) -> None:
    _title(figure, place, f"{caption} ({counted(graph.n, 'node')}, {counted(len(graph.edges), 'edge')})")
    if not is_molecular(space):
        _dots(figure.add_axes(place, xticks=[], yticks=[], frame_on=False), graph, _kinds(graph, truth, space))
        return
    left, bottom, width, height = (round(length) for length in np.multiply(place, np.tile(figure.bbox.size, 2)))
    figure.figimage(_picture(_placed(graph, truth, space), width, height), left, bottom)


def _placed(graph: Graph, truth: Graph, space: FeatureSpace) -> Chem.RWMol:
    """The molecule, with the truth's layout where it has the truth's edges."""
    mol = molecule(graph, space)
    if np.array_equal(graph.edges, truth.edges) and graph.n == truth.n:
        places = molecule(truth, space).GetConformer()
        mol.RemoveAllConformers()
        mol.AddConformer(places)
    return mol


def _inline_molecule(graph: Graph, truth: Graph, space: FeatureSpace) -> str:
    """RDKit's drawing, element by element, with the styles that differ from the ``<svg>`` around it."""
    drawer = rdMolDraw2D.MolDraw2DSVG(*VIEW)
    options = drawer.drawOptions()
    options.prepareMolsBeforeDrawing = False
    options.clearBackground = False
    options.fixedBondLength = VIEW[0] / 9
    options.flagCloseContactsDist = -1
    options.setAtomPalette({-1: (0.0, 0.0, 0.0)} | {number: to_rgb(ink) for number, ink in INKS.items()})
    drawer.DrawMolecule(_placed(graph, truth, space))
    drawer.FinishDrawing()
    paths = [e.attrib for e in ElementTree.fromstring(drawer.GetDrawingText()) if e.tag.endswith("path")]
    return "".join(_path(path["d"], path.get("style", ""), path.get("fill", "none")) for path in paths)


def _path(d: str, style: str, fill: str) -> str:
    """One of RDKit's paths: a bond (a stroke) or part of an atom's symbol (a fill)."""
    styles = dict(part.split(":", 1) for part in style.split(";") if ":" in part)
    stroke, fill = styles.get("stroke", "none"), styles.get("fill", fill)
    colours = "".join(
        f' {name}="{"currentColor" if colour.upper() == "#000000" else colour}"'
        for name, colour, usual in (("stroke", stroke, "#000000"), ("fill", fill, "none"))
        if colour.upper() != usual.upper()
    )
    dashes = f' stroke-dasharray="{styles["stroke-dasharray"]}"' if "stroke-dasharray" in styles else ""
    tight = re.sub(r" *([MLQCZ]) *", r"\1", d).strip()
    return f'<path d="{tight}"{colours}{dashes}/>'


def _inline_dots(graph: Graph, truth: Graph, space: FeatureSpace) -> str:
    places, (width, height), rim = _layout(graph), VIEW, 16
    low, span = places.min(axis=0), np.ptp(places, axis=0)
    scale = min((width - 2 * rim) / max(span[0], 1e-9), (height - 2 * rim) / max(span[1], 1e-9), max(VIEW))
    at = np.array((width, height), float) / 2 + (places - low - span / 2) * scale
    ends = at[graph.edges].reshape(-1, 4).tolist()
    lines = "".join(f"M{x:.1f},{y:.1f}L{u:.1f},{v:.1f}" for x, y, u, v in ends)
    radius = float(np.clip(60 / np.sqrt(graph.n), 2.5, 8))
    inks = [to_hex(colour) for colour in colormaps["tab20"](_kinds(graph, truth, space) % 20)]
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{ink}"/>'
        for (x, y), ink in zip(at, inks, strict=True)
    )
    return f'<path d="{lines}" opacity=".5"/><g stroke-width=".8">{dots}</g>'


def _picture(mol: Chem.RWMol, width: int, height: int) -> np.ndarray:
    drawer = rdMolDraw2D.MolDraw2DCairo(width, height)
    options = drawer.drawOptions()
    options.prepareMolsBeforeDrawing = False
    options.fixedBondLength = width / 10
    drawer.DrawMolecule(mol)
    drawer.FinishDrawing()
    return np.asarray(Image.open(io.BytesIO(drawer.GetDrawingText())).convert("RGB"))


def _kinds(graph: Graph, truth: Graph, space: FeatureSpace) -> np.ndarray:
    """A colour number a node: the rank of its feature row, degree left out, first among the truth's rows."""
    shown = [g for g, f in enumerate(space.features) if f.name != space.degree] or [0]
    ranks: dict[tuple[float, ...], int] = {}
    for row in np.vstack([truth.x, graph.x])[:, shown].tolist():
        ranks.setdefault(tuple(row), len(ranks))
    return np.array([ranks[tuple(row)] for row in graph.x[:, shown].tolist()])


def _layout(graph: Graph) -> np.ndarray:
    g = graph.to_networkx()
    layout = nx.kamada_kawai_layout(g) if nx.is_connected(g) else nx.spring_layout(g, seed=0)
    return np.array([layout[v] for v in range(graph.n)])


def _dots(axes: Axes, graph: Graph, kinds: np.ndarray) -> None:
    places = _layout(graph)
    axes.add_collection(LineCollection(list(places[graph.edges]), colors="0.6", linewidths=1.2, zorder=1))
    size = float(np.clip(4000 / graph.n, 15, 260))
    colours = colormaps["tab20"](kinds % 20)
    axes.scatter(places[:, 0], places[:, 1], s=size, c=colours, edgecolors="0.2", linewidths=0.6, zorder=2)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
