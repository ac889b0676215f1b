"""Parts of nested parameters by their place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def at(tree: Any, path: tuple[str, ...]) -> Any:
    """What lies at ``path``."""
    return at(tree[path[0]], path[1:]) if path else tree


def paths_of(tree: Any, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Where all leaves lie."""
    if not isinstance(tree, Mapping):
        return [before]
    return [path for name, part in tree.items() for path in paths_of(part, (*before, name))]


def without(tree: Mapping[str, Any], paths: Collection[tuple[str, ...]], before: tuple[str, ...] = ()) -> Any:
    """The tree without the parts at ``paths``, and without parts that hold nothing then."""
    kept = {}
    for name, part in tree.items():
        path = (*before, name)
        if path not in paths:
            rest = without(part, paths, path) if isinstance(part, Mapping) else part
            if not isinstance(part, Mapping) or rest:
                kept[name] = rest
    return kept


def over(tree: Mapping[str, Any], other: Mapping[str, Any]) -> Any:
    """The tree with the leaves of ``other``, which has no place that it lacks, instead of its own."""
    deep = {name: over(tree[name], part) if isinstance(part, Mapping) else part for name, part in other.items()}
    return {**tree, **deep}


def put(tree: Any, path: tuple[str, ...], value: Any) -> Any:
    """The tree with ``value`` at ``path``, where a part lies or none does."""
    return {**tree, path[0]: put(tree.get(path[0], {}), path[1:], value)} if path else value
