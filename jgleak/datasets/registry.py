"""Every data set by the name that users type, and how it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from jgleak.datasets.dataset import Dataset
from jgleak.datasets.embedded import embedded
from jgleak.datasets.moleculenet import TABLES, moleculenet
from jgleak.datasets.musae import musae
from jgleak.datasets.network import Network
from jgleak.datasets.planetoid import citeseer
from jgleak.datasets.pokec import Label, pokec
from jgleak.datasets.sampling import GRAIN_SIZES, Scheme, Sizes
from jgleak.datasets.synthetic import KINDS, Kind
from jgleak.datasets.tudataset import tudataset
from jgleak.names.datasets import TASKS


class GraphSet(NamedTuple):
    """A set of graphs.

    Attributes:
      load: from ``path``, and ``task`` where there are several, to all its graphs.
      tasks: what can be learnt, the default first; empty where there is no choice.
      files: it is read from files.
      bonds: ``load`` can tell bond types apart.
    """

    load: Callable[..., Dataset]
    tasks: tuple[str, ...] = ()
    files: bool = True
    bonds: bool = False


class Cut(NamedTuple):
    """A network, and how clients of it are cut by default.

    Attributes:
      load: from a task and a path to the whole network.
      tasks: what can be learnt, the default first.
      scheme: how a client's nodes are chosen.
      sizes: shares of clients and their bounds on the number of nodes.
    """

    load: Callable[[str, str | Path | None], Network]
    tasks: tuple[str, ...]
    scheme: Scheme
    sizes: Sizes


SETS: dict[str, GraphSet] = {
    "embedded": GraphSet(embedded, files=False, bonds=True),
    **{name: GraphSet(partial(moleculenet, name), TASKS[name], bonds=True) for name in TABLES},
    **{name.lower(): GraphSet(partial(tudataset, name)) for name in ("MUTAG", "PTC_MR", "ENZYMES", "NCI1", "COIL-RAG")},
}
NETWORKS: dict[str, Cut] = {
    "citeseer": Cut(lambda task, path: citeseer(path=path), TASKS["citeseer"], "balls", GRAIN_SIZES),
    "facebook": Cut(
        lambda task, path: musae("facebook", path=path), TASKS["facebook"], "sampled_balls", ((1.0, 1, 100),)
    ),
    "github": Cut(lambda task, path: musae("github", path=path), TASKS["github"], "sampled_balls", ((1.0, 1, 100),)),
    "pokec": Cut(lambda task, path: pokec(label=cast(Label, task), path=path), TASKS["pokec"], "grow", GRAIN_SIZES),
}
SYNTHETIC: dict[str, Kind] = {**{f"synthetic-{kind}": kind for kind in KINDS}, "synthetic-glg": "er"}
