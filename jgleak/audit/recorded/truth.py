"""The private graphs behind observation files, as audits keep them (``truths/HASH.json``) and users write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jgleak.audit.certified import graph_of
from jgleak.features import FeatureSpace
from jgleak.federated import Observation
from jgleak.graph import Graph
from jgleak.reading import read_json

FIELDS = ("x", "edges", "y", "name", "edge_class")
"""Of a graph: codes of features, pairs of nodes, and where they are known the label, a name, classes of edges."""


def truth_file(place: Path, file: Path) -> Path | None:
    """Where the truth of an observation file is: in a folder under the file's own name with ``.json``; None: nowhere.
    A file holds the truths of several, by their names without ``.safetensors``."""
    if not place.is_dir():
        return place if place.is_file() else None
    own = place / f"{file.stem}.json"
    return own if own.is_file() else None


def truths(place: Path, file: Path, observation: Observation, space: FeatureSpace) -> list[Graph]:
    """The graphs behind one observation file, in any order; none where the truth is not there.

    Args:
      place: the folder or file of truths.
      file: the observation's.
      observation: what it holds.
      space: of its nodes.

    Raises:
      ValueError: a truth that is broken, of another feature space, or of another number of graphs.
    """
    where = truth_file(place, file)
    if where is None:
        return []
    data: Any = read_json(where)
    if not place.is_dir() and isinstance(data, Mapping) and "x" not in data:
        if file.stem not in data:
            return []
        data = data[file.stem]
    listed = data if isinstance(data, list) else [data]
    try:
        graphs = [_graph(one, space) for one in listed]
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise ValueError(
            f"truth: {where}: {error}; give codes of features in x (n rows), edges as pairs of nodes, perhaps y, name "
            "and edge_class; of several graphs a list"
        ) from error
    if len(graphs) != observation.batch_size:
        raise ValueError(
            f"truth: {where} has {len(graphs)} graph{'s' * (len(graphs) != 1)} for {file.name}, whose update is of "
            f"{observation.batch_size}; give all of them, in a list"
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
