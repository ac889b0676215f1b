"""The census after several local steps: ``python -m benchmarks.studies.local_steps``.

Each row is a model and a client's local training; molecules of Tox21 whose number of atoms is known, ranked by
chemistry. *One gradient* is the census that takes the same update for one gradient at the weights that the client got,
as it did before it followed the steps. The sample is that of seed 5; what was looked at during development was another
draw, but for clients of several molecules, of which two rows have a draw of their own; several passes over them were
developed on seed 7.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import typer

from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.records import Kept, Record
from benchmarks.lib.recovered import COLUMNS, cells, recovered
from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.registry import get_attack
from jgleak.audit.round import AttackedClient, client
from jgleak.audit.setup import Setup, prepare, stream_key
from jgleak.audit.specification import Specification
from jgleak.features import FeatureSpace
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.federated.observation import flatten
from jgleak.gnn import MLP, NodeMLP
from jgleak.graph import Graph
from jgleak.interop.weights import mean_gradient, rounding
from jgleak.metrics.anonymity import truth_in_set
from jgleak.metrics.exact import exact
from jgleak.metrics.score import score

COMMON = Specification(
    dataset="tox21",
    attack="census",
    prior="molecule",
    know=("n",),
    min_nodes=4,
    max_nodes=40,
    protocol="fedavg",
    seed=5,
)

MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "grain": ("GRAIN's own, 2 x 300", {}),
    "grain-gelu": ("GRAIN's own, 2 x 300, GELU", {"activation": "gelu"}),
    "gcn": ("GCN 2 x 300, pooled", {"readout": "pooled", "head": 300, "last_activation": True}),
    "sage": ("GraphSAGE 2 x 256, a head a node (FedGraphNN)", {"model": "sage", "hidden": 256}),
    "sage-pooled": (
        "GraphSAGE 2 x 256, pooled",
        {"model": "sage", "hidden": 256, "readout": "pooled", "head": 256, "last_activation": True},
    ),
    "grain-one": ("GRAIN's own, 2 x 300, one output", {}),
    "gcn-one": (
        "GCN 2 x 300, pooled, one output",
        {"readout": "pooled", "head": 300, "last_activation": True},
    ),
    "grain-mse": ("GRAIN's own, 2 x 300, FreeSolv's target", {"dataset": "freesolv"}),
    "gcn-mse": (
        "GCN 2 x 300, pooled, FreeSolv's target",
        {"dataset": "freesolv", "readout": "pooled", "head": 300, "last_activation": True},
    ),
    "gcn-gelu": (
        "GCN 2 x 300, pooled, GELU",
        {"readout": "pooled", "head": 300, "last_activation": True, "activation": "gelu"},
    ),
}

STEPS, RATES = (1, 2, 5, 10), (0.001, 0.003, 0.01, 0.03)

LOADED, LOADER_RATE = (1, 2, 4, 8), 0.0015
"""Molecules of a client that takes one a step, and FedGraphNN's rate."""

PARTED = ((4, 2, 5), (4, 2, 6), (6, 3, 6))
"""Molecules of a client that takes some of them a step, how many, and what draws the clients."""

POOLED = (("gcn", 0.01, 2, 1, 5), ("gcn", 0.01, 4, 1, 5), ("gcn", 0.01, 4, 2, 6), ("sage-pooled", LOADER_RATE, 4, 1, 6))
"""The same behind pooling: model, rate, molecules of a client, those of a step, and what draws the clients."""

ONE_OUTPUT = (("grain", 4), ("grain-one", 4), ("gcn-one", 2))
"""Models of one output and the one of two beside it, and the molecules of a client that takes one a step of .01."""

TARGETS = (("grain-mse", 3, 0.003), ("grain-mse", 10, 0.001), ("gcn-mse", 3, 0.003))
"""Models whose label is a number, steps and rates: the gradient is longer than that of a class."""

PASSED, PASSES = (2, 4), 2
"""Molecules of a client that goes through them more than once in one order, one a step, and how often."""

WHOLE = (2, 4)
"""Molecules of a client that takes all of them in every step."""

