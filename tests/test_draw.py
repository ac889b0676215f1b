"""Pictures: the right atoms and bonds, both formats, and no graph that crashes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Rectangle
from rdkit import Chem

from jgleak.attacks.attack import Reconstruction
from jgleak.attacks.certificate import Certificate, Status
from jgleak.audit.experiment import run
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.audit.store import Store
from jgleak.draw import DPI, MARGIN, PANEL, SHOWN, SMALL, VIEW, draw, draw_set, inline_svg, is_molecular, molecule
from jgleak.features import Feature, FeatureSpace, binary, onehot, real
from jgleak.graph import Graph

ATOMS = FeatureSpace(
    (
        onehot("atomic_number", (6, 7, 8, 17)),
        onehot("formal_charge", (0, -1, 1)),
        onehot("degree", (0, 1, 2, 3, 4)),
        onehot("hydrogens", (0, 1, 2, 3, 4)),
        binary("aromatic"),
    ),
    degree="degree",
)
SOCIAL = FeatureSpace((onehot("region", ("north", "south")), onehot("degree", tuple(range(12)))), degree="degree")


def _molecule(smiles: str) -> Graph:
    mol = Chem.MolFromSmiles(smiles)
    rows = [
        (a.GetAtomicNum(), a.GetFormalCharge(), a.GetDegree(), a.GetTotalNumHs(), int(a.GetIsAromatic()))
        for a in mol.GetAtoms()
    ]
    codes = [[f.values.index(v) for f, v in zip(ATOMS.features, row, strict=True)] for row in rows]
    edges = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()]
    return Graph(np.array(codes), np.array(edges, int).reshape(-1, 2))


def _social(g: nx.Graph) -> Graph:
    rows = [(v % 2, g.degree(v)) for v in g]
    return Graph(np.array(rows), np.array(g.edges, int).reshape(-1, 2))


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that would be written."""
    written: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: written.append(figure))
    return written


def _captions(figure: Figure) -> list[str]:
    others = {figure.get_suptitle(), figure.get_supxlabel(), "nothing recovered"}
    return [text.get_text().split(" (")[0] for text in figure.texts if text.get_text() not in others]


def _framed(figure: Figure) -> list[int]:
    """The panels with a frame: which caption stands above it, in the middle."""
    others = {figure.get_suptitle(), figure.get_supxlabel(), "nothing recovered"}
    titles = [text.get_position() for text in figure.texts if text.get_text() not in others]
    boxes = [artist for artist in figure.artists if isinstance(artist, Rectangle)]
    below = [(box.get_x() + box.get_width() / 2, box.get_y() + box.get_height()) for box in boxes]
    return [i for i, (x, y) in enumerate(titles) for at, top in below if abs(x - at) < 1e-9 and 0 < y - top < 0.1]


def test_atoms_and_bonds() -> None:
    """Acetate beside biphenyl: charges and hydrogens as stated, rings aromatic, the bridge single."""
    mol = molecule(_molecule("c1ccccc1-c1ccc(C(=O)[O-])cc1"), ATOMS)
    assert sorted(a.GetSymbol() for a in mol.GetAtoms()) == ["C"] * 13 + ["O"] * 2
    assert sorted(a.GetFormalCharge() for a in mol.GetAtoms()) == [-1] + [0] * 14
    kinds = [b.GetBondType() for b in mol.GetBonds()]
    assert kinds.count(Chem.BondType.AROMATIC) == 12 and kinds.count(Chem.BondType.SINGLE) == 4
    assert sum(a.GetNumExplicitHs() for a in mol.GetAtoms()) == 9
    assert np.ptp(mol.GetConformer().GetPositions()[:, :2], axis=0).min() > 1.0


def test_unknown_elements_become_wildcards() -> None:
    space = FeatureSpace((onehot("atomic_number", (6, "other", 999)), binary("aromatic")))
    mol = molecule(Graph(np.array([[0, 0], [1, 0], [2, 0]]), np.array([[0, 1], [1, 2]])), space)
    assert [a.GetAtomicNum() for a in mol.GetAtoms()] == [6, 0, 0]


def test_molecules_are_recognised() -> None:
    assert is_molecular(ATOMS) and not is_molecular(SOCIAL)
    with pytest.raises(KeyError, match="atomic_number"):
        molecule(_social(nx.path_graph(3)), SOCIAL)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("kind", ["molecule", "social"])
