"""Pictures: the truth beside a reconstruction, molecules as chemists draw them, other graphs as dots and lines."""

from __future__ import annotations

import io
from pathlib import Path

import networkx as nx
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import imread
from rdkit import Chem
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics.exact import isomorphism

PANEL = 5.0
"""Width and height of one panel in inches."""

DPI = 160
"""Pixels an inch, also of the molecules inside an SVG."""

ELEMENTS = 118
"""Atomic numbers beyond the periodic table are drawn as a wildcard atom."""


def draw(truth: Graph, reconstruction: Graph | None, space: FeatureSpace, path: str | Path, *, title: str = "") -> None:
    """Write one picture of the truth (left) and a reconstruction (right).

    A space with the features "atomic_number" and "aromatic" gives molecules, any other one plain graphs, coloured by
    the node's features (its degree, which the eye sees, left out). An exact reconstruction is drawn with the truth's
    layout. Chemically impossible graphs are drawn as they are.

    Args:
      truth: the client's graph.
      reconstruction: the attack's best graph, or None when it found nothing.
      space: the feature space of both.
      path: where to write; the suffix, ``.png`` or ``.svg``, chooses the format.
      title: a line above both panels.

    Raises:
      ValueError: another suffix, or features outside ``space``.
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"path: the suffix chooses the format, .png or .svg, got {path.name!r}")
    order = None if reconstruction is None else isomorphism(truth, reconstruction)
    if reconstruction is not None and order is not None:
        reconstruction = reconstruction.permute(order)
    figure = Figure(figsize=(2 * PANEL, PANEL), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _panel(left, truth, space, "truth", truth)
    if reconstruction is None:
        right.text(0.5, 0.5, "nothing recovered", ha="center", va="center", color="gray")
        right.set_title("reconstruction")
        right.set_axis_off()
    else:
        _panel(right, reconstruction, space, "exact reconstruction" if order is not None else "reconstruction", truth)
    if title:
        figure.suptitle(title, fontweight="bold")
    figure.savefig(path, format=path.suffix.lower()[1:])


def is_molecular(space: FeatureSpace) -> bool:
    """True when nodes are atoms: the space has features called "atomic_number" and "aromatic"."""
    return None not in (_position(space, "atomic_number"), _position(space, "aromatic"))


def molecule(graph: Graph, space: FeatureSpace) -> Chem.RWMol:
    """An RDKit molecule with 2-D coordinates, built without any check of valences.

    Graphs carry no bond orders: a bond between two aromatic atoms in a ring is aromatic, every other one single.
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
    for u, v in graph.edges.tolist():
        ring = frozenset((u, v)) not in bridges
        aromatic = ring and mol.GetAtomWithIdx(u).GetIsAromatic() and mol.GetAtomWithIdx(v).GetIsAromatic()
        mol.AddBond(u, v, Chem.BondType.AROMATIC if aromatic else Chem.BondType.SINGLE)
        mol.GetBondBetweenAtoms(u, v).SetIsAromatic(aromatic)
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


def _panel(axes: Axes, graph: Graph, space: FeatureSpace, caption: str, truth: Graph) -> None:
    axes.set_title(f"{caption} ({graph.n} nodes, {len(graph.edges)} edges)")
    axes.set_axis_off()
    if is_molecular(space):
        axes.imshow(_picture(molecule(graph, space)), interpolation="antialiased")
    else:
        _dots(axes, graph, _kinds(graph, truth, space))


def _picture(mol: Chem.RWMol) -> np.ndarray:
    width, height = int(PANEL * DPI), int(0.88 * PANEL * DPI)
    drawer = rdMolDraw2D.MolDraw2DCairo(width, height)
    options = drawer.drawOptions()
    options.prepareMolsBeforeDrawing = False
    options.fixedBondLength = width / 10
    options.bondLineWidth = 3
    drawer.DrawMolecule(mol)
    drawer.FinishDrawing()
    return imread(io.BytesIO(drawer.GetDrawingText()), format="png")


def _kinds(graph: Graph, truth: Graph, space: FeatureSpace) -> np.ndarray:
    """A colour number a node: the rank of its feature row, degree left out, first among the truth's rows."""
    shown = [g for g, f in enumerate(space.features) if f.name != space.degree] or [0]
    ranks: dict[tuple[float, ...], int] = {}
    for row in np.vstack([truth.x, graph.x])[:, shown].tolist():
        ranks.setdefault(tuple(row), len(ranks))
    return np.array([ranks[tuple(row)] for row in graph.x[:, shown].tolist()])


def _dots(axes: Axes, graph: Graph, kinds: np.ndarray) -> None:
    g = graph.to_networkx()
    layout = nx.kamada_kawai_layout(g) if nx.is_connected(g) else nx.spring_layout(g, seed=0)
    places = np.array([layout[v] for v in range(graph.n)])
    axes.add_collection(LineCollection(list(places[graph.edges]), colors="0.6", linewidths=1.2, zorder=1))
    size = float(np.clip(4000 / graph.n, 15, 260))
    colours = colormaps["tab20"](kinds % 20)
    axes.scatter(places[:, 0], places[:, 1], s=size, c=colours, edgecolors="0.2", linewidths=0.6, zorder=2)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
