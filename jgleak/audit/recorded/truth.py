"""The private graphs behind observation files, as audits store them (``truths/HASH.json``) and users write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jgleak.audit.certified import graph_of
from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.plural import counted
from jgleak.reading import check_file, namesakes, read_json

FIELDS = ("x", "edges", "y", "name", "edge_class")
"""Fields of a graph: codes of features, pairs of nodes, and, where known, the label, a name, classes of edges."""


def truth_file(place: Path, file: Path) -> Path | None:
    """The path of an observation file's truth: in a folder the file of the same name with ``.json``; None where there
    is none. A single file holds the truths of several, by their names without ``.safetensors``.

    Raises:
      ValueError: it is not a regular file.
    """
    own = place / f"{file.stem}.json" if place.is_dir() else place
    if place.is_dir() and not own.exists():
        return None
    try:
        check_file(own)
    except ValueError as error:
        raise ValueError(f"truth: {error}; give a folder with NAME.json for NAME.safetensors, or a file") from error
    return own


def truth_of(place: Path, file: Path) -> Any:
    """The document with the graphs behind an observation file; None where there is none."""
    where = truth_file(place, file)
    data: Any = None if where is None else read_json(where)
    return data.get(file.stem) if not place.is_dir() and by_name(data) else data


def common_truth(place: Path, files: Sequence[Path]) -> str | None:
    """A message about two observation files with the same truth; None where there are none, or one truth is meant for
    all.

    Raises:
      ValueError: the place is a file that cannot be read.
    """
    both = namesakes(list(dict.fromkeys(files)))
    if both is None or not (place.is_dir() or by_name(read_json(place))):
        return None
    return f"{both[0]} and {both[1]} would both have the truth of {both[0].stem!r}; rename one, or take them apart"


def by_name(data: Any) -> bool:
    """True where a document holds truths by the names of observation files, and is not a single truth."""
    return isinstance(data, Mapping) and "x" not in data


def truths(place: Path, file: Path, space: FeatureSpace, size: int | None) -> list[Graph]:
    """The graphs behind one observation file, in any order; empty where there is no truth.

    Args:
      place: the folder or file of truths.
      file: the observation file.
      space: its feature space.
      size: number of graphs behind the update; None: unknown.

    Raises:
      ValueError: the truth is broken, or has another feature space or another number of graphs.
    """
    where, data = truth_file(place, file), truth_of(place, file)
    if data is None:
        return []
    listed = data if isinstance(data, list) else [data]
    try:
        graphs = [_graph(one, space) for one in listed]
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise ValueError(
            f"truth: {where}: {error}; give codes of features in x (n rows), edges as pairs of nodes, perhaps y, name "
            "and edge_class; of several graphs a list"
        ) from error
    if not graphs or size not in (None, len(graphs)):
        raise ValueError(
            f"truth: {where} has {counted(len(graphs), 'graph')} for {file.name}, whose update is of "
            f"{size or 'one at least'}; give all of them, in a list"
        )
    return graphs


def _graph(data: Mapping[str, Any], space: FeatureSpace) -> Graph:
    unknown = sorted(set(data) - set(FIELDS))
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; known are {', '.join(FIELDS)}")
    graph = graph_of({"y": None, **data})
    space.check(graph.x)
    space.check_edges(graph.edge_class, len(graph.edges))
    return dataclasses.replace(graph, name=str(data.get("name") or ""))


def labelled(graphs: Sequence[Graph]) -> bool:
    """Whether every graph's label is known."""
    return bool(graphs) and all(graph.y is not None for graph in graphs)
