"""Parts of nested parameters by their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def at(tree: Any, path: tuple[str, ...]) -> Any:
    """What lies at ``path``."""
    return at(tree[path[0]], path[1:]) if path else tree


def put(tree: Mapping[str, Any], path: tuple[str, ...], value: Any) -> Any:
    """The tree with ``value`` at ``path``, where a part lies or none does."""
    return {**tree, path[0]: put(tree.get(path[0], {}), path[1:], value)} if path else value
