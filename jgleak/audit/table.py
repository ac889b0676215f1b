"""Records as tables and text."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from jgleak.attacks.attack import Reconstruction
from jgleak.attacks.certificate import Certificate
from jgleak.audit.compilations import lost_to_compilation
from jgleak.audit.describe import describe
from jgleak.audit.outcome import ended_by_time
from jgleak.audit.record import RATES, SOFT
from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.plural import counted

ENDINGS = "ended: unique, no other graph fits; 1 of k, the likeliest of k that fit; k+, others are not excluded"
"""The legend of ``_ending``."""

REASONS = 5
"""Most reasons that are printed."""


def clients_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """One row for each client; names are truncated to the remaining width."""
    table = Table(expand=True, box=SIMPLE_HEAD, padding=0)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("name", overflow="ellipsis", no_wrap=True, ratio=1)
    for column in ("nodes", "exact", "GSM-0", "GSM-1", "GSM-2", "distance", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    for r in records:
        distance = r["gradient_distance"]
        table.add_row(
            str(r["graph"]),
            Text(r["name"]),
            str(r["n_nodes"]),
            *(_rates(r) if r["attacked"] else "----"),
            "-" if distance is None else f"{distance:.1e}",
            f"{r['seconds']:.2f}",
            _ending(r),
        )
    if any(r["certificate"] for r in records):
        table.caption, table.caption_justify = ENDINGS, "left"
    return table


def _rates(record: Mapping[str, Any]) -> list[str]:
    return ["yes" if record["exact"] else "no", *(f"{record[name]:.3f}" for name in ("gsm0", "gsm1", "gsm2"))]


def _ending(record: Mapping[str, Any]) -> str:
    """The certificate in a word or two; without one the reason why the attack stopped."""
    certificate = record["certificate"]
    if certificate is None:
        return record["stop"]
    size = certificate["size"]
    return {"unique": "unique", "k_graphs": f"1 of {size}", "at_least_k": f"1 of {size}+"}[certificate["status"]]


def reasons(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The reasons that attacks give, each with its clients, the most frequent first."""
    said: dict[str, list[str]] = {}
    for record in records:
        reason = record["info"].get("reason")
        if reason:
            said.setdefault(reason, []).append(str(record["graph"]))
    lines = [
        f"graph{'s' * (len(graphs) > 1)} {', '.join(graphs)}: {reason}"
        for reason, graphs in sorted(said.items(), key=lambda item: -len(item[1]))
    ]
    more = [f"{len(lines) - REASONS} more reasons are in the records (--json, --out)"] if len(lines) > REASONS else []
    return lines[:REASONS] + more


def compilation_line(records: Sequence[Mapping[str, Any]]) -> str | None:
    """The time of compilation for clients whose search the time limit ended; None where it was small, or there are
    none."""
    late = [r for r in records if ended_by_time(r["stop"], r["info"].get("reason"))]
    return lost_to_compilation(sum(r["seconds"] for r in late), sum(r["seconds_compiling"] for r in late))


