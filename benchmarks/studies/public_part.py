"""GraphDLG on MUTAG with other public graphs, for the same clients: ``python -m benchmarks.studies.public_part``."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.lib.clients import attacked
from benchmarks.lib.page import markdown
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from benchmarks.papers.edges.table import Attacker, Column
from benchmarks.papers.graphdlg.rows import COLUMNS, GRAPHDLG
from jgleak.audit.clients import client_graphs
from jgleak.audit.setup import Setup, prepare
from jgleak.audit.specification import Specification
from jgleak.graph import Graph, distinct
from jgleak.metrics import bootstrap, rate

ATTACKS = ("graphdlg", "graphdlg-refined", "file-habit", "mean-adjacency")

AGAINST = (
    ("graphdlg", "mean-adjacency"),
    ("graphdlg", "file-habit"),
    ("graphdlg-refined", "mean-adjacency"),
    ("graphdlg-refined", "file-habit"),
)

SHOWN = ("node ACC", "AUC", "AP", "node ACC aligned", "AUC aligned")

COMPARED = tuple(column for column in COLUMNS if column.title in SHOWN)

ABOUT = """\
Written by `python -m benchmarks.studies.public_part --write`; do not edit. GraphDLG's model on MUTAG, the {clients}
clients of `results/graphdlg.md`, and what an attack makes of them with other public graphs. *Split* is the public part
of the table: the smaller part of a Dirichlet split by label. *Balanced* has as many graphs, half of them of each class,
and *drawn* as many without regard to class, both at random from all distinct graphs that are no client's (numbers tell
the draws apart); *all* has all of these. Means over clients; in brackets, by how much it is higher than with the split,
client by client, with a 95 % bootstrap interval. The second table compares attacks with the same public graphs."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Parts = Mapping[str, Sequence[Graph]]


@app.command()
def main(
    row: Annotated[str, typer.Option(help="A row of GraphDLG's table whose public graphs are one part of a split.")] = (
        "mutag"
    ),
    draws: Annotated[int, typer.Option(min=1, help="Of each kind of random part.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Into results/public_part.jsonl and .md.")] = False,
) -> None:
    """One JSON line a public part and attack."""
    records = Records()
    line = next(line for line in GRAPHDLG.rows if line.name == row)
    setup = prepare(dataclasses.replace(line.experiment, know=("n", "auxiliary"), attack="empty"))
    records.say(provenance() | {"row": row, "clients": len(setup.dataset.graphs), "seed": seed})
    for name, public in parts(line.experiment, setup, draws, seed).items():
        classes = dict(sorted(Counter(int(graph.y) for graph in public if isinstance(graph.y, int)).items()))
        for method in (method for method in GRAPHDLG.methods if method.name in ATTACKS):
            found = measured(line.specification(method), method, setup._replace(public=tuple(public)))
            records.say({"public": name, "graphs": len(public), "classes": classes, "attack": method.name} | found)
    if write:
        records.write("public_part", document(records))


def parts(specification: Specification, setup: Setup, draws: int, seed: int) -> dict[str, Sequence[Graph]]:
    """Public graphs by name; none is isomorphic to a client's."""
    whole = client_graphs(dataclasses.replace(specification, auxiliary="same", graphs=None))
    private = {graph.canonical_form() for graph in setup.dataset.graphs}
    free = [graph for graph in distinct(whole.graphs) if graph.canonical_form() not in private]
    size, labels = len(setup.public), np.array([graph.y for graph in free])
    named: dict[str, Sequence[Graph]] = {"split": setup.public}
    rng = np.random.default_rng(seed)
    classes = np.unique(labels)
    for i in range(1, draws + 1):
        shares = [size // len(classes) + (k < size % len(classes)) for k in range(len(classes))]
        members = [
            rng.choice(np.flatnonzero(labels == c), n, replace=False) for c, n in zip(classes, shares, strict=True)
        ]
        named[f"balanced-{i}"] = [free[k] for k in np.sort(np.concatenate(members))]
    for i in range(1, draws + 1):
        named[f"drawn-{i}"] = [free[k] for k in np.sort(rng.choice(len(free), size, replace=False))]
    return named | {"all": free}


def measured(specification: Specification, method: Attacker, setup: Setup) -> dict[str, Any]:
    """Means of an attack and the clients' own values."""
    clients = attacked(specification, setup, method.name, lambda *_: None)
    values = {column.title: [_number(column.of(client)) for client in clients] for column in COMPARED}
    means = {title: dataclasses.asdict(rate(column)) for title, column in values.items()}
    return {"means": means, "values": values}


def _number(value: float | None) -> float:
    """These attacks always answer, and every graph has edges."""
    assert value is not None
    return value


def document(lines: Sequence[Mapping[str, Any]]) -> str:
    """The page."""
    first, *records = lines
    by = {(record["public"], record["attack"]): record for record in records}
    names = list(dict.fromkeys(record["public"] for record in records))
    about = ABOUT.format(clients=first["clients"])
    head = ("", "public graphs (of each class)", *(f"{column.title} ↑" for column in COMPARED))
    title = f"# GraphDLG on {first['row']} with other public graphs"
    tables = [markdown(head, list(_lines(by, names))), markdown(head, list(_against(by, names)))]
    return "\n\n".join((title, about, *tables, f"On {first['host']}.")) + "\n"


def _lines(by: Mapping[tuple[str, str], Mapping[str, Any]], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for attack in ATTACKS:
        for name in names:
            record, split = by[name, attack], by["split", attack]
            cells = (
                f"{record['means'][column.title]['mean']:.3f}"
                + ("" if name == "split" else f" ({_difference(record, split, column)})")
                for column in COMPARED
            )
            yield (f"`{attack}`, {name}", _size(record), *cells)


def _against(by: Mapping[tuple[str, str], Mapping[str, Any]], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for one, other in AGAINST:
        for name in names:
            pair = by[name, one], by[name, other]
            yield (f"`{one}` less `{other}`, {name}", _size(pair[0]), *(_difference(*pair, c) for c in COMPARED))


def _size(record: Mapping[str, Any]) -> str:
    return f"{record['graphs']} ({' + '.join(str(count) for count in record['classes'].values())})"


def _difference(one: Mapping[str, Any], other: Mapping[str, Any], column: Column) -> str:
    pairs = np.array([one["values"][column.title], other["values"][column.title]], float)
    found = bootstrap(pairs[0] - pairs[1])
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


if __name__ == "__main__":
    app()
