"""Every data set by name."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from jgleak.datasets.dataset import Dataset
from jgleak.datasets.registry import NETWORKS, SETS, SYNTHETIC
from jgleak.datasets.sampling import clients
from jgleak.datasets.synthetic import Topology, synthetic
from jgleak.datasets.tally import Tally
from jgleak.datasets.tudataset import tudataset
from jgleak.did_you_mean import did_you_mean
from jgleak.names.datasets import TASKS


def names() -> tuple[str, ...]:
    """The names that ``load`` knows, besides ``tu:NAME`` for any other set of the TUDataset collection, and generators'
    with numbers."""
    return (*SETS, *NETWORKS, *SYNTHETIC)


def tasks(name: str) -> tuple[str, ...]:
    """What can be learnt on a data set, the default first; empty where there is no choice.

    Raises:
      ValueError: an unknown name.
    """
    key = _key(name)
    if key in SETS:
        return SETS[key].tasks
    if key in NETWORKS:
        return NETWORKS[key].tasks
    return TASKS[_generator(key).name] if _generated(key) else ()


def load(
    name: str,
    *,
    task: str | None = None,
    path: str | Path | None = None,
    graphs: int | None = None,
    min_nodes: int | None = None,
    max_nodes: int | None = None,
    bonds: bool = False,
    seed: int = 0,
) -> Dataset:
    """A data set by its catalogue name.

    **Sets of graphs** (molecules, TUDataset): all graphs of ``min_nodes..max_nodes`` nodes, or ``graphs`` of them at
    random (a smaller sample with the same seed is the beginning of a larger one). The normalisation of the space is
    fitted on the whole set before. **Networks**: ``graphs`` (100) client subgraphs, by GRAIN's scheme and size mix
    (CiteSeer), by growth with that mix (Pokec) or as GLG's 3-hop balls of at most 100 nodes (Facebook, GitHub);
    either bound on the size replaces the mix. The normalisation is that of all nodes, and of degrees in further
    subgraphs. **Synthetic**: ``graphs`` (100) connected graphs of 10 to 30 nodes
    with discrete features, or GLG's (``synthetic-glg``: Erdos-Renyi graphs of 50 nodes and mean degree 4 with 100
    normal features, a number that the paper does not print), normalised as further graphs of the generator are. A mean
    degree other than 4 follows the name, ``synthetic-er:6``, and GLG's number of features that, ``synthetic-glg:8:10``.
    Call ``synthetic`` for everything else.

    Args:
      name: one of ``names()``, or ``tu:NAME``; upper and lower case do not matter, except in ``NAME``.
      task: one of ``tasks(name)``; by default the first.
      path: where the files are; see ``jgleak.datasets.locate``.
      graphs: how many graphs; None for all of a set, 100 of a network or generator.
      min_nodes: smallest number of nodes.
      max_nodes: largest number of nodes.
      bonds: of molecules, give every edge its bond type as its class (``FeatureSpace.edge_classes``).
      seed: seeds every random choice.

    Raises:
      ValueError: unknown name or task, bounds that leave too few graphs, or a malformed file.
      FileNotFoundError: the files are nowhere and cannot be downloaded.
    """
    key = _key(name)
    known = tasks(name)
    if task is not None and task not in known:
        choice = f"choose one of {', '.join(known)}" if known else "it has only one, leave task out"
        raise ValueError(f"task: {name} has no task {task!r}; {choice}")
    if graphs is not None and graphs < 1:
        raise ValueError(f"graphs: must be at least 1, got {graphs}")
    low, high = 1 if min_nodes is None else min_nodes, max_nodes
    if low < 1 or (high is not None and high < low):
        raise ValueError(f"min_nodes, max_nodes: expected 1 <= min_nodes <= max_nodes, got {min_nodes}, {max_nodes}")
    if path is not None and (_generated(key) or (key in SETS and not SETS[key].files)):
        raise ValueError(f"path: {key} is not read from files, leave path out")
    if bonds and not (key in SETS and SETS[key].bonds):
        molecular = ", ".join(name for name, one in SETS.items() if one.bonds)
        raise ValueError(f"bonds: {name} has no bond types; sets of molecules have, {molecular}")
    if _generated(key):
        return _synthetic(_generator(key), key, graphs or 100, min_nodes, high, _labels(task), seed)
    if key in NETWORKS:
        return _clients(key, task or known[0], path, graphs or 100, min_nodes, max_nodes, seed)
    return _sample(_whole(key, task, path, bonds), graphs, low, high, seed)


def _key(name: str) -> str:
    if name.startswith("tu:"):
        return name
    key = name.lower()
    if not _generated(key) and key not in names():
        hint = did_you_mean(key, names())
        raise ValueError(f"no data set {name!r}; {hint}known are {', '.join(names())} and tu:NAME")
    return key


def _labels(task: str | None) -> Literal["graph", "node"]:
    return "node" if task == "node" else "graph"


_NUMBERS = {"synthetic-tree": 0, "synthetic-glg": 2}
"""How many numbers may follow a generator's name; one, where it is not here."""