def audit_compilation_line(records: Sequence[Mapping[str, Any]]) -> str | None:
    """The time of compilation over all attacks of an audit, and the attacks that it cut short; None where there was
    none."""
    seconds, compiling = (sum(r.get(name, 0.0) for r in records) for name in ("seconds", "seconds_compiling"))
    again = [r["seconds_discarded"] for r in records if r.get("seconds_discarded")]
    if not compiling and not again:
        return None
    said = f"compilation took {compiling:.1f} s of {seconds:.1f} s"
    if again:
        said += (
            f"; {counted(len(again), 'attack')} ran again, since compilation had cut the search short: the "
            f"{sum(again):.1f} s of earlier runs count nowhere"
        )
    lost = sum(r.get("cut_short", False) for r in records)
    return said + (f"; {counted(lost, 'attack')} still ended early for it: give a longer time_limit" if lost else "")


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Rates over all clients (in batches: over all graphs) with their 95 % intervals, then exact reconstructions by
    size. The last column has the number of clients (graphs) of each mean."""
    clients, attack, batches = summary["attacked"], summary["specification"]["attack"], summary.get("batches")
    one = "graph" if batches else "client"
    who = f"{counted(clients, one)} of {counted(batches, 'client')}" if batches else counted(clients, one)
    title = f"{attack}: {who} in {summary['seconds_total']:.1f} s ({summary['device']})"
    title += f", {counted(summary['compilations'], 'compilation')} in {summary['seconds_compiling']:.1f} s of it; "
    title += f"at most {summary['seconds_most']:.1f} s a {one} without them"
    table = Table(title=title, title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
    for column in ("metric", "mean", "low", "high", "mean of"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for name in RATES:
        interval = summary[name] or {}
        table.add_row(name, *(_number(interval.get(k)) for k in ("mean", "low", "high")), str(clients))
    if clients < summary["graphs"]:
        table.add_row(f"not attacked, without an update: {summary['graphs'] - clients}", "", "", "", "")
    if summary["listed"]:
        table.add_row("truth among the listed graphs", _number(summary["truth_in_set_rate"]), "", "", str(clients))
        table.add_row(
            "exact if one of the listed graphs is drawn", _number(summary["guess_rate"]), "", "", str(clients)
        )
    twins = summary["twins"]
    table.caption = f"mean of: number of {one}s; low, high: the 95 % interval of the mean"
    if batches:
        table.caption += "; intervals take the graphs of a client as one observation"
    if twins:
        who = "1 reconstruction differs" if twins == 1 else f"{twins} reconstructions differ"
        table.caption += f"\n{who} from the truth with a matching gradient, which cannot tell the two apart"
    if batches:
        name = f"whole batches exact, of {batches}"
        table.add_row(name, _number(summary["batches_exact_rate"]), "", "", "")
    if summary["unique"]:
        table.add_row("certified unique", _number(summary["unique"] / clients), "", "", str(clients))
    for title, what, metric in SOFT:
        for order, words in (("aligned", "aligned"), ("file_order", "in file order")):
            if summary[what] and summary["counts"][metric]:
                mean = summary[what][order][metric]
                table.add_row(f"{title}, {words}", _number(mean), "", "", str(summary["counts"][metric]))
    if summary["target_error"] is not None:
        count = str(summary["counts"]["target_error"])
        table.add_row("target's feature RNMSE", _number(summary["target_error"]), "", "", count)
    for size, rate in summary["exact_rate_by_size"].items():
        table.add_row(f"exact, {size} nodes", _number(rate), "", "", str(summary["sizes"][size]))
    return table


def _label_text(graph: Graph) -> str:
    """The label, or the labels of several tasks, ``-`` where one is missing."""
    if graph.y is None:
        return "label unknown"
    if not isinstance(graph.y, np.ndarray) or graph.y.ndim != 2:
        return f"label {graph.y}"
    return f"labels {' '.join('-' if np.isnan(y) else f'{y:g}' for y in graph.y[0].tolist())}"


def graph_table(graph: Graph, space: FeatureSpace) -> Table:
    """One row for each node, with its neighbours and the classes of the edges to them. Features that all nodes share
    are printed once, and features that others determine are left out.
    """
    free = {f.name for f in space.features if f.determined_by is None}
    words = describe(graph, space)
    nodes = [{name: value for name, value in node.items() if name in free} for node in words["nodes"]]
    names = words.get("edge_classes", [""] * len(graph.edges))
    along = {frozenset(edge): f" {name}".rstrip() for edge, name in zip(words["edges"], names, strict=True)}
    shared = [item for item in nodes[0].items() if graph.n > 1 and all(item in node.items() for node in nodes)]
    title = f"{counted(graph.n, 'node')}, {counted(len(graph.edges), 'edge')}, {_label_text(graph)}"
    table = Table("node", "features", "neighbours", title=title, title_justify="left", box=SIMPLE_HEAD)
    for v, (node, near) in enumerate(zip(nodes, graph.neighbours, strict=True)):
        own = [item for item in node.items() if item not in shared]
        around = ", ".join(f"{u}{along[frozenset((u, v))]}" for u in sorted(near))
        table.add_row(str(v), Text(_words(own)), Text(around))
    if shared:
        table.caption, table.caption_justify = Text(f"all nodes: {_words(shared)}"), "left"
    return table


def certificate_text(certificate: Certificate, *, batch: bool = False, verbose: bool = True) -> str:
    """What a certificate claims, and under which conditions.

    Args:
      certificate: the certificate.
      batch: it certifies a batch of several graphs, not a single graph.
      verbose: print every condition, rather than a line for each kind.
    """
    size, most = certificate.size, certificate.n_max
    graph, graphs = ("batch", "batches of connected graphs") if batch else ("graph", "connected graphs")
    many = "batches" if batch else "graphs"
    scope = f"{graphs} of {most} nodes" if certificate.n_known else f"{graphs} of up to {most} nodes"
    some = f"1 {graph} among {scope} has" if size == 1 else f"{size} {many} among {scope} have"
    claims = {
        "unique": f"no other {graph} among {scope} has this gradient",
        "k_graphs": f"exactly {size} {many} among {scope} have this gradient",
        "at_least_k": f"at least {some} this gradient; others were not excluded",
    }
    conditions = _conditions(certificate.conditions, verbose)
    return f"certificate: {claims[certificate.status]} (recomputed to {certificate.residual:.0e}){conditions}"


def members_conditions(members: Sequence[Reconstruction], *, verbose: bool = True) -> str | None:
    """Under which conditions the certificates hold of some graphs of a batch; None where there is no certificate.

    Args:
      members: what was found of each.
      verbose: print every condition, rather than a line for each kind.
    """
    certificates = [one.certificate for one in members if one.certificate is not None]
    if not certificates:
        return None
    every = dict.fromkeys(itertools.chain.from_iterable(one.conditions for one in certificates))
    return f"what is said of other graphs holds:{_conditions(tuple(every), verbose)}"


def _conditions(conditions: Sequence[str], verbose: bool) -> str:
    listed = list(conditions) if verbose else _kinds(conditions)
    lines = "".join(f"\n  if {condition}" for condition in listed)
    return lines + (
        f"\n  (all {len(conditions)} conditions: --verbose, --json)" if len(listed) < len(conditions) else ""
    )


CHECKED = re.compile(r"no true .* fails the (\w+) check ")
"""How the condition of a span check begins."""


def _kinds(conditions: Sequence[str]) -> list[str]:
    """A line for each kind of condition: span checks together, and conditions that differ in numbers alone."""
    checks = Counter(found[1] for one in conditions if (found := CHECKED.match(one)))
    said = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in checks.items())
    kinds: dict[str, list[str]] = {}
    for one in conditions:
        kinds.setdefault("checks" if CHECKED.match(one) else re.sub(r"\d+", "#", one), []).append(one)
    return [
        f"no true row fails its span check: {said}"
        if kind == "checks" and len(alike) > 1
        else alike[0] + (f" (and {len(alike) - 1} alike)" if len(alike) > 1 else "")
        for kind, alike in kinds.items()
    ]


def member_text(member: Reconstruction) -> str:
    """The certificate of one graph of a batch, on one line."""
    certificate = member.certificate
    if certificate is None:
        return "nothing is claimed about other graphs"
    size, most = certificate.size, f"of up to {certificate.n_max} nodes"
    return {
        "unique": f"no other connected graph {most} explains this part of the update",
        "k_graphs": f"the likeliest of exactly {size} connected graphs {most} that explain this part of the update",
        "at_least_k": f"the likeliest of {size} or more connected graphs {most} that explain this part of the update",
    }[certificate.status]


def _words(items: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in items)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
