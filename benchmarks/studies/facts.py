"""Facts beside the truth, protocol by protocol: ``python -m benchmarks.studies.facts``.

Clients hold molecules of Tox21 and train a GCN with pooled states, at random weights; their columns are raw, or
normalised with the statistics of the set. Optimisers that clients have no name for here are run on the gradients of
honest clients, and what comes back is the change of the weights, in single precision, over rate and steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import optax
import typer

from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Kept, Record
from jgleak.attacks.facts.fact import ADAM, BATCH, CLIPPING, DECAY, MOMENTUM, NOISE, ONE, PRUNING, QUANTISATION, STEPS
from jgleak.attacks.facts.registry import FACTS, facts
from jgleak.audit.setup import Setup, prepare, stream_key
from jgleak.audit.specification import Specification
from jgleak.defenses import parse
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.gnn import GNN, MLP, Params, Pooled
from jgleak.graph import Graph, GraphBatch

COMMON = Specification(
    dataset="tox21", model="gcn", hidden=128, bias=True, readout="pooled", last_activation=True, seed=2, min_nodes=4
)

CLIENTS: Mapping[str, Specification] = {
    "raw": dataclasses.replace(COMMON, normalise=False),
    "normalised": COMMON,
    "tasks": dataclasses.replace(COMMON, normalise=False, task="all"),
    "layers": dataclasses.replace(COMMON, normalise=False, readout="node_mlp", hidden=300, bias=False),
}
"""What clients train, on which columns."""

STEPS_MADE = 5
NOISE_ADDED = 1e-4


class Protocol(NamedTuple):
    """How an update is made.

    Attributes:
      title: in words.
      under: those of ``fact.PROTOCOLS`` that a fact must name for it to count as proved here.
      optimiser: local steps with it, and its rate; None: one gradient.
      graphs: of one client.
      defense: what the client does before anything leaves.
      noise: the deviation that is public.
    """

    title: str
    under: tuple[str, ...]
    optimiser: tuple[Callable[[float], optax.GradientTransformation], float] | None = None
    graphs: int = 1
    defense: str = ""
    noise: float | None = None


def _decayed(rate: float) -> optax.GradientTransformation:
    return optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(rate, momentum=0.9))


PROTOCOLS: Mapping[str, Protocol] = {
    "gradient": Protocol("one gradient", (ONE,)),
    "plain": Protocol("5 plain steps, rate .1", (STEPS,), (optax.sgd, 0.1)),
    "momentum": Protocol("5 steps, momentum .9", (MOMENTUM,), (lambda rate: optax.sgd(rate, momentum=0.9), 0.1)),
    "adam": Protocol("5 steps of Adam, rate .001", (ADAM,), (optax.adam, 1e-3)),
    "decay": Protocol("5 steps, momentum .9, weight decay 5e-4", (DECAY,), (_decayed, 0.1)),
    "adamw": Protocol(
        "5 steps of AdamW, weight decay .01", (DECAY, ADAM), (lambda rate: optax.adamw(rate, weight_decay=0.01), 1e-2)
    ),
    "batch": Protocol("a batch of 4", (BATCH,), graphs=4),
    "clipping": Protocol("clipping", (CLIPPING,), defense="clip:0.1"),
    "pruning": Protocol("half of the entries pruned", (PRUNING,), defense="prune:0.5"),
    "quantisation": Protocol("4 bits an entry", (QUANTISATION,), defense="quantise:4"),
    "noise": Protocol("noise of known size", (NOISE,), defense=f"gaussian:{NOISE_ADDED}", noise=NOISE_ADDED),
}

ABOUT = """\
Written by `python -m benchmarks.studies.facts --write`; do not edit. Facts (`jgleak.facts`) of clients with molecules
of Tox21, by what they train and how. A cell is the share of clients of which the fact is given, in percent, with the
number of wrong ones behind it where there is one; in brackets where `exact_under` does not name the protocol, so that
the fact is not proved there. *raw*: 0/1 columns, GCN 2 x 128 with bias, mean pooled, two classes; *normalised*: the
same on normalised columns; *tasks*: twelve tasks with missing labels; *layers*: an MLP for every node, width 300."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    clients: Annotated[str, typer.Option(help="By commas.")] = ",".join(CLIENTS),
    protocols: Annotated[str, typer.Option(help="By commas.")] = ",".join(PROTOCOLS),
    number: Annotated[int, typer.Option(min=1, help="Clients a cell.")] = 50,
    write: Annotated[bool, typer.Option("--write", help="Into results/facts.jsonl and .md.")] = False,
) -> None:
    """One JSON line for what clients train and how; lines that are not asked for keep their records."""
    kept = Kept("facts", {"clients": CLIENTS, "protocol": PROTOCOLS}, document, write=write)
    for name in chosen(clients, CLIENTS, "--clients"):
        for protocol in chosen(protocols, PROTOCOLS, "--protocols"):
            kept.put(measured(name, protocol, number))
    print(table(list(kept)))


def measured(name: str, protocol: str, number: int) -> Record:
    """One row of the table: how often every fact is given, is proved for the protocol, and is wrong."""
    how = PROTOCOLS[protocol]
    setup = _headed(prepare(dataclasses.replace(CLIENTS[name], graphs=number * how.graphs)))
    given, proved, wrong = (dict.fromkeys(FACTS, 0) for _ in range(3))
    for client in range(number):
        truths = setup.dataset.graphs[client * how.graphs : (client + 1) * how.graphs]
        observation, path = observed(setup, how, truths, client)
        for fact in facts(observation, setup.dataset.space, noise=how.noise).found.values():
            given[fact.name] += 1
            proved[fact.name] += all(protocol in fact.exact_under for protocol in how.under)
            wrong[fact.name] += not right(fact.name, fact.value, setup, truths, path)
    return {
        "clients": name,
        "protocol": protocol,
        "number": number,
        "given": given,
        "proved": proved,
        "wrong": wrong,
        **provenance(),
    }