class _Generator(NamedTuple):
    """A generator's name in ``SYNTHETIC``, and its graphs' mean degree and number of normal features."""

    name: str
    degree: float = 4.0
    width: int = 100


def _generated(key: str) -> bool:
    return key.split(":")[0] in SYNTHETIC


def _generator(key: str) -> _Generator:
    """What a generator's name and the numbers behind it say.

    Raises:
      ValueError: numbers that are none, or that the generator does not have.
    """
    name, *numbers = key.split(":")
    try:
        degree, width = float(numbers[0]) if numbers else 4.0, int(numbers[1]) if len(numbers) > 1 else 100
        taken = len(numbers) <= _NUMBERS.get(name, 1) and 0 < degree < math.inf and width >= 1
    except ValueError:
        taken = False
    if not taken or (name == "synthetic-ba" and degree % 2):
        raise ValueError(
            f"no data set {key!r}: behind a generator's name stands its mean degree, as in synthetic-er:6, and of "
            "synthetic-glg the number of features, as in synthetic-glg:8:10; synthetic-tree has neither, and the "
            "degree of synthetic-ba is even"
        )
    return _Generator(name, degree, width)


def _synthetic(
    generator: _Generator,
    key: str,
    graphs: int,
    low: int | None,
    high: int | None,
    labels: Literal["graph", "node"],
    seed: int,
) -> Dataset:
    kind = SYNTHETIC[generator.name]
    if generator.name == "synthetic-glg":
        bounds = (min(50, high or 50) if low is None else low, max(50, low or 1) if high is None else high)
        chosen: dict[str, Any] = {"features": "gaussian", "width": generator.width}
    else:
        bounds, chosen = (_lowest(low, high), max(30, low or 1) if high is None else high), {}
    edges = Topology(kind, bounds, generator.degree)
    return dataclasses.replace(synthetic(edges, graphs=graphs, labels=labels, seed=seed, **chosen), name=key)


def _lowest(min_nodes: int | None, high: int | None) -> int:
    """Smallest size of a synthetic graph: 10, or less where the largest is less."""
    if min_nodes is not None:
        return min_nodes
    return 10 if high is None else min(10, high)


def _whole(key: str, task: str | None, path: str | Path | None, bonds: bool) -> Dataset:
    if key in SETS:
        chosen: dict[str, Any] = {"task": task} if SETS[key].tasks else {}
        chosen |= {"bonds": True} if bonds else {}
        return SETS[key].load(**chosen, **({"path": path} if SETS[key].files else {}))
    return dataclasses.replace(tudataset(key.removeprefix("tu:"), path=path), name=key)


def _clients(
    key: str, task: str, path: str | Path | None, graphs: int, low: int | None, high: int | None, seed: int
) -> Dataset:
    cut = NETWORKS[key]
    sizes = cut.sizes
    if low is not None or high is not None:
        sizes = ((1.0, low or 1, max(low or 1, cut.sizes[-1][2]) if high is None else high),)
    network = cut.load(task, path)
    dataset = clients(network, cut.scheme, graphs=graphs, sizes=sizes, labels=_labels(task), seed=seed)
    return dataclasses.replace(dataset, name=f"{key}/{task}" if task != cut.tasks[0] else key)


def _sample(dataset: Dataset, graphs: int | None, low: int, high: int | None, seed: int) -> Dataset:
    """Graphs in the size range, all in order or a random sample; the report counts the others."""
    pool = [g for g in dataset.graphs if g.n >= low and (high is None or g.n <= high)]
    wanted = len(pool) if graphs is None else graphs
    if not pool or wanted > len(pool):
        span = f"{low}..{'any' if high is None else high}"
        raise ValueError(f"graphs: {dataset.name} has {len(pool)} graphs of {span} nodes, {max(wanted, 1)} are wanted")
    chosen = pool if graphs is None else [pool[i] for i in np.random.default_rng(seed).permutation(len(pool))[:graphs]]
    tally = Tally.resume(dataset.report)
    tally.drop("outside the size range", count=len(dataset.graphs) - len(pool))
    tally.drop("not drawn", count=len(pool) - len(chosen))
    return dataclasses.replace(dataset, graphs=chosen, report=tally.report(dataset.report.rows, len(chosen)))
