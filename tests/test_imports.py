"""Imports point downward only, and the attacks cannot reach the truth (contracts 1 and 2 of the architecture)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "jgleak"
LAYER = {
    "archives": 0,
    "graph": 0,
    "names": 0,
    "did_you_mean": 0,
    "plural": 0,
    "features": 0,
    "garbage": 0,
    "igraph_alone": 0,
    "precision": 0,
    "pytree": 0,
    "ratings": 0,
    "reading": 0,
    "renamed": 0,
    "gnn": 1,
    "defenses": 1,
    "federated": 2,
    "attacks": 3,
    "metrics": 3,
    "datasets": 3,
    "draw": 3,
    "interop": 3,
    "smiles": 2,
    "version": 0,
    "exposure": 4,
    "audit": 4,
    "cli": 5,
    "__main__": 6,
}
SIBLINGS_APART = {"attacks", "metrics", "datasets"}


BELOW = {
    "basics": set(),
    "public": {"basics"},
    "closed_form": {"basics"},
    "recommender": {"basics"},
    "span": {"basics", "node_order"},
    "facts": {"basics", "closed_form", "span"},
    "node_order": {"basics", "public"},
    "baselines": {"basics", "public"},
    "matching": {"basics", "public", "closed_form"},
    "fedgig": {"basics", "public", "matching"},
    "graphdlg": {"basics", "public", "closed_form", "matching"},
    "grain": {"basics", "node_order", "span"},
    "census": {"basics", "node_order", "closed_form", "span", "facts"},
}
"""What each folder of ``attacks`` may import besides itself; files beside them that are not named are the basics."""


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    parts = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("jgleak", "jgleak.attacks")
        for alias in node.names
    }
    return {name for name in names | parts if name.split(".")[0] == "jgleak"}


def _part(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


FILES = [p for p in sorted(PACKAGE.rglob("*.py")) if p != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downward(path: Path) -> None:
    here = _part(path)
    assert here in LAYER, f"{here} has no place in the architecture: add it to LAYER"
    for name in _imports(path):
        pieces = name.split(".")
        if len(pieces) == 1:
            raise AssertionError(f"{path.name} imports the package root; import the module that owns the name")
        there = pieces[1]
        assert LAYER[there] <= LAYER[here], f"{here} must not import {name}: imports point downward"
        if here in SIBLINGS_APART and there in SIBLINGS_APART:
            assert here == there, f"{here} must not import {name}: the truth stays out of attacks"


ATTACK_FILES = [p for p in FILES if _part(p) == "attacks" and p.stem not in ("registry", "__init__")]


@pytest.mark.parametrize("path", ATTACK_FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_attacks_build_on_those_below(path: Path) -> None:
    def layer(piece: str) -> str:
        return piece if piece in BELOW else "basics"

    folder = path.relative_to(PACKAGE / "attacks").with_suffix("").parts[0]
    assert folder in BELOW or not (PACKAGE / "attacks" / folder).is_dir(), f"{folder} has no place: add it to BELOW"
    for name in _imports(path):
        pieces = name.split(".")
        if len(pieces) > 2 and pieces[1] == "attacks":
            there, here = layer(pieces[2]), layer(folder)
            assert there == here or there in BELOW[here], f"{here} must not import {name}; it may import {BELOW[here]}"


def test_every_part_was_checked() -> None:
    assert {_part(p) for p in FILES} >= {"graph", "features", "gnn", "federated", "attacks", "metrics", "datasets"}