def _headed(setup: Setup) -> Setup:
    """With two linear maps behind the pooled states, as most models have."""
    if not isinstance(setup.model.readout, Pooled):
        return setup
    model = setup.model.clone(readout=Pooled("mean", MLP((64, setup.model.outputs))))
    return setup._replace(model=model, params=model.initial(key=stream_key(COMMON, 0)))


def observed(setup: Setup, how: Protocol, truths: Sequence[Graph], client: int) -> tuple[Observation, list[Params]]:
    """What the server sees, and the weights at which gradients were taken."""

    def gradient(params: Params) -> Observation:
        return fedsgd(
            setup.model,
            params,
            truths,
            setup.dataset.space,
            loss=setup.loss,
            defense=parse(how.defense),
            key=stream_key(COMMON, client + 1),
        )

    if how.optimiser is None:
        return gradient(setup.params), [setup.params]
    make, rate = how.optimiser
    optimiser, params, path = make(rate), setup.params, []
    state = optimiser.init(params)
    for _ in range(STEPS_MADE):
        path.append(params)
        step, state = optimiser.update(gradient(params).update, state, params)
        params = jax.device_get(optax.apply_updates(params, step))
    length = np.float32(rate * STEPS_MADE)
    update = jax.tree.map(lambda a, b: (np.asarray(a) - np.asarray(b)) / length, setup.params, params)
    local = LocalTraining(rate, STEPS_MADE)
    return Observation(setup.model, setup.params, update, setup.loss, 1, "fedavg", local), path


def right(name: str, value: Any, setup: Setup, truths: Sequence[Graph], path: Sequence[Params]) -> bool:
    """A fact beside the truth."""
    space, labels = setup.dataset.space, [graph.y for graph in truths]
    rows = np.unique(np.concatenate([graph.x for graph in truths]), axis=0)
    if name == "feature_values":
        columns = {n: rows[:, space.index(n)] for n in value}
        return all(space.features[space.index(n)].values.index(v) in columns[n] for n in value for v in value[n])
    if name == "different_nodes":
        return value <= len(rows)
    if name == "node_kinds":
        kinds = [{f.name: f.values[int(code)] for f, code in zip(space.features, row, strict=True)} for row in rows]
        sure = [value["in_span"][k] for k in value["needed"]]
        return all(any(kind.items() <= true.items() for true in kinds) for kind in sure)
    if name == "nodes":
        return truths[0].n == value["exactly"] if "exactly" in value else truths[0].n % value["multiple_of"] == 0
    if name == "graphs":
        return value <= len(truths)
    if name == "label":
        return value == _plain(labels[0])
    if name == "classes":
        return all(_occurs(labels, place, entry) for place, entry in enumerate(value))
    if name == "class_counts":
        counts = np.bincount(np.array(labels, int), minlength=len(value["at_least"]))
        return bool(np.all(value["at_least"] <= counts) and np.all(counts <= value["at_most"]))
    if name == "units":
        on = _on(setup, truths, path)
        return all(count["on"] <= on.get(place, count["of"]) for place, count in value.items())
    raise KeyError(name)


def _plain(label: Any) -> Any:
    if np.ndim(label) == 0:
        return int(label)
    return [None if np.isnan(entry) else int(entry) for entry in np.ravel(label)]


def _occurs(labels: Sequence[Any], place: int, entry: Any) -> bool:
    if isinstance(entry, list):
        return all(any(np.ravel(y)[place] == one for y in labels) for one in entry)
    return any(int(y) == entry for y in labels)


def _on(setup: Setup, truths: Sequence[Graph], path: Sequence[Params]) -> dict[str, int]:
    """How many units of each convolution are on at some node of some graph in some step."""
    batch, found = GraphBatch.from_graphs(truths, setup.dataset.space), dict[str, np.ndarray]()
    for params in path:
        for number, on in enumerate(_units(setup.model, params, batch)):
            place = f"layers_{number}"
            found[place] = found.get(place, False) | np.asarray(on)
    return {place: int(on.sum()) for place, on in found.items()}


@partial(jax.jit, static_argnames=("model",))
def _units(model: GNN, params: Params, batch: GraphBatch) -> list[jax.Array]:
    states = jax.vmap(lambda graph: model.apply({"params": params}, *graph, method="states"))(batch.dense)
    return [(state > 0).any(axis=(0, 1)) for state in states[1:]]


def document(lines: Sequence[Record]) -> str:
    """The page."""
    return f"# Facts\n\n{ABOUT}\n\n{table(lines)}\n"


def table(lines: Sequence[Record]) -> str:
    """What clients train, the protocol, and a column a fact."""
    rows = []
    for line in lines:
        cells = []
        for name in FACTS:
            given, proved, wrong = (line[what][name] for what in ("given", "proved", "wrong"))
            share = f"{100 * given / line['number']:.0f}" if given else "-"
            share = f"({share})" if given and proved < given else share
            cells.append(share + (f" **{wrong} wrong**" if wrong else ""))
        rows.append([line["clients"], PROTOCOLS[line["protocol"]].title, *cells])
    return markdown(("clients", "protocol", *(name.replace("_", " ") for name in FACTS)), rows)


if __name__ == "__main__":
    app()