UNSEEN = 6
"""Draws clients that nobody looked at; of several molecules those of seed 5 were looked at in development."""

MOMENTUM: Mapping[str, Any] = {"local_momentum": 0.9, "local_weight_decay": 1e-4}

READ_AS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "steps": ("census", {}),
    "one gradient": ("census", {}),
    "nothing": ("random", {}),
    "steps, by `dlg`": ("dlg", {"replay": "steps", "steps": "300"}),
    "one gradient, by `dlg`": ("dlg", {"replay": "none", "steps": "300"}),
}
"""How an update is read: the attack and its options. ``dlg`` has its usual iterations, or a third of them."""

WORDS: Mapping[str, str] = {
    "one gradient": "once",
    "nothing": "random",
    "steps, by `dlg`": "dlg",
    "one gradient, by `dlg`": "dlg-once",
}
"""What a row's name says of that."""


class Row(NamedTuple):
    """A model and a client's local training.

    Attributes:
      model: a name of ``MODELS``.
      steps: how many.
      rate: learning rate.
      optimiser: what else a step has, as fields of ``Specification``.
      read_as: a name of ``READ_AS``; "one gradient" is at the weights that the client got.
      single: the client trains in 32 bits and returns such weights.
      loaded: its graphs, some of which a step sees; 0: every step sees all of its graphs.
      loader: how many a step sees, where these are some.
      whole: its graphs, of which every step sees all; 0: one.
      seed: draws the clients and the weights.
    """

    model: str
    steps: int
    rate: float
    optimiser: Mapping[str, Any] = {}
    read_as: str = "steps"
    single: bool = False
    loaded: int = 0
    loader: int = 1
    whole: int = 0
    seed: int = COMMON.seed

    @property
    def passes(self) -> int:
        """How often a client goes through all of its graphs."""
        return self.steps * self.loader // self.loaded if self.loaded else 1

    @property
    def name(self) -> str:
        """What users type."""
        words = [self.model, str(self.steps), f"{self.rate:g}", "sgdm" if self.optimiser else ""]
        words += [
            f"loader{self.loader if self.loader > 1 else ''}" if self.loaded else "",
            f"batch{self.whole}" if self.whole else "",
        ]
        words += [f"passes{self.passes}" if self.passes > 1 else ""]
        words += ["float32" if self.single else "", WORDS.get(self.read_as, "")]
        words += [f"seed{self.seed}" if self.seed != COMMON.seed else ""]
        return "-".join(filter(None, words))