def test_writes_both_formats(tmp_path: Path, suffix: str, kind: str) -> None:
    truth, space = (_molecule("CC(=O)Nc1ccccc1"), ATOMS) if kind == "molecule" else (_social(nx.path_graph(9)), SOCIAL)
    target = tmp_path / f"picture{suffix}"
    draw(truth, truth.permute(np.arange(truth.n)[::-1]), space, target, title="A title")
    if suffix == ".png":
        image = imread(target)
        assert image.shape[:2] == ((PANEL + 2 * MARGIN) * DPI, 2 * PANEL * DPI)
        assert image[:, :, :3].min() < 0.5
    else:
        assert "<svg" in target.read_text()[:1000]


def test_exact_reconstructions_look_like_the_truth(tmp_path: Path) -> None:
    """Below the captions the two panels hold the same number of dark pixels."""
    truth = _molecule("CC(=O)Nc1ccc(O)cc1")
    draw(truth, truth.permute(np.random.default_rng(0).permutation(truth.n)), ATOMS, tmp_path / "a.png")
    dark = imread(tmp_path / "a.png")[100:, :, :3].max(axis=2) < 0.5  # the frame is green
    left, right = dark[:, : dark.shape[1] // 2].sum(), dark[:, dark.shape[1] // 2 :].sum()
    assert left == pytest.approx(right, rel=0.05)


@pytest.mark.parametrize(
    ("size", "grid"),
    [(0, (1, 2)), (1, (1, 2)), (2, (1, 3)), (3, (2, 2)), (6, (3, 3)), pytest.param(14, (3, 4), marks=pytest.mark.slow)],
)
def test_all_members_of_a_small_set_are_drawn(figures: list[Figure], size: int, grid: tuple[int, int]) -> None:
    """One panel each beside the truth, best first; of larger sets the first eleven, and how many more."""
    draw_set(_social(nx.path_graph(4)), [_social(nx.path_graph(5 + i)) for i in range(size)], SOCIAL, "set.png")
    (figure,) = figures
    rows, columns = grid
    scale = PANEL if size < 2 else SMALL
    assert tuple(figure.get_size_inches()) == pytest.approx((columns * scale, rows * scale + MARGIN))
    numbers = [str(i + 1) for i in range(min(size, 11))] if size > 1 else ["reconstruction"]
    assert _captions(figure) == ["truth", *numbers]
    assert figure.get_supxlabel() == ("... and 3 more" if size == 14 else "")
    assert _framed(figure) == []


@pytest.mark.parametrize("place", [0, 1, 12])
@pytest.mark.long
def test_the_truth_is_marked(figures: list[Figure], place: int) -> None:
    truth = _molecule("CC(=O)Nc1ccc(O)cc1")
    graphs = [_molecule("C" * n) for n in range(2, 14)]
    graphs.insert(place, truth.permute(np.arange(truth.n)[::-1]))
    draw_set(truth, graphs, ATOMS, "set.png")
    (figure,) = figures
    shown = place < SHOWN
    assert _framed(figure) == ([1 + place] if shown else [])
    assert (f"{place + 1}, the truth" in _captions(figure)) == shown
    assert figure.get_supxlabel() == "... and 2 more" + ("" if shown else ", the truth among them")


def test_equal_skeletons_share_a_layout(figures: list[Figure]) -> None:
    """Decalin with a nitrogen where its rings meet, nodes shuffled: all but that atom looks the same."""
    truth, other = _molecule("C1CCC2CCCCC2C1"), _molecule("C1CCN2CCCCC2C1")
    draw_set(truth, [other.permute(np.random.default_rng(1).permutation(other.n))] * 2, ATOMS, "set.png")
    left, right = (np.asarray(image.get_array())[..., :3].min(axis=2) < 0.9 for image in figures[0].images[:2])
    assert (left & right).sum() > 0.8 * left.sum()
    assert _framed(figures[0]) == []


@pytest.mark.parametrize(
    ("status", "known", "conditions", "claim"),
    [
        ("unique", True, 0, "; certificate: unique with 9 nodes"),
        ("k_graphs", False, 3, "; certificate: 2 graphs up to 9 nodes, under 3 conditions"),
        ("at_least_k", False, 1, "; certificate: at least 2 graphs up to 9 nodes, under 1 condition"),
        (None, False, 0, ""),
    ],
)
def test_results_show_their_set_and_certificate(
    figures: list[Figure], tmp_path: Path, status: Status | None, known: bool, conditions: int, claim: str
) -> None:
    specification = Specification(attack="empty", graphs=1, hidden=8, max_nodes=8)
    setup = prepare(specification)
    (result,) = run(specification, setup)
    certificate = None if status is None else Certificate(status, 2, 9, known, 0.0, ("assumed",) * conditions)
    found = Reconstruction((result.truth, *result.reconstruction.graphs), 0.0, "match", certificate=certificate)
    store = Store(tmp_path)
    store.add(dataclasses.replace(result, reconstruction=found), {"attack": "empty"}, setup.dataset.space)
    store.close()
    assert _captions(figures[0]) == ["truth", "1, the truth", "2"]
    assert figures[0].get_suptitle().replace("\n", " ") == f"empty: GSM-2 {result.score.gsm2:.3f}{claim}"


@pytest.mark.parametrize("seed", range(2))
def test_impossible_molecules_are_drawn(tmp_path: Path, seed: int) -> None:
    """Random atoms with random edges: any valence, rings through everything, several parts."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    codes = np.stack([rng.integers(0, len(f.values), n) for f in ATOMS.features], axis=1)
    graph = Graph(codes, np.argwhere(np.triu(rng.random((n, n)) < rng.choice([0.05, 0.3, 0.9]), 1)))
    draw(_molecule("CCO"), graph, ATOMS, tmp_path / "odd.png")
    assert (tmp_path / "odd.png").stat().st_size > 1000


def test_nothing_recovered_and_disconnected_graphs(tmp_path: Path) -> None:
    draw(_social(nx.path_graph(4)), None, SOCIAL, tmp_path / "none.png")
    scattered = _social(nx.disjoint_union(nx.path_graph(3), nx.empty_graph(2)))
    draw(scattered, _social(nx.empty_graph(1)), SOCIAL, tmp_path / "parts.png")
    assert (tmp_path / "none.png").exists() and (tmp_path / "parts.png").exists()


def test_real_features_are_drawn(tmp_path: Path) -> None:
    space = FeatureSpace((real("a"), Feature("b", (0, 1), "binary")))
    graph = Graph(np.array([[0.5, 1.0], [1.5, 0.0]]), np.array([[0, 1]]))
    draw(graph, graph, space, tmp_path / "real.png")
    assert (tmp_path / "real.png").exists()


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png or \.svg"):
        draw(_molecule("CC"), None, ATOMS, tmp_path / "picture.pdf")


def test_global_plotting_state_is_untouched(tmp_path: Path) -> None:
    settings = matplotlib.rcParams.copy()
    draw(_social(nx.path_graph(4)), None, SOCIAL, tmp_path / "a.svg")
    assert plt.get_fignums() == []
    assert matplotlib.rcParams.copy() == settings


def test_inline_picture_of_a_molecule_is_plain_svg() -> None:
    """Well formed, labelled, in the page's colour, and nothing that loads: one path a bond at least."""
    truth = _molecule("OCC(=O)NC")
    text = inline_svg(truth, ATOMS, label='<b>"quoted"&</b>')
    root = ElementTree.fromstring(text)
    assert root.attrib["aria-label"] == '<b>"quoted"&</b>' and root.attrib["stroke"] == "currentColor"
    assert len(root.findall("path")) >= len(truth.edges)
    assert "http" not in text and "#000000" not in text


def test_inline_pictures_of_one_graph_are_equal() -> None:
    """A reconstruction that is the truth in another order of nodes is drawn as the truth is."""
    for truth, space in ((_molecule("OCC(=O)NC"), ATOMS), (_social(nx.path_graph(6)), SOCIAL)):
        shuffled = truth.permute(np.random.default_rng(1).permutation(truth.n))
        assert inline_svg(shuffled, space, beside=truth) == inline_svg(truth, space)


@pytest.mark.parametrize("g", [nx.empty_graph(1), nx.empty_graph(3), nx.path_graph(2), nx.star_graph(30)])
def test_inline_dots_lie_within_the_picture(g: nx.Graph) -> None:
    """Every node is a circle inside the view; as many as the graph has."""
    space = FeatureSpace((onehot("region", ("north", "south")), onehot("degree", tuple(range(40)))), degree="degree")
    root = ElementTree.fromstring(inline_svg(_social(g), space))
    circles = [circle.attrib for circle in root.iter("circle")]
    assert len(circles) == len(g)
    for axis, length in (("cx", VIEW[0]), ("cy", VIEW[1])):
        assert all(0 < float(circle[axis]) < length for circle in circles)


def test_inline_picture_refuses_foreign_features() -> None:
    with pytest.raises(ValueError):
        inline_svg(Graph(np.full((2, 5), 99), np.array([[0, 1]])), ATOMS)