def _rows() -> Iterator[Row]:
    for read_as in ("steps", "one gradient"):
        for model in ("grain", "gcn"):
            yield from (Row(model, steps, rate, read_as=read_as) for steps in STEPS for rate in RATES)
            yield Row(model, 5, 0.001, MOMENTUM, read_as)
        yield from (Row(model, 5, 0.01, read_as=read_as) for model in ("grain-gelu", "gcn-gelu"))
    for model in ("grain", "gcn"):
        yield from (Row(model, steps, rate, single=True) for steps, rate in ((1, 0.01), (5, 0.003), (5, 0.01)))
    yield from (Row("sage", graphs, LOADER_RATE, loaded=graphs) for graphs in LOADED)
    yield from (Row("sage", PASSES * graphs, LOADER_RATE, loaded=graphs) for graphs in PASSED)
    yield from (
        Row("sage", graphs // loader, LOADER_RATE, loaded=graphs, loader=loader, seed=seed)
        for graphs, loader, seed in PARTED
    )
    yield from (
        Row(model, graphs // loader, rate, loaded=graphs, loader=loader, seed=seed)
        for model, rate, graphs, loader, seed in POOLED
    )
    yield from (Row(model, graphs, 0.01, loaded=graphs) for model, graphs in ONE_OUTPUT)
    for model in ("gcn", "grain"):
        yield from (
            Row(model, steps, rate, whole=graphs) for graphs in WHOLE for steps in (2, 5) for rate in (0.001, 0.01)
        )
    yield Row("sage", 4, LOADER_RATE, loaded=4, seed=UNSEEN)
    yield Row("gcn", 5, 0.01, whole=2, seed=UNSEEN)
    yield from (Row("grain", 5, 0.01, read_as=read_as) for read_as in ("steps, by `dlg`", "one gradient, by `dlg`"))
    yield from (Row(*given) for given in TARGETS)
    yield Row("grain-mse", 3, 0.001, MOMENTUM)
    yield from (Row("grain-mse", 3, 0.003, read_as=read_as) for read_as in ("one gradient", "nothing"))
    yield Row("grain", 1, 0.001, read_as="nothing")
    yield Row("sage", 2, LOADER_RATE, read_as="nothing", loaded=2)


ROWS = {row.name: row for row in _rows()}

ABOUT = """\
Written by `python -m benchmarks.studies.local_steps --write`; do not edit. A client makes *E* steps of gradient
descent on one molecule of Tox21 (4 to 40 atoms, seed 5), or of FreeSolv, all random weights; the census knows the
number of atoms and ranks by chemistry (`--prior molecule`). *One gradient*: the same update taken for one gradient
at the weights that the client got; *nothing*: a guess (`random`) that is told the number of atoms and sees no
gradient; `dlg`: gradient matching of 300 iterations, told it too. *32 bits*: the client trains in float32 and
returns such weights. *One of B a step*: a client of *B* molecules takes one a step, in the same order in every pass;
the census knows neither order nor sizes. *2 of B a step*: it takes two, once; three likewise. *All B a step*: a
client of *B* molecules takes all of them in every step; the census knows *B*, and not their sizes. *One output*: the
score of class 1 under binary cross-entropy; other models of Tox21 have two. *FreeSolv's target*: a number, by
squared error. *GSM-1*: GRAIN's similarity of the first graph listed to the molecule. *Exact*: that graph is the
molecule; *in set*: it is listed; *unique*: certified to be the only one; *wrong*: of these, those beside another
truth. Rates in percent with 95 % intervals (a client is one observation, whatever its molecules). Development looked
at other draws; of clients with several molecules at those of seed 5 too, but not in several passes; of seed 6 at
none. Of *2 of B a step* it looked at clients of seed 7, and, before the last change to the search, at the rates of
both draws of the rows with *B* = 4; of these steps behind pooling, and of one output, at clients of seed 7 alone."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rows: Annotated[str | None, typer.Option(help="By commas; all by default.")] = None,
    graphs: Annotated[int, typer.Option(min=1, help="Molecules a row.")] = 50,
    time_limit: Annotated[float, typer.Option(help="Seconds a molecule.")] = 60.0,
    write: Annotated[bool, typer.Option("--write", help="Into results/local_steps.jsonl and .md.")] = False,
) -> None:
    """One JSON line a row; rows that are not asked for keep their records."""
    kept = Kept("local_steps", {"row": ROWS}, document, write=write)
    for name in chosen(rows, ROWS, "--rows"):
        kept.put(measured(ROWS[name], graphs, time_limit))


def measured(row: Row, graphs: int, time_limit: float) -> Record:
    """One row."""
    specification = specification_of(row, graphs, time_limit)
    setup, size = setup_of(row, specification), specification.batch_size
    clients = list[Record]()
    for first in range(0, graphs - size + 1, size):
        clients += _attacked(client(specification, setup, first), row, setup.dataset.space, time_limit)
    about = {"row": row.name, "graphs": len(clients), "time_limit": time_limit, "seed": specification.seed}
    return about | recovered(clients, (), size=size) | {"gsm1": float(np.mean([one["gsm1"] for one in clients]))}


def specification_of(row: Row, graphs: int, time_limit: float) -> Specification:
    """The audit of a row."""
    fields = {**MODELS[row.model][1], **row.optimiser, "attack": READ_AS[row.read_as][0]}
    fields |= {"local_steps": row.steps, "local_rate": row.rate, "graphs": graphs, "time_limit": time_limit}
    fields |= {"seed": row.seed}
    size = max(row.loaded, row.whole, 1)
    if size > 1 or row.loaded:
        fields |= {"batch_size": size, "local_loader": row.loader if row.loaded else 0}
        fields |= {"know": ("n",) if row.read_as == "nothing" else ()}
    return dataclasses.replace(COMMON, **fields)


def setup_of(row: Row, specification: Specification) -> Setup:
    """Its graphs, model and weights."""
    setup = prepare(specification)
    if row.model == "sage":
        readout = NodeMLP(MLP((256, 2)))  # the command line has no word for its head
    elif row.model.endswith("-one"):
        readout: Any = setup.model.readout
        readout = readout.clone(mlp=readout.mlp.clone(widths=(*readout.mlp.widths[:-1], 1)))
    else:
        return setup
    model = setup.model.clone(readout=readout)
    return setup._replace(model=model, params=model.initial(key=stream_key(specification, 0)))


def _attacked(one: AttackedClient, row: Row, space: FeatureSpace, seconds: float) -> list[Record]:
    """The record of every graph of one client."""
    seen = in_single_precision(one.observation, one.truths, space, row) if row.single else one.observation
    if row.read_as == "one gradient":
        seen = dataclasses.replace(seen, protocol="fedsgd", local=None)
    name, options = READ_AS[row.read_as]
    attack, begun = get_attack(name), time.monotonic()
    attack = attack.with_options(options) if options else attack
    known = dataclasses.replace(one.knowledge, noise=seen.noise)
    found: Reconstruction = attack(seen, known, key=jax.random.key(0), budget=Budget(time_limit=seconds))
    took, lists = time.monotonic() - begun, [member.graphs for member in found.members] or [found.graphs]
    if not found.members and (row.loaded or row.whole):
        lists = [(graph,) for graph in found.graphs]
    return [
        {
            "exact": any(exact(truth, some[0]) for some in lists if some),
            "truth_in_set": any(truth_in_set(truth, some) for some in lists),
            "certificate": None if found.certificate is None else dataclasses.asdict(found.certificate),
            "stop": found.stop,
            "n_nodes": truth.n,
            "seconds": took,
            "failure": None,
            "gsm1": max((score(truth, some[0], space).gsm1 for some in lists if some), default=0.0),
        }
        for truth in one.truths
    ]


def in_single_precision(seen: Observation, truths: Sequence[Graph], space: FeatureSpace, row: Row) -> Observation:
    """What the server reads off weights that a client trained in 32 bits."""
    local = seen.local or LocalTraining(row.rate)
    weights, rate = seen.params, np.float32(local.rate)
    for _ in range(local.steps):
        gradient = fedsgd(seen.model, weights, truths, space, loss=seen.loss).update
        weights = jax.tree.map(lambda w, g: np.asarray(w) - rate * np.asarray(g), weights, gradient)
    update = jax.tree.map(lambda w, back: mean_gradient(np.asarray(w), back, local), seen.params, weights)
    noise = rounding(flatten(jax.tree.map(np.asarray, seen.params)), flatten(weights), local)
    return dataclasses.replace(seen, update=update, noise=noise)


def document(lines: Sequence[Record]) -> str:
    """The page."""
    table = []
    for line in lines:
        row = ROWS[line["row"]]
        optimiser = "momentum .9, decay 1e-4" if row.optimiser else "32 bits" if row.single else "plain"
        if row.loaded or row.whole:
            some = "one" if row.loader == 1 else str(row.loader)
            optimiser = f"{some} of {row.loaded} a step" if row.loaded else f"all {row.whole} a step"
        optimiser += f", seed {row.seed}" if row.seed != COMMON.seed else ""
        alike = f"{100 * line['gsm1']:.0f}" if "gsm1" in line else "-"
        about = [MODELS[row.model][0], str(row.steps), f"{row.rate:g}", optimiser, row.read_as]
        table.append([*about, *cells(line), alike])
    columns = ("model", "E", "rate", "steps are", "read as", *COLUMNS, "GSM-1")
    return f"# Several local steps\n\n{ABOUT}\n\n{markdown(columns, table)}\n"


if __name__ == "__main__":
    app()
